//! Markets to test, and the people on them.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use skep_base::{
    AgentId, Amount, Asset, Clock, Did, Money, Timestamp,
    ed25519::{PublicKey, SecretKey},
    hash::sha256,
    id::TransferId,
    time::ManualClock,
    wallet::WalletKey,
};
use skep_market::{AgentRecord, Answered, Failure, Market, Refusal, Signed};
use skep_store::{Options, RecordKey, Store, audit::Report};
use skep_testkit::postgres::TempPostgres;
use skep_wire::{
    identity::{
        Agent, Attachment, Binding, KeyChange, OperatorStatement, RecoveryCancellation,
        RegisterAgent, RegisterOperator, Revocation, Rotation, Statement,
    },
    wallet::{Faucet, NewTransfer, Transfer, TransferMode},
};

pub const START_MS: i64 = 1_800_000_000_000;
pub const MS: Duration = Duration::from_millis(1);
pub const HOUR: Duration = Duration::from_secs(3600);

/// A market on one engine, with a clock that the test moves.
pub struct Fixture {
    pub market: Market,
    pub clock: Arc<ManualClock>,
    pub url: String,
    pub _folder: Option<tempfile::TempDir>,
}

impl Fixture {
    pub async fn sqlite() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("skep.db").display());
        Fixture::open(url, Some(folder)).await
    }

    pub async fn postgres() -> Fixture {
        let url = TempPostgres::shared().create_database("market").unwrap();
        Fixture::open(url, None).await
    }

    pub async fn open(url: String, folder: Option<tempfile::TempDir>) -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(START_MS)));
        let options = Options { clock: Some(clock.clone()), lanes: 2, ..Options::default() };
        let store = Store::open(&url, options).await.unwrap();
        let market = Market::new(store, log_key(), true);
        Fixture { market, clock, url, _folder: folder }
    }

    /// The same database, served as one for real money.
    pub fn not_dev(&self) -> Market {
        Market::new(self.market.store().clone(), log_key(), false)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets a moment pass: events of the same one may be told in any order.
    pub fn tick(&self) {
        self.clock.advance(MS);
    }

    pub async fn register(&self, who: &Person) -> Agent {
        let request = who.registration(&who.binding(self.now()));
        self.market.register_agent(request).await.unwrap().value
    }

    /// Two registered people, the first with money.
    pub async fn two(&self) -> (Person, Person) {
        let (ann, ben) = (Person::new(1), Person::new(2));
        self.register(&ann).await;
        self.register(&ben).await;
        self.tick();
        self.fund(&ann, 900, 1000).await;
        (ann, ben)
    }

    pub async fn fund(&self, who: &Person, n: u64, minor: i64) {
        let faucet = Faucet { id: id(n), money: usdc(minor), to: None };
        self.market.faucet(&who.signed(&format!("faucet {n}")), faucet).await.unwrap();
    }

    pub async fn pay(&self, from: &Signed, transfer: NewTransfer) -> Paid {
        self.market.transfer_create(from, transfer).await
    }

    pub async fn change(&self, who: &Person, change: KeyChange) -> Result<Agent, Failure> {
        self.market.change_keys(&who.id(), change).await.map(|answered| answered.value)
    }

    /// `available/held/owed` in minor units of USDC.
    pub async fn balance(&self, who: &Person) -> String {
        let wallet = self.market.wallet(&who.id()).await.unwrap();
        let usdc = wallet.balances.iter().find(|b| b.available.asset == Asset::USDC);
        usdc.map_or("none".to_owned(), |b| {
            let minor = |money: Money| money.amount.minor();
            format!("{}/{}/{}", minor(b.available), minor(b.held), minor(b.owed))
        })
    }

    pub async fn record(&self, who: &Person) -> AgentRecord {
        let stored = self.market.store().record(RecordKey::own("agent", who.id())).await.unwrap();
        serde_json::from_str(&stored.unwrap().body).unwrap()
    }

    /// What the log tells, once every event has its number: on PostgreSQL that is done a moment
    /// after the commit.
    pub async fn kinds(&self) -> Vec<String> {
        self.audit().await;
        let events = self.market.events(0, 1000).await.unwrap().items;
        events.into_iter().map(|e| e.kind).collect()
    }

    pub async fn audit_is_clean(&self) {
        let report = self.audit().await;
        assert!(report.is_clean(), "{report:#?}");
    }

    /// What an audit finds once every event has its number.
    async fn audit(&self) -> Report {
        loop {
            let report = self.market.store().audit(Box::new(|_, _| {})).await.unwrap();
            if report.events_unnumbered == 0 {
                return report;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub type Paid = Result<Answered<Transfer>, Failure>;

/// Runs the same test on both engines.
#[macro_export]
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($fixture:ident: Fixture) $body:block)+) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            async fn check($fixture: Fixture) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                check(Fixture::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                check(Fixture::postgres().await).await;
            }
        }
    )+};
}

pub fn log_key() -> SecretKey {
    SecretKey::from_seed([77; 32])
}

/// The `n`th key of somebody.
fn secret(who: u8, n: u8) -> SecretKey {
    let mut seed = [who; 32];
    seed[0] = n;
    SecretKey::from_seed(seed)
}

/// An agent's owner, with its keys.
pub struct Person {
    number: u8,
    pub wallet: WalletKey,
    pub key: SecretKey,
    pub recovery: SecretKey,
    requests: AtomicU64,
}

