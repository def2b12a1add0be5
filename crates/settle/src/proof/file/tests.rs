use serde_json::json;
use skep_base::{ed25519::SecretKey, hash::sha256, wallet::WalletKey};
use skep_wire::settle::{Attachment, EscrowSettlement, NegotiationRequest, Standing};

use super::*;
use crate::{Offer, Policy, proof};

fn at(second: i64) -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000 + second * 1000)
}

fn deal() -> DealId {
    DealId::new(at(0), &[b"deal"])
}

fn proof_key() -> SecretKey {
    SecretKey::from_seed([1; 32])
}

fn agent_key() -> SecretKey {
    SecretKey::from_seed([2; 32])
}

fn market_key() -> SecretKey {
    SecretKey::from_seed([3; 32])
}

fn wallet() -> WalletKey {
    WalletKey::from_bytes([4; 32]).unwrap()
}

const SIDES: (AgentId, AgentId) = (AgentId([0x11; 20]), AgentId([0x22; 20]));

/// Terms by which an artifact must say hello.
fn terms_document() -> Value {
    let request = json!({
        "vcap_version": "1.0",
        "message_type": "negotiation_request",
        "requester": {"agent_id": SIDES.0},
        "provider": {"agent_id": SIDES.1},
        "request": {
            "service_type": "text.write", "description": "Write hello",
            "budget_amount": 12.50, "budget_currency": "USDC",
        },
        "verification_hints": {"type": "artifact", "expected_content": "hello"},
    });
    let message: NegotiationRequest = serde_json::from_value(request.clone()).unwrap();
    let offer = Offer::open(&message).unwrap();
    let terms = Terms::close(&offer, at(0), &Policy::default(), &Standing::default()).unwrap();
    terms.document(deal(), SIDES, at(0), &[request, json!({"response_status": "ACCEPTED"})])
}

fn sealed(terms_hash: Hash32, spec: &VerificationSpec) -> VerificationCallback {
    let verifier = wallet().address();
    let bundle = json!({
        "format": "", "chain_alg": "",
        "verification_id": deal().verification(1),
        "negotiation_id": deal(), "escrow_ref": deal(), "terms_hash": terms_hash, "spec": spec,
        "outcome": "VERIFIED",
        "action_log": [
            {"index": 0, "action": "READ", "success": true, "cost_cents": 0, "timestamp": at(2)},
            {"index": 1, "action": "CHECK", "success": true, "cost_cents": 0, "timestamp": at(2),
             "screenshot_sha256": sha256(b"picture")},
        ],
        "artifact_hashes": [sha256(b"hello")],
        "verifier": {"id": verifier, "kid": "k1", "software": "skep/1"},
        "agent_identity": proof::identify(verifier, &agent_key(), at(3)),
        "started_at": at(1), "completed_at": at(3),
    });
    let bundle = serde_json::from_value(bundle).unwrap();
    let callback = proof::seal(bundle, Some("hello".to_owned()), &proof_key()).unwrap();
    let picture = Attachment::new(b"picture", "image/png", Some("page.png"));
    VerificationCallback { attachments: vec![picture], ..callback }
}

fn receipt(callback: &VerificationCallback, terms_hash: Hash32) -> SettlementReceipt {
    let settlement = json!({
        "vcap_version": "1.0", "message_type": "escrow_settlement",
        "escrow_id": deal(), "negotiation_id": deal(), "status": "RELEASED",
        "verification_id": callback.verification_id, "proof_hash": callback.proof_hash,
        "proof_signature": callback.proof_signature,
        "evidence": {
            "proof_hash": callback.proof_hash, "proof_signature": callback.proof_signature,
        },
        "platform_fee": {
            "rate": 0.05, "rate_type": "percentage", "amount": 0.62, "amount_minor": "620000",
            "currency": "USDC", "split": {"buyer_minor": "310000", "seller_minor": "310000"},
        },
        "settled_at": at(4), "requester": SIDES.0, "provider": SIDES.1, "currency": "USDC",
        "released_minor": "12500000", "refunded_minor": "0", "verifier_paid_minor": "0",
        "method": "proof", "terms_hash": terms_hash,
    });
    let settlement: EscrowSettlement = serde_json::from_value(settlement).unwrap();
    let signature = settlement.sign(&market_key()).unwrap();
    SettlementReceipt { settlement, key: market_key().public(), signature }
}

