//! The facilitator over HTTP.

use serde_json::json;
use skep_base::Amount;
use skep_wire::x402::{
    Authorization, EXACT, ExactPayload, FacilitatorRequest, LEDGER_CHAIN_ID, Payment, Resource,
    reason,
};

use crate::world::{Agent, Node, Request, config, now, usdc};

fn payment(rail: &skep_wire::x402::Rail, from: &Agent, to: &Agent, n: u8) -> FacilitatorRequest {
    let price = Amount::new(20_000).unwrap();
    let requirements = rail.requirements(price, to.wallet.address(), 60);
    let second = now().as_ms() / 1000;
    let sides = (from.wallet.address(), to.wallet.address());
    let window = (second - 60, second + 60);
    let authorization = Authorization::new(sides, price, window, &skep_base::Hash32([n; 32]));
    let signature = authorization.sign(&rail.domain(LEDGER_CHAIN_ID), &from.wallet).unwrap();
    let payload = ExactPayload { authorization, signature: signature.to_string() };
    let resource = Resource { url: "https://seller.example/hire".into(), ..Resource::default() };
    let payment = Payment::new(requirements.clone(), resource, payload);
    FacilitatorRequest {
        x402_version: 2,
        payment_payload: payment.raw,
        payment_requirements: serde_json::to_value(requirements).unwrap(),
        skep: None,
    }
}

#[tokio::test]
async fn a_facilitator_says_what_it_can_and_takes_payments() {
    let node = Node::start(config()).await;
    let (ann, ben) = (node.rich(1).await, node.register(2).await);
    let client = node.client(&ben);
    let supported = client.x402_supported().await.unwrap();
    let kinds: Vec<_> = supported.kinds.iter().map(|k| (k.x402_version, &*k.network)).collect();
    assert_eq!(kinds, [(2, "eip155:1397441872"), (1, "base-sepolia")]);
    assert!(supported.kinds.iter().all(|kind| kind.scheme == EXACT));
    let rail = client.x402_rail().await.unwrap();
    assert_eq!(rail, node.market.rail());

    let request = payment(&rail, &ann, &ben, 1);
    assert!(client.x402_verify(&request).await.unwrap().is_valid);
    let settled = client.x402_settle(&request).await.unwrap();
    assert!(settled.success, "{settled:?}");
    assert_eq!(client.x402_settle(&request).await.unwrap(), settled);
    let wallet = client.wallet().await.unwrap();
    assert_eq!(wallet.balances[0].available, usdc("0.02"));
    // A no is an answer of the facilitator's, not an error.
    let mut other = payment(&rail, &ann, &ben, 2);
    other.payment_requirements["payTo"] = json!(ann.wallet.address());
    let refused = client.x402_verify(&other).await.unwrap();
    assert_eq!(refused.invalid_reason.as_deref(), Some(reason::RECIPIENT));
}

#[tokio::test]
async fn what_is_no_request_to_a_facilitator_is_told_so() {
    let node = Node::start(config()).await;
    for (path, body, code) in [
        ("/x402/verify", "{}", "wrong_shape"),
        ("/x402/settle", "[]", "wrong_shape"),
        ("/x402/settle", "{", "malformed_json"),
        ("/v1/budgets", "{}", "wrong_shape"),
    ] {
        let answer = node.send(&Request::post(path, body)).await;
        assert_eq!((answer.status, answer.code()), (400, code.to_owned()), "{path} {body}");
    }
    let unknown = format!("/v1/budgets/{}", "0".repeat(64));
    assert_eq!(node.send(&Request::get(&unknown)).await.code(), "unknown_budget");
    assert_eq!(node.send(&Request::get("/v1/budgets/x")).await.code(), "malformed_id");
}
