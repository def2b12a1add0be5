//! ATEP: passports, badges, and the credential.

use skep_base::Timestamp;
use skep_score::{
    Breadth,
    atep::{self, DOMAINS_MAX, Holder, Visit, badges},
    vc,
    verify::signed_bytes,
};
use skep_wire::{
    score::{
        BadgeKind, BenchmarkEvent, BenchmarkEventType, BenchmarkStatus, BenchmarkTier, Blocked,
        Evaluator, PASSPORT_DOMAINS_MAX, PASSPORT_HISTORY_MAX, Publication,
    },
    settle::Tier,
};

use crate::world::{DAY, World, agent, agent_key, buyer, time};

fn with_holder<T>(
    world: &World,
    publication: &Publication,
    use_it: impl FnOnce(&Holder<'_>) -> T,
) -> T {
    let key = agent_key().public();
    use_it(&Holder {
        agent: &agent(),
        track: &world.track,
        breadth: &world.breadth,
        base: &world.base(),
        key: Some((&key, time(0))),
        publication: Some(publication),
        history: &[],
        now: world.now,
    })
}

#[test]
fn both_passports_show_the_newest_of_the_history() {
    let world = World::standard(1);
    let (publication, by) = (world.publication(true), world.house.platform());
    let event = |n: usize| BenchmarkEvent {
        benchmark_event_type: BenchmarkEventType::Renewed,
        tier: BenchmarkTier::Standard,
        reason: None,
        timestamp: world.now,
        swarm_score_at_event: 1000 - n as u16,
        evaluator: Evaluator::Heartbeat,
    };
    let history: Vec<_> = (0..PASSPORT_HISTORY_MAX + 1).map(event).collect();
    let (full, public) = with_holder(&world, &publication, |holder| {
        let holder = Holder { history: &history, ..*holder };
        (atep::passport(&holder, &by), atep::public_passport(&holder, &by))
    });
    assert_eq!(full.extensions.swarmscore_history, history[..PASSPORT_HISTORY_MAX]);
    assert_eq!(public.extensions, full.extensions);
}

fn look<T>(world: &World, at: impl FnOnce(&badges::Look<'_>) -> T) -> T {
    let World { track, breadth, now, .. } = world;
    at(&badges::Look { track, breadth, base: &world.base(), now: *now })
}

#[test]
fn passports_are_signed_and_the_public_one_says_less() {
    let world = World::standard(1);
    let publication = world.publication(true);
    let by = world.house.platform();
    let (full, public) = with_holder(&world, &publication, |holder| {
        (atep::passport(holder, &by), atep::public_passport(holder, &by))
    });
    let full = full.sign(&world.house.issuer).unwrap();
    assert_eq!(full.statistics.public.total_sessions, 123);
    assert_eq!(full.statistics.public.ap2_success_rate, 0.95);
    assert_eq!(full.statistics.total_cost_cents, 83 * 3);
    assert_eq!(full.trust_tier.public.current, Tier::Verified);
    assert_eq!(full.trust_tier.sessions_until_next, Some(77));
    let public = public.sign(&world.house.issuer).unwrap();
    let signature = public.issuer.signature.unwrap();
    let value = serde_json::to_value(&public).unwrap();
    let bytes = signed_bytes(&value).unwrap();
    world.house.issuer.public().verify(&bytes, &signature).unwrap();
    for hidden in ["agent_id", "identity"] {
        assert!(value.get(hidden).is_none(), "{hidden}");
    }
    assert!(value["statistics"].get("total_cost_cents").is_none());
    assert!(value["badges"][0].get("evidence").is_none());
    assert_eq!(public.extensions.tier(), BenchmarkTier::Standard);
    assert_eq!(public.extensions.publication().unwrap(), publication);

    let valid_until = Timestamp::from_ms(world.now.as_ms() + 30 * DAY);
    let key = &world.house.issuer;
    let mut credential = vc::credential(&public, Some(&publication), valid_until, key).unwrap();
    vc::check(&credential, &key.public()).unwrap();
    assert_eq!(credential["validUntil"], value["extensions"]["swarmscore"]["valid_until"]);
    credential["credentialSubject"]["passport"]["trust_tier"]["current"] = "TRUSTED".into();
    assert_eq!(vc::check(&credential, &key.public()), Err(vc::Fault::BadSignature));
}

#[test]
fn badges_come_and_go() {
    use BadgeKind::*;
    let mut world = World::standard(1);
    let held = |world: &World| -> Vec<BadgeKind> {
        let shown = look(world, |look| look.shown(true));
        shown.into_iter().map(|badge| badge.badge_type).collect()
    };
    let all = [
        SessionMilestone10,
        SessionMilestone50,
        SessionMilestone100,
        HighSuccess90,
        HighSuccess95,
        MultiDomain,
        CryptoIdentity,
        ConduitVerified,
        BenchmarkStandard,
    ];
    assert_eq!(held(&world), all);
    // One more failure, and 95 % are no more; the benchmark goes with it.
    world.session(false);
    let left = held(&world);
    assert!(!left.contains(&HighSuccess95) && !left.contains(&BenchmarkStandard), "{left:?}");
    let past = look(&world, |look| look.past());
    assert!(past.iter().any(|badge| badge.badge_type == BenchmarkStandard));
    // Nothing for 90 days: what rolls is over, even if nobody has looked.
    world.now = Timestamp::from_ms(world.now.as_ms() + 90 * DAY);
    let kept = [SessionMilestone10, SessionMilestone50, SessionMilestone100, MultiDomain];
    assert_eq!(held(&world), [&kept[..], &[CryptoIdentity]].concat());
    let past = look(&world, |look| look.past());
    assert!(past.iter().any(|badge| badge.badge_type == HighSuccess90));
    assert!(past[0].expired_at <= world.now);
    // Proven again after that: the badge is a new one, and the old one ended when it ran out.
    let ran_out = world.now;
    world.now = Timestamp::from_ms(world.now.as_ms() + DAY);
    world.session(true);
    let past = look(&world, |look| look.past());
    let old = past.iter().find(|badge| badge.badge_type == ConduitVerified).unwrap();
    assert_eq!(old.expired_at, ran_out);
    let shown = look(&world, |look| look.shown(false));
    let new = shown.iter().find(|badge| badge.badge_type == ConduitVerified).unwrap();
    assert_eq!(new.earned_at, world.now);
}

/// However it went, and whether somebody has looked or not.
#[test]
fn a_badge_says_only_what_benchmark_is_held() {
    use BadgeKind::BenchmarkStandard;
    let mut world = World::standard(1);
    let has = |badges: Vec<BadgeKind>| badges.contains(&BenchmarkStandard);
    let shown = |world: &World| look(world, |look| look.shown(false));
    let past = |world: &World| look(world, |look| look.past());
    assert!(has(shown(&world).iter().map(|badge| badge.badge_type).collect()));
    for status in [BenchmarkStatus::Revoked, BenchmarkStatus::Suspended] {
        world.track.benchmark.status = status;
        assert!(!has(shown(&world).iter().map(|badge| badge.badge_type).collect()), "{status:?}");
        assert!(has(past(&world).iter().map(|badge| badge.badge_type).collect()), "{status:?}");
    }
}

/// Nobody has looked for weeks: what a badge was given for is no more in the window, although the
/// last session is.
#[test]
fn badges_hold_for_what_they_say() {
    use BadgeKind::*;
    let mut world = World::standard(1);
    let shown = look(&world, |look| look.shown(true));
    let evidence = |kind: BadgeKind| {
        let badge = shown.iter().find(|badge| badge.badge_type == kind).unwrap();
        badge.evidence.as_ref().unwrap().session_count
    };
    // Three sessions are older than 90 days.
    assert_eq!((evidence(SessionMilestone100), evidence(HighSuccess95)), (123, 120));
    let visit = |name: &str| Visit {
        domains: vec![name.to_owned()],
        task_types: Vec::new(),
        cost_cents: 0,
    };
    for _ in 0..50 {
        world.breadth.add(&visit("often.example"), world.now);
    }
    world.track.see_breadth(&world.breadth, world.now);
    let rolling = [HighSuccess90, HighSuccess95, DomainSpecialist];
    let held = |world: &World| -> Vec<BadgeKind> {
        let kinds = look(world, |look| look.shown(false)).into_iter().map(|b| b.badge_type);
        kinds.filter(|kind| rolling.contains(kind)).collect()
    };
    assert_eq!(held(&world), rolling);
    world.now = Timestamp::from_ms(world.now.as_ms() + 60 * DAY);
    world.session(true);
    assert_eq!(held(&world), rolling);
    world.now = Timestamp::from_ms(world.now.as_ms() + 35 * DAY);
    assert_eq!(held(&world), []);
    let past = look(&world, |look| look.past());
    let ended = |kind: BadgeKind| past.iter().find(|b| b.badge_type == kind).unwrap().expired_at;
    assert_eq!(rolling.map(ended), [world.now; 3]);
}

/// The badges that are held, and since when.
fn held(world: &World) -> Vec<(BadgeKind, Timestamp)> {
    let shown = look(world, |look| look.shown(false));
    shown.into_iter().map(|badge| (badge.badge_type, badge.earned_at)).collect()
}

/// Flawless work, three sessions for each settlement. Says after how many the badge was there.
fn earn(world: &mut World, kind: BadgeKind, most: u64) -> Option<u64> {
    while world.track.facts < most {
        match world.track.facts % 4 {
            3 => world.settlement(true, buyer((world.track.facts % 8) as u8)),
            _ => world.session(true),
        }
        if held(world).contains(&(kind, world.now)) {
            return Some(world.track.facts);
        }
    }
    None
}

#[test]
fn long_service_earns_its_badges_at_the_number_they_name() {
    use BadgeKind::*;
    let mut world = World::new(1);
    for (kind, number) in [
        (SessionMilestone10, 10),
        (HighSuccess90, 20),
        (HighSuccess95, 50),
        (HighSuccess99, 100),
        // 150 sessions, 50 settlements.
        (BenchmarkElite, 200),
        (SessionMilestone500, 500),
    ] {
        assert_eq!(earn(&mut world, kind, 600), Some(number), "{kind:?}");
    }
    let has = |world: &World, kind| held(world).iter().any(|(held, _)| *held == kind);
    // 500 of 505 are 99 %, of 506 they are not; ELITE asks for 97.
    for _ in 0..5 {
        world.session(false);
        assert!(has(&world, HighSuccess99));
    }
    world.session(false);
    assert!(!has(&world, HighSuccess99) && has(&world, HighSuccess95));
    let lost = |world: &World, kind| {
        let past = look(world, |look| look.past());
        past.iter().find(|past| past.badge_type == kind).map(|past| past.expired_at)
    };
    assert_eq!(lost(&world, HighSuccess99), Some(world.now));
    while has(&world, BenchmarkElite) {
        world.session(false);
    }
    // 500 of 516: the last that are not 97 %. STANDARD is held all the same.
    assert_eq!((world.track.facts, world.track.held()), (516, BenchmarkTier::Standard));
    assert_eq!(lost(&world, BenchmarkElite), Some(world.now));
    assert!(has(&world, BenchmarkStandard));
    // Whoever does nothing for years has still worked so often.
    world.now = Timestamp::from_ms(world.now.as_ms() + 1000 * DAY);
    assert!(has(&world, SessionMilestone500) && !has(&world, HighSuccess95));
    world.session(false);
    assert!(has(&world, SessionMilestone500) && lost(&world, SessionMilestone500).is_none());
}

#[test]
fn a_badge_that_was_lost_is_earned_anew_and_ends_with_the_window() {
    use BadgeKind::HighSuccess99;
    let mut world = World::new(1);
    earn(&mut world, HighSuccess99, 100).unwrap();
    let first = world.now;
    // 100 of 101 are still 99 %.
    world.session(false);
    assert!(held(&world).contains(&(HighSuccess99, first)));
    world.session(false);
    let lost = world.now;
    for _ in 0..98 {
        world.session(true);
    }
    assert!(held(&world).contains(&(HighSuccess99, world.now)), "198 of 200");
    let ends = Timestamp::from_ms(world.now.as_ms() + 90 * DAY);
    let shown = look(&world, |look| look.shown(false));
    let badge = shown.iter().find(|badge| badge.badge_type == HighSuccess99).unwrap();
    assert_eq!(badge.expires_at, Some(ends));
    world.now = ends;
    let past = look(&world, |look| look.past());
    let past = past.iter().filter(|past| past.badge_type == HighSuccess99);
    assert_eq!(past.map(|past| past.expired_at).collect::<Vec<_>>(), [ends, lost]);
}

#[test]
fn a_review_is_shown_for_a_year_or_until_a_tier_is_taken_away() {
    use BadgeKind::TrustedReview;
    let later = |time: Timestamp, ms: i64| Timestamp::from_ms(time.as_ms() + ms);
    let has = |world: &World| held(world).iter().any(|(kind, _)| *kind == TrustedReview);
    let mut world = World::standard(1);
    assert!(!has(&world));
    world.track.review(world.now);
    let reviewed_at = world.now;
    world.session(true);
    let since = world.now;
    assert!(held(&world).contains(&(TrustedReview, since)));
    let ends = later(reviewed_at, 365 * DAY);
    world.now = later(ends, -1);
    assert!(has(&world));
    let shown = look(&world, |look| look.shown(false));
    let badge = shown.iter().find(|badge| badge.badge_type == TrustedReview).unwrap();
    assert_eq!(badge.expires_at, Some(ends));
    world.now = ends;
    assert!(!has(&world));
    let past = look(&world, |look| look.past());
    assert_eq!(
        (past[0].badge_type, past[0].earned_at, past[0].expired_at),
        (TrustedReview, since, ends)
    );
    // Work does not bring it back, another review does, and a demotion takes it.
    world.session(true);
    assert!(!has(&world));
    world.track.review(world.now);
    world.session(true);
    assert!(held(&world).contains(&(TrustedReview, world.now)));
    assert!(world.track.demote(Tier::Basic, world.now));
    world.session(true);
    assert!(!has(&world));
}

#[test]
fn breadth_is_bounded_and_knows_its_specialists() {
    let mut breadth = Breadth::default();
    let visit = |name: &str| Visit {
        domains: vec![name.to_owned()],
        task_types: vec!["CLICK".to_owned()],
        cost_cents: 1,
    };
    for i in 0..50 {
        breadth.add(&visit("often.example"), time(i * DAY));
    }
    for i in 0..400 {
        breadth.add(&visit(&format!("site{i}.example")), time(49 * DAY));
    }
    assert_eq!((breadth.domains.len(), breadth.domains_seen), (DOMAINS_MAX, 401));
    let frequent = breadth.frequent(PASSPORT_DOMAINS_MAX);
    assert_eq!((frequent.len(), frequent[0].as_str()), (PASSPORT_DOMAINS_MAX, "often.example"));
    assert_eq!(breadth.specializations(time(49 * DAY)), ["often.example"]);
    // The first day leaves the window, and 49 sessions are no specialist.
    assert_eq!(breadth.specializations(time(91 * DAY)), Vec::<String>::new());
}

#[test]
fn a_tier_says_what_is_missing() {
    let mut world = World::new(1);
    for _ in 0..50 {
        world.session(true);
    }
    world.track.tier = Tier::Basic;
    let tier = atep::trust_tier(&world.track, false);
    assert_eq!(tier.sessions_until_next, Some(0));
    assert_eq!(tier.promotion_blocked_reason, Some(Blocked::AwaitingCryptographicIdentity));
    world.track.tier = Tier::Verified;
    assert_eq!(atep::trust_tier(&world.track, true).promotion_blocked_reason, None);
    world.track.totals.conduit = 200;
    let tier = atep::trust_tier(&world.track, true);
    assert_eq!(tier.promotion_blocked_reason, Some(Blocked::AwaitingManualReview));
}
