//! Paid hires from search to counter-signature, against the same call without any of that.

mod bare;
mod checks;
mod facilitator;
mod place;

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use skep_agent::buyer::PaymentChoice;
use skep_testkit::postgres::TempPostgres;
use skep_wire::hire::PaymentMode;

use self::{bare::Bare, place::Place};
use super::{Figure, progress, settle::cpu};

/// Buyers that hire at the same time.
const BUYERS: usize = 16;
/// What is hired: so little work that all the rest shows.
const CAPABILITY: &str = "compute.statistics.mean";
/// What the node may spend of its CPU on a direct hire, in microseconds; the database's processes
/// are not counted.
const NODE_CPU_US: f64 = 1_000.0;

type Report<'a> = &'a mut dyn FnMut(Figure) -> Result<()>;

/// One call of one of the callers, whichever it is.
type Caller = Arc<dyn Fn(usize) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

pub(super) async fn measure(time: Duration, report: Report<'_>) -> Result<()> {
    checks::measure(report).await?;
    facilitator::in_process(time, report).await?;
    let folder = tempfile::tempdir()?;
    let sqlite = format!("sqlite:{}", folder.path().join("skep.db").display());
    on_engine("SQLite", &sqlite, time, report).await?;
    drop(folder);
    progress("starting PostgreSQL");
    let server = TempPostgres::start().context("PostgreSQL is needed for this figure")?;
    on_engine("PostgreSQL", &server.create_database("skep")?, time, report).await
}

fn params() -> Value {
    json!({ "data": [3.5, 1.0, 4.25, 1.5, 9.0, 2.75] })
}

async fn on_engine(engine: &str, url: &str, time: Duration, report: Report<'_>) -> Result<()> {
    progress(&format!("starting a node on {engine}, a seller and {BUYERS} buyers"));
    let mut place = Place::open(url, BUYERS).await?;
    let told = hires(engine, &mut place, time, report).await;
    told.with_context(|| format!("on {engine}; the node says:\n{}", place.node.stderr()))?;
    facilitator::over_http(engine, &place, time, report).await?;
    place.close().await
}

async fn hires(engine: &str, place: &mut Place, time: Duration, report: Report<'_>) -> Result<()> {
    let bare = Bare::open().await?;
    let ways = [
        ("direct", PaymentChoice::Require(PaymentMode::Direct)),
        ("in escrow", PaymentChoice::Escrow),
    ];
    for (way, payment) in ways {
        let hire = place.caller(payment);
        // Connections, plans and caches of the first moments are nobody's usual case.
        drive(BUYERS, time / 4, &hire).await?;
        for callers in [1, BUYERS] {
            progress(&format!("the call unpaid, {callers} callers"));
            let unpaid = drive(callers, time / 2, &bare.caller()).await?;
            progress(&format!("hires {way} on {engine}, {callers} buyers"));
            let node = place.node_cpu()?;
            let own = cpu("self")?;
            let paid = drive(callers, time, &hire).await?;
            let count = paid.times_us.len() as f64;
            let node = (place.node_cpu()? - node) / count * 1e6;
            let own = (cpu("self")? - own) / count * 1e6;
            let name = format!("{engine}, hired {way}, {callers} at once");
            figures(&name, &unpaid, &paid, report)?;
            let cpu_name = format!("  {name}, CPU: buyer's and seller's (peer: the node's)");
            report(Figure::new(&cpu_name, own, node, "µs", None))?;
            if callers == BUYERS && way == "direct" && engine == "PostgreSQL" {
                let name = format!("  {name}: 1 ms (peer: the node's CPU of a hire)");
                report(Figure::new(&name, NODE_CPU_US, node, "µs", Some(1.0)))?;
            }
        }
    }
    Ok(())
}

fn figures(name: &str, unpaid: &Load, paid: &Load, report: Report<'_>) -> Result<()> {
    let rate = format!("complete hires, {name} (peer: the same call unpaid)");
    report(Figure::new(&rate, paid.per_second, unpaid.per_second, "calls/s", None))?;
    for share in [50, 99] {
        let name = format!("  {name}, p{share} (peer: unpaid)");
        report(Figure::new(&name, paid.at(share), unpaid.at(share), "µs", None))?;
    }
    Ok(())
}

/// What some callers managed.
struct Load {
    per_second: f64,
    /// How long each call took, the shortest first.
    times_us: Vec<u64>,
}

impl Load {
    fn at(&self, share: usize) -> f64 {
        let place = (self.times_us.len() * share / 100).min(self.times_us.len().saturating_sub(1));
        self.times_us.get(place).map_or(0.0, |us| *us as f64)
    }
}

/// Lets so many call, each one after the other, for about so long.
async fn drive(callers: usize, time: Duration, call: &Caller) -> Result<Load> {
    let stop = Arc::new(AtomicBool::new(false));
    let all: Arc<Mutex<Vec<u64>>> = Arc::default();
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|n| {
            let (call, stop, all) = (call.clone(), stop.clone(), all.clone());
            tokio::spawn(async move {
                let mut own = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    call(n).await?;
                    own.push(asked.elapsed().as_micros() as u64);
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
                anyhow::Ok(())
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await??;
    }
    let elapsed = started.elapsed().as_secs_f64();
    let mut times_us = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    times_us.sort_unstable();
    Ok(Load { per_second: times_us.len() as f64 / elapsed, times_us })
}
