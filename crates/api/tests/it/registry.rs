//! Listings, search and receipts over HTTP, through the SDK and by hand.

use http::Method;
use serde_json::{Value, json};
use skep_base::{Hash32, hash::json_sha256};
use skep_wire::hire::{
    CounterSignature, HirePayload, Listing, ListingRemoval, NO_TX, Receipt, Search, WalletSigned,
    receipt_id,
};

use crate::world::{Agent, Node, Request, config, now};

fn listing(of: &Agent, more: Value) -> Listing {
    let mut listing = json!({
        "agent_id": of.wallet.address(), "capability": "custom.test.echo", "price_usdc": "0.02",
        "max_latency_ms": 1000, "endpoint": "http://127.0.0.1:9", "issued_at": now(),
    });
    for (field, value) in more.as_object().unwrap() {
        listing[field] = value.clone();
    }
    let mut listing: Listing = serde_json::from_value(listing).unwrap();
    listing.sign(&of.wallet).unwrap();
    listing
}

fn post<T: serde::Serialize>(path: &str, message: &T) -> Request {
    Request::post(path, &serde_json::to_string(message).unwrap())
}

#[tokio::test]
async fn a_listing_is_published_found_and_removed() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let client = node.client(&ada);
    let good = listing(&ada, json!({ "description": "says it again" }));
    let first = node.send(&post("/v1/listings", &good)).await;
    assert_eq!((first.status, first.json()["changed"].clone()), (201, json!(true)));
    let again = client.publish_listing(&good).await.unwrap();
    assert!(!again.changed);
    let mut forged = listing(&ada, json!({ "price_usdc": "9" }));
    forged.sign(&bob.wallet).unwrap();
    let no = node.send(&post("/v1/listings", &forged)).await;
    assert_eq!((no.status, no.code().as_str()), (401, "bad_wallet_signature"));
    let floats = json!({ "weight": 0.5 });
    let mut unsignable = serde_json::to_value(&good).unwrap();
    unsignable["weight"] = floats["weight"].clone();
    let no = node.send(&post("/v1/listings", &unsignable)).await;
    assert_eq!(no.code(), "bad_wallet_signature");
    let mut long = serde_json::to_value(&good).unwrap();
    long["note"] = json!("x".repeat(64 * 1024));
    assert_eq!(node.send(&post("/v1/listings", &long)).await.code(), "body_too_large");

    let query = Search { query: Some("again".to_owned()), ..Search::default() };
    let answer = client.search(&query).await.unwrap();
    assert_eq!(answer.agents.len(), 1);
    answer.agents[0].listing.check().unwrap();
    assert_eq!(client.listing(good.id()).await.unwrap().listing, good);
    assert_eq!(client.listings_of(&ada.wallet.address()).await.unwrap().items.len(), 1);
    let paid = Request::get(&format!("/v1/listings?recipient={}", ada.wallet.address()));
    assert_eq!(node.send(&paid).await.json()["agent_id"], json!(ada.wallet.address()));
    let nobody = Request::get(&format!("/v1/listings?recipient={}", bob.wallet.address()));
    assert_eq!(node.send(&nobody).await.code(), "nobody_paid_there");
    assert_eq!(node.send(&post("/v1/search", &json!({ "limit": 999 }))).await.code(), "bad_search");

    let mut removal = ListingRemoval {
        agent_id: ada.wallet.address(),
        remove_listing: good.id(),
        issued_at: now(),
        signature: None,
    };
    removal.sign(&ada.wallet).unwrap();
    client.remove_listing(&removal).await.unwrap();
    let gone = Request::get(&format!("/v1/listings/{}", good.id()));
    assert_eq!(node.send(&gone).await.code(), "unknown_listing");
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    client.publish_listing(&listing(&ada, json!({}))).await.unwrap();
    let delete = Request::new(Method::DELETE, &format!("/v1/listings/{}", good.id()), b"");
    assert_eq!(node.send(&delete.clone().signed(&node, &bob)).await.code(), "unknown_listing");
    assert_eq!(node.send(&delete.signed(&node, &ada)).await.status, 200);
    assert_eq!(node.send(&gone).await.status, 404);
}

