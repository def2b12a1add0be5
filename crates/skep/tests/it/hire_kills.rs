//! Buyer, seller and node are killed in the middle of hires. Afterwards all three say the same: who
//! has paid whom for what.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Seek, SeekFrom},
    path::Path,
    process::{Child as Process, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use skep_agent::journal::Journal;
use skep_base::{Hash32, id::DealId};
use skep_testkit::{
    postgres::TempPostgres,
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

const KILLS: u64 = 4;
/// The same on PostgreSQL, where only the node differs.
const KILLS_ON_POSTGRES: u64 = 4;
const KILLS_LONG: u64 = 200;
/// Seeds that have found something once. They always run first.
const FOUND: &[u64] = &[
    1012, // A buyer that died while the seller wrote its hire down: nobody carried that on.
];
/// How often a step that nobody was killed at is aimed at.
const AIMS: usize = 10;
/// Between two looks at a journal.
const LOOK: Duration = Duration::from_micros(200);
/// Who is aimed at writes slowly: each line of its journal lies alone for so long, in microseconds.
const SYNC_MICROS: u32 = 60_000;
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

const VICTIMS: [Victim; 3] = [Victim::Buyer, Victim::Seller, Victim::Node];

/// What a kill waits for.
#[derive(Clone, Debug)]
enum Cue {
    /// In thousandths of the time that an undisturbed hire takes.
    Time(u32),
    /// The buyer's journal ends with this.
    Bought(String),
    /// The seller's journal has so many lines more.
    Sold(usize),
}

/// Who is killed when.
#[derive(Clone, Debug)]
struct Round {
    escrow: bool,
    victim: Victim,
    cue: Cue,
    away: Duration,
}

impl Round {
    fn of(seed: u64) -> Round {
        let mut rng = Rng::new(seed);
        let victim = VICTIMS[rng.below(3) as usize];
        let escrow = rng.percent(50);
        let cue = Cue::Time(rng.below(1000) as u32);
        Round { escrow, victim, cue, away: Duration::from_millis(rng.below(AWAY_MS_MAX)) }
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
    /// What the seller's had said last when it was killed.
    entries: BTreeSet<(bool, String)>,
    /// What both say of hires that nobody disturbs: of the buyer's all steps, of the seller's the
    /// entries of a hire that is paid directly and of one in escrow.
    usual_steps: BTreeSet<String>,
    usual_entries: [Vec<String>; 2],
}

/// A hire that has begun.
struct Started {
    process: Process,
    begun: Instant,
    /// How long the buyer's journal was before it, in bytes.
    bought: u64,
    /// How many lines the seller's had.
    sold: usize,
}

fn sale(listen: &str) -> Sale<'static> {
    Sale { listen: listen.to_owned(), ..Sale::default() }
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn lines(path: &Path) -> usize {
    fs::read(path).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
}

/// The last step in a buyer's journal that was written after so many bytes.
fn last_step(path: &Path, from: u64) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let last = text[..text.rfind('\n')?].lines().next_back()?;
    let (_, step) = last.split_once(r#""step":""#)?;
    Some(step.split('"').next()?.to_owned())
}

impl Scene {
    async fn open(town: Town) -> Scene {
        let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
        let listen = format!("127.0.0.1:{}", free_port());
        let shop = town.sell(&ben, &sale(&listen));
        let mut scene = Scene {
            town,
            ann,
            ben,
            shop,
            listen,
            lengths: Default::default(),
            checked: BTreeSet::new(),
            steps: BTreeMap::new(),
            entries: BTreeSet::new(),
            usual_steps: BTreeSet::new(),
            usual_entries: Default::default(),
        };
        for escrow in [false, true] {
            // The first one warms up.
            for _ in 0..2 {
                let mut started = scene.start(escrow, false);
                wait(&mut started.process, "an undisturbed hire");
                scene.lengths[usize::from(escrow)] = started.begun.elapsed();
                scene.settle_down().await;
                let sold = scene.sellers_lines().split_off(started.sold);
                scene.usual_entries[usize::from(escrow)] = sold.iter().map(entry).collect();
            }
        }
        assert_eq!(scene.check().await, 4, "nobody was killed, and all were paid");
        scene.usual_steps = scene.buyers_lines().iter().map(step).collect();
        scene
    }

    fn hire_command(&self, args: &[&str]) -> Command {
        let mut command = self.town.hire_command(&self.ann, args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A hire that has just written its first line.
    fn start(&self, escrow: bool, is_slow: bool) -> Started {
        let journal = self.town.buyer_journal(&self.ann);
        let bought = size(&journal);
        let sold = lines(&self.town.seller_journal(&self.ben));
        let params = numbers().to_string();
        let mut command = self.hire_command(&[CAPABILITY, "--params", &params]);
        match escrow {
            true => command.arg("--escrow"),
            false => command.args(["--payment-mode", "direct"]),
        };
        let mut command = if is_slow { slowly(&command) } else { command };
        let mut process = command.spawn().unwrap();
        let start = Instant::now();
        while size(&journal) <= bought {
            assert!(process.try_wait().unwrap().is_none(), "the hire ended before it began");
            assert!(start.elapsed() < END_WITHIN, "the hire does not begin");
            thread::sleep(Duration::from_millis(1));
        }
        Started { process, begun: Instant::now(), bought, sold }
    }

    /// Waits until somebody is to be killed, or until the hire is over.
    fn await_cue(&self, round: &Round, started: &mut Started) {
        let (bought, sold) =
            (self.town.buyer_journal(&self.ann), self.town.seller_journal(&self.ben));
        let is_due = |started: &Started| match &round.cue {
            Cue::Time(at) => {
                started.begun.elapsed() >= self.lengths[usize::from(round.escrow)] * *at / 1000
            }
            Cue::Bought(step) => last_step(&bought, started.bought).as_ref() == Some(step),
            Cue::Sold(count) => lines(&sold) >= started.sold + count,
        };
        while !is_due(started) && started.process.try_wait().unwrap().is_none() {
            assert!(started.begun.elapsed() < END_WITHIN, "{round:?} does not come");
            thread::sleep(LOOK);
        }
    }

    /// One hire, one kill, and whatever follows until all is quiet.
    async fn play(&mut self, round: Round) {
        let is_slow = matches!(round.cue, Cue::Bought(_));
        let mut started = self.start(round.escrow, is_slow);
        self.await_cue(&round, &mut started);
        match round.victim {
            Victim::Buyer => started.process.kill().unwrap(),
            Victim::Seller => self.shop.child.kill9(),
            Victim::Node => self.town.kill_node(),
        }
        let last = step(self.buyers_lines().last().unwrap());
        *self.steps.entry((round.victim, last)).or_default() += 1;
        if round.victim == Victim::Seller {
            let sold = self.sellers_lines().split_off(started.sold);
            self.entries.extend(sold.last().map(|line| (round.escrow, entry(line))));
        }
        thread::sleep(round.away);
        match round.victim {
            Victim::Buyer => {}
            Victim::Seller => self.shop = self.town.sell(&self.ben, &sale(&self.listen)),
            Victim::Node => self.town.start_node(),
        }
        wait(&mut started.process, "a hire that was disturbed");
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

    fn sellers_lines(&self) -> Vec<Value> {
        Journal::find(&self.town.seller_journal(&self.ben), "").unwrap()
    }

    fn sales(&self) -> BTreeMap<String, Sold> {
        sales(&self.sellers_lines())
    }

    /// Whom nobody has killed yet after which of the buyer's steps.
    fn unmet(&self) -> Vec<(Victim, String)> {
        let all = self.usual_steps.iter();
        let all = all.flat_map(|step| VICTIMS.map(|victim| (victim, step.clone())));
        all.filter(|met| !self.steps.contains_key(met)).collect()
    }

    /// Which of the seller's entries nobody has killed it after: the mode, and the line's number.
    fn unsold(&self) -> Vec<(bool, usize)> {
        let mut unsold = Vec::new();
        for (escrow, entries) in [false, true].into_iter().zip(&self.usual_entries) {
            let left = |name: &String| !self.entries.contains(&(escrow, name.clone()));
            let numbers = entries.iter().enumerate().filter(|(_, name)| left(name));
            unsold.extend(numbers.map(|(at, _)| (escrow, at + 1)));
        }
        unsold
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

/// The same command, with a disk that takes its time. The process is still the command's own.
fn slowly(command: &Command) -> Command {
    let mut slow = Command::new("/usr/bin/strace");
    slow.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    slow.arg(format!("inject=fsync,fdatasync:delay_exit={SYNC_MICROS}"));
    slow.arg("--").arg(command.get_program()).args(command.get_args());
    slow.env_clear();
    slow.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    slow.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    slow.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    slow
}

fn step(line: &Value) -> String {
    line["step"].as_str().unwrap().to_owned()
}

fn entry(line: &Value) -> String {
    line["entry"].as_str().unwrap().to_owned()
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

async fn all_three_agree(town: Town, test: &str, kills: u64) {
    let mut scene = Scene::open(town).await;
    let first = seed_or(1);
    let count = if is_long() { KILLS_LONG } else { kills };
    let found = FOUND.iter().copied();
    for seed in found.chain(first..first + count) {
        let round = Round::of(seed);
        // Printed where a test fails.
        println!("{round:?}; alone: SEED={seed} cargo test -p skep --test it {test}");
        scene.play(round).await;
    }
    // Chance leaves out what is over in a moment.
    for _ in 0..AIMS {
        for (victim, step) in scene.unmet() {
            let (escrow, cue) = (true, Cue::Bought(step));
            let round = Round { escrow, victim, cue, away: Duration::ZERO };
            println!("{round:?}");
            scene.play(round).await;
        }
    }
    assert!(scene.unmet().is_empty(), "nobody was killed there: {:?}", scene.unmet());
    let (hires, lengths) = (hires(&scene.buyers_lines()), scene.lengths);
    let paid = hires.values().filter(|hire| hire.paid != Some(0)).count();
    println!("{} hires of {lengths:?}, {paid} paid; killed after {:?}", hires.len(), scene.steps);
    scene.town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_all_three_agree() {
    all_three_agree(Town::open(), "whoever_is_killed_all_three_agree", KILLS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_three_agree_on_postgres_too() {
    let town = Town::open_on(|_| TempPostgres::shared().create_database("hires").unwrap());
    all_three_agree(town, "all_three_agree_on_postgres_too", KILLS_ON_POSTGRES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_that_is_killed_at_any_line_agrees_with_the_others() {
    let mut scene = Scene::open(Town::open()).await;
    let tries = if is_long() { AIMS } else { 1 };
    for _ in 0..tries {
        for (escrow, count) in scene.unsold() {
            let round = Round {
                escrow,
                victim: Victim::Seller,
                cue: Cue::Sold(count),
                away: Duration::ZERO,
            };
            println!("{round:?}");
            scene.play(round).await;
        }
    }
    println!("{:?}; killed after {:?}", scene.usual_entries, scene.entries);
    if is_long() {
        assert!(scene.unsold().is_empty(), "nobody was killed there: {:?}", scene.unsold());
    }
    scene.town.audit(FUNDED_MINOR);
}
