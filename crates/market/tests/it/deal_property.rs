//! Random deals of everybody with everybody, with attacks, crashes and leaps of the clock, and
//! what must be true after every step.
//!
//! A seed decides everything. One that failed is played again alone with `SEED=… cargo test -p
//! skep-market --test it deal_property`; once its bug is found it is put into [`FAILED_BEFORE`].
//! `SEEDS=1000-1999` plays a part, so that a long run can go on where it stopped.

#[path = "deal_property/checks.rs"]
mod checks;
#[path = "deal_property/moves.rs"]
mod moves;
#[path = "deal_property/purses.rs"]
mod purses;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use serde::{Deserialize, de::IgnoredAny};
use skep_base::{
    AgentId, Asset, Clock, Timestamp, ed25519::SecretKey, id::DealId, time::ManualClock,
};
use skep_market::{Failure, Market};
use skep_settle::{Deal, Policy, SubsidyLimits};
use skep_store::{OpenError, Options, RecordKey, Room, RouteKey, Store, StoredRecord, Synchronous};
use skep_testkit::rng::{Rng, is_long, seed_or, seeds_or};
use skep_wire::settle::{RegisterVerifier, VerificationCallback, engine};

use crate::{deal_world::Looker, fixture::*};

/// Seeds whose bugs were found and mended. They are played every time.
const FAILED_BEFORE: [u64; 0] = [];
const SEEDS: u64 = 40;
const SEEDS_LONG: u64 = 100_000;
const STEPS: usize = 150;
/// Seeds that are played beside one another.
const AT_ONCE: usize = 6;
/// The steps of a seed that are told when it fails.
const TOLD: usize = 60;

/// Three requesters, three providers, three verifiers and a reviewer on one database.
pub struct Town {
    rng: Rng,
    /// None in the middle of a crash.
    market: Option<Market>,
    clock: Arc<ManualClock>,
    path: PathBuf,
    policy: Policy,
    /// Requesters, then providers; each may be either.
    people: Vec<Person>,
    /// Verifiers, then the reviewer.
    lookers: Vec<Looker>,
    deals: Vec<DealId>,
    /// Those that can still go on.
    alive: Vec<DealId>,
    /// Whether the platform has money to front.
    pots_are_full: bool,
    /// Callbacks that were sent, and whether by the reviewers' door.
    sent: Vec<(bool, VerificationCallback)>,
    transfers: u64,
    book: checks::Book,
    told: Vec<String>,
}

