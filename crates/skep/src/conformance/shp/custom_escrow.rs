//! 7.3.1: an escrow that both sides agreed on, at another node.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use skep_agent::buyer::PaymentChoice;
use skep_base::{Asset, Money};
use skep_sdk::Client;

use super::{MEDIAN, PRICE, World, cost, order};
use crate::stage::{self, Actor, Shop, own_work};

async fn free(client: &Client) -> Result<i64> {
    let wallet = client.wallet().await?;
    Ok(wallet.balances.first().context("no money there")?.available.amount.minor())
}

pub(super) async fn another_node_keeps_the_money(w: &World) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let other = stage::node(folder.path(), &[])?;
    let url = other.url().to_owned();
    let there = w.ann.register(&url).await?;
    there.faucet(Money::parse_decimal("1", Asset::USDC)?).await?;
    let mode = format!("custom_escrow:{url}");
    let seller = Actor::new("far")?;
    seller.register(&url).await?;
    let goods = [MEDIAN, "--price", "0.02", "--payment-mode", &mode];
    let shop = Shop::open(w.place(), seller, &goods, &own_work("statistics")?).await?;

    let wanted = || {
        let required = PaymentChoice::Require(mode.parse().unwrap_or_default());
        order(&shop, MEDIAN, json!({"data": [1, 4, 9]}), required)
    };
    match w.buyer.hire(wanted()).await {
        Err(error) if error.code() == "all_refused" => {}
        other => anyhow::bail!("an escrow that nobody trusts was used: {other:?}"),
    }
    let (here, before) = (w.free().await?, free(&there).await?);
    let buyer = w.place().buyer(&w.ann, |config| config.custom_escrows = vec![url.clone()])?;
    let hired = buyer.hire(wanted()).await?;
    let end = hired.escrow.context("no escrow")?;
    ensure!(end.status == "RELEASED", "a good result is {}", end.status);
    cost(here, w.free().await?, 0).context("at the own node")?;
    cost(before, free(&there).await?, PRICE).context("at the other node")?;
    let rail = there.x402_rail().await?;
    ensure!(rail.asset != w.client.x402_rail().await?.asset, "two ledgers are one asset");
    Ok("held and released by the same messages at another node, which the buyer must trust"
        .to_owned())
}
