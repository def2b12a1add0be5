//! Callbacks that lie.

use serde_json::{Value, json};
use skep_base::{
    Amount,
    hash::{json_sha256, sha256},
    id::{DealId, VerificationId},
};
use skep_market::{AGENT_KID, DealRefusal};
use skep_settle::{
    deal,
    proof::{self, Fault},
    verification,
};
use skep_wire::settle::{Outcome, ProofBundle, SplitVerdict, VerificationCallback};

use super::{sqlite, step};
use crate::{deal_world::*, fixture::*};

fn fault(reason: Fault) -> DealRefusal {
    DealRefusal::Proof { reason }
}

fn foreign(field: &str) -> DealRefusal {
    fault(Fault::ForeignBundle { field: field.to_owned() })
}

fn mismatch(field: &str) -> DealRefusal {
    fault(Fault::FieldMismatch { field: field.to_owned() })
}

fn bad_signature() -> DealRefusal {
    fault(Fault::BadSignature { kid: "k1".to_owned() })
}

/// A deal that vera is asked about.
async fn for_vera(w: &World) -> (DealId, VerificationId) {
    w.delivered(json!({"metadata": {"skep": {"verifier": w.vera.id()}}})).await
}

/// Vera's good word, with her bundle as `change` leaves it.
async fn sealed(
    w: &World,
    id: VerificationId,
    change: impl FnOnce(&mut ProofBundle),
) -> VerificationCallback {
    let mut bundle = w.finding(id, &w.vera, Outcome::Verified).await;
    change(&mut bundle);
    proof::seal(bundle, Some("Hello".to_owned()), &w.vera.key).unwrap()
}

#[tokio::test]
async fn a_proof_that_another_key_signed_releases_nothing() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let bundle = w.finding(verification, &w.vera, Outcome::Verified).await;
    for other in [&w.ben.key, &w.viv.key, &w.vera.person.key] {
        let forged = proof::seal(bundle.clone(), Some("Hello".to_owned()), other).unwrap();
        assert_eq!(w.thwarted_deal(id, w.callback(forged)).await, bad_signature());
    }
    let mut cut = sealed(&w, verification, |_| {}).await;
    cut.proof_signature = w.vera.key.sign(b"something else");
    assert_eq!(w.thwarted_deal(id, w.callback(cut)).await, bad_signature());
}

#[tokio::test]
async fn the_proof_of_one_escrow_settles_no_other() {
    let w = sqlite().await;
    let (_, first) = for_vera(&w).await;
    let (id, second) = for_vera(&w).await;
    let good = sealed(&w, first, |_| {}).await;
    let raw = serde_json::to_value(&good).unwrap();
    let as_it_is = w.market().callback(second, good.clone(), raw);
    assert_eq!(w.thwarted_deal(id, as_it_is).await, foreign("verification_id"));

    let readdressed = VerificationCallback { verification_id: second, ..good.clone() };
    assert_eq!(
        w.thwarted_deal(id, w.callback(readdressed.clone())).await,
        mismatch("verification_id")
    );

    // With the bundle rewritten too, its hash is another, and so is what was signed.
    let mut bundle: ProofBundle =
        serde_json::from_value(good.proof_bundle.clone().unwrap()).unwrap();
    let own = w.finding(second, &w.vera, Outcome::Verified).await;
    bundle.verification_id = second;
    bundle.negotiation_id = own.negotiation_id;
    bundle.escrow_ref = own.escrow_ref;
    bundle.terms_hash = own.terms_hash;
    let computed = json_sha256(&bundle).unwrap();
    let rewritten = VerificationCallback {
        proof_bundle: Some(serde_json::to_value(&bundle).unwrap()),
        ..readdressed
    };
    let refused = w.thwarted_deal(id, w.callback(rewritten.clone())).await;
    assert_eq!(refused, fault(Fault::HashMismatch { computed }));
    let rehashed = VerificationCallback { proof_hash: computed, ..rewritten };
    assert_eq!(w.thwarted_deal(id, w.callback(rehashed)).await, bad_signature());

    w.callback(good).await.unwrap();
    assert_eq!(w.states(id).await, "Active Held Pending");
}

