use std::time::Duration;

use skep_base::{
    Asset, Timestamp,
    id::{DealId, DebtId},
};
use skep_store::{AccountId, Answer, Outcome};

use crate::{
    fixture::{Change::*, *},
    on_both_engines,
};

on_both_engines! {
    async fn money_is_held_and_then_paid_in_part(f: Fixture) {
        let s = &f.store;
        assert_eq!(run(s, vec![Pay(1, outside(), wallet(1), 1000)]).await, "done");
        assert_eq!(run(s, vec![Hold(2, wallet(1), wallet(2), 600)]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "1000/600/0");
        let refused = run(s, vec![Pay(3, wallet(1), wallet(3), 401)]).await;
        assert!(refused.contains("has 400 minor units free, 401 are needed"), "{refused}");
        assert_eq!(run(s, vec![Post(4, 2, Some(250))]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "750/0/0");
        assert_eq!(balance(s, &wallet(2)).await, "250/0/0");
        assert!(run(s, vec![Void(5, 2)]).await.contains("already posted"));
        assert!(run(s, vec![Post(6, 2, None)]).await.contains("already posted"));
        assert_eq!(run(s, vec![Post(4, 2, Some(250))]).await, "done", "a retry is the same");
        assert_eq!(balance(s, &wallet(2)).await, "250/0/0");
        f.audit_is_clean().await;
    }

    async fn a_voided_hold_frees_everything(f: Fixture) {
        let s = &f.store;
        run(s, vec![Pay(1, outside(), wallet(1), 1000), Hold(2, wallet(1), wallet(2), 1000)]).await;
        assert_eq!(run(s, vec![Void(3, 2)]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "1000/0/0");
        assert!(run(s, vec![Post(4, 2, None)]).await.contains("already voided"));
        assert!(run(s, vec![Post(5, 99, None)]).await.contains("there is no transfer"));
        assert!(run(s, vec![Post(6, 1, None)]).await.contains("is not pending"));
        f.audit_is_clean().await;
    }

    async fn linked_transfers_happen_all_or_none(f: Fixture) {
        let s = &f.store;
        run(s, vec![Pay(1, outside(), wallet(1), 100)]).await;
        let linked = vec![Pay(2, wallet(1), wallet(2), 60), Pay(3, wallet(1), wallet(3), 60)];
        assert!(run(s, linked).await.contains("has 40 minor units free"));
        assert_eq!(balance(s, &wallet(1)).await, "100/0/0");
        assert_eq!(balance(s, &wallet(2)).await, "none");
        f.audit_is_clean().await;
    }

    async fn an_id_is_one_transfer_for_ever(f: Fixture) {
        let s = &f.store;
        run(s, vec![Pay(1, outside(), wallet(1), 100)]).await;
        assert_eq!(run(s, vec![Pay(1, outside(), wallet(1), 100)]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "100/0/0");
        let other = run(s, vec![Pay(1, outside(), wallet(1), 101)]).await;
        assert!(other.contains("exists already with other contents"), "{other}");
    }

    async fn credits_pay_debts_first_and_through_chains(f: Fixture) {
        let s = &f.store;
        run(s, vec![Pay(1, outside(), wallet(1), 30)]).await;
        // 1 owes 2 a hundred, 2 owes 3 fifty.
        assert_eq!(run(s, vec![Owe(2, wallet(2), wallet(3), 50)]).await, "done");
        assert_eq!(run(s, vec![Owe(1, wallet(1), wallet(2), 100)]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "0/0/70", "what was free was paid at once");
        assert_eq!(balance(s, &wallet(2)).await, "0/0/20", "and handed on");
        assert_eq!(balance(s, &wallet(3)).await, "30/0/0");
        assert_eq!(run(s, vec![Pay(3, outside(), wallet(1), 200)]).await, "done");
        assert_eq!(balance(s, &wallet(1)).await, "130/0/0");
        assert_eq!(balance(s, &wallet(2)).await, "50/0/0");
        assert_eq!(balance(s, &wallet(3)).await, "50/0/0");
        f.audit_is_clean().await;
    }

    async fn a_debt_is_known_while_it_is_open_and_after(f: Fixture) {
        let s = &f.store;
        let first = DebtId::from_bytes([1; 16]);
        let state = async |debtor: u8, id| {
            let debt = s.debt(&wallet(debtor), id).await.unwrap();
            debt.map(|d| (d.amount.minor(), d.open.minor(), d.opened_at.as_ms(), d.creditor))
        };
        f.clock.advance(Duration::from_secs(1));
        assert_eq!(run(s, vec![Owe(1, wallet(1), wallet(2), 100)]).await, "done");
        f.clock.advance(Duration::from_secs(1));
        assert_eq!(run(s, vec![Owe(2, wallet(1), wallet(3), 7)]).await, "done");
        let opened = START_MS + 1000;
        assert_eq!(state(1, first).await, Some((100, 100, opened, wallet(2))));
        run(s, vec![Pay(1, outside(), wallet(1), 30)]).await;
        assert_eq!(state(1, first).await, Some((100, 70, opened, wallet(2))));
        run(s, vec![Pay(2, outside(), wallet(1), 500)]).await;
        assert_eq!(state(1, first).await, Some((100, 0, opened, wallet(2))));
        assert_eq!(state(2, first).await, None, "a debt is found by its debtor");
        assert_eq!(state(1, DebtId::from_bytes([9; 16])).await, None);
    }

    async fn what_escrows_paid_is_earned_and_nothing_else_is(f: Fixture) {
        let s = &f.store;
        let deal = DealId::new(Timestamp::from_ms(START_MS), &[b"deal"]);
        let escrow = AccountId::escrow(&deal, Asset::USDC);
        let earned = async |since_ms: i64| {
            s.earned(wallet(2), Timestamp::from_ms(since_ms)).await.unwrap()
        };
        run(s, vec![Pay(1, outside(), escrow.clone(), 1000), Pay(2, outside(), wallet(1), 50)])
            .await;
        run(s, vec![Pay(3, wallet(1), wallet(2), 50)]).await;
        assert_eq!(earned(0).await, 0, "a gift is not earned");
        run(s, vec![Hold(4, escrow.clone(), wallet(2), 300)]).await;
        assert_eq!(earned(0).await, 0, "what is only held is not earned yet");
        run(s, vec![Post(5, 4, Some(200))]).await;
        f.clock.advance(Duration::from_secs(1));
        run(s, vec![Pay(6, escrow.clone(), wallet(2), 30)]).await;
        run(s, vec![Pay(7, escrow.clone(), wallet(3), 500)]).await;
        run(s, vec![Hold(8, escrow, wallet(2), 9)]).await;
        run(s, vec![Void(9, 8)]).await;
        run(s, vec![Pay(10, wallet(2), wallet(1), 60)]).await;
        assert_eq!(earned(0).await, 230);
        assert_eq!(earned(START_MS).await, 230);
        assert_eq!(earned(START_MS + 1).await, 30);
        assert_eq!(earned(START_MS + 1000).await, 30);
        assert_eq!(earned(START_MS + 1001).await, 0);
        f.audit_is_clean().await;
    }

    async fn a_budget_limits_what_its_wallet_spends_in_its_name(f: Fixture) {
        let s = &f.store;
        let budget = AccountId::budget(&agent(1), "trip", skep_base::Asset::USDC).unwrap();
        run(s, vec![Pay(1, outside(), wallet(1), 1000)]).await;
        let spend = |changes| charged(changes, Some(budget.clone()));
        let word = |o: Outcome| match o {
            Outcome::Done(Answer { body, .. }) => body,
            other => panic!("{other:?}"),
        };
        let early = s.call(spend(vec![Pay(2, wallet(1), wallet(2), 10)])).await.unwrap();
        assert!(word(early).contains("does not exist"));
        let limited = budget.clone();
        let mut open = call(vec![]);
        open.load.accounts.push(budget.clone());
        open.step = Box::new(move |turn| {
            turn.book.set_limit(&limited, Some(amount(100))).unwrap();
            Ok(skep_store::Decision::Commit("done".into()))
        });
        assert_eq!(word(s.call(open).await.unwrap()), "done");
        assert_eq!(word(s.call(spend(vec![Hold(3, wallet(1), wallet(2), 70)])).await.unwrap()), "done");
        let over = s.call(spend(vec![Pay(4, wallet(1), wallet(2), 31)])).await.unwrap();
        assert!(word(over).contains("may spend 30 more minor units, 31 are needed"));
        assert_eq!(run(s, vec![Post(5, 3, Some(20))]).await, "done", "the rest is free again");
        assert_eq!(word(s.call(spend(vec![Pay(6, wallet(1), wallet(2), 80)])).await.unwrap()), "done");
        let over = s.call(spend(vec![Pay(7, wallet(1), wallet(2), 1)])).await.unwrap();
        assert!(word(over).contains("may spend 0 more"));
        let others = s.call(spend(vec![Pay(8, wallet(2), wallet(3), 1)])).await.unwrap();
        assert!(word(others).contains("does not limit"));
        f.audit_is_clean().await;
    }

    async fn history_pages_show_every_row_once_newest_first(f: Fixture) {
        let s = &f.store;
        run(s, vec![Pay(1, outside(), wallet(1), 1000)]).await;
        for n in 2..=12 {
            f.clock.advance(std::time::Duration::from_millis(1));
            run(s, vec![Pay(n, wallet(1), wallet(2), 1)]).await;
        }
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = s.history(wallet(1), before, 5).await.unwrap().unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.cursor.clone());
            seen.extend(page.iter().map(|entry| entry.transfer.id));
        }
        assert_eq!(seen, (1..=12).rev().map(id).collect::<Vec<_>>());
        assert_eq!(s.history(wallet(1), Some("x".into()), 5).await.unwrap(), None);
    }

    async fn accounts_without_a_row_are_summed_up(f: Fixture) {
        let s = &f.store;
        for n in 1..=5 {
            run(s, vec![Pay(n, outside(), wallet(1), 100)]).await;
        }
        assert_eq!(s.journal_balance(outside()).await.unwrap(), -500);
        f.clock.advance(std::time::Duration::from_secs(7200));
        s.roll_up().await.unwrap();
        run(s, vec![Pay(6, wallet(1), outside(), 30)]).await;
        assert_eq!(s.journal_balance(outside()).await.unwrap(), -470);
        s.roll_up().await.unwrap();
        s.roll_up().await.unwrap();
        assert_eq!(s.journal_balance(outside()).await.unwrap(), -470);
    }
}
