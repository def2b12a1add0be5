//! What handlers get: a signed request, a JSON body, an id of the path, a query.

mod agent_header;

use std::{fmt, str::FromStr};

use axum::{
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::request::Parts,
};
use bytes::Bytes;
use http::header;
use serde::de::DeserializeOwned;
use skep_base::{AgentId, hash::sha256_parts};
use skep_wire::http_signature::{
    self, IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_LEN_MAX, KeyId, Message, Parsed, SignatureError,
};

use crate::{
    api::Api,
    body,
    code::Code,
    frame::{self, SignerLimit},
    keys::Known,
    problem::ApiError,
};

/// A request whose signature holds.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) by: skep_market::Signed,
    pub(crate) body: Bytes,
}

impl Signed {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        body::parse(&self.body)
    }

    /// Where every field has a default, the body may be left out.
    pub(crate) fn json_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        self.json()
    }

    /// Only the agent itself may see what is its own.
    pub(crate) async fn must_be(&self, api: &Api, name: &KeyId) -> Result<AgentId, ApiError> {
        let is_self = api.agent_id(name).await? == self.by.agent;
        if is_self {
            return Ok(self.by.agent);
        }
        let detail = format!("{} may not see what belongs to {name}", self.by.agent);
        Err(ApiError::new(Code::NotYours, detail))
    }
}

impl FromRequest<Api> for Signed {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Signed, ApiError> {
        let (parts, body) = request.into_parts();
        if let Some(read) = agent_header::read(&parts, api).await? {
            return Ok(read);
        }
        // What needs no body is refused before one is read.
        let parsed = http_signature::parse(&parts.headers)?;
        let idempotency_key = idempotency_key(&parts)?;
        let body = body::read(body, &body::limits(parts.uri.path(), &api.limits)).await?;
        if !body.is_empty() {
            body::check_type(&parts.headers)?;
        }
        let message = Message {
            method: parts.method.as_str(),
            authority: authority(&parts)?,
            path: parts.uri.path(),
            query: parts.uri.query(),
            headers: &parts.headers,
            body: &body,
        };
        parsed.check(&message, frame::now(), |name| api.is_own_name(name))?;
        let known = verify(api, &parsed, &message).await?;
        if let Some(limit) = parts.extensions.get::<SignerLimit>() {
            limit.spend(known.agent, &parts.method)?;
        }
        let by = skep_market::Signed {
            agent: known.agent,
            key: known.key,
            fingerprint: fingerprint(&message),
            nonce: parsed.nonce,
            expires_at: parsed.expires,
            idempotency_key,
        };
        Ok(Signed { by, body })
    }
}

/// Verifies with the remembered key, and with the market's word if that fails: the agent may have
/// changed its key a moment ago.
async fn verify(api: &Api, parsed: &Parsed, message: &Message<'_>) -> Result<Known, ApiError> {
    if let Some(known) = api.keys.remembered(&parsed.key_id)
        && parsed.verify(message, &known.key).is_ok()
    {
        return Ok(known);
    }
    let known = api.keys.read(&api.market, &parsed.key_id).await?;
    parsed.verify(message, &known.key)?;
    Ok(known)
}

/// What was asked, whatever it was signed with: a retry that is signed again is the same request.
fn fingerprint(message: &Message<'_>) -> skep_base::Hash32 {
    let query = message.query.map(|query| format!("?{query}")).unwrap_or_default();
    let parts = [message.method.as_bytes(), message.path.as_bytes(), query.as_bytes()];
    let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
    sha256_parts(&[
        &lengths[0],
        parts[0],
        &lengths[1],
        parts[1],
        &lengths[2],
        parts[2],
        message.body,
    ])
}

fn idempotency_key(parts: &Parts) -> Result<Option<String>, ApiError> {
    let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_good = |key: &&str| {
        (1..=IDEMPOTENCY_KEY_LEN_MAX).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match value.to_str().ok().filter(is_good) {
        Some(key) if values.next().is_none() => Ok(Some(key.to_owned())),
        _ => Err(Code::MalformedIdempotencyKey.into()),
    }
}

/// For whom the request is: HTTP/2 says it in the URI, HTTP/1 in `Host`.
fn authority(parts: &Parts) -> Result<&str, SignatureError> {
    if let Some(authority) = parts.uri.authority() {
        return Ok(authority.as_str());
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    match (hosts.next().map(|host| host.to_str()), hosts.next()) {
        (Some(Ok(host)), None) => Ok(host),
        _ => Err(SignatureError::WrongAudience { authority: String::new() }),
    }
}

/// A JSON body of a request that needs no signature of its own.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Api> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<JsonBody<T>, ApiError> {
        let (parts, body) = request.into_parts();
        body::check_type(&parts.headers)?;
        let body = body::read(body, &body::limits(parts.uri.path(), &api.limits)).await?;
        body::parse(&body).map(JsonBody)
    }
}

