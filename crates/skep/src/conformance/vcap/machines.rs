//! 4.1 to 4.4, 7 and 8, driven from outside.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_base::{
    Asset, Money,
    id::{DealId, VerificationId},
};
use skep_sdk::{Client, Error};
use skep_wire::settle::{
    AgreementStatus, CounterTerms, EscrowStatus, NegotiationStatus, Outcome, ResponseStatus,
    ReviewStatus, VerificationStatus,
};

use super::World;
use crate::stage;

/// Past the time-out of a verification.
const TIMEOUT_S: u64 = 1801;
/// How long the node's own timers are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

async fn opened(w: &World) -> Result<DealId> {
    let offer = stage::request(w.requester.id(), w.provider.id(), json!({}));
    Ok(w.ann.open_negotiation(&offer).await?.value.negotiation_id)
}

async fn answered(
    client: &Client,
    id: DealId,
    status: ResponseStatus,
) -> Result<NegotiationStatus> {
    let mut response = stage::response(id, status);
    if status == ResponseStatus::Countered {
        let price = Money::parse_decimal("0.30", Asset::USDC)?;
        response.counter_terms =
            Some(CounterTerms { amount: Some(price.into()), ..CounterTerms::default() });
    }
    Ok(client.respond(&response).await?.value.status)
}

/// A refusal with this code, and nothing else.
fn refused<T>(result: Result<T, Error>, code: &str) -> Result<()> {
    match result {
        Err(Error::Problem { problem, .. }) if problem.code == code => Ok(()),
        Err(other) => anyhow::bail!("expected {code}, not: {other}"),
        Ok(_) => anyhow::bail!("expected {code}, and it was allowed"),
    }
}

pub(super) async fn every_transition_of_a_negotiation(w: &World) -> Result<String> {
    use {NegotiationStatus as S, ResponseStatus as R};
    let (ann, ben) = (&w.ann, &w.ben);
    for (steps, end) in [
        (vec![(ben, R::Accepted)], S::Accepted),
        (vec![(ben, R::Rejected)], S::Declined),
        (vec![(ben, R::Countered)], S::Countered),
        (vec![(ben, R::Countered), (ann, R::Accepted)], S::Accepted),
        (vec![(ben, R::Countered), (ann, R::Rejected)], S::Declined),
        (vec![(ben, R::Countered), (ann, R::Countered)], S::Countered),
    ] {
        let id = opened(w).await?;
        ensure!(ann.negotiation(id).await?.status == S::Pending, "it does not begin PENDING");
        let mut status = S::Pending;
        for (client, response) in steps {
            status = answered(client, id, response).await?;
        }
        ensure!(status == end, "expected {end:?}, not {status:?}");
        if matches!(end, S::Accepted | S::Declined) {
            let again = stage::response(id, R::Accepted);
            refused(ben.respond(&again).await, "negotiation_closed")?;
        }
    }
    let id = opened(w).await?;
    refused(ann.respond(&stage::response(id, R::Accepted)).await, "not_your_turn")?;
    Ok("all six rows; closed ones stay closed; turns alternate".to_owned())
}

/// A deal that the check's own verifier looks at.
async fn agreed(w: &World) -> Result<DealId> {
    let terms = json!({"metadata": {"skep": {"verifier": w.verifier.id()}}});
    Ok(stage::agree(&w.ann, &w.ben, terms).await?.negotiation_id)
}

pub(super) async fn delivered(w: &World) -> Result<(DealId, VerificationId)> {
    let id = agreed(w).await?;
    Ok((id, stage::deliver(&w.ben, id, json!({})).await?))
}

pub(super) async fn sixty_four_callers_settle_an_escrow_once(w: &World) -> Result<String> {
    let before = free(w).await?;
    let id = agreed(w).await?;
    ensure!(w.ann.escrow(id).await?.status == EscrowStatus::Held, "it does not begin HELD");
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..64 {
        let client = if n % 2 == 0 { w.ann.clone() } else { w.ben.clone() };
        callers.spawn(async move { client.cancel_deal(id).await });
    }
    let (mut settled, mut told) = (0, 0);
    while let Some(result) = callers.join_next().await {
        match result? {
            Ok(_) => settled += 1,
            Err(Error::Problem { problem, .. }) if problem.code == "already_settled" => told += 1,
            Err(other) => return Err(other.into()),
        }
    }
    ensure!((settled, told) == (1, 63), "{settled} settled it and {told} were told so");
    ensure!(free(w).await? == before, "the refund is not what was held");
    Ok("1 of 64 callers at once settles it, 63 see it settled, the money is back".to_owned())
}

async fn free(w: &World) -> Result<Money> {
    let wallet = w.ann.wallet().await?;
    Ok(wallet.balances.first().context("no wallet")?.available)
}

async fn status(w: &World, id: VerificationId) -> Result<VerificationStatus> {
    Ok(w.ann.verification(id).await?.status)
}

