//! Attacks on deals by their own sides: each ends in a refusal with a name, and nothing moved.

#[path = "attacks/proofs.rs"]
mod proofs;
#[path = "attacks/verifiers.rs"]
mod verifiers;

use serde_json::{Value, json};
use skep_base::{Amount, Asset};
use skep_market::{DealRefusal, Refusal};
use skep_settle::{Policy, criteria::CriteriaChanged, deal, negotiation, offer::PriceChanged};
use skep_store::RouteKey;
use skep_wire::settle::{NegotiationStatus, Outcome, Tier};

use crate::{deal_world::*, fixture::*, on_both_engines};

fn step(reason: deal::Refusal) -> DealRefusal {
    DealRefusal::Step { reason }
}

fn message(field: &str, problem: &str) -> DealRefusal {
    let (field, problem) = (field.to_owned(), problem.to_owned());
    DealRefusal::Message { reason: skep_settle::BadMessage { field, problem } }
}

async fn sqlite() -> World {
    World::new(Fixture::sqlite().await).await
}

#[tokio::test]
async fn nobody_deals_with_itself() {
    let w = sqlite().await;
    let by_address = json!({"provider": {"agent_id": w.ann.id()}});
    assert_eq!(w.thwarted_deal(None, w.open(by_address)).await, DealRefusal::SelfDeal);
    let did = w.market().agent(&w.ann.id().to_string()).await.unwrap().did;
    let by_did = json!({"provider": {"agent_id": did}});
    assert_eq!(w.thwarted_deal(None, w.open(by_did)).await, DealRefusal::SelfDeal);
}

#[tokio::test]
async fn nobody_asks_in_anothers_name() {
    let w = sqlite().await;
    let for_rex = json!({"requester": {"agent_id": w.rex.id()}});
    assert_eq!(w.thwarted_deal(None, w.open(for_rex)).await, DealRefusal::NotTheRequester);
    let chosen = json!({"negotiation_id": "0190a5f0-0000-7000-8000-000000000000"});
    let refused = w.thwarted_deal(None, w.open(chosen)).await;
    assert_eq!(refused, message("negotiation_id", "the marketplace gives it: leave it out"));
}

#[tokio::test]
async fn a_provider_cannot_weaken_any_criterion_in_its_delivery() {
    let w = sqlite().await;
    let all = json!({"verification_hints": {
        "type": "http", "url": "https://a.example/", "selector": "main",
        "expected_content": "hello", "custom": {"status": 200},
    }});
    let id = w.agreed(all).await;
    for (field, other) in [
        ("type", json!("artifact")),
        ("url", json!("https://b.example/")),
        ("selector", json!("body")),
        ("expected_content", json!("h")),
        ("fingerprint_delta", json!(true)),
        ("custom", json!({"status": 404})),
    ] {
        let weaker = json!({"verification_hints": {field: other}});
        let refused = w.thwarted_deal(id, w.deliver(id, weaker)).await;
        let reason = CriteriaChanged { field: field.to_owned() };
        assert_eq!(refused, DealRefusal::Criteria { reason }, "{field}");
    }
    let delta = json!({"verification_hints": {
        "type": "http", "url": "https://a.example/", "fingerprint_delta": true,
    }});
    let id = w.agreed(delta).await;
    w.f.clock.advance(HOUR);
    for (field, other) in [("fingerprint_delta", json!(false)), ("selector", json!("footer"))] {
        let weaker = json!({"verification_hints": {field: other}});
        let refused = w.thwarted_deal(id, w.deliver(id, weaker)).await;
        let reason = CriteriaChanged { field: field.to_owned() };
        assert_eq!(refused, DealRefusal::Criteria { reason });
    }
    // The same words again are no change.
    let same = json!({"verification_hints": {"type": "url", "url": "https://a.example/"}});
    w.deliver(id, same).await.unwrap();
}

