//! Where the money of a deal goes, to the last minor unit.

#[path = "deal_money/endings.rs"]
mod endings;
#[path = "deal_money/limits.rs"]
mod limits;
#[path = "deal_money/verdicts.rs"]
mod verdicts;

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::id::DealId;
use skep_settle::Policy;
use skep_wire::settle::{Outcome, PaymentStatus, RefundReason};

use crate::{deal_world::*, fixture::*, on_both_engines};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn sqlite() -> World {
    World::new(Fixture::sqlite().await).await
}

async fn with_fee() -> World {
    let policy = Policy {
        fee_bps: 500,
        fee_tiers: [("pro".to_owned(), 200), ("gold".to_owned(), 900)].into(),
        ..Policy::default()
    };
    World::with_policy(Fixture::sqlite().await, policy).await
}

fn skep(options: Value) -> Value {
    json!({"metadata": {"skep": options}})
}

fn priced(decimal: f64) -> Value {
    json!({"request": {"budget_amount": decimal}})
}

/// How a deal is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Release,
    Refund,
    Split(i64),
}

/// Delivers, and ends a deal that was agreed on.
async fn end(w: &World, id: DealId, end: End) {
    let verification = w.deliver(id, json!({})).await.unwrap().verification_id.unwrap();
    match end {
        End::Release => drop(w.judge(verification, Outcome::Verified).await.unwrap()),
        End::Refund => drop(w.judge(verification, Outcome::Failed).await.unwrap()),
        End::Split(released) => {
            w.split(&w.ben, id, released).await.unwrap();
            w.split(&w.ann, id, released).await.unwrap();
        }
    }
}

async fn reason(w: &World, id: DealId) -> Option<RefundReason> {
    w.agreement(id).await.reason
}

#[tokio::test]
async fn the_fee_is_taken_from_both_and_only_on_what_is_released() {
    let w = with_fee().await;
    let id = w.agreed(json!({})).await;
    assert_eq!(w.money(id).await, "98975/0/0 0/0/0 1025");
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "98975/0/0 975/0/0 0");
    assert_eq!(w.fees().await, 50);
    let fee = w.settlement(id).await.platform_fee.unwrap();
    assert_eq!((fee.rate.as_str(), fee.amount_minor.minor()), ("0.05", 50));
    assert_eq!((fee.split.buyer_minor.minor(), fee.split.seller_minor.minor()), (25, 25));
    w.f.audit_is_clean().await;

    let id = w.agreed(json!({})).await;
    end(&w, id, End::Refund).await;
    assert_eq!(w.money(id).await, "98975/0/0 975/0/0 0");
    assert_eq!((w.fees().await, w.settlement(id).await.platform_fee), (50, None));

    let id = w.agreed(json!({})).await;
    end(&w, id, End::Split(400)).await;
    assert_eq!(w.money(id).await, "98565/0/0 1365/0/0 0");
    assert_eq!(w.fees().await, 70);
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn the_fee_is_rounded_half_to_even_and_the_buyers_share_down() {
    let w = with_fee().await;
    // Of 10: 0.5 is 0. Of 30: 1.5 is 2, half each. Of 50: 2.5 is 2. Of 70: 3.5 is 4.
    let (mut ann, mut ben, mut fees) = (100_000, 0, 0);
    for (price, buyer, seller) in [(10, 0, 0), (30, 1, 1), (50, 1, 1), (70, 2, 2), (60, 1, 2)] {
        let id = w.agreed(priced(f64::from(price) / 1_000_000.0)).await;
        end(&w, id, End::Release).await;
        (ann, ben, fees) = (ann - price - buyer, ben + price - seller, fees + buyer + seller);
        assert_eq!(w.money(id).await, format!("{ann}/0/0 {ben}/0/0 0"), "{price}");
        assert_eq!(w.fees().await, i64::from(fees));
    }
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_subscription_at_settlement_lowers_the_fee_and_never_raises_it() {
    let w = with_fee().await;
    let id = w.agreed(json!({})).await;
    w.set_standing(&w.ben, json!({"subscription": "pro"})).await;
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "98990/0/0 990/0/0 0");
    assert_eq!(w.fees().await, 20);

    w.set_standing(&w.ben, json!({})).await;
    let id = w.agreed(json!({})).await;
    w.set_standing(&w.ben, json!({"subscription": "gold"})).await;
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "97965/0/0 1965/0/0 0");
    assert_eq!(w.fees().await, 70);

    // Agreed on with it, it holds; and the reserve is enough for it.
    let id = w.agreed(json!({})).await;
    assert_eq!(w.money(id).await, "96920/0/0 1965/0/0 1045");
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "96920/0/0 2920/0/0 0");
    assert_eq!(w.fees().await, 160);
    w.set_standing(&w.ben, json!({"subscription": "pro"})).await;
    let id = w.agreed(json!({})).await;
    w.set_standing(&w.ben, json!({})).await;
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "95895/0/0 3895/0/0 0");
    w.f.audit_is_clean().await;
}

