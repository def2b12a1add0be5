//! The part of the story in which a newcomer earns a score, and what it is worth.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::{Asset, Money, id::DealId};
use skep_market::{Known, check_score};
use skep_probe::browser::Chromium;
use skep_score::verify::Source;
use skep_sdk::Client;
use skep_wire::{
    conduit::{Act, OpenSession},
    score::{Certificate, Publication, VerifyAnswer, VerifyLevel},
    settle::{EscrowHold, EscrowStatus, Tier},
};
use tokio::task::JoinSet;

use super::{
    Story,
    deals::{Cast, settled},
};
use crate::stage::{self, Actor, Site};

/// Days on which the newcomer works, and deals of one day.
const DAYS: u64 = 5;
const DEALS_A_DAY: u64 = 10;
const DAY_S: u64 = 24 * 3600;
/// How long a verdict can be disputed, in seconds.
const WINDOW_S: u64 = 3600;
/// What its browser looks at.
const PAGE: &str = "<!doctype html><html lang=en><title>A page</title><h1>A page</h1>";

/// What came of it.
#[derive(Debug, Default)]
pub struct Scores {
    pub score: u16,
    pub certificates_checked: u64,
    pub certificates_refused: u64,
}

/// The newcomer and whoever pays it.
struct Pair<'a> {
    nina: &'a Actor,
    ada: Client,
    client: Client,
}

pub async fn tell(story: &mut Story<'_>, cast: &Cast<'_>) -> Result<Scores> {
    let nina = Actor::new("Nina")?;
    let client = nina.register(cast.url).await?;
    let ada = cast.requester.client(cast.url)?;
    ada.faucet(Money::parse_decimal("50", Asset::USDC)?).await?;
    let pair = Pair { nina: &nina, ada, client };
    earned(story, &pair).await?;
    disputed(story, &pair).await?;
    checked(story, &pair, cast.url).await
}

impl Pair<'_> {
    /// What is held of a price now; the deal is called off.
    async fn hold(&self) -> Result<EscrowHold> {
        let answer = stage::agree(&self.ada, &self.client, json!({})).await?;
        let hold = answer.escrow.context("accepted without a hold")?;
        self.ada.cancel_deal(hold.escrow_id).await?;
        Ok(hold)
    }

    async fn publication(&self) -> Result<Publication> {
        // What is not published yet, its owner sees.
        Ok(self.client.publication_of(&self.nina.id().to_string()).await?)
    }

    /// So many deals at the same time, all of them good.
    async fn work(&self, count: u64) -> Result<()> {
        let mut deals = JoinSet::new();
        for _ in 0..count {
            deals.spawn(deal(self.ada.clone(), self.client.clone(), json!({}), json!({})));
        }
        while let Some(dealt) = deals.join_next().await {
            let (id, status) = dealt??;
            ensure!(status == EscrowStatus::Released, "deal {id} was not paid");
        }
        Ok(())
    }

    /// A recorded session with a real browser.
    async fn browse(&self, site: &Site) -> Result<()> {
        let open = OpenSession { max_cost_minor: None, purpose: None };
        let id = self.client.open_session(&open).await?.value.session_id;
        self.client.session_act(id, &Act::navigate(&site.url)).await?;
        self.client.close_session(id, None).await?;
        Ok(())
    }
}

/// From the offer to the verdict of the verifier inside the node.
async fn deal(
    ada: Client,
    nina: Client,
    terms: Value,
    work: Value,
) -> Result<(DealId, EscrowStatus)> {
    let id = stage::agree(&ada, &nina, terms).await?.negotiation_id;
    stage::deliver(&nina, id, work).await?;
    Ok((id, settled(&ada, id).await?))
}

fn told(hold: &EscrowHold) -> String {
    let money = |minor| Money::new(minor, hold.currency);
    format!("{} of {} held", money(hold.amount_minor), money(hold.price_minor))
}

