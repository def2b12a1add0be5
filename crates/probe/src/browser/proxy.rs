//! The only way from a browser to the network (decision 34).
//!
//! Chromium resolves names and follows redirects itself, so that it is told nothing but the
//! address of this proxy: each connection it asks for is judged as the guarded client judges, and
//! goes to the addresses that were judged. A machine's own addresses are open in `--dev` only, and
//! then only where the owner of the session has sent the browser by name: what a page names is the
//! page's wish.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
    task::AbortHandle,
    time::timeout,
};
use url::{Position, Url};

use super::link::lock;
use crate::egress::{
    Egress, EgressError, Lookup, Policy, address, resolve::GuardedResolver, target,
};

/// Connections of one browser at once.
const CONNECTIONS_MAX: usize = 64;
/// The longest head of a request or an answer, in bytes.
const HEAD_LEN_MAX: usize = 256 * 1024;
/// How long a head may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(60);
/// How long a connection may be silent.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long a connection may last.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);
/// How many refusals are remembered.
const REFUSALS_MAX: usize = 500;
/// How many hosts an owner may name; the oldest are forgotten.
const NAMED_MAX: usize = 256;
/// How much is passed on at once, in bytes.
const PIECE_LEN: usize = 32 * 1024;

/// Where the browser itself is told to find its maker. No page may ask for this port.
const NOWHERE: (&str, u16) = ("127.0.0.1", 1);

/// A connection that was not made.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) code: &'static str,
    pub(super) detail: String,
}

/// The proxy of one browser. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    gate: Arc<Gate>,
    listening: AbortHandle,
}

#[derive(Debug)]
struct Gate {
    policy: Policy,
    lookup: Arc<dyn Lookup>,
    bytes_max: u64,
    /// Since the last navigation.
    bytes: AtomicU64,
    over: AtomicBool,
    went_over: Notify,
    closed: AtomicBool,
    closing: Notify,
    named: Mutex<VecDeque<(String, u16)>>,
    refusals: Mutex<VecDeque<Refusal>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
        self.gate.closed.store(true, Ordering::Relaxed);
        self.gate.closing.notify_waiters();
    }
}

impl Proxy {
    pub(super) async fn start(egress: &Egress, bytes_max: u64) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let gate = Arc::new(Gate {
            policy: egress.policy().clone(),
            lookup: egress.lookup(),
            bytes_max,
            bytes: AtomicU64::new(0),
            over: AtomicBool::new(false),
            went_over: Notify::new(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            named: Mutex::default(),
            refusals: Mutex::default(),
        });
        let shared = Arc::clone(&gate);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let listening = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let gate = Arc::clone(&shared);
                tokio::spawn(async move {
                    let _place = place;
                    tokio::select! {
                        _ = timeout(CONNECTION_TIME_MAX, gate.serve(stream)) => {}
                        () = gate.closing.notified() => {}
                    }
                });
            }
        });
        Ok(Proxy { port, gate, listening: listening.abort_handle() })
    }

    /// The owner sends the browser there; a new page begins, and its bytes are counted anew.
    pub(super) fn name(&self, url: &Url) {
        self.begin_page();
        let Some(place) = place(url) else { return };
        // What a page was refused is not refused to the owner.
        lock(&self.gate.refusals).retain(|old| (&old.host, old.port) != (&place.0, place.1));
        let mut named = lock(&self.gate.named);
        if !named.contains(&place) {
            named.push_back(place);
            if named.len() > NAMED_MAX {
                named.pop_front();
            }
        }
    }

    pub(super) fn begin_page(&self) {
        self.gate.bytes.store(0, Ordering::Relaxed);
        self.gate.over.store(false, Ordering::Relaxed);
    }

    /// Whether the page was cut off for its size.
    pub(super) fn is_over(&self) -> bool {
        self.gate.over.load(Ordering::Relaxed)
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.gate.bytes_max
    }

    /// Waits until the page is cut off for its size.
    pub(super) async fn over(&self) {
        loop {
            let next = self.gate.went_over.notified();
            if self.is_over() {
                return;
            }
            next.await;
        }
    }

    /// Why the last connection to where this URL leads was not made.
    pub(super) fn refusal(&self, url: &str) -> Option<Refusal> {
        let (host, port) = place(&Url::parse(url).ok()?)?;
        let refusals = lock(&self.gate.refusals);
        refusals.iter().rev().find(|found| found.host == host && found.port == port).cloned()
    }

    /// Where connections were refused, each place once.
    pub(super) fn refused_places(&self) -> BTreeSet<(String, u16)> {
        let refusals = lock(&self.gate.refusals);
        let refused = refusals.iter().filter(|refusal| refusal.code == "refused_address");
        refused.map(|refusal| (refusal.host.clone(), refusal.port)).collect()
    }
}

/// Host and port, as they are compared.
pub(super) fn place(url: &Url) -> Option<(String, u16)> {
    let port = match url.scheme() {
        "ws" => url.port().or(Some(80)),
        "wss" => url.port().or(Some(443)),
        _ => url.port_or_known_default(),
    };
    Some((url.host_str()?.trim_end_matches('.').to_owned(), port?))
}

/// Whether this names the machine itself. Any other name may be led there by whoever owns it.
fn is_local(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    ip.is_ok_and(|ip| ip.is_loopback()) || address::is_private_name(host)
}