on_both_engines! {
    async fn a_verifier_is_paid_for_its_verdict_whatever_that_is(f: Fixture) {
        let w = World::new(f).await;
        let paid = || skep(json!({"verifier": w.vera.id(), "verifier_price_minor": "30"}));
        let vera = async || w.f.balance(&w.vera.person).await;
        let id = w.agreed(paid()).await;
        assert_eq!(w.money(id).await, "98970/0/0 0/0/0 1030");
        end(&w, id, End::Release).await;
        assert_eq!(w.money(id).await, "98970/0/0 1000/0/0 0");
        assert_eq!(vera().await, "30/0/0");
        assert_eq!(w.settlement(id).await.verifier_paid_minor.minor(), 30);

        let id = w.agreed(paid()).await;
        end(&w, id, End::Refund).await;
        assert_eq!(w.money(id).await, "98940/0/0 1000/0/0 0");
        assert_eq!(vera().await, "60/0/0");
        w.f.audit_is_clean().await;
    }

    async fn a_verifier_who_gave_no_verdict_gets_nothing(f: Fixture) {
        let w = World::new(f).await;
        let paid = || skep(json!({"verifier": w.vera.id(), "verifier_price_minor": "30"}));
        let id = w.agreed(paid()).await;
        w.cancel(&w.ben, id).await.unwrap();
        assert_eq!(w.money(id).await, "100000/0/0 0/0/0 0");
        let id = w.agreed(paid()).await;
        end(&w, id, End::Split(500)).await;
        assert_eq!(w.money(id).await, "99500/0/0 500/0/0 0");
        let (id, _) = w.delivered(paid()).await;
        w.f.clock.advance(30 * MINUTE);
        w.run_timers().await;
        w.decide(id, Outcome::Verified, None).await.unwrap();
        assert_eq!(w.money(id).await, "98500/0/0 1500/0/0 0");
        assert_eq!(w.f.balance(&w.vera.person).await, "none");

        // Who could not tell is not paid; who could then is.
        let (id, first) = w.delivered(paid()).await;
        w.judge(first, Outcome::Error).await.unwrap();
        let second = *w.agreement(id).await.verifications.last().unwrap();
        w.judge(second, Outcome::Failed).await.unwrap();
        assert_eq!(w.money(id).await, "98470/0/0 1500/0/0 0");
        assert_eq!(w.f.balance(&w.vera.person).await, "none");
        assert_eq!(w.f.balance(&w.viv.person).await, "30/0/0");
        w.f.audit_is_clean().await;
    }

    async fn a_remainder_is_paid_set_aside_or_advanced_as_agreed(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ben, 950, 10_000).await;
        // Earned once, so that an advance can be had.
        let id = w.agreed(json!({})).await;
        end(&w, id, End::Release).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let (mut ann, mut ben) = (99_000, 11_000);
        for (policy, open) in [
            ("on_release", (-440, 0, 0)),
            ("reserve", (-1000, 560, 0)),
            ("advance", (-1000, 0, 560)),
        ] {
            for how in [End::Release, End::Refund, End::Split(700), End::Split(300)] {
                let what = format!("{policy} {how:?}");
                let id = w.agreed(skep(json!({"remainder_policy": policy}))).await;
                let (free, held, advanced) = open;
                let opened = format!("{}/{held}/0 {}/0/0 440", ann + free, ben + advanced);
                assert_eq!(w.money(id).await, opened, "{what}");
                end(&w, id, how).await;
                let released = match how {
                    End::Release => 1000,
                    End::Refund => 0,
                    End::Split(part) => part,
                };
                (ann, ben) = (ann - released, ben + released);
                let closed = format!("{ann}/0/0 {ben}/0/0 0");
                assert_eq!(w.money(id).await, closed, "{what}");
                assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::Clear);
                let settlement = w.settlement(id).await;
                assert_eq!(settlement.released_minor.minor(), released);
                assert_eq!(settlement.refunded_minor.minor(), 1000 - released);
            }
            w.f.audit_is_clean().await;
        }
        let (ann, ben) = (w.f.record(&w.ann).await, w.f.record(&w.ben).await);
        assert!(ann.open_remainders.is_empty() && ben.open_advances.is_empty());
    }

    async fn what_was_promised_and_is_gone_becomes_a_debt_that_every_credit_pays(f: Fixture) {
        let w = World::new(f).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let (id, verification) = w.delivered(json!({})).await;
        w.empty(&w.ann).await;
        w.judge(verification, Outcome::Verified).await.unwrap();
        assert_eq!(w.money(id).await, "0/0/560 440/0/0 0");
        assert_eq!(w.states(id).await, "Completed Released Verified");
        let status = async || w.agreement(id).await.payment_status;
        assert_eq!(status().await, PaymentStatus::PaymentDue);
        w.f.audit_is_clean().await;

        w.f.fund(&w.ann, 951, 300).await;
        assert_eq!(w.money(id).await, "0/0/260 740/0/0 0");
        w.f.clock.advance(7 * DAY - MS);
        assert_eq!(status().await, PaymentStatus::PaymentDue);
        w.f.clock.advance(MS);
        assert_eq!(status().await, PaymentStatus::Defaulted);
        w.f.fund(&w.ann, 952, 1000).await;
        assert_eq!(w.money(id).await, "740/0/0 1000/0/0 0");
        assert_eq!(status().await, PaymentStatus::Clear);
        w.f.audit_is_clean().await;
    }

    async fn an_advance_that_was_spent_is_the_providers_debt_after_a_refund(f: Fixture) {
        let w = World::new(f).await;
        let id = w.agreed(json!({})).await;
        end(&w, id, End::Release).await;
        w.set_standing(&w.ben, json!({"modifier_e4": 4400})).await;
        let id = w.agreed(skep(json!({"remainder_policy": "advance"}))).await;
        assert_eq!(w.money(id).await, "98000/0/0 1560/0/0 440");
        w.empty(&w.ben).await;
        w.cancel(&w.ben, id).await.unwrap();
        assert_eq!(w.money(id).await, "98440/0/0 0/0/560 0");
        assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::PaymentDue);
        w.f.fund(&w.ben, 953, 600).await;
        assert_eq!(w.money(id).await, "99000/0/0 40/0/0 0");
        w.f.audit_is_clean().await;
    }

    async fn a_subsidy_is_fronted_and_comes_back(f: Fixture) {
        let w = World::new(f).await;
        w.set_standing(&w.ben, json!({"subsidised": true})).await;
        let (mut ann, mut ben) = (100_000, 0);
        for (n, how) in [End::Release, End::Refund, End::Split(900)].into_iter().enumerate() {
            let id = w.open(json!({})).await.unwrap();
            let before = w.subsidy(id).await;
            w.fund_subsidy(id, 960 + n as u64, 500).await;
            w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
            let opened = format!("{}/0/0 {ben}/0/0 1000", ann - 800);
            assert_eq!(w.money(id).await, opened);
            assert_eq!(w.subsidy(id).await, before + 300);
            end(&w, id, how).await;
            let released = match how {
                End::Release => 1000,
                End::Refund => 0,
                End::Split(part) => part,
            };
            (ann, ben) = (ann - released, ben + released);
            assert_eq!(w.money(id).await, format!("{ann}/0/0 {ben}/0/0 0"));
            assert_eq!(w.subsidy(id).await, before + 500, "it is never a gift: {how:?}");
        }
        w.f.audit_is_clean().await;
    }
}