/// A JSON body that carries its own signature, of a request that may be signed as well: some
/// answers say more to whom they belong.
#[derive(Debug)]
pub(crate) struct MaybeSigned<T> {
    pub(crate) by: Option<AgentId>,
    pub(crate) value: T,
}

impl<T: DeserializeOwned> FromRequest<Api> for MaybeSigned<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<MaybeSigned<T>, ApiError> {
        if request.headers().contains_key("signature-input") {
            let signed = Signed::from_request(request, api).await?;
            return Ok(MaybeSigned { by: Some(signed.by.agent), value: signed.json()? });
        }
        let JsonBody(value) = JsonBody::from_request(request, api).await?;
        Ok(MaybeSigned { by: None, value })
    }
}

/// Who asks, where a request need not be signed: some answers are for one agent only.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Option<AgentId>);

impl FromRequest<Api> for Caller {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Caller, ApiError> {
        let names_signer = |name: &&str| request.headers().contains_key(*name);
        if !["signature-input", "x-agent-id"].iter().any(names_signer) {
            return Ok(Caller(None));
        }
        Ok(Caller(Some(Signed::from_request(request, api).await?.by.agent)))
    }
}

/// The names that agents go by where scores are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AgentName {
    Key(KeyId),
    /// The id of its passport, which is all that a publication says.
    Passport(String),
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentName::Key(name) => name.fmt(f),
            AgentName::Passport(id) => id.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an agent is named by 0x and 40 hex digits, by did:swarm: and 64, or by its passport's id")]
pub(crate) struct ParseAgentNameError;

impl FromStr for AgentName {
    type Err = ParseAgentNameError;

    fn from_str(text: &str) -> Result<AgentName, ParseAgentNameError> {
        if is_uuid(text) {
            return Ok(AgentName::Passport(text.to_ascii_lowercase()));
        }
        text.parse().map(AgentName::Key).map_err(|_| ParseAgentNameError)
    }
}

fn is_uuid(text: &str) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let fits = |(place, byte): (usize, u8)| match DASHES.contains(&place) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

/// The one id in the path.
#[derive(Debug)]
pub(crate) struct PathId<T>(pub(crate) T);

impl<T: FromStr<Err: std::fmt::Display>> FromRequestParts<Api> for PathId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, api).await;
        let malformed =
            |reason: &dyn std::fmt::Display| ApiError::new(Code::MalformedId, reason.to_string());
        let params = params.map_err(|error| malformed(&error))?;
        let (_, id) = params.iter().next().unwrap_or_default();
        id.parse().map(PathId).map_err(|error: T::Err| malformed(&error))
    }
}

/// The two ids in the path.
#[derive(Debug)]
pub(crate) struct PathPair<A, B>(pub(crate) A, pub(crate) B);

impl<A, B> FromRequestParts<Api> for PathPair<A, B>
where
    A: FromStr<Err: std::fmt::Display>,
    B: FromStr<Err: std::fmt::Display>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let malformed = |reason: String| ApiError::new(Code::MalformedId, reason);
        let params = RawPathParams::from_request_parts(parts, api).await;
        let params = params.map_err(|error| malformed(error.to_string()))?;
        let mut ids = params.iter().map(|(_, id)| id);
        let (first, second) = (ids.next().unwrap_or_default(), ids.next().unwrap_or_default());
        let first = first.parse().map_err(|error: A::Err| malformed(error.to_string()))?;
        let second = second.parse().map_err(|error: B::Err| malformed(error.to_string()))?;
        Ok(PathPair(first, second))
    }
}

/// The query, every parameter of it known.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Api> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Query<T>, ApiError> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Query(query)),
            Err(error) => Err(ApiError::new(Code::MalformedQuery, error.body_text())),
        }
    }
}
