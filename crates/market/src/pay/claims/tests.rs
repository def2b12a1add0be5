use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Timestamp, wallet::WalletKey};
use skep_wire::{
    hire::{HireRequest, PROTOCOL, WalletSigned},
    x402::{Authorization, ExactPayload, LEDGER_CHAIN_ID, Payment, Resource},
};

use super::*;

const SHOP: AgentId = AgentId::from_bytes([0x55; 20]);

fn rail(n: u8) -> Rail {
    Rail {
        asset: AgentId::from_bytes([n; 20]),
        name: "Ledger".to_owned(),
        version: "1".to_owned(),
        escrow_address: AgentId::from_bytes([0xee; 20]),
        escrow_provider: "skep".to_owned(),
    }
}

/// A payment for a signed hire, as a seller shows it.
fn request(rail: &Rail) -> FacilitatorRequest {
    let wallet = WalletKey::from_bytes([7; 32]).unwrap();
    let amount = Amount::new(10).unwrap();
    let mut hire = HireRequest {
        protocol: PROTOCOL.to_owned(),
        buyer_id: wallet.address(),
        capability: "custom.test.echo".to_owned(),
        params: json!({ "say": "hello" }),
        max_price_usdc: None,
        max_latency_ms: None,
        preferred_payment_mode: None,
        budget_token: None,
        payer: None,
        callback_url: None,
        quote_token: None,
        seller_id: Some(SHOP),
        nonce: Some("00112233445566778899aabbccddeeff".to_owned()),
        issued_at: Some(Timestamp::from_ms(1_800_000_000_000)),
        signature: None,
        extra: BTreeMap::new(),
    };
    hire.sign(&wallet).unwrap();
    let nonce = hire.payment_nonce().unwrap();
    let sides = (wallet.address(), SHOP);
    let authorization = Authorization::new(sides, amount, (0, 1_800_000_600), &nonce);
    let signature = authorization.sign(&rail.domain(LEDGER_CHAIN_ID), &wallet).unwrap();
    let payload = ExactPayload { authorization, signature: signature.to_string() };
    let requirements = rail.requirements(amount, SHOP, 600);
    let url = "https://seller.example/hire".to_owned();
    let resource = Resource { url, ..Resource::default() };
    FacilitatorRequest {
        x402_version: 2,
        payment_payload: Payment::new(requirements.clone(), resource, payload).raw,
        payment_requirements: serde_json::to_value(requirements).unwrap(),
        skep: Some(SkepTerms { hire: hire.envelope().ok(), ..SkepTerms::default() }),
    }
}

#[test]
fn every_changed_byte_makes_another_claim() {
    let (claims, rail) = (Claims::default(), rail(1));
    let good = request(&rail);
    let text = serde_json::to_vec(&good).unwrap();
    let (mut refused, mut others) = (0, 0);
    for place in 0..text.len() {
        let mut changed = text.clone();
        changed[place] ^= 1;
        let Ok(changed) = serde_json::from_slice::<FacilitatorRequest>(&changed) else { continue };
        let known = claims.read(&rail, &good).unwrap();
        assert!(Arc::ptr_eq(&known, &claims.read(&rail, &good).unwrap()), "it is remembered");
        if changed == good {
            continue;
        }
        match claims.read(&rail, &changed) {
            Err(_) => refused += 1,
            Ok(other) => {
                assert!(!Arc::ptr_eq(&known, &other), "byte {place} made no difference");
                others += 1;
            }
        }
    }
    // What nobody signs, such as the description, may be otherwise; the rest may not.
    assert!(refused > 500 && others > 10, "{refused} {others}");
}

#[test]
fn a_claim_is_for_one_ledger_and_whatever_comes_along() {
    let (claims, first) = (Claims::default(), rail(1));
    let good = request(&first);
    let known = claims.read(&first, &good).unwrap();
    assert!(claims.read(&rail(2), &good).is_err(), "it was signed for another ledger");
    let receipt: Value = json!({
        "protocol_version": PROTOCOL, "hire_id": "x", "agent_id": SHOP, "buyer": SHOP,
        "capability": "custom.test.echo", "amount_usdc_atomic": "10", "network": "eip155:1",
        "tx_hash": "0x0", "completed_at": "2027-01-15T08:00:00Z",
        "verification": { "all_passed": true, "checks": {} },
    });
    let mut with = good.clone();
    with.skep.as_mut().unwrap().receipt = Some(serde_json::from_value(receipt).unwrap());
    assert!(Arc::ptr_eq(&known, &claims.read(&first, &with).unwrap()));
}

#[test]
fn long_requests_and_bad_ones_are_not_remembered() {
    let (claims, rail) = (Claims::default(), rail(1));
    let mut long = request(&rail);
    long.payment_payload["resource"]["description"] = json!("x".repeat(REQUEST_LEN_MAX));
    let twice = [(); 2].map(|()| claims.read(&rail, &long).unwrap());
    assert!(!Arc::ptr_eq(&twice[0], &twice[1]));
    let mut bad = request(&rail);
    bad.payment_payload["payload"]["authorization"]["value"] = json!("11");
    for _ in 0..2 {
        assert!(claims.read(&rail, &bad).is_err());
    }
}
