//! A receiver of notices on a real socket, and the plainest way to reach it.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::HeaderMap;
use skep_base::{Timestamp, ed25519::SecretKey};
use skep_market::{Egress, EgressFailure, Market, Sending};
use skep_wire::notice::{WEBHOOK_ID, verify};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(15);

pub fn webhook_key() -> SecretKey {
    SecretKey::from_seed([66; 32])
}

/// The same market, able to send notices.
pub fn sending(market: &Market) -> Market {
    market.clone().with_egress(Arc::new(Plain)).with_webhook_key(webhook_key())
}

/// HTTP/1.1 in the clear, to whatever address.
#[derive(Debug)]
pub struct Plain;

impl Egress for Plain {
    fn post(&self, url: String, headers: Vec<(String, String)>, body: Vec<u8>) -> Sending<'_, u16> {
        Box::pin(async move {
            let failed = |error: io::Error| {
                let code = match error.kind() {
                    io::ErrorKind::ConnectionRefused => "refused",
                    _ => "broken",
                };
                EgressFailure { code: code.to_owned(), detail: error.to_string() }
            };
            let (host, path) = url["http://".len()..].split_once('/').unwrap();
            let mut stream = TcpStream::connect(host).await.map_err(failed)?;
            let mut head = format!("POST /{path} HTTP/1.1\r\nhost: {host}\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
            stream.write_all(&[head.as_bytes(), &body].concat()).await.map_err(failed)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map_err(failed)?;
            let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
            status.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
        })
    }

    fn get_here(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>> {
        self.get(url, body_max)
    }

    fn get(&self, url: String, _: usize) -> Sending<'_, Vec<u8>> {
        Box::pin(async move {
            let failed = |error: io::Error| EgressFailure {
                code: "broken".to_owned(),
                detail: error.to_string(),
            };
            let (host, path) = url["http://".len()..].split_once('/').unwrap();
            let mut stream = TcpStream::connect(host).await.map_err(failed)?;
            let head = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.map_err(failed)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.map_err(failed)?;
            match answer.split_once("\r\n\r\n") {
                Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.into()),
                _ => Err(failed(io::ErrorKind::InvalidData.into())),
            }
        })
    }
}

/// A notice as it arrived.
#[derive(Clone, Debug)]
pub struct Got {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Got {
    pub fn id(&self) -> &str {
        self.headers[WEBHOOK_ID].to_str().unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    /// Whether the node of `market` signed it at this time.
    pub fn is_signed(&self, market: &Market, at: Timestamp) -> bool {
        verify(&market.node_keys().webhook.unwrap(), &self.headers, &self.body, at).is_ok()
    }
}

/// What the `n`th notice to a path is answered.
type Answers = Box<dyn Fn(&str, usize) -> u16 + Send + Sync>;

/// A server that keeps what it gets.
#[derive(Clone)]
pub struct Receiver {
    pub address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
    arrived: watch::Sender<usize>,
    /// While it is closed, nothing is answered.
    open: watch::Sender<bool>,
    answers: Arc<Answers>,
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Receiver {
    /// Answers the first notices to each path as told, and later ones like the last.
    pub async fn start(answers: &'static [u16]) -> Receiver {
        Receiver::start_with(move |_, nth| answers[nth.min(answers.len() - 1)]).await
    }

    pub async fn start_with(answers: impl Fn(&str, usize) -> u16 + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            address: listener.local_addr().unwrap(),
            got: Arc::default(),
            arrived: watch::Sender::new(0),
            open: watch::Sender::new(true),
            answers: Arc::new(Box::new(answers)),
            counts: Arc::default(),
        };
        let serving = receiver.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let receiver = serving.clone();
                tokio::spawn(async move { receiver.serve(stream).await });
            }
        });
        receiver
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Takes notices from now on and answers none.
    pub fn hang(&self) {
        self.open.send_replace(false);
    }

    /// Answers, also those that wait.
    pub fn wake(&self) {
        self.open.send_replace(true);
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub fn kinds(&self) -> Vec<String> {
        self.got().iter().map(Got::kind).collect()
    }

    /// Waits until so many have arrived in all.
    pub async fn arrival(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let arrival = arrived.wait_for(|arrived| *arrived >= count);
        tokio::time::timeout(PATIENCE, arrival).await.expect("it never came").unwrap();
    }

    async fn serve(&self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.starts_with("POST "), "{line}");
        let path = line.split(' ').nth(1).unwrap().to_owned();
        let mut headers = HeaderMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            let name: http::HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        let length = headers["content-length"].to_str().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let nth = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(path.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let status = (self.answers)(&path, nth);
        self.got.lock().unwrap().push(Got { path, headers, body });
        self.arrived.send_modify(|arrived| *arrived += 1);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
        let answer = format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n");
        // The other side may have lost its patience.
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
