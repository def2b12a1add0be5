//! Buyer, seller and node are killed in the middle of hires. Afterwards all three say the same: who
//! has paid whom for what.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Child as Process, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use skep_agent::journal::Journal;
use skep_base::{Hash32, id::DealId};
use skep_testkit::{
    process::free_port,
    rng::{Rng, is_long, seed_or},
};
use skep_wire::{
    hire::{Judgement, WalletSigned, receipt_id},
    settle::EscrowStatus,
};

use crate::{
    hire_stage::{Agent, CAPABILITY, FUNDED_MINOR, PRICE, Sale, Shop, Town, numbers},
    stage::until,
};

const KILLS: u64 = 8;
const KILLS_LONG: u64 = 200;
/// Seeds that have found something once. They always run first.
const FOUND: &[u64] = &[
    1012, // A buyer that died while the seller wrote its hire down: nobody carried that on.
];
/// The longest absence of a seller or a node beyond its start.
const AWAY_MS_MAX: u64 = 300;
/// How long a hire may take to come to its end after a kill.
const END_WITHIN: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Buyer,
    Seller,
    Node,
}

/// Who is killed when, all from one seed.
#[derive(Clone, Copy, Debug)]
struct Round {
    escrow: bool,
    victim: Victim,
    /// When, in thousandths of the time that an undisturbed hire takes.
    at: u32,
    away: Duration,
}

impl Round {
    fn of(seed: u64) -> Round {
        let mut rng = Rng::new(seed);
        let victim = [Victim::Buyer, Victim::Seller, Victim::Node][rng.below(3) as usize];
        let escrow = rng.percent(50);
        let at = rng.below(1000) as u32;
        Round { escrow, victim, at, away: Duration::from_millis(rng.below(AWAY_MS_MAX)) }
    }
}

/// The three of them, and how long a hire takes when nobody dies: directly, and in escrow.
struct Scene {
    town: Town,
    ann: Agent,
    ben: Agent,
    shop: Shop,
    listen: String,
    lengths: [Duration; 2],
    /// Hires that were looked at already.
    checked: BTreeSet<Hash32>,
    /// What the buyer's journal had said last when somebody was killed.
    steps: BTreeMap<(Victim, String), usize>,
}

fn sale(listen: &str) -> Sale<'static> {
    Sale { listen: listen.to_owned(), ..Sale::default() }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

impl Scene {
    async fn open() -> Scene {
        let town = Town::open();
        let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
        let listen = format!("127.0.0.1:{}", free_port());
        let shop = town.sell(&ben, &sale(&listen));
        let (lengths, checked, steps) = Default::default();
        let mut scene = Scene { town, ann, ben, shop, listen, lengths, checked, steps };
        for escrow in [false, true] {
            // The first one warms up.
            for _ in 0..2 {
                let (mut process, begun) = scene.start(escrow);
                wait(&mut process, "an undisturbed hire");
                scene.lengths[usize::from(escrow)] = begun.elapsed();
            }
        }
        scene.settle_down().await;
        assert_eq!(scene.check().await, 4, "nobody was killed, and all were paid");
        scene
    }

