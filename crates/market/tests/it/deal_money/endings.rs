//! Deals that end without a verdict: cancelled, too late, failed, or divided.

use serde_json::json;
use skep_market::DealRefusal;
use skep_settle::{Policy, deal::Refusal};
use skep_wire::settle::{Outcome, RefundReason};

use super::{DAY, MINUTE, reason, skep, sqlite};
use crate::{deal_world::*, fixture::*};

const BACK: &str = "100000/0/0 0/0/0 0";

#[tokio::test]
async fn a_provider_cancels_at_any_time_before_delivery() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    w.f.clock.advance(7 * DAY);
    w.cancel(&w.ben, id).await.unwrap();
    assert_eq!(w.states(id).await, "Cancelled Refunded -");
    assert_eq!(reason(&w, id).await, Some(RefundReason::CancelledByProvider));
    assert_eq!(w.money(id).await, BACK);
    let again = w.thwarted_deal(id, w.cancel(&w.ben, id)).await;
    assert_eq!(again, DealRefusal::Step { reason: Refusal::AlreadySettled });
    let (id, _) = w.delivered(json!({})).await;
    let refused = w.thwarted_deal(id, w.cancel(&w.ben, id)).await;
    assert_eq!(refused, DealRefusal::Step { reason: Refusal::Delivered { at: w.f.now() } });
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_requester_thinks_again_for_a_quarter_of_an_hour_and_asks_after() {
    let w = sqlite().await;
    let (first, second) = (w.agreed(json!({})).await, w.agreed(json!({})).await);
    w.f.clock.advance(15 * MINUTE - MS);
    w.cancel(&w.ann, first).await.unwrap();
    assert_eq!(reason(&w, first).await, Some(RefundReason::CancelledByRequester));
    w.f.clock.advance(MS);
    w.cancel(&w.ann, second).await.unwrap();
    assert_eq!(w.states(second).await, "Active Held -");
    assert!(w.agreement(second).await.cancel_asked);
    assert_eq!(w.money(second).await, "99000/0/0 0/0/0 1000");
    w.cancel(&w.ben, second).await.unwrap();
    assert_eq!(reason(&w, second).await, Some(RefundReason::Agreed));
    assert_eq!(w.money(second).await, BACK);

    let third = w.agreed(json!({})).await;
    w.f.clock.advance(7 * DAY - MS);
    w.cancel(&w.ann, third).await.unwrap();
    assert_eq!(w.states(third).await, "Active Held -");
    w.f.clock.advance(MS);
    w.cancel(&w.ann, third).await.unwrap();
    assert_eq!(reason(&w, third).await, Some(RefundReason::DeadlineMissed));
    assert_eq!(w.money(third).await, BACK);
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn an_hour_after_the_deadline_anybody_asks_for_the_refund_and_nobody_delivers() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    let other = w.agreed(json!({})).await;
    w.f.clock.advance(7 * DAY + HOUR - MS);
    w.deliver(other, json!({})).await.unwrap();
    w.f.clock.advance(MS);
    let deadline = w.f.now();
    let late = w.thwarted_deal(id, w.deliver(id, json!({}))).await;
    assert_eq!(late, DealRefusal::Step { reason: Refusal::DeadlinePassed { deadline } });
    w.refund(&w.rex.person, id).await.unwrap();
    assert_eq!(w.states(id).await, "Cancelled Refunded -");
    assert_eq!(reason(&w, id).await, Some(RefundReason::DeadlineMissed));
    let refused = w.thwarted_deal(other, w.refund(&w.ann, other)).await;
    let at = deadline.minus(MS);
    assert_eq!(refused, DealRefusal::Step { reason: Refusal::Delivered { at } });
    assert_eq!(w.money(id).await, "99000/0/0 0/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_provider_who_gives_up_refunds() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    let answer = w.deliver(id, json!({"delivery": {"status": "failed"}})).await.unwrap();
    assert_eq!(answer.verification_id, None);
    assert_eq!(w.states(id).await, "Cancelled Refunded -");
    assert_eq!(reason(&w, id).await, Some(RefundReason::DeliveryFailed));
    assert_eq!(w.money(id).await, BACK);
    // A part of the work is judged as all of it.
    let id = w.agreed(json!({})).await;
    let partial = json!({"delivery": {"status": "partial"}});
    let verification = w.deliver(id, partial).await.unwrap().verification_id.unwrap();
    w.judge(verification, Outcome::Verified).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn both_sides_divide_the_price_whenever_they_agree() {
    let w = sqlite().await;
    let (mut ann, mut ben) = (100_000, 0);
    for released in [0, 1, 400, PRICE] {
        // Before delivery, while a verifier looks, and in review.
        for stage in 0..3 {
            let hints = json!({"verification_hints": {
                "type": if stage == 2 { "human" } else { "artifact" },
            }});
            let id = w.agreed(hints).await;
            if stage > 0 {
                w.deliver(id, json!({})).await.unwrap();
            }
            w.split(&w.ann, id, released).await.unwrap();
            w.split(&w.ben, id, released).await.unwrap();
            (ann, ben) = (ann - released, ben + released);
            assert_eq!(w.money(id).await, format!("{ann}/0/0 {ben}/0/0 0"));
            let settlement = w.settlement(id).await;
            assert_eq!(settlement.method, "agreed");
            assert_eq!(settlement.released_minor.minor(), released);
            let agreed = (released == 0).then_some(RefundReason::Agreed);
            assert_eq!(reason(&w, id).await, agreed);
        }
    }
    assert_eq!(w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items, []);
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_review_that_nobody_decides_refunds_if_that_was_agreed() {
    let w = sqlite().await;
    let agreed = || skep(json!({"review_deadline_s": 7200}));
    let (id, verification) = w.delivered(agreed()).await;
    w.f.clock.advance(30 * MINUTE);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Active Held Pending");
    w.f.clock.advance(2 * HOUR - MS);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Active Held Pending");
    w.f.clock.advance(MS);
    let late = w.thwarted_deal(id, w.decide(id, Outcome::Verified, None)).await;
    assert!(matches!(late, DealRefusal::Step { reason: Refusal::Verification { .. } }));
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Cancelled Refunded Timeout");
    assert_eq!(reason(&w, id).await, Some(RefundReason::ReviewDeadline));
    assert_eq!(w.settlement(id).await.method, "none");
    assert_eq!(w.money(id).await, BACK);
    assert_eq!(w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items, []);
    let late = w.thwarted_deal(id, w.judge(verification, Outcome::Verified)).await;
    assert!(matches!(late, DealRefusal::Step { reason: Refusal::Verification { .. } }));
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn an_operator_may_set_when_a_review_refunds() {
    let policy = Policy { review_deadline_s: Some(60), ..Policy::default() };
    let w = World::with_policy(Fixture::sqlite().await, policy).await;
    let (id, _) = w.delivered(json!({"verification_hints": {"type": "human"}})).await;
    w.f.clock.advance(MINUTE);
    w.run_timers().await;
    assert_eq!(w.states(id).await, "Cancelled Refunded Timeout");
    assert_eq!(w.money(id).await, BACK);
}
