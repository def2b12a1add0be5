//! What must hold in every run, whatever fails and whoever lies, as long as fewer than a third do.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use skep_base::{Did, Hash32};
use skep_swarm::{aggregate, judge, node::Event};
use skep_wire::swarm::{Artifact, Chosen, Ended, Message, Outcome, Signed, SubmitResult, Value};

use crate::{client::Known, recount::recount};

#[cfg(test)]
mod tests;

/// Violations after the first few tell nothing new.
const VIOLATIONS_MAX: usize = 20;

/// What is checked after every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// No two honest nodes name different outcomes of the planning of one task.
    OnePlan,
    /// In the record of a decided plan and of an election, every voter's ballot counts at most
    /// once, and who wins is whom the ballots give.
    BallotOnce,
    /// A task has one end, for its client, too; in it each part is there once, and no task that
    /// somebody took is lost.
    TaskOnce,
    /// A branch whose leader failed gets one successor in an epoch, and an epoch one election.
    OneSuccessor,
    /// The root of a result is that of its parts, and each of them was delivered by its producer,
    /// with the content that its hashes are of.
    RootMatches,
    /// When faults have stopped, whatever a node has begun ends in time.
    EndsInTime,
    /// No honest newcomer waits outside while an election has room for it.
    DoorOpen,
    /// When faults have stopped, elections end: honest members know one of these days.
    ElectionsEnd,
    /// Whoever gets what an honest node sends can open it: it is not too long. And nothing is
    /// attached to it twice, whatever others have attached to theirs.
    Opens,
}

impl Invariant {
    pub const ALL: [Invariant; 9] = [
        Invariant::OnePlan,
        Invariant::BallotOnce,
        Invariant::TaskOnce,
        Invariant::OneSuccessor,
        Invariant::RootMatches,
        Invariant::EndsInTime,
        Invariant::DoorOpen,
        Invariant::ElectionsEnd,
        Invariant::Opens,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Invariant::OnePlan => "one_plan",
            Invariant::BallotOnce => "ballot_once",
            Invariant::TaskOnce => "task_once",
            Invariant::OneSuccessor => "one_successor",
            Invariant::RootMatches => "root_matches",
            Invariant::EndsInTime => "ends_in_time",
            Invariant::DoorOpen => "door_open",
            Invariant::ElectionsEnd => "elections_end",
            Invariant::Opens => "opens",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One invariant, broken once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub at_ms: i64,
    /// The node that showed it.
    pub node: Option<usize>,
    pub what: String,
    /// The command that shows it again.
    pub replay: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at_ms as f64 / 1000.0;
        write!(f, "{} after {seconds} s", self.invariant)?;
        if let Some(node) = self.node {
            write!(f, " at node {node}")?;
        }
        write!(f, ": {}\n  replay: {}", self.what, self.replay)
    }
}

/// What the honest nodes have said so far.
#[derive(Default)]
pub struct Watch {
    replay: String,
    plans: BTreeMap<String, (usize, Chosen)>,
    ends: BTreeMap<String, (usize, Ended)>,
    planned_ms: BTreeMap<String, i64>,
    ended_ms: BTreeMap<String, i64>,
    ended: BTreeSet<(usize, String)>,
    successors: BTreeMap<(u64, Did), (usize, Did)>,
    elections: BTreeMap<u64, (usize, Hash32)>,
    /// By when each node's tasks must have ended.
    due: BTreeSet<(i64, usize, String)>,
    due_of: BTreeMap<(usize, String), i64>,
    /// Tasks that an honest node has taken from a client.
    taken: BTreeSet<String>,
    /// What records are made of, by hash; only looked up.
    messages: HashMap<Hash32, Arc<Signed>>,
    /// What was delivered, by the task that it is said to be done for.
    delivered: BTreeMap<String, Vec<Arc<Signed>>>,
    /// Tasks whose ballots were counted: that all nodes follow one outcome is seen apart.
    counted: BTreeSet<String>,
    violations: Vec<Violation>,
}

impl Watch {
    pub fn new(replay: String) -> Watch {
        Watch { replay, ..Watch::default() }
    }

    pub fn into_violations(self) -> Vec<Violation> {
        self.violations
    }

    pub fn has_open(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether an honest node has taken a task from its client.
    pub fn was_taken(&self, task_id: &str) -> bool {
        self.taken.contains(task_id)
    }

    /// When the first honest node knew a task's plan.
    pub fn planned_ms(&self, task_id: &str) -> Option<i64> {
        self.planned_ms.get(task_id).copied()
    }

    /// When the first honest node knew a task's end.
    pub fn ended_ms(&self, task_id: &str) -> Option<i64> {
        self.ended_ms.get(task_id).copied()
    }

    /// Remembers what is said about tasks, of which records name only the hashes.
    pub fn see(&mut self, message: &Arc<Signed>) {
        let is_of_record = matches!(
            message.message,
            Message::PlanVote(_) | Message::Ready(_) | Message::Commit(_) | Message::Reveal(_)
        );
        if is_of_record {
            self.messages.entry(message.hash()).or_insert_with(|| message.clone());
        }
        if let Message::SubmitResult(result) = &message.message {
            self.delivered.entry(result.task_id.clone()).or_default().push(message.clone());
        }
    }

    pub fn report(&mut self, now_ms: i64, node: Option<usize>, which: Invariant, what: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            let replay = self.replay.clone();
            self.violations.push(Violation { invariant: which, at_ms: now_ms, node, what, replay });
        }
    }

