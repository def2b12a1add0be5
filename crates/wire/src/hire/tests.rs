use serde_json::{Value, json};
use skep_base::wallet::WalletKey;

use super::*;

/// The public test key that the vectors were made with.
fn key() -> WalletKey {
    let hex = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap();
    }
    WalletKey::from_bytes(bytes).unwrap()
}

const AGENT: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";

fn check<T: WalletSigned + serde::de::DeserializeOwned>(
    vector: Value,
    hash: &str,
    signature: &str,
) {
    let mut message: T = serde_json::from_value(vector).unwrap();
    assert_eq!(message.digest().unwrap().to_prefixed(), hash);
    message.sign(&key()).unwrap();
    assert_eq!(message.signature().unwrap().to_string(), signature);
    message.check_signature().unwrap();
}

#[test]
fn signatures_are_those_of_other_implementations() {
    check::<EndpointProof>(
        json!({ "agent_id": AGENT, "nonce": "11111111-2222-4333-8444-555555555555" }),
        "0x1f0b32a2a1aa62ddff596c46b46b59f1724aa5d58ffd9e3297af9fe9072da533",
        concat!(
            "0x265f4f0bb0014b912391eb012fcd14c6996eb0d9988774cbf85e4831f54f90dd",
            "7913344b577f6ec1c4a1fb2c0caa1bf749e3d2a18e3430f91cda61a5ea24e0881b"
        ),
    );
    check::<Listing>(
        json!({
            "agent_id": AGENT, "capability": "chart.generate.from-data", "chain": "base",
            "currency": "USDC", "endpoint": "https://seller.example.com",
            "first_call_free": true, "max_latency_ms": 8000, "price_usdc": "0.02",
        }),
        "0xc715471f584da32f99b878f947f25184a05fa5c2a59670a0ddb7eaa8a4d9b9af",
        concat!(
            "0x054240bd7efc029d438edbb4bc7e69f900e67c50a15d99d821fdfda2ab61597f",
            "57a74e23a484c9e5243ffd454b1973a7143389900c929e0cbf970c1122b55abf1b"
        ),
    );
    check::<Receipt>(
        json!({
            "agent_id": AGENT, "amount_usdc_atomic": "20000",
            "buyer": "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
            "capability": "chart.generate.from-data",
            "completed_at": "2026-05-16T11:00:00.000Z",
            "hire_id": "rcpt_00000000-0000-4000-8000-000000000001", "network": "base",
            "protocol_version": "swarmwage/v0.1",
            "tx_hash": "0xabababababababababababababababababababababababababababababababab",
            "verification": {
                "all_passed": true,
                "checks": { "dimensions_match": true, "valid_png_magic": true },
            },
        }),
        "0x662d433ae837d204060a505a8c8408370fef977de1e63ec70a37bea7e6be8313",
        concat!(
            "0xe4c61c315ffb5c34431aa57de24e802e813e8dd46901eef8beed424374f893f8",
            "30d3c2f4c53fa918231d064105c3816dd5b0996c26fed430d2a2a0b82dee50b81b"
        ),
    );
}

fn hire() -> HireRequest {
    let request = json!({
        "protocol": PROTOCOL, "buyer_id": AGENT, "capability": "custom.a.b",
        "params": { "temperature": 0.5 }, "nonce": "n-1", "x_of_tomorrow": [1],
    });
    serde_json::from_value(request).unwrap()
}

#[test]
fn a_hire_is_signed_with_its_parameters_hash_and_what_it_does_not_know() {
    let mut hire = hire();
    hire.sign(&key()).unwrap();
    let digest = hire.check_signature().unwrap();
    let (same, facts) = hire.envelope().unwrap().check().unwrap();
    assert_eq!((same, facts.buyer_id), (digest, hire.buyer_id));
    for change in [
        |hire: &mut HireRequest| hire.params = json!({ "temperature": 0.6 }),
        |hire: &mut HireRequest| hire.nonce = None,
        |hire: &mut HireRequest| hire.extra.clear(),
        |hire: &mut HireRequest| hire.max_price_usdc = Some("1".parse().unwrap()),
    ] {
        let mut other = hire.clone();
        change(&mut other);
        assert!(other.check_signature().is_err());
    }
}

#[test]
fn a_listing_signed_with_its_defaults_written_out_holds_too() {
    let whole = json!({
        "agent_id": AGENT, "capability": "chart.generate.from-data", "chain": "base",
        "currency": "USDC", "endpoint": "https://seller.example.com",
        "first_call_free": false, "max_latency_ms": 8000, "price_usdc": "0.02",
    });
    let mut listing: Listing = serde_json::from_value(whole).unwrap();
    listing.sign(&key()).unwrap();
    listing.first_call_free = None;
    listing.chain = None;
    listing.check().unwrap();
    listing.price_usdc = "0.03".parse().unwrap();
    assert!(listing.check().is_err());
}

#[test]
fn payment_modes_and_versions_are_read_as_the_spec_writes_them() {
    for text in ["direct", "platform_escrow:skep", "custom_escrow:https://e.example/x"] {
        assert_eq!(text.parse::<PaymentMode>().unwrap().to_string(), text);
    }
    for text in ["", "Direct", "platform_escrow:", "escrow:x"] {
        assert!(text.parse::<PaymentMode>().is_err(), "{text}");
    }
    assert!(check_protocol("swarmwage/v0.1", Clarifies::No).is_ok());
    assert!(check_protocol("swarmwage/v0.4", Clarifies::No).is_err());
    assert!(check_protocol("swarmwage/v0.4", Clarifies::Yes).is_ok());
    assert!(check_protocol("swarmwage/v1.0", Clarifies::Yes).is_err());
}

#[test]
fn a_budget_is_signed_by_an_operator_or_by_an_agent() {
    let operator = skep_base::ed25519::SecretKey::from_seed([3; 32]);
    let mut token: BudgetToken = serde_json::from_value(json!({
        "agent_id": AGENT, "max_amount_usdc": "5.00", "max_duration_seconds": 3600,
        "issued_at": 1_714_752_000, "issuer": operator.public().did(), "nonce": "b1",
    }))
    .unwrap();
    token.sign_as_operator(&operator).unwrap();
    token.check(Some(&operator.public())).unwrap();
    assert!(token.check(None).is_err());
    let mut more = token.clone();
    more.max_amount_usdc = "6.00".parse().unwrap();
    assert!(more.check(Some(&operator.public())).is_err());
    token.sign_as_agent(&key()).unwrap();
    token.check(None).unwrap();
    token.agent_id = AGENT.replace("79c8", "79c9").parse().unwrap();
    assert!(token.check(None).is_err());
}
