//! Lies that use when something is said rather than what: a liar that is early, late or too long.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use skep_base::{Did, hash::json_sha256, hash::sha256};
use skep_swarm::{
    aggregate::{self, Piece},
    epoch::Epoch,
    judge,
};
use skep_wire::swarm::{
    ATTACHED_MAX, Artifact, Certificate, Commit, Inject, Invite, Message, Plan, Ready, Reveal,
    Signed, Subject, SubmitResult, Word,
};

use crate::liar::Draft;

/// What a fat message repeats, in all: as much as many seeds can be run with.
const FAT: usize = 400;
/// Every so many fat messages one is longer than anybody may send.
const TOO_FAT_EVERY: u32 = 16;

/// So often a liar leaps ahead about one subject: others that do so follow it, without an end.
const JUMPS_MAX: usize = 4;

/// What a liar remembers for its tricks.
pub struct Trickster {
    me: Did,
    peers: Arc<[Did]>,
    /// Views that it has leapt to, and what it says no more about since.
    jumped: BTreeMap<Subject, BTreeSet<u32>>,
    hushed: BTreeSet<Subject>,
    /// Ids of clients' tasks that it has given to orders of its own.
    squatted: BTreeSet<String>,
    /// Tasks of others that it wants to end first.
    raced: BTreeSet<String>,
    /// By task: another's plan that it has made its own.
    copies: BTreeMap<String, Plan>,
    fattened: u32,
}

impl Trickster {
    pub fn new(me: Did, peers: Arc<[Did]>) -> Trickster {
        Trickster {
            me,
            peers,
            jumped: BTreeMap::new(),
            hushed: BTreeSet::new(),
            squatted: BTreeSet::new(),
            raced: BTreeSet::new(),
            copies: BTreeMap::new(),
            fattened: 0,
        }
    }

    fn say(&self, to: Vec<Did>, message: Message, attached: Vec<Arc<Signed>>) -> Draft {
        Draft::Say { signer: self.me, to, message: Box::new(message), attached }
    }

    fn others(&self) -> Vec<Did> {
        self.peers.iter().filter(|did| **did != self.me).copied().collect()
    }

    /// Whoever leads proposes: so does this one, in the next view that it leads itself, and
    /// whoever follows it there hears no more.
    pub fn jump(&mut self, epoch: &Epoch, message: &Signed) -> Option<Draft> {
        let Message::Certificate(Certificate { subject, view, word: word @ Word::Propose { .. } }) =
            &message.message
        else {
            return None;
        };
        if message.meta.signer == self.me {
            return None;
        }
        let leaders = match subject {
            Subject::Election { .. } => {
                epoch.tellers(subject, &epoch.witnesses(subject, epoch.tier1()))
            }
            Subject::Plan { .. } => epoch.leaders(subject),
            _ => return None,
        };
        let turn = leaders.iter().position(|did| *did == self.me)? as u32;
        let of_turn = |next: &u32| next % leaders.len() as u32 == turn;
        let next = (view.saturating_add(1)..).find(of_turn)?;
        let jumped = self.jumped.entry(subject.clone()).or_default();
        if jumped.len() >= JUMPS_MAX || !jumped.insert(next) {
            return None;
        }
        self.hushed.insert(subject.clone());
        let ahead = Certificate { subject: subject.clone(), view: next, word: word.clone() };
        Some(self.say(self.others(), Message::Certificate(ahead), message.attached.clone()))
    }

    /// Whether it has said all that it wanted about a subject.
    pub fn is_hushed(&self, message: &Message) -> bool {
        matches!(message, Message::Certificate(word) if self.hushed.contains(&word.subject))
    }

    /// A client's order is seen for the first time: half of the others get another order with the
    /// same id, and may not have seen the client's.
    pub fn squat(&mut self, epoch: &Epoch, message: &Signed) -> Vec<Draft> {
        let all = message.attached.iter().map(|inner| &inner.message).chain([&message.message]);
        let order = all.into_iter().find_map(|message| match message {
            Message::Inject(inject) if !self.peers.contains(&inject.originator) => {
                Some(inject.clone())
            }
            _ => None,
        });
        let Some(mut order) = order.filter(|it| self.squatted.insert(it.task.task_id.clone()))
        else {
            return Vec::new();
        };
        order.task.description = "Something else".to_owned();
        let task = &order.task;
        let invite = Invite {
            task_id: task.task_id.clone(),
            task_digest: task.description.clone(),
            complexity_estimate: task.complexity,
            depth: task.depth,
            required_capabilities: Vec::new(),
            capacity: 3,
            chair: self.me,
        };
        let (originator, pub_key) = (self.me, None);
        let order = Message::Inject(Inject { originator, pub_key, ..order });
        let half: Vec<Did> = self.others().into_iter().step_by(2).collect();
        let leaders = epoch.tier1().iter().filter(|did| half.contains(did)).copied().collect();
        let invites = epoch.is_tier1(&self.me).then(|| Draft::Order {
            to: half,
            order: Box::new(order.clone()),
            message: Box::new(Message::Invite(invite)),
        });
        invites.into_iter().chain([self.say(leaders, order, Vec::new())]).collect()
    }

