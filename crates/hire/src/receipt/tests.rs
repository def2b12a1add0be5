use serde_json::json;

use super::*;

const HIRE: Hash32 = Hash32([7; 32]);

fn receipt() -> Receipt {
    serde_json::from_value(json!({
        "protocol_version": "swarmwage/v0.3", "hire_id": "h-1",
        "agent_id": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "buyer": "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
        "capability": "custom.a.b", "amount_usdc_atomic": "20000", "network": "skep",
        "tx_hash": format!("0x{}", "ab".repeat(32)),
        "completed_at": "2026-05-16T11:00:00.000Z",
        "verification": { "all_passed": true, "checks": {} }, "hire_hash": HIRE,
    }))
    .unwrap()
}

fn refused(change: impl Fn(&mut Receipt)) -> ReceiptRefusal {
    let mut changed = receipt();
    change(&mut changed);
    check_words(&changed).unwrap_err()
}

#[test]
fn a_receipt_is_judged_by_its_words() {
    use ReceiptRefusal as R;
    check_words(&receipt()).unwrap();
    assert!(matches!(refused(|r| r.protocol_version = "v9".into()), R::BadProtocol { .. }));
    assert!(matches!(refused(|r| r.hire_id = "a/b".into()), R::BadHireId { .. }));
    assert!(matches!(refused(|r| r.hire_id = "x".repeat(129)), R::BadHireId { .. }));
    assert!(matches!(refused(|r| r.tx_hash = "0xAB".into()), R::BadReceipt { .. }));
    assert_eq!(refused(|r| r.buyer = r.agent_id), R::SelfHire);
    assert_eq!(refused(|r| r.payee = Some(r.buyer)), R::SelfHire);
    let checks = |n: usize| (0..n).map(|n| (n.to_string(), true)).collect();
    assert!(matches!(refused(|r| r.verification.checks = checks(33)), R::BadReceipt { .. }));
    let free = |r: &mut Receipt| {
        r.amount_usdc_atomic = Amount::ZERO;
        r.tx_hash = NO_TX.to_owned();
    };
    let mut call = receipt();
    free(&mut call);
    check_words(&call).unwrap();
    assert_eq!(refused(|r| r.tx_hash = NO_TX.to_owned()), R::BadFreeCall);
    assert_eq!(refused(|r| r.amount_usdc_atomic = Amount::ZERO), R::BadFreeCall);
    let unsigned = |r: &mut Receipt| {
        free(r);
        r.hire_hash = None;
    };
    assert_eq!(refused(unsigned), R::BadFreeCall);
}

#[test]
fn ids_of_our_own_form_follow_from_the_hire() {
    let mut own = receipt();
    check_own_id(&own, None).unwrap();
    own.hire_id = receipt_id(&own.agent_id, &own.buyer, &HIRE).to_string();
    check_own_id(&own, None).unwrap();
    own.buyer = own.agent_id;
    assert!(check_own_id(&own, None).is_err());
    own.hire_hash = None;
    assert!(check_own_id(&own, None).is_err());
    let nonce = Hash32([9; 32]);
    own.hire_id = receipt_id(&own.agent_id, &own.buyer, &nonce).to_string();
    check_own_id(&own, Some(&nonce)).unwrap();
}

#[test]
fn a_failed_check_is_a_dispute() {
    let mut word: CounterSignature = serde_json::from_value(json!({
        "hire_id": "h-1", "receipt_hash": HIRE,
        "buyer": "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
        "verification": { "all_passed": false, "checks": {} }, "verifiable": true,
        "dispute": false, "signed_at": "2026-05-16T11:00:00.000Z",
    }))
    .unwrap();
    assert!(is_disputed(&word));
    assert_eq!(judgement(Some(&word)), Judgement::Failed);
    word.verifiable = false;
    assert!(!is_disputed(&word));
    assert_eq!(judgement(Some(&word)), Judgement::NotVerifiable);
    word.verifiable = true;
    word.verification.all_passed = true;
    assert!(!is_disputed(&word));
    word.dispute = true;
    assert!(is_disputed(&word));
    assert_eq!(judgement(None), Judgement::NotVerifiedByBuyer);
}

#[test]
fn a_receipt_comes_in_time_for_its_payment() {
    let receipt = receipt();
    let after = |hours: u64| receipt.completed_at.plus(Duration::from_secs(hours * 3600));
    let fresh = |hours: u64, paid: Option<Timestamp>| check_fresh(&receipt, after(hours), paid);
    fresh(24, None).unwrap();
    assert!(fresh(25, None).is_err());
    fresh(25, Some(after(0))).unwrap();
    fresh(30 * 24, Some(after(0))).unwrap();
    assert!(fresh(30 * 24 + 1, Some(after(0))).is_err());
    assert!(fresh(26, Some(after(25))).is_err(), "work is not paid a day later");
}
