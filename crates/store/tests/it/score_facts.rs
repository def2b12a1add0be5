#[path = "score_facts/held.rs"]
mod held;
#[path = "score_facts/model.rs"]
mod model;
#[path = "score_facts/upgrade.rs"]
mod upgrade;

use std::time::Duration;

use skep_base::{AgentId, Timestamp, hash::sha256};
use skep_store::{
    Answer, Call, Counted, Decision, Load, Lock, Outcome, RecordKey, RouteKey, SCORE_WINDOW,
    ScoreFact, ScoreTotals, Store, StoreError, Turn, WantedFacts,
};
use skep_testkit::postgres::TempPostgres;

use crate::{fixture::*, on_both_engines};

const MS: Duration = Duration::from_millis(1);

/// The `n`th fact of an agent, which is a released escrow of ten cents.
fn fact(of: AgentId, n: i64, at: Timestamp) -> ScoreFact {
    ScoreFact {
        agent: of,
        at,
        n,
        dimension: "ap2".to_owned(),
        source: format!("deal {n}"),
        ok: true,
        released_cents: 10,
        counterparty: (n % 2 == 0).then(|| agent(9)),
        proof: (n % 2 == 1).then(|| sha256(b"proof")),
        chain: sha256(&n.to_be_bytes()),
        totals: ScoreTotals { ap2: n, ap2_ok: n, released_cents: 10 * n, ..ScoreTotals::default() },
    }
}

/// Adds a fact at the turn's time and says what the turn was told of the time before the window.
async fn count(store: &Store, of: AgentId, n: i64) -> String {
    let load = Load { facts: vec![WantedFacts::of(&of, Lock::Exclusive)], ..Load::default() };
    let step = move |turn: &mut Turn| {
        let told = turn.counted(&of)?;
        assert_eq!(told.last.map_or(0, |last| last.n), n - 1, "the last one of all is known");
        turn.add_fact(fact(of, n, turn.now()))?;
        assert_eq!(turn.counted(&of)?.last, Some(fact(of, n, turn.now()).mark()));
        Ok(Decision::Commit(format!("{}", told.base.ap2)))
    };
    let call = Call { load, guards: Vec::new(), step: Box::new(step) };
    match store.call(call).await.unwrap() {
        Outcome::Done(Answer { body, .. }) => body,
        other => panic!("{other:?}"),
    }
}

fn numbers(facts: &[ScoreFact]) -> Vec<i64> {
    facts.iter().map(|fact| fact.n).collect()
}

fn key(of: AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(of), kind: "score", id: of.to_string() }
}

