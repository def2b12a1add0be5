//! x402's extensions at a seller's door: what a 402 tells, and payments that have names.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::hash::keccak256;
use skep_wire::x402::{
    BAZAAR, PAYMENT_IDENTIFIER, PAYMENT_RESPONSE, PAYMENT_SIGNATURE, PaymentRequired,
    SettleResponse, from_header, to_header,
};
use tokio::task::JoinSet;

use crate::stage::{Buyer, CAPABILITY, PRICE, World, escrow, rand, seller_wallet};

const NAME: &str = "pay_7d5d747be160e280504c099d984bcfe0";

/// A payment with a nonce of its own and this name, as the header has it.
fn named(buyer: &Buyer, required: &PaymentRequired, name: &str) -> (&'static str, String) {
    let nonce = keccak256(&rand().to_be_bytes());
    let mut raw = buyer.payment_with(&required.accepts[0], required, &nonce, |_| {}).raw;
    // What clients do: they send back what they were told, with the name in it.
    raw["extensions"] = json!(required.extensions);
    raw["extensions"][PAYMENT_IDENTIFIER]["info"]["id"] = json!(name);
    (PAYMENT_SIGNATURE, to_header(&raw))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_402_tells_how_the_call_looks() {
    let world = World::new().await;
    let mut offer = world.offer();
    offer.capability = "compute.statistics.mean".to_owned();
    let mut custom = world.offer();
    custom.schema = Some(json!({
        "input": {
            "type": "object", "required": ["words"],
            "properties": { "words": { "type": "integer", "minimum": 12 } },
        },
        "output": { "type": "object" },
    }));
    let shop = world.open_with(vec![offer, custom], |_| {}).await;
    for (capability, params) in
        [("compute.statistics.mean", json!({ "data": [1] })), (CAPABILITY, json!({ "words": 12 }))]
    {
        let body = json!({ "capability": capability, "params": params });
        let asked = shop.post("/hire", &body, None).await;
        assert_eq!(asked.status, 402, "{asked:?}");
        let told = asked.required().extensions;
        assert_eq!(told[PAYMENT_IDENTIFIER]["info"], json!({ "required": false }));
        let input = &told[BAZAAR]["info"]["input"];
        assert_eq!((&input["method"], &input["bodyType"]), (&json!("POST"), &json!("json")));
        // What it shows is what it takes.
        assert_eq!(input["body"], body);
        let schema = &told[BAZAAR]["schema"]["properties"]["input"]["properties"]["body"];
        let required = &schema["properties"]["params"]["required"];
        let names: Vec<&String> = params.as_object().unwrap().keys().collect();
        assert_eq!(*required, json!(names));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_with_a_name_buys_once_whatever_its_nonce() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let (ann, ben) = (world.buyer(1), world.buyer(2));
    let body = json!({ "capability": CAPABILITY, "params": { "a": 1 } });
    let required = shop.post("/hire", &body, None).await.required();
    let bad = named(&ann, &required, "too short");
    let refused = shop.post("/hire", &body, Some(bad)).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_payload"));

    let payment = named(&ann, &required, NAME);
    let first = shop.post("/hire", &body, Some(payment.clone())).await;
    assert_eq!(first.status, 200, "{first:?}");
    let fresh = shop.post("/hire", &body, Some(named(&ann, &required, NAME))).await;
    assert_eq!((fresh.status, &fresh.body), (200, &first.body));
    let told = |answer: &crate::stage::Answer| -> SettleResponse {
        from_header(answer.headers[PAYMENT_RESPONSE].to_str().unwrap()).unwrap()
    };
    assert_eq!(told(&fresh), told(&first), "it hears of the payment that was taken");
    let other = json!({ "capability": CAPABILITY, "params": { "a": 2 } });
    let reused = shop.post("/hire", &other, Some(named(&ann, &required, NAME))).await;
    assert_eq!((reused.status, reused.code()), (409, "payment_identifier_reused"));
    assert_eq!((world.runs(), world.bank.balance(ann.id())), (1, 1_000_000 - PRICE));
    // A name is its payer's own.
    let bens = shop.post("/hire", &other, Some(named(&ben, &required, NAME))).await;
    assert_eq!((bens.status, world.runs()), (200, 2), "{bens:?}");
    assert_eq!(world.bank.balance(ben.id()), 1_000_000 - PRICE);

    // The seller is killed, and both payments have ended meanwhile.
    shop.crash().await;
    let shop = world.open(world.offer()).await;
    let fresh = shop.post("/hire", &body, Some(named(&ann, &required, NAME))).await;
    assert_eq!((fresh.status, &fresh.body), (200, &first.body));
    let reused = shop.post("/hire", &other, Some(named(&ann, &required, NAME))).await;
    assert_eq!((reused.status, reused.code()), (409, "payment_identifier_reused"));
    world.clock.advance(Duration::from_secs(3600));
    let late = shop.post("/hire", &body, Some(payment.clone())).await;
    assert_eq!((late.status, &late.body), (200, &first.body), "the same payment, long after");
    assert_eq!((world.runs(), world.bank.balance(ann.id())), (2, 1_000_000 - PRICE));
    assert_eq!(world.bank.balance(seller_wallet().address()), 2 * PRICE);
    // It buys nothing else, either.
    let end = shop.post("/hire", &other, Some(payment)).await;
    assert_eq!((end.status, end.code()), (409, "nonce_reused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_payments_with_one_name_at_once_are_one_hire() {
    let world = World::new().await;
    let shop = std::sync::Arc::new(world.open(world.offer()).await);
    let ann = world.buyer(3);
    let body = json!({ "capability": CAPABILITY, "params": { "a": 1 } });
    let required = shop.post("/hire", &body, None).await.required();
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let (shop, body, header) = (shop.clone(), body.clone(), named(&ann, &required, NAME));
        asking.spawn(async move { shop.post("/hire", &body, Some(header)).await });
    }
    let answers = asking.join_all().await;
    let first: &Value = &answers[0].body;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, first), "{answer:?}");
    }
    assert_eq!((world.runs(), world.bank.balance(ann.id())), (1, 1_000_000 - PRICE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signed_hire_in_escrow_is_known_by_its_payments_name_too() {
    let world = World::new().await;
    let mut offer = world.offer();
    offer.modes = vec![escrow()];
    let shop = world.open(offer).await;
    let ann = world.buyer(4);
    let pay = async |params: Value| {
        let hire = ann.hire(params);
        let asked = shop.hire(&hire).await;
        let mut payment = ann.payment(&hire, &asked);
        payment.raw["extensions"] = json!({ PAYMENT_IDENTIFIER: { "info": { "id": NAME } } });
        shop.pay(&hire, &payment).await
    };
    let first = pay(json!({ "a": 1 })).await;
    assert_eq!(first.status, 200, "{first:?}");
    let again = pay(json!({ "a": 1 })).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = pay(json!({ "a": 2 })).await;
    assert_eq!((other.status, other.code()), (409, "payment_identifier_reused"));
    assert_eq!((world.runs(), world.bank.balance(ann.id())), (1, 1_000_000 - PRICE));
}
