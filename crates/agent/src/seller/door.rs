//! The seller's own HTTP door: few routes, hard limits.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::poll_fn,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode, Uri, request::Parts};
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

use super::{Shop, checks, desk::json_answer, hire::WORDS_LEN_MAX, refusal::Refusal};

#[cfg(test)]
mod tests;

/// The longest body, in bytes.
pub const BODY_LEN_MAX: usize = 16 * 1024 * 1024;
/// Long bodies in memory at the same time, until their hires have begun.
const BODIES_MAX: usize = 32;
/// Of one address, so that one slow stranger cannot take them all.
const BODIES_PER_ADDRESS: usize = 8;
/// A body is long from here on, in bytes. Shorter ones need no place, so that nobody who is slow
/// keeps them waiting.
const BODY_LONG: usize = 16 * 1024;
/// How long a long body waits for its place.
const PLACE_WITHIN: Duration = Duration::from_secs(5);
const BODY_WITHIN: Duration = Duration::from_secs(30);
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_MAX: usize = 64;
/// All headers together, in bytes: a payment has up to 16 KiB.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const CONNECTIONS_MAX: usize = 1024;
/// Of one address, so that one stranger cannot take them all.
const CONNECTIONS_PER_ADDRESS: usize = 128;
const STREAMS_MAX: u32 = 16;
/// A connection on which nothing was asked for so long is ended, and how often that is looked at.
const IDLE_MAX: Duration = Duration::from_secs(60);
const IDLE_LOOK: Duration = Duration::from_secs(15);
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
    /// Long bodies of every address that sends any.
    sending: Mutex<HashMap<IpAddr, usize>>,
    body_len_max: usize,
    /// Absent behind a proxy, where everybody has one address.
    buckets: Option<Mutex<HashMap<IpAddr, (f64, Instant)>>>,
    /// Connections of every address that has any.
    connected: Mutex<HashMap<IpAddr, usize>>,
    /// What an endpoint's path begins with before the routes.
    prefix: String,
}

impl Gate {
    pub(crate) fn new(behind_proxy: bool, prefix: &str, params_len_max: usize) -> Gate {
        Gate {
            bodies: Semaphore::new(BODIES_MAX),
            sending: Mutex::default(),
            body_len_max: BODY_LEN_MAX.min(params_len_max.saturating_add(WORDS_LEN_MAX)),
            buckets: (!behind_proxy).then(Mutex::default),
            connected: Mutex::default(),
            prefix: prefix.trim_end_matches('/').to_owned(),
        }
    }

    /// Whether an address may have one more connection.
    fn connect(&self, address: IpAddr) -> bool {
        let most = if self.buckets.is_none() { usize::MAX } else { CONNECTIONS_PER_ADDRESS };
        count_in(&self.connected, caller(address), most)
    }

    fn disconnect(&self, address: IpAddr) {
        count_out(&self.connected, caller(address));
    }

    /// A place for a long body.
    async fn place(&self, address: IpAddr) -> Result<Room<'_>, Refusal> {
        let full = || Refusal::new(503, "busy", "too many long requests at once").later(1);
        let most = if self.buckets.is_none() { usize::MAX } else { BODIES_PER_ADDRESS };
        if !count_in(&self.sending, caller(address), most) {
            return Err(full());
        }
        let mut room = Room { gate: self, address, _place: None };
        let place = tokio::time::timeout(PLACE_WITHIN, self.bodies.acquire()).await;
        room._place = Some(place.map_err(|_| full())?.map_err(|_| full())?);
        Ok(room)
    }

    fn admit(&self, address: IpAddr) -> Result<(), Refusal> {
        let Some(buckets) = &self.buckets else { return Ok(()) };
        let address = caller(address);
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

/// The place of a long body.
pub(crate) struct Room<'a> {
    gate: &'a Gate,
    address: IpAddr,
    _place: Option<SemaphorePermit<'a>>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        count_out(&self.gate.sending, caller(self.address));
    }
}

/// One address is one caller; of IPv6 a whole /64 is.
fn caller(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

fn count_in(counts: &Mutex<HashMap<IpAddr, usize>>, who: IpAddr, most: usize) -> bool {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let count = counts.entry(who).or_default();
    let may = *count < most;
    *count += usize::from(may);
    may
}

fn count_out(counts: &Mutex<HashMap<IpAddr, usize>>, who: IpAddr) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = counts.get_mut(&who) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&who);
        }
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

/// Who is calling, as the connection knows it.
#[derive(Clone, Copy)]
struct Caller(IpAddr);

/// A body, and the room that it takes if it is long.
async fn body_of<'a>(
    shop: &'a Shop,
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Option<Room<'a>>), Refusal> {
    let reading = read_body(shop, parts, body);
    let late = |_| Refusal::new(408, "body_too_slow", "the body took too long");
    tokio::time::timeout(BODY_WITHIN, reading).await.map_err(late)?
}

async fn read_body<'a>(
    shop: &'a Shop,
    parts: &Parts,
    body: Body,
) -> Result<(Bytes, Option<Room<'a>>), Refusal> {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let address = parts.extensions.get::<Caller>().map_or(nobody, |caller| caller.0);
    let most = shop.gate.body_len_max;
    let (mut bytes, mut room) = (BytesMut::new(), None);
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let broken = |_| Refusal::new(400, "body_broken", "the body ended half-way");
        // What follows a body (trailers) is of no interest.
        let Ok(chunk) = frame.map_err(broken)?.into_data() else { continue };
        let len = bytes.len() + chunk.len();
        if len > most {
            let detail = format!("a body has at most {most} bytes");
            return Err(Refusal::new(413, "body_too_large", detail));
        }
        if len > BODY_LONG && room.is_none() {
            room = Some(shop.gate.place(address).await?);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes.freeze(), room))
}

async fn hire(State(shop): State<Arc<Shop>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let answered = async {
        let body = body_of(&shop, &parts, body).await?;
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
    let (body, _room) = body_of(&shop, &parts, body).await?;
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
    let activity = Arc::new(Activity::default());
    let active = activity.clone();
    let service = service_fn(move |request| {
        let (app, shop, running) = (app.clone(), shop.clone(), Running::new(&active));
        async move {
            let answered = answer(app, shop, peer, request).await;
            drop(running);
            answered
        }
    });
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
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = activity.rested() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// What goes on on a connection. Pings alone do not keep it open.
#[derive(Debug)]
struct Activity {
    running: AtomicUsize,
    last: Mutex<Instant>,
}

impl Default for Activity {
    fn default() -> Activity {
        Activity { running: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }
}

impl Activity {
    /// Ends when nothing was asked for long enough.
    async fn rested(&self) {
        loop {
            tokio::time::sleep(IDLE_LOOK).await;
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if self.running.load(Ordering::Relaxed) == 0 && last.elapsed() >= IDLE_MAX {
                return;
            }
        }
    }
}

/// Held while a request is answered.
struct Running(Arc<Activity>);

impl Running {
    fn new(activity: &Arc<Activity>) -> Running {
        activity.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(activity))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
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
    request.extensions_mut().insert(Caller(peer.ip()));
    app.oneshot(request.map(Body::new)).await
}
