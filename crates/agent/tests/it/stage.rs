//! A seller with its door open, and a buyer that signs and pays by hand.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::HeaderMap;
use serde_json::{Value, json};
use skep_agent::seller::{Offer, ProgramWork, Seller, SellerConfig, SellerHandle, Taxonomy};
use skep_base::{AgentId, Amount, Clock, Hash32, Timestamp, wallet::WalletKey};
use skep_probe::{Egress, Policy};
use skep_sdk::{Client, Retries};
use skep_wire::{
    hire::{EscrowTerms, HireRequest, PROTOCOL, PaymentMode, WalletSigned},
    x402::{
        Authorization, ExactPayload, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payment, PaymentRequired,
        Rail, Requirements, from_header, to_header,
    },
};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::bank::{Bank, rail};

pub const PRICE: i64 = 20_000;
pub const CAPABILITY: &str = "custom.test.echo";

/// The machine's clock, which can be put forward.
#[derive(Debug, Default)]
pub struct TestClock {
    ahead_ms: AtomicU64,
}

impl TestClock {
    pub fn now_ms(&self) -> i64 {
        self.now().as_ms()
    }

    pub fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        Timestamp::from_ms(now + self.ahead_ms.load(Ordering::Relaxed) as i64)
    }
}

/// Writes a shell script.
pub fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("program.sh");
    // A new file each time: one that is being run cannot be written to.
    let fresh = folder.join(format!("fresh-{:x}", rand()));
    fs::write(&fresh, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&fresh, &path).unwrap();
    path
}

pub fn rand() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub fn seller_wallet() -> WalletKey {
    WalletKey::from_bytes([0x5e; 32]).unwrap()
}

pub struct World {
    pub folder: tempfile::TempDir,
    pub bank: Bank,
    pub clock: Arc<TestClock>,
    pub http: reqwest::Client,
}

impl World {
    pub async fn new() -> World {
        let bank = Bank::open().await;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build();
        World {
            folder: tempfile::tempdir().unwrap(),
            bank,
            clock: Arc::default(),
            http: http.unwrap(),
        }
    }

    /// A program that gives its parameters back and counts its runs.
    pub fn echo(&self) -> ProgramWork {
        let runs = self.folder.path().join("runs");
        let text = format!("echo x >> {}\nprintf '{{\"echo\":%s}}' \"$(cat)\"", runs.display());
        ProgramWork::new(script(self.folder.path(), &text), vec![])
    }

    pub fn runs(&self) -> usize {
        let text = fs::read_to_string(self.folder.path().join("runs")).unwrap_or_default();
        text.lines().count()
    }

    pub fn offer(&self) -> Offer {
        let price = skep_wire::hire::Usdc::from(Amount::new(PRICE).unwrap());
        let mut offer = Offer::new(CAPABILITY, price, self.echo());
        offer.max_latency_ms = 10_000;
        offer
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.path().join("seller.journal")
    }

    pub async fn open(&self, offer: Offer) -> Shop {
        self.open_with(vec![offer], |_| {}).await
    }

    pub fn config(&self, offers: Vec<Offer>) -> SellerConfig {
        let policy = Policy { allow_loopback: true, ..Policy::default() };
        SellerConfig {
            wallet: seller_wallet(),
            node: Client::new(&self.bank.url).unwrap().with_retries(Retries::NONE),
            offers,
            listen: "127.0.0.1:0".parse().unwrap(),
            // Payments name it, and it outlives restarts.
            endpoint: Some("http://seller.test".to_owned()),
            behind_proxy: false,
            journal: self.journal(),
            egress: Egress::new(policy).unwrap(),
            checker: Arc::new(Taxonomy),
            clock: self.clock.clone(),
            clarify_signed_only: false,
        }
    }

    pub async fn open_with(
        &self,
        offers: Vec<Offer>,
        change: impl FnOnce(&mut SellerConfig),
    ) -> Shop {
        let mut config = self.config(offers);
        change(&mut config);
        let seller = Seller::open(config).await.unwrap();
        let path = seller.endpoint().splitn(4, '/').nth(3).map(|path| format!("/{path}"));
        let url = format!("http://{}{}", seller.local_addr(), path.unwrap_or_default());
        let handle = seller.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(seller.serve(async {
            let _ = stopped.await;
        }));
        Shop { url, http: self.http.clone(), handle, stop, serving }
    }

