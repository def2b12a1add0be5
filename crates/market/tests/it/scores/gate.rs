//! The whole story of a score, with nothing pretended: recorded sessions and settled deals earn a
//! tier and a benchmark, buyers find and trust it, and it goes as it came.

use std::sync::Arc;

use skep_market::Challenge;
use skep_wire::{
    admin::{AdminAct, AdminRequest},
    conduit::{Act, CloseSession, OpenSession, SessionStatus},
    hire::{Listing, Search},
    score::{
        Badge, BadgeKind, BadgeRegistration, BenchmarkEvent, BenchmarkEventType, BenchmarkState,
        Evaluator, PublicPassport, Publication, ScoreValue,
    },
};

use super::*;
use crate::sessions::Fake;

/// Escrows, and then sessions, with which 700 points are reached: 480 and 220.
const DEALS: usize = 40;
const SESSIONS: usize = 55;
/// What a session may cost: more than one page does.
const SESSION_MAX: i64 = 5_000;

impl World {
    /// A recorded session of the provider's own.
    async fn session(&self) {
        let (ben, market) = (&self.ben, self.market());
        let open =
            OpenSession { max_cost_minor: skep_base::Amount::new(SESSION_MAX), purpose: None };
        let id = market.session_open(&ben.signed("open"), open).await.unwrap().value.session_id;
        let page = Act::navigate("https://a.example/");
        market.session_act(&ben.signed("act"), id, page).await.unwrap();
        let close = CloseSession { failed: None };
        let closed = market.session_close(&ben.signed("close"), id, close).await.unwrap().value;
        assert_eq!(closed.status, SessionStatus::Completed);
    }

    /// What would be held; the requester calls the deal off, which counts for nobody.
    async fn would_hold(&self) -> EscrowHold {
        let hold = self.hold().await;
        self.cancel(&self.ann, hold.escrow_id).await.unwrap();
        hold
    }

    async fn list(&self, who: &Person) -> Listing {
        let listing = who.lists(self.f.now(), "http://127.0.0.1:9", json!({}));
        self.market().publish_listing(listing.clone()).await.unwrap();
        self.run_timers().await;
        listing
    }

    /// Who is found by those who ask for a benchmark.
    async fn found(&self) -> usize {
        self.run_timers().await;
        let asked = Search { benchmark: Some(BenchmarkTier::Standard), ..Search::default() };
        self.market().search(asked).await.unwrap().agents.len()
    }

    /// The passport that everybody sees.
    async fn shown_passport(&self) -> PublicPassport {
        self.market().public_passport(&self.ben.id()).await.unwrap()
    }

    /// The history that the passport shows, newest first.
    async fn told(&self) -> Vec<BenchmarkEvent> {
        self.shown_passport().await.extensions.swarmscore_history
    }

    /// What a stranger sees on the profile and in the passport, which say the same: the score, what
    /// is held of the benchmark, and its badge.
    async fn shown(&self) -> (ScoreValue, BenchmarkState, Option<Badge>) {
        let profile = self.market().score_view(&self.ben.id(), None).await.unwrap();
        let passport = self.shown_passport().await;
        assert!(profile.published);
        assert_eq!(passport.extensions.publication().as_ref(), Some(&profile.publication));
        assert_eq!(passport.extensions.swarmscore_history, profile.benchmark_history);
        assert_eq!(passport.badges, profile.badges);
        let is_ours = |badge: &Badge| badge.badge_type == BadgeKind::BenchmarkStandard;
        let badge = profile.badges.into_iter().find(is_ours);
        let Publication { score, benchmark, .. } = profile.publication;
        (score, benchmark, badge)
    }

    /// Asks for a deal with whoever holds a benchmark, and calls it off.
    async fn trusted_deal(&self) -> Result<(), skep_market::Failure> {
        let mut terms = priced();
        merge(&mut terms, json!({"requires_benchmark": true}));
        let id = self.open(terms).await?;
        self.respond(&self.ben, id, "REJECTED", json!({})).await.map(drop)
    }

    /// Deals, then sessions, an hour apart, until the benchmark is there.
    async fn earn(&self) {
        for _ in 0..DEALS {
            self.paid().await;
            self.f.clock.advance(HOUR);
        }
        let track = self.track().await;
        assert_eq!((track.tier, track.held()), (Tier::Basic, BenchmarkTier::None));
        self.f.clock.advance(5 * DAY);
        for n in 1..=SESSIONS {
            self.session().await;
            self.f.clock.advance(HOUR);
            let track = self.track().await;
            let tier = if DEALS + n < 50 { Tier::Basic } else { Tier::Verified };
            let held = if n < SESSIONS { BenchmarkTier::None } else { BenchmarkTier::Standard };
            assert_eq!((track.tier, track.held()), (tier, held), "after session {n}");
        }
    }

