//! The part of the story in which agents call one another like functions, and pay for each call.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use skep_agent::{
    Buyer, HireError, HireOrder, Hired,
    buyer::{Checker, PaymentChoice, Taxonomy},
};
use skep_base::{Amount, Asset, Money};
use skep_sdk::Client;
use skep_wire::{
    hire::{CounterSignature, HireRequest, Search, StoredReceipt, WalletSigned, receipt_id},
    x402::{FacilitatorRequest, Payment, SettleResponse},
};

use super::{Story, deals::Cast};
use crate::stage::{Actor, Hand, Place, Shop, own_work};

const CHART: &str = "chart.generate.from-data";
const MEAN: &str = "compute.statistics.mean";
const SUMMARY: &str = "text.summarize.short";
/// Checks that are named of those that passed.
const CHECKS_NAMED: usize = 2;
/// What a cheat answers, whatever it is asked.
const GARBAGE: &str = r#"{"result": 42}"#;
/// What is summed up.
const ARTICLE: &str = "A skep is a basket of straw that bees live in. Beekeepers made skeps for \
    more than two thousand years. The bees fix their combs to the straw, and nobody can look \
    inside without cutting. Bees keep account of nothing, and yet no hive runs out of order. \
    Each bee does what the hive needs next, and pays for its place with work. A beekeeper who \
    wanted the honey had to take the whole hive apart. Later hives have frames that can be \
    lifted out one by one. What every bee has done can then be seen, and nothing has to be \
    destroyed for it.";

/// Hires that were made, and what became of them.
#[derive(Debug, Default)]
pub struct Hires {
    pub paid: u64,
    pub refunded: u64,
    pub disputes: u64,
    pub countersigned: u64,
    pub replays_refused: u64,
    /// Of every hire that was answered.
    receipts: Vec<String>,
}

/// Those who sell.
struct Sellers {
    charts: Shop,
    means: Shop,
    summaries: Shop,
}

pub async fn tell(story: &mut Story<'_>, cast: &Cast<'_>, folder: &Path) -> Result<Hires> {
    let place = Place { node: cast.url, folder };
    let ada = cast.requester;
    let buyer = place.buyer(ada, |_| {})?;
    let mut hires = Hires::default();
    let sellers = open(story, place).await?;
    direct(story, cast, &buyer, &sellers, &mut hires).await?;
    in_escrow(story, cast, &buyer, &sellers, &mut hires).await?;
    garbage(story, cast, place, &buyer, &mut hires).await?;
    replayed(story, cast, place, &sellers, &mut hires).await?;
    signed_by_both(story, cast, &mut hires).await?;
    Ok(hires)
}

async fn open(story: &mut Story<'_>, place: Place<'_>) -> Result<Sellers> {
    story.chapter("Three sellers open: any program that reads JSON and writes JSON is sold")?;
    let charts = sold(story, place, "Cora", CHART, "0.02", &[], "chart").await?;
    let means = sold(story, place, "Milo", MEAN, "0.01", &[], "statistics").await?;
    let both = ["--payment-mode", "direct", "--payment-mode", "escrow"];
    let summaries = sold(story, place, "Suki", SUMMARY, "0.03", &both, "summarize").await?;
    Ok(Sellers { charts, means, summaries })
}

async fn sold(
    story: &mut Story<'_>,
    place: Place<'_>,
    name: &'static str,
    capability: &str,
    price: &str,
    more: &[&str],
    job: &str,
) -> Result<Shop> {
    let args = [&[capability, "--price", price], more].concat();
    let shop = Shop::open(place, Actor::new(name)?, &args, &own_work(job)?).await?;
    let said = args.join(" ");
    story.line(&format!("{name:<5} skep sell {said} -- skep work {job}"))?;
    story.line(&format!("      {} at {}", shop.id(), shop.url))?;
    Ok(shop)
}

fn order(capability: &str, params: Value) -> Result<HireOrder> {
    let most = Money::parse_decimal("0.05", Asset::USDC)?.amount;
    Ok(HireOrder::new(capability, params, most))
}

fn usdc(amount: Amount) -> String {
    Money::new(amount, Asset::USDC).to_string()
}

