//! ATEP: the passport of a track record, and how broad the work was.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Timestamp, ed25519::PublicKey};
use skep_wire::{
    score::{
        ATEP_VERSION, BenchmarkEvent, Blocked, Capabilities, Extensions, Identity,
        PASSPORT_DOMAINS_MAX, PASSPORT_HISTORY_MAX, Passport, PassportIssuer, PublicPassport,
        PublicStatistics, PublicTier, Publication, Safety, Statistics, TrustTier,
    },
    settle::Tier,
};

use crate::{
    fact::Totals,
    publish::{Platform, passport_id},
    track::{BASIC_SESSIONS, TRUSTED_SESSIONS, Track, VERIFIED_SESSIONS, WINDOW},
};

pub mod badges;
/// Domains that are kept for each agent; the rarest goes.
pub const DOMAINS_MAX: usize = 200;
/// Kinds of actions that are kept; appendix A has 25.
pub const TASK_TYPES_MAX: usize = 64;
/// The longest host name that DNS has.
pub const DOMAIN_LEN_MAX: usize = 253;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What a session has touched; the event of its end carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Visit {
    /// Host names in lower case, each once.
    pub domains: Vec<String>,
    /// Kinds of actions, each once.
    pub task_types: Vec<String>,
    /// What the agent paid, in US cents, rounded down.
    pub cost_cents: u64,
}

/// How broad an agent's work was. A record of its own, since settlements do not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breadth {
    pub domains: BTreeMap<String, Domain>,
    /// Different ones so far; those that were dropped and came again count twice.
    pub domains_seen: u64,
    pub task_types: BTreeSet<String>,
    pub cost_cents: u64,
}

/// How often a domain was worked on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    pub total: u64,
    /// Days since 1970 and the sessions of each, the last 90 days, oldest first.
    pub days: Vec<(u32, u32)>,
}

fn day(at: Timestamp) -> u32 {
    u32::try_from(at.as_ms() / DAY_MS).unwrap_or(u32::MAX)
}

/// The first day that is still in the window.
fn window_day(now: Timestamp) -> u32 {
    day(now.minus(WINDOW)).saturating_add(1)
}

impl Domain {
    pub fn sessions_90d(&self, now: Timestamp) -> u64 {
        let first = window_day(now);
        self.days.iter().filter(|(day, _)| *day >= first).map(|(_, n)| u64::from(*n)).sum()
    }

    fn add(&mut self, at: Timestamp) {
        self.total += 1;
        let (today, first) = (day(at), window_day(at));
        self.days.retain(|(day, _)| *day >= first);
        match self.days.last_mut() {
            Some((day, n)) if *day >= today => *n = n.saturating_add(1),
            _ => self.days.push((today, 1)),
        }
    }
}

impl Breadth {
    /// Adds a session that ended.
    pub fn add(&mut self, visit: &Visit, at: Timestamp) {
        for name in &visit.domains {
            if name.is_empty() || name.len() > DOMAIN_LEN_MAX {
                continue;
            }
            if !self.domains.contains_key(name) {
                self.domains_seen += 1;
                self.make_room();
            }
            self.domains.entry(name.clone()).or_default().add(at);
        }
        for kind in &visit.task_types {
            if self.task_types.len() < TASK_TYPES_MAX && kind.len() <= DOMAIN_LEN_MAX {
                self.task_types.insert(kind.clone());
            }
        }
        self.cost_cents = self.cost_cents.saturating_add(visit.cost_cents);
    }

    fn make_room(&mut self) {
        while self.domains.len() >= DOMAINS_MAX {
            let last_day = |domain: &Domain| domain.days.last().map_or(0, |(day, _)| *day);
            let rarest = self
                .domains
                .iter()
                .min_by_key(|(_, domain)| (domain.total, last_day(domain)))
                .map(|(name, _)| name.clone());
            let Some(rarest) = rarest else { return };
            self.domains.remove(&rarest);
        }
    }

    /// The most frequent first.
    pub fn frequent(&self, at_most: usize) -> Vec<String> {
        let mut names: Vec<(&String, u64)> =
            self.domains.iter().map(|(name, domain)| (name, domain.total)).collect();
        names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        names.into_iter().take(at_most).map(|(name, _)| name.clone()).collect()
    }

    /// Domains that make a specialist now.
    pub fn specializations(&self, now: Timestamp) -> Vec<String> {
        let enough = |domain: &Domain| domain.sessions_90d(now) >= badges::SPECIALIST_SESSIONS;
        let of = self.domains.iter().filter(|(_, domain)| enough(domain));
        of.map(|(name, _)| name.clone()).collect()
    }
}

/// What a passport is made of.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    pub agent: &'a AgentId,
    pub track: &'a Track,
    pub breadth: &'a Breadth,
    /// What was counted before the window.
    pub base: &'a Totals,
    /// The key and since when, if there is one that is not revoked.
    pub key: Option<(&'a PublicKey, Timestamp)>,
    /// Signed; absent while the agent is too new to be published.
    pub publication: Option<&'a Publication>,
    /// The newest first.
    pub history: &'a [BenchmarkEvent],
    pub now: Timestamp,
}

