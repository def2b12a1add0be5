//! `skep bench`: ratios against a peer, or against the machine's limit, measured in the same run.

mod auth;
mod json;
mod ledger;
mod settle;
mod store;

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
}

impl Bench {
    pub async fn run(self, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
        let time = Duration::from_secs(self.seconds.clamp(1, 600));
        let mut figures = Vec::new();
        let wanted = |what| self.what.is_none_or(|w| w == what);
        if wanted(What::Ledger) {
            figures.extend(ledger::measure(time).await?);
        }
        if wanted(What::Settle) {
            figures.extend(settle::measure(time, self.deals).await?);
        }
        if wanted(What::Store) {
            figures.extend(store::measure(self.transfers).await?);
        }
        if wanted(What::Auth) {
            figures.extend(auth::measure(time).await?);
        }
        if wanted(What::Json) {
            figures.extend(json::measure(time)?);
        }
        for figure in &figures {
            if json {
                writeln!(out, "{}", serde_json::to_string(figure)?)?;
                continue;
            }
            let Figure { name, ours, peer, unit, ratio, bar } = figure;
            let bar = bar.map_or(String::new(), |bar| {
                let word = if *ratio >= bar { "reached" } else { "MISSED" };
                format!("  (bar {bar}: {word})")
            });
            writeln!(out, "{name}\n    {ours:.0} to {peer:.0} {unit}: ratio {ratio:.2}{bar}")?;
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
