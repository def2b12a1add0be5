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

/// A badge as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBadge {
    pub kind: BadgeKind,
    pub earned_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl HeldBadge {
    fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires| expires <= now)
    }
}

/// What a criterion says.
enum Found {
    /// It is met, until then.
    Met(Option<Timestamp>),
    NotMet,
    /// Nobody has looked; what is held stays until it expires.
    Unseen,
}

impl Found {
    fn when(met: bool, until: Option<Timestamp>) -> Found {
        if met { Found::Met(until) } else { Found::NotMet }
    }
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
pub(crate) fn evaluate(track: &mut Track, around: &Around<'_>) {
    let window = track.totals.since(around.base);
    for kind in ALL {
        let found = criterion(kind, track, &window, around);
        settle(track, kind, found, around.now);
    }
}

fn criterion(kind: BadgeKind, track: &Track, window: &Totals, around: &Around<'_>) -> Found {
    use BadgeKind::*;
    let sessions = track.totals.sessions();
    let rolling = Some(around.now.plus(WINDOW));
    // In whole numbers: successful / sessions >= percent / 100.
    let success = |percent: u64, least: u64| {
        let enough = window.sessions() >= least;
        let met = enough && window.successful() * 100 >= window.sessions() * percent;
        Found::when(met, rolling)
    };
    match kind {
        SessionMilestone10 => Found::when(sessions >= 10, None),
        SessionMilestone50 => Found::when(sessions >= 50, None),
        SessionMilestone100 => Found::when(sessions >= 100, None),
        SessionMilestone500 => Found::when(sessions >= 500, None),
        HighSuccess90 => success(90, 20),
        HighSuccess95 => success(95, 50),
        HighSuccess99 => success(99, 100),
        DomainSpecialist | MultiDomain => Found::Unseen,
        CryptoIdentity => Found::when(around.has_key, None),
        ConduitVerified => {
            let until = track.last_proof_at.map(|at| at.plus(WINDOW));
            Found::when(until.is_some_and(|until| until > around.now), until)
        }
        TrustedReview => {
            let until = track.reviewed_at.map(|at| at.plus(REVIEW_LIFE));
            Found::when(until.is_some_and(|until| until > around.now), until)
        }
        BenchmarkStandard => Found::when(track.held() >= BenchmarkTier::Standard, None),
        BenchmarkElite => Found::when(track.held() >= BenchmarkTier::Elite, None),
    }
}

impl Track {
    /// Looks at the badges that follow from how broad the work was, after a session.
    pub fn see_breadth(&mut self, breadth: &Breadth, now: Timestamp) {
        let specialist = !breadth.specializations(now).is_empty();
        let found = Found::when(specialist, Some(now.plus(WINDOW)));
        settle(self, BadgeKind::DomainSpecialist, found, now);
        let many = breadth.domains_seen >= MULTI_DOMAINS;
        settle(self, BadgeKind::MultiDomain, Found::when(many, None), now);
    }
}

fn settle(track: &mut Track, kind: BadgeKind, found: Found, now: Timestamp) {
    let place = track.badges.iter().position(|badge| badge.kind == kind);
    if let Some(place) = place {
        let held = track.badges[place];
        let over = match found {
            Found::NotMet => !is_permanent(kind),
            Found::Met(_) | Found::Unseen => held.is_over(now),
        };
        if !over {
            if let Found::Met(until) = found {
                track.badges[place].expires_at = until;
            }
            return;
        }
        let expired_at = held.expires_at.map_or(now, |expires| expires.min(now));
        track.badges.remove(place);
        let ended = HistoricalBadge { badge_type: kind, earned_at: held.earned_at, expired_at };
        track.past_badges.push(ended);
        let too_many = track.past_badges.len().saturating_sub(PAST_MAX);
        track.past_badges.drain(..too_many);
    }
    if let Found::Met(expires_at) = found {
        track.badges.push(HeldBadge { kind, earned_at: now, expires_at });
    }
}

/// The badges of a passport, as they are now.
pub fn shown(track: &Track, breadth: &Breadth, now: Timestamp, with_evidence: bool) -> Vec<Badge> {
    let held = track.badges.iter().filter(|badge| !badge.is_over(now));
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
            expires_at: held.expires_at,
            evidence: with_evidence.then(|| evidence(held.kind)),
        }
    };
    badges.into_iter().map(badge).collect()
}

/// Badges that are over, also those that have run out since the last evaluation; newest first.
pub fn past(track: &Track, now: Timestamp) -> Vec<HistoricalBadge> {
    let run_out =
        track.badges.iter().filter(|badge| badge.is_over(now)).map(|badge| HistoricalBadge {
            badge_type: badge.kind,
            earned_at: badge.earned_at,
            expired_at: badge.expires_at.unwrap_or(now),
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
