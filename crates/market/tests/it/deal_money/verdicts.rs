//! Verdicts of each kind, and what can still be said against them.

use serde_json::{Value, json};
use skep_base::{hash::sha256, id::DealId};
use skep_market::{DealRefusal, Refusal};
use skep_settle::{deal, verification};
use skep_wire::settle::{Outcome, PaymentStatus, RefundReason, Tier, VerificationStatus};

use super::{DAY, MINUTE, reason, skep, sqlite};
use crate::{deal_world::*, fixture::*, on_both_engines};

fn step(reason: deal::Refusal) -> DealRefusal {
    DealRefusal::Step { reason }
}

/// A deal that failed, with an hour to contest that, and some money for the provider.
async fn failed(w: &World) -> DealId {
    if w.f.balance(&w.ben).await == "none" {
        w.f.fund(&w.ben, 950, 100).await;
    }
    let (id, verification) = w.delivered(skep(json!({"dispute_window_s": 3600}))).await;
    w.judge(verification, Outcome::Failed).await.unwrap();
    assert_eq!(w.states(id).await, "Disputed Held Failed");
    assert!(w.agreement(id).await.dispute_open);
    id
}

async fn disputed(w: &World) -> DealId {
    let id = failed(w).await;
    w.dispute(&w.ben, id).await.unwrap();
    id
}

on_both_engines! {
    async fn who_disputes_and_loses_loses_the_deposit(f: Fixture) {
        let w = World::new(f).await;
        let id = disputed(&w).await;
        assert_eq!(w.money(id).await, "99000/0/0 50/0/0 1050");
        w.decide(id, Outcome::Rejected, None).await.unwrap();
        assert_eq!(w.states(id).await, "Disputed Refunded Rejected");
        assert_eq!(w.money(id).await, "100000/0/0 50/0/0 0");
        assert_eq!(w.fees().await, 50);
        assert!(!w.agreement(id).await.dispute_open);
        w.f.audit_is_clean().await;
    }

    async fn who_disputes_and_wins_gets_it_back_and_the_other_pays(f: Fixture) {
        let w = World::new(f).await;
        let id = disputed(&w).await;
        w.decide(id, Outcome::Verified, None).await.unwrap();
        assert_eq!(w.states(id).await, "Completed Released Verified");
        assert_eq!(w.money(id).await, "98950/0/0 1100/0/0 0");
        assert_eq!(w.fees().await, 50);
        w.f.audit_is_clean().await;
    }

    async fn a_dispute_that_nobody_decides_ends_after_three_days(f: Fixture) {
        let w = World::new(f).await;
        let id = disputed(&w).await;
        w.f.clock.advance(3 * DAY - MS);
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Disputed Held Pending");
        w.f.clock.advance(MS);
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Disputed Refunded Timeout");
        assert_eq!(w.money(id).await, "100000/0/0 100/0/0 0");
        assert_eq!((w.fees().await, reason(&w, id).await),
            (0, Some(RefundReason::VerificationFailed)));
        assert_eq!(w.settlement(id).await.method, "proof");
        assert_eq!(w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items, []);
        w.f.audit_is_clean().await;
    }
}

