//! `skep bench`: ratios against a peer, or against the machine's limit, measured in the same run.

mod auth;
mod hire;
mod json;
mod ledger;
mod probe;
mod score;
mod search;
mod settle;
mod store;
mod swarm;

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde::Serialize;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Durable two-phase transfers against raw SQLite and against pgbench.
    Ledger,
    /// Complete deals over HTTP against pgbench.
    Settle,
    /// Paid hires against the same call unpaid, and the facilitator against npm's.
    Hire,
    /// Recorded browser sessions, and what the recording costs.
    Probe,
    /// Searches among few listings against searches among many.
    Search,
    /// Scores a second, and what counting adds to a settlement.
    Score,
    /// Messages, votes and tasks of swarms that grow.
    Swarm,
    /// Start-up and audit of a long journal.
    Store,
    /// Canonical JSON against serde_json.
    Json,
    /// Signed requests against bare signature checks and an unsigned handler.
    Auth,
}

/// Figures of this machine, now: an absolute time proves nothing, a ratio does.
#[derive(Debug, Args)]
#[command(after_help = "Example: skep bench ledger --seconds 10")]
pub struct Bench {
    /// What to measure; everything if absent.
    what: Option<What>,
    /// How long each figure is measured.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many deals are stored when `settle` is measured for the second time; 0: only once.
    #[arg(long, default_value_t = 0)]
    deals: u64,
    /// The most listings that `search` is measured with, after 1,000, 10,000 and so on.
    #[arg(long, default_value_t = 100_000)]
    listings: u64,
    /// The most agents with track records that `score` is measured with, after 1,000 and 100,000.
    #[arg(long, default_value_t = 100_000)]
    agents: u64,
    /// The largest swarm that `swarm` simulates, after 10, 100 and so on; 10000 takes long.
    #[arg(long, default_value_t = 1_000)]
    nodes: u64,
    /// How long the journal is that `store` is measured on.
    #[arg(long, default_value_t = 100_000)]
    transfers: u64,
}

/// One line of the report.
#[derive(Debug, Serialize)]
pub struct Figure {
    pub name: String,
    pub ours: f64,
    pub peer: f64,
    pub unit: &'static str,
    pub ratio: f64,
    /// What the ratio should reach, where there is a bar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
}

impl Figure {
    pub fn new(name: &str, ours: f64, peer: f64, unit: &'static str, bar: Option<f64>) -> Figure {
        Figure { name: name.to_owned(), ours, peer, unit, ratio: ours / peer, bar }
    }

    fn write(&self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        if json {
            return Ok(writeln!(out, "{}", serde_json::to_string(self)?)?);
        }
        let Figure { name, ours, peer, unit, ratio, bar } = self;
        let bar = bar.map_or(String::new(), |bar| {
            let word = if *ratio >= bar { "reached" } else { "MISSED" };
            format!("  (bar {bar}: {word})")
        });
        Ok(writeln!(out, "{name}\n    {ours:.0} to {peer:.0} {unit}: ratio {ratio:.3}{bar}")?)
    }
}

impl Bench {
    pub async fn run(self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let time = Duration::from_secs(self.seconds.clamp(1, 600));
        let wanted = |what| self.what.is_none_or(|w| w == what);
        let mut report = |figure: Figure| figure.write(json, out);
        if wanted(What::Ledger) {
            ledger::measure(time).await?.into_iter().try_for_each(&mut report)?;
        }
        if wanted(What::Settle) {
            settle::measure(time, self.deals, &mut report).await?;
        }
        if wanted(What::Hire) {
            hire::measure(time, &mut report).await?;
        }
        if wanted(What::Probe) {
            probe::measure(time, &mut report).await?;
        }
        if wanted(What::Search) {
            search::measure(time, self.listings, &mut report).await?;
        }
        if wanted(What::Score) {
            score::measure(time, self.agents, &mut report).await?;
        }
        if wanted(What::Swarm) {
            swarm::measure(time, self.nodes, &mut report)?;
        }
        if wanted(What::Store) {
            store::measure(self.transfers).await?.into_iter().try_for_each(&mut report)?;
        }
        if wanted(What::Auth) {
            auth::measure(time).await?.into_iter().try_for_each(&mut report)?;
        }
        if wanted(What::Json) {
            json::measure(time)?.into_iter().try_for_each(&mut report)?;
        }
        Ok(())
    }
}

/// Says what is being measured, to people who wait.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("… {text}");
    }
}