on_both_engines! {
    async fn what_is_ninety_days_old_is_before_the_window(f: Fixture) {
        let one = agent(1);
        assert_eq!(count(&f.store, one, 1).await, "0");
        assert_eq!(count(&f.store, one, 2).await, "0", "the same millisecond is in the window");
        f.clock.advance(SCORE_WINDOW - MS);
        assert_eq!(count(&f.store, one, 3).await, "0");
        f.clock.advance(MS);
        assert_eq!(count(&f.store, one, 4).await, "2", "both of the first millisecond are out");
        assert_eq!(count(&f.store, agent(2), 1).await, "0", "another agent's count for nothing");
        let start = Timestamp::from_ms(START_MS);
        let end = start.plus(SCORE_WINDOW);
        let counted = async |now| f.store.counted(one, key(one), now).await.unwrap();
        let (record, told) = counted(end.minus(MS)).await;
        assert!(record.is_none(), "{record:?}");
        let last = Some(fact(one, 4, end).mark());
        assert_eq!(told, Counted { last, base: ScoreTotals::default() });
        assert_eq!(counted(end).await.1, Counted { last, base: fact(one, 2, start).totals });
        let (_, over) = counted(end.plus(SCORE_WINDOW)).await;
        assert_eq!(over, Counted { last, base: fact(one, 4, end).totals });
        let (_, nobody) = f.store.counted(agent(3), key(agent(3)), end).await.unwrap();
        assert_eq!(nobody, Counted::default());
        f.audit_is_clean().await;
    }

    /// Whoever counts often is not asked for each time: what is known must be what is so.
    async fn the_window_moves_with_the_clock_however_often_one_counts(f: Fixture) {
        const DAY: u64 = 24 * 3600 * 1000;
        let (one, mut now, mut facts) = (agent(1), Timestamp::from_ms(START_MS), Vec::new());
        for n in 1..=150_i64 {
            let draw = u64::from(sha256(&n.to_be_bytes()).as_bytes()[0]);
            // Often at once, sometimes after weeks, twice after the whole window is over.
            let pause = match draw % 8 {
                0..4 => draw % 3,
                4..7 => draw * DAY / 20,
                _ => draw * DAY / 2,
            };
            f.clock.advance(Duration::from_millis(pause));
            now = now.plus(Duration::from_millis(pause));
            let over = facts.iter().filter(|at| **at <= now.minus(SCORE_WINDOW)).count();
            assert_eq!(count(&f.store, one, n).await, over.to_string(), "fact {n}");
            facts.push(now);
        }
        f.audit_is_clean().await;
    }

    /// An index may hold the beginning of an address only, and two can be made that begin alike.
    async fn agents_whose_addresses_begin_alike_have_their_own_facts(f: Fixture) {
        let one = agent(1);
        let other = AgentId(std::array::from_fn(|place| if place < 19 { 1 } else { 2 }));
        for n in 1..=5 {
            for of in [one, other] {
                assert_eq!(count(&f.store, of, n).await, "0");
            }
            f.clock.advance(MS);
        }
        count(&f.store, other, 6).await;
        for (of, most) in [(one, 5), (other, 6)] {
            let facts = f.store.score_facts(of, None, 99).await.unwrap();
            assert!(facts.iter().all(|fact| fact.agent == of), "{facts:?}");
            assert_eq!(numbers(&facts), (1..=most).collect::<Vec<_>>());
            let (at, n) = (facts[2].at, facts[2].n);
            let latest = f.store.score_facts_latest(of, Some((at, n)), 99).await.unwrap();
            assert_eq!(numbers(&latest), [2, 1]);
            let now = facts[2].at.plus(SCORE_WINDOW);
            let (_, told) = f.store.counted(of, key(of), now).await.unwrap();
            let last = facts.last().map(ScoreFact::mark);
            assert_eq!(told, Counted { last, base: facts[2].totals });
        }
        f.clock.advance(SCORE_WINDOW);
        assert_eq!(count(&f.store, one, 6).await, "5");
        assert_eq!(count(&f.store, other, 7).await, "6", "all its own, and nothing else");
        f.audit_is_clean().await;
    }

    async fn turns_of_one_group_see_each_others_facts(f: Fixture) {
        let one = agent(1);
        let calls = (0..20).map(|_| {
            let load = Load {
                records: vec![(key(one), Lock::None)],
                facts: vec![WantedFacts::of(&one, Lock::Exclusive)],
                ..Load::default()
            };
            let step = move |turn: &mut Turn| {
                let n = turn.counted(&one)?.last.map_or(0, |last| last.n) + 1;
                turn.add_fact(fact(one, n, turn.now()))?;
                // Written once, and held by whoever counts.
                if turn.text(&key(one))?.is_none() {
                    turn.put(&key(one), &"one")?;
                }
                Ok(Decision::Commit(n.to_string()))
            };
            f.store.call(Call { load, guards: Vec::new(), step: Box::new(step) })
        });
        for outcome in futures_util::future::join_all(calls).await {
            outcome.unwrap();
        }
        let facts = f.store.score_facts(one, None, 99).await.unwrap();
        assert_eq!(numbers(&facts), (1..=20).collect::<Vec<i64>>());
        let now = Timestamp::from_ms(START_MS);
        let (record, _) = f.store.counted(one, key(one), now).await.unwrap();
        let record = record.unwrap();
        assert_eq!((record.version, record.body.as_str()), (1, "\"one\""));
        f.audit_is_clean().await;
    }

    async fn facts_are_read_in_pages_from_both_ends(f: Fixture) {
        let one = agent(1);
        for n in 1..=5 {
            count(&f.store, one, n).await;
            if n == 3 {
                f.clock.advance(MS);
            }
        }
        let first = f.store.score_facts(one, None, 2).await.unwrap();
        assert_eq!(first[1], fact(one, 2, Timestamp::from_ms(START_MS)));
        let place = (first[1].at, first[1].n);
        assert_eq!(numbers(&first), [1, 2]);
        assert_eq!(numbers(&f.store.score_facts(one, Some(place), 9).await.unwrap()), [3, 4, 5]);
        let last = f.store.score_facts_latest(one, None, 2).await.unwrap();
        let place = (last[1].at, last[1].n);
        assert_eq!(numbers(&last), [5, 4]);
        let rest = f.store.score_facts_latest(one, Some(place), 2).await.unwrap();
        assert_eq!(numbers(&rest), [3, 2]);
        // Three of the first millisecond, two of the next: any time with any number is a place.
        for (ms, n) in (-1..3).flat_map(|ms| (0..7).map(move |n| (ms, n))) {
            let place = (Timestamp::from_ms(START_MS + ms), n);
            let is_of = |number: &i64| i64::from(*number > 3);
            let later = (1..=5).filter(|number| (is_of(number), *number) > (ms, n));
            let after = f.store.score_facts(one, Some(place), 9).await.unwrap();
            assert_eq!(numbers(&after), later.collect::<Vec<_>>(), "after {place:?}");
            let sooner = (1..=5).rev().filter(|number| (is_of(number), *number) < (ms, n));
            let before = f.store.score_facts_latest(one, Some(place), 9).await.unwrap();
            assert_eq!(numbers(&before), sooner.collect::<Vec<_>>(), "before {place:?}");
        }
    }

    async fn a_fact_that_was_taken_out_changed_or_counted_wrongly_is_found(f: Fixture) {
        for n in 1..=4 {
            count(&f.store, agent(1), n).await;
        }
        f.audit_is_clean().await;
        let of = |n| format!("{} {n}", agent(1));
        // What migration 11 packs: another last byte of the cents, and the other outcome.
        let changes = match f.url.starts_with("sqlite:") {
            true => ["released_cents = 11", "ok = not ok"],
            false => {
                ["packed = set_byte(packed, 36, 11)", "packed = set_byte(packed, 28, get_byte(packed, 28) # 2)"]
            }
        };
        for (change, found) in [
            (format!("update score_facts set {} where n = 2", changes[0]), of(2)),
            (format!("update score_facts set {} where n = 3", changes[1]), of(3)),
            ("delete from score_facts where n = 2".to_owned(), of(3)),
        ] {
            change_the_past(&f.url, &change);
            let report = f.store.audit(Box::new(|_, _| {})).await.unwrap();
            let line = format!("does not follow from the one before it: {found}");
            assert!(report.problems.iter().any(|p| p.contains(&line)), "{change}\n{report:#?}");
        }
    }
}

