//! 7.3.1: an escrow that both sides agreed on, at another node.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_agent::{Buyer, HireOrder, buyer::PaymentChoice};
use skep_base::{Asset, Money};
use skep_sdk::Client;
use skep_testkit::process::Child;
use skep_wire::{
    hire::{EscrowVerb, HireResponse, PaymentMode, WINDOW_SYNC_MS},
    settle::EscrowStatus,
};

use super::{
    MEDIAN, PRICE, World, cost,
    escrow::{PATIENCE, refunded, signed},
    order, refused,
};
use crate::stage::{self, Actor, Hand, Place, Shop, own_work};

async fn free(client: &Client) -> Result<i64> {
    let wallet = client.wallet().await?;
    Ok(wallet.balances.first().context("no money there")?.available.amount.minor())
}

/// Another node, with money of Ann's.
struct Far {
    /// Ann, there.
    there: Client,
    mode: PaymentMode,
    url: String,
    _node: Child,
    folder: tempfile::TempDir,
}

impl Far {
    async fn open(w: &World) -> Result<Far> {
        let folder = tempfile::tempdir()?;
        let node = stage::node(folder.path(), &[])?;
        let url = node.url().to_owned();
        let there = w.ann.register(&url).await?;
        there.faucet(Money::parse_decimal("1", Asset::USDC)?).await?;
        let mode = format!("custom_escrow:{url}").parse()?;
        Ok(Far { there, mode, url, _node: node, folder })
    }

    /// An honest seller that is known at both nodes and paid at this one.
    async fn shop(&self, w: &World, name: &'static str) -> Result<Shop> {
        let seller = Actor::new(name)?;
        seller.register(&self.url).await?;
        let mode = self.mode.to_string();
        let goods = [MEDIAN, "--price", "0.02", "--payment-mode", &mode];
        Shop::open(w.place(), seller, &goods, &own_work("statistics")?).await
    }

    fn order(&self, shop: &Shop) -> HireOrder {
        let required = PaymentChoice::Require(self.mode.clone());
        order(shop, MEDIAN, json!({"data": [1, 4, 9]}), required)
    }

    /// Ann, where she trusts this node.
    fn buyer(&self, w: &World) -> Result<Buyer> {
        w.place().buyer(&w.ann, |config| config.custom_escrows = vec![self.url.clone()])
    }
}

pub(super) async fn another_node_keeps_the_money(w: &World) -> Result<String> {
    let far = Far::open(w).await?;
    let shop = far.shop(w, "far").await?;
    match w.buyer.hire(far.order(&shop)).await {
        Err(error) if error.code() == "all_refused" => {}
        other => anyhow::bail!("an escrow that nobody trusts was used: {other:?}"),
    }
    let (here, before) = (w.free().await?, free(&far.there).await?);
    let hired = far.buyer(w)?.hire(far.order(&shop)).await?;
    let end = hired.escrow.context("no escrow")?;
    ensure!(end.status == "RELEASED", "a good result is {}", end.status);
    cost(here, w.free().await?, 0).context("at the own node")?;
    cost(before, free(&far.there).await?, PRICE).context("at the other node")?;
    let rail = far.there.x402_rail().await?;
    ensure!(rail.asset != w.client.x402_rail().await?.asset, "two ledgers are one asset");
    Ok("held and released by the same messages at another node, which the buyer must trust"
        .to_owned())
}

pub(super) async fn another_node_gives_money_back(w: &World) -> Result<String> {
    let far = Far::open(w).await?;
    let cheat = Actor::new("far-cheat")?;
    cheat.register(&far.url).await?;
    let (modes, program) = (vec![far.mode.clone()], ["echo".into(), r#"{"result": 42}"#.into()]);
    let shop = Shop::open_blind(w.place(), cheat, MEDIAN, "0.02", modes, &program).await?;
    let (here, before) = (w.free().await?, free(&far.there).await?);
    let hired = far.buyer(w)?.hire(far.order(&shop)).await?;
    let end = hired.escrow.context("no escrow")?;
    ensure!(end.status == "REFUNDED" && hired.dispute, "garbage is {}", end.status);
    let escrow = far.there.hire_escrow(end.escrow_id).await?;
    ensure!(escrow.status == EscrowStatus::Refunded, "there it is {:?}", escrow.status);
    let settlement = escrow.settlement.context("no settlement")?.settlement;
    ensure!(settlement.refunded_minor.minor() == PRICE, "not all of it came back");
    cost(here, w.free().await?, 0).context("at the own node")?;
    cost(before, free(&far.there).await?, 0).context("at the other node")?;
    let reason = end.reason.unwrap_or_default();
    Ok(format!("{} REFUNDED ({reason}) at another node, dispute = true", end.escrow_id))
}

pub(super) async fn another_nodes_clock_gives_money_back(w: &World) -> Result<String> {
    let far = Far::open(w).await?;
    let shop = far.shop(w, "far-silent").await?;
    let hand = Hand::new(&w.ann, Place { node: &far.url, folder: far.folder.path() }).await?;
    let (here, before) = (w.free().await?, free(&far.there).await?);
    let mode = Some(far.mode.clone());
    let hire = hand.hire(&shop, MEDIAN, json!({"data": [1, 4, 9]}), |hire| {
        hire.preferred_payment_mode = mode;
    })?;
    let (_, answer) = hand.bought(&shop, &hire).await?;
    ensure!(answer.status == 200, "{}", answer.body);
    let response: HireResponse = serde_json::from_value(answer.body)?;
    let receipt = response.signed_receipt.as_ref().context("no receipt")?;
    let id = receipt.escrow_id.context("a receipt that names no escrow")?;
    cost(before, free(&far.there).await?, PRICE).context("while it is held")?;
    refused(far.there.timeout_refund(id).await, "refund_too_early")?;
    far.there.advance_clock(WINDOW_SYNC_MS / 1000 + 1).await?;
    let escrow = tokio::time::timeout(PATIENCE, refunded(&far.there, id)).await;
    let escrow = escrow.context("the money did not come back by itself")??;
    ensure!(escrow.reason.as_deref() == Some("window_passed"), "it says {:?}", escrow.reason);
    let late = signed(w, id, EscrowVerb::Release, &response)?;
    refused(far.there.order_escrow(&late).await, "escrow_over")?;
    cost(here, w.free().await?, 0).context("at the own node")?;
    cost(before, free(&far.there).await?, 0).context("at the other node")?;
    Ok(format!("{id}: 30 s after the delivery REFUNDED by the other node by itself"))
}
