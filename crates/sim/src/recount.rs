//! Counts the ballots of a record again, apart from how the nodes do it: each voter once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::{Did, Hash32, hash::json_sha256};
use skep_swarm::tally::{Ballot, instant_runoff};
use skep_wire::swarm::{Chosen, Message, Plan, PlanVote, Ready, Signed, is_named_by};

pub mod election;
#[cfg(test)]
mod tests;

/// What the voters of a task have chosen, if the record has a board.
pub fn recount(task_id: &str, record: &[Arc<Signed>]) -> Option<Chosen> {
    let ready = record.iter().find_map(|signed| match &signed.message {
        Message::Ready(ready) if ready.task_id == task_id => Some(ready),
        _ => None,
    })?;
    let plans = plans(task_id, ready, record);
    let ballots = ballots(task_id, ready, &plans, record);
    let ids: Vec<String> = plans.keys().map(|id| (*id).to_owned()).collect();
    let winner = instant_runoff(&ids, &ballots).map(|runoff| runoff.winner);
    Some(match winner.and_then(|id| Some((plans.get(id.as_str())?.proposer, id))) {
        Some((proposer, plan_id)) => Chosen::Plan { plan_id, proposer },
        None => Chosen::NoPlan,
    })
}

fn sits(ready: &Ready, did: &Did) -> bool {
    ready.chair_id == *did || ready.members.contains(did)
}

/// Plans that were committed to, by members that committed to nothing else.
fn plans<'a>(
    task_id: &str,
    ready: &Ready,
    record: &'a [Arc<Signed>],
) -> BTreeMap<&'a str, &'a Plan> {
    let mut commits: BTreeMap<Did, BTreeSet<Hash32>> = BTreeMap::new();
    for signed in record {
        if let Message::Commit(commit) = &signed.message
            && commit.task_id == task_id
        {
            commits.entry(commit.proposer).or_default().insert(commit.plan_hash);
        }
    }
    let mut plans: BTreeMap<&str, Vec<&Plan>> = BTreeMap::new();
    for signed in record {
        if let Message::Reveal(reveal) = &signed.message
            && reveal.task_id == task_id
            && sits(ready, &reveal.plan.proposer)
            && let Ok(hash) = json_sha256(&reveal.plan)
            && commits.get(&reveal.plan.proposer) == Some(&BTreeSet::from([hash]))
        {
            plans.entry(&reveal.plan.plan_id).or_default().push(&reveal.plan);
        }
    }
    // Where two have taken one id, it is the one's whom it names.
    let owned = |(id, plans): (&'a str, Vec<&'a Plan>)| {
        let is_shared = plans.iter().any(|plan| plan.proposer != plans[0].proposer);
        let mut named = plans.iter().filter(|plan| is_named_by(id, &plan.proposer));
        let owner = if is_shared { named.next() } else { plans.first() };
        owner.map(|plan| (id, *plan))
    };
    plans.into_iter().filter_map(owned).collect()
}

fn ballots(
    task_id: &str,
    ready: &Ready,
    plans: &BTreeMap<&str, &Plan>,
    record: &[Arc<Signed>],
) -> Vec<Ballot> {
    let mut votes: BTreeMap<Did, Vec<&PlanVote>> = BTreeMap::new();
    for signed in record {
        if let Message::PlanVote(vote) = &signed.message
            && vote.task_id == task_id
            && (sits(ready, &vote.voter) || ready.senate.contains(&vote.voter))
        {
            votes.entry(vote.voter).or_default().push(vote);
        }
    }
    // Who votes twice and differently has no vote; who prefers itself has none either.
    votes.retain(|_, votes| votes.iter().all(|vote| *vote == votes[0]));
    votes.retain(|voter, votes| {
        let first = votes[0].rankings.iter().find_map(|id| plans.get(id.as_str()));
        plans.len() < 2 || first.is_none_or(|plan| plan.proposer != *voter)
    });
    let ballot = |(voter, votes): (Did, Vec<&PlanVote>)| Ballot {
        voter,
        rankings: votes[0].rankings.clone(),
        critic_scores: votes[0].critic_scores.clone(),
    };
    votes.into_iter().map(ballot).collect()
}