impl Town {
    /// The agents and verifiers of every town: made once, since signatures cost time.
    async fn found(path: &Path) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(START_MS)));
        let market = open(path, &clock, Policy::default()).await;
        let (people, lookers) = inhabitants();
        for person in people.iter().chain(lookers.iter().map(|looker| &looker.person)) {
            let request = person.registration(&person.binding(clock.now()));
            market.register_agent(request).await.unwrap();
        }
        for (n, looker) in lookers.iter().enumerate() {
            let engines: &[&str] = match n {
                3 => &[engine::HUMAN],
                _ => &[engine::ARTIFACT, engine::HTTP],
            };
            let prices = if n == 1 { vec![usdc(10)] } else { vec![] };
            let mut request = RegisterVerifier { prices, ..looker.offers(engines) };
            request.key.not_after = Some(clock.now().plus(366 * 24 * HOUR));
            let signed = looker.person.signed("register");
            market.register_verifier(&signed, request).await.unwrap();
        }
        // One verifier belongs to a provider's operator, and one requester to another's.
        for (seed, pair) in [(60, [&people[5], &lookers[2].person]), (61, [&people[2], &people[4]])]
        {
            let key = SecretKey::from_seed([seed; 32]);
            let request = operator(&key, "Acme", clock.now());
            market.register_operator(request).await.unwrap();
            for agent in pair {
                let change = agent.attach(&key, clock.now());
                market.change_keys(&agent.id(), change).await.unwrap();
            }
        }
        close(market).await;
    }

    async fn new(seed: u64, path: PathBuf) -> Town {
        let mut rng = Rng::new(seed);
        let clock = Arc::new(ManualClock::new(Timestamp::from_ms(START_MS)));
        let policy = Policy {
            fee_bps: [0, 0, 500, 2000][rng.below(4) as usize],
            buyer_share_bps: [0, 5000, 10_000][rng.below(3) as usize],
            fee_tiers: [("pro".to_owned(), 100), ("gold".to_owned(), 1500)].into(),
            deposit_bps: [0, 500][rng.below(2) as usize],
            remainder_multiple: [1, 4][rng.below(2) as usize],
            auto_approve_units_max: 50,
            subsidy: SubsidyLimits::default(),
            review_deadline_s: [None, None, Some(7200)][rng.below(3) as usize],
        };
        let market = open(&path, &clock, policy.clone()).await;
        let (people, lookers) = inhabitants();
        for looker in &lookers {
            // Its first request was made when the town was founded.
            looker.person.signed("register");
        }
        let mut town = Town {
            rng,
            market: Some(market),
            clock,
            path,
            policy,
            people,
            lookers,
            deals: vec![],
            alive: vec![],
            pots_are_full: false,
            sent: vec![],
            transfers: 0,
            book: checks::Book::default(),
            told: vec![],
        };
        for n in 0..6 {
            town.fund(n, if n < 3 { 300_000 } else { 6_000 }).await.unwrap();
            town.think_of(n).await.unwrap();
        }
        town.pots_are_full = town.rng.percent(50);
        town
    }

    /// Ends the process, as far as the database can tell, and starts another.
    async fn crash(&mut self) {
        if let Some(market) = self.market.take() {
            close(market).await;
        }
        self.market = Some(open(&self.path, &self.clock, self.policy.clone()).await);
    }

    fn market(&self) -> &Market {
        self.market.as_ref().unwrap()
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A deal as it is stored, with when its timer rings.
    async fn deal(&self, id: DealId) -> Option<DealAndTimer> {
        let record = self.market().store().record(deal_key(id)).await.unwrap()?;
        Some(deal_and_timer(&record))
    }

    /// All that were agreed on, in one reading.
    async fn agreed(&self) -> Vec<DealAndTimer> {
        let keys = self.deals.iter().map(|id| deal_key(*id)).collect();
        let records = self.market().store().records(keys).await.unwrap();
        records.iter().flatten().map(deal_and_timer).collect()
    }

    fn person(&self, id: &AgentId) -> &Person {
        let lookers = self.lookers.iter().map(|looker| &looker.person);
        self.people.iter().chain(lookers).find(|person| person.id() == *id).unwrap()
    }

    /// A refusal is an answer; anything else that is none is a bug.
    fn tell<T>(&mut self, what: String, said: Result<T, Failure>) -> Result<Option<T>, String> {
        let (word, said) = match said {
            Ok(value) => ("ok".to_owned(), Ok(Some(value))),
            Err(Failure::Refused(why) | Failure::RefusedBefore(why)) => {
                (format!("refused: {why}"), Ok(None))
            }
            Err(other) => (format!("FAILED: {other:?}"), Err(format!("{what}: {other:?}"))),
        };
        self.told.push(format!("{} {what}: {word}", self.now()));
        said
    }
}

fn deal_key(id: DealId) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: "deal", id: id.to_string() }
}

fn deal_and_timer(record: &StoredRecord) -> DealAndTimer {
    /// As much of the record as is looked at.
    #[derive(Deserialize)]
    struct Stored {
        deal: Deal,
        timer: Option<(IgnoredAny, Timestamp)>,
    }
    let Stored { deal, timer } = serde_json::from_str(&record.body).unwrap();
    (deal, timer.map(|(_, at)| at))
}

fn inhabitants() -> (Vec<Person>, Vec<Looker>) {
    ((1..=6).map(Person::new).collect(), (11..=14).map(Looker::new).collect())
}

