//! Sellers on real sockets, and their listings.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::json;
use skep_base::{Timestamp, wallet::WalletKey};
use skep_market::Market;
use skep_wire::hire::{EndpointProof, Listing, WalletSigned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

use crate::{
    fixture::{Fixture, Person},
    receiver::Plain,
};

/// A seller's door: it says whose it is as long as it is open.
#[derive(Clone)]
pub struct Door {
    pub url: String,
    open: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl Door {
    /// The key is the one that signs the proofs, whoever's it is.
    pub async fn of(key: &WalletKey) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (open, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let door = Door { url, open, asked };
        let (served, key) = (door.clone(), WalletKey::from_bytes(*key.to_bytes()).unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut line = String::new();
                BufReader::new(&mut stream).read_line(&mut line).await.unwrap();
                served.asked.fetch_add(1, Ordering::SeqCst);
                let nonce = line.split_once("nonce=").map_or("", |(_, rest)| rest);
                let nonce = nonce.split(' ').next().unwrap_or_default().to_owned();
                let mut proof = EndpointProof { agent_id: key.address(), nonce, signature: None };
                proof.sign(&key).unwrap();
                let status = if served.open.load(Ordering::SeqCst) { 200 } else { 503 };
                let body = serde_json::to_string(&proof).unwrap();
                let answer = format!("HTTP/1.1 {status} So\r\nconnection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        door
    }

    pub fn open(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// The same market, able to ask endpoints.
pub fn asking(market: &Market) -> Market {
    market.clone().with_egress(Arc::new(Plain))
}

impl Person {
    /// A signed listing, with `more` in place of what is usual.
    pub fn lists(&self, at: Timestamp, url: &str, more: serde_json::Value) -> Listing {
        let mut listing = json!({
            "agent_id": self.id(), "capability": "custom.test.echo", "price_usdc": "0.02",
            "max_latency_ms": 1000, "endpoint": url, "issued_at": at,
        });
        for (field, value) in more.as_object().unwrap() {
            listing[field] = value.clone();
        }
        let mut listing: Listing = serde_json::from_value(listing).unwrap();
        listing.sign(&self.wallet).unwrap();
        listing
    }
}

impl Fixture {
    /// A registered seller with an open door.
    pub async fn seller(&self, number: u8) -> (Person, Door) {
        let seller = Person::new(number);
        self.register(&seller).await;
        let door = Door::of(&seller.wallet).await;
        (seller, door)
    }
}