    /// Moves an hour at a time until the benchmark's history grows.
    async fn hours_until_told(&self, most: u64) -> Option<u64> {
        let before = self.told().await.len();
        for hour in 1..=most {
            self.f.clock.advance(HOUR);
            self.run_timers().await;
            if self.told().await.len() > before {
                return Some(hour);
            }
        }
        None
    }
}

async fn world(f: Fixture) -> World {
    let mut w = World::new(f).await;
    let market = w.market().clone().with_gateway(Arc::new(Fake::default()));
    w.f.market = market.with_listing_challenge(Challenge::Off);
    w.f.fund(&w.ann, 901, 10_000_000).await;
    w.f.fund(&w.ben, 902, 10_000_000).await;
    w
}

on_both_engines! {
    async fn from_nobody_to_a_benchmark_and_back(f: Fixture) {
        let w = world(f).await;
        w.list(&w.ben).await;
        assert_eq!(w.found().await, 0);
        assert_eq!(w.would_hold().await.effective_modifier_e4, 10_000);
        w.market().score_view(&w.ben.id(), None).await.unwrap_err();
        assert_eq!(w.shown_passport().await.extensions.tier(), BenchmarkTier::None);
        w.earn().await;
        let (score, benchmark, badge) = w.shown().await;
        assert_eq!((score.value, score.tier), (700, BenchmarkTier::Standard));
        assert_eq!(benchmark.status, BenchmarkStatus::Active);
        let (badge, registered) = (badge.unwrap(), BadgeRegistration::standard());
        assert_eq!((badge.label, badge.criteria), (registered.label, registered.criteria));
        assert_eq!(w.found().await, 1);
        w.trusted_deal().await.unwrap();
        let hold = w.would_hold().await;
        assert_eq!((hold.modifier_e4, hold.effective_modifier_e4), (4400, 4400));
        assert_eq!((hold.amount_minor.minor(), hold.remainder_minor.minor()), (8_800, 11_200));
        let told = w.told().await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].benchmark_event_type, BenchmarkEventType::Granted);
        assert_eq!((told[0].swarm_score_at_event, told[0].tier), (700, BenchmarkTier::Standard));
        w.scores_are_what_the_log_says().await;

        // The last moment at which the first deal counts: whoever looks finds nothing wrong.
        let first = w.track().await.first_at.unwrap();
        w.f.clock.set(first.plus(WINDOW - MS));
        w.run_timers().await;
        assert_eq!(w.told().await[0].benchmark_event_type, BenchmarkEventType::Renewed);
        let waited = w.hours_until_told(49).await.unwrap();
        assert!((24..=49).contains(&waited), "{waited}");
        let told = w.told().await;
        assert_eq!(told[0].benchmark_event_type, BenchmarkEventType::Suspended);
        assert_eq!(told[0].evaluator, Evaluator::Heartbeat);
        assert!(told[0].swarm_score_at_event < 700);
        let (score, benchmark, badge) = w.shown().await;
        assert_eq!(benchmark.status, BenchmarkStatus::Suspended);
        assert_eq!((score.tier, benchmark.tier), (BenchmarkTier::None, BenchmarkTier::None));
        assert_eq!((score.value, badge), (told[0].swarm_score_at_event, None));
        let past = w.shown_passport().await.historical_badges;
        assert_eq!(past[0].badge_type, BadgeKind::BenchmarkStandard);
        assert_eq!(told.last().unwrap().benchmark_event_type, BenchmarkEventType::Granted);
        assert_eq!(w.found().await, 0);
        let refused = deal_refusal(w.trusted_deal().await);
        assert!(matches!(refused, DealRefusal::BenchmarkRequired { .. }), "{refused:?}");
        w.scores_are_what_the_log_says().await;
    }

    /// Decision 38: what an agent has so far is its own to know.
    async fn the_gate_tells_nothing_of_who_is_new(f: Fixture) {
        let w = world(f).await;
        let mut terms = priced();
        merge(&mut terms, json!({"requires_benchmark": true}));
        let gap = async || match deal_refusal(w.open(terms.clone()).await) {
            DealRefusal::BenchmarkRequired { reason } => reason,
            other => panic!("{other:?}"),
        };
        let nothing = gap().await;
        for _ in 0..9 {
            w.paid().await;
        }
        let (ben, market) = (w.ben.id(), w.market());
        let own = market.score_view(&ben, Some(&ben)).await.unwrap().publication;
        assert_ne!(own.score.value, 0);
        assert_eq!(gap().await, nothing, "as of somebody who has done nothing");
        assert_eq!((nothing.current_score, nothing.gap), (0, 700));
        assert_eq!(nothing.qualification_gaps, ["the agent has fewer than ten sessions"]);
        w.paid().await;
        assert_ne!(gap().await.qualification_gaps, nothing.qualification_gaps);
    }

    async fn a_revocation_takes_the_badge(f: Fixture) {
        let w = world(f).await;
        w.earn().await;
        let kind = skep_wire::score::BadgeKind::BenchmarkStandard;
        let badges = async || {
            let full = w.market().passport(&w.ben.id()).await.unwrap().badges;
            let public = w.market().public_passport(&w.ben.id()).await.unwrap().badges;
            [full, public].map(|badges| badges.iter().any(|badge| badge.badge_type == kind))
        };
        assert_eq!(badges().await, [true; 2]);
        let agent_id = w.ben.id();
        let revoke = AdminAct::RevokeBenchmark { agent_id, at: None };
        for act in [revoke, AdminAct::ClearRevocation { agent_id }] {
            w.f.tick();
            w.market().admin(AdminRequest { act, reason: "fraud?".to_owned() }).await.unwrap();
            assert_eq!(badges().await, [false; 2]);
            let past = w.track().await.past_badges;
            assert!(past.iter().any(|badge| badge.badge_type == kind), "{past:?}");
            w.scores_are_what_the_log_says().await;
        }
        // The look that was set before finds nothing to say of it.
        let told = w.told().await.len();
        w.f.clock.advance(49 * HOUR);
        w.run_timers().await;
        assert_eq!((w.told().await.len(), w.track().await.held()), (told, BenchmarkTier::None));
        w.scores_are_what_the_log_says().await;
    }

    async fn points_that_are_over_go_from_search_by_themselves(f: Fixture) {
        let w = world(f).await;
        let listing = w.list(&w.ben).await.id();
        let seen = async || {
            w.run_timers().await;
            w.market().listing(listing).await.unwrap().score_at_least
        };
        for n in 1..=10 {
            assert_eq!(w.track().await.heartbeat.is_some(), n > 9, "before deal {n}");
            w.paid().await;
        }
        // Nine deals are 108 points. What comes then sets no other look.
        let look = w.track().await.heartbeat;
        w.paid().await;
        assert_eq!((look.is_some(), w.track().await.heartbeat), (true, look));
        assert_eq!(seen().await, Some(100));
        let last = w.track().await.last_at.unwrap();
        for _ in 0..89 {
            w.f.clock.advance(DAY);
            assert_eq!(seen().await, Some(100));
            assert!(w.track().await.heartbeat.is_some());
        }
        w.f.clock.set(last.plus(WINDOW + 2 * DAY));
        assert_eq!(seen().await, Some(0));
        assert_eq!(w.track().await.heartbeat, None, "there is nothing left to look at");
        assert!(w.told().await.is_empty(), "no benchmark, no history");
        w.scores_are_what_the_log_says().await;
    }

    async fn fraud_of_one_hides_the_operators_other_agents_for_ninety_days(f: Fixture) {
        let w = world(f).await;
        let bea = Person::new(3);
        w.f.register(&bea).await;
        let key = SecretKey::from_seed([60; 32]);
        w.market().register_operator(operator(&key, "Acme", w.f.now())).await.unwrap();
        for one in [&w.ben, &bea] {
            w.f.change(one, one.attach(&key, w.f.now())).await.unwrap();
        }
        let listing = w.list(&w.ben).await.id();
        let seen = async || {
            w.run_timers().await;
            w.market().listing(listing).await.unwrap()
        };
        let before = seen().await;
        assert!(!before.operator_under_review);
        let act = AdminAct::RevokeBenchmark { agent_id: bea.id(), at: Some(w.f.now()) };
        let request = AdminRequest { act, reason: "sold others' work".to_owned() };
        w.market().admin(request).await.unwrap();
        let hidden = seen().await;
        assert!(hidden.operator_under_review);
        assert!(hidden.ranking.score < before.ranking.score, "{hidden:?}");
        w.f.clock.advance(60 * DAY);
        for _ in 0..10 {
            w.paid().await;
        }
        let hold = w.would_hold().await;
        assert_eq!((hold.modifier_e4, hold.effective_modifier_e4), (9040, 10_000));
        w.f.clock.advance(30 * DAY - MS);
        let still = seen().await;
        assert!(still.operator_under_review);
        w.f.clock.advance(MS);
        let after = seen().await;
        assert!(!after.operator_under_review);
        assert!(after.ranking.score > still.ranking.score, "{after:?}");
        assert_eq!(w.would_hold().await.effective_modifier_e4, 9040);
    }
}
