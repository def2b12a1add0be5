//! The part of the story in which agents who do not trust each other deal.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use skep_base::{Asset, Money, id::DealId};
use skep_sdk::Client;
use skep_settle::proof::{
    self,
    file::{Pins, verify_file},
};
use skep_wire::settle::{EscrowStatus, Outcome, VerificationStatus};

use super::{Story, pages};
use crate::{
    proof::{export, refuse},
    stage::{self, Actor, Looker},
};

/// How long the built-in verifier is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Past the time-out of a verification (30 minutes).
const HALF_AN_HOUR_S: u64 = 1801;

/// Deals that were struck, and what became of them.
#[derive(Debug, Default)]
pub struct Outcomes {
    pub released: Vec<DealId>,
    pub refunded: Vec<DealId>,
    /// A proof file for each of them.
    pub files: Vec<(DealId, Vec<u8>)>,
    pub proofs_checked: u64,
    pub forgeries_refused: u64,
}

/// Everybody who takes part.
pub struct Cast<'a> {
    pub requester: &'a Actor,
    pub provider: &'a Actor,
    pub reviewer: &'a Looker,
    /// A verifier that never answers, and one that lies.
    pub idler: &'a Looker,
    pub url: &'a str,
}

impl Cast<'_> {
    fn clients(&self) -> Result<(Client, Client)> {
        Ok((self.requester.client(self.url)?, self.provider.client(self.url)?))
    }
}

pub async fn tell(story: &mut Story<'_>, cast: &Cast<'_>) -> Result<Outcomes> {
    let mut outcomes = Outcomes::default();
    let (requester, provider) = cast.clients()?;
    requester.faucet(Money::parse_decimal("20", Asset::USDC)?).await?;
    cast.reviewer.register(cast.url, &["human"]).await?;
    cast.idler.register(cast.url, &["artifact"]).await?;
    released(story, cast, &requester, &provider, &mut outcomes).await?;
    refunded(story, cast, &requester, &provider, &mut outcomes).await?;
    pages::tell(story, cast, &requester, &provider, &mut outcomes).await?;
    reviewed(story, cast, &requester, &provider, &mut outcomes).await?;
    export(story, &requester, &mut outcomes).await?;
    Ok(outcomes)
}

