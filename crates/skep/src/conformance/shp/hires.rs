//! 7.1, 7.3.2, 8.1, 11 and 12: hires, by hand and by the buyer.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use skep_agent::{HireError, HireOrder, buyer::PaymentChoice};
use skep_base::{Amount, Hash32, hash::keccak256, json as canonical};
use skep_hire::capability;
use skep_wire::{
    hire::{HireResponse, Judgement, NO_TX, PaymentMode},
    x402::{
        PAYMENT_RESPONSE, PaymentRequiredV1, SettleResponse, X_PAYMENT, from_header, to_header,
    },
};

use super::{MEAN, MEDIAN, PRICE, WORDS, World, cost, order};
use crate::{client::now, stage};

pub(super) async fn a_hire_is_asked_for_money_paid_and_answered(w: &World) -> Result<String> {
    let params = json!({"data": [1, 2, 3, 6]});
    let hire = w.hand.hire(&w.means, MEAN, params.clone(), |_| {})?;
    let asked = w.hand.ask(&w.means, &hire).await?;
    let required = asked.required()?;
    let way = required.accepts.first().context("no way to pay")?;
    ensure!(way.pay_to == w.means.id() && way.amount.minor() == PRICE, "another price or payee");
    let old: PaymentRequiredV1 = serde_json::from_value(asked.body.clone())?;
    ensure!(old.x402_version == 1 && !old.accepts.is_empty(), "version 1 is not served");
    let hash = keccak256(&canonical::to_vec(&params)?).to_prefixed();
    for (name, value) in [
        ("x-402-network", way.network.as_str()),
        ("x-402-address", &w.means.id().to_string()),
        ("x-402-amount", &PRICE.to_string()),
        ("x-402-capability-hash", &hash),
    ] {
        let said = asked.header(name);
        ensure!(said == value, "{name} is {said:?}, not {value:?}");
    }
    let before = w.free().await?;
    let (_, answer) = w.hand.bought(&w.means, &hire).await?;
    ensure!(answer.status == 200, "{}", answer.body);
    cost(before, w.free().await?, PRICE)?;
    let paid: SettleResponse = from_header(answer.header(PAYMENT_RESPONSE))?;
    let response: HireResponse = serde_json::from_value(answer.body)?;
    let receipt = &response.receipt;
    ensure!(paid.success && paid.transaction == receipt.tx_hash, "another payment is named");
    ensure!(response.result == json!({"result": 3.0}), "{} is no mean", response.result);
    ensure!(response.verification.all_passed, "the seller did not check");
    ensure!(receipt.price_paid_usdc.amount().minor() == PRICE, "another price is named");
    ensure!(receipt.payment_mode == PaymentMode::Direct, "another payment mode is named");
    let seconds = now().as_ms() / 1000;
    ensure!(receipt.completed_at.abs_diff(seconds) < 600, "completed_at is not in seconds");
    let stored = w.client.receipt(&receipt.receipt_id).await?;
    ensure!(Some(stored.receipt) == response.signed_receipt, "the node has another receipt");
    Ok(format!("402, one signed payment of 0.02 USDC, 200 with {}", receipt.receipt_id))
}

pub(super) async fn plain_x402_payments_of_both_versions_are_taken_once(
    w: &World,
) -> Result<String> {
    let url = format!("{}/hire", w.means.url);
    let body = json!({"capability": MEAN, "params": {"data": [2, 4]}});
    let asked = w.hand.post(&url, &body, None).await?;
    let required = asked.required()?;
    let way = required.accepts.first().context("no way to pay")?;
    let old: PaymentRequiredV1 = serde_json::from_value(asked.body)?;
    let old = old.accepts.first().context("no way to pay for version 1")?;
    let mut as_old = way.clone();
    as_old.network.clone_from(&old.network);
    let nonce = || stage::entropy().map(Hash32::from);
    let new = json!({
        "x402Version": 2, "accepted": way, "resource": required.resource,
        "payload": w.hand.signed(way, &nonce()?)?,
    });
    let old = json!({
        "x402Version": 1, "scheme": "exact", "network": old.network,
        "payload": w.hand.signed(&as_old, &nonce()?)?,
    });
    for (header, payment) in [("payment-signature", new), (X_PAYMENT, old)] {
        let before = w.free().await?;
        let pay = |body: Value| {
            let payment = to_header(&payment);
            let url = &url;
            async move { w.hand.post(url, &body, Some((header, payment))).await }
        };
        let answer = pay(body.clone()).await?;
        ensure!(answer.status == 200, "{header}: {}", answer.body);
        let id = answer.body["receipt"]["receipt_id"].as_str().context("no receipt")?;
        ensure!(answer.body["receipt"]["buyer_id"] == w.ann.id().to_string(), "another buyer");
        let stored = w.client.receipt(id).await?;
        ensure!(stored.judgement == Judgement::NotVerifiedByBuyer, "{:?}", stored.judgement);
        ensure!(pay(body.clone()).await?.body == answer.body, "the same again is another");
        let other = json!({"capability": MEAN, "params": {"data": [5]}});
        pay(other).await?.refused(409, "nonce_reused")?;
        cost(before, w.free().await?, PRICE).context(header)?;
    }
    Ok("both versions, without a hire's signature; the payer is the buyer; a payment is good for \
        one hire"
        .to_owned())
}

