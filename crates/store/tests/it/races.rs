use std::time::Duration;

use skep_base::{Timestamp, id::TransferId};
use skep_store::{
    AccountId, Answer, Call, Decision, Guard, Kept, LedgerRefusal, Load, Order, Outcome, RouteKey,
    Store, StoreError, Turn,
};

use crate::{
    fixture::{Change::*, *},
    on_both_engines,
};

/// Half of the callers post, half void; says how many of each won.
async fn race(stores: &[Store], hold: u64) -> (usize, usize) {
    let mut racers = Vec::new();
    for n in 0..64_u64 {
        let store = stores[n as usize % stores.len()].clone();
        racers.push(tokio::spawn(async move {
            let resolution = 1000 + hold * 100 + n;
            let change = match n % 2 {
                0 => Post(resolution, hold, None),
                _ => Void(resolution, hold),
            };
            (n % 2 == 0, run(&store, vec![change]).await)
        }));
    }
    let (mut posts, mut voids) = (0, 0);
    for racer in racers {
        match racer.await.unwrap() {
            (true, word) if word == "done" => posts += 1,
            (false, word) if word == "done" => voids += 1,
            (_, word) => assert!(word.contains("was already"), "{word}"),
        }
    }
    (posts, voids)
}

on_both_engines! {
    async fn of_64_callers_exactly_one_resolves_a_hold(f: Fixture) {
        run(&f.store, vec![Pay(1, outside(), wallet(1), 1000)]).await;
        for hold in 2..8 {
            run(&f.store, vec![Hold(hold, wallet(1), wallet(2), 100)]).await;
            let (posts, voids) = race(std::slice::from_ref(&f.store), hold).await;
            assert_eq!(posts + voids, 1);
        }
        f.audit_is_clean().await;
    }

    async fn parallel_spenders_never_overdraw(f: Fixture) {
        run(&f.store, vec![Pay(1, outside(), wallet(1), 100)]).await;
        let spend = |n: u64| {
            let store = f.store.clone();
            tokio::spawn(async move {
                run(&store, vec![Pay(10 + n, wallet(1), wallet(2 + (n % 5) as u8), 3)]).await
            })
        };
        let tasks: Vec<_> = (0..64).map(spend).collect();
        let mut paid = 0;
        for task in tasks {
            paid += usize::from(task.await.unwrap() == "done");
        }
        assert_eq!(paid, 33);
        assert_eq!(balance(&f.store, &wallet(1)).await, "1/0/0");
        f.audit_is_clean().await;
    }

    async fn a_repeated_key_gets_the_stored_answer(f: Fixture) {
        let with_key = |content: &str, n| {
            let mut call = call(vec![Pay(n, outside(), wallet(1), 5)]);
            call.guards.push(guard("agent", "key", content, START_MS + 1000));
            call
        };
        let first = f.store.call(with_key("a", 1)).await.unwrap();
        assert!(matches!(first, Outcome::Done(Answer { refused: false, .. })));
        let again = f.store.call(with_key("a", 2)).await.unwrap();
        assert!(matches!(again, Outcome::Replayed(Answer { refused: false, .. })));
        let other = f.store.call(with_key("b", 3)).await.unwrap();
        assert_eq!(other, Outcome::Conflict { guard: 0 });
        assert_eq!(balance(&f.store, &wallet(1)).await, "5/0/0");
        assert_eq!(f.store.drop_expired().await.unwrap(), 0);
        f.clock.advance(Duration::from_secs(899));
        assert_eq!(f.store.drop_expired().await.unwrap(), 0, "kept whatever the signer says");
        f.clock.advance(Duration::from_secs(1));
        assert_eq!(f.store.drop_expired().await.unwrap(), 1);
        let fresh = f.store.call(with_key("b", 4)).await.unwrap();
        assert!(matches!(fresh, Outcome::Done(_)), "what has expired is forgotten");
    }

    async fn a_key_is_kept_by_the_clock_of_the_database(f: Fixture) {
        let with_key = |key: &str, kept| {
            let mut call = call(vec![]);
            call.guards.push(Guard { kept, ..guard("agent", key, "a", 0) });
            call
        };
        let (long, short) = (Duration::from_secs(3600), Duration::from_secs(1));
        f.clock.advance(long);
        f.store.call(with_key("long", Kept::For(long))).await.unwrap();
        f.store.call(with_key("short", Kept::For(short))).await.unwrap();
        f.store.call(with_key("until", Kept::Until(Timestamp::from_ms(START_MS)))).await.unwrap();
        let expires = async |after| {
            f.clock.advance(after);
            f.store.drop_expired().await.unwrap()
        };
        assert_eq!(expires(Duration::from_secs(899)).await, 0, "no key is kept for less");
        assert_eq!(expires(Duration::from_secs(1)).await, 2);
        assert_eq!(expires(Duration::from_millis(2_699_999)).await, 0);
        assert_eq!(expires(Duration::from_millis(1)).await, 1);
    }

    async fn the_same_id_on_another_route_is_another_transfer(f: Fixture) {
        run(&f.store, vec![Pay(1, outside(), wallet(1), 100)]).await;
        let (deal, hold) = (RouteKey::of("deal"), id(2));
        let order = Order {
            id: hold,
            route: deal.clone(),
            debit: wallet(1),
            credit: wallet(2),
            amount: skep_base::Amount::new(60).unwrap(),
            budget: None,
        };
        let held = raw((deal.clone(), hold), vec![wallet(1), wallet(2)], move |turn| {
            turn.book.hold(order.clone()).map(|_| ())
        });
        f.store.call(held).await.unwrap();
        // Both land in one group sooner or later: whoever names the id alone gets nothing.
        let looks = (0..40).map(|_| f.store.call(raw((deal.clone(), hold), vec![], |_| Ok(()))));
        let voids = (0..40).map(|n| {
            let route = RouteKey::of(hold);
            f.store.call(raw((route, hold), vec![], move |turn| {
                turn.book.void(hold, id(100 + n)).map(|_| ())
            }))
        });
        let calls = looks.zip(voids).flat_map(|(look, void)| {
            [Box::pin(look) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>, Box::pin(void)]
        });
        let mut voided = 0;
        for outcome in futures_util::future::join_all(calls).await {
            let outcome: Outcome = outcome.unwrap();
            voided += i32::from(matches!(outcome, Outcome::Done(Answer { refused: true, .. })));
        }
        assert_eq!(voided, 40, "every void was told that there is no such transfer");
        assert_eq!(balance(&f.store, &wallet(1)).await, "100/60/0");
    }

    async fn a_replay_uses_its_other_key_up(f: Fixture) {
        let keyed = |nonce: &str, content: &str| {
            let mut call = call(vec![Pay(1, outside(), wallet(1), 5)]);
            call.guards.push(guard("nonce", nonce, content, START_MS + 1000));
            call.guards.push(guard("idempotency", "key", content, START_MS + 1000));
            call
        };
        assert!(matches!(f.store.call(keyed("n1", "a")).await.unwrap(), Outcome::Done(_)));
        assert!(matches!(f.store.call(keyed("n2", "a")).await.unwrap(), Outcome::Replayed(_)));
        let mut reused = call(vec![]);
        reused.guards.push(guard("nonce", "n2", "b", START_MS + 1000));
        assert_eq!(f.store.call(reused).await.unwrap(), Outcome::Conflict { guard: 0 });
    }

    async fn a_refusal_uses_its_key_up_too(f: Fixture) {
        let poor = || {
            let mut call = call(vec![Pay(1, wallet(1), wallet(2), 5)]);
            call.guards.push(guard("agent", "key", "a", START_MS + 1000));
            call
        };
        let first = f.store.call(poor()).await.unwrap();
        assert!(matches!(first, Outcome::Done(Answer { refused: true, .. })));
        run(&f.store, vec![Pay(2, outside(), wallet(1), 5)]).await;
        let again = f.store.call(poor()).await.unwrap();
        assert!(matches!(again, Outcome::Replayed(Answer { refused: true, .. })));
    }

    async fn the_same_key_from_many_callers_runs_once(f: Fixture) {
        let tasks: Vec<_> = (0..32_u64)
            .map(|n| {
                let store = f.store.clone();
                tokio::spawn(async move {
                    let mut call = call(vec![Pay(10 + n, outside(), wallet(1), 5)]);
                    call.guards.push(guard("agent", "key", "same", START_MS + 1000));
                    store.call(call).await.unwrap()
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += usize::from(matches!(task.await.unwrap(), Outcome::Done(_)));
        }
        assert_eq!(done, 1);
        assert_eq!(balance(&f.store, &wallet(1)).await, "5/0/0");
    }

    async fn a_bug_in_one_call_leaves_the_others_alone(f: Fixture) {
        let tasks: Vec<_> = (0..40_u64)
            .map(|n| {
                let store = f.store.clone();
                tokio::spawn(async move {
                    let mut call = call(vec![Pay(n, outside(), wallet(1), 1)]);
                    if n % 10 == 0 {
                        call.step = Box::new(|_| panic!("planted"));
                    }
                    store.call(call).await
                })
            })
            .collect();
        let mut bugs = 0;
        for task in tasks {
            bugs += usize::from(matches!(task.await.unwrap(), Err(StoreError::Bug(_))));
        }
        assert_eq!(bugs, 4);
        assert_eq!(balance(&f.store, &wallet(1)).await, "36/0/0");
        f.audit_is_clean().await;
    }

    async fn what_the_database_refuses_fails_alone(f: Fixture) {
        // A name that two calls claim without having looked: the rules let it pass, the
        // database does not.
        let claim = |n: u64| {
            let store = f.store.clone();
            tokio::spawn(async move {
                let mut call = call(vec![Pay(n, outside(), wallet(1), 1)]);
                let mut step = call.step;
                call.step = Box::new(move |turn| {
                    if n < 2 {
                        turn.claim_name("test", "same", n);
                    }
                    step(turn)
                });
                store.call(call).await.is_ok()
            })
        };
        let tasks: Vec<_> = (0..30).map(claim).collect();
        let mut good = 0;
        for task in tasks {
            good += usize::from(task.await.unwrap());
        }
        assert_eq!(good, 29);
        assert_eq!(balance(&f.store, &wallet(1)).await, "29/0/0");
        f.audit_is_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_one_postgres_agree_on_one_winner() {
    let f = Fixture::postgres().await;
    let nodes = [f.store.clone(), f.second_node().await];
    run(&f.store, vec![Pay(1, outside(), wallet(1), 1000)]).await;
    for hold in 2..10 {
        run(&nodes[hold as usize % 2], vec![Hold(hold, wallet(1), wallet(2), 100)]).await;
        let (posts, voids) = race(&nodes, hold).await;
        assert_eq!(posts + voids, 1);
    }
    f.audit_is_clean().await;
}

/// A call that names one transfer by its route.
fn raw(
    transfer: (RouteKey, TransferId),
    accounts: Vec<AccountId>,
    mut step: impl FnMut(&mut Turn) -> Result<(), LedgerRefusal> + Send + 'static,
) -> Call {
    let load = Load { accounts, transfers: vec![transfer], ..Load::default() };
    let step = move |turn: &mut Turn| {
        Ok(match step(turn) {
            Ok(()) => Decision::Commit("null".to_owned()),
            Err(refusal) => Decision::Refuse(refusal.to_string()),
        })
    };
    Call { load, guards: vec![], step: Box::new(step) }
}
