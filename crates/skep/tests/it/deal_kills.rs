//! Deals on nodes that are killed, and on two nodes at once: whatever was answered is so, and every
//! cent is where it belongs.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use skep_base::{Asset, id::DealId};
use skep_sdk::{Client, Error, Retries};
use skep_store::{AccountId, Options, Store};
use skep_testkit::{
    postgres::TempPostgres,
    process::{Child, free_port},
    rng::{Rng, is_long, seed_or},
};
use skep_wire::{
    identity::Statement,
    settle::{EscrowStatus, Outcome},
};
use tokio::task::JoinSet;

use crate::stage::{
    self, Actor, Hand, PRICE, agree, deliver, free, furnish, moves, settled, until, usdc,
};

const KILLS: usize = 4;
const KILLS_LONG: usize = 100;
/// Those who deal at the same time, each a requester and a provider of its own.
const PAIRS: u8 = 8;
/// The longest time under load before a kill.
const LOAD_MS_MAX: u64 = 400;
/// Sent again and again while the node is away.
const RETRIES: Retries = Retries {
    attempts: 1000,
    first_pause: Duration::from_millis(10),
    longest_pause: Duration::from_millis(100),
};
const FUNDED: i64 = 1_000_000;
/// Deals between two nodes.
const SHARED_DEALS: usize = 6;

/// How far a deal has come, by the answers that its parties got.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Acked {
    Accepted,
    Delivered,
    Settled(EscrowStatus),
}

type Book = Arc<Mutex<BTreeMap<DealId, Acked>>>;

/// A requester, a provider, and somebody who looks at the work by hand.
struct Trio {
    requester: Client,
    provider: Client,
    hand: Arc<Hand>,
    hands: Client,
    book: Book,
    rng: Rng,
}

impl Trio {
    async fn work(mut self, over: Arc<AtomicBool>) -> Result<Trio, Error> {
        loop {
            self.deal().await?;
            if over.load(Ordering::Relaxed) {
                return Ok(self);
            }
        }
    }

    /// A deal from the first offer to the last cent; some stay where they are half-way.
    async fn deal(&mut self) -> Result<(), Error> {
        let text = json!({"type": "artifact", "expected_content": "hello"});
        let offer = stage::offer(&self.requester, &self.provider, text, json!({}));
        let id = self.requester.open_negotiation(&offer).await?.value.negotiation_id;
        self.provider.respond(&stage::acceptance(id)).await?;
        self.note(id, Acked::Accepted);
        if self.rng.percent(10) {
            return Ok(());
        }
        let verification = deliver(&self.provider, id, "Hello").await?;
        self.note(id, Acked::Delivered);
        if self.rng.percent(10) {
            return Ok(());
        }
        let asked = self.hands.verification(verification).await?.request;
        let good = self.rng.percent(50);
        let outcome = if good { Outcome::Verified } else { Outcome::Failed };
        let taken = self.hands.callback(&self.hand.verdict(&asked, outcome)).await?;
        let wanted = if good { EscrowStatus::Released } else { EscrowStatus::Refunded };
        assert_eq!(taken.escrow, wanted, "{id}");
        self.note(id, Acked::Settled(taken.escrow));
        Ok(())
    }

    fn note(&self, id: DealId, acked: Acked) {
        self.book.lock().unwrap().insert(id, acked);
    }

