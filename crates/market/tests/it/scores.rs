//! What counts for a score, when it stops counting, and what follows for the next deal's money.

#[path = "scores/evidence.rs"]
mod evidence;
#[path = "scores/gate.rs"]
mod gate;
#[path = "scores/life.rs"]
mod life;
#[path = "scores/newcomers.rs"]
mod newcomers;
#[path = "scores/operators.rs"]
mod operators;
#[path = "scores/replay.rs"]
mod replay;
#[path = "scores/travel.rs"]
mod travel;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use skep_base::{AgentId, Hash32, Timestamp, ed25519::SecretKey, id::DealId};
use skep_market::DealRefusal;
use skep_score::{Totals, Track, track::Mark};
use skep_settle::{Policy, SubsidyLimits};
use skep_store::{
    Bug, Call, Decision, Load, Lock, RecordKey, RouteKey, ScoreFact, ScoreMark, ScoreTotals, Turn,
    WantedFacts,
};
use skep_testkit::postgres::TempPostgres;
use skep_wire::{
    problem::BenchmarkGap,
    score::{BenchmarkStatus, BenchmarkTier, Fraction},
    settle::{EscrowHold, Outcome, Tier},
};

use crate::{deal_world::*, fixture::*, on_both_engines};

const DAY: Duration = Duration::from_secs(24 * 3600);
const WINDOW: Duration = Duration::from_secs(90 * 24 * 3600);
/// 0.02 USDC.
const CENTS: i64 = 2;

fn skep(options: Value) -> Value {
    json!({"metadata": {"skep": options}})
}

fn by(engine: &str) -> Value {
    json!({"verification_hints": {"type": engine}})
}

impl World {
    async fn track(&self) -> Track {
        self.market().track_record(&self.ben.id()).await.unwrap().0
    }

    /// What counts now: sessions in the window.
    async fn window(&self) -> Totals {
        let (track, base) = self.market().track_record(&self.ben.id()).await.unwrap();
        track.totals.since(&base)
    }

    async fn paid(&self) -> DealId {
        let (id, verification) = self.delivered(priced()).await;
        self.judge(verification, Outcome::Verified).await.unwrap();
        id
    }

    /// What is held for a deal that is agreed on now.
    async fn hold(&self) -> EscrowHold {
        let id = self.open(priced()).await.unwrap();
        let answer = self.respond(&self.ben, id, "ACCEPTED", json!({})).await.unwrap();
        answer.value.escrow.unwrap()
    }

    /// Writes a track record as it could have become, with a last fact that says so.
    async fn pretend(&self, change: impl Fn(&mut Track) + Send + 'static) {
        self.pretend_of(self.ben.id(), change).await;
    }

    async fn pretend_of(&self, agent: AgentId, change: impl Fn(&mut Track) + Send + 'static) {
        let key = RecordKey { route: RouteKey::of(agent), kind: "score", id: agent.to_string() };
        let load = Load {
            records: vec![(key.clone(), Lock::Exclusive)],
            facts: vec![WantedFacts::of(&agent, Lock::Exclusive)],
            ..Load::default()
        };
        let step = move |turn: &mut Turn| {
            let stored: Option<Track> = turn.record(&key)?;
            let last = turn.counted(&agent)?.last;
            let mut track = Track::resume(stored.unwrap_or_default(), last.map(mark));
            let before = track.totals;
            change(&mut track);
            turn.put(&key, &track.clone().into_stored())?;
            if track.totals != before {
                turn.add_fact(made_up(agent, turn.now(), track.facts + 1, track.totals))?;
            }
            Ok::<_, Bug>(Decision::Commit("null".to_owned()))
        };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.unwrap();
    }

    async fn scores_are_what_the_log_says(&self) {
        self.f.audit_is_clean().await;
        let report = self.market().recompute_scores(Box::new(|_, _| {})).await.unwrap();
        assert!(report.is_clean(), "{report:#?}");
    }
}

