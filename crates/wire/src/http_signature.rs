//! Signed HTTP requests: RFC 9421 in the one profile that Skep speaks, for both sides.
//!
//! A request is signed whole: method, authority, path, query, body (through its digest, RFC 9530)
//! and the headers that change its meaning. What the signature leaves out could be changed on the
//! way, so a signature that leaves out any of it is refused.

use std::{fmt, str::FromStr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use sfv::{BareItem, Dictionary, FieldType, InnerList, ListEntry, Parser, key_ref, string_ref};
use skep_base::{
    AgentId, Did, Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    hash::sha256,
};

#[cfg(test)]
mod tests;

/// The longest time between `created` and `expires`.
pub const LIFETIME_MAX: Duration = Duration::from_secs(300);
/// How far the clocks of the two sides may differ.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(30);
pub const NONCE_LEN_MIN: usize = 16;
pub const NONCE_LEN_MAX: usize = 128;
pub const IDEMPOTENCY_KEY_LEN_MAX: usize = 128;
/// The longest `Signature-Input`, so that nobody makes us parse a novel.
const SIGNATURE_INPUT_LEN_MAX: usize = 4096;

/// Tells our signatures from those that a proxy or another protocol adds.
pub const TAG: &str = "skep";
const ALGORITHM: &str = "ed25519";
const LABEL: &str = "skep";

pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub const SIGNATURE: HeaderName = HeaderName::from_static("signature");
pub const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");

/// A request as both sides see it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub method: &'a str,
    /// The host, with its port where the URL has one, as the `Host` header says it.
    pub authority: &'a str,
    pub path: &'a str,
    /// Without the question mark; `Some("")` where the URL ends with one.
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// Why a signed request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the request has no signature with tag=\"{TAG}\"")]
    Missing,
    #[error("the signature is malformed: {0}")]
    Malformed(String),
    #[error("the signature must cover {component}")]
    NotCovered { component: &'static str },
    #[error("the signature expired at {expires}: sign again, or check the clock")]
    Expired { expires: Timestamp },
    #[error("the signature is from the future ({created}): check the clock")]
    NotYetValid { created: Timestamp },
    #[error("a signature lives at most {} seconds, not {seconds}", LIFETIME_MAX.as_secs())]
    LifetimeTooLong { seconds: i64 },
    #[error("the request was signed for {authority:?}, which is not a name of this node")]
    WrongAudience { authority: String },
    #[error("the body does not have the digest that Content-Digest says")]
    DigestMismatch,
    #[error("no key is known for {key_id}")]
    UnknownKey { key_id: String },
    #[error("the signature does not verify with the key of {key_id}")]
    BadSignature { key_id: String },
}

impl SignatureError {
    /// Stable: programs decide by it.
    pub const fn code(&self) -> &'static str {
        match self {
            SignatureError::Missing => "signature_missing",
            SignatureError::Malformed(_) => "signature_malformed",
            SignatureError::NotCovered { .. } => "signature_not_covered",
            SignatureError::Expired { .. } => "signature_expired",
            SignatureError::NotYetValid { .. } => "signature_not_yet_valid",
            SignatureError::LifetimeTooLong { .. } => "signature_lifetime_too_long",
            SignatureError::WrongAudience { .. } => "wrong_audience",
            SignatureError::DigestMismatch => "digest_mismatch",
            SignatureError::UnknownKey { .. } => "unknown_key",
            SignatureError::BadSignature { .. } => "bad_signature",
        }
    }
}

/// Whose key signed. The key itself is looked up: a request cannot bring its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyId {
    Agent(AgentId),
    Did(Did),
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyId::Agent(agent) => agent.fmt(f),
            KeyId::Did(did) => did.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an agent is named by 0x and 40 hex digits, or by did:swarm: and 64")]
pub struct ParseKeyIdError;

impl FromStr for KeyId {
    type Err = ParseKeyIdError;

    fn from_str(text: &str) -> Result<KeyId, ParseKeyIdError> {
        if text.starts_with("did:") {
            return text.parse().map(KeyId::Did).map_err(|_| ParseKeyIdError);
        }
        text.parse().map(KeyId::Agent).map_err(|_| ParseKeyIdError)
    }
}

/// Who signs, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    pub key: &'a SecretKey,
    pub key_id: KeyId,
    /// Never used before: the node remembers it.
    pub nonce: &'a str,
    pub created: Timestamp,
    pub lifetime: Duration,
}