    /// Compares what the node says with what was answered; gives back what each escrow holds.
    async fn compare(&self) -> Result<BTreeMap<DealId, i64>, Error> {
        let book = self.book.lock().unwrap().clone();
        let (mut paid, mut held) = (0, BTreeMap::new());
        for (id, acked) in book {
            let agreement = self.requester.agreement(id).await?;
            let escrow = self.requester.escrow(id).await?;
            assert_eq!(agreement.escrow_status, escrow.status);
            // A provider whose score has grown meanwhile is trusted with a smaller hold.
            let in_escrow = escrow.amount_minor.minor();
            assert_eq!(in_escrow + escrow.remainder_minor.minor(), PRICE, "{id}");
            match acked {
                Acked::Accepted | Acked::Delivered => {
                    assert_eq!(escrow.status, EscrowStatus::Held, "{id}: {acked:?}");
                    assert_eq!(agreement.delivered_at.is_some(), acked == Acked::Delivered);
                    held.insert(id, in_escrow);
                }
                Acked::Settled(status) => {
                    assert_eq!(escrow.status, status, "{id}");
                    let receipt = self.requester.settlement(id).await?;
                    receipt.settlement.verify(&receipt.key, &receipt.signature).unwrap();
                    let released = receipt.settlement.released_minor.minor();
                    let refunded = receipt.settlement.refunded_minor.minor();
                    assert_eq!(released + refunded, PRICE, "{id}");
                    assert_eq!(released == PRICE, status == EscrowStatus::Released, "{id}");
                    paid += released;
                    held.insert(id, 0);
                }
            }
        }
        assert_eq!(free(&self.provider).await, paid);
        let in_escrow: i64 = held.values().sum();
        assert_eq!(free(&self.requester).await, FUNDED * 1_000_000 - paid - in_escrow);
        Ok(held)
    }
}

/// What the ledger itself says about escrows and the whole.
async fn check_ledger(database: &str, held: &BTreeMap<DealId, i64>) {
    let store = Store::open(database, Options::default()).await.unwrap();
    let mut sum = 0;
    for (id, wanted) in held {
        let escrow = AccountId::escrow(id, Asset::USDC);
        let accounts = store.accounts(&escrow.to_string(), 2).await.unwrap();
        let in_escrow: i64 = accounts.iter().map(|account| account.posted.minor()).sum();
        assert_eq!(in_escrow, *wanted, "{id}");
        sum += in_escrow;
    }
    let wallets = store.accounts("wallet:", usize::from(u16::MAX)).await.unwrap();
    sum += wallets.iter().map(|wallet| wallet.posted.minor()).sum::<i64>();
    assert_eq!(sum, i64::from(PAIRS) * FUNDED * 1_000_000, "money came or went");
}

fn audit(home: &Path, database: &str) {
    let report = stage::told(stage::skep(home).args(["ledger", "audit", "--database", database]));
    assert_eq!(report["problem_count"], 0, "{report:#}");
    let held: i64 = i64::from(PAIRS) * FUNDED * 1_000_000;
    assert_eq!(report["held_by_accounts"]["USDC"], held, "{report:#}");
}

async fn cast(url: &str, hand: Arc<Hand>, rng: &mut Rng) -> Vec<Trio> {
    let hands = hand.enter(url, &["artifact"]).await;
    let mut trios = Vec::new();
    for pair in 0..PAIRS {
        let requester = Actor::new(10 + 2 * pair).enter(url, None).await;
        let provider = Actor::new(11 + 2 * pair).enter(url, None).await;
        requester.faucet(usdc(FUNDED)).await.unwrap();
        trios.push(Trio {
            requester: requester.with_retries(RETRIES),
            provider: provider.with_retries(RETRIES),
            hand: hand.clone(),
            hands: hands.clone().with_retries(RETRIES),
            book: Book::default(),
            rng: Rng::new(rng.u64()),
        });
    }
    trios
}

