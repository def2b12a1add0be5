//! The facilitator over HTTP.

use serde_json::json;
use skep_base::{AgentId, Amount, Hash32, id::DealId};
use skep_wire::{
    hire::{
        EscrowOrder, EscrowTerms, EscrowVerb, HireRequest, PROTOCOL, WINDOW_SYNC_MS, WalletSigned,
    },
    settle::EscrowStatus,
    x402::{
        Authorization, EXACT, ExactPayload, FacilitatorRequest, LEDGER_CHAIN_ID, Payment, Rail,
        Resource, SkepTerms, reason,
    },
};

use crate::world::{Agent, Node, Request, config, now, usdc};

fn payment(rail: &Rail, from: &Agent, to: &Agent, n: u8) -> FacilitatorRequest {
    signed_payment(rail, from, to.wallet.address(), &Hash32([n; 32]))
}

fn signed_payment(rail: &Rail, from: &Agent, to: AgentId, nonce: &Hash32) -> FacilitatorRequest {
    let price = Amount::new(20_000).unwrap();
    let requirements = rail.requirements(price, to, 60);
    let second = now().as_ms() / 1000;
    let window = (second - 60, second + 60);
    let authorization = Authorization::new((from.wallet.address(), to), price, window, nonce);
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

/// Terms for 20000 from one to the other, and the payment into escrow.
fn into_escrow(rail: &Rail, from: &Agent, to: &Agent) -> FacilitatorRequest {
    let mut hire: HireRequest = serde_json::from_value(json!({
        "protocol": PROTOCOL, "buyer_id": from.wallet.address(), "capability": "custom.test.echo",
        "params": {}, "seller_id": to.wallet.address(), "nonce": "n-1",
    }))
    .unwrap();
    hire.sign(&from.wallet).unwrap();
    let terms = EscrowTerms {
        hire_hash: hire.digest().unwrap(),
        buyer: from.wallet.address(),
        seller: to.wallet.address(),
        payee: to.wallet.address(),
        amount: Amount::new(20_000).unwrap(),
        capability: hire.capability.clone(),
        verification_version: None,
        verification_window_ms: WINDOW_SYNC_MS,
        deliver_within_ms: 60_000,
    };
    let nonce = terms.payment_nonce().unwrap();
    let request = signed_payment(rail, from, rail.escrow_address, &nonce);
    let skep =
        SkepTerms { hire: Some(hire.envelope().unwrap()), escrow: Some(terms), receipt: None };
    FacilitatorRequest { skep: Some(skep), ..request }
}

#[tokio::test]
async fn money_in_escrow_is_seen_and_ordered() {
    let node = Node::start(config()).await;
    let (ann, ben) = (node.rich(1).await, node.register(2).await);
    let client = node.client(&ann);
    let settled = client.x402_settle(&into_escrow(&node.market.rail(), &ann, &ben)).await.unwrap();
    let id: DealId = settled.escrow_id.unwrap().parse().unwrap();
    let escrow = client.hire_escrow(id).await.unwrap();
    assert_eq!((escrow.status, &escrow.tx_hash), (EscrowStatus::Held, &settled.transaction));
    let order = |verb, by: &Agent| {
        let mut order: EscrowOrder = serde_json::from_value(json!({
            "escrow_id": id, "verb": verb, "by": by.wallet.address(), "issued_at": now(),
        }))
        .unwrap();
        order.sign(&by.wallet).unwrap();
        order
    };
    let send = async |path: &str, order: &EscrowOrder| {
        let body = serde_json::to_string(order).unwrap();
        node.send(&Request::post(&format!("/v1/escrows/{id}/{path}"), &body)).await
    };
    let early = node.send(&Request::post(&format!("/v1/escrows/{id}/timeout-refund"), "{}")).await;
    assert_eq!((early.status, early.code()), (409, "refund_too_early".to_owned()));
    let mut forged = order(EscrowVerb::Refund, &ann);
    forged.by = ben.wallet.address();
    for (path, order, code) in [
        ("release", order(EscrowVerb::Release, &ann), "not_delivered"),
        ("release", order(EscrowVerb::Release, &ben), "not_your_escrow"),
        ("release", order(EscrowVerb::Refund, &ben), "other_escrow_order"),
        ("refund", forged, "bad_escrow_signature"),
    ] {
        assert_eq!(send(path, &order).await.code(), code);
    }
    let back = client.order_escrow(&order(EscrowVerb::Refund, &ben)).await.unwrap();
    assert_eq!((back.status, back.reason.as_deref()), (EscrowStatus::Refunded, Some("seller")));
    assert_eq!(client.timeout_refund(id).await.unwrap(), back);
    assert_eq!(client.wallet().await.unwrap().balances[0].available, usdc("100"));
    let over = send("release", &order(EscrowVerb::Release, &ann)).await;
    assert_eq!((over.status, over.code()), (409, "escrow_over".to_owned()));
    let unknown = "/v1/escrows/01970000-0000-7000-8000-000000000000";
    assert_eq!(node.send(&Request::get(unknown)).await.code(), "unknown_escrow");
}
