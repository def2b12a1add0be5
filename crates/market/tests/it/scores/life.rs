//! Benchmarks over time: heartbeats, fraud, reviews, minimums, and what search makes of them.

use skep_market::{AdminRefusal, Challenge, Failure, HISTORY_MAX, Market, Refusal};
use skep_wire::{
    admin::{AdminAct, AdminAnswer, AdminRequest},
    hire::Search,
    score::{BenchmarkEventType, Evaluator, Level, Parameters, Phase, VerifyLevel, VerifyRequest},
};
use tokio::sync::watch;

use super::*;

/// A whisker below STANDARD: one more escrow makes it.
pub(super) fn nearly(track: &mut Track) {
    track.totals = Totals {
        conduit: 80,
        conduit_ok: 76,
        proofs: 80,
        ap2: 39,
        ap2_ok: 38,
        released_cents: 39_00,
    };
    track.tier = Tier::Verified;
}

impl World {
    async fn act(&self, act: AdminAct, reason: &str) -> Result<AdminAnswer, Failure> {
        self.market().admin(AdminRequest { act, reason: reason.to_owned() }).await
    }

    async fn history(&self) -> Vec<(BenchmarkEventType, Evaluator)> {
        let events = self.market().benchmark_history(&self.ben.id(), 100).await.unwrap();
        events.iter().map(|e| (e.benchmark_event_type, e.evaluator)).collect()
    }

    /// Passes time, looking every hour at what is due. Says after how many hours something of the
    /// benchmark's history was written.
    async fn until_something_happens(&self, hours: u64) -> Option<u64> {
        let before = self.history().await.len();
        for hour in 1..=hours {
            self.f.clock.advance(HOUR);
            self.run_timers().await;
            if self.history().await.len() > before {
                return Some(hour);
            }
        }
        None
    }
}

fn admin_refusal<T: std::fmt::Debug>(result: Result<T, Failure>) -> AdminRefusal {
    match refusal(result) {
        Refusal::Admin { reason } => reason,
        other => panic!("{other:?}"),
    }
}

