//! The real node, killed and stopped under load: what it answered is true afterwards.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use skep_agent::Keyring;
use skep_base::{Amount, Asset, Clock, Money, ed25519::SecretKey, id::TransferId};
use skep_sdk::{Client, Error, Retries};
use skep_store::SystemClock;
use skep_testkit::{
    postgres::TempPostgres,
    process::{Child, run_until},
    rng::{Rng, is_long, seed_or},
};
use skep_wire::wallet::{NewTransfer, Transfer, TransferMode, TransferState};
use tokio::task::JoinSet;

const KILLS: usize = 40;
const KILLS_LONG: usize = 200;
const FIRST_STARTS: usize = 10;
const FIRST_STARTS_LONG: usize = 100;
const STOPS: usize = 4;
const STOPS_LONG: usize = 40;
const RACES: usize = 4;
const RACES_LONG: usize = 40;

/// Callers at the same time, each with an agent of its own.
const CALLERS: usize = 16;
/// Callers that want to end one hold.
const RACERS: usize = 64;
/// The memory of a node that nobody uses, its program's file apart; its allocator keeps some in
/// hand.
const IDLE_KIB_MAX: u64 = 56 * 1024;
/// The longest time under load before a signal.
const LOAD_MS_MAX: u64 = 400;

fn by_length(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// Where a test is, and how to come there again.
#[derive(Clone, Copy)]
struct Place {
    test: &'static str,
    seed: u64,
}

impl Place {
    fn new(test: &'static str) -> Place {
        Place { test, seed: seed_or(1) }
    }

    fn fail(self, detail: impl std::fmt::Display) -> ! {
        let Place { test, seed } = self;
        let long = if is_long() { "SKEP_TEST_LONG=1 " } else { "" };
        panic!("{detail}\nrun again: SEED={seed} {long}cargo test -p skep --test it kill::{test}");
    }

    fn start(self, folder: &Path, what: &str) -> Child {
        let started = Child::spawn(&mut up(folder));
        started.unwrap_or_else(|error| self.fail(format_args!("{what}: no start: {error}")))
    }

    fn must<T>(self, result: Result<T, String>, what: &str) -> T {
        result.unwrap_or_else(|error| self.fail(format_args!("{what}: {error}")))
    }
}

fn skep() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
    command.env("RUST_LOG", "error");
    command
}

