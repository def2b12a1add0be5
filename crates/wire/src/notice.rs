//! Notices by webhook, after Standard Webhooks: how they are signed, and what became of them.

use std::{fmt, str::FromStr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use skep_base::{
    Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    id::EventId,
};

#[cfg(test)]
mod tests;

/// The event's id: the same on every attempt, so that a receiver can tell a repetition.
pub const WEBHOOK_ID: &str = "webhook-id";
/// When the attempt was made, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// `v1a,` and the signature in base64; several are separated by spaces.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// How far a notice's time may be from the receiver's.
pub const NOTICE_AGE_MAX: Duration = Duration::from_secs(300);

/// Ed25519, as Standard Webhooks names it.
const SCHEME: &str = "v1a";
const KEY_PREFIX: &str = "whpk_";

/// The key that notices are signed with, as receivers know it: `whpk_` and base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookKey(pub PublicKey);

impl fmt::Display for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KEY_PREFIX}{}", STANDARD.encode(self.0.as_bytes()))
    }
}

/// The text is no key for notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {KEY_PREFIX} and the 32 bytes of an Ed25519 public key in base64")]
pub struct NotAWebhookKey;

impl FromStr for WebhookKey {
    type Err = NotAWebhookKey;

    fn from_str(text: &str) -> Result<WebhookKey, NotAWebhookKey> {
        let bytes = text.strip_prefix(KEY_PREFIX).and_then(|rest| STANDARD.decode(rest).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(NotAWebhookKey)?;
        PublicKey::from_bytes(bytes).map(WebhookKey).map_err(|_| NotAWebhookKey)
    }
}

impl TryFrom<String> for WebhookKey {
    type Error = NotAWebhookKey;

    fn try_from(text: String) -> Result<WebhookKey, NotAWebhookKey> {
        text.parse()
    }
}

impl From<WebhookKey> for String {
    fn from(key: WebhookKey) -> String {
        key.to_string()
    }
}

/// Why a notice is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoticeError {
    #[error("the notice has no header {0}, or it cannot be read")]
    Header(&'static str),
    #[error("the notice is more than {} minutes away from now", NOTICE_AGE_MAX.as_secs() / 60)]
    NotFresh,
    #[error("the notice is not signed by this key")]
    BadSignature,
}

/// What goes with a notice: its id, its time and the signature over both and the body.
pub fn sign(
    key: &SecretKey,
    id: &EventId,
    at: Timestamp,
    body: &[u8],
) -> [(&'static str, String); 3] {
    let (id, seconds) = (id.to_string(), (at.as_ms() / 1000).to_string());
    let signature = key.sign(&signed_bytes(&id, &seconds, body));
    let signature = format!("{SCHEME},{}", STANDARD.encode(signature.as_bytes()));
    [(WEBHOOK_ID, id), (WEBHOOK_TIMESTAMP, seconds), (WEBHOOK_SIGNATURE, signature)]
}

/// Whether a notice was signed by this key, and lately: an old one may be a repetition by somebody
/// who overheard it.
pub fn verify(
    key: &WebhookKey,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<(), NoticeError> {
    let text = |name| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.ok_or(NoticeError::Header(name))
    };
    let (id, seconds) = (text(WEBHOOK_ID)?, text(WEBHOOK_TIMESTAMP)?);
    let at: i64 = seconds.parse().map_err(|_| NoticeError::Header(WEBHOOK_TIMESTAMP))?;
    let at = Timestamp::from_ms(at.saturating_mul(1000));
    if now.since(at).max(at.since(now)) > NOTICE_AGE_MAX {
        return Err(NoticeError::NotFresh);
    }
    let signed = signed_bytes(id, seconds, body);
    let holds = |one: &str| {
        let signature = one.split_once(',').filter(|(scheme, _)| *scheme == SCHEME);
        let bytes = signature.and_then(|(_, text)| STANDARD.decode(text).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.is_some_and(|bytes| key.0.verify(&signed, &Signature(bytes)).is_ok())
    };
    match text(WEBHOOK_SIGNATURE)?.split(' ').any(holds) {
        true => Ok(()),
        false => Err(NoticeError::BadSignature),
    }
}

fn signed_bytes(id: &str, seconds: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat()
}

/// What an attempt to deliver a notice led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum WebhookOutcome {
    /// The receiver answered with a status from 200 to 299.
    Delivered,
    /// It is tried again, not before this time.
    Retry {
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        retry_at: Timestamp,
    },
    /// The receiver said 410 Gone, or it failed too often.
    GivenUp,
}

/// A line of `GET /v1/agents/{id}/webhook-log`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttempt {
    /// When the attempt ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub event_id: EventId,
    /// The event's kind, such as `transfer.posted`.
    #[cfg_attr(feature = "openapi", schema(example = "transfer.posted"))]
    pub kind: String,
    /// From 1.
    pub attempt: i64,
    /// What the receiver answered, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "timeout"))]
    pub error: Option<String>,
    #[serde(flatten)]
    pub outcome: WebhookOutcome,
}

/// `GET /.well-known/skep-keys`: the node's keys, each for its one use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeKeys {
    /// Signs the end of the event log.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub log: PublicKey,
    /// Signs what the marketplace decides about deals.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub settlement: PublicKey,
    /// Signs notices, after Standard Webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub webhook: Option<WebhookKey>,
}
