//! The seller's own HTTP door: few routes, hard limits.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use serde::Deserialize;
use skep_wire::hire::{EndpointProof, WalletSigned};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, SemaphorePermit, watch},
    task::JoinSet,
};
use tower::ServiceExt;

use super::{Shop, checks, desk::json_answer, refusal::Refusal};

/// The longest body, in bytes.
pub const BODY_LEN_MAX: usize = 16 * 1024 * 1024;
/// Bodies in memory at the same time, until their hires have begun.
const BODIES_MAX: usize = 32;
const BODY_WITHIN: Duration = Duration::from_secs(30);
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 64;
/// All headers together, in bytes: a payment has up to 16 KiB.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const CONNECTIONS_MAX: usize = 1024;
/// Of one address, so that one stranger cannot take them all.
const CONNECTIONS_PER_ADDRESS: usize = 128;
const STREAMS_MAX: u32 = 64;
/// How long the door rests after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests of one address: so many at once, and so many in each second after that.
pub const RATE_BURST: u32 = 400;
pub const RATE_PER_SECOND: u32 = 100;
/// Addresses that are counted at the same time.
const ADDRESSES_MAX: usize = 10_000;
/// The nonce of a challenge, in bytes.
const PROOF_NONCE_MIN: usize = 8;
const PROOF_NONCE_MAX: usize = 128;
/// How long connections may take to end when the seller stops; its hires have longer.
const DRAIN: Duration = Duration::from_secs(100);

/// What every request passes.
#[derive(Debug)]
pub(crate) struct Gate {
    bodies: Semaphore,
    /// Absent behind a proxy, where everybody has one address.
    buckets: Option<Mutex<HashMap<IpAddr, (f64, Instant)>>>,
    /// Connections of every address that has any.
    connected: Mutex<HashMap<IpAddr, usize>>,
    /// What an endpoint's path begins with before the routes.
    prefix: String,
}

impl Gate {
    pub(crate) fn new(behind_proxy: bool, prefix: &str) -> Gate {
        Gate {
            bodies: Semaphore::new(BODIES_MAX),
            buckets: (!behind_proxy).then(Mutex::default),
            connected: Mutex::default(),
            prefix: prefix.trim_end_matches('/').to_owned(),
        }
    }

    /// Whether an address may have one more connection.
    fn connect(&self, address: IpAddr) -> bool {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let count = connected.entry(address).or_default();
        let may = self.buckets.is_none() || *count < CONNECTIONS_PER_ADDRESS;
        *count += usize::from(may);
        may
    }

    fn disconnect(&self, address: IpAddr) {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = connected.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                connected.remove(&address);
            }
        }
    }

    /// One address is one caller; of IPv6 a whole /64 is.
    fn admit(&self, address: IpAddr) -> Result<(), Refusal> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        let address = match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
            v4 => v4,
        };
        let now = Instant::now();
        let (burst, rate) = (f64::from(RATE_BURST), f64::from(RATE_PER_SECOND));
        let filled = |(tokens, at): (f64, Instant)| {
            burst.min(tokens + now.saturating_duration_since(at).as_secs_f64() * rate)
        };
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= ADDRESSES_MAX {
            buckets.retain(|_, bucket| filled(*bucket) < burst);
        }
        let bucket = buckets.entry(address).or_insert((burst, now));
        *bucket = (filled(*bucket), now);
        if bucket.0 < 1.0 {
            return Err(Refusal::new(429, "rate_limited", "too many requests").later(1));
        }
        bucket.0 -= 1.0;
        Ok(())
    }

    /// The path without what the endpoint's address puts in front.
    fn stripped(&self, uri: &Uri) -> Option<Uri> {
        let whole = uri.path_and_query()?.as_str();
        let rest = whole.strip_prefix(&self.prefix).filter(|_| !self.prefix.is_empty())?;
        rest.starts_with('/').then(|| rest.parse().ok()).flatten()
    }
}

pub(crate) fn router(shop: Arc<Shop>) -> Router {
    Router::new()
        .route("/hire", post(hire))
        .route("/clarify", post(clarify))
        .route("/jobs/{id}", get(job))
        .route("/capabilities/{id}/schema", get(schema))
        .route("/.well-known/swarmwage-verify", get(prove))
        .route("/healthz", get(async || "ok"))
        .fallback(async || Refusal::new(404, "no_such_path", "there is nothing here"))
        .with_state(shop)
}

