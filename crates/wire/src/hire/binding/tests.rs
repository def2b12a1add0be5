use serde_json::{Value, json};
use skep_base::{AgentId, Timestamp, wallet::WalletKey};

use crate::hire::*;

const START_S: i64 = 1_714_752_000;

fn key(n: u8) -> WalletKey {
    WalletKey::from_bytes([n; 32]).unwrap()
}

fn binding() -> WalletBinding {
    WalletBinding::signed_by(&key(2), key(1).address(), (START_S, START_S + 3600)).unwrap()
}

/// What a node reads of a hire of agent 1 that names this binding.
fn facts(binding: Option<&WalletBinding>) -> HireFacts {
    let mut request = json!({
        "protocol": PROTOCOL, "buyer_id": key(1).address(), "capability": "custom.a.b",
        "params": {}, "nonce": "n-1",
    });
    if let Some(binding) = binding {
        request["payer"] = json!(binding);
    }
    let mut hire: HireRequest = serde_json::from_value(request).unwrap();
    hire.sign(&key(1)).unwrap();
    let (_, facts) = hire.envelope().unwrap().check().unwrap();
    assert_eq!(facts.payer(), hire.payer());
    facts
}

fn at(s: i64, ms: i64) -> Timestamp {
    Timestamp::from_ms(s * 1000 + ms)
}

#[test]
fn the_buyer_pays_or_the_wallet_that_it_names() {
    assert_eq!(facts(None).payer(), Ok(key(1).address()));
    assert_eq!(facts(None).check_payer_time(Timestamp::MAX), Ok(()));
    let bound = facts(Some(&binding()));
    assert_eq!(bound.payer(), Ok(key(2).address()));
    assert_eq!(bound.check_payer_time(at(START_S, 0)), Ok(()));
}

#[test]
fn the_buyers_signature_covers_the_binding() {
    let mut hire: HireRequest = serde_json::from_value(json!({
        "protocol": PROTOCOL, "buyer_id": key(1).address(), "capability": "custom.a.b",
        "params": {}, "payer": binding(),
    }))
    .unwrap();
    hire.sign(&key(1)).unwrap();
    hire.check_signature().unwrap();
    let span = (START_S, START_S + 3600);
    let other = WalletBinding::signed_by(&key(3), key(1).address(), span).unwrap();
    for payer in [None, Some(other)] {
        let changed = HireRequest { payer, ..hire.clone() };
        assert!(changed.check_signature().is_err());
    }
}

#[test]
fn every_field_is_signed() {
    type Change = (&'static str, fn(&mut WalletBinding));
    let changes: [Change; 5] = [
        ("OtherAgent", |b| b.agent_id = key(3).address()),
        ("Signature", |b| b.wallet = key(3).address()),
        ("Signature", |b| b.issued_at += 1),
        ("Signature", |b| b.expires_at += 1),
        ("Signature", |b| b.signature = None),
    ];
    for (word, change) in changes {
        let mut other = binding();
        change(&mut other);
        let refused = facts(Some(&other)).payer().unwrap_err();
        assert!(format!("{refused:?}").starts_with(word), "{refused:?}");
    }
    // The agent's name is signed too, not only compared.
    let mut other = binding();
    other.agent_id = key(3).address();
    assert!(other.check_signature().is_err());
    // A signature of the same words under another type, or of no type, is none.
    let mut untyped = binding();
    let mut statement: Value = json!(untyped);
    statement.as_object_mut().unwrap().remove("signature");
    for kind in [None, Some("skep/budget-token/v1"), Some("skep/wallet-binding/v2")] {
        let mut said = statement.clone();
        if let Some(kind) = kind {
            said["type"] = json!(kind);
        }
        let hash = skep_base::wallet::object_hash(&said).unwrap();
        untyped.signature = Some(key(2).sign_message(hash.as_bytes()));
        assert!(untyped.check_signature().is_err(), "{kind:?}");
    }
}

#[test]
fn the_wallet_itself_signs_for_this_buyer() {
    // The buyer cannot sign for the wallet, nor may anybody else.
    for signer in [1, 3] {
        let mut forged = binding();
        forged.sign(&key(signer)).unwrap();
        let refused = facts(Some(&forged)).payer();
        let expected = key(2).address();
        let signer = key(signer).address();
        let wrong = SignedError::WrongSigner { signer, expected };
        assert_eq!(refused, Err(BindingRefusal::Signature(wrong)));
    }
    let span = (START_S, START_S + 3600);
    let bound_to: AgentId = key(3).address();
    let others = WalletBinding::signed_by(&key(2), bound_to, span).unwrap();
    let buyer = key(1).address();
    let refused = facts(Some(&others)).payer();
    assert_eq!(refused, Err(BindingRefusal::OtherAgent { bound_to, buyer }));
    let own = WalletBinding::signed_by(&key(1), buyer, span).unwrap();
    assert_eq!(facts(Some(&own)).payer(), Err(BindingRefusal::OwnWallet));
}

#[test]
fn a_binding_has_a_beginning_and_an_end() {
    let bound = facts(Some(&binding()));
    let (from, end) = (at(START_S, 0), at(START_S + 3600, 0));
    let not_yet = Err(BindingRefusal::NotYet { from });
    assert_eq!(bound.check_payer_time(at(START_S, -1)), not_yet);
    assert_eq!(bound.check_payer_time(at(START_S + 3599, 999)), Ok(()));
    assert_eq!(bound.check_payer_time(end), Err(BindingRefusal::Expired { at: end }));
    let agent = key(1).address();
    let most = WALLET_BINDING_SECONDS_MAX;
    for (span, good) in
        [(-1, false), (0, false), (1, true), (most, true), (most + 1, false), (1 << 52, false)]
    {
        let span = (START_S, START_S + span);
        let payer = facts(Some(&WalletBinding::signed_by(&key(2), agent, span).unwrap())).payer();
        assert_eq!(payer.is_ok(), good, "{span:?} {payer:?}");
        let (issued_at, expires_at) = span;
        let bad = Err(BindingRefusal::BadSpan { issued_at, expires_at });
        assert!(good || payer == bad, "{span:?} {payer:?}");
    }
}