/// Signs a request and says which headers to add. `Content-Type` and `Idempotency-Key`, where they
/// are sent, must be among its headers already.
pub fn sign(
    message: &Message<'_>,
    signer: &Signer<'_>,
) -> Result<Vec<(HeaderName, HeaderValue)>, SignatureError> {
    let mut headers = message.headers.clone();
    let mut added = Vec::with_capacity(3);
    if !message.body.is_empty() {
        let digest = header_value(content_digest(message.body))?;
        headers.insert(CONTENT_DIGEST, digest.clone());
        added.push((CONTENT_DIGEST, digest));
    }
    let message = Message { headers: &headers, ..*message };
    let components = required(&message);
    let params = signer.params(&components)?;
    let base = base(&components, &params, &message)?;
    let signature = STANDARD.encode(signer.key.sign(base.as_bytes()).as_bytes());
    added.push((SIGNATURE_INPUT, header_value(format!("{LABEL}={params}"))?));
    added.push((SIGNATURE, header_value(format!("{LABEL}=:{signature}:"))?));
    Ok(added)
}

impl Signer<'_> {
    /// The components and parameters as they are sent and signed.
    fn params(&self, components: &[&str]) -> Result<String, SignatureError> {
        check_nonce(self.nonce)?;
        let mut list = InnerList::default();
        for component in components {
            list.items.push(sfv::Item::new(sfv_string(component)?));
        }
        let created = seconds(self.created);
        let lifetime = i64::try_from(self.lifetime.as_secs()).unwrap_or(i64::MAX);
        if self.lifetime > LIFETIME_MAX {
            return Err(SignatureError::LifetimeTooLong { seconds: lifetime });
        }
        let integer = |number: i64| {
            sfv::Integer::try_from(number).map_err(|_| malformed("the time is out of range"))
        };
        let params = [
            ("created", BareItem::Integer(integer(created)?)),
            ("expires", BareItem::Integer(integer(created + lifetime)?)),
            ("nonce", BareItem::String(sfv_string(self.nonce)?)),
            ("keyid", BareItem::String(sfv_string(&self.key_id.to_string())?)),
            ("alg", BareItem::String(string_ref(ALGORITHM).to_owned())),
            ("tag", BareItem::String(string_ref(TAG).to_owned())),
        ];
        for (name, value) in params {
            list.params.insert(key_ref(name).to_owned(), value);
        }
        Ok(inner_list_text(&list))
    }
}

/// A signature as it was sent; nothing in it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    components: Vec<String>,
    params: String,
    signature: Signature,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub nonce: String,
    pub key_id: KeyId,
}

/// Reads the one signature with our tag from a request's headers.
pub fn parse(headers: &HeaderMap) -> Result<Parsed, SignatureError> {
    let inputs = dictionary(headers, &SIGNATURE_INPUT)?.ok_or(SignatureError::Missing)?;
    let ours = inputs.iter().filter_map(|(label, entry)| match entry {
        ListEntry::InnerList(list) if text(list, "tag") == Some(TAG) => Some((label, list)),
        _ => None,
    });
    let ours: Vec<_> = ours.collect();
    let (label, list) = match ours.as_slice() {
        [] => return Err(SignatureError::Missing),
        [one] => *one,
        _ => return Err(malformed("there are two signatures with our tag")),
    };
    let signatures = dictionary(headers, &SIGNATURE)?.ok_or(SignatureError::Missing)?;
    let Some(ListEntry::Item(item)) = signatures.get(label) else {
        return Err(malformed("Signature has no member with the label of Signature-Input"));
    };
    let signature = item.bare_item.as_byte_sequence().and_then(|bytes| bytes.try_into().ok());
    let signature = signature.ok_or_else(|| malformed("an Ed25519 signature is 64 bytes"))?;
    Parsed::read(list, Signature::from_bytes(signature))
}

