//! The requester's own verdict, where the terms make it the verifier.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::Args;
use skep_agent::verifier::{Identity, Judgement, seal_judgement};
use skep_base::{ed25519::SecretKey, id::DealId};
use skep_wire::settle::{AGENT_KID, Outcome, VerificationStatus, engine};

use super::{
    status::report,
    words::{Told, if_known, word},
};
use crate::{
    client::{SignerArgs, now},
    settings::Settings,
};

/// Find delivered work good, where the terms let the requester judge
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal approve ID --reason 'exactly as asked'

The verdict is a proof signed with your key; the money goes to the provider.")]
pub struct Approve {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Why, in words that stay in the proof
    #[arg(long, value_name = "TEXT", default_value = "approved by the requester")]
    reason: String,
}

/// Find delivered work not good, where the terms let the requester judge
#[derive(Debug, Args)]
#[command(after_help = "Example: skep deal reject ID --reason 'half of it is missing'

The verdict is a proof signed with your key. The money goes back to you, after the dispute window
if the terms set one. To say no to an offer: skep deal respond ID reject.")]
pub struct Reject {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    /// Why, in words that stay in the proof
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl Approve {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let Approve { signer, id, reason } = self;
        judge(&signer, id, Outcome::Verified, reason, settings, (json, out)).await
    }
}

impl Reject {
    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let Reject { signer, id, reason } = self;
        judge(&signer, id, Outcome::Rejected, reason, settings, (json, out)).await
    }
}

async fn judge(
    signer: &SignerArgs,
    id: DealId,
    outcome: Outcome,
    reason: String,
    settings: &Settings,
    (json, out): (bool, &mut dyn Write),
) -> Result<()> {
    let (client, keyring) = signer.client(settings)?;
    let Some(agreement) = if_known(client.agreement(id).await, "unknown_deal")? else {
        client.negotiation(id).await.told()?;
        bail!("deal {id} is still an offer: answer it with skep deal respond {id} accept|reject");
    };
    let last = agreement.verifications.last();
    let last = last.with_context(|| format!("nothing was delivered yet for deal {id}"))?;
    let verification = client.verification(*last).await.told()?;
    let open =
        matches!(verification.status, VerificationStatus::Pending | VerificationStatus::Running);
    if !open {
        let status = word(&verification.status);
        bail!("the last verdict on deal {id} is {status} already; see skep deal status {id}");
    }
    if verification.kind != engine::REQUESTER {
        let kind = &verification.kind;
        bail!("the terms of deal {id} do not let the requester judge: the engine is {kind}");
    }
    if verification.verifier != Some(keyring.agent_id()) {
        bail!("only the requester judges deal {id}");
    }
    let key = || SecretKey::from_seed(*keyring.secret().seed());
    let identity = Identity {
        agent: keyring.agent_id(),
        agent_key: key(),
        key: key(),
        kid: AGENT_KID.to_owned(),
    };
    let action = if outcome.passed() { "APPROVE" } else { "REJECT" };
    let (split, supersedes) = (None, verification.supersedes);
    let judgement = Judgement { outcome, action, reason, split, supersedes };
    let callback = seal_judgement(&verification.request, &identity, judgement, now())?;
    let taken = client.callback(&callback).await.told()?;
    let headline = match outcome.passed() {
        true => format!("approved deal {id}"),
        false => format!("rejected the delivery of deal {id}"),
    };
    report(&client, id, &taken, &headline, json, out).await
}
