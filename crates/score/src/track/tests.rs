use skep_wire::score::{BenchmarkEventType, ImportedCounts};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A track record with all its facts, as the store has them.
struct Story {
    track: Track,
    facts: Vec<Fact>,
    now: Timestamp,
    has_key: bool,
    cooldown: bool,
}

impl Story {
    fn new() -> Story {
        let now = Timestamp::from_ms(1_790_000_000_000);
        let (has_key, cooldown) = (true, false);
        Story { track: Track::default(), facts: Vec::new(), now, has_key, cooldown }
    }

    fn agent() -> AgentId {
        AgentId([7; 20])
    }

    fn base(&self) -> Totals {
        let mut base = Totals::default();
        let begin = self.now.minus(WINDOW);
        self.facts.iter().filter(|fact| fact.at <= begin).for_each(|fact| base.add(fact));
        base
    }

    fn with_around<T>(&mut self, use_it: impl FnOnce(&mut Track, &Around<'_>) -> T) -> T {
        let base = self.base();
        let around = Around {
            now: self.now,
            base: &base,
            has_key: self.has_key,
            cooldown: self.cooldown,
            parameters: &Parameters::SPEC,
        };
        use_it(&mut self.track, &around)
    }

    fn count(&mut self, dimension: Dimension, ok: bool) -> Evaluated {
        let mut fact = Fact {
            dimension,
            source: self.facts.len().to_string(),
            ok,
            released_cents: 5,
            counterparty: None,
            proof: (dimension == Dimension::Conduit).then_some(Hash32::ZERO),
            at: self.now,
        };
        let over = self.track.run_out(self.now);
        assert_eq!(self.track.count(&Story::agent(), &mut fact), self.facts.len() as u64 + 1);
        self.facts.push(fact);
        let mut evaluated = self.look(Evaluator::SessionCompletion);
        evaluated.badges.splice(0..0, over);
        evaluated
    }

    fn look(&mut self, evaluator: Evaluator) -> Evaluated {
        self.with_around(|track, around| track.evaluate(around, evaluator))
    }

    fn held(&mut self) -> u16 {
        self.with_around(|track, around| track.modifiers(around).effective_e4)
    }

    fn events(&mut self, what: &[(Dimension, usize)]) -> Vec<BenchmarkEventType> {
        let mut events = Vec::new();
        for (dimension, times) in what {
            for _ in 0..*times {
                events.extend(self.count(*dimension, true).event.map(|e| e.benchmark_event_type));
            }
        }
        events
    }
}

#[test]
fn a_newcomer_earns_a_benchmark_and_loses_it_by_standing_still() {
    let mut story = Story::new();
    assert_eq!(story.held(), FULL_E4);
    for _ in 0..9 {
        story.count(Dimension::Conduit, true);
    }
    assert_eq!((story.track.tier, story.held()), (Tier::Unverified, FULL_E4));
    let tenth = story.count(Dimension::Conduit, true);
    assert_eq!((tenth.promoted_from, story.track.tier), (Some(Tier::Unverified), Tier::Basic));
    assert_eq!(story.held(), modifier_e4(40));
    assert_eq!(story.events(&[(Dimension::Conduit, 70)]), []);
    assert_eq!(story.track.tier, Tier::Verified);
    // 80 sessions are 320 points; the 32nd settlement passes 700.
    let events = story.events(&[(Dimension::Ap2, 31)]);
    assert_eq!(events, []);
    assert_eq!(story.events(&[(Dimension::Ap2, 1)]), [BenchmarkEventType::Granted]);
    assert_eq!((story.held(), story.track.held()), (modifier_e4(704), BenchmarkTier::Standard));
    story.now = story.now.plus(61 * DAY);
    let beat = story.look(Evaluator::Heartbeat).event.unwrap();
    assert_eq!(beat.benchmark_event_type, BenchmarkEventType::Renewed);
    assert_eq!(story.track.benchmark.streak_days(story.now), 61);
    // The last millisecond of the window, and the one after.
    story.now = story.facts[0].at.plus(WINDOW - Duration::from_millis(1));
    assert_eq!(story.look(Evaluator::Heartbeat).score.value(), 704);
    story.now = story.facts[0].at.plus(WINDOW);
    let beat = story.look(Evaluator::Heartbeat);
    assert_eq!(beat.score.value(), 0);
    let event = beat.event.unwrap();
    assert_eq!(event.benchmark_event_type, BenchmarkEventType::Suspended);
    assert_eq!(event.reason.as_deref(), Some("inactivity"));
    // Tiers stay.
    assert_eq!((story.track.tier, story.held()), (Tier::Verified, FULL_E4));
}

#[test]
fn disputes_cooldowns_and_revocations_hold_everything() {
    let mut story = Story::new();
    story.events(&[(Dimension::Conduit, 80), (Dimension::Ap2, 40)]);
    assert_eq!(story.held(), modifier_e4(800));
    story.track.disputes = 1;
    assert_eq!(story.held(), FULL_E4);
    let event = story.look(Evaluator::SessionCompletion).event.unwrap();
    assert_eq!(event.reason.as_deref(), Some("dispute"));
    story.track.disputes = 0;
    let event = story.look(Evaluator::SessionCompletion).event.unwrap();
    assert_eq!(event.benchmark_event_type, BenchmarkEventType::Cleared);
    // In a cool-down nobody is evaluated: what is held stays held, and all money too.
    story.cooldown = true;
    story.track.disputes = 1;
    assert_eq!(story.look(Evaluator::Heartbeat).event, None);
    assert_eq!((story.track.held(), story.held()), (BenchmarkTier::Standard, FULL_E4));
    (story.cooldown, story.track.disputes) = (false, 0);
    let revoke = benchmark::Input::Revoke { reason: "fraud" };
    story.track.benchmark =
        benchmark::step(&story.track.benchmark, story.now, 800, revoke).unwrap().0;
    assert_eq!(story.look(Evaluator::SessionCompletion).event, None);
    assert_eq!((story.track.held(), story.held()), (BenchmarkTier::None, FULL_E4));
}

#[test]
fn higher_tiers_ask_for_more_than_sessions() {
    let mut story = Story::new();
    story.has_key = false;
    story.events(&[(Dimension::Conduit, 60)]);
    assert_eq!(story.track.tier, Tier::Basic);
    story.has_key = true;
    story.events(&[(Dimension::Conduit, 140)]);
    assert_eq!(story.track.tier, Tier::Verified);
    story.track.reviewed_at = Some(story.now);
    assert_eq!(story.look(Evaluator::Admin).promoted_from, Some(Tier::Verified));
    // A key that is lost takes no tier away.
    story.has_key = false;
    story.look(Evaluator::Heartbeat);
    assert_eq!(story.track.tier, Tier::Trusted);
}

/// Whoever search shows something of that can go is looked at, until it is gone.
#[test]
fn what_search_shows_is_looked_at_while_it_can_go() {
    let mut story = Story::new();
    let show = |story: &mut Story| {
        let score = story.look(Evaluator::Heartbeat).score;
        story.track.shown = story.track.to_show(&score, story.now);
        (story.track.shown.hundreds, story.track.shown.phase, story.track.has_heartbeat())
    };
    story.events(&[(Dimension::Ap2, 8)]);
    assert_eq!(show(&mut story), (0, Phase::Unverified, false));
    story.events(&[(Dimension::Ap2, 2)]);
    assert_eq!(show(&mut story), (1, Phase::Basic, true));
    story.now = story.now.plus(WINDOW);
    assert_eq!(show(&mut story), (0, Phase::Basic, false), "a tier stays");
    story.track.bring(Imported {
        platform: "one.example".to_owned(),
        digest: Hash32::ZERO,
        counts: ImportedCounts::default(),
        tier: Tier::Verified,
        haircut: import::HAIRCUT,
        probation_sessions: import::PROBATION_SESSIONS,
        computed_at: story.now,
        imported_at: story.now,
    });
    assert_eq!(show(&mut story), (0, Phase::Verified, true));
    story.now = story.now.plus(WINDOW);
    assert_eq!(show(&mut story), (0, Phase::Basic, false), "and what was imported ends");
}

#[test]
fn windows_are_differences_of_sums() {
    let mut story = Story::new();
    let mut chance: u64 = 42;
    for _ in 0..600 {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        story.now = story.now.plus(Duration::from_millis(chance >> 36));
        let dimension = if chance >> 62 == 0 { Dimension::Ap2 } else { Dimension::Conduit };
        let evaluated = story.count(dimension, chance >> 60 & 1 == 0);
        let begin = story.now.minus(WINDOW);
        let inside = story.facts.iter().filter(|fact| fact.at > begin);
        let conduit = inside.clone().filter(|fact| fact.dimension == Dimension::Conduit).count();
        assert_eq!(evaluated.input.conduit_sessions, conduit as f64);
        let ok = inside.filter(|fact| fact.dimension == Dimension::Ap2 && fact.ok).count();
        assert_eq!(evaluated.input.ap2_successful, ok as f64);
    }
    // Some have left the window, and the chain is that of all of them, from nothing.
    assert!(story.base().sessions() > 0);
    let mut chain = Hash32::ZERO;
    for (i, fact) in story.facts.iter().enumerate() {
        chain = fact.link(chain, &Story::agent(), i as u64 + 1);
    }
    assert_eq!(chain, story.track.chain);
}

#[test]
fn a_clock_that_goes_back_does_not_reorder_facts() {
    let mut story = Story::new();
    story.count(Dimension::Conduit, true);
    let first = story.now;
    story.now = first.minus(DAY);
    story.count(Dimension::Conduit, true);
    assert_eq!(story.facts[1].at, first);
}

/// The log tells of what came and went and then of the fact: that is enough to make the badges
/// again, whether or not somebody has looked while nothing was done.
#[test]
fn badges_follow_from_what_the_log_tells() {
    for has_heartbeats in [true, false] {
        let mut story = Story::new();
        let mut made = Track::default();
        for day in 0..400 {
            // A hundred busy days with failures at their end, then a hundred idle ones.
            story.now = story.now.plus(DAY);
            let is_busy = day % 200 < 100;
            let changes = match is_busy {
                true => story.count(Dimension::Conduit, day % 200 < 80).badges,
                false if has_heartbeats => story.look(Evaluator::Heartbeat).badges,
                false => Vec::new(),
            };
            changes.iter().for_each(|change| made.apply_badge(change));
            if is_busy {
                made.count(&Story::agent(), &mut story.facts.last().unwrap().clone());
            }
            assert_eq!(made.badges, story.track.badges, "day {day}");
            assert_eq!(made.past_badges, story.track.past_badges, "day {day}");
        }
        assert!(story.track.past_badges.len() > 2, "{:?}", story.track.past_badges);
    }
}

/// What earlier versions stored reads as it was.
#[test]
fn a_small_record_is_enough() {
    let track: Track = serde_json::from_str(r#"{"facts":0,"disputes":1}"#).unwrap();
    assert_eq!(track, Track { disputes: 1, ..Track::default() });
    let text = serde_json::to_string(&Track::default()).unwrap();
    assert!(text.len() < 400, "{text}");
}

/// What is stored and the last fact together are the whole; mostly only the fact is new.
#[test]
fn a_track_record_is_resumed_from_its_last_fact() {
    let (mut story, mut texts) = (Story::new(), Vec::new());
    for n in 0..60_u32 {
        story.now = story.now.plus(DAY / 2);
        story.cooldown = (40..50).contains(&n);
        story.count(Dimension::Ap2, n % 30 != 29);
        let text = serde_json::to_string(&story.track.clone().into_stored()).unwrap();
        let Track { facts, chain, totals, last_at, .. } = story.track;
        let last = last_at.map(|at| Mark { facts, chain, totals, at });
        let stored: Track = serde_json::from_str(&text).unwrap();
        assert_eq!(stored, story.track.clone().into_stored());
        assert_eq!(Track::resume(stored, last), story.track, "after {n}");
        texts.push(text);
    }
    let changes = texts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((1..12).contains(&changes), "{changes} of 59 were written: {texts:#?}");
}
