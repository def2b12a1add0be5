//! What the log alone makes of the records that scores keep.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use skep_base::{AgentId, Did, Timestamp, json::read_own};
use skep_score::{Track, atep::Breadth, import::Imported};
use skep_store::{Bug, Event, Progress, Store, StoreError};
use skep_wire::{
    score::{BenchmarkEvent, InformalTier},
    settle::Tier,
};

use super::PAGE;
use crate::score::{
    BadgeChanged, OperatorRevocation, OperatorScore,
    count::{ScoreLine, turn_count},
};

#[derive(Debug, Deserialize)]
struct Promoted {
    agent_id: AgentId,
    tier: Tier,
}

#[derive(Debug, Deserialize)]
struct Reviewed {
    agent_id: AgentId,
}

#[derive(Debug, Deserialize)]
struct Brought {
    agent_id: AgentId,
    imported: Imported,
}

/// What a deal's event says that need not be said again.
#[derive(Debug, Deserialize)]
struct Deal {
    requester: AgentId,
}

#[derive(Debug, Deserialize)]
struct ImportOver {
    agent_id: AgentId,
}

#[derive(Debug, Deserialize)]
struct Noted {
    agent_id: AgentId,
    informal: InformalTier,
}

#[derive(Debug, Deserialize)]
struct Changed {
    agent_id: AgentId,
    #[serde(flatten)]
    event: BenchmarkEvent,
}

#[derive(Debug, Deserialize)]
struct Began {
    operator: Did,
    agent_id: AgentId,
    until: Timestamp,
    reason: String,
    #[serde(default)]
    happened_at: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct Reversed {
    operator: Did,
    agent_id: AgentId,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Ended {
    operator: Did,
}

/// What is stored of one agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) track: Track,
    pub(super) breadth: Breadth,
}

/// Records as the log tells them.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) agents: BTreeMap<AgentId, Made>,
    pub(super) operators: BTreeMap<Did, OperatorScore>,
    pub(super) events: u64,
    seq: i64,
}

impl Replay {
    pub(super) async fn go_on(
        &mut self,
        store: &Store,
        progress: &mut Progress,
    ) -> Result<(), StoreError> {
        let mut total = self.events;
        loop {
            let page = store.events(self.seq, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            self.seq = last.seq;
            for logged in &page {
                self.apply(&logged.event)?;
            }
            self.events += page.len() as u64;
            total = total.max(self.events) + if page.len() == PAGE { PAGE as u64 } else { 0 };
            progress(self.events, total);
        }
    }

    fn track(&mut self, agent: AgentId) -> &mut Track {
        &mut self.agents.entry(agent).or_default().track
    }

    fn apply(&mut self, event: &Event) -> Result<(), StoreError> {
        match event.kind.as_str() {
            "tier.promoted" => {
                let Promoted { agent_id, tier } = read(event)?;
                let track = self.track(agent_id);
                (track.tier, track.tier_at) = (tier, Some(event.at));
            }
            "tier.demoted" => {
                let Promoted { agent_id, tier } = read(event)?;
                self.track(agent_id).demote(tier, event.at);
            }
            "agent.reviewed" => {
                let Reviewed { agent_id } = read(event)?;
                self.track(agent_id).review(event.at);
            }
            "benchmark.changed" => {
                let changed: Changed = read(event)?;
                let track = self.track(changed.agent_id);
                track.benchmark = track.benchmark.after(&changed.event);
                track.benchmark_events += 1;
            }
            "score.imported" => {
                let Brought { agent_id, imported } = read(event)?;
                self.track(agent_id).bring(imported);
            }
            "score.import_ended" => {
                let ImportOver { agent_id } = read(event)?;
                self.track(agent_id).end_import();
            }
            "score.tier_noted" => {
                let Noted { agent_id, informal } = read(event)?;
                self.track(agent_id).note(informal);
            }
            "badge.changed" => {
                let BadgeChanged { agent_id, change } = read(event)?;
                self.track(agent_id).apply_badge(&change);
            }
            "operator.cooldown_began"
            | "operator.revocation_reversed"
            | "operator.cooldown_ended" => self.answer_for(event)?,
            // Most events say nothing of scores, and are not taken apart.
            _ if event.body.contains("\"scored\"") => self.count(event)?,
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, event: &Event) -> Result<(), StoreError> {
        let line: ScoreLine = read(event)?;
        let Some(agent) = line.scored else { return Ok(()) };
        let Made { track, breadth } = self.agents.entry(agent).or_default();
        turn_count(&mut track.disputes, line.dispute);
        if let Some(fronted) = line.subsidy {
            fronted.apply(track);
        }
        if let Some(told) = line.counted {
            let deal: Option<Deal> = told.is_of_deal().then(|| read(event)).transpose()?;
            let mut fact = told.fact(event, deal.map(|deal| deal.requester));
            track.count(&agent, &mut fact);
        }
        if let Some(visit) = &line.visit {
            breadth.add(visit, event.at);
        }
        Ok(())
    }

    /// 9.7.
    fn answer_for(&mut self, event: &Event) -> Result<(), StoreError> {
        match event.kind.as_str() {
            "operator.cooldown_began" => {
                let Began { operator, agent_id, until, reason, happened_at } = read(event)?;
                let score = self.operators.entry(operator).or_default();
                score.cooldown_until = Some(until);
                let (at, reversed) = (event.at, None);
                let revocation = OperatorRevocation { agent_id, at, reason, happened_at, reversed };
                score.revocations.push(revocation);
            }
            "operator.revocation_reversed" => {
                let Reversed { operator, agent_id, reason } = read(event)?;
                self.operators.entry(operator).or_default().reverse(&agent_id, &reason);
            }
            _ => {
                let Ended { operator } = read(event)?;
                self.operators.entry(operator).or_default().cooldown_until = None;
            }
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(event: &Event) -> Result<T, StoreError> {
    read_own(event.body.as_bytes())
        .map_err(|e| Bug(format!("event {} is unreadable: {e}", event.id)).into())
}
