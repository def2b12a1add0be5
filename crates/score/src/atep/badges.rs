//! ATEP's twelve badges and the two of 14.4: when they are earned, and when they end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::score::{
    Badge, BadgeEvidence, BadgeKind, BadgeRegistration, BenchmarkTier, HistoricalBadge,
};

use super::Breadth;
use crate::{
    fact::Totals,
    track::{Around, Track, WINDOW},
};

/// Badges of the past that are kept.
pub const PAST_MAX: usize = 50;
/// Sessions on one domain within 90 days that make a specialist.
pub const SPECIALIST_SESSIONS: u64 = 50;
/// Different domains for `multi_domain`.
pub const MULTI_DOMAINS: u64 = 10;
/// How long a review is worth something.
const REVIEW_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A badge as it is stored. When it ends follows from the track record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBadge {
    pub kind: BadgeKind,
    pub earned_at: Timestamp,
}

/// A badge that was earned, or that is over. The event log tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadgeChange {
    pub badge_type: BadgeKind,
    pub earned_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<Timestamp>,
}

/// When a badge ends if nothing else happens.
fn expiry(kind: BadgeKind, track: &Track) -> Option<Timestamp> {
    use BadgeKind::*;
    match kind {
        HighSuccess90 | HighSuccess95 | HighSuccess99 => Some(track.last_at?.plus(WINDOW)),
        DomainSpecialist | ConduitVerified => Some(track.last_proof_at?.plus(WINDOW)),
        TrustedReview => Some(track.reviewed_at?.plus(REVIEW_LIFE)),
        _ => None,
    }
}

fn is_over(kind: BadgeKind, track: &Track, now: Timestamp) -> bool {
    expiry(kind, track).is_some_and(|expires| expires <= now)
}

/// Whether a badge stays once it was earned.
fn is_permanent(kind: BadgeKind) -> bool {
    use BadgeKind::*;
    matches!(
        kind,
        SessionMilestone10
            | SessionMilestone50
            | SessionMilestone100
            | SessionMilestone500
            | MultiDomain
            | CryptoIdentity
    )
}

const ALL: [BadgeKind; 14] = [
    BadgeKind::SessionMilestone10,
    BadgeKind::SessionMilestone50,
    BadgeKind::SessionMilestone100,
    BadgeKind::SessionMilestone500,
    BadgeKind::HighSuccess90,
    BadgeKind::HighSuccess95,
    BadgeKind::HighSuccess99,
    BadgeKind::DomainSpecialist,
    BadgeKind::MultiDomain,
    BadgeKind::CryptoIdentity,
    BadgeKind::ConduitVerified,
    BadgeKind::TrustedReview,
    BadgeKind::BenchmarkStandard,
    BadgeKind::BenchmarkElite,
];

/// Looks at every badge that follows from the track record.
pub(crate) fn evaluate(track: &mut Track, around: &Around<'_>) -> Vec<BadgeChange> {
    let window = track.totals.since(around.base);
    let mut changes = run_out(track, around.now);
    for kind in ALL {
        if let Some(met) = criterion(kind, track, &window, around) {
            changes.extend(settle(track, kind, met, around.now));
        }
    }
    changes
}

/// Whether a badge's criterion is met; nothing is said where something else must be looked at.
fn criterion(kind: BadgeKind, track: &Track, window: &Totals, around: &Around<'_>) -> Option<bool> {
    use BadgeKind::*;
    let sessions = track.totals.sessions();
    // In whole numbers: successful / sessions >= percent / 100.
    let success = |percent: u64, least: u64| {
        let enough = window.sessions() >= least;
        enough && window.successful() * 100 >= window.sessions() * percent
    };
    Some(match kind {
        SessionMilestone10 => sessions >= 10,
        SessionMilestone50 => sessions >= 50,
        SessionMilestone100 => sessions >= 100,
        SessionMilestone500 => sessions >= 500,
        HighSuccess90 => success(90, 20),
        HighSuccess95 => success(95, 50),
        HighSuccess99 => success(99, 100),
        DomainSpecialist | MultiDomain => return None,
        CryptoIdentity => around.has_key,
        ConduitVerified => track.last_proof_at.is_some() && !is_over(kind, track, around.now),
        TrustedReview => track.reviewed_at.is_some() && !is_over(kind, track, around.now),
        BenchmarkStandard => track.held() >= BenchmarkTier::Standard,
        BenchmarkElite => track.held() >= BenchmarkTier::Elite,
    })
}

/// Ends what has run out.
pub(crate) fn run_out(track: &mut Track, now: Timestamp) -> Vec<BadgeChange> {
    let mut changes = Vec::new();
    for kind in ALL {
        if is_over(kind, track, now) {
            changes.extend(end(track, kind, expiry(kind, track).unwrap_or(now)));
        }
    }
    changes
}

impl Track {
    /// Looks at the badges that follow from how broad the work was, after a session.
    pub fn see_breadth(&mut self, breadth: &Breadth, now: Timestamp) -> Vec<BadgeChange> {
        let specialist = !breadth.specializations(now).is_empty();
        let many = breadth.domains_seen >= MULTI_DOMAINS;
        let found = [(BadgeKind::DomainSpecialist, specialist), (BadgeKind::MultiDomain, many)];
        found.into_iter().filter_map(|(kind, met)| settle(self, kind, met, now)).collect()
    }

