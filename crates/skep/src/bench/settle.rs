//! Complete deals: request, accept and hold, deliver, verify, settle. Every step over HTTP, signed
//! and durable.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::json;
use skep_base::{Asset, Money, id::DealId};
use skep_sdk::Client;
use skep_testkit::{postgres::TempPostgres, process::Child};
use skep_wire::settle::{EscrowStatus, Outcome, ResponseStatus};

use super::{
    Figure,
    ledger::{pgbench, tps},
    progress,
};
use crate::stage::{self, Actor, Looker};

const CLIENTS: usize = 16;
const STEPS: [&str; 5] = ["request", "accept + hold", "deliver", "look", "callback + settle"];
/// Deals that are stored before the first measurement.
const STORED_FEW: u64 = 1_000;

/// How long each step took, in microseconds.
type Times = [Vec<u64>; STEPS.len()];

/// The measured time is cut into so many turns, and pgbench, PostgreSQL and SQLite take theirs one
/// after the other: whatever else the machine does hits all of them.
const TURNS: u32 = 4;

/// What the turns of one engine found.
#[derive(Default)]
struct Run {
    deals: f64,
    seconds: f64,
    times: Times,
    /// CPU seconds of the clients, and of the node.
    client_cpu: f64,
    node_cpu: f64,
}

pub(super) async fn measure(
    time: Duration,
    stored: u64,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    let peer_url = server.create_database("pgbench")?;
    progress("filling pgbench's tables (scale 100)");
    pgbench(&server, &peer_url, &["-i", "-q", "-s", "100"])?;
    let mut postgres = Stage::open("PostgreSQL", &server.create_database("skep")?).await?;
    let folder = tempfile::tempdir()?;
    let on_sqlite = format!("sqlite:{}", folder.path().join("skep.db").display());
    let mut sqlite = Stage::open("SQLite", &on_sqlite).await?;
    postgres.prepare(time, STORED_FEW).await?;
    sqlite.prepare(time, STORED_FEW).await?;
    let turn = Duration::from_secs((time / TURNS).as_secs().max(1));
    let (mut tps_sum, mut few, mut few_sqlite) = (0.0, Run::default(), Run::default());
    for number in 1..=TURNS {
        progress(&format!("turn {number} of {TURNS}: pgbench, then deals on both engines"));
        let seconds = turn.as_secs().to_string();
        let flags = ["-M", "prepared", "-c", "16", "-j", "2", "-T", &seconds];
        tps_sum += tps(&pgbench(&server, &peer_url, &flags)?)?;
        few.add(postgres.deal_for(turn).await?);
        few_sqlite.add(sqlite.deal_for(turn).await?);
    }
    let tps = tps_sum / f64::from(TURNS);
    few.figures("PostgreSQL", tps, Some(0.10)).into_iter().try_for_each(&mut *report)?;
    few_sqlite.figures("SQLite", tps, None).into_iter().try_for_each(&mut *report)?;
    report(Figure::new(
        "deals on SQLite (peer: deals on PostgreSQL)",
        few_sqlite.deals_per_second(),
        few.deals_per_second(),
        "deals/s",
        Some(1.0),
    ))?;
    postgres.measure_many(time, stored, &few, report).await?;
    // A million deals take 20 GB: one engine's go before the other's come.
    drop((postgres, server));
    sqlite.measure_many(time, stored, &few_sqlite, report).await
}

impl Run {
    fn add(&mut self, turn: Run) {
        self.deals += turn.deals;
        self.seconds += turn.seconds;
        self.client_cpu += turn.client_cpu;
        self.node_cpu += turn.node_cpu;
        for (all, more) in self.times.iter_mut().zip(turn.times) {
            all.extend(more);
        }
    }

    fn deals_per_second(&self) -> f64 {
        self.deals / self.seconds
    }

    fn figures(&mut self, engine: &str, tps: f64, bar: Option<f64>) -> Vec<Figure> {
        let mut figures = vec![Figure::new(
            &format!("complete deals on {engine}, {CLIENTS} clients (peer: pgbench)"),
            self.deals_per_second(),
            tps,
            "deals/s to transactions/s",
            bar,
        )];
        for (step, times) in STEPS.iter().zip(&mut self.times) {
            times.sort_unstable();
            let at = |part: usize| {
                let place = (times.len() * part / 100).min(times.len().saturating_sub(1));
                times.get(place).map_or(0.0, |us| *us as f64)
            };
            let name = format!("  {engine}, {step}: p99 (peer: p50)");
            figures.push(Figure::new(&name, at(99), at(50), "µs", None));
        }
        figures.push(Figure::new(
            &format!("  {engine}, CPU of a deal: the clients' (peer: the node's)"),
            self.client_cpu / self.deals * 1e6,
            self.node_cpu / self.deals * 1e6,
            "µs",
            None,
        ));
        figures
    }
}

/// A node with everybody registered.
struct Stage {
    name: &'static str,
    url: String,
    node: Child,
    _folder: tempfile::TempDir,
    cast: Vec<Arc<Trio>>,
    stored: u64,
}

/// A requester, a provider and whoever verifies for all.
struct Trio {
    requester: Client,
    provider: Client,
    verifier: Arc<Looker>,
    verifier_client: Client,
}

