//! The JSON Schema of each VCAP message agrees with its type.

use jsonschema::Validator;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skep_wire::settle::{
    EscrowHold, EscrowSettlement, MESSAGES, NegotiationRequest, NegotiationResponse,
    ServiceDelivery, VerificationCallback, VerificationRequest, schema,
};

const DEAL: &str = "01921f3a-4b5c-7000-8000-0123456789ab";
const TIME: &str = "2026-11-15T09:00:00.000Z";
const AGENT: &str = "0x00000000000000000000000000000000000000aa";

fn deal() -> String {
    format!("{}00", &DEAL[..34])
}

fn verification() -> String {
    format!("{}01", &DEAL[..34])
}

fn hash() -> String {
    "0a".repeat(32)
}

fn signature() -> String {
    "A".repeat(86)
}

fn validator(message: &str) -> Validator {
    let schema: Value = serde_json::from_str(schema(message).unwrap()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["$id"], format!("https://skep.invalid/vcap/v1/schemas/{message}"));
    assert!(schema["title"].is_string() && schema["description"].is_string());
    let options =
        jsonschema::options().should_validate_formats(true).should_ignore_unknown_formats(false);
    options.build(&schema).unwrap()
}

/// The example is good for the schema and for the type, and so is what the type writes; each of
/// the changes makes it bad for the schema. A change is a pointer and what is put there, where
/// null takes the field away.
fn agrees<T: Serialize + DeserializeOwned>(example: Value, changes: &[(&str, Value)]) {
    let message = example["message_type"].as_str().unwrap().to_owned();
    let validator = validator(&message);
    let text = serde_json::to_string(&example).unwrap();
    if let Err(error) = validator.validate(&example) {
        panic!("{message} at {}: {error}", error.instance_path());
    }
    let read: T = serde_json::from_str(&text).unwrap();
    let written: Value = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    if let Err(error) = validator.validate(&written) {
        panic!("{message} as written, at {}: {error}", error.instance_path());
    }
    let mut richer = example.clone();
    richer["nobody_knows_this"] = json!({"a": [1]});
    assert!(validator.is_valid(&richer), "{message} with an unknown field");
    let common = [
        ("/vcap_version", json!("2.0")),
        ("/message_type", json!("nonsense")),
        ("/negotiation_id", json!("not a uuid")),
    ];
    let present = |(at, _): &&(&str, Value)| example.pointer(at).is_some();
    for (at, put) in common.iter().filter(present).chain(changes) {
        let (parent, field) = at.rsplit_once('/').unwrap();
        let mut broken = example.clone();
        let object = broken.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        if put.is_null() {
            object.remove(field).unwrap_or_else(|| panic!("{message} has no {at}"));
        } else {
            object.insert(field.to_owned(), put.clone());
        }
        assert!(!validator.is_valid(&broken), "{message} with {put} at {at}");
    }
}

fn hints() -> Value {
    json!({
        "type": "http", "url": "https://example.com/", "selector": "h1",
        "expected_content": "done", "fingerprint_delta": false, "custom": {"status": 200},
    })
}

#[test]
fn a_negotiation_request_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "negotiation_request",
        "requester": {"agent_id": "did:swarm:abc", "platform": "skep"},
        "provider": {"agent_id": AGENT},
        "request": {
            "service_type": "web", "description": "A page", "budget_amount": 12.5,
            "budget_currency": "USD", "budget_amount_minor": "1250",
            "requirements": {"language": "en"}, "deadline_utc": TIME,
        },
        "verification_hints": hints(),
        "metadata": {"note": 1, "skep": {"remainder_policy": "on_release", "timeout_s": 60,
            "verifier": AGENT, "verifier_price_minor": "5", "offer_expires_at": TIME}},
    });
    agrees::<NegotiationRequest>(
        example.clone(),
        &[
            ("/provider", Value::Null),
            ("/requester/agent_id", Value::Null),
            ("/request/description", json!(7)),
            ("/request/budget_amount", json!(-1)),
            ("/request/budget_amount", json!("12,50")),
            ("/request/budget_currency", json!("dollars")),
            ("/request/budget_amount_minor", json!(1250)),
            ("/request/deadline_utc", json!("tomorrow")),
            ("/verification_hints/fingerprint_delta", json!("yes")),
            ("/metadata/skep/remainder_policy", json!("never")),
            ("/metadata/skep/unknown", json!(1)),
        ],
    );
    let mut in_text = example;
    in_text["request"]["budget_amount"] = json!("12.50");
    agrees::<NegotiationRequest>(in_text, &[]);
}

#[test]
fn a_negotiation_response_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "negotiation_response",
        "negotiation_id": deal(), "response_status": "COUNTERED",
        "counter_terms": {"amount": 20, "amount_minor": "2000", "currency": "USD",
            "description": "More", "deadline_utc": TIME},
        "provider_verification_hints": hints(),
        "metadata": {"skep": {"dispute_window_s": 3600}},
    });
    agrees::<NegotiationResponse>(
        example,
        &[
            ("/negotiation_id", Value::Null),
            ("/response_status", json!("MAYBE")),
            ("/counter_terms/amount", json!(true)),
            ("/metadata/skep/dispute_window_s", json!(-1)),
        ],
    );
}

