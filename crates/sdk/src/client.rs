//! The way of a call: made once, signed for every try, sent until it is answered.

use std::{
    fmt::Write,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use reqwest::Url;
use serde::{Serialize, de::DeserializeOwned};
use skep_base::{
    AgentId, Timestamp,
    ed25519::SecretKey,
    id::{Id, Kind},
};
use skep_wire::{
    http_signature::{self, IDEMPOTENCY_KEY, KeyId, Message, Signer},
    problem::Problem,
};

use crate::{Error, Retries};

/// How long a signature is good: enough for a slow network, little for a thief.
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A little more than the node takes at most.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(35);
/// The same for an action of a browser.
pub(crate) const BROWSER_TIMEOUT: Duration = Duration::from_secs(155);
/// Nodes end idle connections after 10 seconds; it is better to be first.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection to one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    identity: Option<Arc<Identity>>,
    retries: Retries,
}

#[derive(Debug)]
struct Identity {
    agent: AgentId,
    key: SecretKey,
}

/// What a write answered, and whether it had answered so before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    pub value: T,
    /// The request had been carried out already; this is its first answer.
    pub replayed: bool,
}

/// One call, the same for every try.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Bytes>,
    pub(crate) signed: bool,
    pub(crate) idempotency_key: Option<String>,
    /// The node may take minutes.
    pub(crate) patient: bool,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Call {
        Call {
            method: Method::GET,
            path: path.into(),
            query: Vec::new(),
            body: None,
            signed: false,
            idempotency_key: None,
            patient: false,
        }
    }

    pub(crate) fn post<T: Serialize>(path: impl Into<String>, body: &T) -> Result<Call, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Request(error.to_string()))?;
        Ok(Call { method: Method::POST, body: Some(body.into()), ..Call::get(path) })
    }

    pub(crate) fn delete(path: impl Into<String>) -> Call {
        Call { method: Method::DELETE, ..Call::get(path) }
    }

    pub(crate) fn patient(self) -> Call {
        Call { patient: true, ..self }
    }

    pub(crate) fn signed(self) -> Call {
        Call { signed: true, ..self }
    }

    /// Signs it if the client can: some answers say more to whom they belong.
    pub(crate) fn signed_if(self, signed: bool) -> Call {
        Call { signed, ..self }
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Call {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }
}