impl Parsed {
    fn read(list: &InnerList, signature: Signature) -> Result<Parsed, SignatureError> {
        let mut components: Vec<String> = Vec::with_capacity(list.items.len());
        for item in &list.items {
            let name = item.bare_item.as_string().map(|name| name.as_str());
            let name = name.ok_or_else(|| malformed("a component is a string"))?;
            if !item.params.is_empty() {
                return Err(malformed("components with parameters are not taken here"));
            }
            if components.iter().any(|known| known == name) {
                return Err(malformed("a component is listed twice"));
            }
            components.push(name.to_owned());
        }
        const KNOWN: [&str; 6] = ["created", "expires", "nonce", "keyid", "alg", "tag"];
        if list.params.keys().any(|name| !KNOWN.contains(&name.as_str())) {
            return Err(malformed("it has a parameter that is not known here"));
        }
        if text(list, "alg") != Some(ALGORITHM) {
            return Err(malformed("alg must be \"ed25519\""));
        }
        let nonce = text(list, "nonce").ok_or_else(|| malformed("nonce is missing"))?;
        check_nonce(nonce)?;
        let key_id = text(list, "keyid").ok_or_else(|| malformed("keyid is missing"))?;
        let key_id = key_id.parse().map_err(|e: ParseKeyIdError| malformed(&e.to_string()))?;
        let (created, expires) = (time(list, "created")?, time(list, "expires")?);
        Ok(Parsed {
            components,
            params: inner_list_text(list),
            signature,
            created,
            expires,
            nonce: nonce.to_owned(),
            key_id,
        })
    }

    /// Everything that can be judged without the key: coverage, times, audience and digest.
    pub fn check(
        &self,
        message: &Message<'_>,
        now: Timestamp,
        is_own_name: impl Fn(&str) -> bool,
    ) -> Result<(), SignatureError> {
        for component in required(message) {
            if !self.components.iter().any(|covered| covered == component) {
                return Err(SignatureError::NotCovered { component });
            }
        }
        let seconds = seconds(self.expires) - seconds(self.created);
        if seconds <= 0 {
            return Err(malformed("expires must be after created"));
        }
        if seconds.unsigned_abs() > LIFETIME_MAX.as_secs() {
            return Err(SignatureError::LifetimeTooLong { seconds });
        }
        if now > self.good_until() {
            return Err(SignatureError::Expired { expires: self.expires });
        }
        if self.created > now.plus(CLOCK_SKEW_MAX) {
            return Err(SignatureError::NotYetValid { created: self.created });
        }
        let authority = message.authority.to_ascii_lowercase();
        if !is_own_name(&authority) {
            return Err(SignatureError::WrongAudience { authority });
        }
        check_digest(message)
    }

    /// Until when the request can be taken, by a clock that runs late too. The nonce must be
    /// remembered at least as long.
    pub fn good_until(&self) -> Timestamp {
        self.expires.plus(CLOCK_SKEW_MAX)
    }

    /// What was signed, if the request is this one.
    pub fn base(&self, message: &Message<'_>) -> Result<String, SignatureError> {
        let components: Vec<&str> = self.components.iter().map(String::as_str).collect();
        base(&components, &self.params, message)
    }

    /// Whether this key signed this request. Call [`Parsed::check`] as well.
    pub fn verify(&self, message: &Message<'_>, key: &PublicKey) -> Result<(), SignatureError> {
        let base = self.base(message)?;
        key.verify(base.as_bytes(), &self.signature)
            .map_err(|_| SignatureError::BadSignature { key_id: self.key_id.to_string() })
    }
}

/// The components that a signature over this request must cover.
fn required(message: &Message<'_>) -> Vec<&'static str> {
    let mut components = vec!["@method", "@authority", "@path"];
    if message.query.is_some() {
        components.push("@query");
    }
    if !message.body.is_empty() {
        components.extend(["content-digest", "content-type"]);
    }
    if message.headers.contains_key(&IDEMPOTENCY_KEY) {
        components.push("idempotency-key");
    }
    components
}

/// The signature base. RFC 9421, 2.5.
fn base(components: &[&str], params: &str, m: &Message<'_>) -> Result<String, SignatureError> {
    let mut base = String::with_capacity(512);
    for component in components {
        let value = component_value(component, m)?;
        base.push_str(&format!("\"{component}\": {value}\n"));
    }
    base.push_str(&format!("\"@signature-params\": {params}"));
    Ok(base)
}

fn component_value(component: &str, message: &Message<'_>) -> Result<String, SignatureError> {
    match component {
        "@method" => Ok(message.method.to_owned()),
        "@authority" => Ok(message.authority.to_ascii_lowercase()),
        "@path" if message.path.is_empty() => Ok("/".to_owned()),
        "@path" => Ok(message.path.to_owned()),
        "@query" => Ok(format!("?{}", message.query.unwrap_or_default())),
        derived if derived.starts_with('@') => {
            Err(malformed(&format!("the component {derived} is not taken here")))
        }
        name => header_text(message.headers, name),
    }
}

/// A header's lines as one value. RFC 9421, 2.1.
fn header_text(headers: &HeaderMap, name: &str) -> Result<String, SignatureError> {
    let mut lines = Vec::new();
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(malformed("the names of headers are in lower case"));
    }
    for line in headers.get_all(name) {
        let line = line.to_str().map_err(|_| malformed("a covered header is not ASCII"))?;
        lines.push(line.trim());
    }
    // These two must have one meaning; a list of them has none.
    let is_single = [CONTENT_TYPE.as_str(), IDEMPOTENCY_KEY.as_str()].contains(&name);
    match lines.len() {
        0 => Err(malformed(&format!("the covered header {name} was not sent"))),
        2.. if is_single => Err(malformed(&format!("the header {name} was sent twice"))),
        _ => Ok(lines.join(", ")),
    }
}

