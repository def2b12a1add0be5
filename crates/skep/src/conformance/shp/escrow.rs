//! 7.3.3: money that waits for the buyer's check.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_agent::buyer::PaymentChoice;
use skep_base::{hash::json_sha256, id::DealId};
use skep_sdk::Client;
use skep_wire::{
    hire::{
        EscrowOrder, EscrowTerms, EscrowVerb, HireEscrow, HireResponse, WINDOW_ASYNC_MS,
        WINDOW_SYNC_MS, WalletSigned,
    },
    settle::EscrowStatus,
    x402::Requirements,
};

use super::{MEAN, PRICE, World, cost, order, own_escrow, refused};
use crate::client::now;

/// How long the node's own timer is waited for, once its time has come.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

fn terms(way: &Requirements) -> Result<EscrowTerms> {
    let terms = way.extra.get("escrow").context("a way to pay without terms")?;
    Ok(serde_json::from_value(terms.clone())?)
}

/// A hire in escrow that was delivered and that nobody has judged.
async fn delivered(w: &World, numbers: &[i64]) -> Result<(DealId, HireResponse)> {
    let mode = own_escrow(&w.client).await?;
    let params = json!({"data": numbers});
    let hire = w.hand.hire(&w.means, MEAN, params, |h| h.preferred_payment_mode = Some(mode))?;
    let (_, answer) = w.hand.bought(&w.means, &hire).await?;
    ensure!(answer.status == 200, "{}", answer.body);
    let response: HireResponse = serde_json::from_value(answer.body)?;
    let receipt = response.signed_receipt.as_ref().context("no receipt")?;
    Ok((receipt.escrow_id.context("a receipt that names no escrow")?, response))
}

pub(super) fn signed(
    w: &World,
    id: DealId,
    verb: EscrowVerb,
    response: &HireResponse,
) -> Result<EscrowOrder> {
    let mut order = EscrowOrder {
        escrow_id: id,
        verb,
        by: w.ann.id(),
        result_hash: Some(json_sha256(&response.result)?),
        verification: Some(response.verification.summary()),
        issued_at: now(),
        signature: None,
    };
    order.sign(w.ann.keyring.wallet())?;
    Ok(order)
}

pub(super) async fn money_waits_with_the_escrow_and_not_with_the_seller(
    w: &World,
) -> Result<String> {
    let mode = own_escrow(&w.client).await?;
    let rail = w.client.x402_rail().await?;
    for (callback, window) in [(None, WINDOW_SYNC_MS), (Some("http://a.invalid/"), WINDOW_ASYNC_MS)]
    {
        let hire = w.hand.hire(&w.means, MEAN, json!({"data": [1]}), |hire| {
            hire.preferred_payment_mode = Some(mode.clone());
            hire.callback_url = callback.map(str::to_owned);
        })?;
        let required = w.hand.ask(&w.means, &hire).await?.required()?;
        let way = required.accepts.first().context("no way to pay")?;
        ensure!(way.pay_to == rail.escrow_address, "the money would not go to the escrow");
        let terms = terms(way)?;
        ensure!(terms.payee == w.means.id(), "somebody else would get it");
        let got = terms.verification_window_ms;
        ensure!(got == window, "the window is {got} ms, not {window}");
        ensure!(terms.hire_hash == hire.digest()?, "the terms are of another hire");
    }
    let before = w.free().await?;
    let (id, response) = delivered(w, &[5, 7]).await?;
    let escrow = w.client.hire_escrow(id).await?;
    ensure!(escrow.status == EscrowStatus::Held, "it is {:?}", escrow.status);
    ensure!(escrow.refund_at.is_some() && escrow.delivered_at.is_some(), "nothing was delivered");
    cost(before, w.free().await?, PRICE)?;
    let mut foreign = signed(w, id, EscrowVerb::Release, &response)?;
    foreign.by = w.eve.id();
    foreign.sign(w.eve.wallet())?;
    refused(w.client.order_escrow(&foreign).await, "not_your_escrow")?;
    let mut other = signed(w, id, EscrowVerb::Release, &response)?;
    other.result_hash = Some(json_sha256(&json!({"result": 0}))?);
    other.sign(w.ann.keyring.wallet())?;
    refused(w.client.order_escrow(&other).await, "wrong_result")?;
    w.client.order_escrow(&signed(w, id, EscrowVerb::Release, &response)?).await?;
    Ok("30 s for an answer at once, 5 min for a job; only the buyer releases, for this result \
        only"
        .to_owned())
}

pub(super) async fn what_passes_is_released(w: &World) -> Result<String> {
    let before = w.free().await?;
    let wanted = order(&w.means, MEAN, json!({"data": [1, 2, 3]}), PaymentChoice::Escrow);
    let hired = w.buyer.hire(wanted).await?;
    let end = hired.escrow.context("no escrow")?;
    ensure!(end.status == "RELEASED" && !hired.dispute, "a good result is {}", end.status);
    cost(before, w.free().await?, PRICE)?;
    let escrow = w.client.hire_escrow(end.escrow_id).await?;
    let settlement = escrow.settlement.context("no settlement")?;
    use skep_wire::identity::Statement;
    settlement.settlement.verify(&settlement.key, &settlement.signature)?;
    let stored = w.client.receipt(&hired.hire_id).await?;
    ensure!(stored.escrow.as_deref() == Some("RELEASED"), "the receipt says {:?}", stored.escrow);
    Ok(format!("{} RELEASED, with a settlement that the node signed", end.escrow_id))
}

pub(super) async fn what_fails_is_refunded_and_disputed(w: &World) -> Result<String> {
    let before = w.free().await?;
    let wanted = order(&w.cheat, MEAN, json!({"data": [1, 2, 3]}), PaymentChoice::Escrow);
    let hired = w.buyer.hire(wanted).await?;
    let end = hired.escrow.context("no escrow")?;
    ensure!(end.status == "REFUNDED" && hired.dispute, "garbage is {}", end.status);
    cost(before, w.free().await?, 0)?;
    let stored = w.client.receipt(&hired.hire_id).await?;
    ensure!(stored.dispute && stored.escrow.as_deref() == Some("REFUNDED"), "not disputed");
    let reason = end.reason.unwrap_or_default();
    Ok(format!(
        "{} REFUNDED ({reason}), dispute = true, not a minor unit is missing",
        end.escrow_id
    ))
}

pub(super) async fn silence_refunds(w: &World) -> Result<String> {
    let before = w.free().await?;
    let (id, response) = delivered(w, &[6, 6]).await?;
    let early = w.client.timeout_refund(id).await;
    refused(early, "refund_too_early")?;
    w.client.advance_clock(WINDOW_SYNC_MS / 1000 + 1).await?;
    let escrow = tokio::time::timeout(PATIENCE, refunded(&w.client, id)).await;
    let escrow = escrow.context("the money did not come back by itself")??;
    ensure!(escrow.reason.as_deref() == Some("window_passed"), "it says {:?}", escrow.reason);
    cost(before, w.free().await?, 0)?;
    let late = w.client.order_escrow(&signed(w, id, EscrowVerb::Release, &response)?).await;
    refused(late, "escrow_over")?;
    ensure!(w.client.timeout_refund(id).await.is_ok(), "who asks as well is refused");
    Ok(format!("{id}: 30 s after the delivery REFUNDED by itself; a late release is escrow_over"))
}

pub(super) async fn refunded(client: &Client, id: DealId) -> Result<HireEscrow> {
    loop {
        let escrow = client.hire_escrow(id).await?;
        if escrow.status == EscrowStatus::Refunded {
            return Ok(escrow);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
