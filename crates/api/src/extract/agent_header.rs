//! VCAP 5.4: `X-Agent-Id` and `X-Agent-Signature`. They sign neither path nor body and can be
//! replayed, so they open nothing but reads (decision 5).

use std::time::Duration;

use axum::http::request::Parts;
use bytes::Bytes;
use http::{HeaderMap, Method};
use skep_base::{Timestamp, ed25519::Signature, hash::sha256};
use skep_wire::http_signature::KeyId;

use super::Signed;
use crate::{
    api::Api,
    code::Code,
    frame::{self, SignerLimit},
    problem::ApiError,
};

const AGENT_ID: &str = "x-agent-id";
const AGENT_SIGNATURE: &str = "x-agent-signature";
/// How far the header's time may be from ours.
const SKEW: Duration = Duration::from_secs(60);

/// A read that these headers sign; `None` if they are not there.
pub(super) async fn read(parts: &Parts, api: &Api) -> Result<Option<Signed>, ApiError> {
    let headers = &parts.headers;
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_read || headers.contains_key("signature-input") || !headers.contains_key(AGENT_ID) {
        return Ok(None);
    }
    let (Some(agent), Some(signature)) = (one(headers, AGENT_ID), one(headers, AGENT_SIGNATURE))
    else {
        return Err(malformed("X-Agent-Id and X-Agent-Signature come together, once each"));
    };
    let name: KeyId = agent.parse().map_err(|_| malformed("X-Agent-Id is an address or a DID"))?;
    // The time may have a point of its own.
    let (time, signed) =
        signature.rsplit_once('.').ok_or_else(|| malformed("expected TIME.SIGNATURE"))?;
    let at: Timestamp = time.parse().map_err(|_| malformed("the time is not ISO 8601"))?;
    let signed: Signature =
        signed.parse().map_err(|_| malformed("the signature is not base64url"))?;
    let now = frame::now();
    if at.plus(SKEW) < now {
        return Err(Code::SignatureExpired.into());
    }
    if at > now.plus(SKEW) {
        return Err(Code::SignatureNotYetValid.into());
    }
    let known = api.keys.read(&api.market, &name).await?;
    let words = format!("{agent}{time}");
    known.key.verify(words.as_bytes(), &signed).map_err(|_| ApiError::from(Code::BadSignature))?;
    if let Some(limit) = parts.extensions.get::<SignerLimit>() {
        limit.spend(known.agent, &parts.method)?;
    }
    let by = skep_market::Signed {
        agent: known.agent,
        key: known.key,
        nonce: String::new(),
        expires_at: at.plus(SKEW),
        fingerprint: sha256(words.as_bytes()),
        idempotency_key: None,
    };
    Ok(Some(Signed { by, body: Bytes::new() }))
}

fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(value)), None) => Some(value),
        _ => None,
    }
}

fn malformed(reason: &str) -> ApiError {
    ApiError::new(Code::SignatureMalformed, reason)
}