/// No index refuses it: the wallet is the lock, and the audit sees what got round it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_that_stands_there_twice_is_found() {
    let f = Fixture::postgres().await;
    for n in 1..=3 {
        count(&f.store, agent(1), n).await;
    }
    f.audit_is_clean().await;
    let (pg, database) = (TempPostgres::shared(), f.url.rsplit('/').next().unwrap());
    pg.psql(database, "insert into score_facts select * from score_facts where n = 2").unwrap();
    let report = f.store.audit(Box::new(|_, _| {})).await.unwrap();
    let line = format!("does not follow from the one before it: {} 2", agent(1));
    assert!(report.problems.iter().any(|p| p.contains(&line)), "{report:#?}");
}

/// The number of the agent's last fact, as a turn is told it that could add one and does not.
async fn looked_at(store: &Store, of: AgentId) -> String {
    let load = Load { facts: vec![WantedFacts::of(&of, Lock::Exclusive)], ..Load::default() };
    let step = move |turn: &mut Turn| {
        let last = turn.counted(&of)?.last.map_or(0, |last| last.n);
        Ok(Decision::Commit(last.to_string()))
    };
    let call = Call { load, guards: Vec::new(), step: Box::new(step) };
    match store.call(call).await.unwrap() {
        Outcome::Done(Answer { body, .. }) => body,
        other => panic!("{other:?}"),
    }
}

/// The agent's wallet is held for as long as the transaction lasts, and made if there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_count_on_from_each_others_facts() {
    let f = Fixture::postgres().await;
    let (one, other) = (agent(1), f.second_node().await);
    for n in [1, 3, 4, 7, 9] {
        let theirs = n == 3 || n == 7;
        let (first, second) = if theirs { (&other, &f.store) } else { (&f.store, &other) };
        add_next(first, one).await;
        assert_eq!(looked_at(second, one).await, looked_at(first, one).await, "after {n}");
        add_next(second, one).await;
    }
    let (here, there) = (f.store.clone(), other.clone());
    let added = (0..40).map(|n| {
        let store = if n % 2 == 0 { here.clone() } else { there.clone() };
        async move { add_next(&store, agent(n % 3)).await }
    });
    futures_util::future::join_all(added).await;
    let mut all = 0;
    for n in 0..3 {
        let facts = f.store.score_facts(agent(n), None, 99).await.unwrap();
        assert_eq!(numbers(&facts), (1..=facts.len() as i64).collect::<Vec<i64>>());
        all += facts.len();
    }
    assert_eq!(all, 50);
    f.audit_is_clean().await;
}

async fn add_next(store: &Store, of: AgentId) {
    let load = Load { facts: vec![WantedFacts::of(&of, Lock::Exclusive)], ..Load::default() };
    let step = move |turn: &mut Turn| {
        let n = turn.counted(&of)?.last.map_or(0, |last| last.n) + 1;
        turn.add_fact(fact(of, n, turn.now()))?;
        Ok(Decision::Commit(n.to_string()))
    };
    let outcome = store.call(Call { load, guards: Vec::new(), step: Box::new(step) }).await;
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
}