/// Waits for the node's own timer.
async fn timed_out(w: &World, id: VerificationId) -> Result<()> {
    w.ann.advance_clock(TIMEOUT_S).await?;
    let started = std::time::Instant::now();
    while status(w, id).await? != VerificationStatus::Timeout {
        ensure!(started.elapsed() < PATIENCE, "the time-out was not noticed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

pub(super) async fn every_transition_of_a_verification(w: &World) -> Result<String> {
    use VerificationStatus as S;
    let verifier = w.verifier.actor.client(&w.url)?;
    for (outcome, end) in
        [(Outcome::Verified, S::Verified), (Outcome::Failed, S::Failed), (Outcome::Error, S::Error)]
    {
        let (_, id) = delivered(w).await?;
        ensure!(status(w, id).await? == S::Pending, "it does not begin PENDING");
        verifier.acknowledge(id).await?;
        ensure!(status(w, id).await? == S::Running, "an acknowledgement does not count");
        w.verifier.judge(&w.url, id, outcome).await?;
        ensure!(status(w, id).await? == end, "{outcome:?} is not {end:?}");
    }
    let ((_, pending), (_, running)) = (delivered(w).await?, delivered(w).await?);
    verifier.acknowledge(running).await?;
    timed_out(w, pending).await?;
    timed_out(w, running).await?;
    let late = w.verifier.judge(&w.url, pending, Outcome::Verified).await;
    let late = late.err().context("a late verdict counted")?.to_string();
    ensure!(late.contains("timed out"), "{late}");
    Ok("all seven rows; a verdict after the time-out is refused".to_owned())
}

pub(super) async fn every_transition_of_an_agreement(w: &World) -> Result<String> {
    use AgreementStatus as S;
    for (outcome, end) in [(Outcome::Verified, S::Completed), (Outcome::Failed, S::Disputed)] {
        let (id, verification) = delivered(w).await?;
        ensure!(w.ann.agreement(id).await?.status == S::Active, "it does not begin ACTIVE");
        w.verifier.judge(&w.url, verification, outcome).await?;
        ensure!(w.ann.agreement(id).await?.status == end, "{outcome:?} is not {end:?}");
        refused(w.ben.cancel_deal(id).await, "already_settled")?;
    }
    let id = agreed(w).await?;
    w.ben.cancel_deal(id).await?;
    ensure!(w.ann.agreement(id).await?.status == S::Cancelled, "a cancelled deal is not");
    let (id, _) = delivered(w).await?;
    refused(w.ben.cancel_deal(id).await, "already_delivered")?;
    Ok("ACTIVE to COMPLETED, DISPUTED and CANCELLED; no cancelling after delivery".to_owned())
}

pub(super) async fn a_second_delivery_gets_the_first_verification(w: &World) -> Result<String> {
    let (id, first) = delivered(w).await?;
    let other = json!({"delivery": {"description": "Once more", "artifacts": []}});
    let second = stage::deliver(&w.ben, id, other).await?;
    ensure!(first == second, "a second verification was made");
    w.verifier.judge(&w.url, first, Outcome::Verified).await?;
    let third = w.ben.deliver(&stage::delivery(id, w.provider.id(), json!({}))).await?.value;
    let same = third.verification_id == Some(first)
        && third.verification == Some(VerificationStatus::Verified);
    ensure!(same, "a delivery after the verdict did not get that verdict");
    Ok("delivered three times: one verification, and its result".to_owned())
}

pub(super) async fn a_settled_escrow_stays_settled(w: &World) -> Result<String> {
    let (id, verification) = delivered(w).await?;
    w.verifier.judge(&w.url, verification, Outcome::Verified).await?;
    let receipt = w.ann.settlement(id).await?;
    let price = receipt.settlement.released_minor;
    refused(w.ben.cancel_deal(id).await, "already_settled")?;
    refused(w.ann.claim_refund(id).await, "already_settled")?;
    refused(w.ann.split(id, price).await, "already_settled")?;
    let failed = w.verifier.judge(&w.url, verification, Outcome::Failed).await;
    ensure!(failed.is_err(), "a second verdict counted");
    ensure!(w.ann.settlement(id).await? == receipt, "the settlement has changed");
    Ok("cancel, refund, split and a second verdict all see the first settlement".to_owned())
}

pub(super) async fn a_time_out_moves_no_money_and_a_reviewer_decides(w: &World) -> Result<String> {
    let (id, verification) = delivered(w).await?;
    timed_out(w, verification).await?;
    ensure!(w.ann.escrow(id).await?.status == EscrowStatus::Held, "a time-out moved money");
    let reviewer = w.reviewer.actor.client(&w.url)?;
    let file = reviewer.review(id).await?;
    ensure!(file.review.status == ReviewStatus::Pending, "there is no review");
    ensure!(file.delivery.is_some() && !file.agreement.terms.is_null(), "the file is not whole");
    w.reviewer.decide(&w.url, id, Outcome::Rejected).await?;
    let settlement = w.ann.settlement(id).await?.settlement;
    ensure!(settlement.status == EscrowStatus::Refunded, "the decision did not count");
    ensure!(settlement.proof_signature.is_some(), "the decision is not signed");
    Ok("TIMEOUT, HELD, PENDING review with terms, delivery and escrow; a signed decision".into())
}
