//! How a task's parts came about: who was given them, and what was said of the work.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{Artifact, Assign, Ended, Message, Place, Verification, is_named_by};

use crate::{aggregate, judge, kept::Kept};

/// One part of a task that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReport {
    pub index: u32,
    /// Who has made what is certified.
    pub producer: Option<Did>,
    /// Where its artifact is under the task's root (decision 47).
    pub place: Option<Place>,
    /// Each order of it, in their order.
    pub tries: Vec<Try>,
}

/// One order, and what its coordinator has said of the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Try {
    pub task_id: String,
    pub coordinator: Did,
    pub assignee: Did,
    pub verdicts: Vec<Verdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub at: Timestamp,
    pub accepted: bool,
    pub reason: Option<String>,
    pub content_cid: Option<String>,
}

/// A verdict, and the message that it came in.
type Word<'a> = (&'a Kept, &'a Verification);

/// Orders by the task that they are parts of, and verdicts by the part and who has done it: each is
/// looked at once, however many a transcript has.
#[derive(Default)]
pub(super) struct Words<'a> {
    orders: BTreeMap<&'a str, Vec<(Did, &'a Assign)>>,
    verdicts: BTreeMap<&'a str, BTreeMap<Did, Vec<Word<'a>>>>,
}

impl<'a> Words<'a> {
    pub(super) fn of(messages: &'a [Kept]) -> Words<'a> {
        let mut words = Words::default();
        for kept in messages {
            match &kept.message {
                Message::Assign(order) => {
                    let orders = words.orders.entry(&order.parent_task_id).or_default();
                    orders.push((kept.meta.signer, order));
                }
                // Only the coordinator whose order it was has anything to say.
                Message::Verification(word) if is_named_by(&word.task_id, &kept.meta.signer) => {
                    let of_part = words.verdicts.entry(&word.task_id).or_default();
                    of_part.entry(word.agent_id).or_default().push((kept, word));
                }
                _ => {}
            }
        }
        // By their coordinators' own clocks.
        let all = words.verdicts.values_mut().flat_map(BTreeMap::values_mut);
        all.for_each(|said| said.sort_by_key(|(kept, _)| kept.meta.sent_at));
        words
    }

    /// What is said about the parts of a task; `may_order` are those who could coordinate it.
    pub(super) fn reports(
        &self,
        task_id: &str,
        ended: &Ended,
        may_order: impl Fn(&Did) -> bool,
    ) -> Vec<PartReport> {
        let mut tries: BTreeMap<u32, Vec<Try>> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for (by, order) in self.orders.get(task_id).into_iter().flatten() {
            let (id, index) = (&order.task.task_id, order.task.index);
            let is_order =
                judge::is_part(task_id, index, id) && is_named_by(id, by) && may_order(by);
            // Orders are said again while there is no answer.
            if is_order && known.insert(id) {
                let (coordinator, assignee) = (*by, order.assignee);
                let said = self.about(id, &assignee).iter();
                let verdicts = said.map(|(kept, word)| Verdict::new(kept, word)).collect();
                let one = Try { task_id: id.clone(), coordinator, assignee, verdicts };
                tries.entry(index).or_default().push(one);
            }
        }
        (0..)
            .zip(&ended.parts)
            .map(|(index, part)| PartReport {
                index,
                producer: part.as_ref().map(|artifact| artifact.producer),
                place: part.as_ref().and_then(|_| aggregate::place(&ended.parts, index.into())),
                tries: tries.remove(&index).unwrap_or_default(),
            })
            .collect()
    }

    /// What the coordinator whose order it was has said of an agent's results.
    fn about(&self, part_id: &str, agent: &Did) -> &[Word<'a>] {
        let of_part = self.verdicts.get(part_id);
        of_part.and_then(|by_agent| by_agent.get(agent)).map_or(&[], Vec::as_slice)
    }

    /// Who has refused what it had accepted, and what is certified. That is no reason to doubt the
    /// result: whoever has coordinated could say so at any time.
    pub(super) fn caught(&self, ended: &Ended) -> BTreeSet<Did> {
        let recants = |artifact: &Artifact| {
            let said = self.about(&artifact.task_id, &artifact.producer).iter();
            let of_it =
                said.filter(|(_, word)| word.content_cid.as_ref() == Some(&artifact.content_cid));
            let after = of_it.skip_while(|(_, word)| !word.accepted);
            after.filter(|(_, word)| !word.accepted).map(|(kept, _)| kept.meta.signer).next()
        };
        ended.parts.iter().flatten().filter_map(recants).collect()
    }
}

impl Verdict {
    fn new(kept: &Kept, word: &Verification) -> Verdict {
        Verdict {
            at: kept.meta.sent_at,
            accepted: word.accepted,
            reason: word.reason.clone(),
            content_cid: word.content_cid.clone(),
        }
    }
}