/// `Content-Digest` of a body. RFC 9530.
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(sha256(body)))
}

fn check_digest(message: &Message<'_>) -> Result<(), SignatureError> {
    let digests = match dictionary(message.headers, &CONTENT_DIGEST)? {
        Some(digests) => digests,
        None if message.body.is_empty() => return Ok(()),
        None => return Err(malformed("Content-Digest is missing")),
    };
    let Some(ListEntry::Item(item)) = digests.get("sha-256") else {
        return Err(malformed("Content-Digest has no sha-256"));
    };
    match item.bare_item.as_byte_sequence() {
        Some(digest) if digest == sha256(message.body).as_bytes() => Ok(()),
        _ => Err(SignatureError::DigestMismatch),
    }
}

/// The header's lines read as one structured dictionary; `None` where it was not sent.
fn dictionary(
    headers: &HeaderMap,
    name: &HeaderName,
) -> Result<Option<Dictionary>, SignatureError> {
    let mut lines = Vec::new();
    for line in headers.get_all(name) {
        lines.push(line.to_str().map_err(|_| malformed(&format!("{name} is not ASCII")))?);
    }
    if lines.is_empty() {
        return Ok(None);
    }
    let joined = lines.join(", ");
    if joined.len() > SIGNATURE_INPUT_LEN_MAX {
        return Err(malformed(&format!("{name} is longer than {SIGNATURE_INPUT_LEN_MAX} bytes")));
    }
    let parsed = Parser::new(&joined).parse::<Dictionary>();
    parsed.map(Some).map_err(|error| malformed(&format!("{name}: {error}")))
}

/// An inner list alone, in the one form that RFC 9651 gives it.
fn inner_list_text(list: &InnerList) -> String {
    vec![ListEntry::InnerList(list.clone())].serialize().unwrap_or_default()
}

fn text<'a>(list: &'a InnerList, name: &str) -> Option<&'a str> {
    list.params.get(name)?.as_string().map(|text| text.as_str())
}

fn time(list: &InnerList, name: &str) -> Result<Timestamp, SignatureError> {
    let number = list.params.get(name).and_then(BareItem::as_integer).map(i64::from);
    let number = number.filter(|number| (0..=seconds(Timestamp::MAX)).contains(number));
    match number {
        Some(number) => Ok(Timestamp::from_ms(number * 1000)),
        None => Err(malformed(&format!("{name} must be given in seconds since 1970"))),
    }
}

fn seconds(time: Timestamp) -> i64 {
    time.as_ms().div_euclid(1000)
}

fn check_nonce(nonce: &str) -> Result<(), SignatureError> {
    let is_visible = nonce.bytes().all(|byte| byte.is_ascii_graphic());
    if is_visible && (NONCE_LEN_MIN..=NONCE_LEN_MAX).contains(&nonce.len()) {
        return Ok(());
    }
    Err(malformed("a nonce is 16 to 128 visible ASCII characters"))
}

fn sfv_string(text: &str) -> Result<sfv::String, SignatureError> {
    sfv::String::from_string(text.to_owned()).map_err(|(error, _)| malformed(&error.to_string()))
}

fn header_value(text: String) -> Result<HeaderValue, SignatureError> {
    HeaderValue::from_str(&text).map_err(|error| malformed(&error.to_string()))
}

fn malformed(reason: &str) -> SignatureError {
    SignatureError::Malformed(reason.to_owned())
}