#[tokio::test]
async fn a_bundle_about_something_else_proves_nothing() {
    let w = sqlite().await;
    let (_, other) = for_vera(&w).await;
    let (id, verification) = for_vera(&w).await;
    let foreign_bundle = w.finding(other, &w.vera, Outcome::Verified).await;
    let with = async |field: &str, change: &dyn Fn(&mut ProofBundle)| {
        let message = sealed(&w, verification, change).await;
        assert_eq!(w.thwarted_deal(id, w.callback(message)).await, foreign(field), "{field}");
    };
    with("negotiation_id", &|b| b.negotiation_id = foreign_bundle.negotiation_id).await;
    with("escrow_ref", &|b| b.escrow_ref = foreign_bundle.escrow_ref).await;
    with("terms_hash", &|b| b.terms_hash = foreign_bundle.terms_hash).await;
    let easier = sealed(&w, verification, |b| b.spec.expected_content = Some("h".into())).await;
    assert_eq!(w.thwarted_deal(id, w.callback(easier)).await, fault(Fault::OtherSpec));
    let ben = w.ben.id();
    let posing = sealed(&w, verification, |b| {
        b.agent_identity = Some(proof::identify(ben, &w.ben.key, w.f.now()));
    });
    let posing = posing.await;
    assert_eq!(w.thwarted_deal(id, w.callback(posing)).await, fault(Fault::ForeignIdentity));
    let good = sealed(&w, verification, |b| {
        let person = &w.vera.person;
        b.agent_identity = Some(proof::identify(person.id(), &person.key, w.f.now()));
    });
    w.callback(good.await).await.unwrap();
}

#[tokio::test]
async fn no_field_of_a_bundle_can_be_changed_after_it_was_hashed() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let good = sealed(&w, verification, |_| {}).await;
    let bundle = good.proof_bundle.clone().unwrap();
    let fields: Vec<String> = bundle.as_object().unwrap().keys().cloned().collect();
    assert!(fields.len() > 12, "{fields:?}");
    let more = ["split", "error", "supersedes", "failure_reason", "anything"];
    for field in fields.iter().map(String::as_str).chain(more) {
        let mut changed = bundle.clone();
        changed[field] = match &changed[field] {
            Value::String(text) => json!(format!("{text} ")),
            _ => json!({"changed": true}),
        };
        let computed = json_sha256(&changed).unwrap();
        let message = VerificationCallback { proof_bundle: Some(changed), ..good.clone() };
        let refused = w.thwarted_deal(id, w.callback(message)).await;
        // Whose word it is said to be is looked at first.
        if field != "verifier" {
            assert_eq!(refused, fault(Fault::HashMismatch { computed }), "{field}");
        }
    }
    for (field, other) in [("id", json!(w.viv.id())), ("kid", json!("k9"))] {
        let mut changed = bundle.clone();
        changed["verifier"][field] = other;
        let message = VerificationCallback { proof_bundle: Some(changed), ..good.clone() };
        let expected = match field {
            "id" => step(deal::Refusal::NotTheVerifier),
            _ => DealRefusal::UnknownVerifierKey { kid: "k9".to_owned() },
        };
        assert_eq!(w.thwarted_deal(id, w.callback(message)).await, expected);
    }
    w.callback(good).await.unwrap();
}

#[tokio::test]
async fn what_a_callback_shows_must_be_what_its_bundle_was_made_of() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let good = sealed(&w, verification, |_| {}).await;
    let refused = async |change: &dyn Fn(&mut VerificationCallback)| {
        let mut message = good.clone();
        change(&mut message);
        w.thwarted_deal(id, w.callback(message)).await
    };
    let changed = fault(Fault::ContentChanged);
    assert_eq!(refused(&|m| m.extracted_content = Some("Hallo".to_owned())).await, changed);
    assert_eq!(refused(&|m| m.extracted_content = None).await, changed);
    let log = mismatch("action_log");
    assert_eq!(refused(&|m| m.action_log[0]["success"] = json!(false)).await, log);
    assert_eq!(refused(&|m| m.action_log.clear()).await, log);
    assert_eq!(refused(&|m| m.passed = false).await, fault(Fault::OutcomeMismatch));
    let failure = mismatch("failure_reason");
    assert_eq!(refused(&|m| m.failure_reason = Some("no".to_owned())).await, failure);
    let later = w.f.now().plus(MS);
    assert_eq!(refused(&|m| m.completed_at = later).await, mismatch("completed_at"));
    let version = refused(&|m| m.vcap_version = "2.0".to_owned()).await;
    assert_eq!(version, super::message("vcap_version", "this node speaks 1.0"));
}

