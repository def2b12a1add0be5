//! What surrounds every request: its id, its span, its limits, its counters, and an answer
//! whatever happens.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use skep_base::{Clock, Timestamp, id::RequestId};
use skep_store::SystemClock;
use tower_http::cors::CorsLayer;
use tracing::Instrument;

use crate::{
    body,
    code::Code,
    config::{Config, Limits},
    connection::Peer,
    problem::ApiError,
    rate::{Caller, Cost, Limiter, Verdicts},
};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REQUEST_ID_LEN_MAX: usize = 64;
/// Asked all the time, and costs nothing.
const UNLIMITED: &str = "/healthz";
/// Writes nothing, though what it asks needs a body.
const READS_BY_POST: &str = "/x402/verify";
/// Web pages of allowed origins need not ask again for this long.
const CORS_MAX_AGE: Duration = Duration::from_secs(3600);

/// What the layers need to know.
#[derive(Debug)]
pub(crate) struct Frame {
    limits: Limits,
    limiter: Option<Limiter>,
    behind_proxy: bool,
    is_tls: bool,
    cors_origins: Vec<HeaderValue>,
}

impl Frame {
    pub(crate) fn new(config: &Config) -> Frame {
        let origins = config.cors_origins.iter();
        Frame {
            limits: config.limits,
            limiter: config.rates.map(Limiter::new),
            behind_proxy: config.behind_proxy,
            is_tls: config.tls.is_some(),
            cors_origins: origins.filter_map(|origin| origin.parse().ok()).collect(),
        }
    }

    /// Puts the layers round the routes.
    pub(crate) fn wrap(self, routes: Router) -> Router {
        let cors = self.cors();
        let frame = Arc::new(self);
        let mut routes = routes
            .fallback(async || ApiError::from(Code::NotFound))
            .method_not_allowed_fallback(async || ApiError::from(Code::MethodNotAllowed))
            .layer(from_fn_with_state(frame.clone(), limit));
        if let Some(cors) = cors {
            routes = routes.layer(cors);
        }
        routes.layer(from_fn_with_state(frame, surround))
    }

    /// Closed unless origins were named.
    fn cors(&self) -> Option<CorsLayer> {
        if self.cors_origins.is_empty() {
            return None;
        }
        let request = [
            "content-type",
            "content-digest",
            "idempotency-key",
            "signature",
            "signature-input",
            "x-request-id",
        ];
        let exposed = ["idempotent-replayed", "ratelimit", "ratelimit-policy", "x-request-id"];
        let layer = CorsLayer::new()
            .allow_origin(self.cors_origins.clone())
            .allow_methods([Method::GET, Method::POST, Method::DELETE])
            .allow_headers(request.map(HeaderName::from_static))
            .expose_headers(exposed.map(HeaderName::from_static))
            .max_age(CORS_MAX_AGE);
        Some(layer)
    }

    /// Whose address it is. The proxy appends it, so the last one is the proxy's word; those before
    /// it are the client's own.
    fn address(&self, request: &Request) -> Option<IpAddr> {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
        let mut lines = request.headers().get_all(FORWARDED_FOR).iter();
        match lines.next_back().and_then(|line| line.to_str().ok()) {
            Some(line) if self.behind_proxy => {
                let last = line.rsplit(',').next().unwrap_or_default();
                last.trim().parse().ok().or(peer)
            }
            _ => peer,
        }
    }
}

/// A caller's request id if it is a sane one, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_sane = |id: &&str| {
        (1..=REQUEST_ID_LEN_MAX).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match given.filter(is_sane) {
        Some(id) => id.to_owned(),
        None => {
            let mut entropy = [0; 10];
            // An id without entropy still tells the time; a request must not fail over it.
            let _ = getrandom::fill(&mut entropy);
            RequestId::new(now(), entropy).to_string()
        }
    }
}

/// The outermost layer.
async fn surround(State(frame): State<Arc<Frame>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = route.unwrap_or_else(|| "unmatched".to_owned());
    let span = tracing::info_span!("request", %method, %route, request_id = %id);
    let time_max = body::limits(request.uri().path(), &frame.limits).request;
    let verdicts = Verdicts::default();
    request.extensions_mut().insert(verdicts.clone());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    let answer = tokio::time::timeout(time_max, answer.instrument(span.clone())).await;
    let mut response = match answer {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            let reason = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned());
            let reason = reason.unwrap_or_default();
            span.in_scope(|| tracing::error!(reason, "a request panicked"));
            metrics::counter!("bugs_total").increment(1);
            ApiError::from(Code::Internal).into_response()
        }
        Err(_) => ApiError::from(Code::RequestTimeout).into_response(),
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        error.write(&mut response, &id);
    }
    verdicts.write(response.headers_mut());
    frame.secure(&mut response);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    let status = response.status().as_u16();
    span.in_scope(|| {
        tracing::debug!(status, elapsed_us = started.elapsed().as_micros() as u64, "answered");
    });
    count(method, route, status, started.elapsed());
    response
}

/// The layer that asks whether the caller's address may call.
async fn limit(State(frame): State<Arc<Frame>>, request: Request, next: Next) -> Response {
    let is_unlimited = request.uri().path() == UNLIMITED;
    let caller = frame.address(&request).map(Caller::at);
    let verdicts = request.extensions().get::<Verdicts>().cloned().unwrap_or_default();
    if let (Some(limiter), Some(caller), false) = (&frame.limiter, caller, is_unlimited) {
        let cost = match request.uri().path() == READS_BY_POST {
            true => Cost::Read,
            false => Cost::of(request.method()),
        };
        if let Err(error) = limiter.spend(caller, cost, Instant::now(), &verdicts) {
            return error.into_response();
        }
    }
    let mut request = request;
    request.extensions_mut().insert(SignerLimit { frame, verdicts });
    next.run(request).await
}

/// Lets the signature check, which learns who signed, spend the signer's tokens.
#[derive(Clone, Debug)]
pub(crate) struct SignerLimit {
    frame: Arc<Frame>,
    verdicts: Verdicts,
}

impl SignerLimit {
    pub(crate) fn spend(
        &self,
        signer: skep_base::AgentId,
        method: &Method,
    ) -> Result<(), ApiError> {
        let Some(limiter) = &self.frame.limiter else { return Ok(()) };
        let caller = Caller::Signer(signer);
        limiter.spend(caller, Cost::of(method), Instant::now(), &self.verdicts)
    }
}

impl Frame {
    /// Headers that tell browsers to do nothing clever with an answer.
    fn secure(&self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        let mut set = |name: HeaderName, value: &'static str| {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        };
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::X_FRAME_OPTIONS, "DENY");
        set(header::CACHE_CONTROL, "no-store");
        set(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
        if self.is_tls {
            set(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
        }
    }
}

/// Anybody can invent methods, and each would be a new series.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

fn count(method: &'static str, route: String, status: u16, elapsed: Duration) {
    let status = status.to_string();
    let labels = [("method", method.to_owned()), ("route", route), ("status", status)];
    metrics::counter!("http_requests_total", &labels).increment(1);
    metrics::histogram!("http_request_duration_seconds", &labels[..2])
        .record(elapsed.as_secs_f64());
}

/// The node's clock, for judging signatures; what is written goes by the database's.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