#[tokio::test]
async fn a_division_returns_the_deposit() {
    let w = sqlite().await;
    let id = disputed(&w).await;
    w.decide(id, Outcome::Verified, Some(400)).await.unwrap();
    assert_eq!(w.money(id).await, "99600/0/0 500/0/0 0");
    let id = disputed(&w).await;
    w.split(&w.ann, id, 100).await.unwrap();
    w.split(&w.ben, id, 100).await.unwrap();
    assert_eq!(w.money(id).await, "99500/0/0 600/0/0 0");
    assert_eq!(w.fees().await, 0);
    assert_eq!(w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items, []);
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_requester_disputes_too_and_a_loser_without_money_owes() {
    let w = sqlite().await;
    let id = failed(&w).await;
    w.dispute(&w.ann, id).await.unwrap();
    assert_eq!(w.money(id).await, "98950/0/0 100/0/0 1050");
    w.decide(id, Outcome::Verified, None).await.unwrap();
    assert_eq!(w.money(id).await, "98950/0/0 1100/0/0 0");

    let id = disputed(&w).await;
    w.empty(&w.ann).await;
    w.decide(id, Outcome::Verified, None).await.unwrap();
    assert_eq!(w.money(id).await, "0/0/50 2100/0/0 0");
    assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::PaymentDue);
    assert_eq!(w.fees().await, 50);
    w.f.fund(&w.ann, 951, 60).await;
    assert_eq!((w.money(id).await.as_str(), w.fees().await), ("10/0/0 2100/0/0 0", 100));
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_dispute_needs_a_window_a_deposit_and_nobody_before() {
    let w = sqlite().await;
    let (id, verification) = w.delivered(skep(json!({"dispute_window_s": 3600}))).await;
    let nothing = step(deal::Refusal::NothingToDispute);
    assert_eq!(w.thwarted_deal(id, w.dispute(&w.ben, id)).await, nothing);
    w.judge(verification, Outcome::Failed).await.unwrap();
    let poor = w.thwarted(id, w.dispute(&w.ben, id)).await;
    assert!(matches!(poor, Refusal::Ledger { .. }), "{poor:?}");
    w.f.fund(&w.ben, 950, 50).await;
    w.dispute(&w.ben, id).await.unwrap();
    let twice = step(deal::Refusal::DisputeOpen);
    assert_eq!(w.thwarted_deal(id, w.dispute(&w.ann, id)).await, twice);
    w.decide(id, Outcome::Rejected, None).await.unwrap();

    let id = failed(&w).await;
    w.f.clock.advance(HOUR);
    assert_eq!(w.thwarted_deal(id, w.dispute(&w.ann, id)).await, nothing);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Disputed Refunded Failed");
    assert!(!w.agreement(id).await.dispute_open);
    assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_reviewer_who_cannot_tell_makes_a_dispute_no_longer() {
    let w = sqlite().await;
    let id = disputed(&w).await;
    let deadline = w.market().review(&w.rex.id(), id).await.unwrap().review.deadline;
    for _ in 0..3 {
        w.f.clock.advance(DAY - HOUR);
        w.decide(id, Outcome::Error, None).await.unwrap();
        let review = w.market().review(&w.rex.id(), id).await.unwrap().review;
        assert_eq!((review.deadline, review.cause.as_str()), (deadline, "dispute"));
    }
    w.f.clock.advance(3 * HOUR);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Disputed Refunded Timeout");
    assert_eq!(w.money(id).await, "100000/0/0 100/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_verifier_is_paid_although_its_verdict_is_overturned() {
    let w = sqlite().await;
    w.f.fund(&w.ben, 950, 100).await;
    let terms = skep(json!({
        "verifier": w.vera.id(), "verifier_price_minor": "30", "dispute_window_s": 3600,
    }));
    let (id, verification) = w.delivered(terms).await;
    w.judge(verification, Outcome::Failed).await.unwrap();
    w.dispute(&w.ben, id).await.unwrap();
    w.decide(id, Outcome::Verified, None).await.unwrap();
    assert_eq!(w.money(id).await, "98920/0/0 1100/0/0 0");
    assert_eq!(w.f.balance(&w.vera.person).await, "30/0/0");
    w.f.audit_is_clean().await;
}

fn on_ones_word() -> Value {
    skep(json!({"auto_approve": true}))
}

async fn attested(w: &World, terms: Value) -> DealId {
    w.set_standing(&w.ben, json!({"tier": Tier::Trusted})).await;
    let id = w.agreed(terms).await;
    w.deliver(id, json!({"verification_hints": {"auto_approve": true}})).await.unwrap();
    assert_eq!(w.states(id).await, "Active Held Running");
    id
}

#[tokio::test]
async fn a_trusted_providers_word_pays_after_a_day_without_an_objection() {
    let w = sqlite().await;
    let id = attested(&w, on_ones_word()).await;
    w.f.clock.advance(DAY - MS);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Active Held Running");
    w.f.clock.advance(MS);
    let late = w.thwarted_deal(id, w.object(&w.ann, id)).await;
    assert_eq!(late, step(deal::Refusal::NothingToObject));
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Completed Released Verified");
    assert_eq!(w.settlement(id).await.method, "self_attested");
    assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn an_objection_sends_it_to_an_engine_or_to_a_reviewer() {
    let w = sqlite().await;
    let id = attested(&w, on_ones_word()).await;
    let by_provider = w.thwarted_deal(id, w.object(&w.ben, id)).await;
    assert_eq!(by_provider, DealRefusal::NotTheRequester);
    w.f.clock.advance(DAY - MS);
    let verification = w.object(&w.ann, id).await.unwrap().verification_id.unwrap();
    assert_eq!(w.verification(verification).await.kind, "artifact");
    let again = w.thwarted_deal(id, w.object(&w.ann, id)).await;
    assert_eq!(again, step(deal::Refusal::NothingToObject));
    w.judge(verification, Outcome::Failed).await.unwrap();
    assert_eq!(w.states(id).await, "Disputed Refunded Failed");
    assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");

    // What only the requester could judge is not judged by it after it has objected.
    let mut terms = on_ones_word();
    merge(&mut terms, json!({"verification_hints": {"type": "requester"}}));
    let id = attested(&w, terms).await;
    w.object(&w.ann, id).await.unwrap();
    let file = w.market().review(&w.rex.id(), id).await.unwrap();
    assert_eq!(
        (file.review.cause.as_str(), file.statements),
        ("objection", vec!["I see nothing".to_owned()])
    );
    w.decide(id, Outcome::Verified, None).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_person_judges_where_the_terms_say_so() {
    let w = sqlite().await;
    for (outcome, states, money) in [
        (Outcome::Verified, "Completed Released Verified", "99000/0/0 1000/0/0 0"),
        (Outcome::Failed, "Disputed Refunded Rejected", "99000/0/0 1000/0/0 0"),
    ] {
        let (id, _) = w.delivered(json!({"verification_hints": {"type": "human"}})).await;
        let file = w.market().review(&w.rex.id(), id).await.unwrap();
        assert_eq!((file.review.cause.as_str(), file.review.deadline), ("human", None));
        w.decide(id, outcome, None).await.unwrap();
        assert_eq!(w.states(id).await, states);
        assert_eq!(w.money(id).await, money);
    }
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_requester_judges_for_itself_for_a_day() {
    let w = sqlite().await;
    // Terms that nothing can be checked by, too.
    for hints in [json!({"type": "requester"}), json!({"type": "http", "expected_content": null})] {
        let terms = json!({"verification_hints": hints});
        let (id, verification) = w.delivered(terms.clone()).await;
        w.judge_as_requester(verification, Outcome::Rejected).await.unwrap();
        assert_eq!(w.states(id).await, "Disputed Refunded Rejected");
        assert_eq!(reason(&w, id).await, Some(RefundReason::Rejected));
        let (id, verification) = w.delivered(terms.clone()).await;
        w.judge_as_requester(verification, Outcome::Verified).await.unwrap();
        assert_eq!(w.settlement(id).await.method, "proof");
        let (id, verification) = w.delivered(terms).await;
        w.f.clock.advance(DAY - MS);
        w.run_timers().await;
        assert_eq!(w.verification(verification).await.status, VerificationStatus::Pending);
        w.f.clock.advance(MS);
        w.run_timers().await;
        assert_eq!(w.verification(verification).await.status, VerificationStatus::Timeout);
        w.decide(id, Outcome::Verified, None).await.unwrap();
    }
    assert_eq!(w.f.balance(&w.ben).await, "4000/0/0");
    w.f.audit_is_clean().await;
}

on_both_engines! {
    async fn an_error_moves_no_money_and_asks_one_more_and_then_a_person(f: Fixture) {
        let w = World::new(f).await;
        let (id, first) = w.delivered(json!({})).await;
        w.judge(first, Outcome::Error).await.unwrap();
        assert_eq!(w.states(id).await, "Active Held Pending");
        let second = id.verification(2);
        let asked = (w.verification(first).await.verifier, w.verification(second).await.verifier);
        assert_ne!(asked.0, asked.1);
        w.judge(second, Outcome::Error).await.unwrap();
        let file = w.market().review(&w.rex.id(), id).await.unwrap();
        assert_eq!((file.review.cause.as_str(), file.callbacks.len()), ("error", 2));
        assert_eq!(file.supersedes, Some(second));
        assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
        w.decide(id, Outcome::Verified, None).await.unwrap();
        assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
        let over = w.thwarted_deal(id, w.decide(id, Outcome::Rejected, None)).await;
        let reason = verification::Refusal::Over { status: VerificationStatus::Verified };
        assert_eq!(over, step(deal::Refusal::Verification { reason }));
        w.f.audit_is_clean().await;
    }

    async fn a_page_that_must_change_is_looked_at_before_the_work(f: Fixture) {
        let w = World::new(f).await;
        let delta = || json!({"verification_hints": {
            "type": "http", "url": "https://a.example/", "fingerprint_delta": true,
        }});
        let id = w.agreed(delta()).await;
        let pending = step(deal::Refusal::BaselinePending);
        assert_eq!(w.thwarted_deal(id, w.deliver(id, json!({}))).await, pending);
        let unwanted = step(deal::Refusal::NoBaselineWanted);
        assert_eq!(w.thwarted_deal(id, w.baseline(&w.ann, id)).await, unwanted);
        let by_vera = w.baseline(&w.vera.person, id).await;
        let taken = match by_vera {
            Ok(_) => &w.vera,
            Err(_) => {
                w.baseline(&w.viv.person, id).await.unwrap();
                &w.viv
            }
        };
        assert!(w.agreement(id).await.baseline_taken);
        assert_eq!(w.thwarted_deal(id, w.baseline(&taken.person, id)).await, unwanted);
        let verification = w.deliver(id, json!({})).await.unwrap().verification_id.unwrap();
        let spec = w.verification(verification).await.request.spec;
        assert_eq!(spec.baseline_fingerprint, Some(sha256(b"before")));
        w.judge(verification, Outcome::Verified).await.unwrap();
        assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");

        // Nobody took it: after five minutes the work can be delivered all the same.
        let id = w.agreed(delta()).await;
        w.f.clock.advance(5 * MINUTE - MS);
        assert_eq!(w.thwarted_deal(id, w.deliver(id, json!({}))).await, pending);
        w.f.clock.advance(MS);
        let verification = w.deliver(id, json!({})).await.unwrap().verification_id.unwrap();
        let spec = w.verification(verification).await.request.spec;
        assert_eq!((spec.fingerprint_delta, spec.baseline_fingerprint), (true, None));
        w.judge(verification, Outcome::Failed).await.unwrap();
        assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
        w.f.audit_is_clean().await;
    }
}