    /// A task that a node has begun must end there by then.
    pub fn begin(&mut self, node: usize, task_id: &str, due_ms: i64) {
        let key = (node, task_id.to_owned());
        if !self.ended.contains(&key) && !self.due_of.contains_key(&key) {
            self.due.insert((due_ms, node, key.1.clone()));
            self.due_of.insert(key, due_ms);
        }
    }

    fn close(&mut self, node: usize, task_id: &str) {
        let key = (node, task_id.to_owned());
        if let Some(due_ms) = self.due_of.remove(&key) {
            self.due.remove(&(due_ms, node, key.1.clone()));
        }
        self.ended.insert(key);
    }

    /// Whatever is overdue now.
    pub fn pass_time(&mut self, now_ms: i64) {
        while self.due.first().is_some_and(|(due_ms, ..)| *due_ms < now_ms) {
            let Some((due_ms, node, task_id)) = self.due.pop_first() else {
                return;
            };
            self.due_of.remove(&(node, task_id.clone()));
            let what = format!("{task_id} should have ended by {} s", due_ms as f64 / 1000.0);
            self.report(now_ms, Some(node), Invariant::EndsInTime, what);
        }
    }

    /// Takes an honest node's word. `due_ms`: by when a task that came from outside must have
    /// ended; how parts end is their coordinator's business.
    pub fn observe(&mut self, now_ms: i64, node: usize, event: &Event, due_ms: Option<i64>) {
        match event {
            Event::Injected { task_id } => {
                self.taken.insert(task_id.clone());
                due_ms.into_iter().for_each(|due_ms| self.begin(node, task_id, due_ms));
            }
            Event::PlanDecided { task_id, value } => {
                self.plan_decided(now_ms, node, task_id, value, due_ms);
            }
            Event::Ended { task_id, ended } => self.task_ended(now_ms, node, task_id, ended),
            Event::Succession { epoch, leader, successor } => {
                let known = self.successors.entry((*epoch, *leader)).or_insert((node, *successor));
                if known.1 != *successor {
                    let what = format!(
                        "{leader} is followed by {successor} in {epoch}, and at node {} by {}",
                        known.0, known.1
                    );
                    self.report(now_ms, Some(node), Invariant::OneSuccessor, what);
                }
            }
            Event::Elected { epoch, hash } => {
                let known = *self.elections.entry(*epoch).or_insert((node, *hash));
                if known.1 != *hash {
                    let what = format!("epoch {epoch} was elected otherwise at node {}", known.0);
                    self.report(now_ms, Some(node), Invariant::OneSuccessor, what);
                }
            }
            Event::Executed { .. }
            | Event::Withdrawn { .. }
            | Event::Unsaid { .. }
            | Event::VoterCaught { .. } => {}
        }
    }

    fn plan_decided(
        &mut self,
        now_ms: i64,
        node: usize,
        task_id: &str,
        value: &Value,
        due_ms: Option<i64>,
    ) {
        let Outcome::Plan(chosen) = &value.outcome else {
            let what = format!("{task_id} was planned by something that is no plan");
            return self.report(now_ms, Some(node), Invariant::OnePlan, what);
        };
        self.planned_ms.entry(task_id.to_owned()).or_insert(now_ms);
        let known = self.plans.entry(task_id.to_owned()).or_insert((node, chosen.clone()));
        if known.1 != *chosen {
            let what = format!("{task_id}: {chosen:?}, but {:?} at node {}", known.1, known.0);
            self.report(now_ms, Some(node), Invariant::OnePlan, what);
        }
        self.look_for_repetition(now_ms, node, task_id, value);
        if self.counted.insert(task_id.to_owned()) {
            self.count_ballots(now_ms, node, task_id, value, chosen);
        }
        match chosen {
            Chosen::Plan { .. } => {
                due_ms.into_iter().for_each(|due_ms| self.begin(node, task_id, due_ms));
            }
            Chosen::NoPlan | Chosen::TooLate | Chosen::Cancelled => self.close(node, task_id),
        }
    }

