//! `skep admin`: what only the node's operator may do, over the socket in the node's folder.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use skep_api::ADMIN_SOCKET;
use skep_base::{AgentId, Did, Money, Timestamp};
use skep_sdk::{AdminClient, Client};
use skep_wire::{
    admin::{AdminAct, AdminRequest, QualificationReport},
    settle::Tier,
};

use crate::settings::Settings;

/// Act as the node's operator; every act is logged with its reason
#[derive(Debug, Args)]
#[command(after_help = "The node must run, and its folder must be yours:
  skep admin --data-dir ./node report")]
pub struct AdminArgs {
    /// The data folder of the node
    #[arg(long, value_name = "FOLDER", global = true)]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: AdminCommand,
}

impl AdminArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        vec![("data_dir", self.data_dir.as_ref().map(|p| p.display().to_string()))]
    }
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Revoke an agent's benchmark for fraud: its operator gets a cool-down of 90 days
    #[command(after_help = "Example: skep admin revoke 0x… --reason 'sold work of others'

Whoever was the agent's operator when it happened answers for it. Say when, if the agent has left
an operator in the last 90 days: skep admin revoke 0x… --at 2026-11-15T09:30:00Z --reason …")]
    Revoke {
        #[command(flatten)]
        on: OnAgent,
        /// When it happened, in UTC
        #[arg(long, value_name = "TIME")]
        at: Option<Timestamp>,
    },
    /// Take a revocation back
    #[command(after_help = "Example: skep admin clear 0x… --reason 'the report was false'")]
    Clear(OnAgent),
    /// End an operator's cool-down before its time
    #[command(after_help = "Example: skep admin end-cooldown did:swarm:… --reason 'appeal won'")]
    EndCooldown {
        operator: Did,
        #[arg(long)]
        reason: String,
    },
    /// Note that somebody has looked at an agent, as the tier TRUSTED needs
    #[command(after_help = "Example: skep admin review 0x… --reason 'spoke with its owner'")]
    Review(OnAgent),
    /// Take a tier away
    #[command(after_help = "Example: skep admin demote 0x… --tier BASIC --reason 'complaints'")]
    Demote {
        #[command(flatten)]
        on: OnAgent,
        /// The tier it has from now on
        #[arg(long, value_parser = tier)]
        tier: Tier,
    },
    /// Give an agent a subscription, which sets its fee; without one it loses it
    #[command(after_help = "Example: skep admin subscribe 0x… --to pro --reason 'paid for'")]
    Subscribe {
        #[command(flatten)]
        on: OnAgent,
        #[arg(long, value_name = "NAME")]
        to: Option<String>,
    },
    /// Put money of your own where newcomers' subsidies come from
    #[command(after_help = "Example: skep admin fund-subsidies '500 USDC' --reason 'first quarter'

The platform fronts a fifth of the hold in a newcomer's first ten deals; it comes back when they
end. The money must lie ready outside: this only writes it into the books.")]
    FundSubsidies {
        /// Such as '500 USDC'
        #[arg(value_name = "AMOUNT")]
        money: Money,
        #[arg(long)]
        reason: String,
    },
    /// Set tighter minimums for benchmarks, from a JSON file
    #[command(after_help = "Example: skep admin parameters minimums.json --reason 'Q4 report'

The file: {\"standard\": {\"score\": 700, \"conduit_sessions\": 60, \"ap2_sessions\": 30,
\"success_rate\": 0.95}, \"elite\": {…}}")]
    Parameters {
        file: PathBuf,
        #[arg(long)]
        reason: String,
    },
    /// Whose exports this node takes
    #[command(subcommand)]
    Issuer(IssuerCommand),
    /// Say how many agents hold a benchmark (9.4)
    #[command(after_help = "Example: skep admin report --json")]
    Report,
}

#[derive(Debug, Subcommand)]
enum IssuerCommand {
    /// Trust an issuer, from a JSON file with its entry of the registry
    #[command(after_help = "Example: skep admin issuer add other.json --reason 'audited by us'")]
    Add {
        file: PathBuf,
        #[arg(long)]
        reason: String,
    },
    /// Trust an issuer no longer, and end what was imported from it
    #[command(after_help = "Example: skep admin issuer drop other.example --reason 'sold'

What agents have imported from it ends within moments, also if it is trusted again before: then
other exports count. Deals that are agreed keep what is held. For other keys or another haircut
alone do not drop it: `add` replaces its entry, and imports stay.")]
    Drop {
        platform: String,
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, Args)]
struct OnAgent {
    #[arg(value_name = "AGENT")]
    agent: AgentId,
    /// Why; the log keeps it
    #[arg(long)]
    reason: String,
}