impl Person {
    pub fn new(number: u8) -> Person {
        Person {
            number,
            wallet: WalletKey::from_bytes([number; 32]).unwrap(),
            key: secret(number, 0),
            recovery: secret(number, 255),
            requests: AtomicU64::new(0),
        }
    }

    pub fn id(&self) -> AgentId {
        self.wallet.address()
    }

    /// Another key of the same person.
    pub fn other_key(&self, n: u8) -> SecretKey {
        secret(self.number, n)
    }

    /// The same person after a change of keys.
    pub fn with_key(self, key: SecretKey) -> Person {
        Person { key, ..self }
    }

    pub fn binding(&self, issued_at: Timestamp) -> Binding {
        Binding {
            agent_id: self.id(),
            public_key: self.key.public(),
            recovery_key: Some(self.recovery.public()),
            operator: None,
            name: Some(format!("agent {}", self.number)),
            webhook_hash: None,
            issued_at,
        }
    }

    pub fn registration(&self, binding: &Binding) -> RegisterAgent {
        RegisterAgent {
            wallet_signature: binding.sign_with_wallet(&self.wallet).unwrap(),
            key_signature: binding.sign(&self.key).unwrap(),
            operator_signature: None,
            webhook_url: None,
            binding: binding.clone(),
        }
    }

    /// A request that the agent's key signed, with a nonce of its own.
    pub fn signed(&self, body: &str) -> Signed {
        let n = self.requests.fetch_add(1, Ordering::Relaxed);
        self.signed_with(&format!("request-{n}"), body)
    }

    pub fn signed_with(&self, nonce: &str, body: &str) -> Signed {
        Signed {
            agent: self.id(),
            key: self.key.public(),
            nonce: nonce.to_owned(),
            expires_at: Timestamp::from_ms(START_MS).plus(300 * HOUR),
            fingerprint: sha256(body.as_bytes()),
            idempotency_key: None,
        }
    }

    pub fn rotation(&self, new_key: &SecretKey, issued_at: Timestamp) -> Rotation {
        let (old_key, new_key) = (self.key.public(), new_key.public());
        Rotation { agent_id: self.id(), old_key, new_key, issued_at }
    }

    pub fn rotate(&self, new_key: &SecretKey, issued_at: Timestamp) -> KeyChange {
        let statement = self.rotation(new_key, issued_at);
        KeyChange::Rotate {
            wallet_signature: statement.sign_with_wallet(&self.wallet).unwrap(),
            old_key_signature: statement.sign(&self.key).unwrap(),
            new_key_signature: statement.sign(new_key).unwrap(),
            statement,
        }
    }

    pub fn recover(&self, new_key: &SecretKey, issued_at: Timestamp) -> KeyChange {
        let statement = self.rotation(new_key, issued_at);
        KeyChange::Recover {
            recovery_signature: statement.sign(&self.recovery).unwrap(),
            new_key_signature: statement.sign(new_key).unwrap(),
            statement,
        }
    }

    pub fn cancel_by_wallet(&self, new_key: PublicKey, issued_at: Timestamp) -> KeyChange {
        let statement = RecoveryCancellation { agent_id: self.id(), new_key, issued_at };
        KeyChange::CancelRecovery {
            wallet_signature: statement.sign_with_wallet(&self.wallet),
            key_signature: None,
            statement,
        }
    }

    pub fn revocation(&self, issued_at: Timestamp) -> Revocation {
        let key = self.key.public();
        Revocation { agent_id: self.id(), key, compromised_since: None, issued_at }
    }

    pub fn revoke_by_wallet(&self, issued_at: Timestamp) -> KeyChange {
        let statement = self.revocation(issued_at);
        KeyChange::Revoke {
            wallet_signature: statement.sign_with_wallet(&self.wallet),
            key_signature: None,
            recovery_signature: None,
            statement,
        }
    }

    pub fn attach(&self, operator: &SecretKey, issued_at: Timestamp) -> KeyChange {
        let did = operator.public().did();
        let statement = Attachment { agent_id: self.id(), operator: did, issued_at };
        KeyChange::Attach {
            key_signature: statement.sign(&self.key).unwrap(),
            operator_signature: statement.sign(operator).unwrap(),
            statement,
        }
    }
}

pub fn operator(key: &SecretKey, name: &str, issued_at: Timestamp) -> RegisterOperator {
    let public_key = key.public();
    let statement = OperatorStatement { name: name.to_owned(), public_key, issued_at };
    RegisterOperator { key_signature: statement.sign(key).unwrap(), statement }
}

pub fn did(key: &SecretKey) -> Did {
    key.public().did()
}

pub fn id(n: u64) -> TransferId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    TransferId::from_bytes(bytes)
}

pub fn usdc(minor: i64) -> Money {
    Money::new(Amount::new(minor).unwrap(), Asset::USDC)
}

pub fn payment(n: u64, to: &Person, minor: i64) -> NewTransfer {
    NewTransfer { id: id(n), to: to.id(), money: usdc(minor), mode: TransferMode::Posted }
}

pub fn hold(n: u64, to: &Person, minor: i64) -> NewTransfer {
    NewTransfer { mode: TransferMode::Pending, ..payment(n, to, minor) }
}

/// The rule that said no.
pub fn refusal<T: Debug>(result: Result<T, Failure>) -> Refusal {
    match result {
        Err(Failure::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, not {other:?}"),
    }
}

pub fn bad_signature(signer: &str, statement: &str) -> Refusal {
    let (signer, statement) = (signer.to_owned(), statement.to_owned());
    Refusal::BadStatementSignature { signer, statement }
}
