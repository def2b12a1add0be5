//! Many callers at once: an escrow closes once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use skep_base::{Amount, Asset, id::DealId};
use skep_market::{Answered, DealAnswer, DealRefusal, Failure, NegotiationAnswer, Refusal, Signed};
use skep_settle::negotiation;
use skep_wire::settle::{EscrowStatus, NegotiationStatus, Outcome, ServiceDelivery, Split};
use tokio::task::JoinSet;

use crate::{deal_world::*, fixture::*, on_both_engines};

/// Runs all of them at the same time, and gives what each said.
async fn at_once<T: Send + 'static>(
    callers: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut running = JoinSet::new();
    for caller in callers {
        running.spawn(caller);
    }
    running.join_all().await
}

/// `ok` or the refusal's name. Anything else is a bug.
fn word<T>(said: &Result<T, Failure>) -> String {
    match said {
        Ok(_) => "ok".to_owned(),
        Err(Failure::Refused(Refusal::Deal { reason: DealRefusal::Step { reason } })) => {
            let name = format!("{reason:?}");
            name.split([' ', '{']).next().unwrap_or_default().to_owned()
        }
        Err(other) => panic!("{other}: {other:?}"),
    }
}

fn tally<T>(said: &[Result<T, Failure>]) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for said in said {
        *words.entry(word(said)).or_default() += 1;
    }
    words
}

fn delivery(w: &World, id: DealId) -> (Signed, ServiceDelivery, Value) {
    let raw = w.delivery(&w.ben, id, json!({}));
    let message = serde_json::from_str(&raw.to_string()).unwrap();
    (w.ben.signed(&raw.to_string()), message, raw)
}

/// How often the log says that this deal's escrow closed, and how often its receipt was written.
async fn times_settled(w: &World, id: DealId) -> usize {
    w.f.kinds().await;
    let log = w.market().events(0, 5000).await.unwrap().items;
    let closing = [
        "escrow.released",
        "escrow.refunded",
        "agreement.cancelled",
        "agreement.split",
        "delivery.failed",
    ];
    let of_deal = log.iter().filter(|event| event.route == id.to_string());
    of_deal.filter(|event| closing.contains(&event.kind.as_str())).count()
}