async fn open(path: &Path, clock: &Arc<ManualClock>, policy: Policy) -> Market {
    let url = format!("sqlite:{}", path.display());
    let store = loop {
        let clock: Arc<dyn Clock> = clock.clone();
        // What is looked at here is not what a power cut does.
        let synchronous = Synchronous::Normal;
        let options = Options { clock: Some(clock), synchronous, ..Options::default() };
        match Store::open(&url, options).await {
            Ok(store) => break store,
            Err(OpenError::Locked { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let (_, lookers) = inhabitants();
    let accredited = lookers.iter().map(Looker::id);
    Market::new(store, log_key(), true).with_accredited(accredited).with_policy(policy)
}

/// Lets go of a market once nothing that it was asked is under way.
async fn close(market: Market) {
    let nothing = Room { here: 0, outside: 0 };
    market.store().lease_jobs(nothing, Duration::ZERO).await.unwrap();
    drop(market);
}

type DealAndTimer = (Deal, Option<Timestamp>);

/// What the seeds together have come to: a test that reaches nothing proves nothing.
type Reached = BTreeMap<String, u64>;

/// What a seed came to, with its story; or what was wrong.
type Played = (Result<Reached, String>, Vec<String>);

async fn play(seed: u64, path: PathBuf) -> Played {
    let mut town = Town::new(seed, path).await;
    for _ in 0..STEPS {
        let stepped = match town.step().await {
            Ok(()) => town.check().await,
            wrong => wrong,
        };
        if let Err(wrong) = stepped {
            return (Err(wrong), town.told);
        }
    }
    let ended = town.check_at_the_end().await;
    (ended.map(|()| town.book.reached), town.told)
}

async fn play_and_tell(seed: u64, template: &Path, folder: &Path) -> Reached {
    let path = folder.join(format!("{seed}.db"));
    std::fs::copy(template, &path).unwrap();
    let played = tokio::spawn(play(seed, path.clone())).await;
    let long = if is_long() { "SKEP_TEST_LONG=1 " } else { "" };
    let again = format!("SEED={seed} {long}cargo test -p skep-market --test it deal_property");
    for extension in ["db", "lock", "db-wal", "db-shm"] {
        let _ = std::fs::remove_file(path.with_extension(extension));
    }
    match played {
        Ok((Ok(reached), told)) => {
            if seed_or(u64::MAX) == seed {
                println!("{}", told.join("\n"));
            }
            reached
        }
        Ok((Err(wrong), told)) => {
            let told = told[told.len().saturating_sub(TOLD)..].join("\n");
            panic!("{told}\n{wrong}\nrun again: {again}");
        }
        Err(panicked) => panic!("{panicked}\nrun again: {again}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_everybody_does_money_and_deals_stay_whole() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("town.db");
    Town::found(&template).await;
    let seeds = seeds_or(1..=if is_long() { SEEDS_LONG } else { SEEDS });
    let seeds: Vec<u64> = match seeds.start() == seeds.end() {
        true => seeds.collect(),
        false => FAILED_BEFORE.into_iter().chain(seeds).collect(),
    };
    let mut reached = Reached::new();
    let mut played = futures_util::stream::iter(seeds.clone())
        .map(|seed| play_and_tell(seed, &template, folder.path()))
        .buffer_unordered(AT_ONCE);
    while let Some(came_to) = played.next().await {
        for (what, times) in came_to {
            *reached.entry(what).or_default() += times;
        }
    }
    if seeds.len() as u64 >= SEEDS {
        let wanted: BTreeSet<&str> = checks::WANTED.into_iter().collect();
        let missing: Vec<_> = wanted.iter().filter(|what| !reached.contains_key(**what)).collect();
        assert!(missing.is_empty(), "never came to {missing:?}, only to {reached:#?}");
    }
    let asset = Asset::USDC;
    println!("{} seeds in {asset}: {reached:#?}", seeds.len());
}