/// No index refuses a number that is taken or left out: the turn does, and what runs beside it
/// in the same group comes to no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_out_of_order_is_refused_alone() {
    let f = Fixture::sqlite().await;
    let one = agent(1);
    let calls = (0..30).map(|index| {
        let load = Load { facts: vec![WantedFacts::of(&one, Lock::Exclusive)], ..Load::default() };
        let step = move |turn: &mut Turn| {
            let last = turn.counted(&one)?.last.map_or(0, |last| last.n);
            let (n, at) = match index {
                7 => (last + 2, turn.now()),
                13 => (last, turn.now()),
                23 => (last + 1, turn.now().minus(MS)),
                _ => (last + 1, turn.now()),
            };
            turn.add_fact(fact(one, n, at))?;
            Ok(Decision::Commit(n.to_string()))
        };
        f.store.call(Call { load, guards: Vec::new(), step: Box::new(step) })
    });
    let outcomes = futures_util::future::join_all(calls).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let refused = matches!(outcome, Err(StoreError::Bug(_)));
        assert_eq!(refused, [7, 13, 23].contains(&index), "{index}: {outcome:?}");
    }
    let facts = f.store.score_facts(one, None, 99).await.unwrap();
    assert_eq!(numbers(&facts), (1..=27).collect::<Vec<i64>>());
    f.audit_is_clean().await;
}

/// On SQLite facts are found by where others point to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_that_is_not_found_any_more_is_found_by_the_audit() {
    let first = agent(1);
    let faults = [
        (
            "update score_facts set jump = jump - 1 where n = 7",
            format!("jumps to another one than it should: {first} 7"),
        ),
        (
            "update score_facts set prev = prev - 1 where n = 6",
            format!("does not follow from the one before it: {first} 6"),
        ),
        ("update score_ends set fact = fact - 1", format!("not its agent's end: {first} 7")),
        ("delete from score_ends", format!("not its agent's end: {first} 7")),
        ("update score_ends set fact = 99", format!("is none of them: {first}")),
        ("update accounts set last_fact = last_fact - 1", format!("is none of them: {}", agent(2))),
        ("update accounts set last_fact = null", format!("not its agent's end: {} 1", agent(2))),
        (
            "insert into score_facts (agent_id, at, n, prev, jump, dimension, source, ok,
                 released_cents, chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum,
                 ap2_ok_sum, cents_sum)
             select agent_id, at, n, prev, jump, dimension, source, ok, released_cents, chain,
                    conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, cents_sum
             from score_facts where n = 5",
            format!("not its agent's end: {first} 5"),
        ),
    ];
    for (change, found) in faults {
        let f = Fixture::sqlite().await;
        for n in 1..=7 {
            count(&f.store, first, n).await;
        }
        model::count_and_pay(&f.store, agent(2), 1, Some(1)).await;
        f.audit_is_clean().await;
        let conn = rusqlite::Connection::open(f.url.strip_prefix("sqlite:").unwrap()).unwrap();
        conn.execute_batch("drop trigger score_facts_are_never_changed").unwrap();
        conn.execute(change, []).unwrap();
        let report = f.store.audit(Box::new(|_, _| {})).await.unwrap();
        assert!(report.problems.iter().any(|p| p.contains(&found)), "{change}\n{report:#?}");
    }
}

/// As only somebody with the database's own rights can.
fn change_the_past(url: &str, sql: &str) {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let conn = rusqlite::Connection::open(path).unwrap();
        let refused = conn.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("never changed"), "{refused}");
        conn.execute_batch(
            "drop trigger if exists score_facts_are_never_changed;
             drop trigger if exists score_facts_are_never_deleted;",
        )
        .unwrap();
        conn.execute(sql, []).unwrap();
        conn.execute_batch(
            "create trigger score_facts_are_never_changed before update on score_facts
             begin select raise(abort, 'never changed'); end;
             create trigger score_facts_are_never_deleted before delete on score_facts
             begin select raise(abort, 'never changed'); end;",
        )
        .unwrap();
        return;
    }
    let (pg, database) = (TempPostgres::shared(), url.rsplit('/').next().unwrap());
    let app = pg.psql(database, &format!("set role skep_app; {sql}")).unwrap_err();
    assert!(app.to_string().contains("permission denied"), "{app}");
    let owner = pg.psql(database, sql).unwrap_err();
    assert!(owner.to_string().contains("never changed"), "{owner}");
    let planted = format!(
        "alter table score_facts disable trigger user; {sql};
         alter table score_facts enable trigger user;"
    );
    pg.psql(database, &planted).unwrap();
}
