//! What a node keeps of an election, and what of it goes into the record.
//!
//! A stranger costs nothing, and a liar writes as much as fits: a record that nobody can send would
//! keep everybody from electing anybody.

use std::collections::{BTreeMap, BTreeSet};

use skep_base::{Did, Hash32};
use skep_wire::swarm::{ATTACHED_LEN_MAX, ATTACHED_MAX, ErrorCode, Message};

use super::{GUESTS_MAX, Node, Refusal, elections::Election, refuse};
use crate::{election::joiners_max, kept::Kept};

#[cfg(test)]
mod tests;

/// Newcomers that are listened to beside those who can join: some may contradict themselves.
const SPARE_MAX: usize = 16;
/// What a record may take of a message: the rest is for the outcome, the hashes and the signatures.
const RECORD_LEN_MAX: usize = ATTACHED_LEN_MAX / 2;
const RECORD_MAX: usize = ATTACHED_MAX / 2;

impl Node {
    /// Of newcomers only those whose work is rarest can join: nothing of the others is kept.
    pub(super) fn make_place(&mut self, did: Did) -> Result<(), Refusal> {
        let current = self.epoch().clone();
        let Some(election) = self.election.as_ref().filter(|_| !current.contains(&did)) else {
            return Ok(());
        };
        let said = election.candidacies.keys().chain(election.votes.keys());
        let others: BTreeSet<Did> =
            said.filter(|other| **other != did && !current.contains(other)).copied().collect();
        if others.len() < (joiners_max(&current) + SPARE_MAX).min(GUESTS_MAX) {
            return Ok(());
        }
        let last = others.into_iter().max_by_key(|other| self.rank(other));
        let Some(last) = last.filter(|last| self.rank(&did) < self.rank(last)) else {
            return refuse(ErrorCode::InvalidRequest, "those who come with rarer work are enough");
        };
        if let Some(election) = &mut self.election {
            election.candidacies.remove(&last);
            election.votes.remove(&last);
        }
        Ok(())
    }

    /// The order in which newcomers join; those who have said nothing about themselves are last.
    fn rank(&self, did: &Did) -> (bool, Hash32, Did) {
        let hello = self.peers.get(did).and_then(|peer| peer.handshake.as_ref());
        match hello.map(|kept| &kept.message) {
            Some(Message::Handshake(hello)) => (false, hello.proof_of_work.hash, *did),
            _ => (true, Hash32::ZERO, *did),
        }
    }

    /// What the leader proposes: everything that can count and has room.
    pub(super) fn record_of(&self, election: &Election) -> Vec<Kept> {
        let current = self.epoch();
        let is_new = |did: &Did| !current.contains(did);
        let hello = |did: &Did| self.peers.get(did).and_then(|peer| peer.handshake.clone());
        let mut said: BTreeMap<Did, Vec<&Kept>> = BTreeMap::new();
        for kept in election.candidacies.values().chain(election.votes.values()).flatten() {
            said.entry(kept.meta.signer).or_default().push(kept);
        }
        // Who is new and has not voted, or has not shaken hands, does not join.
        said.retain(|did, _| {
            !is_new(did) || election.votes.contains_key(did) && hello(did).is_some()
        });
        let len = |did: &Did, said: &[&Kept]| -> usize {
            let hello = hello(did).filter(|_| is_new(did)).map_or(0, |kept| kept.wire_len());
            hello + said.iter().map(|kept| kept.wire_len()).sum::<usize>()
        };
        let (mut new, mut members): (Vec<Said>, Vec<Said>) = said
            .iter()
            .map(|(did, said)| Said { did: *did, count: said.len() + 1, len: len(did, said) })
            .partition(|said| is_new(&said.did));
        members.sort_by_key(|said| (said.len, said.did));
        new.sort_by_key(|said| self.rank(&said.did));
        members.extend(new);
        let chosen = with_room(&members, RECORD_MAX, RECORD_LEN_MAX);
        let is_chosen = |kept: &&Kept| chosen.contains(&kept.meta.signer);
        let candidacies = election.candidacies.values().flatten().filter(is_chosen);
        let votes = election.votes.values().flatten().filter(is_chosen);
        let hellos = election.votes.keys().filter(|did| is_new(did) && chosen.contains(did));
        candidacies.chain(votes).cloned().chain(hellos.filter_map(hello)).collect()
    }
}

/// How much one agent has said.
struct Said {
    did: Did,
    count: usize,
    len: usize,
}

/// Those whose words have room, the first ones first: whoever writes too much is left out, not
/// those who come after it.
fn with_room(said: &[Said], count_max: usize, len_max: usize) -> BTreeSet<Did> {
    let (mut count, mut len) = (0, 0);
    let mut chosen = BTreeSet::new();
    for said in said {
        if count + said.count <= count_max && len + said.len <= len_max {
            (count, len) = (count + said.count, len + said.len);
            chosen.insert(said.did);
        }
    }
    chosen
}