impl Gate {
    async fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _ = client.set_nodelay(true);
        let (head, rest) = read_head(&mut client).await?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, address) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let tunnel = method == "CONNECT";
        let text = if tunnel { format!("https://{address}/") } else { address.to_owned() };
        let mut upstream = match self.connect(&text).await {
            Ok(upstream) => upstream,
            Err(error) => {
                self.remember(&text, &error);
                if tunnel {
                    client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await?;
                }
                // Without an answer it is an error of the network, which no page can take for
                // what the refused address has said.
                return Ok(());
            }
        };
        if tunnel {
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        } else {
            let url = Url::parse(address).map_err(|_| io::ErrorKind::InvalidData)?;
            let path = &url[Position::BeforePath..Position::AfterQuery];
            let head = rewritten(&format!("{method} {path} HTTP/1.1"), lines);
            upstream.write_all(head.as_bytes()).await?;
        }
        self.count(rest.len())?;
        upstream.write_all(&rest).await?;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        // Whichever side ends first ends both: Chromium never closes a half.
        tokio::select! {
            done = self.pass(&mut from_client, &mut to_upstream) => done,
            done = async {
                if !tunnel {
                    self.answer(&mut from_upstream, &mut to_client).await?;
                }
                self.pass(&mut from_upstream, &mut to_client).await
            } => done,
        }
    }

    /// Passes on the head of an answer. The connection is for one request: the next one on it
    /// might be meant for another host.
    async fn answer(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut early = Vec::new();
        loop {
            let (head, rest) = read_head_after(from, std::mem::take(&mut early)).await?;
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap_or_default();
            if !line.starts_with("HTTP/1.") {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.count(head.len() + rest.len())?;
            let status = line.split(' ').nth(1).unwrap_or_default();
            // 101 would make a tunnel of a connection that was judged for a request.
            if status == "101" {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if status.starts_with('1') && status.len() == 3 {
                early = rest;
                continue;
            }
            to.write_all(rewritten(line, lines).as_bytes()).await?;
            return to.write_all(&rest).await;
        }
    }

    async fn pass(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut piece = vec![0; PIECE_LEN];
        loop {
            let count = timeout(IDLE_MAX, from.read(&mut piece)).await??;
            if count == 0 {
                return to.shutdown().await;
            }
            self.count(count)?;
            timeout(IDLE_MAX, to.write_all(&piece[..count])).await??;
        }
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let before = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 > self.bytes_max {
            self.over.store(true, Ordering::Relaxed);
            self.went_over.notify_waiters();
        }
        if self.over.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(())
    }

    async fn connect(&self, text: &str) -> Result<TcpStream, EgressError> {
        if self.over.load(Ordering::Relaxed) {
            let max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
            return Err(EgressError::BodyTooLarge { max });
        }
        let named = Url::parse(text)
            .ok()
            .and_then(|url| place(&url))
            .is_some_and(|place| is_local(&place.0) && lock(&self.named).contains(&place));
        let allow_loopback = self.policy.allow_loopback && named;
        let policy = Policy { allow_loopback, ..self.policy.clone() };
        let url = target::judge(text, &policy)?;
        let (host, port) = place(&url).ok_or_else(|| EgressError::BadUrl {
            url: text.to_owned(),
            reason: "it names no host".to_owned(),
        })?;
        let addresses = match url.host() {
            Some(url::Host::Ipv4(ip)) => vec![ip.into()],
            Some(url::Host::Ipv6(ip)) => vec![ip.into()],
            _ => {
                let lookup = Arc::clone(&self.lookup);
                let looked_up = GuardedResolver { lookup, allow_loopback };
                let limit = self.policy.connect_timeout;
                let late = |_| EgressError::Timeout { limit };
                timeout(limit, looked_up.addresses(&host)).await.map_err(late)??
            }
        };
        let mut reason = "it has no address".to_owned();
        for ip in addresses {
            let connecting = TcpStream::connect(SocketAddr::new(ip, port));
            match timeout(self.policy.connect_timeout, connecting).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => reason = "there was no answer in time".to_owned(),
            }
        }
        Err(EgressError::Unreachable { host, reason })
    }

    fn remember(&self, text: &str, error: &EgressError) {
        let Some((host, port)) = Url::parse(text).ok().and_then(|url| place(&url)) else { return };
        if (host.as_str(), port) == NOWHERE {
            return;
        }
        let mut refusals = lock(&self.refusals);
        if refusals.len() >= REFUSALS_MAX {
            refusals.pop_front();
        }
        let (code, detail) = (error.code(), error.to_string());
        refusals.push_back(Refusal { host, port, code, detail });
    }
}

/// A head with what concerns this connection alone taken out.
fn rewritten<'a>(first: &str, lines: impl Iterator<Item = &'a str>) -> String {
    const HOP: &[&str] =
        &["connection", "proxy-connection", "keep-alive", "proxy-authorization", "upgrade"];
    let mut head = format!("{first}\r\n");
    for line in lines.filter(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !HOP.contains(&name.as_str()) {
            head.push_str(line);
            head.push_str("\r\n");
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    head
}

async fn read_head(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(String, Vec<u8>)> {
    read_head_after(from, Vec::new()).await
}

/// The head, and what came after it already. `bytes` is what was read before.
async fn read_head_after(
    from: &mut (impl AsyncRead + Unpin),
    mut bytes: Vec<u8>,
) -> io::Result<(String, Vec<u8>)> {
    let reading = async {
        let mut looked_at = 0;
        loop {
            let from_here = usize::saturating_sub(looked_at, 3);
            let found = bytes[from_here..].windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(at) = found {
                let rest = bytes.split_off(from_here + at + 4);
                bytes.truncate(from_here + at);
                // Chromium sends ASCII; what a server sends besides is passed on as Latin-1
                // would be read, since header names are ASCII in any case.
                let head = String::from_utf8(std::mem::take(&mut bytes)).unwrap_or_else(|error| {
                    error.as_bytes().iter().map(|byte| *byte as char).collect()
                });
                return Ok((head, rest));
            }
            looked_at = bytes.len();
            if bytes.len() > HEAD_LEN_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            if from.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    };
    timeout(HEAD_TIME_MAX, reading).await?
}
