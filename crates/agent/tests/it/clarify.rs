use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skep_agent::seller::{Offer, ProgramWork};
use skep_wire::hire::{BRIEF_LEN_MAX, CLARIFY_PER_DAY, PROTOCOL_CLARIFY};

use crate::stage::{Answer, Buyer, CAPABILITY, Shop, World, rand, script};

/// Quotes three times the usual price for whatever has words in it, else counters or declines.
const SELLER: &str = r#"
asked=$(cat)
case "$asked" in
  *'"clarify"'*slow*) sleep 60 ;;
  *'"clarify"'*many*) printf '{"outcome":"counter","reason":"too much","options":[
    {"price_usdc":"0.05","params":{"words":5}},{"price_usdc":"0.06","params":{"words":6}},
    {"price_usdc":"0.07","params":{"words":7}},{"price_usdc":"0.08","params":{"words":8}}]}' ;;
  *'"clarify"'*words*) printf '{"outcome":"quote","price_usdc":"0.06","params":{"words":9},
    "valid_for_s":600,"notes":"public sources"}' ;;
  *'"clarify"'*) printf '{"outcome":"decline","reason":"not today"}' ;;
  *) printf '{"done":%s}' "$asked" ;;
esac"#;

fn offer(world: &World) -> Offer {
    let mut offer = world.offer();
    offer.work = Arc::new(ProgramWork::new(script(world.folder.path(), SELLER), vec![]));
    offer.clarification_supported = true;
    offer
}

async fn ask(shop: &Shop, buyer: &Buyer, brief: &str) -> Answer {
    let question = json!({
        "protocol": PROTOCOL_CLARIFY, "buyer_id": buyer.id(), "capability": CAPABILITY,
        "brief": brief, "params": {}, "nonce": format!("c-{}", rand()),
    });
    shop.post("/clarify", &question, None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quote_is_honoured_for_its_parameters_its_buyer_and_its_time() {
    let world = World::new().await;
    let shop = world.open(offer(&world)).await;
    let (buyer, eve) = (world.buyer(1), world.buyer(2));
    let answer = ask(&shop, &buyer, "nine words").await;
    let quote = answer.body["quote"].clone();
    assert_eq!((&answer.body["outcome"], &quote["price_usdc"]), (&json!("quote"), &json!("0.06")));
    let hire = |buyer: &Buyer, params: Value| {
        buyer.hire_with(params, |hire| {
            hire.protocol = PROTOCOL_CLARIFY.to_owned();
            hire.quote_token = quote["quote_token"].as_str().map(str::to_owned);
        })
    };
    let changed = shop.hire(&hire(&buyer, json!({ "words": 10 }))).await;
    assert_eq!((changed.status, changed.code()), (409, "quote_params_changed"));
    let stolen = shop.hire(&hire(&eve, json!({ "words": 9 }))).await;
    assert_eq!((stolen.status, stolen.code()), (409, "quote_of_another"));
    shop.close().await;
    // Quotes are remembered.
    let shop = world.open(offer(&world)).await;
    let done = shop.bought(&buyer, &hire(&buyer, json!({ "words": 9 }))).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.body["receipt"]["price_paid_usdc"], "0.060000");
    assert_eq!(done.body["protocol"], PROTOCOL_CLARIFY);
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - 60_000);
    world.clock.advance(Duration::from_secs(601));
    let late = shop.hire(&hire(&buyer, json!({ "words": 9 }))).await;
    assert_eq!((late.status, late.code()), (409, "quote_expired"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clarification_has_its_limits() {
    let world = World::new().await;
    let shop = world.open(offer(&world)).await;
    let (buyer, other) = (world.buyer(3), world.buyer(4));
    let many = ask(&shop, &buyer, "many").await;
    assert_eq!(many.body["counter"]["options"].as_array().unwrap().len(), 3);
    assert_eq!(ask(&shop, &buyer, "?").await.body["outcome"], "decline");
    let slow = ask(&shop, &buyer, "slow").await;
    assert_eq!(slow.body["outcome"], "decline", "nobody waits for a seller that thinks too long");
    let long = ask(&shop, &buyer, &"w".repeat(BRIEF_LEN_MAX + 1)).await;
    assert_eq!((long.status, long.code()), (400, "brief_too_long"));
    for round in 3..CLARIFY_PER_DAY {
        assert_eq!(ask(&shop, &buyer, "?").await.status, 200, "round {round}");
    }
    let enough = ask(&shop, &buyer, "?").await;
    assert_eq!((enough.status, enough.code()), (429, "too_many_clarifications"));
    shop.close().await;
    let shop = world.open(offer(&world)).await;
    assert_eq!(ask(&shop, &buyer, "?").await.status, 429, "a restart forgives nothing");
    assert_eq!(ask(&shop, &other, "?").await.status, 200);
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(ask(&shop, &buyer, "?").await.status, 200);
    shop.close().await;
    let mut plain = offer(&world);
    plain.clarification_supported = false;
    let shop = world.open(plain).await;
    assert_eq!(ask(&shop, &buyer, "?").await.code(), "clarification_not_supported");
}
