//! Deals from the first offer to the last cent, each way that they can go.

use std::time::Duration;

use serde_json::json;
use skep_base::ed25519::SecretKey;
use skep_market::{DealRefusal, EgressFailure, Sending};
use skep_wire::{
    identity::Statement,
    settle::{
        Action, Attachment, EscrowStatus, NegotiationStatus, Outcome, PaymentStatus,
        VerificationCallback, VerificationStatus,
    },
};

use crate::{deal_world::*, fixture::*, on_both_engines};

on_both_engines! {
    async fn a_deal_that_is_verified_pays_the_provider(f: Fixture) {
        let w = World::new(f).await;
        let id = w.open(json!({})).await.unwrap();
        let answer = w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap().value;
        assert_eq!(answer.status, NegotiationStatus::Accepted);
        let hold = answer.escrow.unwrap();
        assert_eq!((hold.amount_minor.minor(), hold.status), (PRICE, EscrowStatus::Held));
        let agreement = w.agreement(id).await;
        let computed = skep_settle::terms::hash(&agreement.terms).unwrap();
        assert_eq!(hold.release_condition, format!("vcap:terms:sha256:{computed}"));
        assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");

        let delivered = w.deliver(id, json!({})).await.unwrap();
        let verification = delivered.verification_id.unwrap();
        assert_eq!(w.states(id).await, "Active Held Pending");
        let again = w.deliver(id, json!({"delivery": {"description": "Again"}})).await.unwrap();
        assert_eq!(again, delivered, "8.1: one delivery, one verification");
        let verifier = w.asked(verification).await;
        let signed = verifier.person.signed("ack");
        w.market().acknowledge(&signed, verification).await.unwrap();
        assert_eq!(w.states(id).await, "Active Held Running");

        let taken = w.judge(verification, Outcome::Verified).await.unwrap();
        assert_eq!((taken.escrow, taken.duplicate), (EscrowStatus::Released, false));
        assert_eq!(w.states(id).await, "Completed Released Verified");
        assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
        let receipt = w.market().settlement(id).await.unwrap();
        receipt.settlement.verify(&receipt.key, &receipt.signature).unwrap();
        assert_eq!(receipt.settlement.released_minor.minor(), PRICE);
        assert_eq!(receipt.settlement.verification_id, Some(verification));
        w.f.audit_is_clean().await;
    }

    async fn what_a_proof_names_by_hash_is_kept_and_given_back(f: Fixture) {
        let w = World::new(f).await;
        let (id, verification) = w.delivered(json!({})).await;
        let picture = Attachment::new(&[7; 300_000], "image/png", Some("page.png"));
        let by = w.asked(verification).await;
        let mut bundle = w.finding(verification, by, Outcome::Verified).await;
        let action = Action {
            screenshot_sha256: Some(picture.sha256),
            ..Action::begun(0, "SCREENSHOT", w.f.now())
        };
        bundle.action_log = vec![serde_json::to_value(action).unwrap()];
        let sealed = skep_settle::proof::seal(bundle, None, &by.key).unwrap();
        let foreign = Attachment::new(b"another page", "image/png", None);
        let wrong = VerificationCallback { attachments: vec![foreign], ..sealed.clone() };
        let refused = deal_refusal(w.callback(wrong).await);
        assert!(refused.to_string().contains("no action names it"), "{refused}");
        assert_eq!(w.states(id).await, "Active Held Pending");
        let sent = VerificationCallback { attachments: vec![picture], ..sealed };
        w.callback(sent.clone()).await.unwrap();
        assert_eq!(w.states(id).await, "Completed Released Verified");
        let given = w.verification(verification).await.callback.unwrap();
        assert_eq!(given, serde_json::to_value(sent).unwrap(), "as it came");
        w.f.audit_is_clean().await;
    }

    async fn a_composite_is_looked_at_by_one_who_has_every_engine(f: Fixture) {
        let w = World::new(f).await;
        let parts = json!([
            {"type": "artifact", "expected_content": "hello"},
            {"type": "llm", "custom": {"rubric": "It greets."}},
        ]);
        let custom = json!({"mode": "all", "of": parts});
        // A merge keeps what the world's usual offer says; null takes it away.
        let hints = json!({"type": "composite", "expected_content": null, "custom": custom});
        let terms = json!({"verification_hints": hints});
        w.register(&w.vera, &["composite", "artifact"]).await;
        w.register(&w.viv, &["artifact", "llm"]).await;
        let id = w.agreed(terms.clone()).await;
        let answer = w.deliver(id, json!({})).await.unwrap();
        assert_eq!(answer.verifier, None, "neither of them has all three");
        w.register(&w.viv, &["artifact", "llm", "composite"]).await;
        let id = w.agreed(terms.clone()).await;
        let answer = w.deliver(id, json!({})).await.unwrap();
        assert_eq!(answer.verifier, Some(w.viv.id()));
        let named = json!({"metadata": {"skep": {"verifier": w.vera.id()}}});
        let mut terms = terms;
        merge(&mut terms, named);
        let id = w.open(terms).await.unwrap();
        let refused = deal_refusal(w.respond(&w.ben, id, "ACCEPTED", json!({})).await);
        assert!(matches!(
            refused,
            DealRefusal::VerifierLacksEngine { engine, .. } if engine == "llm"
        ));
        let bad = json!({"verification_hints": {"type": "llm", "custom": {"rubrik": "x"}}});
        let refused = deal_refusal(w.open(bad).await).to_string();
        assert!(refused.contains("rubric"), "{refused}");
    }

    async fn a_deal_that_fails_refunds_the_requester(f: Fixture) {
        let w = World::new(f).await;
        let (id, verification) = w.delivered(json!({})).await;
        w.judge(verification, Outcome::Failed).await.unwrap();
        assert_eq!(w.states(id).await, "Disputed Refunded Failed");
        assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
        assert!(!w.agreement(id).await.dispute_open);
        w.f.audit_is_clean().await;
    }

    async fn a_verification_that_times_out_waits_for_a_reviewer(f: Fixture) {
        let w = World::new(f).await;
        let (id, verification) = w.delivered(json!({})).await;
        w.f.clock.advance(Duration::from_secs(1800));
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Active Held Pending");
        assert_eq!(w.verification(verification).await.status, VerificationStatus::Timeout);
        let queue = w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items;
        assert_eq!((queue.len(), queue[0].cause.as_str()), (1, "timeout"));
        // A month later the money still lies there: only a person moves it.
        w.f.clock.advance(30 * 24 * HOUR);
        w.run_timers().await;
        assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
        w.decide(id, Outcome::Verified, Some(400)).await.unwrap();
        assert_eq!(w.states(id).await, "Completed Released Verified");
        assert_eq!(w.money(id).await, "99600/0/0 400/0/0 0");
        assert_eq!(w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items, []);
        w.f.audit_is_clean().await;
    }

    async fn nobody_delivers_and_the_deadline_refunds(f: Fixture) {
        let w = World::new(f).await;
        let id = w.agreed(json!({})).await;
        w.f.clock.advance(7 * 24 * HOUR + HOUR - MS);
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Active Held -");
        w.f.clock.advance(MS);
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Cancelled Refunded -");
        assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
    }

    async fn offers_go_back_and_forth(f: Fixture) {
        let w = World::new(f).await;
        let id = w.open(json!({})).await.unwrap();
        let dearer = json!({"counter_terms": {"amount": 0.002}});
        let answer = w.respond(&w.ben, id, "COUNTERED", dearer).await.unwrap().value;
        assert_eq!(answer.status, NegotiationStatus::Countered);
        let twice = w.respond(&w.ben, id, "ACCEPTED", json!({})).await;
        assert!(matches!(deal_refusal(twice), DealRefusal::Talks { .. }));
        let cheaper = json!({"counter_terms": {"amount": 0.0015}});
        w.respond(&w.ann, id, "COUNTERED", cheaper).await.unwrap();
        let other = json!({"counter_terms": {"amount": 0.0016}});
        let changed = w.respond(&w.ben, id, "ACCEPTED", other).await;
        assert!(matches!(deal_refusal(changed), DealRefusal::Price { .. }));
        w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
        assert_eq!(w.money(id).await, "98500/0/0 0/0/0 1500");
    }
}

