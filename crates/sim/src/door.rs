//! Whether newcomers are let in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use skep_base::{Did, Hash32};
use skep_swarm::{election::MEMBERS_PER_JOINER, epoch::Epoch, genesis::Timing};
use skep_wire::swarm::{Certificate, Message, Signed, Subject, Word};

/// After so many elections that nobody disturbed, a newcomer has had its chance.
const CHANCES: u32 = 2;

/// A newcomer that is not in yet.
struct Outside {
    node: usize,
    came_ms: i64,
    chances: u32,
}

/// Honest newcomers, and the elections that have been held.
pub struct Door {
    timing: Timing,
    calm_from_ms: i64,
    /// When the last honest newcomer comes.
    last_ms: Option<i64>,
    outside: BTreeMap<Did, Outside>,
    epochs: BTreeMap<u64, Arc<Epoch>>,
    /// Outcomes of elections by whether who proposed them first was honest; only looked up.
    proposed: HashMap<Hash32, bool>,
}

impl Door {
    pub fn new(timing: Timing, founding: Arc<Epoch>, calm_from_ms: i64) -> Door {
        let outside = BTreeMap::new();
        let epochs = BTreeMap::from([(founding.number(), founding)]);
        Door { timing, calm_from_ms, last_ms: None, outside, epochs, proposed: HashMap::new() }
    }

    /// An honest newcomer will come.
    pub fn expect(&mut self, node: usize, did: Did, came_ms: i64) {
        self.outside.insert(did, Outside { node, came_ms, chances: 0 });
        self.last_ms = self.last_ms.max(Some(came_ms));
    }

    /// By then everybody has had its chances, if nobody lies.
    pub fn until_ms(&self) -> i64 {
        let elections_ms = (i64::from(CHANCES) + 1) * self.timing.epoch_ms as i64;
        self.last_ms.map_or(0, |ms| ms.max(self.calm_from_ms) + self.rest_ms() + elections_ms)
    }

    /// How long it takes until everybody that was away is back, and knows what it has missed.
    fn rest_ms(&self) -> i64 {
        2 * self.timing.silence_ms as i64
    }

    /// Remembers who proposes whom.
    pub fn see(&mut self, message: &Signed, is_honest: bool) {
        if let Message::Certificate(Certificate {
            subject: Subject::Election { .. },
            word: Word::Propose { value },
            ..
        }) = &message.message
            && !self.outside.is_empty()
        {
            self.proposed.entry(value.hash()).or_insert(is_honest);
        }
    }

    /// An honest node knows an election: who was left out that need not have been.
    pub fn elected(&mut self, epoch: &Arc<Epoch>, hash: &Hash32) -> Option<String> {
        let number = epoch.number();
        if self.outside.is_empty() || self.epochs.contains_key(&number) {
            return None;
        }
        self.epochs.insert(number, epoch.clone());
        self.outside.retain(|did, _| !epoch.contains(did));
        let previous = self.epochs.get(&epoch.elected.previous)?;
        let joined = epoch.members().iter().filter(|did| !previous.contains(did)).count();
        let has_room = joined < (previous.members().len() / MEMBERS_PER_JOINER).max(1);
        let begins_ms = self.begins_ms(number);
        let rest_ms = self.rest_ms();
        let undisturbed = begins_ms >= self.calm_from_ms + rest_ms
            && self.proposed.get(hash).copied().unwrap_or(false);
        if !undisturbed {
            return None;
        }
        let waiting = self.outside.values_mut().filter(|it| it.came_ms + rest_ms <= begins_ms);
        let mut left_out = None;
        for newcomer in waiting {
            newcomer.chances += 1;
            if newcomer.chances >= CHANCES && has_room {
                left_out.get_or_insert(newcomer.node);
            }
        }
        left_out.map(|node| format!("epoch {number} had room for node {node} and left it out"))
    }

    fn begins_ms(&self, epoch: u64) -> i64 {
        let starts_ms = (epoch - 1) * self.timing.epoch_ms;
        starts_ms as i64 - self.timing.election_ms as i64
    }
}