fn mark(stored: ScoreMark) -> Mark {
    let ScoreMark { at, n, chain, totals } = stored;
    let count = |stored: i64| u64::try_from(stored).unwrap();
    let totals = Totals {
        conduit: count(totals.conduit),
        conduit_ok: count(totals.conduit_ok),
        proofs: count(totals.proofs),
        ap2: count(totals.ap2),
        ap2_ok: count(totals.ap2_ok),
        released_cents: count(totals.released_cents),
    };
    Mark { facts: count(n), chain, totals, at }
}

/// A fact with any sums.
fn made_up(agent: AgentId, at: Timestamp, n: u64, totals: Totals) -> ScoreFact {
    let count = |count: u64| i64::try_from(count).unwrap();
    ScoreFact {
        agent,
        at,
        n: count(n),
        dimension: "ap2".to_owned(),
        source: "made up".to_owned(),
        ok: true,
        released_cents: 0,
        counterparty: None,
        proof: None,
        chain: Hash32::ZERO,
        totals: ScoreTotals {
            conduit: count(totals.conduit),
            conduit_ok: count(totals.conduit_ok),
            proofs: count(totals.proofs),
            ap2: count(totals.ap2),
            ap2_ok: count(totals.ap2_ok),
            released_cents: count(totals.released_cents),
        },
    }
}

fn priced() -> Value {
    json!({"request": {"budget_amount": 0.02}})
}

/// How a deal comes to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    Verified,
    Failed,
    OwnWordGood,
    OwnWordBad,
    Rejected,
    DeliveredFailed,
    NothingInTime,
    CancelledByProvider,
    CancelledByRequester,
    HalfAgreed,
    LessThanHalfAgreed,
    NothingAgreed,
    AllAgreedForNothing,
    /// Found bad by a verifier; then both sides divide the price before the verdict stands.
    BadAndAgreed(i64),
    /// The same, found bad by the requester alone.
    OwnWordBadAndAgreed(i64),
    ProvidersWord,
    NobodyReviewed,
}

async fn end(w: &World, how: End) {
    let with = |more: Value| {
        let mut message = priced();
        merge(&mut message, more);
        message
    };
    match how {
        End::Verified => drop(w.paid().await),
        End::Failed => {
            let (_, verification) = w.delivered(priced()).await;
            w.judge(verification, Outcome::Failed).await.unwrap();
        }
        End::OwnWordGood | End::OwnWordBad => {
            let (_, verification) = w.delivered(with(by("requester"))).await;
            let good = matches!(how, End::OwnWordGood);
            let outcome = if good { Outcome::Verified } else { Outcome::Failed };
            w.judge_as_requester(verification, outcome).await.unwrap();
        }
        End::Rejected => {
            let (id, _) = w.delivered(with(by("human"))).await;
            w.decide(id, Outcome::Failed, None).await.unwrap();
        }
        End::DeliveredFailed => {
            let id = w.agreed(priced()).await;
            w.deliver(id, json!({"delivery": {"status": "failed"}})).await.unwrap();
        }
        End::NothingInTime => {
            w.agreed(priced()).await;
            w.f.clock.advance(7 * DAY + 2 * HOUR);
            w.run_timers().await;
        }
        End::CancelledByProvider => {
            let id = w.agreed(priced()).await;
            w.cancel(&w.ben, id).await.unwrap();
        }
        End::CancelledByRequester => {
            let id = w.agreed(priced()).await;
            w.cancel(&w.ann, id).await.unwrap();
        }
        End::HalfAgreed
        | End::LessThanHalfAgreed
        | End::NothingAgreed
        | End::AllAgreedForNothing => {
            let id = w.agreed(priced()).await;
            let released = match how {
                End::HalfAgreed => 10_000,
                End::LessThanHalfAgreed => 9_999,
                End::AllAgreedForNothing => 20_000,
                _ => 0,
            };
            if !matches!(how, End::AllAgreedForNothing) {
                w.deliver(id, json!({})).await.unwrap();
            }
            w.split(&w.ben, id, released).await.unwrap();
            w.split(&w.ann, id, released).await.unwrap();
        }
        End::BadAndAgreed(released) | End::OwnWordBadAndAgreed(released) => {
            let own_word = matches!(how, End::OwnWordBadAndAgreed(_));
            let mut terms = with(skep(json!({"dispute_window_s": 3600})));
            if own_word {
                merge(&mut terms, by("requester"));
            }
            let (id, verification) = w.delivered(terms).await;
            match own_word {
                true => w.judge_as_requester(verification, Outcome::Failed).await.unwrap(),
                false => w.judge(verification, Outcome::Failed).await.unwrap(),
            };
            w.split(&w.ben, id, released).await.unwrap();
            w.split(&w.ann, id, released).await.unwrap();
        }
        End::ProvidersWord => {
            w.set_standing(&w.ben, json!({"modifier_e4": 10_000, "tier": "TRUSTED"})).await;
            let id = w.agreed(with(skep(json!({"auto_approve": true})))).await;
            let hints = json!({"verification_hints": {"auto_approve": true}});
            w.deliver(id, hints).await.unwrap();
            w.f.clock.advance(25 * HOUR);
            w.run_timers().await;
            w.set_standing(&w.ben, json!({"modifier_e4": 10_000, "tier": "UNVERIFIED"})).await;
        }
        End::NobodyReviewed => {
            let mut terms = with(by("human"));
            merge(&mut terms, skep(json!({"review_deadline_s": 7200})));
            w.delivered(terms).await;
            w.f.clock.advance(3 * HOUR);
            w.run_timers().await;
        }
    }
}

