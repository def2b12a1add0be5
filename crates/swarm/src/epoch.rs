//! One epoch: who is a member, who leads, who stands where.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, Weak},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use skep_base::{Did, Hash32, hash::sha256};
use skep_wire::swarm::{Elected, Location, Member, Share, Subject, Tier};

use crate::{
    draw::{WITNESSES_MAX, by_lot, witnesses},
    genesis::Genesis,
    layout::{Layout, k_of},
    score::{ATTESTERS, WEIGHT_MIN},
};

#[cfg(test)]
mod tests;

/// How many of those that a node watches in a large swarm hear it, too.
const ECHOED_IN_RING: usize = 2;
/// How many different sets of witnesses the tasks of one epoch have in a large swarm.
const TASK_DRAWS: u8 = 16;
/// Epochs that one thread remembers: thousands of nodes may share one.
const REMEMBERED_MAX: usize = 8;

thread_local! {
    static REMEMBERED: RefCell<Vec<Arc<Epoch>>> = const { RefCell::new(Vec::new()) };
    /// The document that was asked for last, and what follows from it.
    static FOUNDED: RefCell<Option<(Weak<Genesis>, Arc<Epoch>)>> = const { RefCell::new(None) };
}

/// What follows from an election's record.
#[derive(Debug)]
pub struct Epoch {
    pub elected: Elected,
    /// The hash of what was certified: fixed before any task of the epoch came (decision 44).
    pub beacon: Hash32,
    members: Vec<Did>,
    layout: Layout,
    /// All members in the order of a lot, and each one's place in it.
    ring: OnceLock<(Vec<Did>, BTreeMap<Did, usize>)>,
}

impl Epoch {
    /// The first epoch: all founders are members, the lot decides who leads.
    pub fn founding(genesis: &Genesis) -> Arc<Epoch> {
        let beacon = genesis.hash();
        if let Some(known) = remembered(&beacon) {
            return known;
        }
        let dids: BTreeSet<Did> = genesis.founders.iter().map(|key| key.did()).collect();
        let dids: Vec<Did> = dids.into_iter().collect();
        let mut tier1 = by_lot(&beacon, "founding", &dids);
        tier1.truncate(k_of(dids.len()));
        let member = |did| Member { did, weight: WEIGHT_MIN, missed: 0, at_us: None };
        let members = dids.into_iter().map(member).collect();
        Epoch::shared(Elected { epoch: 1, previous: 1, members, tier1 }, beacon)
    }

    /// The same for a document that many nodes of one thread share: it is hashed once.
    pub fn founding_shared(genesis: &Arc<Genesis>) -> Arc<Epoch> {
        let known = FOUNDED.with_borrow(|founded| {
            let (document, epoch) = founded.as_ref()?;
            // While somebody holds it, nothing else lies at its address and nobody changes it.
            std::ptr::eq(document.as_ptr(), Arc::as_ptr(genesis)).then(|| epoch.clone())
        });
        known.unwrap_or_else(|| {
            let epoch = Epoch::founding(genesis);
            FOUNDED.set(Some((Arc::downgrade(genesis), epoch.clone())));
            epoch
        })
    }

    /// The epoch of a certified outcome.
    pub fn shared(elected: Elected, beacon: Hash32) -> Arc<Epoch> {
        if let Some(known) = remembered(&beacon) {
            return known;
        }
        let epoch = Arc::new(Epoch::new(elected, beacon));
        REMEMBERED.with_borrow_mut(|known| {
            if known.len() >= REMEMBERED_MAX {
                known.remove(0);
            }
            known.push(epoch.clone());
        });
        epoch
    }

    fn new(elected: Elected, beacon: Hash32) -> Epoch {
        let members: Vec<Did> = elected.members.iter().map(|member| member.did).collect();
        let weights: Vec<(Did, Share)> =
            elected.members.iter().map(|member| (member.did, member.weight)).collect();
        let locations: BTreeMap<Did, Location> = elected
            .members
            .iter()
            .filter_map(|member| Some((member.did, location(member.at_us?))))
            .collect();
        let k = k_of(members.len());
        let layout = Layout::new(&weights, &elected.tier1, k, &locations);
        Epoch { elected, beacon, members, layout, ring: OnceLock::new() }
    }

    pub fn number(&self) -> u64 {
        self.elected.epoch
    }

    /// In the order of their DIDs.
    pub fn members(&self) -> &[Did] {
        &self.members
    }

    pub fn contains(&self, did: &Did) -> bool {
        self.members.binary_search(did).is_ok()
    }

    pub fn member(&self, did: &Did) -> Option<&Member> {
        let index = self.members.binary_search(did).ok()?;
        self.elected.members.get(index)
    }