fn up(folder: &Path) -> Command {
    let mut command = skep();
    command.args(["up", "--dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    command
}

/// Whether `skep ledger audit` finds nothing to complain about.
fn audit(folder: &Path) -> Result<(), String> {
    let output = skep()
        .args(["ledger", "audit", "--json", "--data-dir"])
        .arg(folder)
        .output()
        .map_err(|e| e.to_string())?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    match output.status.success() && report["problem_count"] == 0 {
        true => Ok(()),
        false => Err(format!("the audit says {report:#}")),
    }
}

fn usdc(minor: i64) -> Money {
    Money { amount: Amount::new(minor).unwrap(), asset: Asset::USDC }
}

/// The agents of a test.
struct Cast {
    keyrings: Vec<Keyring>,
}

impl Cast {
    /// Registers agents and gives each of them more than it can spend.
    async fn enter(url: &str, count: usize) -> Arc<Cast> {
        let keyrings = (1..=count).map(|n| Keyring::create([n as u8; 32]).0).collect();
        let cast = Cast { keyrings };
        for (keyring, client) in cast.keyrings.iter().zip(&*cast.clients(url)) {
            let request = keyring.registration(SystemClock.now(), None, None, None);
            client.register_agent(&request).await.unwrap();
            client.faucet(usdc(100_000_000_000)).await.unwrap();
        }
        Arc::new(cast)
    }

    /// A client for each agent, which reports every fault instead of trying again.
    fn clients(&self, url: &str) -> Arc<[Client]> {
        // One for all underneath: making one takes longer than a node takes to start.
        let client = Client::new(url).unwrap().with_retries(Retries::NONE);
        let of = |keyring: &Keyring| {
            let key = SecretKey::from_seed(*keyring.secret().seed());
            client.clone().with_key(keyring.agent_id(), key)
        };
        self.keyrings.iter().map(of).collect()
    }
}

/// What the callers know of one transfer.
#[derive(Clone, Debug)]
struct Known {
    payer: usize,
    acked: Option<Transfer>,
    /// What a call asked for that was not answered.
    asked: Option<TransferState>,
}

type Book = Arc<Mutex<BTreeMap<TransferId, Known>>>;

/// One who pays, holds, posts and has holds voided, until the node is gone.
struct Caller {
    n: usize,
    cast: Arc<Cast>,
    book: Book,
    rng: Rng,
    /// Answered and not ended.
    holds: Vec<(TransferId, usize, i64)>,
    /// Not answered: sent again to the next node, as the same transfer.
    unanswered: Option<NewTransfer>,
}

enum Act {
    Create(NewTransfer),
    Post(TransferId, i64),
    /// The payee's part.
    Void(TransferId, usize),
}

impl Caller {
    fn all(cast: &Arc<Cast>, book: &Book, seed: u64) -> Vec<Caller> {
        let caller = |n| Caller {
            n,
            cast: cast.clone(),
            book: book.clone(),
            rng: Rng::new(seed ^ (n as u64) << 32),
            holds: Vec::new(),
            unanswered: None,
        };
        (0..cast.keyrings.len()).map(caller).collect()
    }

    async fn run(mut self, clients: Arc<[Client]>) -> Caller {
        loop {
            let act = self.choose();
            let (id, wanted) = match &act {
                Act::Create(request) => (request.id, state_of(request.mode)),
                Act::Post(id, _) => (*id, TransferState::Posted),
                Act::Void(id, _) => (*id, TransferState::Voided),
            };
            self.note(id, |known| known.asked = Some(wanted));
            let own = &clients[self.n];
            let answer = match &act {
                Act::Create(request) => own.create_transfer(request).await,
                Act::Post(id, minor) => own.post_transfer(*id, Some(usdc(*minor))).await,
                Act::Void(id, payee) => clients[*payee].void_transfer(*id).await,
            };
            match answer {
                Ok(written) => self.answered(&act, written.value),
                Err(error) if is_gone(&error) => {
                    if let Act::Create(request) = act {
                        self.unanswered = Some(request);
                    }
                    return self;
                }
                Err(error) => panic!("a wrong answer: {error:?}"),
            }
        }
    }

    fn choose(&mut self) -> Act {
        if let Some(request) = self.unanswered.take() {
            return Act::Create(request);
        }
        match (self.rng.below(5), self.holds.pop()) {
            (0 | 1, Some((id, _, minor))) => Act::Post(id, 1 + self.rng.below(minor as u64) as i64),
            (2, Some((id, payee, _))) => Act::Void(id, payee),
            (choice, unused) => {
                self.holds.extend(unused);
                let other = 1 + self.rng.below(self.cast.keyrings.len() as u64 - 1) as usize;
                let payee = (self.n + other) % self.cast.keyrings.len();
                let mode = if choice < 4 { TransferMode::Pending } else { TransferMode::Posted };
                Act::Create(NewTransfer {
                    id: Client::new_id().unwrap(),
                    to: self.cast.keyrings[payee].agent_id(),
                    money: usdc(1 + self.rng.below(100) as i64),
                    mode,
                })
            }
        }
    }

    fn answered(&mut self, act: &Act, transfer: Transfer) {
        if let Act::Create(request) = act
            && request.mode == TransferMode::Pending
        {
            let is_payee = |keyring: &Keyring| keyring.agent_id() == request.to;
            let payee = self.cast.keyrings.iter().position(is_payee).unwrap();
            self.holds.push((request.id, payee, request.money.amount.minor()));
        }
        self.note(transfer.id, |known| {
            known.asked = None;
            known.acked = Some(transfer.clone());
        });
    }

    fn note(&self, id: TransferId, change: impl FnOnce(&mut Known)) {
        let mut book = self.book.lock().unwrap();
        change(book.entry(id).or_insert(Known { payer: self.n, acked: None, asked: None }));
    }
}

fn state_of(mode: TransferMode) -> TransferState {
    match mode {
        TransferMode::Posted => TransferState::Posted,
        TransferMode::Pending => TransferState::Pending,
    }
}

/// The node is not there, or says that it is about to go.
fn is_gone(error: &Error) -> bool {
    match error {
        Error::Connection { .. } => true,
        Error::Problem { problem, .. } => problem.retryable,
        _ => false,
    }
}

/// Whether the node tells of a transfer what the callers know. `unanswered`: whether a call
/// without an answer may have been carried out.
async fn compare(
    client: &Client,
    id: TransferId,
    known: &Known,
    unanswered: bool,
) -> Result<(), String> {
    let found = match client.transfer(id).await {
        Ok(found) => Some(found),
        Err(Error::Problem { problem, .. }) if problem.status == 404 => None,
        Err(error) => return Err(format!("{id} could not be read: {error:?}")),
    };
    let as_asked = unanswered && found.as_ref().map(|t| t.state) == known.asked;
    if found == known.acked || as_asked && known.asked.is_some() {
        return Ok(());
    }
    Err(format!("{id} is {found:?}, but its callers know {known:?}"))
}

/// Compares all that is in the book, or in a part of it.
async fn compare_all(
    cast: &Cast,
    url: &str,
    part: Vec<(TransferId, Known)>,
    unanswered: bool,
) -> Result<(), String> {
    let mut readers = JoinSet::new();
    for (n, client) in cast.clients(url).iter().cloned().enumerate() {
        let own: Vec<_> = part.iter().filter(|(_, known)| known.payer == n).cloned().collect();
        readers.spawn(async move {
            for (id, known) in own {
                compare(&client, id, &known, unanswered).await?;
            }
            Ok(())
        });
    }
    readers.join_all().await.into_iter().collect()
}

/// Lets the callers work on a node for a random time, ends it by `end`, and waits until every
/// caller has seen that it is gone.
async fn load(
    mut node: Child,
    clients: Arc<[Client]>,
    callers: Vec<Caller>,
    time: Duration,
    end: impl FnOnce(&mut Child) + Send + 'static,
) -> Vec<Caller> {
    let mut working = JoinSet::new();
    for caller in callers {
        working.spawn(caller.run(clients.clone()));
    }
    tokio::time::sleep(time).await;
    tokio::task::spawn_blocking(move || end(&mut node)).await.unwrap();
    let mut callers = working.join_all().await;
    callers.sort_by_key(|caller| caller.n);
    callers
}

fn changed_since(book: &Book, before: &BTreeMap<TransferId, Known>) -> Vec<(TransferId, Known)> {
    let differs = |id: &TransferId, known: &Known| {
        before.get(id).is_none_or(|old| old.acked != known.acked || old.asked != known.asked)
    };
    let book = book.lock().unwrap();
    book.iter().filter(|(id, known)| differs(id, known)).map(|(id, k)| (*id, k.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load() {
    let place = Place::new("killed_under_load");
    let mut rng = Rng::new(place.seed);
    let folder = tempfile::tempdir().unwrap();
    let mut node = Child::spawn(&mut up(folder.path())).unwrap();
    let cast = Cast::enter(node.url(), CALLERS).await;
    let book = Book::default();
    let mut callers = Caller::all(&cast, &book, place.seed);
    for kill in 0..by_length(KILLS, KILLS_LONG) {
        let before = book.lock().unwrap().clone();
        let time = Duration::from_millis(rng.below(LOAD_MS_MAX));
        let clients = cast.clients(node.url());
        callers = load(node, clients, callers, time, |node| node.kill9()).await;
        let what = format!("kill {kill} after {time:?}");
        node = place.start(folder.path(), &what);
        let part = changed_since(&book, &before);
        place.must(compare_all(&cast, node.url(), part, true).await, &what);
    }
    let whole: Vec<_> = book.lock().unwrap().iter().map(|(id, k)| (*id, k.clone())).collect();
    let acked = whole.iter().filter(|(_, known)| known.acked.is_some()).count();
    println!("{acked} acknowledged transfers of {}", whole.len());
    assert!(acked > 0, "no caller got an answer before a kill");
    place.must(compare_all(&cast, node.url(), whole, true).await, "at the end");
    place.must(audit(folder.path()), "at the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_under_load() {
    let place = Place::new("stopped_under_load");
    let mut rng = Rng::new(place.seed);
    let folder = tempfile::tempdir().unwrap();
    let mut node = Child::spawn(&mut up(folder.path())).unwrap();
    let cast = Cast::enter(node.url(), CALLERS).await;
    let (mut acked, mut unanswered) = (0, 0);
    for stop in 0..by_length(STOPS, STOPS_LONG) {
        let book = Book::default();
        let callers = Caller::all(&cast, &book, rng.u64());
        let time = Duration::from_millis(rng.below(LOAD_MS_MAX));
        let clients = cast.clients(node.url());
        load(node, clients, callers, time, |node| {
            let status = node.terminate().unwrap();
            assert!(status.success(), "{status}: {}", node.stderr());
        })
        .await;
        let what = format!("stop {stop} after {time:?}");
        node = place.start(folder.path(), &what);
        let whole = changed_since(&book, &BTreeMap::new());
        acked += whole.iter().filter(|(_, known)| known.acked.is_some()).count();
        unanswered += whole.iter().filter(|(_, known)| known.asked.is_some()).count();
        // What it accepted it finished and answered: nothing happened behind a caller's back.
        place.must(compare_all(&cast, node.url(), whole, false).await, &what);
    }
    println!("{acked} acknowledged transfers, {unanswered} unanswered calls");
    assert!(acked > 0, "no caller got an answer before a stop");
    place.must(audit(folder.path()), "at the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_its_first_start() {
    let place = Place::new("killed_at_its_first_start");
    let mut rng = Rng::new(place.seed);
    for start in 0..by_length(FIRST_STARTS, FIRST_STARTS_LONG) {
        let folder = tempfile::tempdir().unwrap();
        let moment = Duration::from_micros(rng.below(80_000));
        let run = run_until(&mut up(folder.path()), moment).unwrap();
        assert!(run.killed, "{}", run.stderr);
        let what = format!("start {start}, killed after {moment:?}");
        let node = place.start(folder.path(), &what);
        Cast::enter(node.url(), 2).await;
        place.must(audit(folder.path()), &what);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_agree_on_who_ends_a_hold() {
    let database = TempPostgres::shared().create_database("race").unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let nodes = folders.each_ref().map(|folder| {
        let mut command = up(folder.path());
        Child::spawn(command.args(["--database", &database])).unwrap()
    });
    let cast = Cast::enter(nodes[0].url(), 2).await;
    let clients = nodes.each_ref().map(|node| cast.clients(node.url()));
    for race in 0..by_length(RACES, RACES_LONG) {
        let (id, money) = (Client::new_id().unwrap(), usdc(100));
        let to = cast.keyrings[1].agent_id();
        let request = NewTransfer { id, to, money, mode: TransferMode::Pending };
        clients[race % 2][0].create_transfer(&request).await.unwrap();
        let mut racers = JoinSet::new();
        for n in 0..RACERS {
            // Both sides race on both nodes.
            let (side, node) = (n % 2, n / 2 % 2);
            let client = clients[node][side].clone();
            racers.spawn(async move {
                match side {
                    0 => client.post_transfer(id, None).await,
                    _ => client.void_transfer(id).await,
                }
            });
        }
        let answers = racers.join_all().await;
        let winners: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "race {race}: {winners:?}");
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert!(error.code().starts_with("already_"), "race {race}: {error:?}");
        }
        for clients in &clients {
            let seen = clients[0].transfer(id).await.unwrap();
            assert_eq!(seen, winners[0].value, "race {race}");
        }
    }
    let output = skep().args(["ledger", "audit", "--database", &database]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn an_idle_node_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let node = Child::spawn(&mut up(folder.path())).unwrap();
    Client::new(node.url()).unwrap().log_head().await.unwrap();
    let kib = node.own_kib().unwrap();
    println!("{kib} KiB");
    assert!(kib < IDLE_KIB_MAX, "{kib} KiB");
}

#[test]
fn a_second_node_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _node = Child::spawn(&mut up(folder.path())).unwrap();
    let second = run_until(&mut up(folder.path()), Duration::from_secs(60)).unwrap();
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert_eq!(second.stdout, "");
    assert!(second.stderr.contains("another process uses"), "{}", second.stderr);
    assert_eq!(second.stderr.lines().count(), 1, "{}", second.stderr);
}
