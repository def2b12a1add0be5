//! Whether those are elected whom the ballots give.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::Hash32;
use skep_swarm::{epoch::Epoch, genesis::Genesis, node::Node};
use skep_wire::swarm::{Elected, Message, Outcome, Signed, Value, Word};

use crate::recount::election::{Poll, differences};

#[cfg(test)]
mod tests;

/// An election as a node knows it.
pub struct Told {
    pub elected: Elected,
    pub hash: Hash32,
    /// What its record is made of, by name and as far as it is at hand.
    pub names: Vec<Hash32>,
    pub record: Vec<Arc<Signed>>,
}

impl Told {
    /// What a node can prove of an epoch's election.
    pub fn by(node: &Node, epoch: u64, hash: &Hash32) -> Option<Told> {
        let proofs = node.elections().filter_map(|signed| Some((signed, value(signed)?)));
        let (signed, value, certified) = proofs
            .filter_map(|(signed, value)| match &value.outcome {
                Outcome::Election(elected) => Some((signed, value, elected)),
                _ => None,
            })
            .find(|(_, value, elected)| elected.epoch == epoch && value.hash() == *hash)?;
        // What it follows, unless it follows a later one already.
        let newest = node.epoch();
        let followed = if newest.beacon == *hash { &newest.elected } else { certified };
        let attached: BTreeMap<Hash32, &Arc<Signed>> =
            signed.attached.iter().map(|inner| (inner.hash(), inner)).collect();
        let record = value.record.iter().filter_map(|name| attached.get(name).copied().cloned());
        let (elected, record) = (followed.clone(), record.collect());
        Some(Told { elected, hash: *hash, names: value.record.clone(), record })
    }

    fn is_whole(&self) -> bool {
        self.record.len() == self.names.len()
    }
}

fn value(signed: &Signed) -> Option<&Value> {
    match &signed.message {
        Message::Certificate(certificate) => match &certificate.word {
            Word::Bundle { value, .. } => Some(value),
            _ => None,
        },
        _ => None,
    }
}

/// The elections that were counted again, and whom each began with.
pub struct Polls {
    epochs: BTreeMap<u64, (Elected, Hash32)>,
    counted: BTreeSet<(u64, Hash32)>,
}

impl Polls {
    pub fn new(founding: &Epoch) -> Polls {
        let first = (founding.elected.clone(), founding.beacon);
        Polls { epochs: BTreeMap::from([(founding.number(), first)]), counted: BTreeSet::new() }
    }

    /// Whether there is nothing more to see: that all nodes follow one election is seen apart.
    pub fn has_counted(&self, epoch: u64, hash: &Hash32) -> bool {
        self.counted.contains(&(epoch, *hash))
    }

    /// Elections that nodes have told of, and how many of them were counted again.
    pub fn totals(&self) -> (usize, usize) {
        (self.epochs.len() - 1, self.counted.len())
    }

    /// What is wrong with an election. Of an old one a node may not have the ballots any more:
    /// then the next node is asked.
    pub fn count(&mut self, genesis: &Genesis, told: &Told) -> Vec<String> {
        let (elected, epoch) = (&told.elected, told.elected.epoch);
        self.epochs.entry(epoch).or_insert_with(|| (elected.clone(), told.hash));
        let Some((previous, beacon)) = self.epochs.get(&elected.previous) else {
            return Vec::new();
        };
        if !told.is_whole() || !self.counted.insert((epoch, told.hash)) {
            return Vec::new();
        }
        let poll = Poll { genesis, previous, beacon: *beacon, epoch, record: &told.record };
        let wrong = repeated(told).into_iter().chain(foreign(told));
        let wrong = wrong.chain(differences(elected, &poll.count()));
        wrong.map(|what| format!("epoch {epoch}: {what}")).collect()
    }
}

fn repeated(told: &Told) -> Option<String> {
    let mut names = BTreeSet::new();
    let twice = told.names.iter().find(|name| !names.insert(**name))?;
    Some(format!("the record has the message {twice} twice"))
}

fn foreign(told: &Told) -> Option<String> {
    let is_foreign = |signed: &&Arc<Signed>| match &signed.message {
        Message::ElectionVote(vote) => vote.epoch != told.elected.epoch,
        _ => false,
    };
    let ballot = told.record.iter().find(is_foreign)?;
    Some(format!("the record has a ballot of {} for another epoch", ballot.meta.signer))
}