    /// A board on which nobody else sits, for about half of the tasks.
    pub fn sit_alone(&self, epoch: &Epoch, ready: &Ready) -> Option<Ready> {
        let task = ready.task.as_ref().filter(|task| task.epoch == epoch.number())?;
        let is_chosen = sha256(task.task_id.as_bytes()).as_bytes()[0].is_multiple_of(2);
        is_chosen.then(|| Ready {
            members: vec![self.me],
            adversarial_critic: None,
            senate: judge::senate_of(epoch, task, &[self.me]),
            ..ready.clone()
        })
    }

    /// Another one chairs a task from outside: so does this one, alone, and tells nobody.
    pub fn race(&mut self, epoch: &Epoch, message: &Signed) -> Option<Draft> {
        let Message::Invite(invite) = &message.message else {
            return None;
        };
        let order = message.attached.first()?;
        let Message::Inject(inject) = &order.message else {
            return None;
        };
        let may_chair = inject.task.epoch == epoch.number() && epoch.is_tier1(&self.me);
        if invite.chair == self.me || !may_chair || !self.raced.insert(invite.task_id.clone()) {
            return None;
        }
        let ready = Ready {
            task_id: invite.task_id.clone(),
            chair_id: self.me,
            adversarial_critic: None,
            senate: judge::senate_of(epoch, &inject.task, &[self.me]),
            task: Some(inject.task.clone()),
            members: vec![self.me],
        };
        Some(self.say(vec![self.me], Message::Ready(ready), vec![order.clone()]))
    }

    /// Whether this is the board that it has formed in order to be the first.
    pub fn is_race(&self, message: &Signed) -> bool {
        matches!(&message.message, Message::Ready(ready)
            if ready.chair_id == self.me && self.raced.contains(&ready.task_id))
    }

    /// Another's plan is known now: it becomes this one's, committed to and revealed at once.
    pub fn copy(&mut self, reveal: &Reveal) -> Vec<Draft> {
        if reveal.plan.proposer == self.me || self.copies.contains_key(&reveal.task_id) {
            return Vec::new();
        }
        let mut plan = reveal.plan.clone();
        plan.proposer = self.me;
        plan.plan_id.push_str("-too");
        self.copies.insert(reveal.task_id.clone(), plan);
        let said = [self.commit(&reveal.task_id), self.reveal(&reveal.task_id)];
        let say = |message| self.say(self.peers.to_vec(), message, Vec::new());
        said.into_iter().flatten().map(say).collect()
    }

    /// What it commits to; nothing before it knows another's plan.
    pub fn commit(&self, task_id: &str) -> Option<Message> {
        let plan = self.copies.get(task_id)?;
        let (task_id, proposer, epoch) = (task_id.to_owned(), self.me, plan.epoch);
        let plan_hash = json_sha256(plan).ok()?;
        Some(Message::Commit(Commit { task_id, proposer, epoch, plan_hash }))
    }

    pub fn reveal(&self, task_id: &str) -> Option<Message> {
        let plan = self.copies.get(task_id)?.clone();
        Some(Message::Reveal(Reveal { task_id: task_id.to_owned(), plan }))
    }

    /// The same again and again, and whatever else is at hand.
    pub fn fatten(
        &mut self,
        mut attached: Vec<Arc<Signed>>,
        beside: &[Arc<Signed>],
    ) -> Vec<Arc<Signed>> {
        self.fattened += 1;
        let is_too_fat = self.fattened.is_multiple_of(TOO_FAT_EVERY);
        let count = if is_too_fat { ATTACHED_MAX + 1 } else { attached.len() + FAT };
        attached.extend(beside.iter().cloned());
        let all = attached.clone();
        let missing = count.saturating_sub(attached.len());
        attached.extend(all.iter().cycle().take(missing).cloned());
        attached
    }
}

/// A whole of one piece that nobody has made; all its hashes fit.
pub fn invented(said: &SubmitResult) -> Option<SubmitResult> {
    let content = "others have done it".to_owned();
    let part = Artifact {
        task_id: format!("{}-st-1", said.task_id),
        content_cid: aggregate::cid(content.as_bytes()),
        merkle_hash: aggregate::content_root(content.as_bytes()),
        content_type: "text/plain".to_owned(),
        size_bytes: content.len() as u64,
        ..said.artifact.clone()
    };
    let piece = Piece {
        description: String::new(),
        artifact: part.clone(),
        content: Some(content),
        pieces: Vec::new(),
    };
    let text = aggregate::written(&[piece])?;
    let artifact = Artifact {
        content_cid: aggregate::cid(text.as_bytes()),
        merkle_hash: aggregate::root(&[Some(part.clone())]),
        content_type: aggregate::WHOLE_TYPE.to_owned(),
        size_bytes: part.size_bytes,
        ..said.artifact.clone()
    };
    let (content, parts) = (Some(text), vec![part]);
    Some(SubmitResult { artifact, content, parts, merkle_proof: Vec::new(), ..said.clone() })
}