fn tier(word: &str) -> Result<Tier, String> {
    serde_json::from_value(word.to_ascii_uppercase().into())
        .map_err(|_| "say UNVERIFIED, BASIC, VERIFIED or TRUSTED".to_owned())
}

fn read_json(path: &Path) -> Result<serde_json::Value> {
    let text = fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}

/// What helps if nobody answers.
fn told(error: skep_sdk::Error) -> anyhow::Error {
    match error {
        skep_sdk::Error::Connection { url, .. } => anyhow::anyhow!(
            "no node listens at {url}: start it with `skep up`, or name its folder (--data-dir)"
        ),
        error => error.into(),
    }
}

impl AdminArgs {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let socket = settings.data_dir()?.join(ADMIN_SOCKET);
        match self.command {
            AdminCommand::Report => report(&socket, json, out).await,
            command => act(&socket, command.request()?, json, out).await,
        }
    }
}

impl AdminCommand {
    /// What is asked for.
    fn request(self) -> Result<AdminRequest> {
        let (act, reason) = match self {
            AdminCommand::Report => bail!("a report is no act"),
            AdminCommand::Revoke { on: OnAgent { agent: agent_id, reason }, at } => {
                (AdminAct::RevokeBenchmark { agent_id, at }, reason)
            }
            AdminCommand::Clear(OnAgent { agent: agent_id, reason }) => {
                (AdminAct::ClearRevocation { agent_id }, reason)
            }
            AdminCommand::EndCooldown { operator, reason } => {
                (AdminAct::EndCooldown { operator }, reason)
            }
            AdminCommand::Review(OnAgent { agent: agent_id, reason }) => {
                (AdminAct::ReviewAgent { agent_id }, reason)
            }
            AdminCommand::Demote { on: OnAgent { agent: agent_id, reason }, tier } => {
                (AdminAct::Demote { agent_id, tier }, reason)
            }
            AdminCommand::Subscribe { on: OnAgent { agent: agent_id, reason }, to } => {
                (AdminAct::SetSubscription { agent_id, subscription: to }, reason)
            }
            AdminCommand::FundSubsidies { money, reason } => {
                (AdminAct::FundSubsidies { id: Client::new_id()?, money }, reason)
            }
            AdminCommand::Parameters { file, reason } => {
                let mut act = read_json(&file)?;
                act["act"] = "set_parameters".into();
                let act = serde_json::from_value(act);
                (act.with_context(|| format!("{} has no minimums", file.display()))?, reason)
            }
            AdminCommand::Issuer(IssuerCommand::Add { file, reason }) => {
                let issuer = serde_json::from_value(read_json(&file)?);
                let issuer = issuer.with_context(|| format!("{} is no entry", file.display()))?;
                (AdminAct::TrustIssuer { issuer }, reason)
            }
            AdminCommand::Issuer(IssuerCommand::Drop { platform, reason }) => {
                (AdminAct::DropIssuer { platform }, reason)
            }
        };
        Ok(AdminRequest { act, reason })
    }
}

async fn act(socket: &Path, request: AdminRequest, json: bool, out: &mut dyn Write) -> Result<()> {
    let answer = AdminClient::new(socket)?.act(&request).await.map_err(told)?;
    match json {
        true => writeln!(out, "{}", serde_json::to_string(&answer)?)?,
        false => {
            writeln!(out, "done at {}", answer.at)?;
            writeln!(out, "{}", serde_json::to_string_pretty(&answer.now)?)?;
        }
    }
    Ok(())
}

async fn report(socket: &Path, json: bool, out: &mut dyn Write) -> Result<()> {
    let report = AdminClient::new(socket)?.report().await.map_err(told)?;
    if json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        return Ok(());
    }
    let QualificationReport { quarter, verified, qualified, elite, .. } = &report;
    writeln!(out, "quarter    {quarter}, minimums version {}", report.parameters_version)?;
    writeln!(out, "verified   {verified} agents")?;
    writeln!(out, "qualified  {qualified} of them, {elite} ELITE")?;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let flag = |over: bool| if over { ", TOO MANY" } else { "" };
    let (rate, limit) = (percent(report.rate), percent(report.limit));
    writeln!(out, "rate       {rate} (limit {limit}){}", flag(report.over_limit))?;
    writeln!(out, "advice     {}", report.advice)?;
    for past in &report.history {
        let QualificationReport { quarter, verified, qualified, rate, over_limit, .. } = past;
        let (rate, flag) = (percent(*rate), flag(*over_limit));
        writeln!(out, "{quarter}    {qualified} of {verified}, {rate}{flag}, at {}", past.at)?;
    }
    Ok(())
}