on_both_engines! {
    async fn a_debt_that_stays_open_for_a_week_is_a_public_default(f: Fixture) {
        let w = World::new(f).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let (id, verification) = w.delivered(json!({})).await;
        // What was promised is gone by the time it is due.
        w.empty(&w.ann).await;
        w.judge(verification, Outcome::Verified).await.unwrap();
        assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::PaymentDue);
        w.f.clock.advance(7 * 24 * HOUR - MS);
        w.run_timers().await;
        assert_eq!(w.market().agent(&w.ann.id().to_string()).await.unwrap().defaults, 0);
        w.f.clock.advance(MS);
        w.run_timers().await;
        assert_eq!(w.market().agent(&w.ann.id().to_string()).await.unwrap().defaults, 1);
        assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::Defaulted);
        assert!(w.f.kinds().await.contains(&"debt.defaulted".to_owned()));
    }

    async fn whoever_lost_its_agents_key_neither_verifies_nor_pays(f: Fixture) {
        let w = World::new(f).await;
        let (id, verification) = w.delivered(json!({})).await;
        let offered = w.open(json!({})).await.unwrap();
        let verifier = w.asked(verification).await;
        w.f.change(&verifier.person, verifier.person.revoke_by_wallet(w.f.now())).await.unwrap();
        let refused = deal_refusal(w.judge(verification, Outcome::Verified).await);
        assert!(matches!(refused, DealRefusal::VerifierKeyRevoked { .. }), "{refused:?}");
        w.f.change(&w.ann, w.ann.revoke_by_wallet(w.f.now())).await.unwrap();
        let accepted = w.respond(&w.ben, offered, "ACCEPTED", json!({})).await;
        let reason = skep_market::KeyRefusal::KeyRevoked;
        assert_eq!(refusal(accepted), skep_market::Refusal::Keys { reason });
        assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
    }
}

