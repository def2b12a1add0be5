//! Decision 11: how many deals under way the platform fronts a part of, for whom.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did};
use skep_settle::SubsidyLimits;
use skep_store::{Load, Lock, RecordKey, Turn};

use crate::answer::Stop;

/// Of one requester, or of one operator's agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Subsidies {
    open: u32,
}

fn key(of: impl std::fmt::Display) -> RecordKey {
    RecordKey::own("subsidies", of)
}

/// The requester's first, then each operator's once.
fn keys(requester: &AgentId, operators: [&Did; 2]) -> Vec<RecordKey> {
    let mut keys = vec![key(requester), key(operators[0])];
    if operators[0] != operators[1] {
        keys.push(key(operators[1]));
    }
    keys
}

pub(crate) fn load_subsidies(load: &mut Load, requester: &AgentId, operators: [&Did; 2]) {
    let keys = keys(requester, operators);
    load.records.extend(keys.into_iter().map(|key| (key, Lock::Exclusive)));
}

/// Whether one more is allowed.
pub(crate) fn subsidies_allow(
    turn: &Turn,
    limits: &SubsidyLimits,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<bool, Stop> {
    for (n, key) in keys(requester, operators).iter().enumerate() {
        let known: Subsidies = turn.record(key)?.unwrap_or_default();
        let most = if n == 0 { limits.open_per_requester } else { limits.open_per_operator };
        if known.open >= most {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One more is under way.
pub(crate) fn take_subsidy(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<(), Stop> {
    change(turn, requester, operators, |open| open.saturating_add(1))
}

/// One has ended.
pub(crate) fn end_subsidy(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
) -> Result<(), Stop> {
    change(turn, requester, operators, |open| open.saturating_sub(1))
}

fn change(
    turn: &mut Turn,
    requester: &AgentId,
    operators: [&Did; 2],
    to: impl Fn(u32) -> u32,
) -> Result<(), Stop> {
    for key in keys(requester, operators) {
        let known: Subsidies = turn.record(&key)?.unwrap_or_default();
        turn.put(&key, &Subsidies { open: to(known.open) })?;
    }
    Ok(())
}
