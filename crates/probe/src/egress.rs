//! The one client for addresses that strangers name (decision 34).
//!
//! Each hop is judged in full: the URL before anything is sent, the addresses of its name when
//! they are resolved, once, and the connection goes to those alone. There is no proxy, no cookie,
//! no decompression and no reuse of connections, and one deadline covers everything from the
//! first lookup to the last byte.

pub(crate) mod address;
pub(crate) mod resolve;
pub(crate) mod target;

use std::{error::Error as StdError, io, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::Response;
use url::Url;

use self::resolve::GuardedResolver;
pub use self::resolve::{LookingUp, Lookup, SystemLookup};

/// What may be fetched, and how much of it.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether 127.0.0.0/8 and ::1 may be reached, for `--dev`.
    pub allow_loopback: bool,
    /// Whether addresses without TLS are fetched from other machines.
    pub allow_http: bool,
    pub connect_timeout: Duration,
    /// For the whole of a fetch, its redirects and its body included.
    pub timeout: Duration,
    pub redirects_max: usize,
    /// In bytes; a longer body is an error.
    pub body_max: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            allow_loopback: false,
            allow_http: true,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(20),
            redirects_max: 5,
            body_max: 4 * 1024 * 1024,
        }
    }
}

/// What to send. Headers that steer the connection (`host`, `content-length`, …) are refused.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub follow_redirects: bool,
    /// Instead of the policy's.
    pub body_max: Option<usize>,
}

impl Request {
    pub fn get(url: impl Into<String>) -> Request {
        Request {
            method: Method::GET,
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            follow_redirects: true,
            body_max: None,
        }
    }

    /// A POST that follows no redirect: its body is meant for one address.
    pub fn post(url: impl Into<String>, body: Vec<u8>) -> Request {
        Request { method: Method::POST, body, follow_redirects: false, ..Request::get(url) }
    }
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub status: u16,
    pub final_url: String,
    /// The addresses that redirected, in order; the final one is not among them.
    pub hops: Vec<String>,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Fetched {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("the address {url:?} is not fetched: {reason}")]
    BadUrl { url: String, reason: String },
    #[error("the header {name:?} cannot be sent")]
    BadHeader { name: String },
    // Whoever asked is not told what a private name server says.
    #[error("{host} is refused: it is, or leads to, no address of the public internet")]
    ForbiddenAddress { host: String, ip: IpAddr },
    #[error("{host} is refused: it is a name of a private network")]
    ForbiddenName { host: String },
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("{host} has no good TLS: {reason}")]
    Tls { host: String, reason: String },
    #[error("there was no full answer within {} ms", limit.as_millis())]
    Timeout { limit: Duration },
    #[error("the answer is longer than {max} bytes")]
    BodyTooLarge { max: usize },
    #[error("there are more than {max} redirects")]
    TooManyRedirects { max: usize },
    #[error("the redirect to {to:?} is refused: {reason}")]
    RefusedRedirect { to: String, reason: &'static str },
    #[error("the answer is packed as {encoding:?}, which was not asked for")]
    EncodedBody { encoding: String },
    #[error("the client cannot be set up: {reason}")]
    Setup { reason: String },
}

impl EgressError {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            EgressError::BadUrl { .. } => "bad_url",
            EgressError::BadHeader { .. } => "bad_header",
            EgressError::ForbiddenAddress { .. } | EgressError::ForbiddenName { .. } => {
                "refused_address"
            }
            EgressError::Unreachable { .. } => "unreachable",
            EgressError::Tls { .. } => "tls",
            EgressError::Timeout { .. } => "timeout",
            EgressError::BodyTooLarge { .. } => "too_large",
            EgressError::TooManyRedirects { .. } => "too_many_redirects",
            EgressError::RefusedRedirect { .. } => "refused_redirect",
            EgressError::EncodedBody { .. } => "encoded_body",
            EgressError::Setup { .. } => "setup",
        }
    }
}

/// The guarded client. Clones share it.
#[derive(Clone, Debug)]
pub struct Egress {
    http: reqwest::Client,
    policy: Arc<Policy>,
    lookup: Arc<dyn Lookup>,
}

impl Egress {
    pub fn new(policy: Policy) -> Result<Egress, EgressError> {
        Egress::with_lookup(policy, Arc::new(SystemLookup))
    }

