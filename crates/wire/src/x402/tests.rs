use serde_json::json;
use skep_base::wallet::{WalletKey, eip712::Domain};

use super::*;

fn usd_coin(chain_id: u64) -> Domain {
    Domain {
        name: "USD Coin".to_owned(),
        version: "2".to_owned(),
        chain_id,
        verifying_contract: "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913".parse().unwrap(),
    }
}

/// A payment that `@x402/fetch` really made.
fn captured() -> serde_json::Value {
    let accepted = json!({
        "scheme": "exact", "network": "eip155:8453", "amount": "20000",
        "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
        "payTo": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "maxTimeoutSeconds": 60,
        "extra": { "name": "USD Coin", "version": "2" },
    });
    json!({
        "x402Version": 2,
        "payload": {
            "authorization": {
                "from": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
                "to": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
                "value": "20000", "validAfter": "0", "validBefore": "1794725487",
                "nonce": "0x35c7d47c583416c1e7c467fa2903042741ba67e417ece590d8d65bbdf68552b0",
            },
            "signature": concat!(
                "0x44acb3491a82c9415b55809022e979b076d5449a9831e9a1bfb23596f1c46ca0",
                "71947271821cf1c59bffca9dd61076cc2e7df7ac8bd4fbc7834a25a091d244e21c"
            ),
        },
        "resource": {
            "url": "http://127.0.0.1:18402/v2/hire", "description": "d",
            "mimeType": "application/json",
        },
        "accepted": accepted,
    })
}

#[test]
fn a_payment_of_the_npm_client_is_read_and_its_signature_holds() {
    let payment = Payment::read(captured()).unwrap();
    let authorization = &payment.payload.authorization;
    let signature = &payment.payload.signature;
    authorization.check(&usd_coin(8453), signature).unwrap();
    assert!(authorization.check(&usd_coin(84532), signature).is_err());
    let mut more = authorization.clone();
    more.value = "20001".to_owned();
    assert_eq!(more.check(&usd_coin(8453), signature), Err(PaymentError::WrongSigner));
}

#[test]
fn what_is_signed_here_reads_the_same_after_a_header() {
    let key = WalletKey::from_bytes([7; 32]).unwrap();
    let mut payment = Payment::read(captured()).unwrap();
    payment.payload.authorization.from = key.address();
    let signature = payment.payload.authorization.sign(&usd_coin(1), &key).unwrap();
    payment.payload.signature = signature.to_string();
    let accepted = payment.accepted.clone().unwrap();
    let made = Payment::new(accepted, payment.resource.clone().unwrap(), payment.payload);
    let back = Payment::read(from_header(&to_header(&made.raw)).unwrap()).unwrap();
    back.payload.authorization.check(&usd_coin(1), &back.payload.signature).unwrap();
    assert_eq!(back.payer(), key.address());
}

#[test]
fn what_is_no_payment_is_refused_by_name() {
    let unreadable = |value| Payment::read(value).unwrap_err();
    assert_eq!(unreadable(json!({ "x402Version": 3 })), PaymentError::Version(3));
    assert!(matches!(unreadable(json!({})), PaymentError::Malformed(_)));
    assert!(matches!(unreadable(json!({ "x402Version": 1 })), PaymentError::Malformed(_)));
    assert!(from_header::<serde_json::Value>("%%%").is_err());
}