/// A file of a deal that went well.
fn file() -> ProofFile {
    let terms = terms_document();
    let terms_hash = terms::hash(&terms).unwrap();
    let spec: VerificationSpec = serde_json::from_value(json!({
        "type": "artifact", "expected_content": "hello", "fingerprint_delta": false,
        "timeout_seconds": 1800,
    }))
    .unwrap();
    let callback = sealed(terms_hash, &spec);
    let statement = Binding {
        agent_id: wallet().address(),
        public_key: agent_key().public(),
        recovery_key: None,
        operator: None,
        name: Some("Vera".to_owned()),
        webhook_hash: None,
        issued_at: at(-9),
    };
    let wallet_signature = statement.sign_with_wallet(&wallet()).unwrap();
    ProofFile {
        format: FORMAT.to_owned(),
        request: Asked {
            verification_id: deal().verification(1),
            negotiation_id: deal(),
            escrow_ref: deal(),
            terms_hash,
            spec,
        },
        settlement: Some(receipt(&callback, terms_hash)),
        callback,
        terms,
        release_condition: terms::release_condition(&terms_hash),
        verifier: Signer {
            agent_id: wallet().address(),
            key: SignerKey {
                kid: "k1".to_owned(),
                public_key: proof_key().public(),
                not_before: Some(at(-8)),
                not_after: Some(at(99)),
                revoked_at: None,
            },
            agent_key: Some(agent_key().public()),
            taken_on: Some(TakenOn::Binding { statement, wallet_signature }),
        },
        marketplace: Marketplace {
            url: "http://127.0.0.1:4020".to_owned(),
            settlement_key: market_key().public(),
        },
    }
}

fn verify(file: &ProofFile) -> Report {
    verify_file(&serde_json::to_vec_pretty(file).unwrap(), &Pins::default())
}

fn failed(report: &Report) -> Vec<&'static str> {
    let failed = report.checks.iter().filter(|check| check.mark == Mark::Fail);
    failed.map(|check| check.name).collect()
}

/// What a change of which goes unseen, as [`NOT_COVERED`] tells.
const UNSEEN: [&str; 5] = [
    "/marketplace/url",
    "/verifier/key/not_before",
    "/verifier/key/not_after",
    "/callback/attachments/0/media_type",
    "/callback/attachments/0/name",
];

#[test]
fn a_good_file_is_found_good() {
    let report = verify(&file());
    assert!(report.ok, "{report:#?}");
    assert!(report.checks.iter().all(|check| check.mark == Mark::Ok), "{report:#?}");
    let line = |name| report.checks.iter().find(|c| c.name == name).unwrap().detail.clone();
    assert!(line("signature").ends_with("taken from the file"), "{report:#?}");
    assert_eq!(line("attachments"), "1 here, of 1 that the log names by hash");
    assert!(line("agent identity").contains("signed for by the wallet"), "{report:#?}");
    assert!(line("receipt").contains("12.50 USDC released"), "{report:#?}");
}

#[test]
fn an_attachment_of_something_else_is_told() {
    let mut changed = file();
    changed.callback.attachments[0].data = Attachment::new(b"forged", "image/png", None).data;
    assert_eq!(failed(&verify(&changed)), ["attachments", "callback", "signature"]);
    let mut without = file();
    without.callback.attachments.clear();
    let report = verify(&without);
    let line = report.checks.iter().find(|c| c.name == "attachments").unwrap();
    assert!(report.ok && line.detail.starts_with("0 here, of 1"), "{report:#?}");
}

#[test]
fn without_a_receipt_nothing_is_said_about_money() {
    let report = verify(&ProofFile { settlement: None, ..file() });
    let absent = report.checks.iter().filter(|c| c.mark == Mark::Absent).map(|c| c.name);
    assert_eq!(absent.collect::<Vec<_>>(), ["receipt signature", "receipt"]);
    assert!(report.ok);
}

#[test]
fn a_pinned_key_decides() {
    let bytes = serde_json::to_vec(&file()).unwrap();
    let pins = |verifier: &SecretKey, marketplace: &SecretKey| Pins {
        verifier: Some(verifier.public()),
        marketplace: Some(marketplace.public()),
    };
    let good = verify_file(&bytes, &pins(&proof_key(), &market_key()));
    assert!(good.ok && good.checks.iter().any(|c| c.detail.contains("pinned by --key")));
    let other = verify_file(&bytes, &pins(&market_key(), &proof_key()));
    assert_eq!(failed(&other), ["signature", "receipt signature"]);
    let bytes = serde_json::to_vec(&ProofFile { settlement: None, ..file() }).unwrap();
    let nothing = verify_file(&bytes, &pins(&proof_key(), &market_key()));
    assert_eq!(failed(&nothing), ["receipt signature"]);
}

