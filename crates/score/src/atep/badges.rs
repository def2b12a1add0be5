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
    let mut changes = track.run_out(around.now);
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
    Some(match kind {
        HighSuccess90 | HighSuccess95 | HighSuccess99 => succeeds(kind, window),
        SessionMilestone10 => sessions >= 10,
        SessionMilestone50 => sessions >= 50,
        SessionMilestone100 => sessions >= 100,
        SessionMilestone500 => sessions >= 500,
        DomainSpecialist | MultiDomain => return None,
        CryptoIdentity => around.has_key,
        ConduitVerified => track.last_proof_at.is_some() && !is_over(kind, track, around.now),
        TrustedReview => track.reviewed_at.is_some() && !is_over(kind, track, around.now),
        BenchmarkStandard | BenchmarkElite => is_benchmarked(kind, track),
    })
}

/// Whether the benchmark is held that a badge says.
fn is_benchmarked(kind: BadgeKind, track: &Track) -> bool {
    let least = match kind {
        BadgeKind::BenchmarkElite => BenchmarkTier::Elite,
        _ => BenchmarkTier::Standard,
    };
    track.held() >= least
}

/// Whether the work of the window is as good as a badge for success says.
fn succeeds(kind: BadgeKind, window: &Totals) -> bool {
    let (percent, least) = match kind {
        BadgeKind::HighSuccess90 => (90, 20),
        BadgeKind::HighSuccess95 => (95, 50),
        _ => (99, 100),
    };
    // In whole numbers: successful / sessions >= percent / 100.
    let enough = window.sessions() >= least;
    enough && window.successful() * 100 >= window.sessions() * percent
}

impl Track {
    /// Ends the badges that have run out.
    pub fn run_out(&mut self, now: Timestamp) -> Vec<BadgeChange> {
        let mut changes = Vec::new();
        for kind in ALL {
            if is_over(kind, self, now) {
                let expired_at = expiry(kind, self).unwrap_or(now);
                changes.extend(end(self, kind, expired_at));
            }
        }
        changes
    }

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

/// What badges are looked at with when somebody wants to see them.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub track: &'a Track,
    pub breadth: &'a Breadth,
    /// What was counted before the window.
    pub base: &'a Totals,
    pub now: Timestamp,
}

impl Look<'_> {
    fn window(&self) -> Totals {
        self.track.totals.since(self.base)
    }

    /// Since when a badge is over that was not looked at for a while: days go by, and what it was
    /// given for leaves the window.
    fn over_since(&self, kind: BadgeKind) -> Option<Timestamp> {
        use BadgeKind::*;
        let holds = match kind {
            HighSuccess90 | HighSuccess95 | HighSuccess99 => succeeds(kind, &self.window()),
            DomainSpecialist => !self.breadth.specializations(self.now).is_empty(),
            BenchmarkStandard | BenchmarkElite => is_benchmarked(kind, self.track),
            _ => true,
        };
        let expired = expiry(kind, self.track).filter(|expires| *expires <= self.now);
        expired.or((!holds).then_some(self.now))
    }

    /// The badges of a passport, as they are now.
    pub fn shown(&self, with_evidence: bool) -> Vec<Badge> {
        let held = self.track.badges.iter();
        let mut badges: Vec<&HeldBadge> =
            held.filter(|badge| self.over_since(badge.kind).is_none()).collect();
        badges.sort_by_key(|badge| badge.kind);
        let badge = |held: &HeldBadge| {
            let [label, description, criteria] = words(held.kind);
            Badge {
                badge_type: held.kind,
                label,
                description,
                criteria,
                earned_at: held.earned_at,
                expires_at: expiry(held.kind, self.track),
                evidence: with_evidence.then(|| self.evidence(held.kind)),
            }
        };
        badges.into_iter().map(badge).collect()
    }

    /// What speaks for a badge, of the time that its criterion is about.
    fn evidence(&self, kind: BadgeKind) -> BadgeEvidence {
        use BadgeKind::*;
        let totals = match kind {
            SessionMilestone10 | SessionMilestone50 | SessionMilestone100 | SessionMilestone500
            | MultiDomain | CryptoIdentity => self.track.totals,
            _ => self.window(),
        };
        let (sessions, successful) = (totals.sessions(), totals.successful());
        BadgeEvidence {
            session_count: sessions,
            success_rate: super::rate(successful, sessions),
            domains: match kind {
                DomainSpecialist => self.breadth.specializations(self.now),
                MultiDomain => self.breadth.frequent(MULTI_DOMAINS as usize),
                _ => Vec::new(),
            },
        }
    }

    /// Badges that are over, also those that have run out since the last evaluation; newest first.
    pub fn past(&self) -> Vec<HistoricalBadge> {
        let run_out = self.track.badges.iter().filter_map(|badge| {
            let HeldBadge { kind, earned_at } = *badge;
            let expired_at = self.over_since(kind)?;
            Some(HistoricalBadge { badge_type: kind, earned_at, expired_at })
        });
        let past = self.track.past_badges.iter().copied();
        let mut past: Vec<HistoricalBadge> = past.chain(run_out).collect();
        past.sort_by_key(|badge| std::cmp::Reverse(badge.expired_at));
        past.truncate(PAST_MAX);
        past
    }
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