#[test]
fn an_escrow_hold_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "escrow_hold",
        "escrow_id": deal(), "negotiation_id": deal(),
        "source_wallet": AGENT, "destination_wallet": AGENT,
        "amount": 12.5, "amount_minor": "1250", "currency": "USD", "status": "HELD",
        "release_condition": format!("vcap:terms:sha256:{}", hash()), "held_at": TIME,
        "price_minor": "1250", "remainder_minor": "0", "remainder_policy": "reserve",
        "fee_reserved_minor": "63", "verifier_price_minor": "0", "subsidy_minor": "0",
    });
    agrees::<EscrowHold>(
        example,
        &[
            ("/escrow_id", json!(verification())),
            ("/amount", Value::Null),
            ("/amount_minor", json!("012")),
            ("/status", json!("LOST")),
            ("/release_condition", json!("when it pleases")),
            ("/held_at", json!("2026-11-15")),
            ("/price_minor", json!("-1")),
        ],
    );
}

#[test]
fn a_service_delivery_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "service_delivery",
        "negotiation_id": deal(), "escrow_id": deal(), "provider": {"agent_id": AGENT},
        "delivery": {"status": "success", "description": "Done", "artifacts": [
            {"type": "url", "uri": "https://example.com/"},
            {"type": "text", "content": "x", "hash": hash()},
        ]},
        "verification_hints": {"url": "https://example.com/", "auto_approve": false},
        "delivered_at": TIME,
    });
    agrees::<ServiceDelivery>(
        example,
        &[
            ("/delivery/status", json!("done")),
            ("/delivery/description", Value::Null),
            ("/delivery/artifacts", json!([{"uri": "x"}])),
            ("/delivery/artifacts", json!([{"type": "x", "hash": "ABC"}])),
            ("/delivery/artifacts", json!(vec![json!({"type": "x"}); 33])),
            ("/delivered_at", Value::Null),
        ],
    );
}

#[test]
fn a_verification_request_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "verification_request",
        "verification_id": verification(), "negotiation_id": deal(),
        "spec": {"type": "http", "url": "https://example.com/", "selector": null,
            "expected_content": null, "fingerprint_delta": true, "timeout_seconds": 1800,
            "baseline_fingerprint": hash(), "custom": {"status": 200}},
        "context": {"marketplace": "skep", "purpose": "escrow_verification",
            "escrow_ref": deal(), "negotiation_id": deal(), "verification_id": verification()},
        "terms_hash": hash(), "artifacts": [{"type": "text", "content": "x"}],
        "requested_at": TIME,
    });
    agrees::<VerificationRequest>(
        example,
        &[
            ("/verification_id", json!(deal())),
            ("/spec/timeout_seconds", json!("1800")),
            ("/spec/fingerprint_delta", Value::Null),
            ("/spec/selector", json!(7)),
            ("/context/purpose", json!("curiosity")),
            ("/terms_hash", json!("00")),
        ],
    );
}

fn action() -> Value {
    json!({
        "index": 0, "action": "NAVIGATE", "url": "https://example.com/", "success": true,
        "cost_cents": 0, "duration_ms": 12, "timestamp": TIME, "data_snippet": "x",
    })
}

#[test]
fn a_verification_callback_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "verification_callback",
        "verification_id": verification(), "passed": false, "proof_hash": hash(),
        "proof_signature": signature(), "extracted_content": "x", "failure_reason": "no",
        "action_log": [action()], "completed_at": TIME, "proof_bundle": {"format": "x"},
        "kid": "k1",
    });
    agrees::<VerificationCallback>(
        example,
        &[
            ("/passed", json!("true")),
            ("/proof_hash", json!(hash().to_uppercase())),
            ("/proof_signature", json!(format!("{}==", signature()))),
            ("/proof_signature", Value::Null),
            ("/action_log", json!([{"index": -1}])),
            ("/action_log", json!(vec![action(); 257])),
            ("/proof_bundle", json!("x")),
        ],
    );
}

#[test]
fn an_escrow_settlement_agrees() {
    let example = json!({
        "vcap_version": "1.0", "message_type": "escrow_settlement",
        "escrow_id": deal(), "negotiation_id": deal(), "status": "REFUNDED",
        "reason": "verification_failed", "verification_id": verification(),
        "proof_hash": hash(), "proof_signature": signature(),
        "evidence": {"proof_hash": hash(), "proof_signature": signature(),
            "extracted_content": "x", "action_log": [action()]},
        "platform_fee": {"rate": 0.05, "rate_type": "percentage", "amount": 0.63,
            "amount_minor": "63", "currency": "USD",
            "split": {"buyer_minor": "31", "seller_minor": "32"}},
        "settled_at": TIME, "requester": AGENT, "provider": AGENT, "currency": "USD",
        "released_minor": "0", "refunded_minor": "1250", "verifier_paid_minor": "0",
        "method": "proof", "terms_hash": hash(),
    });
    agrees::<EscrowSettlement>(
        example,
        &[
            ("/status", json!("HELD")),
            ("/reason", json!("whim")),
            ("/evidence/proof_hash", Value::Null),
            ("/platform_fee/split", json!({"buyer_minor": "1"})),
            ("/requester", json!("0xAA")),
            ("/released_minor", json!(0)),
            ("/terms_hash", Value::Null),
        ],
    );
}

#[test]
fn every_message_has_a_schema() {
    for message in MESSAGES {
        validator(message);
    }
    assert!(schema("nonsense").is_none());
}