#[tokio::test]
async fn who_publishes_too_often_is_told_when_to_come_back() {
    let node = Node::start(config()).await;
    let ada = node.register(1).await;
    for n in 0..11 {
        let next = listing(&ada, json!({ "capability": format!("custom.test.n{n}") }));
        let answer = node.send(&post("/v1/listings", &next)).await;
        if n < 10 {
            assert_eq!(answer.status, 201, "{n}");
            continue;
        }
        assert_eq!((answer.status, answer.code().as_str()), (429, "too_many_listings"));
        let wait: u64 = answer.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
}

#[tokio::test]
async fn tokens_are_repeated_only_to_whom_they_belong() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.register(1).await, node.register(2).await);
    let (seller, buyer) = (node.client(&ada), node.client(&bob));
    let free = json!({ "first_call_free": true, "audit_participating": true });
    seller.publish_listing(&listing(&ada, free)).await.unwrap();
    let hire = Hash32([7; 32]);
    let (a, b) = (ada.wallet.address(), bob.wallet.address());
    let payload = HirePayload { params: json!({}), result: json!("x".repeat(100 * 1024)) };
    let mut receipt: Receipt = serde_json::from_value(json!({
        "protocol_version": "swarmwage/v0.3", "hire_id": receipt_id(&a, &b, &hire),
        "agent_id": a, "buyer": b, "capability": "custom.test.echo", "amount_usdc_atomic": "0",
        "network": "skep", "tx_hash": NO_TX, "completed_at": now(), "hire_hash": hire,
        "verification": { "all_passed": true, "checks": {} },
        "params_hash": json_sha256(&payload.params).unwrap(),
        "result_hash": json_sha256(&payload.result).unwrap(),
    }))
    .unwrap();
    receipt.sign(&ada.wallet).unwrap();
    let taken = seller.submit_receipt(&receipt).await.unwrap();
    assert_eq!(seller.submit_receipt(&receipt).await.unwrap(), taken);
    for asked in
        [post("/v1/receipts", &receipt), post("/v1/receipts", &receipt).signed(&node, &bob)]
    {
        let answer = node.send(&asked).await;
        assert_eq!((answer.status, answer.json()["rating_token"].clone()), (200, json!("")));
    }
    let mut word: CounterSignature = serde_json::from_value(json!({
        "hire_id": receipt.hire_id, "receipt_hash": receipt.hash().unwrap(), "buyer": b,
        "verification": { "all_passed": true, "checks": {} }, "verifiable": true,
        "dispute": false, "signed_at": now(),
    }))
    .unwrap();
    word.sign(&bob.wallet).unwrap();
    let signed = buyer.countersign(&word).await.unwrap();
    assert_eq!(buyer.countersign(&word).await.unwrap(), signed);
    let path = format!("/v1/receipts/{}/countersign", receipt.hire_id);
    assert_eq!(node.send(&post(&path, &word)).await.json()["rating_token"], "");
    let elsewhere = node.send(&post("/v1/receipts/another/countersign", &word)).await;
    assert_eq!(elsewhere.code(), "wrong_shape");
    let kept = seller.submit_payload(&receipt.hire_id, &payload).await.unwrap();
    assert_eq!(kept["ok"], json!(true));
    let shown = buyer.receipt(&receipt.hire_id).await.unwrap();
    assert_eq!(shown.findings.buyer, Some(word));
    assert_eq!(buyer.receipts_of(&b, None).await.unwrap().items, [shown]);
    assert_eq!(node.send(&Request::get("/v1/receipts/none")).await.code(), "unknown_receipt");
}

#[tokio::test]
async fn capabilities_have_schemas() {
    let node = Node::start(config()).await;
    let all = node.send(&Request::get("/v1/capabilities")).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 40);
    let path = "/v1/capabilities/text.translate.en.it.fluent/schema";
    let schema = node.send(&Request::get(path)).await.json();
    assert_eq!(schema["version"], "v1");
    assert!(schema["input"]["properties"]["text"].is_object(), "{schema}");
    let old = node.send(&Request::get(&format!("{path}?version=v0"))).await.json();
    assert_eq!(old["version"], "v0");
    for path in ["/v1/capabilities/custom.a.b/schema", &format!("{path}?version=v7")] {
        assert_eq!(node.send(&Request::get(path)).await.code(), "unknown_capability");
    }
}
