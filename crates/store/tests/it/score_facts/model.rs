//! What is counted, against plain lists of facts.

use std::collections::BTreeMap;

use skep_base::Asset;
use skep_store::{AccountId, Order, bench::ScoreSample};
use skep_testkit::rng::{Rng, seed_or};

use super::*;

const AGENTS: u64 = 5;
const ROUNDS: u64 = 40;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Counts so many facts in one step and, if a transfer's number is given, pays the agent in it.
/// Gives what the turn was told of the time before the window.
pub(super) async fn count_and_pay(
    store: &Store,
    of: AgentId,
    facts: i64,
    paid: Option<u64>,
) -> ScoreTotals {
    let asset = if paid.is_some_and(|n| n % 3 == 0) { Asset::USD } else { Asset::USDC };
    let order = paid.map(|n| Order {
        id: id(n),
        route: RouteKey::of(id(n)),
        debit: AccountId::external("test", asset),
        credit: AccountId::wallet(&of, asset),
        amount: amount(1),
        budget: None,
    });
    let mut load = Load {
        records: vec![(key(of), Lock::Exclusive)],
        facts: vec![WantedFacts::of(&of, Lock::Exclusive)],
        ..Load::default()
    };
    if let Some(order) = &order {
        load.accounts.extend([order.debit.clone(), order.credit.clone()]);
        load.transfers.push((order.route.clone(), order.id));
    }
    let step = move |turn: &mut Turn| {
        let base = turn.counted(&of)?.base;
        for _ in 0..facts {
            let n = turn.counted(&of)?.last.map_or(0, |last| last.n) + 1;
            turn.add_fact(fact(of, n, turn.now()))?;
        }
        if let Some(order) = &order {
            turn.book.transfer(order.clone()).unwrap();
        }
        Ok(Decision::Commit(base.ap2.to_string()))
    };
    let call = Call { load, guards: Vec::new(), step: Box::new(step) };
    let Outcome::Done(Answer { body, .. }) = store.call(call).await.unwrap() else { panic!() };
    totals(body.parse().unwrap())
}

fn totals(n: i64) -> ScoreTotals {
    ScoreTotals { ap2: n, ap2_ok: n, released_cents: 10 * n, ..ScoreTotals::default() }
}

/// What is told of these facts.
fn told(facts: &[ScoreFact], now: Timestamp) -> Counted {
    let over = facts.iter().filter(|fact| fact.at <= now.minus(SCORE_WINDOW)).count();
    Counted { last: facts.last().map(ScoreFact::mark), base: totals(over as i64) }
}

/// Compares pages of all sizes after and before a key, and what is told at other times.
async fn compare(store: &Store, of: AgentId, facts: &[ScoreFact], rng: &mut Rng) {
    let mut keys = vec![None];
    for _ in 0..3 {
        if let Some(fact) = facts.get(rng.below(facts.len().max(1) as u64) as usize) {
            keys.extend([Some((fact.at, fact.n)), Some((fact.at, 0)), Some((fact.at.plus(MS), 0))]);
            let now = fact.at.plus(SCORE_WINDOW);
            for now in [now.minus(MS), now, now.plus(MS)] {
                let (_, counted) = store.counted(of, key(of), now).await.unwrap();
                assert_eq!(counted, told(facts, now));
            }
        }
    }
    for key in keys {
        let after: Vec<&ScoreFact> =
            facts.iter().filter(|f| key.is_none_or(|key| (f.at, f.n) > key)).collect();
        let before: Vec<&ScoreFact> =
            facts.iter().rev().filter(|f| key.is_none_or(|key| (f.at, f.n) < key)).collect();
        let some = rng.below(facts.len() as u64 + 2) as usize;
        for limit in [0, 1, 2, 3, some, facts.len(), facts.len() + 1] {
            let page = store.score_facts(of, key, limit).await.unwrap();
            assert!(page.iter().eq(after.iter().copied().take(limit)), "{limit} after {key:?}");
            let page = store.score_facts_latest(of, key, limit).await.unwrap();
            assert!(page.iter().eq(before.iter().copied().take(limit)), "{limit} before {key:?}");
        }
    }
}

