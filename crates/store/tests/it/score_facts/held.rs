//! On PostgreSQL an agent's wallet says how its facts stand, which track record goes with them, and
//! is what counting locks.

use super::*;

/// Replaces the track record, if it is to be. Says what it was, and the number of the last fact.
pub(super) async fn track(store: &Store, of: AgentId, lock: Lock, next: Option<&str>) -> String {
    let load = Load { facts: vec![WantedFacts::of(&of, lock)], ..Load::default() };
    let next = next.map(str::to_owned);
    let step = move |turn: &mut Turn| {
        let was = turn.record::<String>(&key(of))?.unwrap_or_default();
        if let Some(next) = &next {
            turn.put(&key(of), next)?;
        }
        let n = turn.counted(&of)?.last.map_or(0, |last| last.n);
        Ok(Decision::Commit(format!("{was} {n}")))
    };
    let call = Call { load, guards: Vec::new(), step: Box::new(step) };
    match store.call(call).await.unwrap() {
        Outcome::Done(Answer { body, .. }) => body,
        other => panic!("{other:?}"),
    }
}

fn psql(f: &Fixture, sql: &str) -> String {
    TempPostgres::shared().psql(f.url.rsplit('/').next().unwrap(), sql).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_track_record_that_another_node_has_written_is_read_again() {
    let f = Fixture::postgres().await;
    let (one, other) = (agent(1), f.second_node().await);
    for lock in [Lock::Exclusive, Lock::Shared, Lock::None] {
        assert_eq!(track(&f.store, one, lock, None).await, " 0", "{lock:?}");
    }
    assert_eq!(track(&other, one, Lock::Exclusive, Some("a")).await, " 0");
    assert_eq!(track(&f.store, one, Lock::Exclusive, Some("b")).await, "a 0");
    assert_eq!(track(&other, one, Lock::Shared, None).await, "b 0");
    assert_eq!(track(&other, one, Lock::None, None).await, "b 0");
    add_next(&other, one).await;
    assert_eq!(track(&f.store, one, Lock::Exclusive, Some("c")).await, "b 1");
    assert_eq!(track(&other, one, Lock::Exclusive, None).await, "c 1");
    f.audit_is_clean().await;
}

/// Records of a kind that hardly ever changes are not asked for each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hardly_ever_changes_is_read_again_when_it_has() {
    let f = Fixture::postgres().await;
    let other = f.second_node().await;
    let (one, two) = (agent(1), agent(2));
    let see = async |store: &Store, of: AgentId, lock, next: Option<i64>| {
        let key = RecordKey::own("operator_score", of);
        let load = Load { records: vec![(key.clone(), lock)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            let was: Option<i64> = turn.record(&key)?;
            if let Some(next) = next {
                turn.put(&key, &next)?;
            }
            Ok(Decision::Commit(was.unwrap_or_default().to_string()))
        };
        let call = Call { load, guards: Vec::new(), step: Box::new(step) };
        match store.call(call).await.unwrap() {
            Outcome::Done(Answer { body, .. }) => body,
            other => panic!("{other:?}"),
        }
    };
    for n in 0..3 {
        for store in [&f.store, &other] {
            assert_eq!(see(store, one, Lock::None, None).await, n.to_string());
            assert_eq!(see(store, two, Lock::None, None).await, "0");
        }
        assert_eq!(see(&f.store, one, Lock::Exclusive, Some(n + 1)).await, n.to_string());
    }
    // Of some it is known, of others not, and all are looked at together.
    let looks = (0..40).map(|n| {
        let store = if n % 2 == 0 { &f.store } else { &other };
        see(store, agent(n % 5), Lock::None, None)
    });
    for (n, seen) in futures_util::future::join_all(looks).await.iter().enumerate() {
        assert_eq!(seen, if n % 5 == 1 { "3" } else { "0" }, "{n}");
    }
    assert_eq!(see(&other, two, Lock::Exclusive, Some(7)).await, "0");
    assert_eq!(see(&f.store, two, Lock::None, None).await, "7");
    assert_eq!(see(&f.store, one, Lock::Shared, None).await, "3");
    assert_eq!(see(&f.store, agent(3), Lock::None, None).await, "0");
}

/// As after a failover to a server that never got the last commits: what a node knows is no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_database_has_lost_is_not_known_any_more() {
    let f = Fixture::postgres().await;
    let one = agent(1);
    add_next(&f.store, one).await;
    track(&f.store, one, Lock::Exclusive, Some("a")).await;
    let kept = "create table kept_accounts as table accounts;
                create table kept_records as table records;";
    psql(&f, kept);
    track(&f.store, one, Lock::Exclusive, Some("lost")).await;
    psql(
        &f,
        "update accounts a set counted = k.counted from kept_accounts k
         where k.account = a.account;
         update records r set version = k.version, body = k.body from kept_records k
         where k.kind = r.kind and k.id = r.id;",
    );
    assert_eq!(track(&f.store, one, Lock::Exclusive, Some("b")).await, "a 1");
    assert_eq!(track(&f.store, one, Lock::Exclusive, None).await, "b 1");
    add_next(&f.store, one).await;
    f.audit_is_clean().await;
}