on_both_engines! {
    async fn a_heartbeat_comes_when_nobody_knows_and_finds_a_drop(f: Fixture) {
        use {BenchmarkEventType::*, Evaluator::*};
        let w = World::new(f).await;
        w.pretend(nearly).await;
        w.paid().await;
        assert_eq!(w.history().await, [(Granted, SessionCompletion)]);
        let mut waits = Vec::new();
        for _ in 0..3 {
            waits.push(w.until_something_happens(49).await.unwrap());
        }
        assert!(waits.iter().all(|hours| (24..=49).contains(hours)), "{waits:?}");
        assert_eq!(w.history().await[0], (Renewed, Heartbeat));
        // What was good is no longer: sessions grew old, say.
        w.pretend(|track| track.totals.conduit_ok = 40).await;
        w.until_something_happens(49).await.unwrap();
        assert_eq!(w.history().await[0], (Suspended, Heartbeat));
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::Suspended);
        w.pretend(|track| track.totals.conduit_ok = 80).await;
        w.until_something_happens(49).await.unwrap();
        assert_eq!(w.history().await[0], (Cleared, Heartbeat));
    }

    async fn a_long_history_loses_its_oldest_lines_and_keeps_its_count(f: Fixture) {
        let w = World::new(f).await;
        w.pretend(nearly).await;
        w.paid().await;
        // As years of heartbeats would leave it.
        let list = format!("benchmark_history:{}", w.ben.id());
        let first = w.market().benchmark_history(&w.ben.id(), 1).await.unwrap().remove(0);
        for part in 0..3_i64 {
            w.f.tick();
            let (list, mut line) = (list.clone(), first.clone());
            let step = move |turn: &mut Turn| {
                for n in 0..190 {
                    line.timestamp = Timestamp::from_ms(part * 1000 + n);
                    turn.enlist(&list, serde_json::to_string(&line).unwrap());
                }
                Ok::<_, Bug>(Decision::Commit("null".to_owned()))
            };
            let call = Call { load: Load::default(), guards: vec![], step: Box::new(step) };
            w.market().store().call(call).await.unwrap();
        }
        w.pretend(|track| track.benchmark_events += 570).await;
        assert_eq!(w.market().store().list_len(&list).await.unwrap().0, 571);
        w.f.clock.advance(49 * HOUR);
        w.run_timers().await;
        // 71 lines too many went, and the heartbeat's own came.
        assert_eq!(w.market().store().list_len(&list).await.unwrap().0, HISTORY_MAX + 1);
        assert_eq!(w.track().await.benchmark_events, 572);
        let newest = w.market().benchmark_history(&w.ben.id(), 1).await.unwrap().remove(0);
        assert_eq!(newest.evaluator, Evaluator::Heartbeat);
    }

    async fn fraud_of_one_agent_is_answered_for_by_its_operator(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 99, 1_000_000).await;
        let operator = w.market().agent(&w.ben.id().to_string()).await.unwrap().operator;
        w.pretend(nearly).await;
        w.paid().await;
        let full = |hold: EscrowHold| hold.amount_minor == hold.price_minor;
        assert!(!full(w.hold().await));
        let revoke = AdminAct::RevokeBenchmark { agent_id: w.ben.id(), at: None };
        let no = admin_refusal(w.act(revoke.clone(), " ").await);
        assert_eq!(no, AdminRefusal::NoReason);
        w.act(revoke.clone(), "sold others' work").await.unwrap();
        let no = admin_refusal(w.act(revoke, "again").await);
        assert!(matches!(no, AdminRefusal::Benchmark { .. }), "{no:?}");
        assert!(full(w.hold().await), "revoked");
        w.act(AdminAct::ClearRevocation { agent_id: w.ben.id() }, "it was a mistake").await.unwrap();
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::None);
        assert!(full(w.hold().await), "the operator's cool-down goes on");
        w.paid().await;
        let status = w.track().await.benchmark.status;
        assert_eq!(status, BenchmarkStatus::None, "nobody is evaluated meanwhile");
        let end = AdminAct::EndCooldown { operator };
        w.act(end.clone(), "appeal").await.unwrap();
        let no = admin_refusal(w.act(end, "appeal").await);
        assert!(matches!(no, AdminRefusal::NoCooldown { .. }), "{no:?}");
        w.paid().await;
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::Active);
        assert!(!full(w.hold().await));
        let kinds = w.f.kinds().await;
        for kind in ["operator.cooldown_began", "operator.cooldown_ended", "benchmark.changed"] {
            assert!(kinds.iter().any(|k| k == kind), "{kind}");
        }
    }

    async fn search_follows_the_score_and_the_operators_standing(f: Fixture) {
        let w = World::new(f).await;
        let market = w.market().clone().with_listing_challenge(Challenge::Off);
        let listing = w.ben.lists(w.f.now(), "http://127.0.0.1:9", json!({}));
        market.publish_listing(listing.clone()).await.unwrap();
        let filtered = Search { benchmark: Some(BenchmarkTier::Standard), ..Search::default() };
        w.run_timers().await;
        let shown = market.listing(listing.id()).await.unwrap();
        assert!(shown.ranking.because.iter().any(|why| why.contains("new here")), "{shown:?}");
        assert_eq!((shown.phase, shown.score_at_least), (Phase::Unverified, None));
        assert!(shown.signal.contains("no track record yet"), "{shown:?}");
        assert_eq!(market.search(filtered.clone()).await.unwrap().agents.len(), 0);
        w.pretend(nearly).await;
        w.paid().await;
        w.run_timers().await;
        let found = market.search(filtered.clone()).await.unwrap().agents;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].benchmark, BenchmarkTier::Standard);
        assert_eq!((found[0].phase, found[0].score_at_least), (Phase::Verified, Some(700)));
        assert!(found[0].signal.contains("Established"), "{found:?}");
        assert!(found[0].ranking.score > shown.ranking.score);
        w.act(AdminAct::RevokeBenchmark { agent_id: w.ben.id(), at: None }, "fraud").await.unwrap();
        w.run_timers().await;
        assert_eq!(market.search(filtered).await.unwrap().agents.len(), 0);
        let suppressed = market.listing(listing.id()).await.unwrap();
        assert!(suppressed.operator_under_review);
        assert!(suppressed.ranking.score < found[0].ranking.score);
        w.f.clock.advance(91 * DAY);
        w.run_timers().await;
        let over = market.listing(listing.id()).await.unwrap();
        assert!(!over.operator_under_review, "{over:?}");
        let why = over.ranking.because.join("; ");
        assert!(!why.contains("new here"), "{why}");
    }

    async fn tiers_go_up_by_review_and_down_by_hand(f: Fixture) {
        let w = World::new(f).await;
        w.pretend(|track| {
            nearly(track);
            track.totals.conduit = 300;
            track.totals.conduit_ok = 300;
        })
        .await;
        let agent_id = w.ben.id();
        w.paid().await;
        assert_eq!(w.track().await.tier, Tier::Verified);
        w.act(AdminAct::ReviewAgent { agent_id }, "looked at").await.unwrap();
        assert_eq!(w.track().await.tier, Tier::Trusted);
        let demote = |tier| AdminAct::Demote { agent_id, tier };
        let no = admin_refusal(w.act(demote(Tier::Trusted), "no").await);
        assert!(matches!(no, AdminRefusal::NotLower { .. }), "{no:?}");
        w.act(demote(Tier::Basic), "complaints").await.unwrap();
        w.paid().await;
        assert_eq!(w.track().await.tier, Tier::Basic, "it does not come back by itself");
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::Suspended);
        w.act(AdminAct::ReviewAgent { agent_id }, "all is well").await.unwrap();
        assert_eq!(w.track().await.tier, Tier::Trusted);
    }

    async fn minimums_are_only_tightened_and_too_many_who_qualify_are_told(f: Fixture) {
        let w = World::new(f).await;
        w.pretend(nearly).await;
        w.paid().await;
        let report = w.market().qualification_report().await.unwrap();
        assert_eq!((report.verified, report.qualified, report.parameters_version), (1, 1, 1));
        assert!(report.advice.contains("tighter"), "{report:?}");
        let with = |sessions: u32, rate: f64| {
            let level = |score: u16, times: u32| json!({
                "score": score, "conduit_sessions": sessions * times, "ap2_sessions": 25 * times,
                "success_rate": rate,
            });
            let act = json!({
                "act": "set_parameters", "standard": level(700, 1), "elite": level(850, 3),
            });
            serde_json::from_value::<AdminAct>(act).unwrap()
        };
        for (sessions, rate) in [(49, 0.97), (60, 0.9), (60, 1.1)] {
            let no = admin_refusal(w.act(with(sessions, rate), "report").await);
            assert!(matches!(no, AdminRefusal::NotTighter { .. }), "{no:?}");
        }
        w.act(with(90, 0.97), "report").await.unwrap();
        let report = w.market().qualification_report().await.unwrap();
        assert_eq!(report.parameters_version, 2);
        w.paid().await;
        assert_eq!(w.track().await.benchmark.status, BenchmarkStatus::Suspended);
        assert_eq!(w.market().qualification_report().await.unwrap().qualified, 0);
    }

    async fn a_quarter_ends_with_one_report(f: Fixture) {
        let w = World::new(f).await;
        let told = async || {
            w.f.tick();
            let kinds = w.f.kinds().await;
            kinds.iter().filter(|kind| *kind == "score.qualification_report").count()
        };
        w.pretend(nearly).await;
        w.paid().await;
        let began = w.market().qualification_report().await.unwrap().quarter;
        assert!(!w.market().close_quarter().await.unwrap(), "nothing has ended yet");
        assert!(!w.market().close_quarter().await.unwrap());
        w.f.clock.advance(92 * DAY);
        // Two nodes look at the same time.
        let looks = join_all([w.market().close_quarter(), w.market().close_quarter()]).await;
        assert_eq!(looks.into_iter().filter(|wrote| *wrote.as_ref().unwrap()).count(), 1);
        assert!(!w.market().close_quarter().await.unwrap());
        assert_eq!(told().await, 1);
        let report = w.market().qualification_report().await.unwrap();
        let past = &report.history[0];
        assert_eq!((&past.quarter, past.verified, past.qualified), (&began, 1, 1));
        assert_eq!((past.rate, past.limit, past.over_limit), (1.0, 0.22, true));
        assert_ne!(report.quarter, began);
        assert_eq!(w.market().qualification_rate().await.unwrap(), (1.0, true));
        // Down over the ends of three quarters: one report, when a node is there again.
        w.act(AdminAct::RevokeBenchmark { agent_id: w.ben.id(), at: None }, "fraud").await.unwrap();
        w.f.clock.advance(280 * DAY);
        assert!(w.market().close_quarter().await.unwrap());
        assert!(!w.market().close_quarter().await.unwrap());
        let after = w.market().qualification_report().await.unwrap();
        assert_eq!((after.history.len(), &after.history[1]), (2, past));
        let newest = &after.history[0];
        assert_eq!((&newest.quarter, newest.over_limit), (&report.quarter, false));
        assert_eq!(w.market().qualification_rate().await.unwrap(), (0.0, false));
        assert_eq!(told().await, 2);
    }

    /// Of many that are set at one time: none at a time that anybody could know.
    async fn heartbeats_that_are_set_together_come_apart(f: Fixture) {
        let w = World::new(f).await;
        let agents: Vec<Person> = (40..52).map(Person::new).collect();
        for agent in &agents {
            w.f.register(agent).await;
            w.pretend_of(agent.id(), |track| {
                nearly(track);
                track.totals.ap2 = 40;
                track.totals.ap2_ok = 40;
            })
            .await;
        }
        let set_at = w.f.now();
        for agent in &agents {
            let review = AdminAct::ReviewAgent { agent_id: agent.id() };
            w.act(review, "looked at").await.unwrap();
        }
        let looks = async || {
            w.run_timers().await;
            let mut looked = 0;
            for agent in &agents {
                let newest = w.market().benchmark_history(&agent.id(), 1).await.unwrap().remove(0);
                looked += usize::from(newest.evaluator == Evaluator::Heartbeat);
            }
            looked
        };
        w.f.clock.set(set_at.plus(DAY - MS));
        assert_eq!(looks().await, 0, "nobody is looked at within a day");
        let mut hours_with_a_look = 0;
        let mut before = 0;
        for hour in 1..=24 {
            w.f.clock.set(set_at.plus(DAY + hour * HOUR));
            let looked = looks().await;
            hours_with_a_look += usize::from(looked > before);
            before = looked;
        }
        assert_eq!(before, agents.len(), "everybody is looked at within two days");
        // Chance leaves it at three hours once in thirty million times.
        assert!(hours_with_a_look > 3, "{hours_with_a_look}");
    }

    async fn scores_name_the_minimums_that_hold_on_every_node(f: Fixture) {
        let w = World::new(f).await;
        w.f.fund(&w.ann, 901, 1_000_000).await;
        w.market().announce_score_keys().await.unwrap();
        for _ in 0..10 {
            w.paid().await;
        }
        let other = Market::new(w.market().store().clone(), log_key(), true);
        let published = async |node: &Market| node.publication(&w.ben.id(), None).await.unwrap();
        for node in [w.market(), &other] {
            assert_eq!(published(node).await.parameters, Parameters::SPEC);
        }
        let harder = |level: Level| Level { score: level.score + 50, ..level };
        let (standard, elite) = (harder(Parameters::SPEC.standard), harder(Parameters::SPEC.elite));
        let act = AdminAct::SetParameters { standard, elite };
        w.act(act, "too many qualify").await.unwrap();
        // What was made a moment ago, with the minimums before, is not given out any more.
        let said = published(w.market()).await;
        let second = Parameters { version: 2, standard, elite };
        assert_eq!((said.parameters, said.score.value, said.score_gap), (second, 120, 630));
        let certificate = w.market().certificate(&w.ben.id(), None, 100).await.unwrap();
        let publication = serde_json::to_value(&*said).unwrap();
        assert_eq!(certificate.publication, publication);
        let (stop, stopped) = watch::channel(false);
        let working = tokio::spawn(other.clone().work(stopped));
        let mut tries = 0;
        while published(&other).await.parameters != second {
            tries += 1;
            assert!(tries < 200, "the other node has not followed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        stop.send(true).unwrap();
        working.await.unwrap();
        for node in [w.market(), &other] {
            let certificate = Some(certificate.clone());
            let request = VerifyRequest { publication: publication.clone(), certificate };
            let answer = node.verify_publication(request).await.unwrap();
            assert_eq!(answer.failed_checks, []);
            assert_eq!((answer.verified, answer.level), (true, Some(VerifyLevel::L3)));
        }
    }
}