async fn deals_survive_kills(test: &str, database: &dyn Fn(&Path) -> String) {
    let seed = seed_or(1);
    // Printed where a test fails.
    println!("run again: SEED={seed} cargo test -p skep --test it deal_kills::{test}");
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let database = database(folder.path());
    let hand = Arc::new(Hand::new(1));
    // Always the same address, which is what requests are signed for.
    let listen = format!("127.0.0.1:{}", free_port());
    let (id, home) = (hand.actor.id().to_string(), folder.path().to_owned());
    let start = {
        let (database, home) = (database.clone(), home.clone());
        move || {
            let address = ["--listen", &listen, "--database", &database];
            let flags = [&address[..], &["--no-verifier", "--accredit", &id]].concat();
            Child::spawn(&mut stage::up(&home, &flags)).unwrap()
        }
    };
    let mut node = start();
    let trios = cast(node.url(), hand, &mut rng).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut working = JoinSet::new();
    for trio in trios {
        working.spawn(trio.work(over.clone()));
    }
    for _ in 0..if is_long() { KILLS_LONG } else { KILLS } {
        tokio::time::sleep(Duration::from_millis(rng.below(LOAD_MS_MAX))).await;
        let start = start.clone();
        let killed = move || {
            node.kill9();
            start()
        };
        node = tokio::task::spawn_blocking(killed).await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let mut held = BTreeMap::new();
    for trio in working.join_all().await {
        held.append(&mut trio.unwrap().compare().await.unwrap());
    }
    let settled = held.values().filter(|amount| **amount == 0).count();
    println!("{} acknowledged deals, {settled} settled", held.len());
    assert!(settled > 0, "nobody settled anything between the kills");
    audit(&home, &database);
    assert!(node.terminate().unwrap().success(), "{}", node.stderr());
    check_ledger(&database, &held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deals_on_sqlite_survive_kills() {
    let file = |folder: &Path| format!("sqlite:{}", folder.join("skep.db").display());
    deals_survive_kills("deals_on_sqlite_survive_kills", &file).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deals_on_postgres_survive_kills() {
    let server = |_: &Path| TempPostgres::shared().create_database("deals").unwrap();
    deals_survive_kills("deals_on_postgres_survive_kills", &server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_settle_each_deal_once() {
    let database = TempPostgres::shared().create_database("two").unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let verifiers = [1, 2].map(|n| furnish(folders[n - 1].path(), n as u8).to_string());
    let nodes = folders.each_ref().map(|folder| {
        let [one, other] = &verifiers;
        let flags = ["--database", &database, "--accredit", one, "--accredit", other];
        Child::spawn(&mut stage::up(folder.path(), &flags)).unwrap()
    });
    let ann = Actor::new(1).enter(nodes[0].url(), None).await;
    let ben = Actor::new(2).enter(nodes[1].url(), None).await;
    ann.faucet(usdc(100)).await.unwrap();
    for verifier in &verifiers {
        let address = verifier.parse().unwrap();
        until("both verifiers", async || ann.verifier(&address).await.ok()).await;
    }
    let mut deals = Vec::new();
    for n in 0..SHARED_DEALS {
        // Some say who is to look; for the others the marketplace picks.
        let named = verifiers.get(n % 3);
        let options = named.map_or(json!({}), |verifier| json!({"verifier": verifier}));
        let text = json!({"type": "artifact", "expected_content": "hello"});
        let id = agree(&ann, &ben, text, options).await;
        let (word, end) = match n % 2 {
            0 => ("Hello", EscrowStatus::Released),
            _ => ("Goodbye", EscrowStatus::Refunded),
        };
        deliver(&ben, id, word).await.unwrap();
        deals.push((id, end, named));
    }
    let keys = [ann.node_keys().await.unwrap(), ben.node_keys().await.unwrap()];
    assert_eq!(keys[0], keys[1]);
    for (id, end, named) in deals {
        for client in [&ann, &ben] {
            let agreement = settled(client, id).await;
            assert_eq!((agreement.escrow_status, agreement.verifications.len()), (end, 1));
            let verification = client.verification(agreement.verifications[0]).await.unwrap();
            let verifier = verification.verifier.unwrap().to_string();
            assert!(verifiers.contains(&verifier) && named.is_none_or(|name| *name == verifier));
            let receipt = client.settlement(id).await.unwrap();
            assert_eq!(receipt.key, keys[0].settlement);
            receipt.settlement.verify(&receipt.key, &receipt.signature).unwrap();
            assert_eq!(moves(client, id).await.len(), 1);
        }
    }
    let paid = i64::try_from(SHARED_DEALS / 2).unwrap() * PRICE;
    assert_eq!((free(&ann).await, free(&ben).await), (100_000_000 - paid, paid));
    let mut audit = stage::skep(folders[0].path());
    let report: Value = stage::told(audit.args(["ledger", "audit", "--database", &database]));
    assert_eq!(report["problem_count"], 0, "{report:#}");
}
