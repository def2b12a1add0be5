//! A hire's money in escrow: held, then released or refunded, once.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use skep_base::{Hash32, hash::sha256, id::DealId};
use skep_market::{EscrowRefusal, Failure, Refusal};
use skep_wire::{
    hire::{ESCROW_WAIT_MS_MAX, EscrowTerms, EscrowVerb, HireEscrow, HireRequest},
    identity::Statement,
    settle::EscrowStatus,
    x402::{Rail, reason},
};
use tokio::task::JoinSet;

use crate::{fixture::*, on_both_engines, pay_world::*};

const RELEASE: EscrowVerb = EscrowVerb::Release;
const REFUND: EscrowVerb = EscrowVerb::Refund;

fn result() -> Hash32 {
    sha256(b"the result")
}

fn bill(rail: &Rail, ann: &Person, ben: &Person, n: u64) -> (HireRequest, EscrowTerms, Bill) {
    let wanted = hire(ann, ben.id(), n, json!({}));
    let terms = escrow_terms(&wanted, ben.id(), 100);
    let bill = Bill::for_escrow(rail, ann, &terms, &wanted);
    (wanted, terms, bill)
}

/// 100 of Ann's in escrow for Ben.
async fn held(f: &Fixture, ann: &Person, ben: &Person, n: u64) -> DealId {
    let (_, _, bill) = bill(&f.market.rail(), ann, ben, n);
    settle(&f.market, &bill.request()).await.escrow_id.unwrap().parse().unwrap()
}

async fn order(
    f: &Fixture,
    id: DealId,
    verb: EscrowVerb,
    by: &Person,
    result: Option<Hash32>,
) -> Result<HireEscrow, Failure> {
    f.market.escrow_order(id, verb, escrow_order(id, verb, by, result)).await
}

fn word(said: Result<HireEscrow, Failure>) -> String {
    match said {
        Ok(escrow) => format!("{:?} {}", escrow.status, escrow.reason.unwrap_or_default()),
        Err(Failure::Refused(Refusal::Escrow { reason })) => {
            format!("{reason:?}").split([' ', '{']).next().unwrap().to_owned()
        }
        Err(other) => panic!("{other:?}"),
    }
}

