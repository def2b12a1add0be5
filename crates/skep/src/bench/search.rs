//! Searches among few and among many listings, while somebody writes all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::ed25519::SecretKey;
use skep_market::{Market, SAMPLE_POPULAR, SAMPLE_RARE, sample_listing};
use skep_store::{Call, Decision, Load, Lock, Options, RecordKey, Store};
use skep_testkit::postgres::TempPostgres;
use skep_wire::hire::Search;

use super::{Figure, progress};

/// How many listings there are, one measurement after the other.
const SIZES: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// What the others are compared with.
const FEW: u64 = 10_000;
/// The measured time is cut into so many turns.
const TURNS: u32 = 4;
/// Searches before each turn, and in it at least.
const WARM_UP: usize = 50;
const ASKED_MIN: usize = 300;

/// Each but the last finds as much among few as among many: what is measured is how long it takes
/// to find it, not how long it is.
fn questions() -> [(&'static str, Value); 6] {
    [
        ("a popular capability", json!({ "capability": SAMPLE_POPULAR })),
        ("a rare capability", json!({ "capability": SAMPLE_RARE, "limit": 10 })),
        ("first words", json!({ "capability": "custom.some", "match": "prefix" })),
        ("a common and a rare word", json!({ "query": "word1 word90" })),
        ("two common words", json!({ "query": "word1 word2" })),
        (
            "a popular capability, few fit",
            json!({
                "capability": SAMPLE_POPULAR, "max_price_usdc": "0.0011",
            }),
        ),
    ]
}

pub(super) async fn measure(
    time: Duration,
    many: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut towns = Vec::new();
    for size in sizes(many) {
        let file = folder.path().join(format!("{size}.db"));
        towns.push(Town::open("SQLite", &format!("sqlite:{}", file.display()), size).await?);
    }
    compare("SQLite", &mut towns, time, report).await?;
    drop((towns, folder));
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    let mut towns = Vec::new();
    for size in sizes(many) {
        let url = server.create_database(&format!("skep{size}"))?;
        towns.push(Town::open("PostgreSQL", &url, size).await?);
    }
    compare("PostgreSQL", &mut towns, time, report).await
}

fn sizes(many: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size < many).collect();
    sizes.push(many.max(FEW));
    sizes
}

/// So many listings, and how long each question to them took, in microseconds.
struct Town {
    size: u64,
    market: Market,
    took: Vec<Vec<f64>>,
}

impl Town {
    async fn open(engine: &str, url: &str, size: u64) -> Result<Town> {
        progress(&format!("{size} listings on {engine}"));
        let store = Store::open(url, Options::default()).await?;
        let market = Market::new(store, SecretKey::from_seed([1; 32]), true);
        skep_store::bench::load_listings(url, 0..size, sample_listing)
            .await
            .map_err(anyhow::Error::msg)?;
        Ok(Town { size, market, took: vec![Vec::new(); questions().len()] })
    }

    /// Asks one question for a while, another task writing all the time.
    async fn ask(&mut self, number: usize, search: &Search, time: Duration) -> Result<()> {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write_until(self.market.store().clone(), stop.clone()));
        // Caches and plans of the first moments are nobody's usual case.
        for _ in 0..WARM_UP {
            self.market.search(search.clone()).await?;
        }
        let started = Instant::now();
        let mut asked_times = 0;
        while started.elapsed() < time || asked_times < ASKED_MIN {
            let asked = Instant::now();
            let answer = self.market.search(search.clone()).await?;
            self.took[number].push(asked.elapsed().as_secs_f64() * 1e6);
            ensure!(answer.agents.len() <= 10, "too many were found");
            asked_times += 1;
        }
        stop.store(true, Ordering::Relaxed);
        writer.await?
    }

    /// What so many in a hundred searches took at most.
    fn at(&self, number: usize, share: usize) -> f64 {
        let mut took = self.took[number].clone();
        took.sort_unstable_by(f64::total_cmp);
        took.get(took.len() * share / 100).copied().unwrap_or_default()
    }
}

/// All towns are asked in turns: whatever else the machine does hits all of them.
async fn compare(
    engine: &str,
    towns: &mut [Town],
    time: Duration,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let share = time / (TURNS * u32::try_from(questions().len()).unwrap_or(1));
    for turn in 1..=TURNS {
        progress(&format!("searches on {engine}, turn {turn} of {TURNS}"));
        for (number, (_, question)) in questions().into_iter().enumerate() {
            let search: Search = serde_json::from_value(question)?;
            for town in &mut *towns {
                town.ask(number, &search, share).await?;
            }
        }
    }
    let few = towns.iter().find(|town| town.size == FEW).context("no town of that size")?;
    for lots in towns.iter().filter(|town| town.size != FEW) {
        for (number, (name, _)) in questions().into_iter().enumerate() {
            let (size, p50) = (lots.size, [few, lots].map(|town| town.at(number, 50)));
            let name = format!(
                "{engine}, {name}: p99 among {FEW} listings (peer: among {size}; p50 {:.0} and \
                 {:.0})",
                p50[0], p50[1]
            );
            let bar = (size > FEW).then_some(0.5);
            report(Figure::new(&name, few.at(number, 99), lots.at(number, 99), "µs", bar))?;
        }
    }
    Ok(())
}

async fn write_until(store: Store, stop: Arc<AtomicBool>) -> Result<()> {
    let mut n = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let key = RecordKey::own("bench", n % 100);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let step = Box::new(move |turn: &mut skep_store::Turn| {
            turn.put(&key, &n)?;
            Ok(Decision::Commit("null".to_owned()))
        });
        store.call(Call { load, guards: vec![], step }).await?;
    }
    Ok(())
}