#[tokio::test]
async fn a_providers_own_word_is_not_enough() {
    let word = || json!({"verification_hints": {"auto_approve": true}});
    let no = |why: &str| step(deal::Refusal::AutoApproveNotAgreed { why: why.to_owned() });
    let w = sqlite().await;
    let agreed = || json!({"metadata": {"skep": {"auto_approve": true}}});
    let trusted = json!({"tier": Tier::Trusted});

    w.set_standing(&w.ben, trusted.clone()).await;
    let id = w.agreed(json!({})).await;
    let refused = w.thwarted_deal(id, w.deliver(id, word())).await;
    assert_eq!(refused, no("the requester has not agreed to it in the terms"));

    w.set_standing(&w.ben, json!({"tier": Tier::Verified})).await;
    let id = w.agreed(agreed()).await;
    let refused = w.thwarted_deal(id, w.deliver(id, word())).await;
    assert_eq!(refused, no("the provider is not TRUSTED"));

    w.set_standing(&w.ben, trusted).await;
    w.f.fund(&w.ann, 901, 60_000_000).await;
    let mut dear = agreed();
    merge(&mut dear, json!({"request": {"budget_amount": 50.000001}}));
    let id = w.agreed(dear).await;
    let refused = w.thwarted_deal(id, w.deliver(id, word())).await;
    assert_eq!(refused, no("the price is above the limit for it"));

    let id = w.open(json!({})).await.unwrap();
    let counter = w.respond(&w.ben, id, "COUNTERED", agreed());
    let refused = w.thwarted_deal(id, counter).await;
    let problem = "only the requester can offer to take the provider's word";
    assert_eq!(refused, message("metadata.skep.auto_approve", problem));
    let hints = json!({"verification_hints": {"type": "self_attested", "url": "https://a/"}});
    let refused = w.thwarted_deal(None, w.open(hints)).await;
    let problem = "the provider's word is agreed on by auto_approve";
    assert_eq!(refused, message("verification_hints.type", problem));
}

#[tokio::test]
async fn only_the_provider_delivers() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    let by_requester = w.deliver_as(&w.ann, id, json!({}));
    assert_eq!(w.thwarted_deal(id, by_requester).await, DealRefusal::NotTheProvider);
    let by_stranger = w.deliver_as(&w.rex.person, id, json!({}));
    assert_eq!(w.thwarted_deal(id, by_stranger).await, DealRefusal::UnknownDeal { deal: id });
    let for_another = json!({"provider": {"agent_id": w.rex.id()}});
    let refused = w.thwarted_deal(id, w.deliver(id, for_another)).await;
    assert_eq!(refused, message("provider.agent_id", "whoever delivers signs as itself"));
    let elsewhere = json!({"escrow_id": w.agreed(json!({})).await});
    let refused = w.thwarted_deal(id, w.deliver(id, elsewhere)).await;
    assert_eq!(refused, message("escrow_id", "it is not the escrow of this negotiation"));
}

#[tokio::test]
async fn a_stranger_cannot_tell_a_deal_from_none() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    let unknown = DealRefusal::UnknownDeal { deal: id };
    let stranger = &w.rex.person;
    assert_eq!(w.thwarted_deal(id, w.cancel(stranger, id)).await, unknown);
    assert_eq!(w.thwarted_deal(id, w.split(stranger, id, 0)).await, unknown);
    assert_eq!(w.thwarted_deal(id, w.dispute(stranger, id)).await, unknown);
    assert_eq!(w.thwarted_deal(id, w.object(stranger, id)).await, unknown);
    let accept = w.respond(stranger, id, "ACCEPTED", json!({}));
    assert_eq!(w.thwarted_deal(id, accept).await, unknown);
    let by = stranger.id();
    let seen = w.market().agreement(&by, id);
    assert_eq!(w.thwarted_deal(id, seen).await, unknown);
    let no_baseline = step(deal::Refusal::NoBaselineWanted);
    assert_eq!(w.thwarted_deal(id, w.baseline(stranger, id)).await, no_baseline);
    let from = w.agreement(id).await.deadline.plus(HOUR);
    let too_early = step(deal::Refusal::DeadlineNotPassed { from });
    assert_eq!(w.thwarted_deal(id, w.refund(stranger, id)).await, too_early);
}

