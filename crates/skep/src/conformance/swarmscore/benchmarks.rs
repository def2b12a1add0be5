//! 9.2 and 14.3: how a benchmark is kept and lost, and how that is told.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use skep_base::AgentId;
use skep_wire::score::{BenchmarkEvent, BenchmarkEventType, BenchmarkStatus, Evaluator};

use super::{DAY_S, LOOK_EVERY, PATIENCE, World};

/// The longest time between two looks.
const HEARTBEAT_MAX_S: u64 = 2 * DAY_S;
/// After it nothing of what was done counts.
const WINDOW_S: u64 = 90 * DAY_S;

impl World {
    /// Ben's, newest first.
    async fn history(&self) -> Result<Vec<BenchmarkEvent>> {
        self.history_of(self.provider.id()).await
    }

    async fn history_of(&self, agent: AgentId) -> Result<Vec<BenchmarkEvent>> {
        Ok(self.ann.benchmark_history(&agent.to_string(), Some(100)).await?)
    }

    /// Waits for the next event.
    async fn next_event(&self, before: usize) -> Result<BenchmarkEvent> {
        let started = Instant::now();
        loop {
            let history = self.history().await?;
            if history.len() > before {
                return history.into_iter().next().context("it is there");
            }
            ensure!(started.elapsed() < PATIENCE, "nobody looked");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

pub(super) async fn heartbeats_renew_and_suspend(world: &World) -> Result<String> {
    let before = world.history().await?.len();
    world.pass(HEARTBEAT_MAX_S).await?;
    let renewed = world.next_event(before).await?;
    ensure!(renewed.benchmark_event_type == BenchmarkEventType::Renewed, "{renewed:?}");
    ensure!(renewed.evaluator == Evaluator::Heartbeat, "{renewed:?}");
    let before = world.history().await?.len();
    world.pass(WINDOW_S).await?;
    let suspended = world.next_event(before).await?;
    ensure!(suspended.benchmark_event_type == BenchmarkEventType::Suspended, "{suspended:?}");
    ensure!(suspended.evaluator == Evaluator::Heartbeat, "{suspended:?}");
    let why = suspended.reason.unwrap_or_default();
    Ok(format!("RENEWED within 48 h at {}; then {why}", renewed.swarm_score_at_event))
}

pub(super) async fn the_history_tells_every_change(world: &World) -> Result<String> {
    use BenchmarkEventType::{Cleared, Granted, Renewed, Revoked, Suspended};
    let mut history = world.history().await?;
    history.reverse();
    let told: Vec<_> = history.iter().map(|event| event.benchmark_event_type).collect();
    ensure!(told.first() == Some(&Granted) && told.last() == Some(&Suspended), "{told:?}");
    for kind in [Granted, Renewed, Suspended, Cleared] {
        ensure!(told.contains(&kind), "{kind:?} is not in {told:?}");
    }
    let fraud = world.history_of(world.newcomer.id()).await?;
    let fraud: Vec<_> = fraud.iter().map(|event| event.benchmark_event_type).collect();
    ensure!(fraud == [Cleared, Revoked], "{fraud:?}");
    let reasons: Vec<_> = history.iter().filter_map(|event| event.reason.as_deref()).collect();
    ensure!(reasons.contains(&"dispute") && reasons.contains(&"inactivity"), "{reasons:?}");
    let now = world.publication().await?.benchmark.status;
    ensure!(now == BenchmarkStatus::Suspended, "{now:?}");
    Ok(format!("{} events, for {}", told.len(), reasons.join(", ")))
}