/// What the buyer's own look came to.
fn checks(hired: &Hired) -> String {
    let all = &hired.verification.checks;
    let names = |passed: bool| all.iter().filter(move |c| c.passed == passed).map(|c| &*c.name);
    let failed: Vec<&str> = names(false).collect();
    if !failed.is_empty() {
        return format!("{} FAILED", failed.join(", "));
    }
    // The last ones are those that look deepest.
    let passed: Vec<&str> = names(true).collect();
    let some = passed[passed.len().saturating_sub(CHECKS_NAMED)..].join(", ");
    format!("{} checks passed, such as {some}", passed.len())
}

impl Hires {
    /// Tells of a hire's money and its check.
    fn note(&mut self, story: &mut Story<'_>, hired: &Hired) -> Result<()> {
        story.line(&format!("checked by the buyer: {}", checks(hired)))?;
        self.receipts.push(hired.hire_id.clone());
        self.disputes += u64::from(hired.dispute);
        match hired.paid == Amount::ZERO {
            true => self.refunded += 1,
            false => self.paid += 1,
        }
        Ok(())
    }
}

async fn direct(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    buyer: &Buyer,
    sellers: &Sellers,
    hires: &mut Hires,
) -> Result<()> {
    let ada = cast.requester.name;
    story.chapter(&format!("{ada} searches, and calls the best seller like a function"))?;
    let search = Search { capability: Some(MEAN.to_owned()), ..Search::default() };
    let found = cast.requester.client(cast.url)?.search(&search).await?;
    for seller in &found.agents {
        // What a registry says is believed as far as the seller has signed it.
        seller.listing.check()?;
        let because = seller.ranking.because.join(", ");
        story.line(&format!("skep search {MEAN}"))?;
        story.line(&format!("→ {}: {because}", seller.agent_id))?;
    }
    let params = json!({"data": [1, 2, 3, 6]});
    story.line(&format!("skep hire {MEAN} --params '{params}'"))?;
    let hired = buyer.hire(order(MEAN, params)?).await?;
    ensure!(hired.seller == sellers.means.id() && hired.verification.all_passed, "a bad mean");
    story.line(&format!("→ {}", hired.result))?;
    hires.note(story, &hired)?;
    let (paid, tx) = (usdc(hired.paid), &hired.tx_hash[..18]);
    story.line(&format!("{paid} by x402, one signature for this hire alone, tx {tx}…"))?;

    let data: Vec<Value> =
        [3, 5, 4, 8].iter().zip(1..).map(|(y, x)| json!({"x": x, "y": y})).collect();
    let params = json!({"data": data, "chart_type": "bar", "width": 320, "height": 200});
    story.line(&format!("skep hire {CHART} --params @sales.json"))?;
    let hired = buyer.hire(order(CHART, params)?).await?;
    ensure!(hired.seller == sellers.charts.id() && hired.verification.all_passed, "a bad chart");
    let picture = hired.result["image_b64"].as_str().context("a chart without a picture")?;
    let bytes = picture.len() / 4 * 3;
    story.line(&format!("→ a PNG of about {bytes} bytes in {} ms", hired.latency_ms))?;
    hires.note(story, &hired)?;
    story.balance(cast.requester, cast.url).await
}

async fn in_escrow(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    buyer: &Buyer,
    sellers: &Sellers,
    hires: &mut Hires,
) -> Result<()> {
    let suki = sellers.summaries.actor.name;
    story
        .chapter(&format!("Through escrow: {suki} is paid when the result has passed its check"))?;
    story.line(&format!("skep hire {SUMMARY} --params @article.json --escrow"))?;
    let wanted = order(SUMMARY, json!({"text": ARTICLE}))?;
    let hired = buyer.hire(HireOrder { payment: PaymentChoice::Escrow, ..wanted }).await?;
    let end = hired.escrow.clone().context("a hire in escrow without one")?;
    ensure!(end.status == "RELEASED", "a good summary was not paid: {}", end.status);
    let said = hired.result["summary"].as_str().unwrap_or_default();
    story.line(&format!("→ {said:?}"))?;
    hires.note(story, &hired)?;
    let paid = usdc(hired.paid);
    story
        .line(&format!("escrow {}: {paid} held before the work, RELEASED after", end.escrow_id))?;
    story.balance(&sellers.summaries.actor, cast.url).await
}