on_both_engines! {
    /// Many in a commit, at the same millisecond and after months, with and without money, and
    /// after a new start: what is told and what is listed is what was counted.
    async fn what_is_counted_is_what_is_told(f: Fixture) {
        let (mut f, mut rng) = (f, Rng::new(seed_or(7)));
        let mut model: BTreeMap<AgentId, Vec<ScoreFact>> = BTreeMap::new();
        let (mut now, mut payments) = (Timestamp::from_ms(START_MS), 0);
        for round in 0..ROUNDS {
            let pause = Duration::from_millis(match rng.below(8) {
                0..3 => 0,
                3..5 => 1 + rng.below(3),
                5..7 => rng.below(20 * DAY_MS),
                _ => rng.below(120 * DAY_MS),
            });
            f.clock.advance(pause);
            now = now.plus(pause);
            let with_money = rng.below(3);
            let (mut calls, mut expected) = (Vec::new(), Vec::new());
            for _ in 0..1 + rng.below(12) {
                let (of, facts) = (agent(1 + rng.below(AGENTS) as u8), rng.below(6) as i64);
                payments += 1;
                let paid = (with_money == 0 || with_money == 1 && rng.percent(50))
                    .then_some(payments);
                calls.push(count_and_pay(&f.store, of, facts, paid));
                let all = model.entry(of).or_default();
                expected.push(told(all, now).base);
                for _ in 0..facts {
                    all.push(fact(of, all.len() as i64 + 1, now));
                }
            }
            let bases = futures_util::future::join_all(calls).await;
            assert_eq!(bases, expected, "round {round}");
            if rng.percent(15) {
                f = f.reopened().await;
            }
            for (of, facts) in &model {
                let (_, counted) = f.store.counted(*of, key(*of), now).await.unwrap();
                assert_eq!(counted, told(facts, now), "round {round}");
            }
            let of = agent(1 + rng.below(AGENTS) as u8);
            compare(&f.store, of, model.get(&of).map_or(&[], Vec::as_slice), &mut rng).await;
        }
        f.audit_is_clean().await;
    }

    /// One that counts all the time while its oldest facts leave the window one by one.
    async fn a_busy_agents_window_moves_with_every_fact(f: Fixture) {
        let (one, mut facts) = (agent(1), Vec::new());
        let (step, mut now) = (SCORE_WINDOW / 60, Timestamp::from_ms(START_MS));
        for n in 1..=200_i64 {
            // Now and then several at once, and a pause in which several leave.
            if n % 5 != 0 {
                let pause = if n % 31 == 0 { step * 20 } else { step };
                f.clock.advance(pause);
                now = now.plus(pause);
            }
            let paid = (n % 4 != 0).then_some(n.unsigned_abs());
            let base = count_and_pay(&f.store, one, 1, paid).await;
            assert_eq!(base, told(&facts, now).base, "fact {n}");
            facts.push(fact(one, n, now));
        }
        f.audit_is_clean().await;
    }

    /// What is loaded for a measurement is counted on like anything else.
    async fn many_track_records_are_loaded_at_once(f: Fixture) {
        skep_store::bench::load_scores(&f.url, 0..9, sample).await.unwrap();
        for number in 0..9 {
            let ScoreSample { agent: of, mut facts, .. } = sample(number);
            count_and_pay(&f.store, of, 2, None).await;
            let n = facts.len() as i64;
            facts.extend([1, 2].map(|more| fact(of, n + more, Timestamp::from_ms(START_MS))));
            assert_eq!(f.store.score_facts(of, None, 99).await.unwrap(), facts);
        }
        f.audit_is_clean().await;
    }
}

fn sample(number: u64) -> ScoreSample {
    let of = agent(1 + number as u8);
    let at = |n| Timestamp::from_ms(START_MS / 2 + n / 2);
    let facts = (1..=number as i64).map(|n| fact(of, n, at(n))).collect();
    ScoreSample { agent: of, record: "{}".to_owned(), facts }
}