/// Counted, of these good, and cents.
const TABLE: [(End, (u64, u64, u64)); 20] = [
    (End::Verified, (1, 1, 2)),
    (End::Failed, (1, 0, 0)),
    (End::OwnWordGood, (1, 1, 2)),
    (End::OwnWordBad, (0, 0, 0)),
    (End::Rejected, (1, 0, 0)),
    (End::DeliveredFailed, (1, 0, 0)),
    (End::NothingInTime, (1, 0, 0)),
    (End::CancelledByProvider, (1, 0, 0)),
    (End::CancelledByRequester, (0, 0, 0)),
    (End::HalfAgreed, (1, 1, 1)),
    (End::LessThanHalfAgreed, (0, 0, 0)),
    (End::NothingAgreed, (0, 0, 0)),
    (End::AllAgreedForNothing, (0, 0, 0)),
    (End::BadAndAgreed(0), (1, 0, 0)),
    (End::BadAndAgreed(9_999), (1, 0, 0)),
    (End::BadAndAgreed(10_000), (0, 0, 0)),
    (End::OwnWordBadAndAgreed(0), (0, 0, 0)),
    (End::OwnWordBadAndAgreed(10_000), (1, 1, 1)),
    (End::ProvidersWord, (0, 0, 0)),
    (End::NobodyReviewed, (0, 0, 0)),
];