impl Holder<'_> {
    fn statistics(&self) -> PublicStatistics {
        let totals = &self.track.totals;
        let (sessions, successful) = (totals.sessions(), totals.successful());
        PublicStatistics {
            total_sessions: sessions,
            successful_sessions: successful,
            failed_sessions: sessions - successful,
            success_rate: rate(successful, sessions),
            ap2_total_sessions: totals.ap2,
            ap2_successful_sessions: totals.ap2_ok,
            ap2_success_rate: rate(totals.ap2_ok, totals.ap2),
            first_session_at: self.track.first_at,
            last_session_at: self.track.last_at,
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            domains_worked: self.breadth.frequent(PASSPORT_DOMAINS_MAX),
            task_types: self.breadth.task_types.iter().cloned().collect(),
            specializations: self.breadth.specializations(self.now),
        }
    }

    fn extensions(&self) -> Extensions {
        Extensions {
            swarmscore: self.publication.and_then(|said| serde_json::to_value(said).ok()),
            swarmscore_history: self.history.iter().take(PASSPORT_HISTORY_MAX).cloned().collect(),
            swarmscore_safety: Safety::default(),
            swarmscore_unverified_imports: self.track.informal.clone(),
        }
    }

    fn issuer(&self, by: &Platform<'_>) -> PassportIssuer {
        PassportIssuer {
            platform: by.platform.to_owned(),
            platform_url: by.platform_url.to_owned(),
            issued_at: self.now,
            kid: by.kid.to_owned(),
            signature: None,
        }
    }

    fn badges(&self) -> badges::Look<'_> {
        let Holder { track, breadth, base, now, .. } = *self;
        badges::Look { track, breadth, base, now }
    }

    fn updated_at(&self) -> Timestamp {
        let seen = [self.track.last_at, self.track.tier_at, self.track.benchmark.last_evaluated_at];
        seen.into_iter().flatten().max().unwrap_or(self.now)
    }
}

fn rate(part: u64, all: u64) -> f64 {
    if all > 0 { part as f64 / all as f64 } else { 0.0 }
}

/// The full passport; [`Passport::sign`] signs it.
pub fn passport(of: &Holder<'_>, by: &Platform<'_>) -> Passport {
    let sessions = of.track.totals.sessions();
    Passport {
        atep_version: ATEP_VERSION.to_owned(),
        passport_id: passport_id(of.agent),
        agent_id: *of.agent,
        issuer: of.issuer(by),
        statistics: Statistics {
            public: of.statistics(),
            total_cost_cents: of.breadth.cost_cents,
            average_cost_cents: rate(of.breadth.cost_cents, sessions),
        },
        trust_tier: trust_tier(of.track, of.key.is_some()),
        capabilities: of.capabilities(),
        badges: of.badges().shown(true),
        historical_badges: of.badges().past(),
        identity: Identity {
            has_cryptographic_identity: of.key.is_some(),
            public_key: of.key.map(|(key, _)| spki_pem(key)),
            key_provisioned_at: of.key.map(|(_, since)| since),
        },
        updated_at: of.updated_at(),
        extensions: of.extensions(),
    }
}

/// The passport for everybody; [`PublicPassport::sign`] signs it.
pub fn public_passport(of: &Holder<'_>, by: &Platform<'_>) -> PublicPassport {
    PublicPassport {
        atep_version: ATEP_VERSION.to_owned(),
        passport_id: passport_id(of.agent),
        issuer: of.issuer(by),
        statistics: of.statistics(),
        trust_tier: public_tier(of.track),
        capabilities: of.capabilities(),
        badges: of.badges().shown(false),
        historical_badges: of.badges().past(),
        updated_at: of.updated_at(),
        extensions: of.extensions(),
    }
}

fn public_tier(track: &Track) -> PublicTier {
    PublicTier { current: track.tier, promoted_at: track.tier_at }
}

/// The tier and the way to the next one.
pub fn trust_tier(track: &Track, has_key: bool) -> TrustTier {
    let sessions = track.totals.sessions();
    let (next_tier, needed) = match track.tier {
        Tier::Unverified => (Some(Tier::Basic), BASIC_SESSIONS),
        Tier::Basic => (Some(Tier::Verified), VERIFIED_SESSIONS),
        Tier::Verified => (Some(Tier::Trusted), TRUSTED_SESSIONS),
        Tier::Trusted => (None, 0),
    };
    let missing = needed.saturating_sub(sessions);
    let blocked = match next_tier {
        Some(Tier::Verified | Tier::Trusted) if missing == 0 && !has_key => {
            Some(Blocked::AwaitingCryptographicIdentity)
        }
        Some(Tier::Trusted) if missing == 0 && track.reviewed_at.is_none() => {
            Some(Blocked::AwaitingManualReview)
        }
        _ => None,
    };
    TrustTier {
        public: public_tier(track),
        next_tier,
        sessions_until_next: next_tier.map(|_| missing),
        promotion_blocked_reason: blocked,
    }
}

/// What stands before the 32 bytes of an Ed25519 key in its DER form (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [48, 42, 48, 5, 6, 3, 43, 101, 112, 3, 33, 0];

/// A key as passports carry it.
pub fn spki_pem(key: &PublicKey) -> String {
    let der = [&SPKI_PREFIX[..], key.as_bytes()].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}
