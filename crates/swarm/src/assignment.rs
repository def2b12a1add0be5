//! Who sits on a board, and who does which part of a plan (ASIP 9, 15).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use skep_base::Did;
use skep_wire::swarm::{Accept, Share, Subtask};

#[cfg(test)]
mod tests;

/// Somebody that can be given work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub did: Did,
    pub capabilities: Vec<String>,
    pub active_tasks: u32,
    pub weight: Share,
}

/// Gives each part, in the order of their index, to who lacks the fewest of its capabilities; among
/// those to the least loaded, then the highest weight, then the lowest DID.
///
/// `avoid` names who has failed at which part: they get it again only if nobody else is left.
pub fn assign(
    subtasks: &[Subtask],
    workers: &[Worker],
    avoid: &BTreeSet<(u32, Did)>,
) -> BTreeMap<u32, Did> {
    let mut parts: Vec<&Subtask> = subtasks.iter().collect();
    parts.sort_by_key(|part| part.index);
    let can: Vec<BTreeSet<&str>> =
        workers.iter().map(|worker| names(&worker.capabilities)).collect();
    let mut loads: Vec<u64> = workers.iter().map(|worker| worker.active_tasks.into()).collect();
    let mut assigned = BTreeMap::new();
    for part in parts {
        let needed = names(&part.required_capabilities);
        let chosen = (0..workers.len()).min_by_key(|at| {
            let Worker { did, weight, .. } = &workers[*at];
            let missing = needed.difference(&can[*at]).count();
            (avoid.contains(&(part.index, *did)), missing, loads[*at], Reverse(*weight), *did)
        });
        // Of two parts with one index the first counts.
        if let Some(chosen) = chosen
            && !assigned.contains_key(&part.index)
        {
            loads[chosen] += 1;
            assigned.insert(part.index, workers[chosen].did);
        }
    }
    assigned
}

fn names(capabilities: &[String]) -> BTreeSet<&str> {
    capabilities.iter().map(String::as_str).collect()
}

/// Those of the answers that get a seat: the least busy, then the highest mean affinity to what is
/// required, then the lowest DID.
pub fn board(answers: &[Accept], required: &[String], capacity: usize) -> Vec<Did> {
    let required = names(required);
    let mut order: Vec<(u32, Reverse<u64>, Did)> = answers
        .iter()
        .map(|answer| {
            let affinity = |name: &&str| answer.affinity_scores.get(*name).copied();
            // All are divided by the same number: their sums have the order of their means.
            let sum = required.iter().filter_map(affinity).map(|share| u64::from(share.e6())).sum();
            (answer.active_tasks, Reverse(sum), answer.agent_id)
        })
        .collect();
    order.sort_unstable();
    let mut seated = BTreeSet::new();
    order.retain(|(_, _, did)| seated.insert(*did));
    order.truncate(capacity);
    order.into_iter().map(|(_, _, did)| did).collect()
}

/// How many seats a board has for a pool of agents.
pub fn capacity(pool: usize) -> usize {
    match pool {
        0..=2 => pool,
        3..=12 => 3,
        13..=30 => (pool / 3).clamp(3, 10),
        _ => pool.isqrt().clamp(5, 10),
    }
}
