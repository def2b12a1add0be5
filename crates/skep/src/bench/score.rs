//! Scores: the formula alone, what counting adds to a settlement, and how long it takes to make
//! everybody's score again.

mod town;

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use skep_base::{AgentId, Hash32, Timestamp, json::read_own};
use skep_market::fact_of;
use skep_score::{
    Dimension, Fact, Input, Totals, Track,
    compute::{Gates, compute},
    parameters::Parameters,
    track::{Around, WINDOW},
};
use skep_store::{Options, ScoreFact, Store};
use skep_testkit::postgres::TempPostgres;
use skep_wire::{score::Evaluator, settle::Tier};
use tokio::task::JoinSet;

use self::town::{Cost, Town};
use super::{Figure, progress};

/// Scores a second that one core must make.
const PER_SECOND: f64 = 5e6;
/// What is left of the settlements a second when they are counted.
const COUNTED_BAR: f64 = 0.95;
/// How many agents have track records, one measurement after the other.
const SIZES: [u64; 3] = [1_000, 100_000, 1_000_000];
/// Different inputs: more than a processor learns by heart.
const INPUTS: u64 = 4_096;
/// Agents that are read in one go, and by how many at once.
const PAGE: usize = 1_000;
const READERS: usize = 4;

pub(super) async fn measure(
    time: Duration,
    agents: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    progress("the formula");
    let scores = formula(time);
    let name = "scores made by one core (peer: the bar, 5 million)";
    report(Figure::new(name, scores, PER_SECOND, "scores/s", Some(1.0)))?;
    let name = "track records looked at whole by one core (peer: the formula alone)";
    report(Figure::new(name, evaluations(time)?, scores, "a second", None))?;
    let folder = tempfile::tempdir()?;
    let sqlite = format!("sqlite:{}", folder.path().join("skep.db").display());
    on_engine("SQLite", (&sqlite, None), time, agents, report).await?;
    drop(folder);
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    let url = server.create_database("skep")?;
    let server = Some(Arc::new(server));
    on_engine("PostgreSQL", (&url, server), time, agents, report).await
}

async fn on_engine(
    engine: &str,
    (url, server): (&str, Option<Arc<TempPostgres>>),
    time: Duration,
    agents: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let store = Store::open(url, Options::default()).await?;
    let town = Town::new(store.clone(), server).await?;
    let mut sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size < agents).collect();
    sizes.push(agents.max(SIZES[0]));
    let (mut loaded, mut first) = (0, None);
    for size in sizes {
        progress(&format!("{size} track records on {engine}"));
        skep_store::bench::load_scores(url, loaded..size, skep_market::sample_score)
            .await
            .map_err(anyhow::Error::msg)?;
        loaded = size;
        progress(&format!("settlements on {engine}, counted and not"));
        // Connections, plans and caches of the first moments are nobody's usual case.
        town.settle_for(time / 4).await?;
        let (counted, bare) = town.settle_for(time).await?;
        let name = format!("{engine}, {size} agents: settlements that are counted");
        for (name, cost, unit) in [
            (format!("{name} (peer: that are not)"), Cost::Time, "settlements/s"),
            (format!("{name}, for a second of CPU, the database's too"), Cost::Cpu, "settlements"),
        ] {
            let peer = bare.rate(cost);
            let ours = peer * counted.against(&bare, cost);
            report(Figure::new(&name, ours, peer, unit, Some(COUNTED_BAR)))?;
        }
        progress(&format!("all scores again on {engine}"));
        let (count, rate) = recount_all(&store).await?;
        ensure!(count >= size, "only {count} of {size} track records were found");
        match first {
            None => first = Some((size, rate)),
            Some((few, few_rate)) => report(Figure::new(
                &format!("{engine}: scores of {size} agents from their facts (peer: of {few})"),
                rate,
                few_rate,
                "agents/s",
                None,
            ))?,
        }
    }
    Ok(())
}

/// Scores a second.
fn formula(time: Duration) -> f64 {
    let (inputs, parameters) = (inputs(), Parameters::SPEC);
    let (mut done, started) = (0_u64, Instant::now());
    while started.elapsed() < time {
        for input in &inputs {
            black_box(compute(black_box(input), black_box(&parameters)));
        }
        done += INPUTS;
    }
    done as f64 / started.elapsed().as_secs_f64()
}

