use skep_base::{Amount, Asset, Money, id::DebtId};
use skep_market::{
    FAUCET_MINOR_MAX, Failure, Guarded, HOLD_VOIDABLE_BY_PAYER_AFTER, Refusal, Signed,
};
use skep_store::{AccountId, Call, Debt, Decision, LedgerRefusal, Load, Turn};
use skep_wire::wallet::{Faucet, PostTransfer, TransferState};

use crate::{fixture::*, on_both_engines};

fn part(minor: i64) -> PostTransfer {
    PostTransfer { money: Some(usdc(minor)) }
}

fn ledger(reason: LedgerRefusal) -> Refusal {
    Refusal::Ledger { reason }
}

fn not_yours(who: &str, rule: &str) -> Refusal {
    Refusal::NotYours { who: who.to_owned(), rule: rule.to_owned() }
}

on_both_engines! {
    async fn money_is_paid_held_posted_and_voided(f: Fixture) {
        let (ann, ben) = f.two().await;
        f.tick();
        let paid = f.pay(&ann.signed("pay"), payment(1, &ben, 100)).await.unwrap().value;
        assert_eq!((paid.state, paid.posted), (TransferState::Posted, None));
        f.tick();
        let held = f.pay(&ann.signed("hold"), hold(2, &ben, 300)).await.unwrap().value;
        assert_eq!((held.state, held.posted), (TransferState::Pending, None));
        assert_eq!(f.balance(&ann).await, "600/300/0");

        f.tick();
        let posted = f.market.transfer_post(&ann.signed("post"), id(2), part(120)).await.unwrap();
        let posted = posted.value;
        assert_eq!((posted.state, posted.posted), (TransferState::Posted, Some(usdc(120))));
        assert_eq!(f.market.transfer(&ben.id(), id(2)).await.unwrap(), posted);
        assert_eq!(f.balance(&ann).await, "780/0/0");
        assert_eq!(f.balance(&ben).await, "220/0/0");
        // The same transfer, asked for again in another request, is as it is now.
        let again = f.pay(&ann.signed("again"), hold(2, &ben, 300)).await.unwrap();
        assert_eq!((again.value, again.replayed), (posted, false));
        let other = refusal(f.pay(&ann.signed("other"), hold(2, &ben, 301)).await);
        assert_eq!(other, ledger(LedgerRefusal::IdTaken { id: id(2) }));

        f.tick();
        f.pay(&ann.signed("hold"), hold(3, &ben, 80)).await.unwrap();
        f.tick();
        let voided = f.market.transfer_void(&ben.signed("void"), id(3)).await.unwrap().value;
        assert_eq!((voided.state, voided.posted), (TransferState::Voided, None));
        assert_eq!(f.balance(&ann).await, "780/0/0");
        let refused = f.market.transfer_post(&ann.signed("post"), id(3), Default::default()).await;
        assert_eq!(refusal(refused), ledger(LedgerRefusal::AlreadyVoided { id: id(3) }));
        let refused = f.market.transfer_void(&ben.signed("void"), id(2)).await;
        assert_eq!(refusal(refused), ledger(LedgerRefusal::AlreadyPosted { id: id(2) }));
        let expected = [
            "agent.registered", "agent.registered", "wallet.funded", "transfer.posted",
            "transfer.held", "transfer.posted", "transfer.held", "transfer.voided",
        ];
        assert_eq!(f.kinds().await, expected);
        f.audit_is_clean().await;
    }

    async fn what_cannot_be_paid_is_refused(f: Fixture) {
        let (ann, ben) = f.two().await;
        let nobody = Person::new(3);
        let pays = async |transfer| refusal(f.pay(&ann.signed("pay"), transfer).await);
        let unknown = Refusal::UnknownAgent { agent: nobody.id().to_string() };
        assert_eq!(pays(payment(1, &nobody, 1)).await, unknown);
        assert_eq!(refusal(f.pay(&nobody.signed("pay"), payment(1, &ann, 1)).await), unknown);
        assert_eq!(pays(payment(1, &ann, 1)).await, ledger(LedgerRefusal::SameAccount));
        assert_eq!(pays(payment(1, &ben, 0)).await, ledger(LedgerRefusal::ZeroAmount));
        f.pay(&ann.signed("hold"), hold(2, &ben, 10)).await.unwrap();
        let posts = async |part| {
            refusal(f.market.transfer_post(&ann.signed("post"), id(2), part).await)
        };
        let (pending, asked) = (Amount::new(10).unwrap(), Amount::new(11).unwrap());
        let more = LedgerRefusal::MoreThanPending { pending, asked };
        assert_eq!(posts(part(11)).await, ledger(more));
        assert_eq!(posts(part(0)).await, ledger(LedgerRefusal::ZeroAmount));
        let euros = Money::new(Amount::new(5).unwrap(), Asset::EUR);
        let what = "the hold is in USDC, not in EUR".to_owned();
        let euros = PostTransfer { money: Some(euros) };
        assert_eq!(posts(euros).await, Refusal::BadStatement { what });
        assert_eq!(f.balance(&ann).await, "990/10/0");
    }

    async fn only_its_two_sides_know_a_hold(f: Fixture) {
        let (ann, ben) = f.two().await;
        let cleo = Person::new(3);
        f.register(&cleo).await;
        f.pay(&ann.signed("hold"), hold(1, &ben, 10)).await.unwrap();
        let unknown = Refusal::UnknownTransfer { id: id(1) };
        let posted = f.market.transfer_post(&cleo.signed("post"), id(1), Default::default()).await;
        assert_eq!(refusal(posted), unknown);
        let voided = f.market.transfer_void(&cleo.signed("void"), id(1)).await;
        assert_eq!(refusal(voided), unknown);
        assert_eq!(refusal(f.market.transfer(&cleo.id(), id(1)).await), unknown);
        let none = f.market.transfer_void(&cleo.signed("void"), id(9)).await;
        assert_eq!(refusal(none), Refusal::UnknownTransfer { id: id(9) });
        let posted = f.market.transfer_post(&ben.signed("post"), id(1), Default::default()).await;
        assert_eq!(refusal(posted), not_yours("the payee", "only the payer posts a hold"));
        assert_eq!(f.balance(&ann).await, "990/10/0");
    }

    async fn the_payer_takes_a_hold_back_after_a_week(f: Fixture) {
        let (ann, ben) = f.two().await;
        f.pay(&ann.signed("hold"), hold(1, &ben, 10)).await.unwrap();
        let week = f.now().plus(HOLD_VOIDABLE_BY_PAYER_AFTER);
        let rule = "before a week has passed only the payee voids a hold";
        let voids = async || f.market.transfer_void(&ann.signed("void"), id(1)).await;
        assert_eq!(refusal(voids().await), not_yours("the payer", rule));
        f.clock.set(week.minus(MS));
        assert_eq!(refusal(voids().await), not_yours("the payer", rule));
        f.clock.set(week);
        assert_eq!(voids().await.unwrap().value.state, TransferState::Voided);
        assert_eq!(f.balance(&ann).await, "1000/0/0");
    }

    async fn a_repeated_request_is_the_same_request(f: Fixture) {
        let (ann, ben) = f.two().await;
        let request = ann.signed_with("n1", "pay 5");
        let first = f.pay(&request, payment(1, &ben, 5)).await.unwrap();
        assert!(!first.replayed);
        let again = f.pay(&request, payment(1, &ben, 5)).await.unwrap();
        assert_eq!((again.value, again.replayed), (first.value.clone(), true));
        let reused = f.pay(&ann.signed_with("n1", "pay 6"), payment(2, &ben, 6)).await;
        assert!(matches!(reused, Err(Failure::KeyReused(Guarded::Nonce))), "{reused:?}");

        let with = |nonce, body, key: &str| Signed {
            idempotency_key: Some(key.to_owned()),
            ..ann.signed_with(nonce, body)
        };
        let first = f.pay(&with("n2", "pay 7", "k1"), payment(3, &ben, 7)).await.unwrap();
        let again = f.pay(&with("n3", "pay 7", "k1"), payment(3, &ben, 7)).await.unwrap();
        assert_eq!((again.value, again.replayed), (first.value, true));
        let reused = f.pay(&with("n4", "pay 8", "k1"), payment(4, &ben, 8)).await;
        assert!(matches!(reused, Err(Failure::KeyReused(Guarded::IdempotencyKey))), "{reused:?}");
        // Two callers may use the same words.
        f.fund(&ben, 901, 5).await;
        f.pay(&ben.signed_with("n1", "pay back"), payment(5, &ann, 1)).await.unwrap();
        assert_eq!(f.balance(&ann).await, "989/0/0");
        f.audit_is_clean().await;
    }

    async fn a_refusal_uses_its_nonce_up(f: Fixture) {
        let (ann, ben) = f.two().await;
        let request = ann.signed_with("n1", "pay 1001");
        let refused = refusal(f.pay(&request, payment(1, &ben, 1001)).await);
        let funds = ledger(LedgerRefusal::InsufficientFunds {
            account: AccountId::wallet(&ann.id(), Asset::USDC),
            available: Amount::new(1000).unwrap(),
            needed: Amount::new(1001).unwrap(),
        });
        assert_eq!(refused, funds);
        f.fund(&ann, 901, 500).await;
        // The same request hears the same, though there is money now.
        let again = f.pay(&request, payment(1, &ben, 1001)).await;
        assert!(matches!(&again, Err(Failure::RefusedBefore(r)) if *r == funds), "{again:?}");
        let reused = f.pay(&ann.signed_with("n1", "pay 1"), payment(1, &ben, 1)).await;
        assert!(matches!(reused, Err(Failure::KeyReused(Guarded::Nonce))), "{reused:?}");
        f.pay(&ann.signed("pay 1001"), payment(1, &ben, 1001)).await.unwrap();
    }

    async fn a_retry_after_its_key_was_forgotten_tells_nothing_twice(f: Fixture) {
        let (ann, ben) = f.two().await;
        f.pay(&ann.signed("hold"), hold(1, &ben, 10)).await.unwrap();
        let once = |nonce| Signed {
            idempotency_key: Some("once".to_owned()),
            ..ann.signed_with(nonce, "post")
        };
        let first = f.market.transfer_post(&once("a"), id(1), part(4)).await.unwrap();
        f.clock.advance(25 * HOUR);
        assert_eq!(f.market.store().drop_expired().await.unwrap(), 1);
        let again = f.market.transfer_post(&once("b"), id(1), part(4)).await.unwrap();
        assert_eq!((again.value, again.replayed), (first.value, false));
        let kinds = f.kinds().await;
        assert_eq!(kinds.iter().filter(|k| *k == "transfer.posted").count(), 1);
        assert_eq!(f.balance(&ann).await, "996/0/0");
    }

    async fn test_money_is_for_tests_and_has_a_limit(f: Fixture) {
        let (ann, _) = f.two().await;
        let most = Faucet { id: id(1), money: usdc(FAUCET_MINOR_MAX), to: None };
        let more = Faucet { id: id(1), money: usdc(FAUCET_MINOR_MAX + 1), to: None };
        let refused = f.not_dev().faucet(&ann.signed("faucet"), most.clone()).await;
        assert_eq!(refusal(refused), Refusal::NotDev);
        let refused = f.market.faucet(&ann.signed("faucet"), more).await;
        assert_eq!(refusal(refused), Refusal::FaucetLimit { max_minor: FAUCET_MINOR_MAX });
        f.market.faucet(&ann.signed("faucet"), most.clone()).await.unwrap();
        f.market.faucet(&ann.signed("again"), most).await.unwrap();
        assert_eq!(f.balance(&ann).await, format!("{}/0/0", 1000 + FAUCET_MINOR_MAX));
    }

    /// Decision 9: a debtor spends nothing, and what comes in pays the debt first.
    async fn a_debtor_spends_nothing(f: Fixture) {
        let (ann, ben) = f.two().await;
        let wallet = |who: &Person| AccountId::wallet(&who.id(), Asset::USDC);
        let debt = Debt {
            id: DebtId::from_bytes([1; 16]),
            debtor: wallet(&ann),
            creditor: wallet(&ben),
            open: Amount::new(1500).unwrap(),
        };
        let load = Load { accounts: vec![wallet(&ann), wallet(&ben)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            turn.book.owe(debt.clone()).unwrap();
            Ok(Decision::Commit("{}".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        f.market.store().call(call).await.unwrap();
        assert_eq!(f.balance(&ann).await, "0/0/500");
        assert_eq!(f.balance(&ben).await, "1000/0/0");
        let refused = refusal(f.pay(&ann.signed("pay"), payment(1, &ben, 1)).await);
        assert_eq!(refused, Refusal::InDebt { owed_minor: 500 });
        f.fund(&ann, 901, 600).await;
        f.pay(&ann.signed("pay"), payment(2, &ben, 100)).await.unwrap();
        assert_eq!(f.balance(&ann).await, "0/0/0");
        assert_eq!(f.balance(&ben).await, "1600/0/0");
        f.audit_is_clean().await;
    }
}
