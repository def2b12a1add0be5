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
/// Searches before a figure is taken: caches and plans of the first moments are nobody's usual
/// case.
const WARM_UP: usize = 200;

fn questions() -> [(&'static str, Value); 6] {
    [
        ("a popular capability", json!({ "capability": SAMPLE_POPULAR })),
        ("a rare capability", json!({ "capability": SAMPLE_RARE })),
        ("first words", json!({ "capability": "custom.some", "match": "prefix" })),
        ("a common and a rare word", json!({ "query": "word1 word9000" })),
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
    let sqlite = format!("sqlite:{}", folder.path().join("skep.db").display());
    on_engine("SQLite", &sqlite, time, many, report).await?;
    drop(folder);
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    on_engine("PostgreSQL", &server.create_database("skep")?, time, many, report).await
}

async fn on_engine(
    engine: &str,
    url: &str,
    time: Duration,
    many: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let store = Store::open(url, Options::default()).await?;
    let market = Market::new(store, SecretKey::from_seed([1; 32]), true);
    let load = async |numbers: std::ops::Range<u64>| {
        progress(&format!("{} listings on {engine}", numbers.end));
        skep_store::bench::load_listings(url, numbers, sample_listing)
            .await
            .map_err(anyhow::Error::msg)
    };
    let mut sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size < many).collect();
    sizes.push(many.max(FEW));
    let (mut loaded, mut measured) = (0, Vec::new());
    for size in sizes {
        load(loaded..size).await?;
        loaded = size;
        measured.push((size, latencies(&market, time).await?));
    }
    let few = measured.iter().position(|(size, _)| *size == FEW).unwrap_or_default();
    for (size, lots) in measured.iter().filter(|(size, _)| *size != FEW) {
        for (((name, _), few), lots) in questions().iter().zip(&measured[few].1).zip(lots) {
            let name = format!(
                "{engine}, {name}: p99 among {FEW} listings (peer: among {size}; p50 {:.0} and \
                 {:.0})",
                few.p50, lots.p50
            );
            let bar = (*size > FEW).then_some(0.5);
            report(Figure::new(&name, few.p99, lots.p99, "µs", bar))?;
        }
    }
    Ok(())
}

struct Latency {
    p50: f64,
    p99: f64,
}

/// Of each question, while another task writes.
async fn latencies(market: &Market, time: Duration) -> Result<Vec<Latency>> {
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_until(market.store().clone(), stop.clone()));
    let mut all = Vec::new();
    let share = time / u32::try_from(questions().len()).unwrap_or(1);
    for (name, question) in questions() {
        let search: Search = serde_json::from_value(question)?;
        for _ in 0..WARM_UP {
            market.search(search.clone()).await?;
        }
        let (mut took, started) = (Vec::new(), Instant::now());
        while started.elapsed() < share || took.len() < 1000 {
            let asked = Instant::now();
            let answer = market.search(search.clone()).await?;
            took.push(asked.elapsed().as_secs_f64() * 1e6);
            ensure!(answer.agents.len() <= 10, "{name}: too many were found");
        }
        took.sort_unstable_by(f64::total_cmp);
        all.push(Latency { p50: took[took.len() / 2], p99: took[took.len() * 99 / 100] });
    }
    stop.store(true, Ordering::Relaxed);
    writer.await??;
    Ok(all)
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
