//! Those outside the swarm who want something done.

use std::{collections::BTreeSet, sync::Arc};

use skep_base::{Did, Timestamp};
use skep_swarm::{
    draw::{WITNESSES_MAX, quorum},
    epoch::Epoch,
};
use skep_wire::swarm::{
    Certificate, Chosen, Dissolve, Ended, Inject, Message, Outcome, Response, Share, Signed, Step,
    Subject, Task, TaskStatus, Verification, Word, named,
};

use crate::seal::Key;

/// A client that hears nothing for so long tries another member of Tier 1.
pub const PATIENCE_MS: i64 = 60_000;

/// For so long it waits for the first answer.
pub const ANSWER_MS: i64 = 10_000;

/// What a client does beside waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Result,
    /// Wants to see the plan first, and approves of it.
    Approve,
    /// Wants to see the plan first, and does not like it.
    Reject,
    /// Takes the task back so long after it was injected.
    Cancel {
        after_ms: i64,
    },
}

/// How a task ended, as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    Ended(Ended),
    /// There was no plan to follow.
    Unplanned(Chosen),
}

pub struct Client {
    pub key: Key,
    pub task: Task,
    pub wish: Wish,
    pub injected_ms: i64,
    pub heard_ms: Option<i64>,
    pub planned_ms: Option<i64>,
    pub ended_ms: Option<i64>,
    pub known: Option<Known>,
    pub cancelled: bool,
    /// The same order each time, signed anew once its epoch is over.
    pub inject: Option<Arc<Signed>>,
    /// The plan that it approves of or not, once it knows one.
    verdict: Option<Message>,
    /// How often it was sent on since its last turn.
    pub refusals: usize,
    asked: usize,
    /// The members when it came: those answer for its task.
    pub members: Option<Arc<Epoch>>,
}

/// What a client wants from the swarm.
#[derive(Clone, Debug)]
pub struct Order {
    pub number: usize,
    pub inject_ms: i64,
    pub deadline: Timestamp,
    pub created_at: Timestamp,
    pub complexity: Share,
    pub wish: Wish,
}

impl Client {
    pub fn new(key: Key, order: &Order, first: usize) -> Client {
        let needs_approval = matches!(order.wish, Wish::Approve | Wish::Reject);
        let task = Task {
            task_id: named(&format!("task-{}", order.number), &key.did),
            parent_task_id: None,
            epoch: 1,
            status: TaskStatus::Pending,
            description: format!("Simulated task {}", order.number),
            assigned_to: None,
            tier_level: 1,
            subtasks: Vec::new(),
            created_at: order.created_at,
            deadline: order.deadline,
            capabilities_required: Vec::new(),
            depth: 0,
            index: 0,
            complexity: order.complexity,
            needs_approval,
        };
        Client {
            key,
            task,
            wish: order.wish,
            injected_ms: order.inject_ms,
            heard_ms: None,
            planned_ms: None,
            ended_ms: None,
            known: None,
            cancelled: false,
            inject: None,
            verdict: None,
            refusals: 0,
            asked: first,
            members: None,
        }
    }

    pub fn has_heard(&self, now_ms: i64) -> bool {
        self.heard_ms.is_some_and(|heard| now_ms < heard + PATIENCE_MS)
    }

    /// The order, for those who lead in an epoch.
    pub fn injection(&self, epoch: u64) -> Message {
        let (task, pub_key) = (Task { epoch, ..self.task.clone() }, Some(self.key.public));
        let key_chain = Vec::new();
        Message::Inject(Inject { task, originator: self.key.did, pub_key, key_chain })
    }

    pub fn cancellation(&self) -> Message {
        let reason = Some("no longer needed".to_owned());
        Message::Dissolve(Dissolve { task_id: self.task.task_id.clone(), reason })
    }

    /// Whom to ask next.
    pub fn next_member(&mut self, tier1: &[Did]) -> Option<Did> {
        self.asked = self.asked.wrapping_add(1);
        tier1.get(self.asked.checked_rem(tier1.len())?).copied()
    }

    /// Whether it asks the next member at once, since this one does not take the task. Once for
    /// each member and turn: nobody keeps it running in circles.
    pub fn is_sent_on(&mut self, now_ms: i64, response: &Response, members: usize) -> bool {
        let is_ours = self.inject.as_ref().is_some_and(|inject| inject.id == response.id);
        let is_taken = matches!(&response.outcome, Ok(reply) if reply.accepted());
        if is_ours && is_taken {
            self.heard_ms = Some(now_ms);
        }
        let goes_on = is_ours && !is_taken && self.known.is_none() && self.refusals + 1 < members;
        self.refusals += usize::from(goes_on);
        goes_on
    }

    /// What it repeats while the task goes on, beside the injection.
    pub fn verdict(&self) -> Option<&Message> {
        self.verdict.as_ref()
    }

    /// Takes what the swarm says; answers whether there is a new verdict to send.
    pub fn hear(&mut self, now_ms: i64, message: &Signed) -> bool {
        if message.message.task_id() != Some(&self.task.task_id) {
            return false;
        }
        self.heard_ms = Some(now_ms);
        let Message::Certificate(certificate) = &message.message else {
            return false;
        };
        let Word::Bundle { step: Step::Commit, value } = &certificate.word else {
            return false;
        };
        if !self.is_final(message, certificate) || self.known.is_some() {
            return false;
        }
        match (&certificate.subject, &value.outcome) {
            (Subject::Result { .. }, Outcome::Result(ended)) => {
                self.known = Some(Known::Ended(ended.clone()));
                self.ended_ms = Some(now_ms);
                false
            }
            (Subject::Plan { .. }, Outcome::Plan(Chosen::Plan { plan_id, .. })) => {
                let is_new = self.planned_ms.is_none();
                self.planned_ms.get_or_insert(now_ms);
                let approves = match self.wish {
                    Wish::Approve => true,
                    Wish::Reject => false,
                    Wish::Result | Wish::Cancel { .. } => return false,
                };
                self.verdict = Some(self.judge(plan_id.clone(), approves));
                is_new
            }
            (Subject::Plan { .. }, Outcome::Plan(chosen)) => {
                self.known = Some(Known::Unplanned(chosen.clone()));
                self.ended_ms = Some(now_ms);
                false
            }
            _ => false,
        }
    }

    fn judge(&self, plan_id: String, accepted: bool) -> Message {
        Message::Verification(Verification {
            task_id: self.task.task_id.clone(),
            agent_id: self.key.did,
            accepted,
            reason: (!accepted).then(|| "another way, please".to_owned()),
            plan_id: Some(plan_id),
            content_cid: None,
        })
    }

    /// A client believes what enough members have signed, and nobody's word alone.
    fn is_final(&self, message: &Signed, certificate: &Certificate) -> bool {
        let Word::Bundle { step, value } = &certificate.word else {
            return false;
        };
        let Some(epoch) = &self.members else {
            return false;
        };
        let word = Word::Sign { step: *step, hash: value.hash() };
        let signers: BTreeSet<Did> = message
            .attached
            .iter()
            .filter(|inner| {
                matches!(&inner.message, Message::Certificate(signed)
                    if signed.subject == certificate.subject
                        && signed.view == certificate.view
                        && signed.word == word)
            })
            .map(|inner| inner.meta.signer)
            .filter(|signer| epoch.contains(signer))
            .collect();
        signers.len() >= quorum(epoch.members().len().min(WITNESSES_MAX))
    }
}
