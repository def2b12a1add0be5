//! A node of one's own, and a client that can misbehave.

use std::{net::SocketAddr, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use skep_api::{Config, Drained, Server};
use skep_base::{
    Asset, Money, Timestamp, ed25519::SecretKey, hash::sha256, id::TransferId, wallet::WalletKey,
};
use skep_market::{Challenge, Market};
use skep_store::{Options, Store};
use skep_wire::{
    http_signature::{self, KeyId, Message, Signer},
    identity::{Binding, RegisterAgent, Statement},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};

pub(crate) struct Node {
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    pub(crate) market: Market,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Drained>,
    dir: tempfile::TempDir,
}

/// Limits short enough for a test to reach.
pub(crate) fn config() -> Config {
    let mut config = Config::new(([127, 0, 0, 1], 0).into());
    config.dev = true;
    config.limits.body_bytes = 64 * 1024;
    config.limits.body_idle = Duration::from_millis(300);
    config.limits.body_total = Duration::from_millis(900);
    config.limits.header_read = Duration::from_millis(500);
    config.rates = None;
    config
}

impl Node {
    pub(crate) async fn start(config: Config) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("skep.db").display());
        let store = Store::open(&url, Options::default()).await.unwrap();
        let market = Market::new(store, SecretKey::from_seed([99; 32]), config.dev)
            .with_webhook_key(SecretKey::from_seed([98; 32]))
            .with_listing_challenge(Challenge::Off);
        market.announce_score_keys().await.unwrap();
        let server = Server::bind(config, market.clone()).await.unwrap();
        let (url, address) = (server.url(), server.local_addr());
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Node { url, address, market, stop, served, dir }
    }

    /// Ends it; its database stays until the directory is dropped.
    pub(crate) async fn stop(self) -> (Drained, tempfile::TempDir) {
        let _ = self.stop.send(());
        (self.served.await.unwrap(), self.dir)
    }

    /// The end of the event log: it moves when anything was written.
    pub(crate) fn head(&self) -> i64 {
        self.market.store().head().borrow().seq
    }

    pub(crate) async fn send(&self, request: &Request) -> Answer {
        self.send_bytes(&request.bytes(self.address)).await
    }

    pub(crate) async fn send_bytes(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The node may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        Answer::read(&mut stream).await
    }

    pub(crate) fn client(&self, who: &Agent) -> skep_sdk::Client {
        skep_sdk::Client::new(&self.url).unwrap().with_key(who.wallet.address(), who.key.clone())
    }

    pub(crate) async fn register(&self, seed: u8) -> Agent {
        let agent = Agent::new(seed);
        let client = skep_sdk::Client::new(&self.url).unwrap();
        client.register_agent(&agent.registration()).await.unwrap();
        agent
    }

    /// A registered agent with test money.
    pub(crate) async fn rich(&self, seed: u8) -> Agent {
        let agent = self.register(seed).await;
        self.client(&agent).faucet(usdc("100")).await.unwrap();
        agent
    }
}

pub(crate) fn usdc(amount: &str) -> Money {
    Money::parse_decimal(amount, Asset::USDC).unwrap()
}

pub(crate) fn now() -> Timestamp {
    let elapsed = std::time::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_ms(elapsed.as_millis() as i64)
}

pub(crate) fn transfer_id(seed: u8) -> TransferId {
    TransferId::new(Timestamp::from_ms(1_700_000_000_000), [seed; 10])
}

/// An agent's two keys.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) wallet: WalletKey,
    pub(crate) key: SecretKey,
}

impl Agent {
    pub(crate) fn new(seed: u8) -> Agent {
        Agent {
            wallet: WalletKey::from_bytes([seed; 32]).unwrap(),
            key: SecretKey::from_seed([seed; 32]),
        }
    }

    pub(crate) fn registration(&self) -> RegisterAgent {
        let binding = Binding {
            agent_id: self.wallet.address(),
            public_key: self.key.public(),
            recovery_key: None,
            operator: None,
            name: Some("Ada".to_owned()),
            webhook_hash: None,
            issued_at: now(),
        };
        RegisterAgent {
            wallet_signature: binding.sign_with_wallet(&self.wallet).unwrap(),
            key_signature: binding.sign(&self.key).unwrap(),
            operator_signature: None,
            webhook_url: None,
            binding,
        }
    }
}

/// A request before it is written to a socket; tests change what they like.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) host: Option<String>,
}

impl Request {
    pub(crate) fn new(method: Method, target: &str, body: &[u8]) -> Request {
        let mut headers = HeaderMap::new();
        if !body.is_empty() {
            headers.insert("content-type", HeaderValue::from_static("application/json"));
        }
        Request { method, target: target.to_owned(), headers, body: body.to_vec(), host: None }
    }

    pub(crate) fn get(target: &str) -> Request {
        Request::new(Method::GET, target, b"")
    }

    pub(crate) fn post(target: &str, body: &str) -> Request {
        Request::new(Method::POST, target, body.as_bytes())
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Request {
        self.headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        self
    }

    pub(crate) fn signed(self, node: &Node, by: &Agent) -> Request {
        let nonce = sha256(format!("{:?}", std::time::Instant::now()).as_bytes()).to_string();
        self.signed_at(node, by, &nonce, now(), Duration::from_secs(60))
    }

    pub(crate) fn signed_at(
        mut self,
        node: &Node,
        by: &Agent,
        nonce: &str,
        created: Timestamp,
        lifetime: Duration,
    ) -> Request {
        let authority = self.host.clone().unwrap_or_else(|| node.address.to_string());
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.target.as_str(), None),
        };
        let message = Message {
            method: self.method.as_str(),
            authority: &authority,
            path,
            query,
            headers: &self.headers,
            body: &self.body,
        };
        let signer = Signer {
            key: &by.key,
            key_id: KeyId::Agent(by.wallet.address()),
            nonce,
            created,
            lifetime,
        };
        let added = http_signature::sign(&message, &signer).unwrap();
        self.headers.extend(added);
        self
    }

    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let host = self.host.clone().unwrap_or_else(|| address.to_string());
        head.push_str(&format!("host: {host}\r\nconnection: close\r\n"));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        if !self.body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        let _ = tokio::time::timeout(Duration::from_secs(20), read).await.unwrap();
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    pub(crate) fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        Answer { status: status.unwrap_or_default(), headers, body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
