//! The deals that an agent is part of, from its inbox.

use std::{collections::BTreeMap, io::Write};

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Money, Timestamp, id::DealId};
use skep_sdk::Client;
use skep_wire::settle::{AgreementStatus, EscrowStatus, NegotiationStatus, VerificationStatus};

use super::{
    status::You,
    words::{Told, if_known, print_json, word},
};
use crate::{client::SignerArgs, settings::Settings};

/// Events that are asked for at once.
const PAGE_LEN: usize = 100;
/// Deals that are shown when nothing else is asked for.
const SHOWN: usize = 20;

/// List the deals that you are part of, the one that moved last first
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal list
  skep deal list --open --limit 100 --json")]
pub struct List {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// How many at the most
    #[arg(long, default_value_t = SHOWN)]
    limit: usize,
    /// Only those that are not over
    #[arg(long)]
    open: bool,
}

/// The part of an event that tells of a deal.
#[derive(Debug, Deserialize)]
struct Event {
    negotiation_id: DealId,
    requester: AgentId,
    provider: AgentId,
    price: Money,
    /// While it is negotiated.
    status: Option<NegotiationStatus>,
    /// From acceptance on.
    agreement: Option<AgreementStatus>,
    escrow: Option<EscrowStatus>,
    verification: Option<Verified>,
}

#[derive(Debug, Deserialize)]
struct Verified {
    status: VerificationStatus,
}

#[derive(Debug, Serialize)]
struct Line {
    negotiation_id: DealId,
    you: You,
    requester: AgentId,
    provider: AgentId,
    price: Money,
    /// The escrow's where it is settled, else the agreement's, else the negotiation's.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<VerificationStatus>,
    over: bool,
    /// When it last moved.
    at: Timestamp,
    #[serde(skip)]
    seq: i64,
}

impl Line {
    fn new(told: Event, me: AgentId, at: Timestamp, seq: i64) -> Line {
        let you = match me {
            me if me == told.requester => You::Requester,
            me if me == told.provider => You::Provider,
            _ => You::Onlooker,
        };
        let settled = told.escrow.filter(|escrow| *escrow != EscrowStatus::Held);
        let declined = told.status == Some(NegotiationStatus::Declined);
        let status = match (settled, told.agreement, told.status) {
            (Some(escrow), _, _) => word(&escrow),
            (None, Some(agreement), _) => word(&agreement),
            (None, None, Some(status)) => word(&status),
            (None, None, None) => String::new(),
        };
        Line {
            negotiation_id: told.negotiation_id,
            you,
            requester: told.requester,
            provider: told.provider,
            price: told.price,
            status,
            verification: told.verification.map(|verification| verification.status),
            over: settled.is_some() || declined,
            at,
            seq,
        }
    }

    /// An offer expires without anybody being told.
    async fn look_again(&mut self, client: &Client) -> Result<()> {
        let offered = ["PENDING", "COUNTERED"].contains(&self.status.as_str());
        if !offered {
            return Ok(());
        }
        if let Some(talks) =
            if_known(client.negotiation(self.negotiation_id).await, "unknown_deal")?
        {
            self.status = word(&talks.status);
            self.over = talks.status == NegotiationStatus::Declined;
        }
        Ok(())
    }
}

impl List {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let mut lines = all(&client, keyring.agent_id()).await?;
        lines.sort_by_key(|line| std::cmp::Reverse(line.seq));
        let mut shown = Vec::new();
        for mut line in lines {
            if shown.len() >= self.limit {
                break;
            }
            line.look_again(&client).await?;
            if !(self.open && line.over) {
                shown.push(line);
            }
        }
        if json {
            return print_json(out, &shown);
        }
        if shown.is_empty() {
            writeln!(out, "no deals; begin one with skep deal request")?;
        }
        for line in &shown {
            let Line { negotiation_id, you, status, .. } = line;
            let (you, price) = (word(you), line.price.to_string());
            let status = match line.verification.filter(|_| !line.over) {
                Some(verification) => format!("{status}/{}", word(&verification)),
                None => status.clone(),
            };
            writeln!(out, "{negotiation_id}  {you:<9}  {price:>16}  {status:<17}  {}", line.at)?;
        }
        Ok(())
    }
}

/// The latest of each deal.
async fn all(client: &Client, me: AgentId) -> Result<Vec<Line>> {
    let mut deals = BTreeMap::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = client.inbox(cursor.as_deref(), Some(PAGE_LEN)).await.told()?;
        for event in &page.items {
            // Events of other kinds, such as transfers, are about no deal.
            let Ok(told) = serde_json::from_str::<Event>(&event.body) else { continue };
            let line = Line::new(told, me, event.at, event.seq);
            deals.insert(line.negotiation_id, line);
        }
        if page.items.len() < PAGE_LEN || page.next_cursor.is_none() {
            return Ok(deals.into_values().collect());
        }
        cursor = page.next_cursor;
    }
}