#[tokio::test]
async fn a_key_and_a_nonce_of_the_same_text_are_two_deals() {
    let w = World::new(Fixture::sqlite().await).await;
    let raw = w.request(json!({}));
    let open = async |signed: skep_market::Signed| {
        let message = serde_json::from_str(&raw.to_string()).unwrap();
        let opened = w.market().negotiation_open(&signed, message, raw.clone()).await.unwrap();
        opened.value.negotiation_id
    };
    let mut keyed = w.ann.signed_with("nonce", "first");
    keyed.idempotency_key = Some("the same words".to_owned());
    let first = open(keyed).await;
    let second = open(w.ann.signed_with("the same words", "second")).await;
    assert_ne!(first, second);
}

/// Counts what it is sent for, and finds nothing.
#[derive(Debug, Default)]
struct Errands(std::sync::atomic::AtomicUsize);

impl skep_market::Egress for Errands {
    fn post(&self, _: String, _: Vec<(String, String)>, _: Vec<u8>) -> Sending<'_, u16> {
        Box::pin(async { Err(nothing()) })
    }

    fn get_here(&self, url: String, body_max: usize) -> skep_market::Sending<'_, Vec<u8>> {
        self.get(url, body_max)
    }

    fn get(&self, _: String, _: usize) -> Sending<'_, Vec<u8>> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async { Err(nothing()) })
    }
}

fn nothing() -> EgressFailure {
    EgressFailure { code: "unreachable".to_owned(), detail: "10.0.0.7 said nothing".to_owned() }
}

#[tokio::test]
async fn only_the_asked_verifier_sends_the_node_for_a_bundle() {
    let mut w = World::new(Fixture::sqlite().await).await;
    let errands = std::sync::Arc::new(Errands::default());
    w.f.market = w.f.market.clone().with_egress(errands.clone());
    let sent = || errands.0.load(std::sync::atomic::Ordering::Relaxed);
    let (id, verification) = w.delivered(json!({})).await;
    let by = w.asked(verification).await;
    let found = w.finding(verification, by, Outcome::Verified).await;
    let elsewhere = |key: &SecretKey| {
        let mut message = skep_settle::proof::seal(found.clone(), None, key).unwrap();
        message.proof_bundle = None;
        message.proof_bundle_uri = Some("https://a.example/bundle".to_owned());
        message
    };
    let forged = deal_refusal(w.callback(elsewhere(&w.ben.key)).await);
    assert!(matches!(forged, DealRefusal::Proof { .. }), "{forged:?}");
    assert_eq!(sent(), 0);
    // Whoever is heard learns no address of the node's own network.
    let refused = deal_refusal(w.callback(elsewhere(&by.key)).await);
    assert_eq!(refused, DealRefusal::BundleUnreachable { detail: "unreachable".to_owned() });
    assert_eq!(sent(), 1);
    assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
}
