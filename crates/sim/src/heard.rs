//! What honest nodes have heard, in its order, for a transcript.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    sync::Arc,
};

use skep_base::Hash32;
use skep_swarm::{accord::has_record, transcript::signers_of};
use skep_wire::swarm::{Certificate, Message, Signed, Step, Subject, Word};

use crate::timeline::Phase;

#[cfg(test)]
mod tests;

/// Messages of tasks, elections and successions, each once.
#[derive(Debug, Default)]
pub struct Heard {
    messages: Vec<Arc<Signed>>,
    /// Only looked up, never walked.
    known: HashSet<Hash32>,
    /// Everybody passes a certificate on with the whole record: the first one that has it is
    /// enough, unless more have signed another, and none without it is kept.
    certified: BTreeMap<(Subject, Hash32), usize>,
}

impl Heard {
    pub fn hear(&mut self, message: &Arc<Signed>) {
        let is_news = match &message.message {
            Message::Certificate(certificate) => match &certificate.word {
                Word::Bundle { step: Step::Commit, value } => {
                    has_record(value, message) && self.is_fuller(message, certificate, value.hash())
                }
                _ => true,
            },
            other => Phase::of(other) != Phase::Upkeep,
        };
        if is_news && self.known.insert(message.hash()) {
            self.messages.push(message.clone());
        }
    }

    /// Whether more have signed it than what was kept of the same value: one liar can say that
    /// something is certified, and show nothing.
    fn is_fuller(&mut self, message: &Signed, certificate: &Certificate, hash: Hash32) -> bool {
        let signers = signers_of(message, &certificate.subject, hash);
        match self.certified.entry((certificate.subject.clone(), hash)) {
            Entry::Occupied(known) if *known.get() >= signers => false,
            Entry::Occupied(mut known) => {
                known.insert(signers);
                true
            }
            Entry::Vacant(unknown) => {
                unknown.insert(signers);
                true
            }
        }
    }

    pub fn into_messages(self) -> Vec<Arc<Signed>> {
        self.messages
    }
}
