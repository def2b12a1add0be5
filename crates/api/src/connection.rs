//! Connections: accepted up to a limit, ended when they are idle or slow, and finished before the
//! process ends.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use http::Request;
use hyper::{
    body::{Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::{config::Limits, seats::Seats};

/// How long the accept loop rests after the system refused a connection (too many files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long an idle connection has to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);
/// How often a silent HTTP/2 peer is asked whether it lives, and how long it may think about it.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Less than this the HTTP/1 parser does not take.
const HTTP1_BUFFER_MIN: usize = 8192;

/// Who is at the other end of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that had to be cut because they did not end in time.
    pub cut: usize,
}

/// Serves until `shutdown` is done; then finishes what was accepted and returns.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    app: Router,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let seats = Seats::new(limits.connections_per_address);
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, peer, slot)) = accepted else { continue };
        let Some(seat) = seats.take(peer.ip()) else {
            metrics::counter!("http_connections_refused_total").increment(1);
            continue;
        };
        let (tls, app, stopped) = (tls.clone(), app.clone(), stopped.clone());
        connections.spawn(async move {
            connection(stream, Peer(peer), tls, limits, app, stopped).await;
            drop((slot, seat));
        });
    }
    drop(listener);
    stop.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, all_ended).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = connections.len();
    tracing::warn!(cut, "connections were cut: they did not end in time");
    connections.shutdown().await;
    Drained { cut }
}

/// The next connection, once there is room for one.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    app: Router,
    stopped: watch::Receiver<bool>,
) {
    // Answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    metrics::gauge!("http_connections").increment(1);
    match tls {
        None => drive(stream, peer, limits, app, stopped).await,
        Some(tls) => match tokio::time::timeout(limits.tls_handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => drive(stream, peer, limits, app, stopped).await,
            Ok(Err(error)) => tracing::debug!(%error, peer = %peer.0, "no TLS handshake"),
            Err(_) => tracing::debug!(peer = %peer.0, "the TLS handshake took too long"),
        },
    }
    metrics::gauge!("http_connections").decrement(1);
}

/// Speaks HTTP/1 or HTTP/2 until the peer, the idle limit or the shutdown ends it.
async fn drive<S>(
    stream: S,
    peer: Peer,
    limits: Limits,
    app: Router,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::new());
    let service = service_fn({
        let activity = activity.clone();
        move |request| answer(app.clone(), peer, activity.begin(), request)
    });
    let builder = builder(&limits);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut cut_at = None;
    loop {
        let check_at = cut_at.unwrap_or_else(|| activity.idle_at(&limits));
        tokio::select! {
            _ = connection.as_mut() => break,
            _ = stopped.wait_for(|stopped| *stopped), if cut_at.is_none() => {
                connection.as_mut().graceful_shutdown();
                // Whoever waits for all connections cuts this one first, and counts it.
                cut_at = Some(Instant::now() + limits.drain + GOODBYE);
            }
            () = sleep_until(check_at) => match cut_at {
                Some(_) => break,
                None if activity.idle_at(&limits) > Instant::now() => {}
                None => {
                    connection.as_mut().graceful_shutdown();
                    cut_at = Some(Instant::now() + GOODBYE);
                }
            }
        }
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(HTTP1_BUFFER_MIN));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

async fn answer(
    app: Router,
    peer: Peer,
    busy: Busy,
    mut request: Request<Incoming>,
) -> Result<Response, Infallible> {
    request.extensions_mut().insert(peer);
    let response = app.oneshot(request.map(Body::new)).await?;
    Ok(response.map(|body| Body::new(BusyBody { body, busy })))
}

/// Whether a connection is at work, and since when it is not.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    busy: AtomicUsize,
    requests: AtomicU64,
    /// When something was last finished or sent, in milliseconds after `opened`.
    progress_ms: AtomicU64,
}

impl Activity {
    fn new() -> Activity {
        Activity {
            opened: Instant::now(),
            busy: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            progress_ms: AtomicU64::new(0),
        }
    }

    fn begin(self: &Arc<Activity>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// When the connection will have been idle for too long, if nothing happens.
    fn idle_at(&self, limits: &Limits) -> Instant {
        let progress = Duration::from_millis(self.progress_ms.load(Ordering::Relaxed));
        // An answer that nobody takes is no work: a peer that reads nothing is ended too.
        if self.busy.load(Ordering::Relaxed) > 0 {
            return self.opened + progress + limits.keep_alive_idle * 2 + limits.request;
        }
        // Whoever has not sent a request yet gets as long as its headers do.
        let patience = match self.requests.load(Ordering::Relaxed) {
            0 => limits.header_read,
            _ => limits.keep_alive_idle,
        };
        self.opened + progress + patience
    }

    /// Something was finished or sent.
    fn note_progress(&self) {
        let since_ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress_ms.store(since_ms, Ordering::Relaxed);
    }
}

/// Held while a request is worked on and its answer is sent.
#[derive(Debug)]
struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.note_progress();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

struct BusyBody {
    body: Body,
    busy: Busy,
}

impl hyper::body::Body for BusyBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_ready() {
            self.busy.0.note_progress();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