on_both_engines! {
    async fn every_end_of_a_deal_counts_as_it_should(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for (how, (counted, good, cents)) in TABLE {
            let before = w.track().await.totals;
            end(&w, how).await;
            let after = w.track().await.totals.since(&before);
            let found = (after.ap2, after.ap2_ok, after.released_cents);
            assert_eq!(found, (counted, good, cents), "{how:?}");
        }
        let track = w.track().await;
        assert_eq!((track.facts, track.disputes), (11, 0));
        let requester = w.market().track_record(&w.ann.id()).await.unwrap().0;
        assert_eq!(requester, Track::default(), "the requester is never scored by a deal");
        w.scores_are_what_the_log_says().await;
    }

    async fn deals_within_one_operator_count_for_nobody(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let key = SecretKey::from_seed([60; 32]);
        w.market().register_operator(operator(&key, "Acme", w.f.now())).await.unwrap();
        for side in [&w.ann, &w.ben] {
            w.f.change(side, side.attach(&key, w.f.now())).await.unwrap();
        }
        end(&w, End::Verified).await;
        let (_, verification) = w.delivered(skep(json!({"dispute_window_s": 60}))).await;
        w.judge(verification, Outcome::Failed).await.unwrap();
        assert_eq!(w.track().await, Track::default());
        w.scores_are_what_the_log_says().await;
    }

    async fn what_is_ninety_days_old_counts_no_more(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for _ in 0..10 {
            w.paid().await;
        }
        let track = w.track().await;
        assert_eq!((track.tier, track.totals.released_cents), (Tier::Basic, 10 * CENTS as u64));
        // Ten of fifty: a score of 120.
        let hold = w.hold().await;
        assert_eq!((hold.modifier_e4, hold.effective_modifier_e4), (9040, 9040));
        assert_eq!((hold.amount_minor.minor(), hold.remainder_minor.minor()), (18_080, 1_920));
        let counted_at = track.last_at.unwrap();
        w.f.clock.set(counted_at.plus(WINDOW - MS));
        assert_eq!(w.window().await.ap2, 10);
        assert_eq!(w.hold().await.modifier_e4, 9040);
        w.f.clock.set(counted_at.plus(WINDOW));
        assert_eq!(w.window().await, Totals::default());
        let hold = w.hold().await;
        assert_eq!((hold.modifier_e4, hold.amount_minor.minor()), (10_000, 20_000));
        assert_eq!(w.track().await.tier, Tier::Basic, "a tier is never lost by itself");
    }

    async fn an_open_dispute_makes_the_hold_whole_at_once(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for _ in 0..10 {
            w.paid().await;
        }
        let mut terms = priced();
        merge(&mut terms, skep(json!({"dispute_window_s": 3600})));
        let (_, verification) = w.delivered(terms).await;
        w.judge(verification, Outcome::Failed).await.unwrap();
        assert_eq!((w.track().await.disputes, w.track().await.facts), (1, 10));
        let hold = w.hold().await;
        assert_eq!((hold.modifier_e4, hold.effective_modifier_e4), (9040, 10_000));
        assert_eq!(hold.remainder_minor.minor(), 0);
        let said = w.market().headline(&w.ben.id()).await.unwrap().unwrap();
        let modifiers = (said.modifier, said.effective_modifier);
        assert_eq!(modifiers, (Fraction::from_e4(9040), Fraction::ONE));
        w.f.clock.advance(2 * HOUR);
        w.run_timers().await;
        let track = w.track().await;
        assert_eq!((track.disputes, track.totals.ap2, track.totals.ap2_ok), (0, 11, 10));
        let hold = w.hold().await;
        assert!(hold.effective_modifier_e4 < 10_000, "{hold:?}");
        assert_eq!(hold.modifier_e4, hold.effective_modifier_e4);
        w.scores_are_what_the_log_says().await;
    }

    async fn a_benchmark_that_is_asked_for_is_asked_for_twice(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let asks = [json!({"requires_benchmark": true}),
                    json!({"request": {"requiresBenchmark": true}})];
        for ask in &asks {
            let refused = deal_refusal(w.open(ask.clone()).await);
            let DealRefusal::BenchmarkRequired { reason } = refused else { panic!("{refused:?}") };
            assert_eq!((reason.current_score, reason.required_score, reason.gap), (0, 700, 700));
            assert!(!reason.qualification_gaps.is_empty());
        }
        // All minimums are met, and only points are missing: 200 and 300.
        w.pretend(|track| {
            let totals = Totals { conduit: 50, conduit_ok: 50, proofs: 50, ..track.totals };
            track.totals = Totals { ap2: 25, ap2_ok: 25, ..totals };
            track.tier = Tier::Verified;
        })
        .await;
        let refused = deal_refusal(w.open(asks[0].clone()).await);
        let DealRefusal::BenchmarkRequired { reason } = refused else { panic!("{refused:?}") };
        assert_eq!((reason.current_score, reason.gap), (500, 200));
        assert!(reason.qualification_gaps.is_empty(), "{reason:?}");
        w.pretend(|track| {
            let totals = Totals { conduit: 100, conduit_ok: 100, proofs: 100, ..track.totals };
            track.totals = Totals { ap2: 50, ap2_ok: 50, ..totals };
            track.tier = Tier::Verified;
            track.benchmark.status = BenchmarkStatus::Active;
            track.benchmark.tier = BenchmarkTier::Standard;
        })
        .await;
        let mut terms = priced();
        merge(&mut terms, asks[1].clone());
        let id = w.open(terms.clone()).await.unwrap();
        w.pretend(|track| track.disputes = 1).await;
        let refused = deal_refusal(w.respond(&w.ben, id, "ACCEPTED", json!({})).await);
        let DealRefusal::BenchmarkRequired { reason } = refused else { panic!("{refused:?}") };
        let BenchmarkGap { current_score, gap, qualification_gaps, .. } = reason;
        assert_eq!((current_score, gap), (1000, 0), "never negative");
        assert_eq!(qualification_gaps, ["1 active dispute(s) must be resolved"]);
        w.pretend(|track| track.disputes = 0).await;
        let answer = w.respond(&w.ben, id, "ACCEPTED", json!({})).await.unwrap();
        let hold = answer.value.escrow.unwrap();
        assert_eq!((hold.modifier_e4, hold.amount_minor.minor()), (2500, 5000));
        // Revoked, though the numbers are good.
        w.pretend(|track| track.benchmark.status = BenchmarkStatus::Revoked).await;
        let refused = deal_refusal(w.open(terms).await);
        let DealRefusal::BenchmarkRequired { reason } = refused else { panic!("{refused:?}") };
        assert_eq!((reason.gap, reason.qualification_gaps.len()), (0, 1));
        let hold = w.hold().await;
        assert_eq!((hold.modifier_e4, hold.effective_modifier_e4), (2500, 10_000));
    }

    async fn many_at_once_are_not_more_subsidies_than_there_are(f: Fixture) {
        let limits =
            SubsidyLimits { deals: 3, open_per_requester: 100, ..SubsidyLimits::default() };
        let policy = Policy { subsidy: limits, ..Policy::default() };
        let w = World::with_policy(f, policy).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let holds = accept_at_once(&w, 7).await;
        let fronted: Vec<_> = holds.iter().filter(|hold| !hold.subsidy_minor.is_zero()).collect();
        assert_eq!((fronted.len(), w.track().await.subsidies_open), (3, 3));
        // A fifth of the hold. What does not count gives its place back, what counts does not.
        assert!(fronted.iter().all(|hold| hold.subsidy_minor.minor() == 4000));
        w.cancel(&w.ann, fronted[0].escrow_id).await.unwrap();
        let verification = w.deliver(fronted[1].escrow_id, json!({})).await.unwrap();
        w.judge(verification.verification_id.unwrap(), Outcome::Verified).await.unwrap();
        let track = w.track().await;
        assert_eq!((track.subsidies_open, track.totals.ap2), (1, 1));
        let holds = accept_at_once(&w, 3).await;
        let more = holds.iter().filter(|hold| !hold.subsidy_minor.is_zero()).count();
        assert_eq!((more, w.track().await.subsidies_open), (1, 2));
        w.scores_are_what_the_log_says().await;
    }

    async fn pay_that_makes_no_score_uses_up_the_first_deals_all_the_same(f: Fixture) {
        let limits = SubsidyLimits { deals: 2, ..SubsidyLimits::default() };
        let w = World::with_policy(f, Policy { subsidy: limits, ..Policy::default() }).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for spent in 1..=2 {
            let hold = accept_at_once(&w, 1).await.remove(0);
            assert!(!hold.subsidy_minor.is_zero());
            let id = hold.escrow_id;
            w.deliver(id, json!({})).await.unwrap();
            for side in [&w.ann, &w.ben] {
                w.split(side, id, 9_999).await.unwrap();
            }
            let track = w.track().await;
            let counted = (track.subsidies_open, track.subsidies_spent, track.totals.ap2);
            assert_eq!(counted, (0, spent, 0));
        }
        assert!(accept_at_once(&w, 1).await[0].subsidy_minor.is_zero());
        w.scores_are_what_the_log_says().await;
    }

    async fn the_platform_fronts_for_few_deals_of_one_requester_and_cheap_ones(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        let holds = accept_at_once(&w, 8).await;
        let fronted = holds.iter().filter(|hold| !hold.subsidy_minor.is_zero()).count();
        assert_eq!((fronted, w.track().await.subsidies_open), (5, 5));
        for hold in &holds {
            w.cancel(&w.ben, hold.escrow_id).await.unwrap();
        }
        assert_eq!(w.track().await.subsidies_open, 0);
        let limits = SubsidyLimits { price_units_max: 0, ..SubsidyLimits::default() };
        let policy = Policy { subsidy: limits, ..Policy::default() };
        let World { f, ann, ben, vera, viv, rex } = w;
        let f = Fixture { market: f.market.clone().with_policy(policy), ..f };
        let w = World { f, ann, ben, vera, viv, rex };
        assert!(accept_at_once(&w, 1).await[0].subsidy_minor.is_zero(), "it is too dear");
        w.scores_are_what_the_log_says().await;
    }

    async fn a_head_or_a_row_that_was_changed_is_found(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 10_000_000).await;
        for _ in 0..3 {
            w.paid().await;
        }
        w.scores_are_what_the_log_says().await;
        let problems = async || {
            let report = w.market().recompute_scores(Box::new(|_, _| {})).await.unwrap();
            report.problems.join("\n")
        };
        w.pretend(|track| track.disputes += 1).await;
        let found = problems().await;
        assert!(found.contains("the log makes"), "{found}");
        w.pretend(|track| track.disputes -= 1).await;
        assert_eq!(problems().await, "");
        let Some(database) = w.f.url.strip_prefix("postgres").and(w.f.url.rsplit('/').next())
        else { return };
        // The sums still add up; only the chain knows.
        let off = "alter table score_facts disable trigger user;";
        let sql = format!("{off} update score_facts set packed = packed || 'x' where n = 2");
        TempPostgres::shared().psql(database, &sql).unwrap();
        let found = problems().await;
        assert!(found.contains("breaks the chain"), "{found}");
        let sql = "delete from score_facts where n = 3";
        TempPostgres::shared().psql(database, sql).unwrap();
        let found = problems().await;
        assert!(found.contains("end with 2, the log makes 3"), "{found}");
    }
}

