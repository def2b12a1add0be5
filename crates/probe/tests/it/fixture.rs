//! A small web server, and requests to verify what it serves.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use skep_base::{Clock, Hash32, Timestamp, id::DealId, time::ManualClock};
use skep_probe::{Egress, Engines, Examination, Policy};
use skep_wire::settle::{
    Artifact, Context, ErrorReport, Hints, Outcome, VerificationRequest, VerificationSpec,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What a client asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    /// The request line and the headers, in lower case but for the line.
    pub head: String,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// What the server says.
pub enum Reply {
    /// Everything at once.
    Whole(Vec<u8>),
    /// This beginning, and then zeros until the client has enough.
    Endless(String),
    /// This beginning, and then a byte every now and then.
    Drip(String),
}

pub fn reply(status: u16, kind: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    Reply::Whole([head.as_bytes(), body].concat())
}

pub fn redirect(status: u16, to: &str) -> Reply {
    Reply::Whole(
        format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes(),
    )
}

pub struct Server {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    pub sent: Arc<AtomicU64>,
}

impl Server {
    /// Serves until the test ends.
    pub async fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            sent: Arc::default(),
        };
        let (asked, sent) = (Arc::clone(&server.asked), Arc::clone(&server.sent));
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, asked, sent) = (Arc::clone(&answer), asked.clone(), sent.clone());
                tokio::spawn(async move {
                    let mut stream = stream;
                    let Some(request) = read(&mut stream).await else { return };
                    let reply = answer(&request);
                    asked.lock().unwrap().push(request);
                    say(&mut stream, reply, &sent).await;
                });
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let (line, headers) = text.split_once("\r\n")?;
    let mut words = line.split(' ').map(str::to_owned);
    let head = format!("{line}\r\n{headers}");
    let mut asked = Asked { method: words.next()?, path: words.next()?, head, body: String::new() };
    let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head_end + length {
        stream.read_buf(&mut bytes).await.ok()?;
    }
    asked.body = String::from_utf8(bytes[head_end..].to_vec()).ok()?;
    Some(asked)
}

async fn say(stream: &mut TcpStream, reply: Reply, sent: &AtomicU64) {
    let (head, piece, pause) = match reply {
        Reply::Whole(bytes) => (bytes, None, Duration::ZERO),
        Reply::Endless(head) => (head.into_bytes(), Some(vec![0; 64 * 1024]), Duration::ZERO),
        Reply::Drip(head) => (head.into_bytes(), Some(vec![b'x']), Duration::from_millis(20)),
    };
    let _ = stream.write_all(&head).await;
    while let Some(piece) = &piece {
        tokio::time::sleep(pause).await;
        if stream.write_all(piece).await.is_err() {
            return;
        }
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    let _ = stream.shutdown().await;
}

/// What `--dev` has: this machine may be asked.
pub fn dev() -> Policy {
    Policy { allow_loopback: true, ..Policy::default() }
}

pub fn engines() -> Engines {
    engines_with(dev())
}

pub fn engines_with(policy: Policy) -> Engines {
    let clock = ManualClock::new(now());
    Engines::new(Egress::new(policy).unwrap(), Arc::new(clock) as Arc<dyn Clock>)
}

pub fn now() -> Timestamp {
    "2026-11-15T09:00:00.000Z".parse().unwrap()
}

/// A request that asks for nothing but an engine.
pub fn request(kind: &str) -> VerificationRequest {
    let deal = DealId::new(now(), &[b"test"]);
    let verification_id = deal.verification(1);
    VerificationRequest {
        vcap_version: "1.0".to_owned(),
        message_type: "verification_request".to_owned(),
        verification_id,
        negotiation_id: deal,
        spec: VerificationSpec {
            kind: kind.to_owned(),
            url: None,
            selector: None,
            expected_content: None,
            fingerprint_delta: false,
            timeout_seconds: 60,
            baseline_fingerprint: None,
            custom: None,
        },
        context: Context {
            marketplace: "test".to_owned(),
            purpose: "escrow_verification".to_owned(),
            escrow_ref: deal,
            negotiation_id: deal,
            verification_id,
        },
        terms_hash: Hash32::ZERO,
        artifacts: Vec::new(),
        requested_at: now(),
    }
}

/// An artifact with its content in it.
pub fn inline(content: &str) -> Artifact {
    Artifact { kind: "text".into(), uri: None, content: Some(content.into()), hash: None }
}

pub fn at(uri: &str) -> Artifact {
    Artifact { kind: "file".into(), uri: Some(uri.into()), content: None, hash: None }
}

/// A request in few words: `selector`, `expected_content` and `custom` from a JSON object.
pub fn asking(kind: &str, url: Option<String>, asked: &Value) -> VerificationRequest {
    let mut request = request(kind);
    let text = |name: &str| asked[name].as_str().map(str::to_owned);
    request.spec.url = url;
    request.spec.selector = text("selector");
    request.spec.expected_content = text("expected_content");
    request.spec.custom = asked.get("custom").cloned();
    request
}

pub fn assert_verified(examination: &Examination) {
    assert_eq!(examination.outcome, Outcome::Verified, "{examination:#?}");
    assert!(examination.failure_reason.is_none() && examination.error.is_none());
    assert!(examination.actions.iter().all(|action| action.success));
    assert_indexed(examination);
}

/// It failed, for a reason in which this piece of text is.
pub fn assert_failed(examination: &Examination, reason: &str) {
    assert_eq!(examination.outcome, Outcome::Failed, "{examination:#?}");
    let given = examination.failure_reason.as_deref().unwrap();
    assert!(given.contains(reason), "{given:?} does not say {reason:?}");
    assert!(examination.error.is_none());
    assert_indexed(examination);
}

pub fn assert_error(examination: &Examination, code: &str) {
    assert_eq!(examination.outcome, Outcome::Error, "{examination:#?}");
    let ErrorReport { code: given, detail } = examination.error.as_ref().unwrap();
    assert_eq!(given, code, "{detail}");
    assert_eq!(examination.failure_reason.as_ref(), Some(detail));
    assert_indexed(examination);
}

fn assert_indexed(examination: &Examination) {
    for (at, action) in examination.actions.iter().enumerate() {
        assert_eq!(action.index as usize, at);
        assert_eq!((action.cost_cents, action.timestamp), (0, now()));
    }
}

pub fn names(examination: &Examination) -> Vec<&str> {
    examination.actions.iter().map(|action| action.action.as_str()).collect()
}

/// Criteria that name a page, for its fingerprint.
pub fn page(kind: &str, url: String, selector: Option<&str>) -> Hints {
    let selector = selector.map(str::to_owned);
    Hints { kind: Some(kind.to_owned()), url: Some(url), selector, ..Hints::default() }
}
