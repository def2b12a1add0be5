//! An agent's track record: what was counted, its tier, its benchmark. It is kept up to date with
//! every session and settlement, in the same transaction.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Hash32, Timestamp, id::JobId};
use skep_wire::{
    score::{
        BenchmarkEvent, BenchmarkStatus, BenchmarkTier, Dimension, Evaluator, HistoricalBadge,
        InformalTier, Phase, Probation,
    },
    settle::Tier,
};

use crate::{
    atep::badges::{self, BadgeChange, HeldBadge},
    benchmark::{self, Benchmark},
    compute::{Gates, Input, Score, compute},
    fact::{Fact, Totals},
    import::{self, Imported},
    money::{FULL_E4, modifier_e4},
    parameters::Parameters,
    phase::phase,
};

#[cfg(test)]
mod tests;

/// Decision 38: what ended in (now - 90 days, now].
pub const WINDOW: Duration = Duration::from_secs(90 * 24 * 3600);
/// ATEP's tiers, by sessions of both kinds, failed ones too (decision 40).
pub const BASIC_SESSIONS: u64 = 10;
pub const VERIFIED_SESSIONS: u64 = 50;
pub const TRUSTED_SESSIONS: u64 = 200;

/// An agent's track record. What every fact moves stands in the row of the last one and is not
/// stored a second time: [`Track::into_stored`] leaves it out, [`Track::resume`] puts it back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Track {
    /// How many facts there are, and the end of their chain.
    #[serde(skip)]
    pub facts: u64,
    #[serde(skip)]
    pub chain: Hash32,
    #[serde(skip)]
    pub totals: Totals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_at: Option<Timestamp>,
    #[serde(skip)]
    pub last_at: Option<Timestamp>,
    /// The newest session whose proof was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_proof_at: Option<Timestamp>,
    /// Open ones.
    pub disputes: u32,
    pub tier: Tier,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_at: Option<Timestamp>,
    /// Somebody has looked at it for TRUSTED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewed_at: Option<Timestamp>,
    /// The highest tier that it gets by itself or from elsewhere, since one was taken away by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_cap: Option<Tier>,
    pub benchmark: Benchmark,
    /// How often something became of it; of its history only the newest is at hand.
    #[serde(skip_serializing_if = "is_zero")]
    pub benchmark_events: u64,
    /// The timer of the next look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<JobId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub badges: Vec<HeldBadge>,
    /// Those that are over, oldest first, at most [`badges::PAST_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub past_badges: Vec<HistoricalBadge>,
    /// What was brought from elsewhere. It never changes the local score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Exports that were brought already, at most [`import::DIGESTS_MAX`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_digests: Vec<Hash32>,
    /// What platforms without an agreement say, oldest first, at most [`import::INFORMAL_MAX`]. It
    /// is shown, and nothing is made of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub informal: Vec<InformalTier>,
    /// Deals under way in which the platform fronts a part of the hold (decision 11).
    #[serde(skip_serializing_if = "is_zero")]
    pub subsidies_open: u32,
    /// Such deals that have paid it and made no score.
    #[serde(skip_serializing_if = "is_zero")]
    pub subsidies_spent: u32,
    #[serde(skip_serializing_if = "Shown::is_none")]
    pub shown: Shown,
    /// As it is stored: its benchmark was last looked at when its last fact was counted.
    #[serde(skip_serializing_if = "is_false")]
    pub looked_at_last: bool,
}

/// Where a track record stands after a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub facts: u64,
    pub chain: Hash32,
    pub totals: Totals,
    pub at: Timestamp,
}

/// What search was last told of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    pub hundreds: u16,
    pub held: BenchmarkTier,
    #[serde(default)]
    pub phase: Phase,
}

impl Shown {
    fn is_none(&self) -> bool {
        *self == Shown::default()
    }
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// What an evaluation needs to know besides the track record.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    pub now: Timestamp,
    /// The sums of all facts that are 90 days old or older.
    pub base: &'a Totals,
    /// An Ed25519 key that is not revoked.
    pub has_key: bool,
    /// The agent's operator is in its cool-down (9.7): nobody of it is evaluated.
    pub cooldown: bool,
    pub parameters: &'a Parameters,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    pub input: Input,
    pub score: Score,
    pub event: Option<BenchmarkEvent>,
    /// The tier that it had before, if it has another now.
    pub promoted_from: Option<Tier>,
    /// With what was imported, if there is something.
    pub combined: Option<Combined>,
    /// Badges that came or went.
    pub badges: Vec<BadgeChange>,
}

/// The score together with what was imported (10.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Combined {
    pub input: Input,
    pub score: Score,
    pub probation: Probation,
}

/// What of a price is held, in 1/10000 (decision 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modifiers {
    /// By the local score alone.
    pub raw_e4: u16,
    /// What is really held.
    pub effective_e4: u16,
}

