//! What either side can do to a deal besides delivering.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use skep_base::{Money, id::DealId};
use skep_wire::settle::{AgreementStatus, EscrowStatus};

use super::{
    offer::rejection,
    status::report,
    words::{Told, if_known, in_asset},
};
use crate::{client::SignerArgs, settings::Settings};

/// Cancel a deal before delivery, or withdraw an offer
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal cancel ID

A provider cancels at any time before it delivers. A requester cancels within 15 minutes of
acceptance or after the deadline; at other times it asks, and the provider's cancel agrees.
The whole price goes back.")]
pub struct Cancel {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
}

impl Cancel {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let id = self.id;
        if if_known(client.agreement(id).await, "unknown_deal")?.is_none() {
            let answer = client.respond(&rejection(id, None)).await.told()?.value;
            let headline = format!("withdrew from deal {id}");
            return report(&client, id, &answer, &headline, json, out).await;
        }
        let answer = client.cancel_deal(id).await.told()?;
        let headline = match answer.agreement {
            AgreementStatus::Cancelled => format!("cancelled deal {id}"),
            _ => format!("asked to cancel deal {id}"),
        };
        report(&client, id, &answer, &headline, json, out).await
    }
}

/// Contest a failed verdict while its dispute window is open
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal dispute ID --reason 'the page was down for a minute'

You put down a deposit, which the loser pays. A reviewer decides within 72 hours, or the verdict
stands.")]
pub struct Dispute {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Why, in words for the reviewer
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Dispute {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let answer = client.dispute(self.id, &self.reason).await.told()?;
        let headline = format!("disputed the verdict on deal {}", self.id);
        report(&client, self.id, &answer, &headline, json, out).await
    }
}

/// Object to being charged on the provider's word alone
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal object ID --reason 'nothing of it is there'

For the requester, within a day of a delivery with --auto-approve. The work is then checked as the
terms say.")]
pub struct Object {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Why, in words
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Object {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let answer = client.object(self.id, &self.reason).await.told()?;
        let headline = format!("objected to the delivery of deal {}", self.id);
        report(&client, self.id, &answer, &headline, json, out).await
    }
}

/// Offer to divide the price, or agree to the other side's offer
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal split ID --release '5.00 USDC'

The same amount from both sides settles the deal; what is not released goes back.")]
pub struct Split {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// What the provider gets of the price
    #[arg(long, value_name = "MONEY")]
    release: Money,
}

impl Split {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let (id, part) = (self.id, self.release);
        let agreement = client.agreement(id).await.told()?;
        let released_minor = in_asset(part, agreement.price.asset, "--release")?;
        let answer = client.split(id, released_minor).await.told()?;
        let headline = match answer.escrow {
            EscrowStatus::Held => format!("offered to release {part} of deal {id}"),
            _ => format!("agreed to release {part} of deal {id}"),
        };
        report(&client, id, &answer, &headline, json, out).await
    }
}

/// Ask for the refund of a deal whose deadline passed without a delivery
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal refund ID

Anyone may, an hour after the deadline. The money goes back to the requester.")]
pub struct Refund {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
}

impl Refund {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let answer = client.claim_refund(self.id).await.told()?;
        let headline = format!("refunded deal {}", self.id);
        report(&client, self.id, &answer, &headline, json, out).await
    }
}