#[tokio::test]
async fn a_log_of_actions_is_a_chain_in_order() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    // A dishonest verifier hashes and signs whatever it likes: the log itself must hold.
    let resealed = async |change: &dyn Fn(&mut Value)| {
        let good = sealed(&w, verification, |_| {}).await;
        let mut bundle = good.proof_bundle.clone().unwrap();
        change(&mut bundle);
        let proof_hash = json_sha256(&bundle).unwrap();
        let body = json!({
            "verification_id": verification, "negotiation_id": id, "escrow_ref": id,
            "passed": true, "proof_hash": proof_hash, "completed_at": good.completed_at,
        });
        let body = skep_base::json::to_vec(&body).unwrap();
        let message = VerificationCallback {
            action_log: bundle["action_log"].as_array().unwrap().clone(),
            proof_bundle: Some(bundle),
            proof_hash,
            proof_signature: w.vera.key.sign(&body),
            ..good
        };
        w.thwarted_deal(id, w.callback(message)).await
    };
    let refused = resealed(&|b| b["action_log"][0]["index"] = json!(1)).await;
    assert_eq!(refused, fault(Fault::BadAction { index: 0 }));
    let refused = resealed(&|b| b["action_log"][0]["action"] = json!(7)).await;
    assert_eq!(refused, fault(Fault::BadAction { index: 0 }));
    let refused = resealed(&|b| b["action_log"][0]["cost_cents"] = json!(9)).await;
    assert!(
        matches!(&refused, DealRefusal::Proof { reason: Fault::BrokenChain { .. } }),
        "{refused:?}"
    );
    let refused = resealed(&|b| b["action_log_head"] = json!(sha256(b"x"))).await;
    assert!(
        matches!(&refused, DealRefusal::Proof { reason: Fault::BrokenChain { .. } }),
        "{refused:?}"
    );
    let refused = resealed(&|b| b["chain_alg"] = json!("sha1")).await;
    assert!(
        matches!(&refused, DealRefusal::Proof { reason: Fault::Unreadable { .. } }),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_engine_does_not_divide_the_price() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let half = |released: i64, refunded: i64| SplitVerdict {
        released_minor: Amount::new(released).unwrap(),
        refunded_minor: Amount::new(refunded).unwrap(),
    };
    let message = sealed(&w, verification, |b| b.split = Some(half(400, 600))).await;
    let refused = w.thwarted_deal(id, w.callback(message)).await;
    assert_eq!(refused, step(deal::Refusal::SplitNotAllowed));
    let message = sealed(&w, verification, |b| b.split = Some(half(400, 601))).await;
    let refused = w.thwarted_deal(id, w.callback(message)).await;
    assert_eq!(refused, step(deal::Refusal::BadSplit));
}

#[tokio::test]
async fn a_verdict_of_another_time_is_none() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let five = 300 * MS * 1000;
    let at = async |completed_at| {
        let message = sealed(&w, verification, |b| b.completed_at = completed_at).await;
        let refused = w.thwarted_deal(id, w.callback(message)).await;
        assert_eq!(refused, DealRefusal::BadCompletionTime { completed_at });
    };
    let asked_at = w.f.now();
    w.f.clock.advance(HOUR / 4);
    at(skep_base::Timestamp::EPOCH).await;
    at(asked_at.minus(five + MS)).await;
    at(w.f.now().plus(five + MS)).await;
    at(skep_base::Timestamp::MAX).await;
    let early = sealed(&w, verification, |b| b.completed_at = asked_at.minus(five)).await;
    w.callback(early).await.unwrap();
}