on_both_engines! {
    async fn a_requester_without_funds_closes_nothing_until_it_has_some(f: Fixture) {
        let w = World::new(f).await;
        let id = w.open(json!({"request": {"budget_amount": 0.1005}})).await.unwrap();
        let accept = || w.respond(&w.ben, id, "ACCEPTED", json!({}));
        let refused = w.thwarted_deal(id, accept()).await;
        let (needed_minor, available_minor) = (100_500, 100_000);
        assert_eq!(refused, DealRefusal::FundingFailed { needed_minor, available_minor });
        let before = w.market().negotiation(&w.ann.id(), id).await.unwrap();
        assert_eq!((before.status, before.messages.len()), (NegotiationStatus::Pending, 1));
        w.f.fund(&w.ann, 901, 500).await;
        accept().await.unwrap();
        assert_eq!(w.money(id).await, "0/0/0 0/0/0 100500");
        w.f.audit_is_clean().await;
    }

    async fn the_ids_of_a_deals_money_cannot_be_taken_or_used_by_others(f: Fixture) {
        let w = World::new(f).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let reserve = json!({"metadata": {"skep": {"remainder_policy": "reserve"}}});
        let id = w.open(reserve).await.unwrap();
        // Whoever knows a deal's id knows the ids of its transfers. They are in another place.
        for label in ["hold", "release", "refund", "remainder_paid"] {
            let taken = skep_wire::wallet::NewTransfer {
                id: id.transfer(label), ..payment(0, &w.rex.person, 1)
            };
            w.f.pay(&w.ann.signed(label), taken).await.unwrap();
        }
        w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
        assert_eq!(w.money(id).await, "98996/560/0 0/0/0 440");
        let aside = id.transfer("remainder");
        let unknown = Refusal::UnknownTransfer { id: aside };
        let (post, void) = (w.ann.signed("post"), w.ben.signed("void"));
        let request = skep_wire::wallet::PostTransfer { money: None };
        let by_payer = w.market().transfer_post(&post, aside, request);
        assert_eq!(w.thwarted(id, by_payer).await, unknown);
        let by_payee = w.market().transfer_void(&void, aside);
        assert_eq!(w.thwarted(id, by_payee).await, unknown);
        assert!(w.market().store().transfer(RouteKey::of(id), aside).await.unwrap().is_some());
        let verification = w.deliver(id, json!({})).await.unwrap().verification_id.unwrap();
        w.judge(verification, Outcome::Verified).await.unwrap();
        assert_eq!(w.money(id).await, "98996/0/0 1000/0/0 0");
        w.f.audit_is_clean().await;
    }
}

#[tokio::test]
async fn another_price_is_no_acceptance() {
    let w = sqlite().await;
    let id = w.open(json!({})).await.unwrap();
    let reason = PriceChanged { on_the_table: usdc(PRICE) };
    for other in [
        json!({"amount": 0.002}),
        json!({"amount_minor": "2000"}),
        json!({"amount": 0.001, "amount_minor": "999"}),
        json!({"currency": "USD"}),
        json!({"amount": 0.0010000001}),
    ] {
        let said = json!({"counter_terms": other});
        let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", said)).await;
        assert_eq!(refused, DealRefusal::Price { reason });
    }
    let same = json!({"counter_terms": {"amount": 0.00100, "amount_minor": "1000"}});
    w.respond(&w.ben, id, "ACCEPTED", same).await.unwrap();
}

