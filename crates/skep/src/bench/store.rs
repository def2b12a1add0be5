//! A node on a long journal: how soon it is ready, how much it needs, how fast it is audited.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use skep_store::{Options, Store, bench::raw_scan};
use skep_testkit::process::Child;

use super::{Figure, ledger, progress};

/// Callers that fill the journal.
const CALLERS: usize = 128;
/// How long the journal is filled before its length is looked at.
const FILL_TIME: Duration = Duration::from_secs(1);

pub(super) async fn measure(transfers: u64) -> Result<Vec<Figure>> {
    let long = tempfile::tempdir()?;
    let database = format!("sqlite:{}", long.path().join("skep.db").display());
    progress(&format!("filling a journal with {transfers} transfers"));
    let store = Store::open(&database, Options::default()).await?;
    store.meta_once("dev", "true").await?;
    let mut written = 0.0;
    while written < transfers as f64 {
        written += ledger::load(&store, CALLERS, ledger::WALLETS, FILL_TIME).await?
            * FILL_TIME.as_secs_f64();
    }
    drop(store);
    let empty = tempfile::tempdir()?;
    start(empty.path())?;
    progress("starting nodes");
    let (fresh, _) = start(empty.path())?;
    let (loaded, memory_kib) = start(long.path())?;
    progress("auditing");
    let scan = raw_scan(&long.path().join("skep.db"))?;
    let started = Instant::now();
    let report = Store::audit_beside(&database, Box::new(|_, _| {})).await?;
    anyhow::ensure!(report.is_clean(), "the audit found {:?}", report.problems);
    let audited = (report.transfers + report.events) as f64 / started.elapsed().as_secs_f64();
    let name = format!("start to ready on {} transfers (peer: on none)", report.transfers);
    Ok(vec![
        Figure::new(&name, loaded.as_secs_f64() * 1e3, fresh.as_secs_f64() * 1e3, "ms", None),
        Figure::new("memory of the idle node (peer: 60 MB)", memory_kib as f64, 6e4, "KiB", None),
        Figure::new(
            "audit (peer: SQLite reading the same rows once)",
            audited,
            scan.per_second(),
            "rows/s",
            None,
        ),
    ])
}

/// Starts a node, waits until it is ready, and ends it. Says how long that took and its memory.
fn start(folder: &Path) -> Result<(Duration, u64)> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["up", "--dev", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(folder)
        .env("RUST_LOG", "error")
        .stdin(Stdio::null());
    let started = Instant::now();
    let mut node = Child::spawn(&mut command).context("the node did not start")?;
    let ready = started.elapsed();
    let memory_kib = node.rss_kib()?;
    node.terminate()?;
    Ok((ready, memory_kib))
}