impl Stage {
    async fn open(name: &'static str, database: &str) -> Result<Stage> {
        progress(&format!("starting a node on {name}"));
        let folder = tempfile::tempdir()?;
        let verifier = Arc::new(Looker::new("")?);
        let accredited = verifier.id().to_string();
        let more = ["--no-verifier", "--database", database, "--accredit", &accredited];
        let node = stage::node(folder.path(), &more)?;
        let verifier_client = verifier.register(node.url(), &["artifact"]).await?;
        let mut cast = Vec::new();
        for _ in 0..CLIENTS {
            let requester = Actor::new("")?.register(node.url()).await?;
            requester.faucet(Money::parse_decimal("1000000", Asset::USDC)?).await?;
            cast.push(Arc::new(Trio {
                requester,
                provider: Actor::new("")?.register(node.url()).await?,
                verifier: verifier.clone(),
                verifier_client: verifier_client.clone(),
            }));
        }
        let url = database.to_owned();
        Ok(Stage { name, url, node, _folder: folder, cast, stored: 0 })
    }

    /// How the rate changes with what is stored.
    async fn measure_many(
        &mut self,
        time: Duration,
        stored: u64,
        few: &Run,
        report: &mut dyn FnMut(Figure) -> Result<()>,
    ) -> Result<()> {
        if stored <= STORED_FEW {
            return Ok(());
        }
        self.prepare(time, stored).await?;
        let many = self.deal_for(time).await?;
        report(Figure::new(
            &format!("deals on {} with {stored} stored (peer: with {STORED_FEW})", self.name),
            many.deals_per_second(),
            few.deals_per_second(),
            "deals/s",
            Some(0.8),
        ))
    }

    /// Stores so many deals, then deals for a while unmeasured: connections, plans and caches of
    /// the first moments are nobody's usual case.
    async fn prepare(&mut self, time: Duration, stored: u64) -> Result<()> {
        self.fill(stored).await?;
        self.deal_for(time / 4).await.map(drop)
    }

    /// Complete deals, as many as the time allows.
    async fn deal_for(&mut self, time: Duration) -> Result<Run> {
        progress(&format!("complete deals on {}, {CLIENTS} clients", self.name));
        let run = self.run(time).await;
        run.with_context(|| format!("on {}; the node says:\n{}", self.name, self.node.stderr()))
    }

    async fn run(&mut self, time: Duration) -> Result<Run> {
        let stop = Arc::new(AtomicBool::new(false));
        let times: Arc<Mutex<Times>> = Arc::default();
        let (client, node) = (cpu("self")?, cpu(&self.node.pid().to_string())?);
        let started = Instant::now();
        let tasks: Vec<_> = self
            .cast
            .iter()
            .map(|trio| {
                let (trio, stop, all) = (trio.clone(), stop.clone(), times.clone());
                tokio::spawn(async move {
                    let mut own = Times::default();
                    while !stop.load(Ordering::Relaxed) {
                        trio.deal(&mut own).await?;
                    }
                    let mut all = all.lock().unwrap_or_else(|e| e.into_inner());
                    for (all, own) in all.iter_mut().zip(own) {
                        all.extend(own);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        tokio::time::sleep(time).await;
        stop.store(true, Ordering::Relaxed);
        for task in tasks {
            task.await??;
        }
        let seconds = started.elapsed().as_secs_f64();
        let (client, node) = (cpu("self")? - client, cpu(&self.node.pid().to_string())? - node);
        let times = std::mem::take(&mut *times.lock().unwrap_or_else(|e| e.into_inner()));
        self.stored += times[0].len() as u64;
        let deals = times[0].len() as f64;
        Ok(Run { deals, seconds, times, client_cpu: client, node_cpu: node })
    }

    /// Copies a settled deal, row for row, until there are so many.
    async fn fill(&mut self, stored: u64) -> Result<()> {
        if stored <= self.stored {
            return Ok(());
        }
        let model = self.cast[0].deal(&mut Times::default()).await?;
        // The event log is numbered a moment after the commit on PostgreSQL.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let wanted = stored - self.stored;
        progress(&format!("copying a deal {wanted} times on {}", self.name));
        skep_store::bench::copy_deals(&self.url, &model.to_string(), wanted)
            .await
            .map_err(anyhow::Error::msg)?;
        self.stored = stored;
        Ok(())
    }
}

impl Trio {
    /// One deal from the first offer to the last cent.
    async fn deal(&self, times: &mut Times) -> Result<DealId> {
        let mut last = Instant::now();
        let mut took = |step: usize| {
            let now = Instant::now();
            times[step].push((now - last).as_micros() as u64);
            last = now;
        };
        let ids = (self.requester.agent_id(), self.provider.agent_id());
        let (Some(requester), Some(provider)) = ids else { bail!("a client without an agent") };
        let offer = stage::request(requester, provider, json!({}));
        let id = self.requester.open_negotiation(&offer).await?.value.negotiation_id;
        took(0);
        self.provider.respond(&stage::response(id, ResponseStatus::Accepted)).await?;
        took(1);
        let verification = stage::deliver(&self.provider, id, json!({})).await?;
        took(2);
        let client = &self.verifier_client;
        let request = client.verification(verification).await?.request;
        took(3);
        let bundle = self.verifier.finding(&request, Outcome::Verified);
        let taken = client.callback(&self.verifier.seal(bundle)?).await?;
        anyhow::ensure!(taken.escrow == EscrowStatus::Released, "the deal was not released");
        took(4);
        Ok(id)
    }
}

/// CPU seconds that a process has used, its children not counted.
pub(super) fn cpu(process: &str) -> Result<f64> {
    /// Clock ticks a second, as Linux reports times of processes.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|f| f.parse::<f64>().ok());
    let (user, system) = (ticks(11), ticks(12));
    Ok((user.context("no times")? + system.context("no times")?) / TICKS)
}