    pub fn tier1(&self) -> &[Did] {
        &self.elected.tier1
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn k(&self) -> usize {
        k_of(self.members.len())
    }

    pub fn is_small(&self) -> bool {
        self.members.len() <= WITNESSES_MAX
    }

    /// Who co-signs outcomes about a subject.
    pub fn witnesses(&self, subject: &Subject, concerned: &[Did]) -> Vec<Did> {
        witnesses(&self.beacon, &witnessed_text(subject), concerned, &self.members)
    }

    /// Tier 1 in the order in which they take over what is about a subject.
    pub fn leaders(&self, subject: &Subject) -> Vec<Did> {
        by_lot(&self.beacon, &subject_text(subject), self.tier1())
    }

    /// Who counts an election's ballots, one after the other: Tier 1, and when all of it has failed
    /// the other witnesses, since nobody would follow it otherwise.
    pub fn tellers(&self, subject: &Subject, witnesses: &[Did]) -> Vec<Did> {
        [self.leaders(subject), self.reserves(subject, witnesses)].concat()
    }

    /// The witnesses that are not of Tier 1, in the order in which they take over.
    pub fn reserves(&self, subject: &Subject, witnesses: &[Did]) -> Vec<Did> {
        let mut others = by_lot(&self.beacon, &subject_text(subject), witnesses);
        others.retain(|did| !self.is_tier1(did));
        others
    }

    /// Whom a node hears from and tells: everybody in a small swarm, its family in a large one.
    pub fn neighbours(&self, me: &Did) -> Vec<Did> {
        if self.is_small() {
            return self.members.iter().filter(|did| *did != me).copied().collect();
        }
        let mut near: BTreeSet<Did> = self.layout.children_of(me).iter().copied().collect();
        match self.layout.parent_of(me) {
            Some(parent) => {
                near.insert(parent);
                near.extend(self.layout.children_of(&parent));
            }
            None => near.extend(self.tier1()),
        }
        near.remove(me);
        near.into_iter().collect()
    }

    /// Who is told that a node is alive: those near it, those who watch it, and some that it
    /// watches. The last two lie all over the swarm, so that whole families keep their bearings.
    pub fn audience(&self, me: &Did) -> Vec<Did> {
        let mut told = self.neighbours(me);
        if self.is_small() {
            return told;
        }
        told.extend(self.attesters(me));
        let (ring, places) = self.ring();
        if let Some(place) = places.get(me) {
            let before = (1..=ECHOED_IN_RING).map(|back| place + ring.len() - back);
            told.extend(before.map(|at| ring[at % ring.len()]));
        }
        told.sort_unstable();
        told.dedup();
        told
    }

    /// Who watches a subject: everybody in a small swarm, so that those who lie are no majority.
    /// In a large one the next ones in a ring that the beacon has shuffled: one draw serves
    /// everybody, where a lot for each subject would cost the square of the members.
    pub fn attesters(&self, subject: &Did) -> Vec<Did> {
        let (ring, places) = self.ring();
        let count = if self.is_small() { ring.len() } else { ATTESTERS };
        let Some(place) = places.get(subject) else {
            return ring.iter().take(count).copied().collect();
        };
        let others = count.min(ring.len() - 1);
        (1..=others).map(|ahead| ring[(place + ahead) % ring.len()]).collect()
    }

    fn ring(&self) -> &(Vec<Did>, BTreeMap<Did, usize>) {
        self.ring.get_or_init(|| {
            let ring = by_lot(&self.beacon, "attesters", &self.members);
            let places = ring.iter().enumerate().map(|(place, did)| (*did, place)).collect();
            (ring, places)
        })
    }

    pub fn is_tier1(&self, did: &Did) -> bool {
        self.layout.tier_of(did) == Some(Tier(1))
    }
}

pub(crate) fn subject_text(subject: &Subject) -> String {
    match subject {
        Subject::Election { after } => format!("election/{after}"),
        Subject::Succession { epoch, leader } => format!("succession/{epoch}/{leader}"),
        Subject::Plan { task_id } | Subject::Result { task_id } => format!("task/{task_id}"),
    }
}

/// What the witnesses of a subject are drawn for. Whoever names a task knows the beacon already and
/// could try names until the draw is to its liking: so there are only a few draws.
fn witnessed_text(subject: &Subject) -> String {
    match subject {
        Subject::Plan { task_id } | Subject::Result { task_id } => {
            let number = sha256(task_id.as_bytes()).0[0];
            format!("tasks/{}", number % TASK_DRAWS)
        }
        Subject::Election { .. } | Subject::Succession { .. } => subject_text(subject),
    }
}

fn location([x, y, z]: [i64; 3]) -> Location {
    let seconds = |us: i64| us as f64 / 1e6;
    Location { x: seconds(x), y: seconds(y), z: seconds(z) }
}

fn remembered(beacon: &Hash32) -> Option<Arc<Epoch>> {
    REMEMBERED.with_borrow(|known| known.iter().find(|epoch| epoch.beacon == *beacon).cloned())
}

/// How a node stores an epoch: the record, from which all else follows.
#[derive(Serialize, Deserialize)]
struct Stored {
    elected: Elected,
    beacon: Hash32,
}

pub(crate) fn serialize<S: Serializer>(
    epochs: &BTreeMap<u64, Arc<Epoch>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let stored =
        |epoch: &Arc<Epoch>| Stored { elected: epoch.elected.clone(), beacon: epoch.beacon };
    serializer.collect_seq(epochs.values().map(stored))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<u64, Arc<Epoch>>, D::Error> {
    let stored = Vec::<Stored>::deserialize(deserializer)?;
    let epochs = stored.into_iter().map(|s| (s.elected.epoch, Epoch::shared(s.elected, s.beacon)));
    Ok(epochs.collect())
}
