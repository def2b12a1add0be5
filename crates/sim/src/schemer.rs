//! A liar that wants two values to be final: as a leader it shows one half of the witnesses one
//! value and the other half another that follows from a shorter record, gathers signatures for
//! both, shows those who have signed the first the second, too, and certifies what it can.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::{Did, Hash32};
use skep_swarm::{
    draw::quorum, election::elect, epoch::Epoch, genesis::Genesis, judge, kept::Kept,
};
use skep_wire::swarm::{Certificate, Message, Outcome, Signed, Step, Subject, Value, Word};

use crate::recount::recount;

/// Accords that one liar tries to split in a run.
const SCHEMES_MAX: usize = 64;

/// A second value for one view of one accord.
struct Scheme {
    value: Value,
    hash: Hash32,
    record: Vec<Arc<Signed>>,
    /// Who is shown which value first; friends are in both.
    one: BTreeSet<Did>,
    two: BTreeSet<Did>,
    quorum: usize,
    prepare: BTreeMap<Did, Arc<Signed>>,
    commit: BTreeMap<Did, Arc<Signed>>,
    /// What was certified already.
    prepared: bool,
    committed: bool,
}

/// What is to be sent to whom.
pub type Speech = (Vec<Did>, Message, Vec<Arc<Signed>>);

/// All that a liar plots.
pub struct Schemer {
    /// Those who lie with it, itself among them.
    friends: Arc<BTreeSet<Did>>,
    schemes: BTreeMap<(Subject, u32), Scheme>,
}

impl Schemer {
    pub fn new(friends: Arc<BTreeSet<Did>>) -> Schemer {
        Schemer { friends, schemes: BTreeMap::new() }
    }

    pub fn is_friend(&self, did: &Did) -> bool {
        self.friends.contains(did)
    }

    /// What it says instead of what its machine wants to say as a leader; nothing if that stays.
    pub fn speak(
        &mut self,
        world: (&Epoch, &Genesis),
        to: &[Did],
        certificate: &Certificate,
        attached: &[Arc<Signed>],
    ) -> Option<Vec<Speech>> {
        let name = (certificate.subject.clone(), certificate.view);
        if let Word::Propose { value } = &certificate.word
            && !self.schemes.contains_key(&name)
            && self.schemes.len() < SCHEMES_MAX
        {
            let (value, record) = twin(world, &certificate.subject, value, attached)?;
            self.schemes.insert(name.clone(), self.scheme(to, value, record));
        }
        let scheme = self.schemes.get(&name)?;
        let among = |side: &BTreeSet<Did>| -> Vec<Did> {
            to.iter().filter(|did| side.contains(did)).copied().collect()
        };
        let first =
            (among(&scheme.one), Message::Certificate(certificate.clone()), attached.into());
        let second = |to: Vec<Did>| {
            let word = Word::Propose { value: scheme.value.clone() };
            let other = Certificate { word, ..certificate.clone() };
            (to, Message::Certificate(other), scheme.record.clone())
        };
        match &certificate.word {
            Word::Propose { .. } => Some(vec![first, second(among(&scheme.two))]),
            // Enough have signed the first: now they see the second.
            Word::Bundle { step: Step::Prepare, .. } => {
                let all = scheme.one.union(&scheme.two);
                let others = all.filter(|did| !scheme.prepare.contains_key(did));
                Some(vec![first, second(others.copied().collect())])
            }
            Word::Bundle { step: Step::Commit, .. } => Some(vec![first]),
            _ => None,
        }
    }

    fn scheme(&self, to: &[Did], value: Value, record: Vec<Arc<Signed>>) -> Scheme {
        let is_friend = |did: &&Did| self.friends.contains(*did);
        let mut honest: Vec<Did> = to.iter().filter(|did| !is_friend(did)).copied().collect();
        let two = honest.split_off(honest.len().div_ceil(2));
        let with_friends =
            |side: Vec<Did>| side.into_iter().chain(to.iter().filter(is_friend).copied()).collect();
        Scheme {
            hash: value.hash(),
            value,
            record,
            one: with_friends(honest),
            two: with_friends(two),
            quorum: quorum(to.len()),
            prepare: BTreeMap::new(),
            commit: BTreeMap::new(),
            prepared: false,
            committed: false,
        }
    }

    /// Takes a signature under a second value; what follows if there are enough.
    pub fn hear(&mut self, message: &Arc<Signed>) -> Vec<Speech> {
        let Message::Certificate(certificate) = &message.message else {
            return Vec::new();
        };
        let Word::Sign { step, hash } = &certificate.word else {
            return Vec::new();
        };
        let name = (certificate.subject.clone(), certificate.view);
        let Some(scheme) = self.schemes.get_mut(&name).filter(|scheme| scheme.hash == *hash) else {
            return Vec::new();
        };
        let (signatures, is_told) = match step {
            Step::Prepare => (&mut scheme.prepare, &mut scheme.prepared),
            Step::Commit => (&mut scheme.commit, &mut scheme.committed),
        };
        signatures.insert(message.meta.signer, message.clone());
        if signatures.len() < scheme.quorum || *is_told {
            return Vec::new();
        }
        *is_told = true;
        let mut attached: Vec<Arc<Signed>> = signatures.values().cloned().collect();
        let to: Vec<Did> = match step {
            Step::Prepare => scheme.one.union(&scheme.two).copied().collect(),
            Step::Commit => {
                attached.extend(scheme.record.iter().cloned());
                scheme.two.iter().copied().collect()
            }
        };
        let word = Word::Bundle { step: *step, value: scheme.value.clone() };
        let bundle = Certificate { word, ..certificate.clone() };
        vec![(to, Message::Certificate(bundle), attached)]
    }
}

/// Another value that honest witnesses accept: what follows when some ballots are left out.
fn twin(
    (epoch, genesis): (&Epoch, &Genesis),
    subject: &Subject,
    value: &Value,
    attached: &[Arc<Signed>],
) -> Option<(Value, Vec<Arc<Signed>>)> {
    let by_hash: BTreeMap<Hash32, &Arc<Signed>> =
        attached.iter().map(|message| (message.hash(), message)).collect();
    let record: Option<Vec<Arc<Signed>>> =
        value.record.iter().map(|hash| by_hash.get(hash).map(|kept| (*kept).clone())).collect();
    let mut record = record?;
    let is_ballot = |message: &Arc<Signed>| {
        matches!(message.message, Message::PlanVote(_) | Message::ElectionVote(_))
    };
    while let Some(last) = record.iter().rposition(is_ballot) {
        record.remove(last);
        let outcome = match (subject, &value.outcome) {
            (Subject::Plan { task_id }, Outcome::Plan(_)) => {
                Outcome::Plan(recount(task_id, &record)?)
            }
            (Subject::Election { .. }, Outcome::Election(elected)) => {
                let kept: Vec<Kept> = record.iter().cloned().map(Kept).collect();
                Outcome::Election(elect(epoch, genesis, elected.epoch, &kept))
            }
            _ => return None,
        };
        if outcome != value.outcome {
            let kept: Vec<Kept> = record.iter().cloned().map(Kept).collect();
            return Some((judge::value(outcome, &kept), record));
        }
    }
    None
}