    /// Makes a change that the log tells of.
    pub fn apply_badge(&mut self, change: &BadgeChange) {
        match change.expired_at {
            Some(expired_at) => end(self, change.badge_type, expired_at),
            None => settle(self, change.badge_type, true, change.earned_at),
        };
    }
}

fn settle(track: &mut Track, kind: BadgeKind, met: bool, now: Timestamp) -> Option<BadgeChange> {
    let held = track.badges.iter().any(|badge| badge.kind == kind);
    match (held, met) {
        (false, true) => {
            track.badges.push(HeldBadge { kind, earned_at: now });
            Some(BadgeChange { badge_type: kind, earned_at: now, expired_at: None })
        }
        (true, false) if !is_permanent(kind) => end(track, kind, now),
        _ => None,
    }
}

fn end(track: &mut Track, kind: BadgeKind, expired_at: Timestamp) -> Option<BadgeChange> {
    let place = track.badges.iter().position(|badge| badge.kind == kind)?;
    let HeldBadge { earned_at, .. } = track.badges.remove(place);
    track.past_badges.push(HistoricalBadge { badge_type: kind, earned_at, expired_at });
    let too_many = track.past_badges.len().saturating_sub(PAST_MAX);
    track.past_badges.drain(..too_many);
    Some(BadgeChange { badge_type: kind, earned_at, expired_at: Some(expired_at) })
}

/// The badges of a passport, as they are now.
pub fn shown(track: &Track, breadth: &Breadth, now: Timestamp, with_evidence: bool) -> Vec<Badge> {
    let held = track.badges.iter().filter(|badge| !is_over(badge.kind, track, now));
    let mut badges: Vec<&HeldBadge> = held.collect();
    badges.sort_by_key(|badge| badge.kind);
    let evidence = |kind| {
        let (sessions, successful) = (track.totals.sessions(), track.totals.successful());
        BadgeEvidence {
            session_count: sessions,
            success_rate: super::rate(successful, sessions),
            domains: match kind {
                BadgeKind::DomainSpecialist => breadth.specializations(now),
                BadgeKind::MultiDomain => breadth.frequent(MULTI_DOMAINS as usize),
                _ => Vec::new(),
            },
        }
    };
    let badge = |held: &HeldBadge| {
        let [label, description, criteria] = words(held.kind);
        Badge {
            badge_type: held.kind,
            label,
            description,
            criteria,
            earned_at: held.earned_at,
            expires_at: expiry(held.kind, track),
            evidence: with_evidence.then(|| evidence(held.kind)),
        }
    };
    badges.into_iter().map(badge).collect()
}

/// Badges that are over, also those that have run out since the last evaluation; newest first.
pub fn past(track: &Track, now: Timestamp) -> Vec<HistoricalBadge> {
    let over = track.badges.iter().filter(|badge| is_over(badge.kind, track, now));
    let run_out = over.map(|badge| HistoricalBadge {
        badge_type: badge.kind,
        earned_at: badge.earned_at,
        expired_at: expiry(badge.kind, track).unwrap_or(now),
    });
    let mut past: Vec<HistoricalBadge> = track.past_badges.iter().copied().chain(run_out).collect();
    past.sort_by_key(|badge| std::cmp::Reverse(badge.expired_at));
    past.truncate(PAST_MAX);
    past
}

/// Label, description and criteria.
fn words(kind: BadgeKind) -> [String; 3] {
    use BadgeKind::*;
    let milestone = |n: u32| {
        [
            format!("{n} sessions"),
            format!("Has ended {n} sessions or settlements."),
            format!("{n} sessions since the beginning, failed ones included"),
        ]
    };
    let success = |percent: u32, least: u32| {
        [
            format!("{percent} % success"),
            format!("At least {percent} % of its recent work succeeded."),
            format!("{percent} % of at least {least} sessions in 90 days"),
        ]
    };
    let said = |words: [&str; 3]| words.map(str::to_owned);
    let registered = |badge: BadgeRegistration| [badge.label, badge.description, badge.criteria];
    match kind {
        SessionMilestone10 => milestone(10),
        SessionMilestone50 => milestone(50),
        SessionMilestone100 => milestone(100),
        SessionMilestone500 => milestone(500),
        HighSuccess90 => success(90, 20),
        HighSuccess95 => success(95, 50),
        HighSuccess99 => success(99, 100),
        DomainSpecialist => said([
            "Domain specialist",
            "Knows one site well.",
            "50 sessions on one domain in 90 days",
        ]),
        MultiDomain => said(["Many domains", "Has worked on many sites.", "10 different domains"]),
        CryptoIdentity => said([
            "Cryptographic identity",
            "Signs with a key of its own.",
            "An Ed25519 key that its wallet vouches for",
        ]),
        ConduitVerified => said([
            "Verified sessions",
            "Its recent browser sessions are proven.",
            "A session with a checked proof in 90 days",
        ]),
        TrustedReview => {
            said(["Reviewed", "Somebody has looked at its record.", "A review within a year"])
        }
        BenchmarkStandard => registered(BadgeRegistration::standard()),
        BenchmarkElite => registered(BadgeRegistration::elite()),
    }
}
