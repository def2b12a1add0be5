//! 7.5: one question before a hire.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_agent::{HireOrder, buyer::ClarifyOrder};
use skep_base::{Amount, Hash32};
use skep_wire::hire::{
    BRIEF_LEN_MAX, CLARIFY_PER_DAY, Clarified, HireRequest, Listing, WalletSigned,
};

use super::{MEAN, WORDS, World, cost, refused};
use crate::{
    client::now,
    stage::{self, Actor, Answer, Hand, Shop},
};

/// A little longer than the shortest quote stands.
const EXPIRY: Duration = Duration::from_millis(1100);

async fn ask(who: &Hand, shop: &Shop, capability: &str, brief: &str) -> Result<Answer> {
    let question = json!({
        "protocol": "swarmwage/v0.4", "buyer_id": who.id(), "capability": capability,
        "brief": brief, "params": {}, "nonce": Hash32::from(stage::entropy()?),
    });
    who.post(&format!("{}/clarify", shop.url), &question, None).await
}

/// The token of a quote for nine words.
async fn quoted(who: &Hand, shop: &Shop, brief: &str) -> Result<String> {
    let answer = ask(who, shop, WORDS, brief).await?;
    ensure!(answer.body["outcome"] == "quote", "no quote: {}", answer.body);
    let quote = &answer.body["quote"];
    ensure!(quote["price_usdc"] == "0.06" && quote["expires_at"].is_i64(), "a quote of nothing");
    Ok(quote["quote_token"].as_str().context("a quote without a token")?.to_owned())
}

fn taken_up(who: &Hand, shop: &Shop, params: Value, token: &str) -> Result<HireRequest> {
    who.hire(shop, WORDS, params, |hire| {
        hire.protocol = "swarmwage/v0.4".to_owned();
        hire.quote_token = Some(token.to_owned());
    })
}

pub(super) async fn only_listings_that_opt_in_are_asked(w: &World) -> Result<String> {
    let answer = ask(&w.hand, &w.means, MEAN, "a mean of nine words").await?;
    answer.refused(422, "clarification_not_supported")?;
    let mut listing: Listing = serde_json::from_value(json!({
        "agent_id": w.means.id(), "capability": MEAN, "price_usdc": "0.02",
        "max_latency_ms": 30_000, "endpoint": w.means.url, "issued_at": now(),
        "clarification_supported": true,
    }))?;
    listing.sign(w.means.actor.keyring.wallet())?;
    refused(w.client.publish_listing(&listing).await, "not_clarifiable")?;
    Ok("clarification_not_supported; a standard capability that opts in is not_clarifiable"
        .to_owned())
}

pub(super) async fn asking_costs_nothing_and_leaves_no_receipt(w: &World) -> Result<String> {
    let receipts = async || -> Result<Vec<String>> {
        let page = w.client.receipts_of(&w.words.id(), None).await?;
        Ok(page.items.into_iter().map(|stored| stored.receipt_id).collect())
    };
    let (before, known) = (w.free().await?, receipts().await?);
    for (brief, outcome) in
        [("nine words", "quote"), ("alternatives", "counter"), ("nothing", "decline")]
    {
        let answer = ask(&w.hand, &w.words, WORDS, brief).await?;
        ensure!(answer.status == 200, "{brief}: {}", answer.body);
        ensure!(answer.body["outcome"] == outcome, "{brief}: {}", answer.body);
        ensure!(answer.body["protocol"] == "swarmwage/v0.4", "another version");
    }
    cost(before, w.free().await?, 0)?;
    ensure!(receipts().await? == known, "a question left a receipt");
    Ok("quote, counter and decline: no 402, no receipt, no money".to_owned())
}

pub(super) async fn a_brief_has_two_kilobytes(w: &World) -> Result<String> {
    let (fits, long) = ("w".repeat(BRIEF_LEN_MAX), "w".repeat(BRIEF_LEN_MAX + 1));
    ensure!(ask(&w.eve, &w.words, WORDS, &fits).await?.status == 200, "2048 bytes are too many");
    ask(&w.eve, &w.words, WORDS, &long).await?.refused(400, "brief_too_long")?;
    Ok(format!("{BRIEF_LEN_MAX} bytes are taken, one more is brief_too_long"))
}