/// Two nodes open the wallet of one agent by counting, again and again, and write its record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_count_at_once_lose_nothing() {
    let f = Fixture::postgres().await;
    let other = f.second_node().await;
    let (here, there) = (&f.store, &other);
    let writes = (0..60_u8).map(|n| async move {
        let store = if n % 2 == 0 { here } else { there };
        let of = agent(n % 4);
        let load = Load { facts: vec![WantedFacts::of(&of, Lock::Exclusive)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            let last = turn.counted(&of)?.last.map_or(0, |last| last.n);
            // The record counts, too: both move together, or somebody has read what was over.
            let seen: i64 = turn.record(&key(of))?.unwrap_or_default();
            assert_eq!(seen, last);
            turn.add_fact(fact(of, last + 1, turn.now()))?;
            turn.put(&key(of), &(last + 1))?;
            Ok(Decision::Commit(String::new()))
        };
        store.call(Call { load, guards: Vec::new(), step: Box::new(step) }).await.unwrap();
    });
    futures_util::future::join_all(writes).await;
    for n in 0..4 {
        let facts = f.store.score_facts(agent(n), None, 99).await.unwrap();
        assert_eq!(facts.len(), 15);
    }
    f.audit_is_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_counts_for_whom_it_does_not_hold() {
    let f = Fixture::postgres().await;
    let one = agent(1);
    for writes_record in [false, true] {
        let load = Load { facts: vec![WantedFacts::of(&one, Lock::None)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            match writes_record {
                true => turn.put(&key(one), &"x")?,
                false => turn.add_fact(fact(one, 1, turn.now()))?,
            }
            Ok(Decision::Commit(String::new()))
        };
        let outcome = f.store.call(Call { load, guards: Vec::new(), step: Box::new(step) }).await;
        let Err(StoreError::Bug(bug)) = outcome else { panic!("{outcome:?}") };
        assert!(bug.0.contains("were not held"), "{bug}");
    }
    f.audit_is_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wallet_that_says_something_else_is_found() {
    let wallet = format!("how its agent's facts stand: wallet:{}:USDC", agent(1));
    for change in [
        "update accounts set counted = set_byte(counted, 7, 9)",
        "update accounts set counted = set_byte(counted, 100, get_byte(counted, 100) # 1)",
        "update accounts set counted = null",
        "update records set version = 5 where kind = 'score'",
        "update records set body = '\"y\"' where kind = 'score'",
        "delete from records where kind = 'score'",
    ] {
        let f = Fixture::postgres().await;
        add_next(&f.store, agent(1)).await;
        track(&f.store, agent(1), Lock::Exclusive, Some("x")).await;
        f.audit_is_clean().await;
        psql(&f, change);
        let report = f.store.audit(Box::new(|_, _| {})).await.unwrap();
        assert!(report.problems.iter().any(|p| p.contains(&wallet)), "{change}\n{report:#?}");
    }
}
