//! `skep wallet`: an agent's money.

use std::io::Write;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use skep_base::{AgentId, Asset, Money};

use crate::{client::SignerArgs, settings::Settings};

/// Lines of history that are shown when nothing else is asked for.
const HISTORY_LINES: usize = 50;

/// Look at an agent's money, and get test money
#[derive(Debug, Args)]
pub struct WalletArgs {
    #[command(subcommand)]
    command: WalletCommand,
}

#[derive(Debug, Subcommand)]
enum WalletCommand {
    /// What is free, held and owed, by asset
    #[command(after_help = "Example: skep wallet balance --json")]
    Balance(SignerArgs),
    /// Get test money from a node that was made with --dev
    #[command(after_help = "Example: skep wallet fund 100 --asset USDC")]
    Fund(Fund),
    /// The transfers of one asset, newest first
    #[command(after_help = "Example: skep wallet history --asset USDC --limit 20")]
    History(History),
}

#[derive(Debug, Args)]
struct Fund {
    #[command(flatten)]
    signer: SignerArgs,
    /// How much, such as 12.50
    amount: String,
    #[arg(long, default_value = "USDC")]
    asset: Asset,
    /// Who gets it, also an address that is no agent's; the keyring's agent if it is left out
    #[arg(long)]
    to: Option<AgentId>,
}

#[derive(Debug, Args)]
struct History {
    #[command(flatten)]
    signer: SignerArgs,
    #[arg(long, default_value = "USDC")]
    asset: Asset,
    /// How many lines at the most
    #[arg(long, default_value_t = HISTORY_LINES)]
    limit: usize,
}

impl WalletArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            WalletCommand::Balance(signer) => signer.flags(),
            WalletCommand::Fund(fund) => fund.signer.flags(),
            WalletCommand::History(history) => history.signer.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            WalletCommand::Balance(signer) => balance(&signer, settings, json, out).await,
            WalletCommand::Fund(fund) => {
                let money = Money::parse_decimal(&fund.amount, fund.asset)
                    .with_context(|| format!("{:?} is no amount", fund.amount))?;
                let (client, _) = fund.signer.client(settings)?;
                let transfer = client.faucet_to(money, fund.to).await?;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&transfer)?)?,
                    false => writeln!(out, "{} arrived as {}", transfer.money, transfer.id)?,
                }
                Ok(())
            }
            WalletCommand::History(history) => show_history(history, settings, json, out).await,
        }
    }
}

async fn balance(
    signer: &SignerArgs,
    settings: &Settings,
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let (client, _) = signer.client(settings)?;
    let wallet = client.wallet().await?;
    if json {
        writeln!(out, "{}", serde_json::to_string(&wallet)?)?;
        return Ok(());
    }
    if wallet.balances.is_empty() {
        writeln!(out, "the wallet is empty")?;
    }
    for line in &wallet.balances {
        writeln!(out, "{:>24} free", line.available.to_string())?;
        for (money, word) in [(&line.held, "held"), (&line.owed, "owed")] {
            if !money.amount.is_zero() {
                writeln!(out, "{:>24} {word}", money.to_string())?;
            }
        }
    }
    Ok(())
}

async fn show_history(
    history: History,
    settings: &Settings,
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let (client, keyring) = history.signer.client(settings)?;
    let own = format!("wallet:{}:{}", keyring.agent_id(), history.asset);
    let mut left = history.limit;
    let mut cursor: Option<String> = None;
    while left > 0 {
        let page = client.transfers(history.asset, cursor.as_deref(), Some(left.min(100))).await?;
        left = left.saturating_sub(page.items.len());
        for line in &page.items {
            if json {
                writeln!(out, "{}", serde_json::to_string(line)?)?;
                continue;
            }
            let (sign, other) = match line.from == own {
                true => ("-", &line.to),
                false => ("+", &line.from),
            };
            let money = format!("{sign}{}", line.money);
            writeln!(out, "{}  {:<8} {money:>20}  {other}", line.at, line.kind)?;
        }
        cursor = page.next_cursor;
        if cursor.is_none() || page.items.is_empty() {
            break;
        }
    }
    Ok(())
}