/// Waits until the verifier has spoken.
pub(super) async fn settled(client: &Client, id: DealId) -> Result<EscrowStatus> {
    let started = std::time::Instant::now();
    loop {
        let status = client.escrow(id).await?.status;
        if status != EscrowStatus::Held {
            return Ok(status);
        }
        ensure!(started.elapsed() < PATIENCE, "the built-in verifier did not answer");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn released(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    provider: &Client,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let (ada, bob) = (cast.requester.name, cast.provider.name);
    story.chapter(&format!(
        "{ada} and {bob} deal: the money waits in escrow until the work is seen"
    ))?;
    let price = json!({"request": {"budget_amount": 5, "description": "Say hello in a file"}});
    let answer = stage::agree(requester, provider, price).await?;
    let hold = answer.escrow.context("accepted without a hold")?;
    let (id, money) = (hold.escrow_id, Money::new(hold.amount_minor, hold.currency));
    story.line(&format!("deal {id}: {money} held under {}", &hold.release_condition[..42]))?;
    stage::deliver(provider, id, json!({})).await?;
    story.line(&format!("{bob} delivers; the built-in verifier reads the file"))?;
    ensure!(settled(requester, id).await? == EscrowStatus::Released, "good work was not paid");
    story.line("it says hello: VERIFIED, released")?;
    story.balance(cast.provider, cast.url).await?;
    outcomes.released.push(id);
    Ok(())
}

async fn refunded(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    provider: &Client,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let bob = cast.provider.name;
    story.chapter(&format!("{bob} delivers something else, and says that it is fine"))?;
    let price = json!({"request": {"budget_amount": 5}});
    let id = stage::agree(requester, provider, price).await?.negotiation_id;
    let trick = stage::delivery(
        id,
        cast.provider.id(),
        json!({
            "delivery": {"artifacts": [{"type": "text", "content": "Pay me"}]},
            "verification_hints": {"expected_content": "pay me"},
        }),
    );
    match provider.deliver(&trick).await {
        Ok(_) => bail!("a delivery weakened the criteria"),
        Err(refused) => story.line(&format!("with criteria of its own: {refused}"))?,
    }
    let work = json!({"delivery": {"artifacts": [{"type": "text", "content": "Pay me"}]}});
    stage::deliver(provider, id, work).await?;
    ensure!(settled(requester, id).await? == EscrowStatus::Refunded, "bad work was paid");
    story.line("without them: FAILED, refunded to the last cent")?;
    story.balance(cast.requester, cast.url).await?;
    outcomes.refunded.push(id);
    Ok(())
}

async fn reviewed(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    provider: &Client,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let (idler, reviewer) = (cast.idler.actor.name, cast.reviewer.actor.name);
    story.chapter(&format!("{idler} is to verify, and stays silent: a person decides"))?;
    let terms = json!({
        "request": {"budget_amount": 5},
        "metadata": {"skep": {"verifier": cast.idler.id()}},
    });
    let id = stage::agree(requester, provider, terms).await?.negotiation_id;
    let verification = stage::deliver(provider, id, json!({})).await?;
    forged(story, cast, requester, verification, outcomes).await?;
    requester.advance_clock(HALF_AN_HOUR_S).await?;
    while requester.verification(verification).await?.status != VerificationStatus::Timeout {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held = requester.escrow(id).await?.status;
    ensure!(held == EscrowStatus::Held, "a time-out moved money");
    story.line("half an hour later: TIMEOUT; the escrow stays HELD, the case is in the queue")?;
    let queue = cast.reviewer.actor.client(cast.url)?.reviews(None, None).await?;
    ensure!(queue.items.iter().any(|r| r.negotiation_id == id), "the case is not in the queue");
    cast.reviewer.decide(cast.url, id, Outcome::Verified).await?;
    ensure!(settled(requester, id).await? == EscrowStatus::Released, "the review did not count");
    story.line(&format!("{reviewer} looks at terms and work and signs: released"))?;
    outcomes.released.push(id);
    Ok(())
}

async fn forged(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    requester: &Client,
    verification: skep_base::id::VerificationId,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let request = cast.idler.actor.client(cast.url)?.verification(verification).await?.request;
    let bundle = cast.idler.finding(&request, Outcome::Verified);
    let forged = proof::seal(bundle, None, &cast.provider.key())?;
    match requester.callback(&forged).await {
        Ok(_) => bail!("a forged proof was taken"),
        Err(refused) => story.line(&format!("a proof forged in its name: {refused}"))?,
    }
    outcomes.forgeries_refused += 1;
    Ok(())
}

/// Writes down what any stranger needs to check the settlements.
async fn export(story: &mut Story<'_>, requester: &Client, outcomes: &mut Outcomes) -> Result<()> {
    story.chapter("Each verdict is written into a file, with all that it rests on")?;
    for id in outcomes.released.iter().chain(&outcomes.refunded) {
        let file = export::of_deal(requester, *id).await?;
        story.line(&format!("{id} {} bytes", file.len()))?;
        outcomes.files.push((*id, file));
    }
    Ok(())
}

/// What a stranger does with the files, without any node.
pub fn check_files(story: &mut Story<'_>, files: &[(DealId, Vec<u8>)]) -> Result<()> {
    story.chapter("Strangers check the deals' files: terms, chain, hash, signatures, receipt")?;
    for (id, file) in files {
        let checked = verify_file(file, &Pins::default());
        let count = checked.checks.len();
        refuse(&checked.checks, id.to_string().as_ref())?;
        let forged = String::from_utf8_lossy(file).replace("\"outcome\": \"", "\"outcome\": \"UN");
        let forged = verify_file(forged.as_bytes(), &Pins::default());
        let seen = refuse(&forged.checks, "forged".as_ref()).is_err();
        ensure!(seen, "a changed verdict was believed");
        story.line(&format!("{id} {count} checks: ok"))?;
    }
    Ok(())
}
