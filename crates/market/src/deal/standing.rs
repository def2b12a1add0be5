//! What the market thinks of a provider, where it touches money.

use skep_base::AgentId;
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::settle::Standing;

use crate::{Answered, Failure, Market, Refusal, answer::Stop};

pub(crate) fn standing_key(agent: &AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(agent), kind: "standing", id: agent.to_string() }
}

/// Of a turn that loaded it.
pub(super) fn standing(turn: &Turn, agent: &AgentId) -> Result<Standing, Stop> {
    Ok(turn.record(&standing_key(agent))?.unwrap_or_default())
}

impl Market {
    /// An operator's word on an agent, with its reason, until scores set it.
    pub async fn set_standing(
        &self,
        agent: AgentId,
        standing: Standing,
        reason: String,
    ) -> Result<Answered<Standing>, Failure> {
        if !self.is_dev() {
            return Err(Refusal::NotDev.into());
        }
        let key = standing_key(&agent);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        self.run(load, vec![], move |turn| {
            turn.put(&key, &standing)?;
            let told = serde_json::json!({
                "agent_id": agent, "standing": standing, "reason": reason,
            });
            turn.event(&RouteKey::of(agent), "standing.set", &told, &[agent])?;
            Ok(standing.clone())
        })
        .await
    }
}