    pub fn buyer(&self, number: u8) -> Buyer {
        let wallet = WalletKey::from_bytes([number; 32]).unwrap();
        self.bank.fund(wallet.address(), 1_000_000);
        Buyer { wallet, clock: self.clock.clone() }
    }
}

/// An open door.
pub struct Shop {
    pub url: String,
    pub http: reqwest::Client,
    pub handle: SellerHandle,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    pub fn required(&self) -> PaymentRequired {
        from_header(self.headers[PAYMENT_REQUIRED].to_str().unwrap()).unwrap()
    }
}

impl Shop {
    pub async fn post(&self, path: &str, body: &Value, header: Option<(&str, String)>) -> Answer {
        let mut request = self.http.post(format!("{}{path}", self.url)).json(body);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        read(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        read(self.http.get(format!("{}{path}", self.url)).send().await.unwrap()).await
    }

    pub async fn hire(&self, hire: &HireRequest) -> Answer {
        self.post("/hire", &json!(hire), None).await
    }

    pub async fn pay(&self, hire: &HireRequest, payment: &Payment) -> Answer {
        let header = (PAYMENT_SIGNATURE, to_header(&payment.raw));
        self.post("/hire", &json!(hire), Some(header)).await
    }

    /// Asks, pays what is asked for, and gives the answer.
    pub async fn bought(&self, buyer: &Buyer, hire: &HireRequest) -> Answer {
        let asked = self.hire(hire).await;
        assert_eq!(asked.status, 402, "{asked:?}");
        self.pay(hire, &buyer.payment(hire, &asked)).await
    }

    /// Lets running hires end, then the door is closed.
    pub async fn close(self) {
        drop(self.stop);
        self.serving.await.unwrap();
    }

    /// As a crash would: nothing is finished any more.
    pub async fn crash(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

async fn read(response: reqwest::Response) -> Answer {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.unwrap();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status, headers, body }
}

pub struct Buyer {
    pub wallet: WalletKey,
    pub clock: Arc<TestClock>,
}

impl Buyer {
    pub fn id(&self) -> AgentId {
        self.wallet.address()
    }

    pub fn hire(&self, params: Value) -> HireRequest {
        self.hire_with(params, |_| {})
    }

    /// A signed hire.
    pub fn hire_with(&self, params: Value, change: impl FnOnce(&mut HireRequest)) -> HireRequest {
        let mut hire: HireRequest = serde_json::from_value(json!({
            "protocol": PROTOCOL, "buyer_id": self.id(), "capability": CAPABILITY,
            "params": params, "nonce": format!("n-{}-{}", self.id(), rand()),
            "seller_id": seller_wallet().address(), "issued_at": self.clock.now(),
        }))
        .unwrap();
        change(&mut hire);
        hire.sign(&self.wallet).unwrap();
        hire
    }

    pub fn now_s(&self) -> i64 {
        self.clock.now().as_ms() / 1000
    }

    /// A payment for the first way that a 402 offers.
    pub fn payment(&self, hire: &HireRequest, asked: &Answer) -> Payment {
        let required = asked.required();
        let accepted = required.accepts[0].clone();
        let nonce = match accepted.extra.get("escrow") {
            Some(terms) => {
                let terms: EscrowTerms = serde_json::from_value(terms.clone()).unwrap();
                terms.payment_nonce().unwrap()
            }
            None => hire.payment_nonce().unwrap(),
        };
        self.payment_with(&accepted, &required, &nonce, |_| {})
    }

    pub fn payment_with(
        &self,
        accepted: &Requirements,
        required: &PaymentRequired,
        nonce: &Hash32,
        change: impl FnOnce(&mut Authorization),
    ) -> Payment {
        let window = (0, self.now_s() + accepted.max_timeout_seconds as i64);
        let ends = (self.id(), accepted.pay_to);
        let mut authorization = Authorization::new(ends, accepted.amount, window, nonce);
        change(&mut authorization);
        let domain = rail().domain(Rail::chain_id(&accepted.network).unwrap());
        let signature = authorization.sign(&domain, &self.wallet).unwrap().to_string();
        let payload = ExactPayload { authorization, signature };
        Payment::new(accepted.clone(), required.resource.clone(), payload)
    }
}

pub fn escrow() -> PaymentMode {
    PaymentMode::PlatformEscrow("test".to_owned())
}

/// Looks again and again until there is something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain: {what}");
}
