//! Decision 39: how a benchmark is granted, kept, suspended, revoked and cleared.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::score::{
    BenchmarkEvent, BenchmarkEventType, BenchmarkStatus, BenchmarkTier, Evaluator,
};

#[cfg(test)]
mod tests;

/// 9.7: how long an operator answers for fraud.
pub const COOLDOWN: Duration = Duration::from_secs(90 * 24 * 3600);
/// 9.2: the shortest time between two looks at a benchmark, and by how much it may be longer.
pub const HEARTBEAT_MIN: Duration = Duration::from_secs(24 * 3600);
pub const HEARTBEAT_SPREAD: Duration = Duration::from_secs(24 * 3600);

/// Where an agent's benchmark stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Benchmark {
    pub status: BenchmarkStatus,
    /// The last one that was held.
    pub tier: BenchmarkTier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_earned_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_evaluated_at: Option<Timestamp>,
}

/// What can happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// The score says so; `why` names the reason of a drop.
    Evaluated { tier: BenchmarkTier, evaluator: Evaluator, why: &'a str },
    /// An operator found fraud.
    Revoke { reason: &'a str },
    /// An operator takes a revocation back.
    Clear { reason: &'a str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum OutOfTurn {
    #[error("the benchmark is revoked already")]
    Revoked,
    #[error("the benchmark is not revoked")]
    NotRevoked,
}

/// Advances a benchmark. An event is made for whatever history has to show (14.3); a mere
/// re-evaluation that changes nothing renews it silently unless a heartbeat made it.
pub fn step(
    before: &Benchmark,
    now: Timestamp,
    score: u16,
    input: Input<'_>,
) -> Result<(Benchmark, Option<BenchmarkEvent>), OutOfTurn> {
    use {BenchmarkEventType as Event, BenchmarkStatus as Status};
    let mut after = before.clone();
    let event = |kind, tier, reason: &str, evaluator| {
        Some(BenchmarkEvent {
            benchmark_event_type: kind,
            tier,
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            timestamp: now,
            swarm_score_at_event: score,
            evaluator,
        })
    };
    let told = match input {
        Input::Revoke { reason } => {
            if before.status == Status::Revoked {
                return Err(OutOfTurn::Revoked);
            }
            after.status = Status::Revoked;
            after.continuous_since = None;
            event(Event::Revoked, before.tier, reason, Evaluator::Admin)
        }
        Input::Clear { reason } => {
            if before.status != Status::Revoked {
                return Err(OutOfTurn::NotRevoked);
            }
            after.status = Status::None;
            event(Event::Cleared, before.tier, reason, Evaluator::Admin)
        }
        Input::Evaluated { tier, evaluator, why } => {
            after.last_evaluated_at = Some(now);
            let holds = tier != BenchmarkTier::None;
            match before.status {
                Status::Revoked => None,
                // Heartbeats keep and take; what is done grants.
                Status::None if evaluator == Evaluator::Heartbeat => None,
                Status::None | Status::Suspended if holds => {
                    let kind =
                        if before.status == Status::None { Event::Granted } else { Event::Cleared };
                    after.status = Status::Active;
                    after.tier = tier;
                    after.first_earned_at = before.first_earned_at.or(Some(now));
                    after.continuous_since = Some(now);
                    event(kind, tier, "", evaluator)
                }
                Status::None | Status::Suspended => None,
                Status::Active if holds => {
                    after.tier = tier;
                    let tells = tier != before.tier || evaluator == Evaluator::Heartbeat;
                    if tells { event(Event::Renewed, tier, "", evaluator) } else { None }
                }
                Status::Active => {
                    after.status = Status::Suspended;
                    after.continuous_since = None;
                    event(Event::Suspended, before.tier, why, evaluator)
                }
            }
        }
    };
    Ok((after, told))
}

impl Benchmark {
    /// The level that it is held at now.
    pub fn held(&self) -> BenchmarkTier {
        match self.status {
            BenchmarkStatus::Active => self.tier,
            _ => BenchmarkTier::None,
        }
    }

    /// Whole days without a break.
    pub fn streak_days(&self, now: Timestamp) -> u64 {
        const DAY_S: u64 = 24 * 3600;
        self.continuous_since.map_or(0, |since| now.since(since).as_secs() / DAY_S)
    }

    /// Where it stands after an event of its history; only when it was looked at is not told.
    pub fn after(&self, event: &BenchmarkEvent) -> Benchmark {
        let (before, mut after) = (self, self.clone());
        let earned = |after: &mut Benchmark| {
            after.status = BenchmarkStatus::Active;
            after.tier = event.tier;
            after.first_earned_at = before.first_earned_at.or(Some(event.timestamp));
            after.continuous_since = Some(event.timestamp);
        };
        let lost = |after: &mut Benchmark, status| {
            after.status = status;
            after.continuous_since = None;
        };
        match (event.benchmark_event_type, before.status) {
            (BenchmarkEventType::Granted, _) => earned(&mut after),
            (BenchmarkEventType::Renewed, _) => after.tier = event.tier,
            (BenchmarkEventType::Suspended, _) => lost(&mut after, BenchmarkStatus::Suspended),
            (BenchmarkEventType::Revoked, _) => lost(&mut after, BenchmarkStatus::Revoked),
            (BenchmarkEventType::Cleared, BenchmarkStatus::Revoked) => {
                after.status = BenchmarkStatus::None;
            }
            (BenchmarkEventType::Cleared, _) => earned(&mut after),
        }
        after
    }
}