pub(super) async fn a_quote_is_honoured_for_what_it_is(w: &World) -> Result<String> {
    let nine = || json!({"words": 9});
    let token = quoted(&w.hand, &w.words, "nine words").await?;
    for (who, params, token, code) in [
        (&w.hand, json!({"words": 10}), token.as_str(), "quote_params_changed"),
        (&w.hand, nine(), "qt_tampered", "quote_unknown"),
        (&w.eve, nine(), token.as_str(), "quote_of_another"),
    ] {
        let hire = taken_up(who, &w.words, params, token)?;
        who.ask(&w.words, &hire).await?.refused(409, code)?;
    }
    let before = w.free().await?;
    let hire = taken_up(&w.hand, &w.words, nine(), &token)?;
    let (_, answer) = w.hand.bought(&w.words, &hire).await?;
    ensure!(answer.status == 200, "{}", answer.body);
    ensure!(answer.body["protocol"] == "swarmwage/v0.4", "another version");
    cost(before, w.free().await?, 60_000)?;
    let late = quoted(&w.hand, &w.words, "shortly").await?;
    tokio::time::sleep(EXPIRY).await;
    let late = taken_up(&w.hand, &w.words, nine(), &late)?;
    w.hand.ask(&w.words, &late).await?.refused(409, "quote_expired")?;
    Ok("0.06 USDC as quoted; 409 for changed parameters, unknown, foreign and late quotes"
        .to_owned())
}

pub(super) async fn a_counter_has_at_most_three_options(w: &World) -> Result<String> {
    let question = || ClarifyOrder {
        capability: WORDS.to_owned(),
        brief: "alternatives".to_owned(),
        params: json!({}),
        max_price: None,
        max_latency_ms: None,
        agent: Some(w.words.id()),
        listing: None,
    };
    let said = w.buyer.clarify(question()).await?;
    let Clarified::Counter { counter, .. } = said.clarified else {
        anyhow::bail!("no counter: {:?}", said.clarified)
    };
    ensure!(counter.options.len() == 3, "{} options", counter.options.len());
    match w.buyer.clarify(question()).await {
        Err(error) if error.code() == "asked_too_soon" => {}
        other => anyhow::bail!("asked again at once: {other:?}"),
    }
    let option = counter.options.last().context("no option")?;
    let before = w.free().await?;
    let most = Amount::new(1_000_000).unwrap_or_default();
    let wanted = HireOrder {
        quote_token: Some(option.quote_token.clone()),
        accept_unverifiable: true,
        ..HireOrder::new(WORDS, json!({}), most)
    };
    let hired = w.buyer.hire(wanted).await?;
    ensure!(hired.result == json!({"done": {"words": 7}}), "{}", hired.result);
    cost(before, w.free().await?, 70_000)?;
    Ok("four were offered, three are told; the buyer does not ask again, and takes one".to_owned())
}

pub(super) async fn a_decline_has_no_token(w: &World) -> Result<String> {
    let answer = ask(&w.hand, &w.words, WORDS, "nothing").await?.body;
    ensure!(answer["outcome"] == "decline" && answer["reason"] == "not today", "{answer}");
    ensure!(!answer.to_string().contains("quote_token"), "a decline with a token");
    Ok("outcome, reason, and nothing to hire with".to_owned())
}

pub(super) async fn search_finds_those_that_can_be_asked(w: &World) -> Result<String> {
    let search = json!({"query": "conformance", "clarification_supported": true});
    let found = w.post("/v1/search", &search).await?.body;
    let agents = found["agents"].as_array().context("no agents")?;
    let all_say_so = agents.iter().all(|a| a["listing"]["clarification_supported"] == true);
    ensure!(agents.len() == 1 && all_say_so, "{found}");
    let standard = json!({"capability": MEAN, "clarification_supported": true});
    let none = w.post("/v1/search", &standard).await?.body;
    ensure!(none["agents"] == json!([]), "a standard capability can be asked");
    Ok("by clarification_supported: true; listings that say nothing cannot be asked".to_owned())
}

pub(super) async fn eleven_questions_a_day_are_too_many(w: &World) -> Result<String> {
    let pest = Hand::new(&Actor::new("pest")?, w.place()).await?;
    for round in 0..CLARIFY_PER_DAY {
        let answer = ask(&pest, &w.words, WORDS, "nothing").await?;
        ensure!(answer.status == 200, "question {round}: {}", answer.body);
    }
    ask(&pest, &w.words, WORDS, "nothing").await?.refused(429, "too_many_clarifications")?;
    ensure!(ask(&w.eve, &w.words, WORDS, "nothing").await?.status == 200, "others are stopped");
    Ok(format!("{CLARIFY_PER_DAY} that came to no hire, then 429, for this buyer alone"))
}
