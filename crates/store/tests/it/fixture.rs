//! Stores to test, and the small use cases that tests run on them.

use std::sync::Arc;

use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp, hash::sha256, id::TransferId, time::ManualClock,
};
use skep_store::{
    AccountId, Answer, Applied, Call, Decision, Guard, Kept, LedgerRefusal, Load, Options, Order,
    Outcome, RouteKey, Store, Turn,
};
use skep_testkit::postgres::TempPostgres;

/// A store of one engine, with a clock that the test moves.
pub struct Fixture {
    pub store: Store,
    pub clock: Arc<ManualClock>,
    pub url: String,
    pub _folder: Option<tempfile::TempDir>,
}

pub const START_MS: i64 = 1_800_000_000_000;

impl Fixture {
    pub async fn sqlite() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("skep.db").display());
        Fixture::open(url, Some(folder)).await
    }

    pub async fn postgres() -> Fixture {
        let url = TempPostgres::shared().create_database("store").unwrap();
        Fixture::open(url, None).await
    }

    async fn open(url: String, folder: Option<tempfile::TempDir>) -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(START_MS)));
        let options = Options { clock: Some(clock.clone()), lanes: 2, ..Options::default() };
        let store = Store::open(&url, options).await.unwrap();
        Fixture { store, clock, url, _folder: folder }
    }

    /// The same database after its only node was started again.
    pub async fn reopened(self) -> Fixture {
        let Fixture { store, clock, url, _folder } = self;
        drop(store);
        let options = Options { clock: Some(clock.clone()), lanes: 2, ..Options::default() };
        let store = Store::open(&url, options).await.unwrap();
        Fixture { store, clock, url, _folder }
    }

    /// A second node on the same database, where the engine can have one.
    pub async fn second_node(&self) -> Store {
        let options = Options { clock: Some(self.clock.clone()), lanes: 2, ..Options::default() };
        Store::open(&self.url, options).await.unwrap()
    }

    pub async fn audit_is_clean(&self) {
        settle_log(&self.store).await;
        let report = self.store.audit(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
    }
}

/// Waits until every event has its number: on PostgreSQL that is done a moment after the commit.
pub async fn settle_log(store: &Store) {
    while store.audit(Box::new(|_, _| {})).await.unwrap().events_unnumbered > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Runs the same test on both engines.
#[macro_export]
macro_rules! on_both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($fixture:ident: Fixture) $body:block)+) => {$(
        mod $name {
            use super::*;

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

pub fn agent(n: u8) -> AgentId {
    AgentId([n; 20])
}

pub fn wallet(n: u8) -> AccountId {
    AccountId::wallet(&agent(n), Asset::USDC)
}

pub fn outside() -> AccountId {
    AccountId::external("test", Asset::USDC)
}

pub fn id(n: u64) -> TransferId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    TransferId::from_bytes(bytes)
}

pub fn amount(minor: i64) -> Amount {
    Amount::new(minor).unwrap()
}

/// A change of the ledger, as tests write it.
#[derive(Clone, Debug)]
pub enum Change {
    Pay(u64, AccountId, AccountId, i64),
    Hold(u64, AccountId, AccountId, i64),
    /// Resolution id, pending id, part of it.
    Post(u64, u64, Option<i64>),
    Void(u64, u64),
    Owe(u8, AccountId, AccountId, i64),
}

fn order(
    n: u64,
    debit: &AccountId,
    credit: &AccountId,
    minor: i64,
    budget: Option<AccountId>,
) -> Order {
    Order {
        id: id(n),
        route: RouteKey::of(id(n)),
        debit: debit.clone(),
        credit: credit.clone(),
        amount: amount(minor),
        budget,
    }
}

fn apply(
    turn: &mut Turn,
    change: &Change,
    budget: Option<AccountId>,
) -> Result<Applied, LedgerRefusal> {
    match change {
        Change::Pay(n, from, to, minor) => turn.book.transfer(order(*n, from, to, *minor, budget)),
        Change::Hold(n, from, to, minor) => turn.book.hold(order(*n, from, to, *minor, budget)),
        Change::Post(n, pending, part) => turn.book.post(id(*pending), id(*n), part.map(amount)),
        Change::Void(n, pending) => turn.book.void(id(*pending), id(*n)),
        Change::Owe(n, debtor, creditor, minor) => {
            let debt = skep_store::Debt {
                id: skep_base::id::DebtId::from_bytes([*n; 16]),
                debtor: debtor.clone(),
                creditor: creditor.clone(),
                open: amount(*minor),
            };
            turn.book.owe(debt).map(|()| Applied::Now)
        }
    }
}

/// A call that makes all changes or none, and tells of each in the log.
pub fn call(changes: Vec<Change>) -> Call {
    charged(changes, None)
}

/// The same, charged to a budget.
pub fn charged(changes: Vec<Change>, budget: Option<AccountId>) -> Call {
    let mut load = Load::default();
    load.accounts.extend(budget.clone());
    for change in &changes {
        match change {
            Change::Pay(n, from, to, _) | Change::Hold(n, from, to, _) => {
                load.accounts.extend([from.clone(), to.clone()]);
                load.transfers.push((RouteKey::of(id(*n)), id(*n)));
            }
            Change::Post(_, pending, _) | Change::Void(_, pending) => {
                load.transfers.push((RouteKey::of(id(*pending)), id(*pending)));
            }
            Change::Owe(_, from, to, _) => load.accounts.extend([from.clone(), to.clone()]),
        }
    }
    let step = move |turn: &mut Turn| {
        for change in &changes {
            match apply(turn, change, budget.clone()) {
                Ok(Applied::Now) => {
                    let text = format!("{change:?}");
                    turn.event(&RouteKey::of("test"), "ledger.changed", &text, &[agent(1)])?;
                }
                Ok(Applied::Before) => {}
                Err(refusal) => return Ok(Decision::Refuse(refusal.to_string())),
            }
        }
        Ok(Decision::Commit("done".to_owned()))
    };
    Call { load, guards: Vec::new(), step: Box::new(step) }
}

pub fn guard(scope: &str, key: &str, content: &str, expires_ms: i64) -> Guard {
    let fingerprint: Hash32 = sha256(content.as_bytes());
    let kept = Kept::Until(Timestamp::from_ms(expires_ms));
    Guard { scope: scope.into(), key: key.into(), fingerprint, kept }
}

/// Runs changes and gives the answer: "done", or the refusal's words.
pub async fn run(store: &Store, changes: Vec<Change>) -> String {
    match store.call(call(changes)).await.unwrap() {
        Outcome::Done(Answer { body, .. }) => body,
        other => panic!("{other:?}"),
    }
}

/// `posted/held/owed` of a wallet.
pub async fn balance(store: &Store, of: &AccountId) -> String {
    let account = store.accounts(of.as_str(), 1).await.unwrap().into_iter().next();
    account.map_or("none".to_owned(), |a| {
        format!("{}/{}/{}", a.posted.minor(), a.held.minor(), a.owed.minor())
    })
}