#[tokio::test]
async fn a_subsidy_that_the_requester_cannot_repay_is_its_debt() {
    let w = sqlite().await;
    w.set_standing(&w.ben, json!({"subsidised": true})).await;
    let id = w.open(json!({})).await.unwrap();
    w.fund_subsidy(id, 960, 500).await;
    w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
    w.empty(&w.ann).await;
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "0/0/200 1000/0/0 0");
    assert_eq!(w.subsidy(id).await, 300);
    assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::PaymentDue);
    w.f.fund(&w.ann, 961, 201).await;
    assert_eq!((w.money(id).await.as_str(), w.subsidy(id).await), ("1/0/0 1000/0/0 0", 500));
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn nothing_is_fronted_between_linked_parties_or_from_an_empty_pot() {
    let w = sqlite().await;
    w.set_standing(&w.ben, json!({"subsidised": true})).await;
    // The pot is empty: the requester holds all of it itself.
    let id = w.open(json!({})).await.unwrap();
    w.fund_subsidy(id, 960, 199).await;
    let answer = w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap().value;
    assert_eq!(answer.escrow.unwrap().subsidy_minor.minor(), 0);
    assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
    end(&w, id, End::Refund).await;

    let key = skep_base::ed25519::SecretKey::from_seed([60; 32]);
    w.market().register_operator(operator(&key, "Acme", w.f.now())).await.unwrap();
    for side in [&w.ann, &w.ben] {
        w.f.change(side, side.attach(&key, w.f.now())).await.unwrap();
    }
    let id = w.open(json!({})).await.unwrap();
    w.fund_subsidy(id, 961, 10_000).await;
    w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 0/0/0 1000");
    assert!(w.agreement(id).await.linked);
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn fee_remainder_subsidy_and_verifier_go_together() {
    let policy = Policy { fee_bps: 500, ..Policy::default() };
    let w = World::with_policy(Fixture::sqlite().await, policy).await;
    w.set_standing(&w.ben, json!({"modifier_e4": 4400, "subsidised": true})).await;
    let terms = skep(json!({"verifier": w.vera.id(), "verifier_price_minor": "30"}));
    // Held: 440 + 25 + 30, of which the platform fronts 88; 560 are promised.
    let expected = [
        (End::Release, "98945/0/0 975/0/0 0", 50),
        (End::Refund, "98915/0/0 975/0/0 0", 50),
        (End::Split(700), "98198/0/0 1657/0/0 0", 85),
    ];
    for (n, (how, money, fees)) in expected.into_iter().enumerate() {
        let id = w.open(terms.clone()).await.unwrap();
        let before = w.subsidy(id).await;
        w.fund_subsidy(id, 960 + n as u64, 100).await;
        let free = w.f.balance(&w.ann).await;
        let free: i64 = free.split('/').next().unwrap().parse().unwrap();
        w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
        assert!(w.f.balance(&w.ann).await.starts_with(&format!("{}/0/0", free - 407)));
        end(&w, id, how).await;
        assert_eq!(w.money(id).await, money, "{how:?}");
        assert_eq!((w.fees().await, w.subsidy(id).await), (fees, before + 100));
    }
    assert_eq!(w.f.balance(&w.vera.person).await, "60/0/0");
    w.f.audit_is_clean().await;
}

#[tokio::test]
async fn a_seller_who_was_paid_in_advance_owes_its_share_of_the_fee() {
    let policy = Policy { fee_bps: 2000, buyer_share_bps: 0, ..Policy::default() };
    let w = World::with_policy(Fixture::sqlite().await, policy).await;
    let id = w.agreed(json!({})).await;
    end(&w, id, End::Release).await;
    assert_eq!(w.money(id).await, "99000/0/0 800/0/0 0");
    w.set_standing(&w.ben, json!({"modifier_e4": 2500})).await;
    let id = w.agreed(skep(json!({"remainder_policy": "advance"}))).await;
    assert_eq!(w.money(id).await, "98000/0/0 1550/0/0 250");
    w.empty(&w.ben).await;
    // 750 were advanced: of 760 the hold gives 10, and the fee is 152.
    end(&w, id, End::Split(760)).await;
    assert_eq!(w.money(id).await, "98240/0/0 0/0/142 0");
    assert_eq!(w.fees().await, 210);
    assert_eq!(w.agreement(id).await.payment_status, PaymentStatus::PaymentDue);
    w.f.fund(&w.ben, 970, 150).await;
    assert_eq!((w.money(id).await.as_str(), w.fees().await), ("98240/0/0 8/0/0 0", 352));
    w.f.audit_is_clean().await;
}
