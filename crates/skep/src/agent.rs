//! `skep agent` and `skep operator`: identities enter a registry.

use std::io::Write;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use skep_base::AgentId;
use skep_wire::identity::{Agent, OperatorStatement, RegisterOperator, Statement};

use crate::{
    client::{NodeArgs, SignerArgs, connect, now},
    settings::Settings,
};

/// Put an identity into a node's registry, and look at it
#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    /// Register the keyring's agent, or bring its name and webhook up to date
    #[command(after_help = "Example: skep agent register --name Ada")]
    Register(Register),
    /// Show what a node knows of an agent
    #[command(after_help = "Example: skep agent show 0x… --json")]
    Show(Show),
}

#[derive(Debug, Args)]
struct Register {
    #[command(flatten)]
    signer: SignerArgs,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Where notices go; without one, poll the inbox
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    node: NodeArgs,
    /// The agent's address or DID; the keyring's own if absent
    agent: Option<String>,
}

impl AgentArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            AgentCommand::Register(register) => register.signer.flags(),
            AgentCommand::Show(show) => show.node.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let agent = match self.command {
            AgentCommand::Register(Register { signer, name, webhook_url }) => {
                let (client, keyring) = signer.client(settings)?;
                let request = keyring.registration(now(), keyring.operator(), name, webhook_url);
                client.register_agent(&request).await?
            }
            AgentCommand::Show(Show { agent, .. }) => {
                let client = connect(settings)?;
                match agent.map(|name| name.parse::<AgentId>().map_err(|_| name)) {
                    Some(Ok(agent)) => client.agent(&agent).await?,
                    Some(Err(name)) => {
                        let did = name.parse().with_context(|| {
                            format!("{name:?} is neither an address (0x…) nor a DID")
                        })?;
                        client.agent_by_did(&did).await?
                    }
                    None => {
                        let keys = settings.path("keys");
                        let path = skep_agent::path::keys_path(keys.as_deref())?;
                        let info = skep_agent::Keyring::read_public_info(&path)?;
                        client.agent(&info.agent_id).await?
                    }
                }
            }
        };
        print(&agent, json, out)
    }
}

fn print(agent: &Agent, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(agent)?)?;
        return Ok(());
    }
    writeln!(out, "agent     {}", agent.agent_id)?;
    writeln!(out, "did       {}", agent.did)?;
    if let Some(name) = &agent.name {
        writeln!(out, "name      {name}")?;
    }
    let own = if agent.operator == agent.did { " (itself)" } else { "" };
    writeln!(out, "operator  {}{own}", agent.operator)?;
    match &agent.current_key {
        Some(key) => writeln!(out, "key       {key} (number {})", agent.keys.len())?,
        None => writeln!(out, "key       revoked: bring in a new one, skep keys rotate --recover")?,
    }
    if let Some(recovery) = &agent.pending_recovery {
        writeln!(out, "recovery  takes effect at {}", recovery.effective_at)?;
    }
    if let Some(until) = agent.money_frozen_until {
        writeln!(out, "frozen    no money leaves before {until}")?;
    }
    if let Some(review) = &agent.operator_review {
        writeln!(out, "review    {} until {}", review.label, review.until)?;
    }
    writeln!(out, "since     {}", agent.registered_at)?;
    Ok(())
}

/// The person or organisation that answers for agents
#[derive(Debug, Args)]
pub struct OperatorArgs {
    #[command(subcommand)]
    command: OperatorCommand,
}

#[derive(Debug, Subcommand)]
enum OperatorCommand {
    /// Register the operator key of the keyring (made by skep keys new --operator)
    #[command(after_help = "Example: skep operator register --name 'Hive GmbH'")]
    Register(RegisterOperatorArgs),
    /// Put the keyring's agent under its operator
    #[command(after_help = "Example: skep operator attach")]
    Attach(SignerArgs),
}

#[derive(Debug, Args)]
struct RegisterOperatorArgs {
    #[command(flatten)]
    signer: SignerArgs,
    /// The operator's name
    #[arg(long)]
    name: String,
}

impl OperatorArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            OperatorCommand::Register(register) => register.signer.flags(),
            OperatorCommand::Attach(signer) => signer.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        const NONE: &str = "the keyring has no operator key: skep keys new --operator makes one";
        match self.command {
            OperatorCommand::Register(RegisterOperatorArgs { signer, name }) => {
                let (client, keyring) = signer.client(settings)?;
                let key = keyring.operator().context(NONE)?;
                let statement =
                    OperatorStatement { name, public_key: key.public(), issued_at: now() };
                let key_signature = statement.sign(key)?;
                let request = RegisterOperator { statement, key_signature };
                let operator = client.register_operator(&request).await?;
                match json {
                    true => writeln!(out, "{}", serde_json::to_string(&operator)?)?,
                    false => writeln!(out, "operator  {}", operator.operator)?,
                }
                Ok(())
            }
            OperatorCommand::Attach(signer) => {
                let (client, keyring) = signer.client(settings)?;
                let key = keyring.operator().context(NONE)?;
                let change = keyring.attachment(now(), key);
                let agent = client.change_keys(&keyring.agent_id(), &change).await?;
                print(&agent, json, out)
            }
        }
    }
}
