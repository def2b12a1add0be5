//! How far promises and advances may go.

use serde_json::json;
use skep_market::{DealRefusal, Refusal};
use skep_settle::Policy;

use super::{DAY, End, end, priced, skep, sqlite};
use crate::{deal_world::*, fixture::*};

#[tokio::test]
async fn what_is_promised_is_not_spent() {
    let w = sqlite().await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let id = w.agreed(priced(0.1)).await;
    assert_eq!(w.money(id).await, "56000/0/0 0/0/0 44000");
    let promised = Refusal::Promised { promised_minor: 56_000 };
    let pay = |n: u64| w.ann.signed(&format!("pay {n}"));
    for transfer in [payment(1, &w.rex.person, 1), hold(2, &w.rex.person, 1)] {
        let signed = pay(1);
        assert_eq!(w.thwarted(id, w.f.pay(&signed, transfer)).await, promised);
    }
    w.f.fund(&w.ann, 901, 10).await;
    let signed = pay(2);
    w.f.pay(&signed, payment(3, &w.rex.person, 10)).await.unwrap();
    end(&w, id, End::Refund).await;
    let signed = pay(3);
    w.f.pay(&signed, payment(4, &w.rex.person, 100_000)).await.unwrap();
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn open_promises_stay_under_a_multiple_of_what_is_free() {
    let policy = Policy { remainder_multiple: 1, ..Policy::default() };
    let w = World::with_policy(Fixture::sqlite().await, policy).await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let first = w.agreed(priced(0.06)).await;
    assert_eq!(w.money(first).await, "73600/0/0 0/0/0 26400");
    let accept = |id| w.respond(&w.ben, id, "ACCEPTED", json!({}));
    let id = w.open(priced(0.06)).await.unwrap();
    let limit = DealRefusal::RemainderLimit { limit_minor: 47_200, would_be_minor: 67_200 };
    assert_eq!(w.thwarted_deal(id, accept(id)).await, limit);
    // Neither does a deal that promises nothing itself take what others rely on.
    for (policy, modifier) in [("on_release", 10_000), ("reserve", 4400)] {
        w.set_standing(&w.ben, json!({"modifier_e4": modifier})).await;
        let mut terms = priced(0.05);
        merge(&mut terms, skep(json!({"remainder_policy": policy})));
        let id = w.open(terms).await.unwrap();
        let limit = DealRefusal::RemainderLimit { limit_minor: 23_600, would_be_minor: 33_600 };
        assert_eq!(w.thwarted_deal(id, accept(id)).await, limit, "{policy}");
    }
    end(&w, first, End::Refund).await;
    w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
    w.f.audit_is_clean().await;
}

/// Otherwise two throwaways share what the platform fronts, and one of them keeps the debt.
#[tokio::test]
async fn what_is_fronted_is_covered_by_the_requesters_wallet() {
    let w = sqlite().await;
    let accept = |id| w.respond(&w.ben, id, "ACCEPTED", json!({}));
    let subsidised = |modifier: u16| json!({"modifier_e4": modifier, "subsidised": true});
    let pay = async |minor: i64| {
        let signed = w.ann.signed(&format!("pay {minor}"));
        w.f.pay(&signed, payment(minor.unsigned_abs(), &w.rex.person, minor)).await
    };
    w.set_standing(&w.ben, subsidised(10_000)).await;
    let first = w.open(priced(0.06)).await.unwrap();
    w.fund_subsidy(first, 960, 20_000).await;
    // All of the price must be there, also what the platform fronts.
    pay(40_001).await.unwrap();
    let poor = DealRefusal::FundingFailed { needed_minor: 60_000, available_minor: 59_999 };
    assert_eq!(w.thwarted_deal(first, accept(first)).await, poor);
    w.f.fund(&w.ann, 901, 20_001).await;
    accept(first).await.unwrap();
    assert_eq!(w.money(first).await, "32000/0/0 0/0/0 60000");
    // It stays there: for payments, and for deals that the platform has nothing to do with.
    let promised = Refusal::Promised { promised_minor: 12_000 };
    assert_eq!(w.thwarted(first, pay(20_001)).await, promised);
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    for (price, limit_minor, would_be_minor) in [(0.021, 22_760, 23_760), (0.03, 18_800, 28_800)] {
        let id = w.open(priced(price)).await.unwrap();
        let limit = DealRefusal::RemainderLimit { limit_minor, would_be_minor };
        assert_eq!(w.thwarted_deal(id, accept(id)).await, limit);
    }
    let second = w.open(priced(0.02)).await.unwrap();
    accept(second).await.unwrap();
    assert_eq!(w.f.balance(&w.ann).await, "23200/0/0");
    end(&w, second, End::Release).await;
    end(&w, first, End::Release).await;
    assert_eq!(w.f.balance(&w.ann).await, "0/0/0");
    assert_eq!(w.subsidy(first).await, 20_000, "it is never a gift");
    assert!(w.f.record(&w.ann).await.open_subsidies.is_empty());
    w.f.audit_is_clean().await;
}

/// What was promised to others before comes first; the deal itself is not refused.
#[tokio::test]
async fn nothing_is_fronted_to_who_has_promised_more_than_there_is() {
    let w = sqlite().await;
    let accept = |id| w.respond(&w.ben, id, "ACCEPTED", json!({}));
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let first = w.open(priced(0.1)).await.unwrap();
    accept(first).await.unwrap();
    w.set_standing(&w.ben, json!({"modifier_e4": 10_000, "subsidised": true})).await;
    let id = w.open(priced(0.01)).await.unwrap();
    w.fund_subsidy(id, 960, 20_000).await;
    let hold = accept(id).await.unwrap().value.escrow.unwrap();
    assert_eq!((hold.subsidy_minor.minor(), hold.amount_minor.minor()), (0, 10_000));
    end(&w, first, End::Refund).await;
    let id = w.open(priced(0.01)).await.unwrap();
    w.fund_subsidy(id, 961, 20_000).await;
    let hold = accept(id).await.unwrap().value.escrow.unwrap();
    assert_eq!((hold.subsidy_minor.minor(), hold.amount_minor.minor()), (2_000, 10_000));
    w.f.audit_is_clean().await;
}

/// An advance that is taken back is a debt, and debts take whatever is in a wallet.
#[tokio::test]
async fn an_advance_does_not_take_what_the_platform_gets_back() {
    let w = sqlite().await;
    let earned = w.agreed(priced(0.01)).await;
    end(&w, earned, End::Release).await;
    w.f.fund(&w.ben, 901, 10_000).await;
    // Ben is a requester too, and the platform fronts 2,000 of his 20,000.
    w.set_standing(&w.rex.person, json!({"subsidised": true})).await;
    let (ben, rex) = (w.ben.id(), w.rex.id());
    let mut own = priced(0.01);
    merge(&mut own, json!({"requester": {"agent_id": ben}, "provider": {"agent_id": rex}}));
    let id = w.open_as(&w.ben, own).await.unwrap();
    w.fund_subsidy(id, 960, 20_000).await;
    w.respond(&w.rex.person, id, "ACCEPTED", json!({})).await.unwrap();
    assert_eq!(w.f.balance(&w.ben).await, "12000/0/0");
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let mut advance = priced(0.01);
    merge(&mut advance, skep(json!({"remainder_policy": "advance"})));
    let advanced = w.agreed(advance).await;
    assert_eq!(w.f.balance(&w.ben).await, "17600/0/0");
    let signed = w.ben.signed("pay");
    let refused = w.f.pay(&signed, payment(1, &w.vera.person, 10_001)).await;
    assert_eq!(refusal(refused), Refusal::Promised { promised_minor: 7_600 });
    let signed = w.ben.signed("pay less");
    w.f.pay(&signed, payment(2, &w.vera.person, 10_000)).await.unwrap();
    w.cancel(&w.ben, advanced).await.unwrap();
    assert_eq!(w.f.balance(&w.ben).await, "2000/0/0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn promises_may_be_more_than_there_is_and_then_become_debts() {
    let w = sqlite().await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let mut ids = vec![];
    for price in [0.1, 0.05, 0.02] {
        ids.push(w.agreed(priced(price)).await);
    }
    // 100, 50 and 20 thousand: 74,800 are held, and who has 25,200 has promised 95,200.
    assert_eq!(w.f.balance(&w.ann).await, "25200/0/0");
    for id in &ids {
        end(&w, *id, End::Release).await;
    }
    assert_eq!(w.f.balance(&w.ann).await, "0/0/70000");
    assert_eq!(w.f.balance(&w.ben).await, "100000/0/0");
    w.f.fund(&w.ann, 901, 70_001).await;
    assert_eq!(w.f.balance(&w.ann).await, "1/0/0");
    assert_eq!(w.f.balance(&w.ben).await, "170000/0/0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn open_advances_stay_under_what_was_earned_in_ninety_days() {
    let w = sqlite().await;
    let advance = || skep(json!({"remainder_policy": "advance"}));
    let accept = |id| w.respond(&w.ben, id, "ACCEPTED", json!({}));
    let over =
        |limit_minor, would_be_minor| DealRefusal::AdvanceLimit { limit_minor, would_be_minor };
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let id = w.open(advance()).await.unwrap();
    assert_eq!(w.thwarted_deal(id, accept(id)).await, over(0, 560));

    w.set_standing(&w.ben, json!({})).await;
    let earned = w.agreed(json!({})).await;
    end(&w, earned, End::Release).await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    accept(id).await.unwrap();
    let second = w.open(advance()).await.unwrap();
    assert_eq!(w.thwarted_deal(second, accept(second)).await, over(1000, 1120));
    end(&w, id, End::Refund).await;
    accept(second).await.unwrap();
    end(&w, second, End::Refund).await;

    w.f.clock.advance(90 * DAY);
    let third = w.open(advance()).await.unwrap();
    accept(third).await.unwrap();
    w.cancel(&w.ben, third).await.unwrap();
    w.f.clock.advance(MS);
    let fourth = w.open(advance()).await.unwrap();
    assert_eq!(w.thwarted_deal(fourth, accept(fourth)).await, over(0, 560));
    w.f.audit_is_clean().await;
}

/// Otherwise anybody could make itself good for any advance, with money that comes straight back.
#[tokio::test]
async fn what_comes_back_from_ones_own_escrow_is_not_earned() {
    let w = sqlite().await;
    w.f.fund(&w.ben, 901, 50_000).await;
    let (ben, rex) = (w.ben.id(), w.rex.id());
    let mut own = priced(0.05);
    merge(&mut own, json!({"requester": {"agent_id": ben}, "provider": {"agent_id": rex}}));
    let id = w.open_as(&w.ben, own).await.unwrap();
    w.respond(&w.rex.person, id, "ACCEPTED", json!({})).await.unwrap();
    w.cancel(&w.ben, id).await.unwrap();
    w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
    let id = w.open(skep(json!({"remainder_policy": "advance"}))).await.unwrap();
    let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
    assert_eq!(refused, DealRefusal::AdvanceLimit { limit_minor: 0, would_be_minor: 560 });
}