on_both_engines! {
    async fn money_is_held_for_what_the_buyer_signed(f: Fixture) {
        let (ann, ben) = f.two().await;
        let rail = f.market.rail();
        let (wanted, terms, good) = bill(&rail, &ann, &ben, 1);
        let with = |change: &dyn Fn(&mut EscrowTerms)| {
            let mut terms = terms.clone();
            change(&mut terms);
            Bill::for_escrow(&rail, &ann, &terms, &wanted)
        };
        let mut elsewhere = good.clone();
        (elsewhere.pay_to, elsewhere.to) = (ben.id(), ben.id());
        let mut without_hire = good.clone();
        without_hire.skep.as_mut().unwrap().hire = None;
        // The terms that the seller shows are not those that the buyer's payment is for.
        let mut swapped = good.clone();
        swapped.skep.as_mut().unwrap().escrow.as_mut().unwrap().payee = Person::new(5).id();
        let mut dearer = with(&|terms| terms.amount = skep_base::Amount::new(101).unwrap());
        (dearer.price, dearer.value) = (100, 100);
        let cases = [
            (reason::ESCROW_TERMS, elsewhere),
            (reason::ESCROW_TERMS, without_hire),
            (reason::NOT_FOR_THIS_HIRE, swapped),
            (reason::ESCROW_TERMS, dearer),
            (reason::ESCROW_TERMS, with(&|terms| terms.buyer = ben.id())),
            (reason::ESCROW_TERMS, with(&|terms| terms.seller = ann.id())),
            (reason::ESCROW_TERMS, with(&|terms| terms.payee = ann.id())),
            (reason::ESCROW_TERMS, with(&|terms| terms.hire_hash = Hash32::ZERO)),
            (reason::ESCROW_TERMS, with(&|terms| terms.capability = "custom.x".to_owned())),
            (reason::ESCROW_TERMS, with(&|terms| terms.verification_window_ms = 0)),
            (reason::ESCROW_TERMS, with(&|terms| {
                terms.deliver_within_ms = ESCROW_WAIT_MS_MAX + 1;
            })),
        ];
        for (at, (reason, bill)) in cases.iter().enumerate() {
            assert_eq!(refused_by_both(&f.market, &bill.request()).await, *reason, "case {at}");
        }
        assert_eq!(f.balance(&ann).await, "1000/0/0");
        let first = settle(&f.market, &good.request()).await;
        assert_eq!(settle(&f.market, &good.request()).await, first);
        assert_eq!(f.balance(&ann).await, "900/100/0");
        let id: DealId = first.escrow_id.unwrap().parse().unwrap();
        let escrow = f.market.hire_escrow(id).await.unwrap();
        assert_eq!((escrow.status, escrow.terms), (EscrowStatus::Held, terms));
        assert_eq!(escrow.tx_hash, first.transaction);
        let due = f.now().plus(Duration::from_secs(60));
        assert_eq!(escrow.refund_at, Some(due));
        f.audit_is_clean().await;
    }

    async fn nobodys_score_is_spoilt_by_a_strangers_escrow(f: Fixture) {
        let (ann, ben) = f.two().await;
        // Ben has never heard of it.
        let id = held(&f, &ann, &ben, 1).await;
        f.clock.set(f.market.hire_escrow(id).await.unwrap().refund_at.unwrap());
        assert_eq!(word(f.market.escrow_timeout(id).await), "Refunded not_delivered");
        let (track, _) = f.market.track_record(&ben.id()).await.unwrap();
        assert_eq!(track.facts, 0);
    }

    async fn nobodys_inbox_is_filled_by_a_strangers_escrow(f: Fixture) {
        let (ann, ben) = f.two().await;
        let told = async |who: &Person| {
            f.kinds().await;
            let inbox = f.market.inbox(&who.id(), 0, 100).await.unwrap().items;
            inbox.iter().filter(|event| event.kind.starts_with("escrow.")).count()
        };
        let rail = f.market.rail();
        let with = |change: &dyn Fn(&mut EscrowTerms), more: serde_json::Value| {
            let wanted = hire(&ann, ben.id(), 7, more);
            let mut terms = escrow_terms(&wanted, ben.id(), 100);
            change(&mut terms);
            Bill::for_escrow(&rail, &ann, &terms, &wanted).request()
        };
        let long = "x".repeat(129);
        for request in [
            with(&|terms| terms.deliver_within_ms = 99, json!({})),
            with(&|terms| terms.verification_version = Some("v".repeat(17)), json!({})),
            with(&|_| {}, json!({ "capability": long })),
        ] {
            assert_eq!(refused_by_both(&f.market, &request).await, reason::ESCROW_TERMS);
        }
        let id = held(&f, &ann, &ben, 1).await;
        f.tick();
        assert_eq!((told(&ann).await, told(&ben).await), (1, 0));
        deliver(&f, id, result()).await;
        order(&f, id, RELEASE, &ann, Some(result())).await.unwrap();
        f.tick();
        assert_eq!((told(&ann).await, told(&ben).await), (2, 1));
    }

    async fn the_buyer_releases_for_the_result_that_it_names(f: Fixture) {
        let (ann, ben) = f.two().await;
        let id = held(&f, &ann, &ben, 1).await;
        let said = async |verb, by: &Person, hash| word(order(&f, id, verb, by, hash).await);
        assert_eq!(said(RELEASE, &ann, Some(result())).await, "NotDelivered");
        assert_eq!(said(REFUND, &ann, None).await, "NotDelivered");
        deliver(&f, id, result()).await;
        assert_eq!(said(RELEASE, &ann, None).await, "WrongResult");
        assert_eq!(said(RELEASE, &ann, Some(sha256(b"another"))).await, "WrongResult");
        assert_eq!(said(REFUND, &ann, Some(sha256(b"another"))).await, "WrongResult");
        assert_eq!(said(RELEASE, &ben, Some(result())).await, "NotYours");
        let stranger = Person::new(8);
        assert_eq!(said(REFUND, &stranger, Some(result())).await, "NotYours");
        let mut forged = escrow_order(id, RELEASE, &ben, Some(result()));
        forged.by = ann.id();
        assert_eq!(word(f.market.escrow_order(id, RELEASE, forged).await), "Signature");
        let other = escrow_order(id, REFUND, &ann, None);
        assert_eq!(word(f.market.escrow_order(id, RELEASE, other).await), "OtherOrder");
        assert_eq!(f.balance(&ann).await, "900/100/0");
        let released = order(&f, id, RELEASE, &ann, Some(result())).await.unwrap();
        assert_eq!(released.status, EscrowStatus::Released);
        let receipt = released.settlement.clone().unwrap();
        receipt.settlement.verify(&receipt.key, &receipt.signature).unwrap();
        assert_eq!(receipt.settlement.released_minor.minor(), 100);
        assert_eq!(order(&f, id, RELEASE, &ann, Some(result())).await.unwrap(), released);
        assert_eq!(f.market.settlement(id).await.unwrap(), receipt);
        assert_eq!(said(REFUND, &ann, None).await, "Over");
        assert_eq!(said(REFUND, &ben, None).await, "Over");
        assert_eq!(word(f.market.escrow_timeout(id).await), "Over");
        assert_eq!(f.balance(&ann).await, "900/0/0");
        assert_eq!(f.balance(&ben).await, "100/0/0");
        f.audit_is_clean().await;
    }

    async fn silence_refunds_and_so_do_both_sides(f: Fixture) {
        let (ann, ben) = f.two().await;
        let start = f.now();
        let at = |ms: u64| f.clock.set(start.plus(Duration::from_millis(ms)));
        let [late, asked, quiet, refused, returned] = {
            let mut ids = Vec::new();
            for n in 0..5 {
                ids.push(held(&f, &ann, &ben, n).await);
            }
            <[DealId; 5]>::try_from(ids).unwrap()
        };
        assert_eq!(f.balance(&ann).await, "500/500/0");
        deliver(&f, quiet, result()).await;
        deliver(&f, refused, result()).await;
        assert_eq!(word(order(&f, returned, REFUND, &ben, None).await), "Refunded seller");
        let bad = order(&f, refused, REFUND, &ann, Some(result())).await;
        assert_eq!(word(bad), "Refunded buyer");
        at(59_999);
        assert_eq!(word(f.market.escrow_timeout(asked).await), "TooEarly");
        at(60_000);
        assert_eq!(word(f.market.escrow_timeout(asked).await), "Refunded not_delivered");
        assert_eq!(word(f.market.escrow_timeout(asked).await), "Refunded not_delivered");
        while f.market.do_due_jobs().await.unwrap() > 0 {}
        for (id, reason) in [(late, "not_delivered"), (quiet, "window_passed")] {
            let escrow = f.market.hire_escrow(id).await.unwrap();
            assert_eq!(word(Ok(escrow.clone())), format!("Refunded {reason}"));
            assert_eq!(escrow.settlement.unwrap().settlement.refunded_minor.minor(), 100);
        }
        assert_eq!(f.balance(&ann).await, "1000/0/0");
        assert_eq!(f.balance(&ben).await, "none");
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "escrow.refunded").count(), 5);
        f.audit_is_clean().await;
    }

    async fn sixty_four_end_an_escrow_in_different_ways_and_one_does(f: Fixture) {
        let (ann, ben) = f.two().await;
        let mut bens = 0;
        for round in 0..4 {
            let id = held(&f, &ann, &ben, round).await;
            deliver(&f, id, result()).await;
            f.clock.advance(Duration::from_secs(60));
            let mut callers = JoinSet::new();
            for n in 0..64 {
                let market = f.market.clone();
                let release = escrow_order(id, RELEASE, &ann, Some(result()));
                let by = if n % 2 == 0 { &ann } else { &ben };
                let refund = escrow_order(id, REFUND, by, None);
                callers.spawn(async move {
                    match n % 4 {
                        0 => word(market.escrow_order(id, RELEASE, release).await),
                        1 | 2 => word(market.escrow_order(id, REFUND, refund).await),
                        _ if n == 3 => {
                            market.do_due_jobs().await.unwrap();
                            "timer".to_owned()
                        }
                        _ => word(market.escrow_timeout(id).await),
                    }
                });
            }
            let mut words: BTreeMap<String, usize> = BTreeMap::new();
            for word in callers.join_all().await {
                *words.entry(word).or_default() += 1;
            }
            words.remove("timer");
            let escrow = f.market.hire_escrow(id).await.unwrap();
            let end = format!("{:?} {}", escrow.status, escrow.reason.unwrap_or_default());
            let winners = if escrow.status == EscrowStatus::Released { 16 } else { 47 };
            bens += if escrow.status == EscrowStatus::Released { 100 } else { 0 };
            assert_eq!(words, [(end, winners), ("Over".to_owned(), 63 - winners)].into());
        }
        let wallet = f.market.wallet(&ben.id()).await.unwrap();
        assert_eq!(wallet.balances.first().map_or(0, |b| b.available.amount.minor()), bens);
        assert_eq!(f.balance(&ann).await, format!("{}/0/0", 1000 - bens));
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|kind| kind.starts_with("escrow.re")).count(), 4);
        f.audit_is_clean().await;
    }
}

#[test]
fn refusals_have_names() {
    let refusal = Refusal::from(EscrowRefusal::NotDelivered);
    assert_eq!(serde_json::to_value(refusal).unwrap()["reason"]["reason"], "not_delivered");
}