/// The same cheat three times: stopped by its own seller, paid and disputed, refunded.
async fn garbage(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    place: Place<'_>,
    buyer: &Buyer,
    hires: &mut Hires,
) -> Result<()> {
    story.chapter("Mallory sells means, and her program prints 42 whatever it is asked")?;
    let (ada, client) = (cast.requester, cast.requester.client(cast.url)?);
    let program = ["echo".into(), GARBAGE.into()];
    let args = [MEAN, "--price", "0.005", "--payment-mode", "escrow"];
    let shop = Shop::open(place, Actor::new("Mallory")?, &args, &program).await?;
    let wanted = |shop: &Shop, payment| -> Result<HireOrder> {
        let params = json!({"data": [1, 2, 3, 6]});
        Ok(HireOrder { agent: Some(shop.id()), payment, ..order(MEAN, params)? })
    };
    let before = free(&client).await?;
    match buyer.hire(wanted(&shop, PaymentChoice::Any)?).await {
        Ok(_) => bail!("`skep sell` sold what does not pass its check"),
        Err(HireError::AllRefused { tried }) => {
            let why = tried.last().map(|one| one.detail.clone()).unwrap_or_default();
            story.line("her own `skep sell` looks before it sells, and nothing is paid:")?;
            story.line(&why)?;
        }
        Err(other) => bail!(other),
    }
    ensure!(free(&client).await? == before, "a refused hire has cost something");
    let provider = client.x402_rail().await?.escrow_provider;
    let modes = ["direct".parse()?, format!("platform_escrow:{provider}").parse()?].to_vec();
    let Shop { actor, .. } = shop;
    let shop = Shop::open_blind(place, actor, MEAN, "0.005", modes, &program).await?;
    story.line("so she takes the check out of her seller and opens again")?;

    let direct = PaymentChoice::Require("direct".parse()?);
    let hired = buyer.hire(wanted(&shop, direct)?).await?;
    ensure!(hired.dispute && hired.paid != Amount::ZERO, "garbage was not disputed");
    story.line(&format!("directly: → {}", hired.result))?;
    hires.note(story, &hired)?;
    let paid = usdc(hired.paid);
    story.line(&format!("{paid} are gone: direct payments do not come back"))?;
    story.line("the receipt is disputed in public, by the buyer's signature")?;

    let before = free(&client).await?;
    let hired = buyer.hire(wanted(&shop, PaymentChoice::Escrow)?).await?;
    let end = hired.escrow.clone().context("a hire in escrow without one")?;
    ensure!(end.status == "REFUNDED" && hired.dispute, "garbage was paid: {}", end.status);
    ensure!(free(&client).await? == before, "the refund is not the whole price");
    story.line(&format!("by escrow: → {}", hired.result))?;
    hires.note(story, &hired)?;
    story.line(&format!("escrow {}: REFUNDED, to the last minor unit", end.escrow_id))?;
    story.balance(ada, cast.url).await
}

/// What can be spent now.
async fn free(client: &Client) -> Result<Vec<Money>> {
    Ok(client.wallet().await?.balances.iter().map(|balance| balance.available).collect())
}

/// Somebody has seen a payment on its way and uses it again.
async fn replayed(
    story: &mut Story<'_>,
    cast: &Cast<'_>,
    place: Place<'_>,
    sellers: &Sellers,
    hires: &mut Hires,
) -> Result<()> {
    let ada = cast.requester;
    story.chapter(&format!("Oscar has seen {}'s payment, and sends it again", ada.name))?;
    let oscar = Actor::new("Oscar")?;
    let (hers, his) = (Hand::new(ada, place).await?, Hand::new(&oscar, place).await?);
    let shop = &sellers.means;
    let hire = hers.hire(shop, MEAN, json!({"data": [2, 4]}), |_| {})?;
    let (payment, answer) = hers.bought(shop, &hire).await?;
    ensure!(answer.status == 200, "a good hire was refused: {}", answer.body);
    hires.paid += 1;
    let client = ada.client(cast.url)?;
    let before = free(&client).await?;
    let again = hers.pay(shop, &json!(hire), &payment).await?;
    ensure!(again.body == answer.body, "a repeated hire got another answer");
    story.line("the very same hire again: the very same answer, nothing is charged")?;

    let own = his.hire(shop, MEAN, json!({"data": [7]}), |_| {})?;
    let mut changed = hire.clone();
    changed.params = json!({"data": [7]});
    let plain = json!({"capability": MEAN, "params": {"data": [7]}});
    for (how, shop, body) in [
        ("with a hire of his own", shop, json!(own)),
        ("with her hire, changed", shop, json!(changed)),
        ("with no hire at all, as a plain x402 client", shop, plain),
        ("at another seller's door", &sellers.charts, chart()),
    ] {
        let answer = his.pay(shop, &body, &payment).await?;
        ensure!(answer.status >= 400, "a replayed payment was taken {how}");
        story.line(&format!("{how}: {} {}", answer.status, answer.code()))?;
        hires.replays_refused += 1;
    }
    let refused = settled_elsewhere(&oscar, place, &payment).await?;
    story.line(&format!("at the node, as his own: {refused}"))?;
    hires.replays_refused += 1;
    ensure!(free(&client).await? == before, "a replay has cost {} something", ada.name);
    story.line("not one of them has cost her anything:")?;
    story.balance(ada, cast.url).await?;
    let hash = hire.digest()?;
    hires.receipts.push(receipt_id(&shop.id(), &ada.id(), &hash).to_string());
    sign(&client, ada, &hire, &answer.body).await
}