/// Agents of all sorts: new ones, busy ones, careless ones, disputed ones.
fn inputs() -> Vec<Input> {
    let input = |n: u64| {
        let (conduit, ap2) = (n * 7 % 220, n * 11 % 90);
        let window = Totals {
            conduit,
            conduit_ok: conduit - (n * 13 % 10).min(conduit),
            proofs: conduit,
            ap2,
            ap2_ok: ap2 - (n * 17 % 5).min(ap2),
            released_cents: ap2 * 25,
        };
        let tier = [Tier::Unverified, Tier::Basic, Tier::Verified, Tier::Trusted][n as usize % 4];
        let gates = Gates { tier, has_key: n % 16 != 3, disputes: u32::from(n % 32 == 5) };
        Input::of(&window, &window, gates)
    };
    (0..INPUTS).map(input).collect()
}

/// Evaluations of a whole track record a second: score, tier, benchmark and badges.
fn evaluations(time: Duration) -> Result<f64> {
    let agent = AgentId([7; 20]);
    let (mut track, start) = (Track::default(), Timestamp::from_ms(1_800_000_000_000));
    for n in 0..150 {
        let dimension = if n % 3 == 0 { Dimension::Ap2 } else { Dimension::Conduit };
        let mut fact = Fact {
            dimension,
            source: n.to_string(),
            ok: n % 30 != 0,
            released_cents: 25,
            counterparty: Some(agent),
            proof: Some(Hash32::ZERO),
            at: start.plus(Duration::from_secs(n)),
        };
        track.count(&agent, &mut fact);
    }
    let (base, parameters) = (Totals::default(), Parameters::SPEC);
    let now = start.plus(Duration::from_secs(3600));
    let around =
        Around { now, base: &base, has_key: true, cooldown: false, parameters: &parameters };
    let (mut done, started) = (0_u64, Instant::now());
    while started.elapsed() < time {
        for _ in 0..100 {
            black_box(track.evaluate(black_box(&around), Evaluator::SessionCompletion));
        }
        done += 100;
    }
    ensure!(track.tier == Tier::Verified, "the track record was not looked at");
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Makes every score again from the facts, chain and sums too. Says how many there are, and how
/// many a second that is.
async fn recount_all(store: &Store) -> Result<(u64, f64)> {
    let (now, started) = (store.now().await?, Instant::now());
    let (mut after, mut count) = (String::new(), 0);
    loop {
        let page = store.records_of_kind("score", &after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after.clone_from(last);
        count += page.len() as u64;
        let mut readers = JoinSet::new();
        for part in page.chunks(PAGE / READERS) {
            let (store, part) = (store.clone(), part.to_vec());
            readers.spawn(async move {
                for (id, record) in &part {
                    recount(&store, id, &record.body, now).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = readers.join_next().await {
            done??;
        }
    }
    Ok((count, count as f64 / started.elapsed().as_secs_f64()))
}

async fn recount(store: &Store, id: &str, body: &str, now: Timestamp) -> Result<()> {
    let (agent, stored): (AgentId, Track) = (id.parse()?, read_own(body.as_bytes())?);
    let (mut made, mut base) = (Track::default(), Totals::default());
    let (mut place, mut last) = (None, None);
    loop {
        let page = store.score_facts(agent, place, PAGE).await?;
        let Some(end) = page.last().map(ScoreFact::mark) else { break };
        (place, last) = (Some((end.at, end.n)), Some(end));
        for row in &page {
            made.count(&agent, &mut fact_of(row));
            if row.at <= now.minus(WINDOW) {
                base = made.totals;
            }
        }
    }
    let last = last.context("a track record without facts")?;
    ensure!((made.chain, made.facts) == (last.chain, last.n.unsigned_abs()), "{agent} differs");
    let parameters = Parameters::SPEC;
    made.tier = stored.tier;
    let around =
        Around { now, base: &base, has_key: true, cooldown: false, parameters: &parameters };
    black_box(made.score(&around));
    Ok(())
}