    fn hire_command(&self, args: &[&str]) -> Command {
        let mut command = self.town.hire_command(&self.ann, args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A hire that has just written its first line.
    fn start(&self, escrow: bool) -> (Process, Instant) {
        let journal = self.town.buyer_journal(&self.ann);
        let before = size(&journal);
        let params = numbers().to_string();
        let mut command = self.hire_command(&[CAPABILITY, "--params", &params]);
        match escrow {
            true => command.arg("--escrow"),
            false => command.args(["--payment-mode", "direct"]),
        };
        let mut process = command.spawn().unwrap();
        let start = Instant::now();
        while size(&journal) <= before {
            assert!(process.try_wait().unwrap().is_none(), "the hire ended before it began");
            assert!(start.elapsed() < END_WITHIN, "the hire does not begin");
            thread::sleep(Duration::from_millis(1));
        }
        (process, Instant::now())
    }

    /// One hire, one kill, and whatever follows until all is quiet.
    async fn play(&mut self, round: Round) {
        let (mut process, begun) = self.start(round.escrow);
        let kill_at = self.lengths[usize::from(round.escrow)] * round.at / 1000;
        thread::sleep(kill_at.saturating_sub(begun.elapsed()));
        match round.victim {
            Victim::Buyer => process.kill().unwrap(),
            Victim::Seller => self.shop.child.kill9(),
            Victim::Node => self.town.kill_node(),
        }
        let last = self.buyers_lines().pop().unwrap();
        let step = last["step"].as_str().unwrap().to_owned();
        *self.steps.entry((round.victim, step)).or_default() += 1;
        thread::sleep(round.away);
        match round.victim {
            Victim::Buyer => {}
            Victim::Seller => self.shop = self.town.sell(&self.ben, &sale(&self.listen)),
            Victim::Node => self.town.start_node(),
        }
        wait(&mut process, "a hire that was disturbed");
        self.settle_down().await;
        self.check().await;
    }

    fn buyers_lines(&self) -> Vec<Value> {
        Journal::find(&self.town.buyer_journal(&self.ann), "").unwrap()
    }

    /// The buyer takes up what it left, and the seller ends what it began.
    async fn settle_down(&self) {
        let start = Instant::now();
        while hires(&self.buyers_lines()).values().any(|hire| hire.paid.is_none()) {
            let mut process = self.hire_command(&["--resume"]).spawn().unwrap();
            wait(&mut process, "a resumed hire");
            assert!(start.elapsed() < END_WITHIN, "the buyer has open hires");
        }
        until("the seller's last line", async || {
            let sales = self.sales();
            sales.values().all(|sale| sale.receipted || sale.failed).then_some(())
        })
        .await;
    }

    fn sales(&self) -> BTreeMap<String, Sold> {
        sales(&Journal::find(&self.town.seller_journal(&self.ben), "").unwrap())
    }

    /// Compares what buyer, seller and node say. Gives how many hires were paid in all.
    async fn check(&mut self) -> usize {
        let (hires, mut sales) = (hires(&self.buyers_lines()), self.sales());
        let mut paid = 0;
        for (id, hire) in &hires {
            let name = receipt_id(&self.ben.id(), &self.ann.id(), id).to_string();
            let sold = sales.remove(&name);
            let is_paid = hire.paid.unwrap() > 0;
            paid += usize::from(is_paid);
            if self.checked.insert(*id) {
                assert!(hire.paid == Some(PRICE) || hire.paid == Some(0), "{id}: {hire:?}");
                self.check_one(id, &name, hire, &sold.unwrap_or_default()).await;
            }
        }
        assert!(sales.is_empty(), "sold to nobody: {sales:?}");
        // Every payment is some hire's, and every cent is somewhere.
        assert_eq!(self.ann.paid().await, vec![PRICE; paid]);
        let sum = PRICE * i64::try_from(paid).unwrap();
        assert_eq!((self.ann.free().await, self.ann.held().await), (FUNDED_MINOR - sum, 0));
        assert_eq!((self.ben.free().await, self.ben.held().await), (sum, 0));
        paid
    }

    async fn check_one(&self, id: &Hash32, name: &str, hire: &Bought, sold: &Sold) {
        let is_paid = hire.paid != Some(0);
        let facts = format!("{id} {name}: {hire:?} {sold:?}");
        let stored = self.ann.client.receipt(name).await.ok();
        if let Some(stored) = &stored {
            let receipt = &stored.receipt;
            receipt.check_signature().unwrap();
            assert_eq!((receipt.hire_hash, receipt.buyer), (Some(*id), self.ann.id()), "{facts}");
            assert_eq!(
                (receipt.amount_usdc_atomic.minor(), receipt.agent_id),
                (PRICE, self.ben.id())
            );
        }
        if is_paid {
            let stored = stored.as_ref().unwrap_or_else(|| panic!("no receipt: {facts}"));
            assert_eq!((stored.judgement, stored.dispute), (Judgement::Passed, false), "{facts}");
            assert!(hire.authorized && sold.receipted && !sold.failed, "{facts}");
        }
        match hire.escrow {
            false => {
                assert_eq!((sold.settled, stored.is_some()), (is_paid, is_paid), "{facts}");
            }
            true => {
                let Some(escrow) = sold.held else {
                    assert!(!is_paid && stored.is_none(), "{facts}");
                    return;
                };
                let end = self.ann.client.hire_escrow(escrow).await.unwrap();
                let wanted = match is_paid {
                    true => EscrowStatus::Released,
                    false => EscrowStatus::Refunded,
                };
                assert_eq!(end.status, wanted, "{facts}");
                assert_eq!(end.receipt_id.as_deref(), stored.as_ref().map(|_| name), "{facts}");
            }
        }
    }
}

fn wait(process: &mut Process, what: &str) {
    let start = Instant::now();
    while process.try_wait().unwrap().is_none() {
        if start.elapsed() > END_WITHIN {
            process.kill().unwrap();
            panic!("{what} does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A hire as its buyer's journal has it.
#[derive(Debug, Default)]
struct Bought {
    escrow: bool,
    authorized: bool,
    /// What it cost in the end, once it is over.
    paid: Option<i64>,
}

fn hires(lines: &[Value]) -> BTreeMap<Hash32, Bought> {
    let mut hires: BTreeMap<Hash32, Bought> = BTreeMap::new();
    for line in lines {
        let id = line["id"].as_str().unwrap().parse().unwrap();
        let hire = hires.entry(id).or_default();
        match line["step"].as_str().unwrap() {
            "intent" => {
                let mode = line["listing"]["payment_mode"].as_str().unwrap_or("direct");
                hire.escrow = mode != "direct";
            }
            "authorized" => hire.authorized = true,
            "done" => {
                assert_eq!(hire.paid, None, "ended twice: {line}");
                hire.paid = line["paid"].as_str().unwrap().parse().ok();
            }
            "abandoned" => {
                assert_eq!(hire.paid, None, "ended twice: {line}");
                hire.paid = Some(0);
            }
            _ => {}
        }
    }
    hires
}

/// A hire as its seller's journal has it.
#[derive(Debug, Default)]
struct Sold {
    settled: bool,
    held: Option<DealId>,
    receipted: bool,
    failed: bool,
}

fn sales(lines: &[Value]) -> BTreeMap<String, Sold> {
    let mut sales: BTreeMap<String, Sold> = BTreeMap::new();
    for line in lines {
        let id = line["id"].as_str().or(line["hire"]["id"].as_str()).unwrap();
        let sale = sales.entry(id.to_owned()).or_default();
        match line["entry"].as_str().unwrap() {
            "settled" => {
                sale.settled = true;
                // The receipt may have gone along.
                sale.receipted |= line["settled"]["receiptEntered"] == true;
            }
            "held" => sale.held = line["settled"]["escrowId"].as_str().unwrap().parse().ok(),
            "receipted" => sale.receipted = true,
            "receipt_refused" => panic!("the node does not take a receipt: {line}"),
            "failed" | "withheld" => sale.failed = true,
            _ => {}
        }
    }
    sales
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_all_three_agree() {
    let mut scene = Scene::open().await;
    let first = seed_or(1);
    let count = if is_long() { KILLS_LONG } else { KILLS };
    let found = FOUND.iter().copied();
    for seed in found.chain(first..first + count) {
        let round = Round::of(seed);
        // Printed where a test fails.
        println!("{round:?}; alone: SEED={seed} cargo test -p skep --test it hire_kills");
        scene.play(round).await;
    }
    let (hires, lengths) = (hires(&scene.buyers_lines()), scene.lengths);
    let paid = hires.values().filter(|hire| hire.paid != Some(0)).count();
    println!("{} hires of {lengths:?}, {paid} paid; killed after {:?}", hires.len(), scene.steps);
    scene.town.audit(FUNDED_MINOR);
}