#[tokio::test]
async fn only_the_side_that_was_asked_accepts_once_and_in_time() {
    let w = sqlite().await;
    let talks = |reason| DealRefusal::Talks { reason };
    let id = w.open(json!({})).await.unwrap();
    let own = w.respond(&w.ann, id, "ACCEPTED", json!({}));
    assert_eq!(w.thwarted_deal(id, own).await, talks(negotiation::Refusal::NotYourTurn));
    let own = w.respond(&w.ann, id, "COUNTERED", json!({"counter_terms": {"amount": 0.5}}));
    assert_eq!(w.thwarted_deal(id, own).await, talks(negotiation::Refusal::NotYourTurn));

    let other = w.open(json!({})).await.unwrap();
    let elsewhere = w.respond(&w.ben, id, "ACCEPTED", json!({"negotiation_id": other}));
    assert_eq!(w.thwarted_deal(id, elsewhere).await, DealRefusal::UnknownDeal { deal: other });

    w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
    for who in [&w.ben, &w.ann] {
        for word in ["ACCEPTED", "REJECTED", "DECLINED"] {
            let again = w.respond(who, id, word, json!({}));
            assert_eq!(w.thwarted_deal(id, again).await, talks(negotiation::Refusal::Closed));
        }
    }

    let expired_at = w.f.now().plus(24 * HOUR);
    w.f.clock.advance(24 * HOUR - MS);
    let just_in_time = w.open(json!({})).await.unwrap();
    w.f.clock.advance(MS);
    let late = w.respond(&w.ben, other, "ACCEPTED", json!({}));
    let expired = talks(negotiation::Refusal::Expired { expired_at });
    assert_eq!(w.thwarted_deal(other, late).await, expired);
    w.respond(&w.ben, just_in_time, "ACCEPTED", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_deadline_in_the_past_closes_nothing() {
    let w = sqlite().await;
    let deadline = w.f.now().plus(HOUR);
    let id = w.open(json!({"request": {"deadline_utc": deadline}})).await.unwrap();
    w.f.clock.advance(HOUR);
    let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
    assert_eq!(refused, DealRefusal::DeadlineInPast { deadline });
    let late = json!({"metadata": {"skep": {"offer_expires_at": w.f.now()}}});
    let refused = w.thwarted_deal(None, w.open(late)).await;
    assert_eq!(refused, DealRefusal::BadExpiry { expires_at: w.f.now() });
}

#[tokio::test]
async fn after_a_rotation_the_requesters_money_stays_for_a_day() {
    let mut w = sqlite().await;
    let id = w.open(json!({})).await.unwrap();
    let new_key = w.ann.other_key(1);
    w.f.change(&w.ann, w.ann.rotate(&new_key, w.f.now())).await.unwrap();
    let old = w.thwarted(id, w.respond(&w.ann, id, "REJECTED", json!({}))).await;
    assert_eq!(old, Refusal::KeyNotCurrent);
    w.ann.key = new_key;
    let until = w.f.now().plus(24 * HOUR);
    let accept = || w.respond(&w.ben, id, "ACCEPTED", json!({}));
    assert_eq!(w.thwarted(id, accept()).await, Refusal::MoneyFrozen { until });
    let longer = json!({"counter_terms": {"amount": 0.0011}});
    w.respond(&w.ben, id, "COUNTERED", longer).await.unwrap();
    let yes = w.respond(&w.ann, id, "ACCEPTED", json!({}));
    assert_eq!(w.thwarted(id, yes).await, Refusal::MoneyFrozen { until });
    w.f.clock.advance(24 * HOUR - MS);
    let yes = w.respond(&w.ann, id, "ACCEPTED", json!({}));
    assert_eq!(w.thwarted(id, yes).await, Refusal::MoneyFrozen { until });
    w.f.clock.advance(MS);
    let expired = w.respond(&w.ann, id, "ACCEPTED", json!({})).await;
    assert!(matches!(deal_refusal(expired), DealRefusal::Talks { .. }));
    let id = w.open(json!({})).await.unwrap();
    w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
}

/// A world in which ann owes ben 560: she promised it for a release, and a holder had all she had.
async fn with_a_debt(policy: Policy) -> World {
    let w = World::with_policy(Fixture::sqlite().await, policy).await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let (_, verification) = w.delivered(json!({})).await;
    w.set_standing(&w.ben, json!({})).await;
    w.empty(&w.ann).await;
    w.judge(verification, Outcome::Verified).await.unwrap();
    assert_eq!(w.f.balance(&w.ann).await, "0/0/560");
    w
}

#[tokio::test]
async fn a_debtor_opens_accepts_and_spends_nothing() {
    let w = with_a_debt(Policy::default()).await;
    let in_debt = Refusal::InDebt { owed_minor: 560 };
    assert_eq!(w.thwarted(None, w.open(json!({}))).await, in_debt);
    let pay = w.ann.signed("pay");
    assert_eq!(w.thwarted(None, w.f.pay(&pay, payment(7, &w.ben, 1))).await, in_debt);

    // As a provider either: what somebody else asks of it stays unanswered.
    let (ann, ben) = (w.ann.id(), w.ben.id());
    w.f.fund(&w.ben, 990, 5_000).await;
    let asked = w.open_as(
        &w.ben,
        json!({
            "requester": {"agent_id": ben}, "provider": {"agent_id": ann},
        }),
    );
    let id = asked.await.unwrap();
    let refused = w.thwarted(id, w.respond(&w.ann, id, "ACCEPTED", json!({}))).await;
    assert_eq!(refused, in_debt);
    w.f.fund(&w.ann, 991, 560).await;
    assert_eq!(w.f.balance(&w.ann).await, "0/0/0");
    w.respond(&w.ann, id, "ACCEPTED", json!({})).await.unwrap();
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn an_offer_that_was_open_before_the_debt_is_not_closed_either() {
    let w = sqlite().await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let (_, verification) = w.delivered(json!({})).await;
    let open = w.open(json!({})).await.unwrap();
    w.empty(&w.ann).await;
    w.judge(verification, Outcome::Verified).await.unwrap();
    let refused = w.thwarted(open, w.respond(&w.ben, open, "ACCEPTED", json!({}))).await;
    assert_eq!(refused, Refusal::InDebt { owed_minor: 560 });
}

#[tokio::test]
async fn more_than_the_price_is_never_divided() {
    let w = sqlite().await;
    let (id, _) = w.delivered(json!({})).await;
    let bad = step(deal::Refusal::BadSplit);
    assert_eq!(w.thwarted_deal(id, w.split(&w.ben, id, PRICE + 1)).await, bad);
    // The same side twice agrees with nobody.
    w.split(&w.ben, id, PRICE).await.unwrap();
    w.split(&w.ben, id, PRICE).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
    w.split(&w.ann, id, PRICE - 1).await.unwrap();
    w.split(&w.ben, id, PRICE).await.unwrap();
    assert_eq!(w.states(id).await, "Active Held Pending");
}

#[tokio::test]
async fn amounts_that_cannot_be_are_refused_at_the_door() {
    let w = sqlite().await;
    let refused = async |more: Value| match w.thwarted_deal(None, w.open(more)).await {
        DealRefusal::Message { reason } => reason.field,
        other => panic!("{other:?}"),
    };
    let budget = |amount: Value| json!({"request": {"budget_amount": amount}});
    assert_eq!(refused(budget(json!(0))).await, "request.budget_amount");
    assert_eq!(refused(budget(json!(0.0000001))).await, "request.budget_amount");
    assert_eq!(refused(budget(json!(-1))).await, "request.budget_amount");
    let twice = json!({"request": {"budget_amount_minor": "999"}});
    assert_eq!(refused(twice).await, "request.budget_amount");
    let id = w.open(json!({"metadata": {"skep": {
        "verifier_price_minor": Amount::MAX.to_string(),
    }}}));
    let id = id.await.unwrap();
    let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
    let problem = "price, fee and verifier's price are too large together";
    assert_eq!(refused, message("request.budget_amount", problem));
    assert_eq!(Asset::USDC.exponent(), 6);
}