async fn earned(story: &mut Story<'_>, pair: &Pair<'_>) -> Result<()> {
    story.chapter("Nina is new. She works for five days of the test clock, and earns a score")?;
    let first = pair.hold().await?;
    ensure!(first.amount_minor == first.price_minor, "a newcomer is trusted");
    story.line(&format!("nobody knows her: {}", told(&first)))?;
    for day in 1..=DAYS {
        pair.work(DEALS_A_DAY).await?;
        let (now, hold) = (pair.publication().await?, pair.hold().await?);
        story.line(&format!(
            "day {day}: {:>2} deals, {:?}, score {:>3}, {}",
            now.dimensions.commercial_reliability.ap2_sessions_lifetime,
            now.gates.atep_tier,
            now.score.value,
            told(&hold)
        ))?;
        pair.ada.advance_clock(DAY_S).await?;
    }
    match Chromium::find(None) {
        Ok(_) => {
            let money = Money::parse_decimal("1", Asset::USDC)?;
            pair.client.faucet(money).await?;
            pair.browse(&Site::open(PAGE).await?).await?;
            story.line("a browser session is recorded and proven: it counts too")?;
        }
        Err(missing) => story.line(&format!("deals alone count here: {missing}"))?,
    }
    let now = pair.publication().await?;
    ensure!(now.gates.atep_tier == Tier::Verified && now.score.value >= 600, "{:?}", now.score);
    let gaps = now.qualification_gaps.join("; ");
    story.line(&format!("score {}; for a benchmark: {gaps}", now.score.value))
}

async fn disputed(story: &mut Story<'_>, pair: &Pair<'_>) -> Result<()> {
    story.chapter("One of her deliveries is bad, and disputed: everything is held again")?;
    let window = json!({"metadata": {"skep": {"dispute_window_s": WINDOW_S}}});
    let id = stage::agree(&pair.ada, &pair.client, window).await?.negotiation_id;
    let bad = json!({"delivery": {"artifacts": [{"type": "text", "content": "Later"}]}});
    stage::deliver(&pair.client, id, bad).await?;
    let started = std::time::Instant::now();
    while pair.publication().await?.gates.disputed_sessions_active == 0 {
        ensure!(started.elapsed() < super::deals::PATIENCE, "the verifier did not answer");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let during = pair.hold().await?;
    ensure!(during.amount_minor == during.price_minor, "a dispute changed nothing");
    story.line(&format!("FAILED, and an hour to dispute it: {}", told(&during)))?;
    pair.ada.advance_clock(2 * WINDOW_S).await?;
    ensure!(settled(&pair.ada, id).await? == EscrowStatus::Refunded, "bad work was paid");
    let (now, after) = (pair.publication().await?, pair.hold().await?);
    ensure!(after.amount_minor < after.price_minor, "the dispute did not end");
    story.line(&format!(
        "the hour is over: refunded, counted against her: score {}, {}",
        now.score.value,
        told(&after)
    ))
}

async fn checked(story: &mut Story<'_>, pair: &Pair<'_>, url: &str) -> Result<Scores> {
    story.chapter("A stranger has nothing but her certificate and the node's keys")?;
    let stranger = Client::new(url)?;
    let certificate = stranger.certificate(&pair.nina.id().to_string(), Some(100)).await?;
    let (keys, read) = (stranger.score_keys().await?, pair.publication().await?);
    let host = url.split_once("://").map(|(_, host)| host);
    let source = Source { keys: &keys, host };
    let check = |said: &Certificate| -> VerifyAnswer {
        check_score(&said.publication, Some(said), Known::issuer(&source), read.issuer.computed_at)
    };
    let good = check(&certificate);
    ensure!(good.level == Some(VerifyLevel::L3), "{:?}", good.failed_checks);
    let coverage = good.coverage.unwrap_or_default();
    story.line(&format!(
        "L1 signed, L2 recomputed to {}, L3: {} facts in one chain, {} receipts, {} sessions: ok",
        read.score.value,
        coverage.facts_shown,
        coverage.settlements_proven,
        coverage.sessions_proven
    ))?;
    let mut better = certificate;
    let failed = better.facts.iter_mut().find(|fact| !fact.fact.ok).context("all went well")?;
    failed.fact.ok = true;
    let refused = check(&better);
    ensure!(!refused.verified, "a changed certificate holds");
    let names: Vec<_> = refused.failed_checks.iter().map(|failed| &*failed.check).collect();
    story.line(&format!("with her failure left out, it does not hold: {}", names.join(", ")))?;
    Ok(Scores { score: read.score.value, certificates_checked: 1, certificates_refused: 1 })
}
