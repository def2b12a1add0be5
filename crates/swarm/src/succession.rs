//! Who leads a branch after its leader has failed, by what its witnesses have signed (ASIP 13,
//! decision 48).
//!
//! A `hierarchy.succession` with enough of their signatures beside it proves itself: a board whose
//! chair was not elected carries it in its record.

use std::collections::{BTreeMap, BTreeSet};

use skep_base::Did;
use skep_wire::swarm::{Message, Outcome, Step, Subject, Succession, Value, Word};

use crate::{accord::Proven, draw::quorum, epoch::Epoch, judge, kept::Kept};

/// Those directly below a leader, in the order of their DIDs.
pub fn branch_of(epoch: &Epoch, leader: &Did) -> Vec<Did> {
    let branch: BTreeSet<Did> = epoch.layout().children_of(leader).iter().copied().collect();
    branch.into_iter().collect()
}

/// Who decides about a leader's successor: only those who hear its signs of life can tell whether
/// it is gone. That is everybody in a small swarm; in a large one it is its branch and the other
/// leaders, and nobody who is drawn by lot.
pub fn witnesses_of(epoch: &Epoch, leader: &Did) -> Vec<Did> {
    if epoch.is_small() {
        return epoch.members().to_vec();
    }
    let near = branch_of(epoch, leader).into_iter().chain(epoch.tier1().iter().copied());
    let near: BTreeSet<Did> = near.filter(|did| did != leader).collect();
    near.into_iter().collect()
}

/// Whether one of a Tier-1 agent's branch follows it.
pub fn is_possible(epoch: &Epoch, succession: &Succession) -> bool {
    let branch = branch_of(epoch, &succession.failed_leader);
    succession.epoch == epoch.number()
        && epoch.is_tier1(&succession.failed_leader)
        && branch.contains(&succession.new_leader)
        && succession.branch_agents == branch
}

pub fn value_of(succession: &Succession) -> Value {
    judge::value(Outcome::Succession(succession.clone()), &[])
}

/// The successions of an epoch that are proven by the signatures among these messages.
pub fn proven_by(epoch: &Epoch, messages: &[Kept]) -> Vec<(Succession, Proven)> {
    let said = messages.iter().filter_map(|kept| match &kept.message {
        Message::Succession(m) if is_possible(epoch, m) => Some(m),
        _ => None,
    });
    said.filter_map(|m| Some((m.clone(), proof(epoch, m, messages)?))).collect()
}

fn proof(epoch: &Epoch, succession: &Succession, messages: &[Kept]) -> Option<Proven> {
    let leader = succession.failed_leader;
    let (subject, value) =
        (Subject::Succession { epoch: succession.epoch, leader }, value_of(succession));
    let word = Word::Sign { step: Step::Commit, hash: value.hash() };
    let witnesses = witnesses_of(epoch, &leader);
    let mut by_view: BTreeMap<u32, BTreeMap<Did, Kept>> = BTreeMap::new();
    for kept in messages {
        if let Message::Certificate(signed) = &kept.message
            && signed.subject == subject
            && signed.word == word
            && witnesses.binary_search(&kept.meta.signer).is_ok()
        {
            by_view.entry(signed.view).or_default().insert(kept.meta.signer, kept.clone());
        }
    }
    let enough = quorum(witnesses.len());
    let (view, signatures) = by_view.into_iter().find(|(_, all)| all.len() >= enough)?;
    let signatures = signatures.into_values().collect();
    Some(Proven { view, value, signatures, record: Vec::new() })
}

/// Whether somebody leads a branch of an epoch in its leader's place, by these messages.
pub fn is_successor(epoch: &Epoch, did: &Did, messages: &[Kept]) -> bool {
    proven_by(epoch, messages).iter().any(|(succession, _)| succession.new_leader == *did)
}
