//! `skep ledger audit`: re-derives every balance and checks every invariant.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use skep_store::{Progress, Store};

use crate::settings::Settings;

/// Look after the ledger
#[derive(Debug, Args)]
pub struct Ledger {
    #[command(subcommand)]
    pub command: LedgerCommand,
}

#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Re-derive every balance from the journal and check every invariant; the node may run on
    #[command(after_help = "Example: skep ledger audit --data-dir ./node --json")]
    Audit(Audit),
}

#[derive(Debug, Args)]
pub struct Audit {
    /// The data folder of the node
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// sqlite:PATH or postgres://USER@HOST/NAME
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

impl Audit {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let folder = self.data_dir.as_ref().map(|p| p.display().to_string());
        vec![("data_dir", folder), ("database", self.database.clone())]
    }
}

pub async fn audit(settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
    let url = settings.database()?;
    let report = Store::audit_beside(&url, progress_bar()).await?;
    let beside = Store::open_beside(&url).await?;
    let scores = skep_market::recompute_scores(&beside, progress_bar()).await?;
    if json {
        let mut told = serde_json::to_value(&report)?;
        told["scores"] = serde_json::to_value(&scores)?;
        writeln!(out, "{told}")?;
    } else {
        writeln!(out, "accounts  {}", report.accounts)?;
        writeln!(out, "transfers {} ({} holds open)", report.transfers, report.open_holds)?;
        writeln!(out, "debts     {} open", report.open_debts)?;
        writeln!(out, "events    {}, ending in {}", report.events, report.head_hash)?;
        for (asset, minor) in &report.held_by_accounts {
            writeln!(out, "{asset:<9} {minor} minor units in accounts")?;
        }
        writeln!(out, "scores    {} agents, {} facts", scores.agents, scores.facts)?;
        for problem in report.problems.iter().chain(&scores.problems) {
            writeln!(out, "PROBLEM   {problem}")?;
        }
    }
    if !report.is_clean() || !scores.is_clean() {
        bail!("the audit found {} problems", report.problem_count + scores.problem_count);
    }
    if !json {
        writeln!(
            out,
            "clean: every balance is the sum of its journal, the log is unbroken, every score \
             follows from it"
        )?;
    }
    Ok(())
}

/// A bar on a terminal's stderr, nothing elsewhere.
pub fn progress_bar() -> Progress {
    if !std::io::stderr().is_terminal() {
        return Box::new(|_, _| {});
    }
    let bar = indicatif::ProgressBar::new(0);
    Box::new(move |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        if done >= total {
            bar.finish_and_clear();
        }
    })
}