/// A key that came by a rotation is the wallet's word too; one that came by recovery is not.
#[test]
fn the_wallet_stands_behind_a_rotated_key() {
    let rotation = |new_key: PublicKey, wallet: &WalletKey| {
        let statement = Rotation {
            agent_id: self::wallet().address(),
            old_key: market_key().public(),
            new_key,
            issued_at: at(-1),
        };
        let wallet_signature = statement.sign_with_wallet(wallet).unwrap();
        let mut file = file();
        file.verifier.taken_on = Some(TakenOn::Rotation { statement, wallet_signature });
        verify(&file)
    };
    assert!(rotation(agent_key().public(), &wallet()).ok);
    let other = WalletKey::from_bytes([5; 32]).unwrap();
    for wrong in [rotation(proof_key().public(), &wallet()), rotation(agent_key().public(), &other)]
    {
        assert_eq!(failed(&wrong), ["agent identity"]);
    }
    let mut recovered = file();
    recovered.verifier.taken_on = None;
    let report = verify(&recovered);
    let line = report.checks.iter().find(|c| c.name == "agent identity").unwrap();
    assert!(report.ok && line.detail.ends_with("taken from the file"), "{report:#?}");
}

/// Somebody who makes keys of their own can sign anything, but not in the name of others.
#[test]
fn a_forger_is_not_the_wallet_that_it_names() {
    let mut forged = file();
    let forger = SecretKey::from_seed([9; 32]);
    let mut bundle: ProofBundle =
        serde_json::from_value(forged.callback.proof_bundle.unwrap()).unwrap();
    bundle.agent_identity = Some(proof::identify(forged.verifier.agent_id, &forger, at(3)));
    forged.callback = proof::seal(bundle, Some("hello".to_owned()), &forger).unwrap();
    forged.settlement = None;
    forged.verifier.key.public_key = forger.public();
    forged.verifier.agent_key = Some(forger.public());
    assert_eq!(failed(&verify(&forged)), ["agent identity"]);
}

#[test]
fn a_receipt_of_something_else_does_not_count() {
    let change = |field: &str, value: Value| {
        let mut changed = file();
        let receipt = changed.settlement.as_mut().unwrap();
        let mut settlement = serde_json::to_value(&receipt.settlement).unwrap();
        settlement[field] = value;
        receipt.settlement = serde_json::from_value(settlement).unwrap();
        receipt.signature = receipt.settlement.sign(&market_key()).unwrap();
        let report = verify(&changed);
        assert_eq!(failed(&report), ["receipt"], "{field}");
        report.checks.last().unwrap().detail.clone()
    };
    let other = deal().verification(2);
    assert_eq!(change("verification_id", json!(other)), "it names another proof");
    assert_eq!(change("proof_hash", json!(Hash32([0; 32]))), "it names another proof");
    assert_eq!(change("terms_hash", json!(Hash32([0; 32]))), "it names other terms");
    assert_eq!(change("provider", json!(SIDES.0)), "it names other sides");
    assert_eq!(change("currency", json!("USD")), "it is in another currency");
    assert_eq!(change("refunded_minor", json!("1")), "what it moves is not the price");
    assert_eq!(change("status", json!("REFUNDED")), "its status is not what the verdict says");
}

/// Bytes all over the file, changed: either it is told, or it was white space or one of [`UNSEEN`].
#[test]
fn no_changed_byte_goes_unseen() {
    let original = file();
    let bytes = serde_json::to_vec_pretty(&original).unwrap();
    let covered = |bytes: &[u8]| {
        let mut value = json::parse(bytes).unwrap();
        for pointer in UNSEEN {
            *value.pointer_mut(pointer).unwrap() = Value::Null;
        }
        value
    };
    let before = covered(&bytes);
    let mut told = 0;
    for place in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        // One bit, another one at each place: digits become digits and letters letters.
        changed[place] ^= 1 << (place % 5);
        if verify_file(&changed, &Pins::default()).ok {
            assert!(covered(&changed) == before, "byte {place}");
        } else {
            told += 1;
        }
    }
    assert!(told > bytes.len() / 6, "{told} of {}", bytes.len());
}

#[test]
fn what_the_export_does_not_write_is_not_read() {
    let told = |value: Value| {
        let report = verify_file(&serde_json::to_vec(&value).unwrap(), &Pins::default());
        assert_eq!(failed(&report), ["file"]);
        report.checks[0].detail.clone()
    };
    let with = |name: &str, value: Value| {
        let mut file = serde_json::to_value(file()).unwrap();
        file[name] = value;
        file
    };
    assert!(told(with("note", json!("trust me"))).contains("does not write"));
    assert!(told(with("format", json!("skep/proof-file/v2"))).contains("its format"));
    let mut noted = serde_json::to_value(file()).unwrap();
    noted["callback"]["note"] = json!("trust me");
    assert!(told(noted).contains("does not write"));
    assert!(told(json!([])).contains("expected"), "{}", told(json!([])));
    let twice = verify_file(br#"{"format": 1, "format": 1}"#, &Pins::default());
    assert!(twice.checks[0].detail.contains("twice"));
}
