//! Bugs that are put in on purpose, at least one for each invariant: a checker that finds nothing
//! proves nothing until it has found these. Some alter what honest nodes tell, some what they do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::{Did, Hash32, hash::sha256};
use skep_swarm::{aggregate, genesis::Genesis, node::Event, tally::borda};
use skep_wire::swarm::{
    Certificate, Chosen, Elected, End, Message, Outcome, Share, Signed, Step, Subject,
    TALK_LEN_MAX, Value, Word,
};

use crate::{client::Known, invariant::Invariant, liar::Draft};

/// What an honest node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// One node follows another plan than the rest.
    AnotherPlan,
    /// A ballot is in the record twice.
    BallotTwice,
    /// One node says that a task failed that succeeded.
    AnotherEnd,
    /// One node follows another successor than the rest.
    AnotherSuccessor,
    /// All nodes agree on a root that is not that of the parts.
    WrongRoot,
    /// One node never learns that a task has ended.
    NoEnd,
    /// No node listens to those who are no founders.
    ShutDoor,
    /// Honest nodes sign every value that a leader shows them.
    Cosign,
    /// No node listens to what others sign about elections.
    NoElection,
    /// Honest nodes say more about a plan than a message may hold.
    LongCritique,
    /// No node tells a client how its task has ended.
    UntoldEnd,
    /// All nodes follow a plan that the ballots do not give.
    WrongWinner,
    /// All nodes agree on a part that nobody has delivered, and on its root.
    Undelivered,
    /// Clients know another end than the nodes.
    MisledClient,
    /// All nodes count one voter's ballot in an election twice.
    VoterTwice,
}

impl Bug {
    pub const ALL: [Bug; 15] = [
        Bug::AnotherPlan,
        Bug::BallotTwice,
        Bug::AnotherEnd,
        Bug::AnotherSuccessor,
        Bug::WrongRoot,
        Bug::NoEnd,
        Bug::ShutDoor,
        Bug::Cosign,
        Bug::NoElection,
        Bug::LongCritique,
        Bug::UntoldEnd,
        Bug::WrongWinner,
        Bug::Undelivered,
        Bug::MisledClient,
        Bug::VoterTwice,
    ];

    /// What it breaks, before anything else.
    pub fn breaks(self) -> Invariant {
        match self {
            Bug::AnotherPlan | Bug::Cosign => Invariant::OnePlan,
            Bug::BallotTwice | Bug::WrongWinner | Bug::VoterTwice => Invariant::BallotOnce,
            Bug::AnotherEnd | Bug::UntoldEnd | Bug::MisledClient => Invariant::TaskOnce,
            Bug::AnotherSuccessor => Invariant::OneSuccessor,
            Bug::WrongRoot | Bug::Undelivered => Invariant::RootMatches,
            Bug::NoEnd => Invariant::EndsInTime,
            Bug::ShutDoor => Invariant::DoorOpen,
            Bug::NoElection => Invariant::ElectionsEnd,
            Bug::LongCritique => Invariant::Opens,
        }
    }
}

/// The bug of a run, if it has one.
#[derive(Debug, Default)]
pub struct Planted {
    bug: Option<Bug>,
    /// Nodes that have said something about what the bug is about: the second one has the bug, so
    /// that there is somebody to differ from.
    spoke: BTreeSet<usize>,
    culprit: Option<usize>,
    founders: BTreeSet<Did>,
}

impl Planted {
    pub fn new(bug: Option<Bug>, genesis: &Genesis) -> Planted {
        let founders = genesis.founders.iter().map(|key| key.did()).collect();
        Planted { bug, founders, ..Planted::default() }
    }

    /// What the node says instead; nothing if it is kept silent.
    pub fn alter(&mut self, node: usize, event: Event) -> Option<Event> {
        let Some(bug) = self.bug else {
            return Some(event);
        };
        match (bug, event) {
            (Bug::AnotherPlan, Event::PlanDecided { task_id, mut value })
                if self.is_culprit(node) =>
            {
                value.outcome = Outcome::Plan(another_plan(&value));
                Some(Event::PlanDecided { task_id, value })
            }
            (Bug::WrongWinner, Event::PlanDecided { task_id, mut value }) => {
                value.outcome = Outcome::Plan(another_plan(&value));
                Some(Event::PlanDecided { task_id, value })
            }
            (Bug::BallotTwice, Event::PlanDecided { task_id, mut value })
                if self.is_culprit(node) =>
            {
                value.record.extend(value.record.last().copied());
                Some(Event::PlanDecided { task_id, value })
            }
            (Bug::AnotherEnd, Event::Ended { task_id, mut ended }) if self.is_culprit(node) => {
                ended.end = if ended.end == End::Failed { End::Succeeded } else { End::Failed };
                Some(Event::Ended { task_id, ended })
            }
            (Bug::AnotherSuccessor, Event::Succession { epoch, leader, successor })
                if self.is_culprit(node) =>
            {
                Some(Event::Succession { epoch, leader, successor: another_did(&successor) })
            }
            (Bug::WrongRoot, Event::Ended { task_id, mut ended }) => {
                ended.root = sha256(ended.root.as_bytes());
                Some(Event::Ended { task_id, ended })
            }
            (Bug::Undelivered, Event::Ended { task_id, mut ended }) => {
                if let Some(part) = ended.parts.iter_mut().flatten().next() {
                    part.merkle_hash = sha256(part.merkle_hash.as_bytes());
                    ended.root = aggregate::root(&ended.parts);
                }
                Some(Event::Ended { task_id, ended })
            }
            (Bug::NoEnd, Event::Ended { .. }) if self.is_culprit(node) => None,
            (_, event) => Some(event),
        }
    }

