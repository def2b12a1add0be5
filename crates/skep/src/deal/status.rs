//! Where a deal stands, for people: what was agreed, what happened, what comes next.

mod next;
pub mod show;

use std::{io::Write, time::Duration};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use skep_base::{AgentId, id::DealId};
use skep_sdk::Client;
use skep_wire::settle::{
    Agreement, EscrowStatus, Negotiation, NegotiationStatus, SettlementReceipt, Verification,
};

use super::words::{Told, if_known, print_json};
use crate::{client::SignerArgs, settings::Settings};

/// How often a watched deal is looked at.
const WATCH_PAUSE: Duration = Duration::from_millis(500);

/// Show where a deal stands and what comes next
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep deal status ID
  skep deal status ID --watch
  skep deal status ID --json | jq -r .next")]
pub struct Status {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Show it again whenever it changes, until it is over
    #[arg(long)]
    watch: bool,
}

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum You {
    Requester,
    Provider,
    /// A verifier or a reviewer.
    Onlooker,
}

/// Everything that the signer may know of a deal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    pub negotiation_id: DealId,
    pub you: You,
    /// Only the two sides see the offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negotiation: Option<Negotiation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// Each attempt to verify, oldest first.
    pub verifications: Vec<Verification>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<SettlementReceipt>,
    /// What comes next, in one sentence.
    pub next: String,
}

impl Standing {
    pub async fn load(client: &Client, id: DealId) -> Result<Standing> {
        let agreement = client.agreement(id).await;
        let negotiation = match &agreement {
            // Whoever is only a verifier of a deal does not see how it was negotiated.
            Ok(_) => if_known(client.negotiation(id).await, "unknown_deal")?,
            Err(_) => Some(client.negotiation(id).await.told()?),
        };
        let agreement = if_known(agreement, "unknown_deal")?;
        let mut verifications = Vec::new();
        for id in agreement.iter().flat_map(|agreement| &agreement.verifications) {
            let mut verification = client.verification(*id).await.told()?;
            let page = verification.proof_page.take();
            verification.proof_page = page.map(|path| format!("{}{path}", client.url()));
            verifications.push(verification);
        }
        let settlement = match &agreement {
            Some(agreement) if agreement.escrow_status != EscrowStatus::Held => {
                if_known(client.settlement(id).await, "not_settled")?
            }
            _ => None,
        };
        let sides = agreement.as_ref().map(|a| (a.requester, a.provider));
        let sides = sides.or(negotiation.as_ref().map(|n| (n.requester, n.provider)));
        let mut standing = Standing {
            negotiation_id: id,
            you: you(client.agent_id(), sides),
            negotiation,
            agreement,
            verifications,
            settlement,
            next: String::new(),
        };
        standing.next = next::sentence(&standing);
        Ok(standing)
    }

    /// Whether nothing more can happen.
    fn is_over(&self) -> bool {
        let declined = |n: &Negotiation| n.status == NegotiationStatus::Declined;
        match &self.agreement {
            Some(agreement) => agreement.escrow_status != EscrowStatus::Held,
            None => self.negotiation.as_ref().is_some_and(declined),
        }
    }
}

fn you(me: Option<AgentId>, sides: Option<(AgentId, AgentId)>) -> You {
    match (me, sides) {
        (Some(me), Some((requester, _))) if me == requester => You::Requester,
        (Some(me), Some((_, provider))) if me == provider => You::Provider,
        _ => You::Onlooker,
    }
}

impl Status {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let mut shown = None::<Standing>;
        loop {
            let standing = Standing::load(&client, self.id).await?;
            let over = standing.is_over();
            if shown.as_ref() != Some(&standing) {
                if shown.is_some() && !json {
                    writeln!(out)?;
                }
                match json {
                    true => print_json(out, &standing)?,
                    false => show::standing(&standing, out)?,
                }
                out.flush()?;
                shown = Some(standing);
            }
            if over || !self.watch {
                return Ok(());
            }
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }
}

/// What a step did: the node's answer for programs; for people, a line and what comes next.
pub async fn report(
    client: &Client,
    id: DealId,
    answer: &impl Serialize,
    headline: &str,
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    if json {
        return print_json(out, answer);
    }
    writeln!(out, "{headline}")?;
    // The step is done: that the deal cannot be looked at now does not make it fail.
    if let Ok(standing) = Standing::load(client, id).await {
        writeln!(out, "{}", standing.next)?;
    }
    Ok(())
}
