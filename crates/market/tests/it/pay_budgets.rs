//! Budgets: what agents spend for others, together and at the same time.

use std::time::Duration;

use serde_json::json;
use skep_base::{Hash32, Timestamp, ed25519::SecretKey};
use skep_market::{Failure, Refusal};
use skep_wire::{
    hire::{BUDGET_DEPTH_MAX, Budget, BudgetIssuer, BudgetToken, EscrowVerb},
    x402::{SettleResponse, reason},
};
use tokio::task::JoinSet;

use crate::{fixture::*, on_both_engines, pay_world::*};

/// A payment of `minor` for a hire under a budget.
fn under(f: &Fixture, token: &BudgetToken, from: &Person, to: &Person, minor: i64, n: u64) -> Bill {
    let wanted = hire(from, to.id(), n, json!({ "budget_token": token }));
    Bill::for_hire(&f.market.rail(), from, to.id(), minor, &wanted)
}

/// `limit spent held delegated left`
fn sums(budget: &Budget) -> [i64; 5] {
    let Budget { limit_minor, spent_minor, held_minor, delegated_minor, left_minor, .. } = budget;
    [limit_minor, spent_minor, held_minor, delegated_minor, left_minor].map(|a| a.minor())
}

async fn shown(f: &Fixture, token: &BudgetToken) -> [i64; 5] {
    sums(&f.market.budget(&token.id().unwrap()).await.unwrap())
}