impl Track {
    /// A stored track record, with what its last fact says.
    pub fn resume(stored: Track, last: Option<Mark>) -> Track {
        let mut track = stored;
        if let Some(Mark { facts, chain, totals, at }) = last {
            (track.facts, track.chain, track.totals) = (facts, chain, totals);
            track.last_at = Some(at);
        }
        if std::mem::take(&mut track.looked_at_last) {
            track.benchmark.last_evaluated_at = track.last_at;
        }
        track
    }

    /// What is stored: the same text as long as nothing but the last fact changes.
    pub fn into_stored(self) -> Track {
        let mut stored = self;
        let last_at = stored.last_at.take();
        (stored.facts, stored.chain, stored.totals) = (0, Hash32::ZERO, Totals::default());
        if last_at.is_some() && stored.benchmark.last_evaluated_at == last_at {
            stored.benchmark.last_evaluated_at = None;
            stored.looked_at_last = true;
        }
        stored
    }

    /// Adds a fact and says its number; its time is never before the last one's. Badges that have
    /// run out end before it ([`Track::run_out`]): it may be what earns them anew.
    pub fn count(&mut self, agent: &AgentId, fact: &mut Fact) -> u64 {
        fact.at = self.last_at.map_or(fact.at, |last| last.max(fact.at));
        self.facts += 1;
        self.chain = fact.link(self.chain, agent, self.facts);
        self.totals.add(fact);
        self.first_at = self.first_at.or(Some(fact.at));
        self.last_at = Some(fact.at);
        if fact.dimension == Dimension::Conduit && fact.proof.is_some() {
            self.last_proof_at = Some(fact.at);
        }
        self.facts
    }

    /// The score as it stands; nothing changes.
    pub fn score(&self, around: &Around<'_>) -> (Input, Score) {
        let window = self.totals.since(around.base);
        let input = Input::of(&window, &self.totals, self.gates(self.tier, around));
        (input, compute(&input, around.parameters))
    }

    fn gates(&self, tier: Tier, around: &Around<'_>) -> Gates {
        Gates { tier, has_key: around.has_key, disputes: self.disputes }
    }

    /// What was imported and still counts.
    pub fn live_import(&self, now: Timestamp) -> Option<&Imported> {
        self.imported.as_ref().filter(|imported| imported.lives(now))
    }

    /// The score together with what was imported, if something was.
    pub fn combined(&self, around: &Around<'_>) -> Option<Combined> {
        let imported = self.live_import(around.now)?;
        let (local, score) = self.score(around);
        let tier = self.tier_of(imported);
        let input = import::join(&local, &imported.counts, imported.haircut, tier);
        let local_sessions = self.totals.sessions();
        let probation = imported.probation(local_sessions, score.tier);
        Some(Combined { input, score: compute(&input, around.parameters), probation })
    }

    /// The tier that is shown: an import skips the first phase (11.3).
    pub fn shown_tier(&self, now: Timestamp) -> Tier {
        self.live_import(now).map_or(self.tier, |imported| self.tier.max(self.tier_of(imported)))
    }

    /// The tier that an import gives: none that was taken away by hand.
    pub fn tier_of(&self, imported: &Imported) -> Tier {
        let shown = imported.shown_tier();
        self.tier_cap.map_or(shown, |cap| shown.min(cap))
    }

    pub fn phase(&self, now: Timestamp) -> Phase {
        phase(self.shown_tier(now))
    }

    /// Decision 38: whether others than its owner see the score.
    pub fn is_published(&self, now: Timestamp) -> bool {
        self.totals.sessions() >= BASIC_SESSIONS || self.phase(now) != Phase::Unverified
    }

    /// Looks at everything that follows from the numbers: the tier first, then the benchmark, then
    /// the badges.
    pub fn evaluate(&mut self, around: &Around<'_>, evaluator: Evaluator) -> Evaluated {
        let promoted_from = self.promote(around.now, around.has_key);
        let (input, score) = self.score(around);
        let combined = self.combined(around);
        let event = match around.cooldown {
            true => None,
            false => self.step_benchmark(&score, combined.as_ref(), around, evaluator),
        };
        let badges = badges::evaluate(self, around);
        Evaluated { input, score, event, promoted_from, combined, badges }
    }

    fn step_benchmark(
        &mut self,
        score: &Score,
        combined: Option<&Combined>,
        around: &Around<'_>,
        evaluator: Evaluator,
    ) -> Option<BenchmarkEvent> {
        // 10.1, step 5: what was imported counts when the probation is over.
        let counted = combined.filter(|combined| combined.probation.over);
        let best = match counted {
            Some(combined) if combined.score.tier > score.tier => &combined.score,
            _ => score,
        };
        let why = self.why_dropped(score, around);
        let asked = benchmark::Input::Evaluated { tier: best.tier, evaluator, why };
        match benchmark::step(&self.benchmark, around.now, best.value(), asked) {
            Ok((after, event)) => {
                self.benchmark = after;
                event
            }
            Err(_) => None,
        }
    }