/// A body, and the room that it takes.
async fn body_of(shop: &Shop, body: Body) -> Result<(Bytes, SemaphorePermit<'_>), Refusal> {
    let closed = || Refusal::new(503, "seller_unavailable", "the seller stops").later(5);
    let room = shop.gate.bodies.acquire().await.map_err(|_| closed())?;
    match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_LEN_MAX)).await {
        Ok(Ok(bytes)) => Ok((bytes, room)),
        Ok(Err(_)) => {
            let detail = format!("a body has at most {BODY_LEN_MAX} bytes");
            Err(Refusal::new(413, "body_too_large", detail))
        }
        Err(_) => Err(Refusal::new(408, "body_too_slow", "the body took too long")),
    }
}

async fn hire(State(shop): State<Arc<Shop>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let answered = async {
        let body = body_of(&shop, body).await?;
        shop.hire(&parts.headers, body).await
    };
    answered.await.unwrap_or_else(Refusal::into_response)
}

async fn clarify(
    State(shop): State<Arc<Shop>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    super::hire::check_type(&parts.headers)?;
    let (body, _room) = body_of(&shop, body).await?;
    Ok(json_answer(StatusCode::OK, &shop.clarify(&body).await?))
}

async fn job(State(shop): State<Arc<Shop>>, Path(id): Path<String>) -> Result<Response, Refusal> {
    Ok(json_answer(StatusCode::OK, &shop.job(&id).await?))
}

async fn schema(
    State(shop): State<Arc<Shop>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let ware = shop.shelf.get(&id).and_then(|wares| wares.first());
    let not_sold = || Refusal::new(404, "capability_not_sold", "this seller does not sell it");
    Ok(json_answer(StatusCode::OK, &checks::schema(&ware.ok_or_else(not_sold)?.offer)))
}

#[derive(Deserialize)]
struct Challenge {
    #[serde(default)]
    nonce: String,
}

/// 6: that the agent's key is at this address.
async fn prove(
    State(shop): State<Arc<Shop>>,
    Query(Challenge { nonce }): Query<Challenge>,
) -> Result<Response, Refusal> {
    if !(PROOF_NONCE_MIN..=PROOF_NONCE_MAX).contains(&nonce.len()) {
        let detail = format!("a nonce has {PROOF_NONCE_MIN} to {PROOF_NONCE_MAX} bytes");
        return Err(Refusal::new(400, "bad_nonce", detail));
    }
    let mut proof = EndpointProof { agent_id: shop.seller, nonce, signature: None };
    proof.sign(&shop.wallet).map_err(|error| Refusal::new(400, "bad_nonce", error.to_string()))?;
    Ok(json_answer(StatusCode::OK, &proof))
}

/// Answers until `shutdown` is done, then lets what was accepted end.
pub(crate) async fn serve(
    listener: TcpListener,
    shop: Arc<Shop>,
    shutdown: impl Future<Output = ()>,
) {
    let app = router(Arc::clone(&shop));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let slot = slots.clone().acquire_owned();
        let accepted = async { (slot.await, listener.accept().await) };
        let (slot, accepted) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((_, peer)) if !shop.gate.connect(peer.ip()) => {}
            Ok((stream, peer)) => {
                let (app, shop, stopped) = (app.clone(), shop.clone(), stopped.clone());
                connections.spawn(async move {
                    drive(stream, peer, app, shop.clone(), stopped).await;
                    shop.gate.disconnect(peer.ip());
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stop.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, all_ended).await.is_err() {
        connections.shutdown().await;
    }
}

async fn drive(
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    shop: Arc<Shop>,
    mut stopped: watch::Receiver<bool>,
) {
    // Answers are wanted at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(app.clone(), shop.clone(), peer, request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .keep_alive_interval(HEADERS_WITHIN)
        .keep_alive_timeout(HEADERS_WITHIN);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(
    app: Router,
    shop: Arc<Shop>,
    peer: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    if let Err(refusal) = shop.gate.admit(peer.ip()) {
        return Ok(refusal.into_response());
    }
    if let Some(uri) = shop.gate.stripped(request.uri()) {
        *request.uri_mut() = uri;
    }
    app.oneshot(request.map(Body::new)).await
}
