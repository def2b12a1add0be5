//! How a task's parts came about: who was given them, and what was said of the work.

use serde::Serialize;
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{Artifact, Ended, Message, Place, Verification, is_named_by};

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

/// What the messages say about the parts of a task; `may_order` are those who could coordinate it.
pub(super) fn reports(
    messages: &[Kept],
    task_id: &str,
    ended: &Ended,
    may_order: impl Fn(&Did) -> bool,
) -> Vec<PartReport> {
    let mut tries: Vec<(u32, Try)> = Vec::new();
    for kept in messages {
        let (Message::Assign(order), by) = (&kept.message, kept.meta.signer) else {
            continue;
        };
        let (id, index) = (&order.task.task_id, order.task.index);
        let is_order = order.parent_task_id == task_id
            && judge::is_part(task_id, index, id)
            && is_named_by(id, &by)
            && may_order(&by);
        // Orders are said again while there is no answer.
        if is_order && tries.iter().all(|(_, known)| known.task_id != *id) {
            let (coordinator, assignee) = (by, order.assignee);
            let verdicts = verdicts(messages, id, &assignee);
            tries.push((index, Try { task_id: id.clone(), coordinator, assignee, verdicts }));
        }
    }
    (0..)
        .zip(&ended.parts)
        .map(|(index, part)| PartReport {
            index,
            producer: part.as_ref().map(|artifact| artifact.producer),
            place: part.as_ref().and_then(|_| aggregate::place(&ended.parts, index.into())),
            tries: tries.iter().filter(|(of, _)| *of == index).map(|(_, it)| it.clone()).collect(),
        })
        .collect()
}

/// What the coordinator whose order it was has said of an agent's results, by its own clock.
fn verdicts(messages: &[Kept], part_id: &str, agent: &Did) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = messages
        .iter()
        .filter(|kept| is_named_by(part_id, &kept.meta.signer))
        .filter_map(|kept| match &kept.message {
            Message::Verification(Verification {
                task_id,
                agent_id,
                accepted,
                reason,
                content_cid,
                ..
            }) if task_id == part_id && agent_id == agent => Some(Verdict {
                at: kept.meta.sent_at,
                accepted: *accepted,
                reason: reason.clone(),
                content_cid: content_cid.clone(),
            }),
            _ => None,
        })
        .collect();
    verdicts.sort_by_key(|verdict| verdict.at);
    verdicts
}

/// The first part that is certified although its coordinator has refused it last.
pub(super) fn refused(messages: &[Kept], ended: &Ended) -> Option<usize> {
    let is_refused = |artifact: &Artifact| {
        let said = verdicts(messages, &artifact.task_id, &artifact.producer);
        let mut about = said.iter().rev();
        about
            .find(|verdict| verdict.content_cid.as_ref() == Some(&artifact.content_cid))
            .is_some_and(|verdict| !verdict.accepted)
    };
    ended.parts.iter().position(|part| part.as_ref().is_some_and(is_refused))
}