pub(super) async fn direct_money_is_gone_and_garbage_is_disputed(w: &World) -> Result<String> {
    let before = w.free().await?;
    let direct = PaymentChoice::Require(PaymentMode::Direct);
    let wanted = order(&w.cheat, MEAN, json!({"data": [1, 2]}), direct);
    let hired = w.buyer.hire(wanted).await?;
    ensure!(hired.dispute && !hired.verification.all_passed, "42 was taken for a mean");
    cost(before, w.free().await?, PRICE / 2)?;
    let stored = w.client.receipt(&hired.hire_id).await?;
    ensure!(stored.dispute && stored.judgement == Judgement::Failed, "{:?}", stored.judgement);
    ensure!(stored.receipt.verification.all_passed, "the seller did not claim that it is good");
    Ok("0.01 USDC to a cheat do not come back; its receipt says disputed, failed".to_owned())
}

pub(super) async fn the_buyers_own_check_decides(w: &World) -> Result<String> {
    let params = json!({"data": [1, 2, 3, 6]});
    let hired = w.buyer.hire(order(&w.means, MEAN, params.clone(), PaymentChoice::Any)).await?;
    ensure!(hired.verification.all_passed && !hired.dispute, "a good result is disputed");
    let again = capability::verify(MEAN, Some("v1"), &params, &hired.result);
    ensure!(again == hired.verification, "the same check finds something else");
    let wrong = capability::verify(MEAN, Some("v1"), &params, &json!({"result": 3.1}));
    ensure!(wrong.failed(), "3.1 is taken for the mean of 1, 2, 3 and 6");
    let stored = w.client.receipt(&hired.hire_id).await?;
    ensure!(stored.judgement == Judgement::Passed, "{:?}", stored.judgement);
    let custom = order(&w.words, WORDS, json!({"words": 1}), PaymentChoice::Any);
    let custom = w.buyer.hire(custom).await?;
    ensure!(!custom.verification.verifiable, "somebody can check a custom capability");
    let stored = w.client.receipt(&custom.hire_id).await?;
    ensure!(stored.judgement == Judgement::NotVerifiable, "{:?}", stored.judgement);
    let names: Vec<&str> = again.checks.iter().map(|check| check.name.as_str()).collect();
    Ok(format!("{}; what nobody can check is neither passed nor failed", names.join(", ")))
}

pub(super) async fn a_first_call_is_free_once(w: &World) -> Result<String> {
    let before = w.free().await?;
    let nothing = || HireOrder {
        max_price: Amount::ZERO,
        ..order(&w.medians, MEDIAN, json!({"data": [1, 5, 9]}), PaymentChoice::Any)
    };
    let hired = w.buyer.hire(nothing()).await?;
    let receipt = &hired.receipt;
    ensure!(receipt.amount_usdc_atomic == Amount::ZERO, "a free call has a price");
    ensure!(receipt.tx_hash == NO_TX, "a free call has a transaction");
    ensure!(hired.verification.all_passed && hired.rating_token.is_some(), "no receipt");
    cost(before, w.free().await?, 0)?;
    match w.buyer.hire(nothing()).await {
        Err(HireError::AllRefused { .. }) => {}
        other => bail!("the second call is free as well: {other:?}"),
    }
    let plain = json!({"capability": MEDIAN, "params": {"data": [1]}, "buyer_id": w.eve.id()});
    let answer = w.eve.post(&format!("{}/hire", w.medians.url), &plain, None).await?;
    ensure!(answer.status == 402, "who signs nothing calls for nothing");
    let signed = w.eve.hire(&w.medians, MEDIAN, json!({"data": [7]}), |_| {})?;
    let answer = w.eve.ask(&w.medians, &signed).await?;
    ensure!(answer.status == 200, "another buyer's first call: {}", answer.body);
    ensure!(answer.body["receipt"]["tx_hash"] == NO_TX, "it has a transaction");
    Ok("once for each buyer that signs; amount 0, tx_hash 0x0…0, a receipt like any other"
        .to_owned())
}

pub(super) async fn nothing_signed_can_be_used_again(w: &World) -> Result<String> {
    let params = json!({"data": [3, 3]});
    let hire = w.hand.hire(&w.means, MEAN, params.clone(), |_| {})?;
    let (payment, answer) = w.hand.bought(&w.means, &hire).await?;
    let before = w.free().await?;
    let again = w.hand.pay(&w.means, &json!(hire), &payment).await?;
    ensure!(again.body == answer.body, "the same hire got another answer");
    let reused = w.hand.hire(&w.means, MEAN, json!({"data": [4]}), |new| {
        new.nonce.clone_from(&hire.nonce);
    })?;
    w.hand.ask(&w.means, &reused).await?.refused(409, "nonce_reused")?;
    let stale = w.hand.hire(&w.means, MEAN, params.clone(), |hire| {
        hire.issued_at = Some(now().minus(Duration::from_secs(301)));
    })?;
    w.hand.ask(&w.means, &stale).await?.refused(401, "stale_request")?;
    let elsewhere = w.hand.hire(&w.medians, MEAN, params.clone(), |_| {})?;
    w.hand.ask(&w.means, &elsewhere).await?.refused(403, "not_this_seller")?;
    let nameless = w.hand.hire(&w.means, MEAN, params.clone(), |hire| hire.nonce = None)?;
    w.hand.ask(&w.means, &nameless).await?.refused(400, "bad_nonce")?;
    let hers = w.eve.hire(&w.means, MEAN, params.clone(), |_| {})?;
    let stolen = w.eve.pay(&w.means, &json!(hers), &payment).await?;
    stolen.refused(402, "payer_is_not_the_buyer")?;
    let other = w.hand.hire(&w.means, MEAN, params, |_| {})?;
    let reused = w.hand.pay(&w.means, &json!(other), &payment).await?;
    reused.refused(402, "payment_not_for_this_hire")?;
    cost(before, w.free().await?, 0)?;
    Ok("the same hire gets the same answer; another one with its nonce, its time or its payment \
        is refused by name, and nothing is charged"
        .to_owned())
}