on_both_engines! {
    async fn thirty_two_cancel_and_thirty_two_deliver(f: Fixture) {
        let w = World::new(f).await;
        for round in 0..3 {
            let id = w.agreed(json!({})).await;
            let mut callers = Vec::new();
            for n in 0..64 {
                let market = w.market().clone();
                let cancel = w.ben.signed(&format!("cancel {n}"));
                let (signed, message, raw) = delivery(&w, id);
                let cancels = (n + round) % 2 == 0;
                callers.push(async move {
                    let said: Result<DealAnswer, Failure> = match cancels {
                        true => market.deal_cancel(&cancel, id).await.map(|a| a.value),
                        false => market.deal_deliver(&signed, message, raw).await.map(|a| a.value),
                    };
                    (cancels, said)
                });
            }
            let said = at_once(callers).await;
            let (cancels, deliveries): (Vec<_>, Vec<_>) = said.into_iter().partition(|(c, _)| *c);
            let cancels: Vec<_> = cancels.into_iter().map(|(_, said)| said).collect();
            let deliveries: Vec<_> = deliveries.into_iter().map(|(_, said)| said).collect();
            let (cancels, deliveries) = (tally(&cancels), tally(&deliveries));
            let agreement = w.agreement(id).await;
            if agreement.escrow_status == EscrowStatus::Refunded {
                let late = |n| ("AlreadySettled".to_owned(), n);
                assert_eq!(cancels, [late(31), ("ok".to_owned(), 1)].into());
                assert_eq!(deliveries, [late(32)].into());
                assert!(agreement.verifications.is_empty());
                assert_eq!(times_settled(&w, id).await, 1);
            } else {
                assert_eq!(cancels, [("Delivered".to_owned(), 32)].into());
                assert_eq!(deliveries, [("ok".to_owned(), 32)].into());
                assert_eq!(agreement.verifications.len(), 1);
                assert_eq!(times_settled(&w, id).await, 0);
                w.judge(agreement.verifications[0], Outcome::Failed).await.unwrap();
            }
            assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
        }
        w.f.audit_is_clean().await;
    }

    async fn sixty_four_settle_in_different_ways_and_one_does(f: Fixture) {
        let w = World::new(f).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let (mut ann, mut ben, mut vera) = (100_000, 0, 0);
        for round in 0..4 {
            let policy = if round % 2 == 0 { "on_release" } else { "reserve" };
            let terms = json!({"metadata": {"skep": {
                "remainder_policy": policy, "verifier": w.vera.id(), "verifier_price_minor": "30",
            }}});
            let (id, verification) = w.delivered(terms).await;
            w.split(&w.ann, id, 400).await.unwrap();
            let good = w.verdict(verification, Outcome::Verified).await;
            let bad = w.verdict(verification, Outcome::Failed).await;
            let mut callers = Vec::new();
            for n in 0..64 {
                let market = w.market().clone();
                let (by_ben, by_ann) = (w.ben.signed("split"), w.ann.signed("refund"));
                let message = if n % 4 == 2 { good.clone() } else { bad.clone() };
                callers.push(async move {
                    let split = Split { released_minor: Amount::new(400).unwrap() };
                    let said = match (n + round) % 4 {
                        0 => market.deal_split(&by_ben, id, split).await.map(|a| a.value.escrow),
                        1 => market.deal_refund(&by_ann, id).await.map(|a| a.value.escrow),
                        _ => {
                            let raw = serde_json::to_value(&message).unwrap();
                            market.callback(verification, message, raw).await.map(|t| t.escrow)
                        }
                    };
                    word(&said)
                });
            }
            let words = at_once(callers).await;
            assert!(words.iter().any(|word| word == "ok"), "{words:?}");
            let settlement = w.settlement(id).await;
            let (released, paid) = match (settlement.method.as_str(), settlement.status) {
                ("agreed", EscrowStatus::Released) => (400, 0),
                ("proof", EscrowStatus::Released) => (1000, 30),
                ("proof", EscrowStatus::Refunded) => (0, 30),
                other => panic!("{other:?}"),
            };
            (ann, ben, vera) = (ann - released - paid, ben + released, vera + paid);
            assert_eq!(w.money(id).await, format!("{ann}/0/0 {ben}/0/0 0"));
            assert_eq!(times_settled(&w, id).await, 1);
        }
        let balance = w.f.balance(&w.vera.person).await.replace("none", "0/0/0");
        assert_eq!(balance, format!("{vera}/0/0"));
        w.f.audit_is_clean().await;
    }

    async fn a_missed_deadline_refunds_once_whoever_asks(f: Fixture) {
        let w = World::new(f).await;
        let id = w.agreed(json!({})).await;
        w.f.clock.advance(7 * 24 * HOUR + HOUR);
        let mut callers = Vec::new();
        for n in 0..64 {
            let market = w.market().clone();
            let signed = [&w.ann, &w.ben, &w.rex.person][n % 3].signed("refund");
            callers.push(async move {
                let said = match n % 4 {
                    0 => market.do_due_jobs().await.map(|_| false),
                    1 if n % 3 < 2 => market.deal_cancel(&signed, id).await.map(|_| true),
                    _ => market.deal_refund(&signed, id).await.map(|_| true),
                };
                said.or_else(|failure| match word(&Err::<(), _>(failure)).as_str() {
                    "AlreadySettled" => Ok(false),
                    other => Err(other.to_owned()),
                })
            });
        }
        let settled = at_once(callers).await.into_iter().filter(|said| *said.as_ref().unwrap());
        assert!(settled.count() <= 1);
        w.run_timers().await;
        assert_eq!(w.states(id).await, "Cancelled Refunded -");
        assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
        assert_eq!(times_settled(&w, id).await, 1);
        w.f.audit_is_clean().await;
    }

    async fn the_same_callback_a_thousand_times_settles_once(f: Fixture) {
        let w = World::new(f).await;
        let (id, verification) = w.delivered(json!({})).await;
        let message = w.verdict(verification, Outcome::Verified).await;
        let mut firsts = 0;
        for _ in 0..20 {
            let callers = (0..50).map(|_| {
                let (market, message) = (w.market().clone(), message.clone());
                async move {
                    let raw = serde_json::to_value(&message).unwrap();
                    market.callback(verification, message, raw).await
                }
            });
            for taken in at_once(callers).await {
                let taken = taken.unwrap();
                assert_eq!(taken.escrow, EscrowStatus::Released);
                firsts += usize::from(!taken.duplicate);
            }
        }
        assert_eq!(firsts, 1);
        assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
        assert_eq!(times_settled(&w, id).await, 1);
        w.f.audit_is_clean().await;
    }

    async fn the_same_delivery_many_times_asks_one_verifier_once(f: Fixture) {
        let w = World::new(f).await;
        let id = w.agreed(json!({})).await;
        let callers = (0..32).map(|_| {
            let (market, (signed, message, raw)) = (w.market().clone(), delivery(&w, id));
            async move { market.deal_deliver(&signed, message, raw).await.unwrap().value }
        });
        let said = at_once(callers.collect::<Vec<_>>()).await;
        assert!(said.windows(2).all(|two| two[0] == two[1]), "{said:?}");
        assert_eq!(w.agreement(id).await.verifications, [id.verification(1)]);
        let kinds = w.f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "delivery.received").count(), 1);
    }

    async fn sixteen_accept_and_one_does(f: Fixture) {
        let w = World::new(f).await;
        let id = w.open(json!({})).await.unwrap();
        let said = at_once((0..16).map(|_| accept(&w, id)).collect::<Vec<_>>()).await;
        let closed = DealRefusal::Talks { reason: negotiation::Refusal::Closed };
        let mut accepted = 0;
        for said in said {
            match said {
                Ok(answer) => {
                    assert_eq!(answer.value.status, NegotiationStatus::Accepted);
                    accepted += 1;
                }
                refused => assert_eq!(deal_refusal(refused), closed),
            }
        }
        assert_eq!(accepted, 1);
        assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
        w.f.audit_is_clean().await;
    }

    async fn no_more_is_held_than_there_is(f: Fixture) {
        let w = World::new(f).await;
        let mut ids = Vec::new();
        for _ in 0..16 {
            ids.push(w.open(json!({"request": {"budget_amount": 0.019}})).await.unwrap());
        }
        let said = at_once(ids.iter().map(|id| accept(&w, *id)).collect::<Vec<_>>()).await;
        let held = said.iter().filter(|said| said.is_ok()).count();
        for refused in said.into_iter().filter(Result::is_err) {
            let refused = deal_refusal(refused);
            assert!(matches!(refused, DealRefusal::FundingFailed { .. }), "{refused:?}");
        }
        assert_eq!(held, 5);
        assert_eq!(w.f.balance(&w.ann).await, "5000/0/0");
        w.f.audit_is_clean().await;
    }

    async fn promises_and_advances_are_counted_one_after_the_other(f: Fixture) {
        let w = World::new(f).await;
        let (_, verification) = w.delivered(json!({})).await;
        w.judge(verification, Outcome::Verified).await.unwrap();
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        for (policy, most) in [("on_release", 16), ("advance", 1)] {
            let mut ids = Vec::new();
            for _ in 0..16 {
                let terms = json!({"metadata": {"skep": {"remainder_policy": policy}}});
                ids.push(w.open(terms).await.unwrap());
            }
            let said = at_once(ids.iter().map(|id| accept(&w, *id)).collect::<Vec<_>>()).await;
            let accepted: Vec<DealId> = ids
                .iter()
                .zip(were_accepted(&w, &ids).await)
                .filter(|(_, accepted)| *accepted)
                .map(|(id, _)| *id)
                .collect();
            assert_eq!(said.iter().filter(|said| said.is_ok()).count(), accepted.len());
            assert_eq!(accepted.len(), most, "{policy}");
            let open = |record: skep_market::AgentRecord| match policy {
                "advance" => record.open_advances,
                _ => record.open_remainders,
            };
            let owner = if policy == "advance" { &w.ben } else { &w.ann };
            let counted = open(w.f.record(owner).await)[&Asset::USDC].minor();
            assert_eq!(counted, 560 * i64::try_from(most).unwrap());
            let callers = accepted.iter().map(|id| {
                let (market, signed, id) = (w.market().clone(), w.ben.signed("cancel"), *id);
                async move { market.deal_cancel(&signed, id).await.unwrap() }
            });
            at_once(callers.collect::<Vec<_>>()).await;
            assert!(open(w.f.record(owner).await).is_empty());
            assert_eq!(w.f.balance(&w.ann).await, "99000/0/0");
            assert_eq!(w.f.balance(&w.ben).await, "1000/0/0");
        }
        w.f.audit_is_clean().await;
    }
}

/// Ben's acceptance, ready to run beside others.
fn accept(
    w: &World,
    id: DealId,
) -> impl Future<Output = Result<Answered<NegotiationAnswer>, Failure>> + Send + 'static {
    let raw = json!({
        "vcap_version": "1.0", "message_type": "negotiation_response",
        "negotiation_id": id, "response_status": "ACCEPTED",
    });
    let (market, signed) = (w.market().clone(), w.ben.signed(&raw.to_string()));
    let message = serde_json::from_value(raw.clone()).unwrap();
    async move { market.negotiation_respond(&signed, id, message, raw).await }
}

/// Which of them were accepted.
async fn were_accepted(w: &World, ids: &[DealId]) -> Vec<bool> {
    let mut accepted = Vec::new();
    for id in ids {
        let status = w.market().negotiation(&w.ann.id(), *id).await.unwrap().status;
        accepted.push(status == NegotiationStatus::Accepted);
    }
    accepted
}