fn word<T: std::fmt::Debug>(said: Result<T, Failure>) -> String {
    match said {
        Err(Failure::Refused(Refusal::Budget { reason })) => {
            format!("{reason:?}").split([' ', '{']).next().unwrap().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

on_both_engines! {
    async fn a_budget_is_given_by_the_operator_and_spent_by_its_agent(f: Fixture) {
        let (ann, ben) = f.two().await;
        let token = budget(&ann, "0.0003", 1);
        let id = token.id().unwrap();
        assert_eq!(word(f.market.budget(&id).await), "Unknown");
        // The first payment makes it known.
        settle(&f.market, &under(&f, &token, &ann, &ben, 100, 1).request()).await;
        assert_eq!(shown(&f, &token).await, [300, 100, 0, 0, 200]);
        let opened = f.market.budget_open(token.clone()).await.unwrap().value;
        assert_eq!(sums(&opened), [300, 100, 0, 0, 200]);
        let more = under(&f, &token, &ann, &ben, 201, 2);
        assert_eq!(refused_by_both(&f.market, &more.request()).await, reason::BUDGET_EXCEEDED);
        settle(&f.market, &under(&f, &token, &ann, &ben, 200, 2).request()).await;
        let one = under(&f, &token, &ann, &ben, 1, 3);
        assert_eq!(refused_by_both(&f.market, &one.request()).await, reason::BUDGET_EXCEEDED);
        assert_eq!(f.balance(&ann).await, "700/0/0");

        // Somebody else's, forged, and of another time.
        f.fund(&ben, 901, 100).await;
        let theirs = under(&f, &token, &ben, &ann, 1, 4);
        assert_eq!(refused_by_both(&f.market, &theirs.request()).await, reason::BUDGET);
        let mut forged = budget(&ann, "0.0003", 2);
        forged.max_amount_usdc = "0.0004".parse().unwrap();
        assert_eq!(word(f.market.budget_open(forged.clone()).await), "Signature");
        let forged = under(&f, &forged, &ann, &ben, 1, 5);
        assert_eq!(refused_by_both(&f.market, &forged.request()).await, reason::BUDGET);
        let mut self_made = budget(&ann, "0.0003", 3);
        self_made.sign_as_agent(&ann.wallet).unwrap();
        assert_eq!(word(f.market.budget_open(self_made).await), "WrongIssuer");
        let fresh = budget(&ann, "0.0003", 4);
        f.clock.set(Timestamp::from_ms(START_MS - 1));
        assert_eq!(word(f.market.budget_open(fresh.clone()).await), "NotYetValid");
        f.clock.set(Timestamp::from_ms(START_MS + 3_600_000));
        assert_eq!(word(f.market.budget_open(fresh).await), "Expired");
        assert!(f.market.budget(&id).await.unwrap().expired);
        f.audit_is_clean().await;
    }

    async fn an_operator_gives_its_agents_budgets(f: Fixture) {
        let (ann, ben) = f.two().await;
        let boss = SecretKey::from_seed([40; 32]);
        f.market.register_operator(operator(&boss, "Acme", f.now())).await.unwrap();
        f.change(&ann, ann.attach(&boss, f.now())).await.unwrap();
        let mut token = budget(&ann, "0.0001", 1);
        // Its own key is not the operator's any more.
        assert_eq!(word(f.market.budget_open(token.clone()).await), "WrongIssuer");
        token.issuer = BudgetIssuer::Operator(did(&boss));
        token.sign_as_operator(&boss).unwrap();
        settle(&f.market, &under(&f, &token, &ann, &ben, 100, 1).request()).await;
        assert_eq!(shown(&f, &token).await, [100, 100, 0, 0, 0]);
        f.audit_is_clean().await;
    }

    async fn a_part_is_taken_out_and_comes_back(f: Fixture) {
        let (ann, ben) = f.two().await;
        f.fund(&ben, 901, 1000).await;
        let whole = budget(&ann, "0.0010", 1);
        let mut halfway = part(&whole, &ann, &ben, "0.0004", 2);
        halfway.max_duration_seconds = 600;
        halfway.sign_as_agent(&ann.wallet).unwrap();
        let parent = whole.id().unwrap();
        assert_eq!(word(f.market.budget_open(halfway.clone()).await), "UnknownParent");
        f.market.budget_open(whole.clone()).await.unwrap();
        let stolen = part(&whole, &ben, &ben, "0.0004", 3);
        assert_eq!(word(f.market.budget_open(stolen).await), "WrongIssuer");
        let larger = part(&whole, &ann, &ben, "0.001001", 4);
        assert_eq!(word(f.market.budget_open(larger).await), "Exceeded");
        let mut longer = part(&whole, &ann, &ben, "0.0001", 5);
        longer.max_duration_seconds = 3601;
        longer.sign_as_agent(&ann.wallet).unwrap();
        assert_eq!(word(f.market.budget_open(longer).await), "OutlivesParent");

        // A first payment makes a part known, too.
        settle(&f.market, &under(&f, &halfway, &ben, &ann, 150, 1).request()).await;
        assert_eq!(shown(&f, &whole).await, [600, 0, 0, 400, 600]);
        assert_eq!(shown(&f, &halfway).await, [400, 150, 0, 0, 250]);
        settle(&f.market, &under(&f, &whole, &ann, &ben, 600, 2).request()).await;
        let late = under(&f, &halfway, &ben, &ann, 1, 3);
        f.clock.set(Timestamp::from_ms(START_MS + 599_000));
        assert_eq!(f.market.do_due_jobs().await.unwrap(), 0);
        f.clock.set(Timestamp::from_ms(START_MS + 600_000));
        assert_eq!(refused_by_both(&f.market, &{
            let mut late = late.clone();
            late.window.1 += 3600;
            late
        }.request()).await, reason::BUDGET);
        while f.market.do_due_jobs().await.unwrap() > 0 {}
        assert_eq!(shown(&f, &halfway).await, [150, 150, 0, 0, 0]);
        assert_eq!(shown(&f, &whole).await, [850, 600, 0, 150, 250]);
        assert_eq!(parent, f.market.budget(&parent).await.unwrap().budget_id);
        f.audit_is_clean().await;
    }

    async fn parts_of_parts_come_back_all_the_way(f: Fixture) {
        let ann = Person::new(1);
        f.register(&ann).await;
        let mut chain = vec![budget(&ann, "0.0010", 0)];
        for n in 0..=BUDGET_DEPTH_MAX as u64 {
            let token = part(chain.last().unwrap(), &ann, &ann, "0.0010", n + 1);
            chain.push(token);
        }
        let too_deep = chain.pop().unwrap();
        for token in &chain {
            f.market.budget_open(token.clone()).await.unwrap();
        }
        assert_eq!(word(f.market.budget_open(too_deep).await), "TooDeep");
        assert_eq!(shown(&f, &chain[0]).await, [0, 0, 0, 1000, 0]);
        // All end at the same time, in any order.
        f.clock.advance(Duration::from_secs(3600));
        while f.market.do_due_jobs().await.unwrap() > 0 {}
        assert_eq!(shown(&f, &chain[0]).await, [1000, 0, 0, 0, 1000]);
        for token in &chain[1..] {
            assert_eq!(shown(&f, token).await, [0; 5]);
        }
        f.audit_is_clean().await;
    }

    async fn money_in_escrow_counts_and_a_refund_does_not(f: Fixture) {
        let (ann, ben) = f.two().await;
        let token = budget(&ann, "0.0003", 1);
        let result = Hash32([7; 32]);
        let mut ids = Vec::new();
        for n in 0..3 {
            let wanted = hire(&ann, ben.id(), n, json!({ "budget_token": token }));
            let terms = escrow_terms(&wanted, ben.id(), 100);
            let bill = Bill::for_escrow(&f.market.rail(), &ann, &terms, &wanted);
            let id = settle(&f.market, &bill.request()).await.escrow_id.unwrap();
            ids.push(id.parse().unwrap());
        }
        assert_eq!(shown(&f, &token).await, [300, 0, 300, 0, 0]);
        let more = under(&f, &token, &ann, &ben, 1, 9);
        assert_eq!(refused_by_both(&f.market, &more.request()).await, reason::BUDGET_EXCEEDED);
        deliver(&f, ids[0], result).await;
        let release = escrow_order(ids[0], EscrowVerb::Release, &ann, Some(result));
        f.market.escrow_order(ids[0], EscrowVerb::Release, release).await.unwrap();
        let refund = escrow_order(ids[1], EscrowVerb::Refund, &ben, None);
        f.market.escrow_order(ids[1], EscrowVerb::Refund, refund).await.unwrap();
        assert_eq!(shown(&f, &token).await, [300, 100, 100, 0, 100]);
        assert_eq!(f.balance(&ann).await, "800/100/0");
        settle(&f.market, &under(&f, &token, &ann, &ben, 100, 9).request()).await;
        assert_eq!(shown(&f, &token).await, [300, 200, 100, 0, 0]);
        f.audit_is_clean().await;
    }

    /// A seller that does not show the hire would spend beside the budget.
    async fn a_payment_under_a_budget_comes_with_its_hire(f: Fixture) {
        let (ann, ben) = f.two().await;
        let token = budget(&ann, "0.0001", 1);
        let mut bill = under(&f, &token, &ann, &ben, 60, 1);
        let shown = bill.skep.take();
        let said = f.market.x402_settle(&bill.request()).await.unwrap();
        assert_eq!(said.error_reason.as_deref(), Some(reason::NOT_FOR_THIS_HIRE));
        // Nor under another hire's name, which has no budget.
        let other = hire(&ann, ben.id(), 2, json!({}));
        bill.skep = Bill::for_hire(&f.market.rail(), &ann, ben.id(), 60, &other).skep;
        let said = f.market.x402_settle(&bill.request()).await.unwrap();
        assert_eq!(said.error_reason.as_deref(), Some(reason::NOT_FOR_THIS_HIRE));
        bill.skep = shown;
        assert!(f.market.x402_settle(&bill.request()).await.unwrap().success);
        let spent = f.market.budget(&token.id().unwrap()).await.unwrap().spent_minor;
        assert_eq!(spent.minor(), 60);
        f.audit_is_clean().await;
    }

    async fn fifty_parallel_hires_never_exceed_a_budget_and_its_parts(f: Fixture) {
        let (ann, ben) = f.two().await;
        let (cleo, dan) = (Person::new(3), Person::new(4));
        for who in [&cleo, &dan] {
            f.register(who).await;
        }
        f.fund(&ben, 901, 1000).await;
        f.fund(&cleo, 902, 1000).await;
        let whole = budget(&ann, "0.0003", 1);
        f.market.budget_open(whole.clone()).await.unwrap();
        let parts =
            [part(&whole, &ann, &ben, "0.00009", 2), part(&whole, &ann, &cleo, "0.00008", 3)];
        let spenders = [(&whole, &ann), (&parts[0], &ben), (&parts[1], &cleo)];
        let mut callers = JoinSet::new();
        for n in 0..50_u64 {
            let (token, from) = spenders[n as usize % 3];
            let to = if n % 2 == 0 { dan.id() } else { Person::new(20 + n as u8 % 5).id() };
            let wanted = hire(from, to, n, json!({ "budget_token": token }));
            let amount = 11 + (n % 3) as i64;
            let bill = Bill::for_hire(&f.market.rail(), from, to, amount, &wanted);
            let (market, request) = (f.market.clone(), bill.request());
            callers.spawn(async move {
                let said: SettleResponse = market.x402_settle(&request).await.unwrap();
                match said.success {
                    true => (n % 3, amount),
                    false => {
                        assert_eq!(said.error_reason.as_deref(), Some(reason::BUDGET_EXCEEDED));
                        (n % 3, 0)
                    }
                }
            });
        }
        let mut spent = [0; 3];
        for (who, amount) in callers.join_all().await {
            spent[who as usize] += amount;
        }
        // Ann's may be spent before the parts are taken out, or after.
        let [all, bens, cleos] = [&whole, &parts[0], &parts[1]].map(|token| token.id().unwrap());
        let [all, bens, cleos] = [
            f.market.budget(&all).await.unwrap(),
            f.market.budget(&bens).await.unwrap(),
            f.market.budget(&cleos).await.unwrap(),
        ];
        assert_eq!([&all, &bens, &cleos].map(|b| b.spent_minor.minor()), spent);
        assert!(spent.iter().sum::<i64>() <= 300, "{spent:?}");
        assert!(spent[1] <= 90 && spent[2] <= 80, "{spent:?}");
        assert_eq!(sums(&all)[..4], [130, spent[0], 0, 170]);
        // Little enough is left that nobody could have paid once more.
        assert!([&all, &bens, &cleos].iter().all(|b| b.left_minor.minor() < 13), "{spent:?}");
        for (who, start, spent) in [(&ann, 1000, spent[0]), (&ben, 1000, spent[1])] {
            assert_eq!(f.balance(who).await, format!("{}/0/0", start - spent));
        }
        f.audit_is_clean().await;
    }
}
