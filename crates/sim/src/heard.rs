//! What honest nodes have heard, in its order, for a transcript.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use skep_base::Hash32;
use skep_swarm::accord::has_record;
use skep_wire::swarm::{Message, Signed, Step, Subject, Word};

use crate::timeline::Phase;

/// Messages of tasks, elections and successions, each once.
#[derive(Debug, Default)]
pub struct Heard {
    messages: Vec<Arc<Signed>>,
    /// Only looked up, never walked.
    known: HashSet<Hash32>,
    /// Everybody passes a certificate on with the whole record: the first one that has it is
    /// enough, and none without it is kept.
    certified: BTreeSet<(Subject, Hash32)>,
}

impl Heard {
    pub fn hear(&mut self, message: &Arc<Signed>) {
        let is_news = match &message.message {
            Message::Certificate(certificate) => match &certificate.word {
                Word::Bundle { step: Step::Commit, value } => {
                    has_record(value, message)
                        && self.certified.insert((certificate.subject.clone(), value.hash()))
                }
                _ => true,
            },
            other => Phase::of(other) != Phase::Upkeep,
        };
        if is_news && self.known.insert(message.hash()) {
            self.messages.push(message.clone());
        }
    }

    pub fn into_messages(self) -> Vec<Arc<Signed>> {
        self.messages
    }
}