fn chart() -> Value {
    let params = json!({
        "data": [{"x": 1, "y": 2}], "chart_type": "bar", "width": 80, "height": 60,
    });
    json!({"capability": CHART, "params": params})
}

/// Shows a payment for settlement to somebody else.
async fn settled_elsewhere(oscar: &Actor, place: Place<'_>, payment: &Payment) -> Result<String> {
    let mut accepted = payment.accepted.clone().context("a payment that accepts nothing")?;
    accepted.pay_to = oscar.id();
    let request = FacilitatorRequest {
        x402_version: payment.version,
        payment_payload: payment.raw.clone(),
        payment_requirements: serde_json::to_value(accepted)?,
        skep: None,
    };
    let said: SettleResponse = Client::new(place.node)?.x402_settle(&request).await?;
    ensure!(!said.success, "a payment was taken for somebody else");
    said.error_reason.context("a refusal without a reason")
}

/// What [`Buyer`] does with every answer, by hand: check, and counter-sign.
async fn sign(client: &Client, ada: &Actor, hire: &HireRequest, body: &Value) -> Result<()> {
    let answer: skep_wire::hire::HireResponse = serde_json::from_value(body.clone())?;
    let receipt = answer.signed_receipt.context("an answer without a receipt")?;
    let found = Taxonomy.verify(MEAN, None, &hire.params, &answer.result).await;
    let mut word = CounterSignature {
        hire_id: receipt.hire_id.clone(),
        receipt_hash: receipt.hash()?,
        buyer: ada.id(),
        verification: found.summary(),
        verifiable: found.verifiable,
        verification_version: found.version,
        latency_ms: None,
        dispute: !found.all_passed,
        reason: None,
        signed_at: crate::client::now(),
        signature: None,
    };
    word.sign(ada.keyring.wallet())?;
    client.countersign(&word).await?;
    Ok(())
}

/// What any stranger can do with the receipts alone.
async fn signed_by_both(story: &mut Story<'_>, cast: &Cast<'_>, hires: &mut Hires) -> Result<()> {
    story.chapter("Both sides signed every receipt: the signatures are checked offline")?;
    let client = Client::new(cast.url)?;
    for id in &hires.receipts {
        let stored = client.receipt(id).await?;
        check(&stored)?;
        let StoredReceipt { receipt, judgement, escrow, .. } = &stored;
        let (paid, ends) =
            (usdc(receipt.amount_usdc_atomic), escrow.as_deref().unwrap_or("direct"));
        let word = format!("{judgement:?}").to_lowercase();
        let dispute = if stored.dispute { ", disputed" } else { "" };
        let what = &receipt.capability;
        story.line(&format!("{id} {what}"))?;
        story.line(&format!("      {paid} ({ends}), {word} by the buyer{dispute}: ok"))?;
        hires.countersigned += 1;
    }
    Ok(())
}

/// The seller signed the receipt, and the buyer what it found in it.
fn check(stored: &StoredReceipt) -> Result<()> {
    stored.receipt.check_signature().context("the seller did not sign a receipt")?;
    let word = stored.findings.buyer.as_ref().context("the buyer did not sign a receipt")?;
    word.check_signature().context("a counter-signature does not hold")?;
    ensure!(word.receipt_hash == stored.receipt.hash()?, "another receipt was counter-signed");
    ensure!(word.buyer == stored.receipt.buyer, "somebody else counter-signed a receipt");
    Ok(())
}