/// So many deals, all accepted at the same time; the platform could front each.
async fn accept_at_once(w: &World, count: u64) -> Vec<EscrowHold> {
    let mut deals = Vec::new();
    for _ in 0..count {
        let id = w.open(priced()).await.unwrap();
        let unique = u64::from_be_bytes(*id.as_bytes().first_chunk().unwrap());
        w.fund_subsidy(id, unique ^ deals.len() as u64, 10_000).await;
        deals.push(id);
    }
    let accepted =
        join_all(deals.iter().map(|id| w.respond(&w.ben, *id, "ACCEPTED", json!({})))).await;
    accepted.into_iter().map(|answer| answer.unwrap().value.escrow.unwrap()).collect()
}

#[tokio::test]
async fn a_newcomers_tier_follows_from_what_it_did() {
    let w = World::new(Fixture::sqlite().await).await;
    w.f.fund(&w.ann, 901, 10_000_000).await;
    for _ in 0..9 {
        w.paid().await;
    }
    assert_eq!(
        (w.track().await.tier, w.hold().await.effective_modifier_e4),
        (Tier::Unverified, 10_000)
    );
    w.paid().await;
    let track = w.track().await;
    assert_eq!((track.tier, track.tier_at), (Tier::Basic, Some(w.f.now())));
    let promoted = w.f.kinds().await.iter().filter(|kind| *kind == "tier.promoted").count();
    assert_eq!(promoted, 1);
    assert!(track.first_at.unwrap() >= Timestamp::from_ms(START_MS));
    w.scores_are_what_the_log_says().await;
}