#[tokio::test]
async fn a_verdict_of_the_day_before_yesterday_is_looked_for_again() {
    let w = sqlite().await;
    let options = json!({"verifier": w.vera.id(), "timeout_s": 30 * 24 * 3600});
    let (id, verification) = w.delivered(json!({"metadata": {"skep": options}})).await;
    let completed_at = w.f.now();
    w.f.clock.advance(24 * HOUR + 300 * MS * 1000 + MS);
    let message = sealed(&w, verification, |b| b.completed_at = completed_at).await;
    let refused = w.thwarted_deal(id, w.callback(message)).await;
    assert_eq!(refused, DealRefusal::BadCompletionTime { completed_at });
    let message = sealed(&w, verification, |b| b.completed_at = completed_at.plus(MS)).await;
    w.callback(message).await.unwrap();
}

#[tokio::test]
async fn a_late_verdict_is_evidence_and_nothing_else() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let good = sealed(&w, verification, |_| {}).await;
    let deadline = w.f.now().plus(HOUR / 2);
    let too_late = || {
        let reason = verification::Refusal::TooLate { deadline };
        step(deal::Refusal::Verification { reason })
    };
    w.f.clock.advance(HOUR / 2);
    // Whether the sweep has come by or not.
    assert_eq!(w.thwarted_deal(id, w.callback(good.clone())).await, too_late());
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Active Held Pending");
    assert_eq!(w.thwarted_deal(id, w.callback(good.clone())).await, too_late());
    let file = w.market().review(&w.rex.id(), id).await.unwrap();
    assert_eq!(file.callbacks, [serde_json::to_value(&good).unwrap()]);
    assert_eq!(file.last_status, Some(skep_wire::settle::VerificationStatus::Timeout));
    w.decide(id, Outcome::Rejected, None).await.unwrap();
    assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
    // Long after the end it still moves nothing.
    assert_eq!(w.thwarted_deal(id, w.callback(good)).await, too_late());
}

#[tokio::test]
async fn after_a_verdict_no_other_counts() {
    let w = sqlite().await;
    let (id, verification) = for_vera(&w).await;
    let (good, bad) = (
        w.verdict(verification, Outcome::Verified).await,
        w.verdict(verification, Outcome::Failed).await,
    );
    w.callback(bad).await.unwrap();
    let over = |status| {
        let reason = verification::Refusal::Over { status };
        step(deal::Refusal::Verification { reason })
    };
    let refused = w.thwarted_deal(id, w.callback(good)).await;
    assert_eq!(refused, over(skep_wire::settle::VerificationStatus::Failed));
    assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
}

#[tokio::test]
async fn only_the_requesters_own_key_speaks_where_it_judges() {
    let mut w = sqlite().await;
    let (id, verification) =
        w.delivered(json!({"verification_hints": {"type": "requester"}})).await;
    let request = w.verification(verification).await.request;
    let said = |kid: &str| bundle(&request, w.ann.id(), kid, Outcome::Verified, w.f.now());
    let by_ben = proof::seal(said(AGENT_KID), None, &w.ben.key).unwrap();
    let forged = fault(Fault::BadSignature { kid: AGENT_KID.to_owned() });
    assert_eq!(w.thwarted_deal(id, w.callback(by_ben)).await, forged);
    let own = bundle(&request, w.ben.id(), AGENT_KID, Outcome::Verified, w.f.now());
    let own = proof::seal(own, None, &w.ben.key).unwrap();
    let refused = w.thwarted_deal(id, w.callback(own)).await;
    assert_eq!(refused, step(deal::Refusal::NotTheVerifier));
    let no_such = proof::seal(said("k1"), None, &w.ann.key).unwrap();
    let refused = w.thwarted_deal(id, w.callback(no_such)).await;
    assert_eq!(refused, DealRefusal::UnknownVerifierKey { kid: "k1".to_owned() });
    // The old key's word is worth nothing after a rotation.
    let before = proof::seal(said(AGENT_KID), None, &w.ann.key).unwrap();
    let new_key = w.ann.other_key(1);
    w.f.change(&w.ann, w.ann.rotate(&new_key, w.f.now())).await.unwrap();
    assert_eq!(w.thwarted_deal(id, w.callback(before)).await, forged);
    w.ann.key = new_key;
    w.judge_as_requester(verification, Outcome::Verified).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
}