    /// Whether honest nodes do what [`cosign`] says.
    pub fn is_careless(&self) -> bool {
        self.bug == Some(Bug::Cosign)
    }

    /// Whether a message is not taken, although it has come.
    pub fn swallows(&self, message: &Signed) -> bool {
        match self.bug {
            Some(Bug::ShutDoor) => {
                let is_hello = matches!(message.message, Message::Handshake(_));
                is_hello && !self.founders.contains(&message.meta.signer)
            }
            Some(Bug::NoElection) => matches!(&message.message, Message::Certificate(word)
                if matches!(word.subject, Subject::Election { .. })),
            _ => false,
        }
    }

    /// Whether clients hear nothing of what is decided.
    pub fn hides_ends(&self) -> bool {
        self.bug == Some(Bug::UntoldEnd)
    }

    /// What a client knows of its task's end.
    pub fn mislead(&self, known: &mut Known) {
        if self.bug == Some(Bug::MisledClient)
            && let Known::Ended(ended) = known
        {
            ended.root = sha256(ended.root.as_bytes());
        }
    }

    /// What nodes make of an election's record.
    pub fn miscount(&self, elected: &mut Elected, record: &[Arc<Signed>]) {
        if self.bug == Some(Bug::VoterTwice) {
            count_one_twice(elected, record);
        }
    }

    /// What an honest node says instead of what its machine says.
    pub fn say(&self, mut message: Message) -> Message {
        if let Message::Critique(critique) = &mut message
            && self.bug == Some(Bug::LongCritique)
        {
            critique.content = "again ".repeat(TALK_LEN_MAX / 6);
        }
        message
    }

    fn is_culprit(&mut self, node: usize) -> bool {
        if self.culprit.is_none() && self.spoke.iter().any(|spoke| *spoke != node) {
            self.culprit = Some(node);
        }
        self.spoke.insert(node);
        self.culprit == Some(node)
    }
}

/// What a careless node signs beside what its machine signs: whatever it is shown.
pub fn cosign(me: Did, message: &Signed) -> Vec<Draft> {
    let Message::Certificate(certificate) = &message.message else {
        return Vec::new();
    };
    let (step, value) = match &certificate.word {
        Word::Propose { value } => (Step::Prepare, value),
        Word::Bundle { step: Step::Prepare, value } => (Step::Commit, value),
        _ => return Vec::new(),
    };
    let word = Word::Sign { step, hash: value.hash() };
    let (signer, to) = (me, vec![message.meta.signer]);
    let signed = Message::Certificate(Certificate { word, ..certificate.clone() });
    vec![Draft::Say { signer, to, message: Box::new(signed), attached: Vec::new() }]
}

fn another_plan(value: &Value) -> Chosen {
    match &value.outcome {
        Outcome::Plan(Chosen::Plan { plan_id, proposer }) => {
            Chosen::Plan { plan_id: format!("{plan_id}-other"), proposer: *proposer }
        }
        _ => Chosen::Plan {
            plan_id: "plan-other".to_owned(),
            proposer: Did::from_fingerprint(Hash32::ZERO),
        },
    }
}

/// Who leads if somebody's ballot counts twice: the first one's for whom that makes a difference.
fn count_one_twice(elected: &mut Elected, record: &[Arc<Signed>]) {
    let weight = |did: &Did| elected.members.iter().find(|it| it.did == *did).map(|it| it.weight);
    let (mut candidates, mut votes) = (BTreeMap::new(), Vec::new());
    for signed in record {
        let signer = signed.meta.signer;
        match (&signed.message, weight(&signer)) {
            (Message::Candidacy(_), Some(weight)) => {
                candidates.insert(signer, weight);
            }
            (Message::ElectionVote(vote), Some(weight)) => {
                votes.push((signer, weight, vote.candidate_rankings.clone()));
            }
            _ => {}
        }
    }
    let winners = |votes: &[(Did, Share, Vec<Did>)]| -> Vec<Did> {
        let winners = borda(&candidates, votes, elected.tier1.len());
        winners.into_iter().map(|(did, _)| did).collect()
    };
    let with_one_twice = |(voter, weight, ranking): &(Did, Share, Vec<Did>)| {
        let again = (another_did(voter), *weight, ranking.clone());
        winners(&[votes.clone(), vec![again]].concat())
    };
    let once = winners(&votes);
    let wrong = votes.iter().map(with_one_twice).find(|twice| *twice != once);
    // What is not known here of who may stand must not be what is found.
    if let Some(tier1) = wrong.filter(|_| once == elected.tier1) {
        elected.tier1 = tier1;
    }
}

fn another_did(did: &Did) -> Did {
    Did::from_fingerprint(sha256(did.fingerprint().as_bytes()))
}
