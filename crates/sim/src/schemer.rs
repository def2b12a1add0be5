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
use skep_wire::swarm::{Certificate, Chosen, Message, Outcome, Signed, Step, Subject, Value, Word};

use crate::recount::recount;

/// What a liar makes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Another one beside it.
    Split,
    /// Its record has more than it needs.
    Pad,
    /// Its record has no ballots but the liar's own.
    Drop,
    /// Or no plans.
    Hide,
    /// Or no candidacies.
    StandAlone,
    /// It lacks as many ballots as an election can do without, of those that come first.
    CountFew,
}

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
    /// A ballot that was heard last.
    ballot: Option<Arc<Signed>>,
}

impl Schemer {
    pub fn new(friends: Arc<BTreeSet<Did>>) -> Schemer {
        Schemer { friends, schemes: BTreeMap::new(), ballot: None }
    }

    pub fn is_friend(&self, did: &Did) -> bool {
        self.friends.contains(did)
    }

    /// What it says instead of what its machine wants to say as a leader; nothing if that stays.
    pub fn speak(
        &mut self,
        plot: Plot,
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
            let record = record_of(value, attached)?;
            let (value, record) = match plot {
                Plot::Split => twin(world, &certificate.subject, value, record)?,
                Plot::Pad => self.pad(&certificate.subject, value, record)?,
                Plot::Drop => self.omit(world, certificate, value, record, &is_ballot)?,
                Plot::Hide => self.omit(world, certificate, value, record, &is_plan)?,
                Plot::StandAlone => self.omit(world, certificate, value, record, &is_candidacy)?,
                Plot::CountFew => {
                    let spared = self.spared(&certificate.subject, to)?;
                    let is_spared = |kept: &&Arc<Signed>| spared.contains(&kept.meta.signer);
                    let is_omitted = |kept: &&Arc<Signed>| is_ballot(kept) && is_spared(kept);
                    self.omit(world, certificate, value, record, &is_omitted)?
                }
            };
            self.schemes.insert(name.clone(), self.scheme(plot, to, value, record));
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

    /// The same outcome of a record in which something is twice, or has no place.
    fn pad(
        &self,
        subject: &Subject,
        value: &Value,
        mut record: Vec<Arc<Signed>>,
    ) -> Option<(Value, Vec<Arc<Signed>>)> {
        let is_foreign = |ballot: &&Arc<Signed>| match subject {
            Subject::Plan { task_id } => ballot.message.task_id() != Some(task_id),
            _ => true,
        };
        let foreign = self.ballot.as_ref().filter(is_foreign);
        record.push(foreign.or_else(|| record.iter().rfind(is_ballot)).cloned()?);
        Some((said(value.outcome.clone(), &record), record))
    }

    /// What follows when what others have said is left out.
    fn omit(
        &self,
        world: (&Epoch, &Genesis),
        certificate: &Certificate,
        value: &Value,
        mut record: Vec<Arc<Signed>>,
        is_omitted: &dyn Fn(&&Arc<Signed>) -> bool,
    ) -> Option<(Value, Vec<Arc<Signed>>)> {
        record.retain(|kept| !is_omitted(&kept) || self.friends.contains(&kept.meta.signer));
        let outcome = outcome(world, &certificate.subject, value, &record)?;
        Some((said(outcome, &record), record))
    }

    /// Whose ballots an election can do without: the rest is still a quorum, its friends included.
    fn spared(&self, subject: &Subject, witnesses: &[Did]) -> Option<BTreeSet<Did>> {
        let Subject::Election { .. } = subject else {
            return None;
        };
        let can_spare = witnesses.len().saturating_sub(quorum(witnesses.len()));
        let others = witnesses.iter().filter(|did| !self.friends.contains(did));
        Some(others.take(can_spare).copied().collect())
    }

    /// That there is no plan, from a board on which nobody else sits.
    pub fn end_first(&mut self, epoch: &Epoch, ready: &Arc<Signed>) -> Option<Speech> {
        let order = ready.attached.first()?.clone();
        let task_id = ready.message.task_id()?.to_owned();
        let to = judge::witnesses_of(epoch, &Kept(order.clone()));
        let record = vec![order, Arc::new(ready.without_attachments())];
        let value = said(Outcome::Plan(Chosen::NoPlan), &record);
        let subject = Subject::Plan { task_id };
        let name = (subject.clone(), 0);
        let scheme = self.scheme(Plot::Drop, &to, value.clone(), record.clone());
        self.schemes.insert(name, scheme);
        let word = Word::Propose { value };
        Some((to, Message::Certificate(Certificate { subject, view: 0, word }), record))
    }

    fn scheme(&self, plot: Plot, to: &[Did], value: Value, record: Vec<Arc<Signed>>) -> Scheme {
        let is_friend = |did: &&Did| self.friends.contains(*did);
        let mut honest: Vec<Did> = to.iter().filter(|did| !is_friend(did)).copied().collect();
        let two = match plot {
            Plot::Split => honest.split_off(honest.len().div_ceil(2)),
            _ => std::mem::take(&mut honest),
        };
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
        if is_ballot(&message) {
            self.ballot = Some(message.clone());
        }
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

fn record_of(value: &Value, attached: &[Arc<Signed>]) -> Option<Vec<Arc<Signed>>> {
    let by_hash: BTreeMap<Hash32, &Arc<Signed>> =
        attached.iter().map(|message| (message.hash(), message)).collect();
    value.record.iter().map(|hash| by_hash.get(hash).map(|kept| (*kept).clone())).collect()
}

fn is_ballot(message: &&Arc<Signed>) -> bool {
    matches!(message.message, Message::PlanVote(_) | Message::ElectionVote(_))
}

fn is_plan(message: &&Arc<Signed>) -> bool {
    matches!(message.message, Message::Reveal(_))
}

fn is_candidacy(message: &&Arc<Signed>) -> bool {
    matches!(message.message, Message::Candidacy(_))
}

fn said(outcome: Outcome, record: &[Arc<Signed>]) -> Value {
    let kept: Vec<Kept> = record.iter().cloned().map(Kept).collect();
    judge::value(outcome, &kept)
}

/// What follows from a record, as its witnesses count.
fn outcome(
    (epoch, genesis): (&Epoch, &Genesis),
    subject: &Subject,
    value: &Value,
    record: &[Arc<Signed>],
) -> Option<Outcome> {
    match (subject, &value.outcome) {
        (Subject::Plan { task_id }, Outcome::Plan(_)) => {
            Some(Outcome::Plan(recount(task_id, record)?))
        }
        (Subject::Election { .. }, Outcome::Election(elected)) => {
            let kept: Vec<Kept> = record.iter().cloned().map(Kept).collect();
            Some(Outcome::Election(elect(epoch, genesis, elected.epoch, &kept)))
        }
        _ => None,
    }
}

/// Another value that honest witnesses accept: what follows when some ballots are left out.
fn twin(
    world: (&Epoch, &Genesis),
    subject: &Subject,
    value: &Value,
    mut record: Vec<Arc<Signed>>,
) -> Option<(Value, Vec<Arc<Signed>>)> {
    while let Some(last) = record.iter().rposition(|message| is_ballot(&message)) {
        record.remove(last);
        let outcome = outcome(world, subject, value, &record)?;
        if outcome != value.outcome {
            return Some((said(outcome, &record), record));
        }
    }
    None
}