    /// The same with names resolved in another way.
    pub fn with_lookup(policy: Policy, lookup: Arc<dyn Lookup>) -> Result<Egress, EgressError> {
        // Another part of the process may have chosen a provider already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .dns_resolver(GuardedResolver {
                lookup: Arc::clone(&lookup),
                allow_loopback: policy.allow_loopback,
            })
            .connect_timeout(policy.connect_timeout)
            .user_agent(concat!("skep/", env!("CARGO_PKG_VERSION")))
            // A proxy would resolve names itself, out of our sight.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            // Each fetch has a connection of its own, to an address judged for it.
            .pool_max_idle_per_host(0)
            // Whatever features others switch on: a small body must not grow when unpacked.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .build()
            .map_err(|error| EgressError::Setup { reason: error.to_string() })?;
        Ok(Egress { http, policy: Arc::new(policy), lookup })
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Where names become addresses, for what else has to be judged as this client judges.
    pub(crate) fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::clone(&self.lookup)
    }

    pub async fn get(&self, url: &str) -> Result<Fetched, EgressError> {
        self.send(Request::get(url)).await
    }

    pub async fn send(&self, request: Request) -> Result<Fetched, EgressError> {
        let limit = self.policy.timeout;
        let late = |_| EgressError::Timeout { limit };
        tokio::time::timeout(limit, self.follow(request)).await.map_err(late)?
    }

    async fn follow(&self, request: Request) -> Result<Fetched, EgressError> {
        let mut url = target::judge(&request.url, &self.policy)?;
        let mut headers = readied(&request.headers)?;
        let mut method = request.method;
        let mut body = request.body;
        let mut hops = Vec::new();
        loop {
            let sent = self
                .http
                .request(method.clone(), url.clone())
                .headers(headers.clone())
                .body(body.clone())
                .send()
                .await;
            let response = sent.map_err(|error| self.explain(&url, &error))?;
            let to = redirect_target(&response).filter(|_| request.follow_redirects);
            let Some(to) = to else {
                let max = request.body_max.unwrap_or(self.policy.body_max);
                return self.read(response, url, hops, max).await;
            };
            if hops.len() >= self.policy.redirects_max {
                return Err(EgressError::TooManyRedirects { max: self.policy.redirects_max });
            }
            let next = self.judge_redirect(&url, &to)?;
            // 303, and what browsers have always made of 301 and 302 after a POST.
            let keeps_method = matches!(response.status().as_u16(), 307 | 308);
            if !keeps_method && method != Method::HEAD {
                (method, body) = (Method::GET, Vec::new());
                headers.remove(header::CONTENT_TYPE);
            }
            if next.origin() != url.origin() {
                if !body.is_empty() {
                    let reason = "the body is meant for another host";
                    return Err(EgressError::RefusedRedirect { to: next.into(), reason });
                }
                headers = for_strangers(&headers);
            }
            hops.push(url.to_string());
            url = next;
        }
    }

    fn judge_redirect(&self, from: &Url, to: &str) -> Result<Url, EgressError> {
        let bad = |error: url::ParseError| EgressError::BadUrl {
            url: to.chars().take(200).collect(),
            reason: error.to_string(),
        };
        let next = target::judge(from.join(to).map_err(bad)?.as_str(), &self.policy)?;
        if from.scheme() == "https" && next.scheme() == "http" {
            let reason = "it leads from https to http";
            return Err(EgressError::RefusedRedirect { to: next.into(), reason });
        }
        Ok(next)
    }

    async fn read(
        &self,
        mut response: Response,
        url: Url,
        hops: Vec<String>,
        max: usize,
    ) -> Result<Fetched, EgressError> {
        if let Some(encoding) = response.headers().get(header::CONTENT_ENCODING)
            && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
        {
            let encoding = String::from_utf8_lossy(encoding.as_bytes()).into_owned();
            return Err(EgressError::EncodedBody { encoding });
        }
        let too_large = EgressError::BodyTooLarge { max };
        if response.content_length().is_some_and(|length| length > max as u64) {
            return Err(too_large);
        }
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| self.explain(&url, &error))?
        {
            if chunk.len() > max - body.len() {
                return Err(too_large);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Fetched {
            status: response.status().as_u16(),
            final_url: url.into(),
            hops,
            headers: std::mem::take(response.headers_mut()),
            body,
        })
    }

    /// Finds the cause below the layers that it came through.
    fn explain(&self, url: &Url, error: &reqwest::Error) -> EgressError {
        let host = url.host_str().unwrap_or_default().to_owned();
        let mut cause: &(dyn StdError + 'static) = error;
        loop {
            if let Some(refusal) = cause.downcast_ref::<EgressError>() {
                return refusal.clone();
            }
            if let Some(tls) = tls_error(cause) {
                return EgressError::Tls { host, reason: tls.to_string() };
            }
            match cause.source() {
                Some(deeper) => cause = deeper,
                None if error.is_timeout() => {
                    return EgressError::Timeout { limit: self.policy.connect_timeout };
                }
                None => return EgressError::Unreachable { host, reason: cause.to_string() },
            }
        }
    }
}

/// An I/O error does not name what it wraps as its source, and may wrap another of its kind.
fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref().or_else(|| tls_error(error.downcast_ref::<io::Error>()?.get_ref()?))
}

fn redirect_target(response: &Response) -> Option<String> {
    use StatusCode as S;
    let redirects = matches!(
        response.status(),
        S::MOVED_PERMANENTLY
            | S::FOUND
            | S::SEE_OTHER
            | S::TEMPORARY_REDIRECT
            | S::PERMANENT_REDIRECT
    );
    let location = response.headers().get(header::LOCATION).filter(|_| redirects)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Headers that belong to the connection or to this client.
const NOT_THE_CALLERS: &[HeaderName] = &[
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::PROXY_AUTHORIZATION,
];

fn readied(headers: &[(String, String)]) -> Result<HeaderMap, EgressError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = || EgressError::BadHeader { name: name.clone() };
        let key: HeaderName = name.parse().map_err(|_| bad())?;
        if NOT_THE_CALLERS.contains(&key) {
            return Err(bad());
        }
        map.append(key, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    map.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(map)
}

/// Keeps what tells another origin nothing: tokens and signatures come under many names.
fn for_strangers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in [header::ACCEPT, header::ACCEPT_LANGUAGE, header::ACCEPT_ENCODING] {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_never_leaves_tls() {
        let egress = Egress::new(Policy::default()).unwrap();
        let from = Url::parse("https://example.com/a").unwrap();
        let code = |to: &str| egress.judge_redirect(&from, to).map_err(|error| error.code());
        assert_eq!(code("http://example.com/b"), Err("refused_redirect"));
        assert_eq!(code("//example.org/b").unwrap().as_str(), "https://example.org/b");
        assert_eq!(code("b").unwrap().as_str(), "https://example.com/b");
        assert_eq!(code("https://192.168.0.1/"), Err("refused_address"));
        assert_eq!(code("https://"), Err("bad_url"));
    }
}
