//! `skep budget`: what an agent may spend for somebody else.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use skep_base::{AgentId, Asset, Hash32, Money};
use skep_wire::hire::{BUDGET_SECONDS_MAX, Budget, BudgetIssuer, BudgetToken, Usdc};

use crate::{
    client::{NodeArgs, SignerArgs, connect, now},
    deal::span::Span,
    settings::Settings,
};

/// Let an agent spend up to an amount for a while
#[derive(Debug, Args)]
pub struct BudgetArgs {
    #[command(subcommand)]
    command: BudgetCommand,
}

#[derive(Debug, Subcommand)]
enum BudgetCommand {
    /// Sign a budget and print its token; agents show it when they hire
    #[command(after_help = "Example: skep budget issue 5.00 --lasts 1h > budget.json\n         \
        skep budget issue 1.00 --lasts 30m --agent 0x… --parent ID --register")]
    Issue(Issue),
    /// What is spent, held, passed on and left
    #[command(after_help = "Example: skep budget show ID --json")]
    Show(Show),
}

#[derive(Debug, Args)]
struct Issue {
    #[command(flatten)]
    signer: SignerArgs,
    /// How much in USDC, such as 5.00
    amount: Usdc,
    /// How long it lasts, such as 30m, 12h or 7d
    #[arg(long, default_value = "1h")]
    lasts: Span,
    /// Who may spend it; the keyring's agent if it is left out
    #[arg(long)]
    agent: Option<AgentId>,
    /// Make it a part of this budget, which is the keyring's agent's
    #[arg(long, value_name = "BUDGET")]
    parent: Option<Hash32>,
    /// Make it known to the node now; else its first payment does
    #[arg(long)]
    register: bool,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    node: NodeArgs,
    /// The budget's id, 64 hex digits
    budget: Hash32,
}

impl BudgetArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            BudgetCommand::Issue(issue) => issue.signer.flags(),
            BudgetCommand::Show(show) => show.node.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            BudgetCommand::Issue(issue) => issue.run(settings, json, out).await,
            BudgetCommand::Show(show) => {
                let budget = connect(settings)?.budget(&show.budget).await?;
                print(&budget, json, out)
            }
        }
    }
}

impl Issue {
    /// The token goes to stdout whether or not `--json` is said: it is made for a program.
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let seconds = self.lasts.seconds();
        if !(1..=BUDGET_SECONDS_MAX).contains(&seconds) {
            bail!("a budget lasts a second to a year: --lasts {seconds}s is not that");
        }
        let keyring = self.signer.keyring(settings)?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)?;
        let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let own = keyring.agent_id();
        // Without an operator's key the agent is its own operator.
        let key = keyring.operator().unwrap_or(keyring.secret());
        let operator = match keyring.operator() {
            Some(key) => key.public().did(),
            None => keyring.did(),
        };
        let mut token = BudgetToken {
            agent_id: self.agent.unwrap_or(own),
            max_amount_usdc: self.amount,
            max_duration_seconds: seconds,
            issued_at: now().as_ms() / 1000,
            issuer: BudgetIssuer::Operator(operator),
            nonce,
            parent: self.parent,
            signature: None,
        };
        match self.parent {
            Some(_) => token.sign_as_agent(keyring.wallet()),
            None => token.sign_as_operator(key),
        }
        .context("the budget cannot be signed")?;
        if self.register {
            connect(settings)?.register_budget(&token).await?;
        }
        match json {
            true => writeln!(out, "{}", serde_json::to_string(&token)?)?,
            false => writeln!(out, "{}", serde_json::to_string_pretty(&token)?)?,
        }
        eprintln!("budget {}", token.id()?);
        Ok(())
    }
}

fn print(budget: &Budget, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(budget)?)?;
        return Ok(());
    }
    let money = |amount| Money::new(amount, Asset::USDC).to_string();
    let ends = if budget.expired { "ended" } else { "ends" };
    writeln!(out, "agent      {}", budget.token.agent_id)?;
    for (word, amount) in [
        ("left", budget.left_minor),
        ("spent", budget.spent_minor),
        ("held", budget.held_minor),
        ("passed on", budget.delegated_minor),
    ] {
        writeln!(out, "{word:<10} {}", money(amount))?;
    }
    Ok(writeln!(out, "{ends:<10} {}", budget.expires_at)?)
}