impl Client {
    /// A client of the node at `url`, such as `http://127.0.0.1:4020`.
    pub fn new(url: &str) -> Result<Client, Error> {
        let bad = |reason: &str| Error::Url { url: url.to_owned(), reason: reason.to_owned() };
        let parsed = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(bad("it begins with http:// or https:// and names a host"));
        }
        if parsed.path() != "/" || parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(bad("it has no path"));
        }
        // Another part of the process may have chosen a provider already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            // A signature is for one address; following a redirect would break it.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("skep-sdk/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Error::Setup)?;
        Ok(Client { http, url: parsed, identity: None, retries: Retries::default() })
    }

    /// The same with another HTTP client, for a private certificate authority, say. It must not
    /// follow redirects.
    pub fn with_http(self, http: reqwest::Client) -> Client {
        Client { http, ..self }
    }

    /// Signs as this agent.
    pub fn with_key(self, agent: AgentId, key: SecretKey) -> Client {
        Client { identity: Some(Arc::new(Identity { agent, key })), ..self }
    }

    pub fn with_retries(self, retries: Retries) -> Client {
        Client { retries, ..self }
    }

    /// The agent that signs, if there is one.
    pub fn agent_id(&self) -> Option<AgentId> {
        self.identity.as_ref().map(|identity| identity.agent)
    }

    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// A new id of the caller's choosing, for a transfer say.
    pub fn new_id<K: Kind>() -> Result<Id<K>, Error> {
        Ok(Id::new(now(), entropy()?))
    }

    /// Sends a call until it is answered or may not be sent again.
    pub(crate) async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<Written<T>, Error> {
        let mut call = call.clone();
        let is_write = call.method != Method::GET;
        if is_write && call.signed && call.idempotency_key.is_none() {
            // The same for every try, so that a lost answer is found and not repeated.
            call.idempotency_key = Some(random_word()?);
        }
        let mut attempt = 1;
        loop {
            let error = match self.send_once(&call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let jitter: [u8; 1] = entropy()?;
            match self.retries.pause(attempt, &error, jitter[0]) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(error),
            }
            attempt += 1;
        }
    }

    async fn send_once<T: DeserializeOwned>(&self, call: &Call) -> Result<Written<T>, Error> {
        let mut url = self.url.clone();
        url.set_path(&call.path);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let mut headers = HeaderMap::new();
        if call.body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        if let Some(key) = &call.idempotency_key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                let reason = "an idempotency key is visible ASCII".to_owned();
                Error::Sign(http_signature::SignatureError::Malformed(reason))
            })?;
            headers.insert(IDEMPOTENCY_KEY, value);
        }
        let body = call.body.clone().unwrap_or_default();
        if call.signed {
            self.sign(call, &url, &body, &mut headers)?;
        }
        let lost = |source: reqwest::Error| Error::Connection {
            url: self.url().to_owned(),
            source: source.without_url(),
        };
        let mut request = self.http.request(call.method.clone(), url).headers(headers).body(body);
        if call.patient {
            request = request.timeout(BROWSER_TIMEOUT);
        }
        read(request.send().await.map_err(lost)?).await?.map_err(lost)
    }

    fn sign(
        &self,
        call: &Call,
        url: &Url,
        body: &Bytes,
        headers: &mut HeaderMap,
    ) -> Result<(), Error> {
        let identity = self.identity.as_ref().ok_or(Error::NoKey)?;
        let mut authority = url.host_str().unwrap_or_default().to_owned();
        if let Some(port) = url.port() {
            // Writing to a string cannot fail.
            let _ = write!(authority, ":{port}");
        }
        let message = Message {
            method: call.method.as_str(),
            authority: &authority,
            path: url.path(),
            query: url.query(),
            headers,
            body,
        };
        let signer = Signer {
            key: &identity.key,
            key_id: KeyId::Agent(identity.agent),
            nonce: &random_word()?,
            created: now(),
            lifetime: SIGNATURE_LIFETIME,
        };
        let added = http_signature::sign(&message, &signer).map_err(Error::Sign)?;
        headers.extend(added);
        Ok(())
    }
}

/// Reads an answer. The inner result fails where the connection did.
async fn read<T: DeserializeOwned>(
    mut response: reqwest::Response,
) -> Result<Result<Written<T>, reqwest::Error>, Error> {
    let status = response.status();
    let headers = response.headers();
    let replayed = headers.get("idempotent-replayed").is_some_and(|value| value == "true");
    let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let unreadable = |reason: &dyn ToString| Error::Answer {
        status: status.as_u16(),
        reason: reason.to_string(),
    };
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Err(error) => return Ok(Err(error)),
            Ok(None) => break,
            Ok(Some(chunk)) if body.len() + chunk.len() > ANSWER_BYTES_MAX => {
                return Err(unreadable(&"it is too long"));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
        }
    }
    if status.is_success() {
        let value = serde_json::from_slice(&body).map_err(|error| unreadable(&error))?;
        return Ok(Ok(Written { value, replayed }));
    }
    let problem: Problem = serde_json::from_slice(&body).map_err(|error| unreadable(&error))?;
    let retry_after = wait.map(Duration::from_secs);
    Err(Error::Problem { problem: Box::new(problem), retry_after })
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

fn entropy<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::Entropy(error.to_string()))?;
    Ok(bytes)
}

/// 32 hex digits that nobody has used.
fn random_word() -> Result<String, Error> {
    let bytes: [u8; 16] = entropy()?;
    let mut word = String::with_capacity(32);
    for byte in bytes {
        let _ = write!(word, "{byte:02x}");
    }
    Ok(word)
}
