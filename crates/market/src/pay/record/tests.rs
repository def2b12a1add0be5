use serde_json::{Value, json};

use super::PaymentRecord;

/// A record as it was written before other wallets could pay.
fn old() -> Value {
    json!({
        "payer": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "pay_to": "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
        "amount": "100", "nonce": "11".repeat(32), "tx_hash": "0x22", "hire_hash": null,
        "escrow_id": null, "seller": null, "budget": null, "at": "2026-11-15T09:00:00.000Z",
    })
}

#[test]
fn of_an_older_record_the_payer_is_the_buyer() {
    let record: PaymentRecord = serde_json::from_value(old()).unwrap();
    assert_eq!(record.buyer(), record.payer);
    assert_eq!(serde_json::to_value(&record).unwrap(), old());
}

#[test]
fn the_buyer_is_kept_beside_the_wallet_that_paid() {
    let mut value = old();
    value["buyer"] = json!("0x90f79bf6eb2c4f870365e785982e1f101e93b906");
    let record: PaymentRecord = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(json!(record.buyer()), value["buyer"]);
    assert_eq!(serde_json::to_value(&record).unwrap(), value);
}