    /// Somebody has looked at the agent: what was taken away by hand can come back.
    pub fn review(&mut self, now: Timestamp) {
        self.reviewed_at = Some(now);
        self.tier_cap = None;
    }

    /// Takes a tier away by hand. Says whether that was a lower one.
    pub fn demote(&mut self, tier: Tier, now: Timestamp) -> bool {
        if tier >= self.tier {
            return false;
        }
        (self.tier, self.tier_at, self.tier_cap) = (tier, Some(now), Some(tier));
        self.reviewed_at = None;
        true
    }

    /// Decision 40: a tier is never lost by itself.
    fn promote(&mut self, now: Timestamp, has_key: bool) -> Option<Tier> {
        let before = self.tier;
        let sessions = self.totals.sessions();
        let earned = match sessions {
            TRUSTED_SESSIONS.. if has_key && self.reviewed_at.is_some() => Tier::Trusted,
            VERIFIED_SESSIONS.. if has_key => Tier::Verified,
            BASIC_SESSIONS.. => Tier::Basic,
            _ => Tier::Unverified,
        };
        let earned = self.tier_cap.map_or(earned, |cap| earned.min(cap));
        if earned <= before {
            return None;
        }
        self.tier = earned;
        self.tier_at = Some(now);
        Some(before)
    }

    fn why_dropped(&self, score: &Score, around: &Around<'_>) -> &'static str {
        let window = self.totals.since(around.base);
        let least = &around.parameters.standard;
        if self.disputes > 0 {
            "dispute"
        } else if window.conduit < u64::from(least.conduit_sessions)
            || window.ap2 < u64::from(least.ap2_sessions)
        {
            "inactivity"
        } else if score.score < f64::from(least.score) || score.combined_rate < least.success_rate {
            "performance_drop"
        } else {
            "identity"
        }
    }

    /// Which part of a price is really held, in 1/10000 (decision 8), at a score.
    pub fn effective_modifier_e4(&self, score: &Score, cooldown: bool) -> u16 {
        let full = cooldown
            || self.tier == Tier::Unverified
            || self.disputes > 0
            || self.benchmark.status == BenchmarkStatus::Revoked;
        if full { FULL_E4 } else { modifier_e4(score.value()) }
    }

    /// Both modifiers; what was imported lowers the second one when the probation is over.
    pub fn modifiers(&self, around: &Around<'_>) -> Modifiers {
        let (_, score) = self.score(around);
        let counted = self.combined(around).filter(|combined| combined.probation.over);
        let best = match counted {
            Some(combined) if combined.score.score > score.score => combined.score,
            _ => score,
        };
        Modifiers {
            raw_e4: modifier_e4(score.value()),
            effective_e4: self.effective_modifier_e4(&best, around.cooldown),
        }
    }

    /// Whether heartbeats look at it: whoever holds a benchmark, or could get it back, and whoever
    /// search shows something of that goes by itself as days go by.
    pub fn has_heartbeat(&self) -> bool {
        use BenchmarkStatus::{Active, Suspended};
        matches!(self.benchmark.status, Active | Suspended) || self.shows_what_passes()
    }

    /// Points leave the window, and a phase that only an import has given ends with it.
    fn shows_what_passes(&self) -> bool {
        self.shown.hundreds > 0 || self.shown.phase != phase(self.tier)
    }

    /// What search should show.
    pub fn to_show(&self, score: &Score, now: Timestamp) -> Shown {
        Shown { hundreds: score.value() / 100, held: self.held(), phase: self.phase(now) }
    }

    /// The level that search shows.
    pub fn held(&self) -> BenchmarkTier {
        self.benchmark.held()
    }

    /// Takes an import that was checked; an older one goes.
    pub fn bring(&mut self, imported: Imported) {
        self.import_digests.push(imported.digest);
        let over = self.import_digests.len().saturating_sub(import::DIGESTS_MAX);
        self.import_digests.drain(..over);
        self.informal.retain(|informal| informal.platform != imported.platform);
        self.imported = Some(imported);
    }

    /// What was brought ends before its time. That it was brought stays known: the same export is
    /// never good again.
    pub fn end_import(&mut self) {
        self.imported = None;
    }

    /// Takes what a platform without an agreement says, in the place of what it said before.
    pub fn note(&mut self, informal: InformalTier) {
        self.informal.retain(|before| before.platform != informal.platform);
        self.informal.push(informal);
        let over = self.informal.len().saturating_sub(import::INFORMAL_MAX);
        self.informal.drain(..over);
    }
}