    /// A voter with two different ballots in the record is evidence against itself and counts for
    /// nothing; the same ballot twice, or one of another task, must not be there at all.
    fn look_for_repetition(&mut self, now_ms: i64, node: usize, task_id: &str, value: &Value) {
        let mut hashes = BTreeSet::new();
        let twice = value.record.iter().find(|hash| !hashes.insert(**hash)).copied();
        if let Some(hash) = twice {
            let what = format!("the record of {task_id} has the message {hash} twice");
            self.report(now_ms, Some(node), Invariant::BallotOnce, what);
        }
        let foreign = value.record.iter().find(|hash| {
            let message = self.messages.get(*hash).map(|signed| &signed.message);
            matches!(message, Some(Message::PlanVote(vote)) if vote.task_id != task_id)
        });
        if let Some(hash) = foreign {
            let what = format!("the record of {task_id} has another task's ballot {hash}");
            self.report(now_ms, Some(node), Invariant::BallotOnce, what);
        }
    }

    fn count_ballots(
        &mut self,
        now_ms: i64,
        node: usize,
        task_id: &str,
        value: &Value,
        chosen: &Chosen,
    ) {
        let known = value.record.iter().filter_map(|hash| self.messages.get(hash).cloned());
        let known: Vec<Arc<Signed>> = known.collect();
        if matches!(chosen, Chosen::Plan { .. } | Chosen::NoPlan)
            && let Some(counted) = recount(task_id, &known)
            && counted != *chosen
        {
            let what = format!("{task_id}: the ballots give {counted:?}, not {chosen:?}");
            self.report(now_ms, Some(node), Invariant::BallotOnce, what);
        }
    }

    fn task_ended(&mut self, now_ms: i64, node: usize, task_id: &str, ended: &Ended) {
        self.ended_ms.entry(task_id.to_owned()).or_insert(now_ms);
        let known = self.ends.entry(task_id.to_owned()).or_insert_with(|| (node, ended.clone()));
        if known.1 != *ended {
            let what = format!(
                "{task_id} ended {:?} with root {}, but {:?} with root {} at node {}",
                ended.end, ended.root, known.1.end, known.1.root, known.0
            );
            self.report(now_ms, Some(node), Invariant::TaskOnce, what);
        }
        let mut tasks = BTreeSet::new();
        let done_twice = ended.parts.iter().flatten().find(|part| !tasks.insert(&part.task_id));
        if let Some(part) = done_twice {
            let what = format!("{task_id} has two artifacts of {}", part.task_id);
            self.report(now_ms, Some(node), Invariant::TaskOnce, what);
        }
        let root = aggregate::root(&ended.parts);
        if root != ended.root {
            let what = format!("{task_id} has the root {}, its parts have {root}", ended.root);
            self.report(now_ms, Some(node), Invariant::RootMatches, what);
        }
        let mut parts =
            (0..).zip(&ended.parts).filter_map(|(index, part)| Some((index, part.as_ref()?)));
        let missing = parts.find(|(index, part)| !self.is_delivered(task_id, *index, part));
        if let Some((index, part)) = missing {
            let what = format!("{task_id}: {} has never delivered part {index}", part.producer);
            self.report(now_ms, Some(node), Invariant::RootMatches, what);
        }
        self.close(node, task_id);
    }

    /// Whether an artifact is of this part of the task, and its producer has sent what it is of.
    fn is_delivered(&self, task_id: &str, index: u32, artifact: &Artifact) -> bool {
        let of_content = |result: &SubmitResult| {
            let Some(content) = &result.content else {
                return false;
            };
            let parts: Vec<Option<Artifact>> = result.parts.iter().cloned().map(Some).collect();
            let hash = match parts.is_empty() {
                true => aggregate::content_root(content.as_bytes()),
                false => aggregate::root(&parts),
            };
            (hash, aggregate::cid(content.as_bytes()))
                == (artifact.merkle_hash, artifact.content_cid.clone())
        };
        let is_it = |sent: &Arc<Signed>| match &sent.message {
            Message::SubmitResult(result) => {
                sent.meta.signer == artifact.producer
                    && result.artifact == *artifact
                    && of_content(result)
            }
            _ => false,
        };
        let first = judge::part_id(task_id, index, 1);
        let rest = artifact.task_id.strip_prefix(&first);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['~', '@']))
            && self.delivered.get(&artifact.task_id).is_some_and(|sent| sent.iter().any(is_it))
    }

    /// What a client knows of its task's end is what honest nodes know.
    pub fn compare(&mut self, now_ms: i64, task_id: &str, known: &Known) {
        let told = match known {
            Known::Ended(ended) => {
                self.ends.get(task_id).filter(|(_, other)| other != ended).map(|(node, _)| *node)
            }
            Known::Unplanned(chosen) => {
                self.plans.get(task_id).filter(|(_, other)| other != chosen).map(|(node, _)| *node)
            }
        };
        if let Some(node) = told {
            let what = format!("the client of {task_id} knows another end than node {node}");
            self.report(now_ms, None, Invariant::TaskOnce, what);
        }
    }
}
