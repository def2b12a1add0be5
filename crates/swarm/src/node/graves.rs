//! What a node remembers of tasks whose messages it keeps no longer.
//!
//! An order stays good until its deadline. Were it forgotten before, a chair that lies could show
//! it once more, and the work would be planned, certified and done again.

use serde::{Deserialize, Serialize};
use skep_base::{Hash32, Timestamp, hash::json_sha256};
use skep_wire::swarm::{ErrorCode, Message, Task};

use super::{Node, Refusal, plus, refuse, tasks::FORGET_AFTER_MS};

#[cfg(test)]
mod tests;

/// Tasks that are remembered so. Beyond that no new ones are taken: an old one never makes room.
pub const GRAVES_MAX: usize = 10_000;
/// Those among them that stay for longer than [`LONG_MS`]: what is over soon has room beside them.
pub const GRAVES_LONG_MAX: usize = GRAVES_MAX / 2;
pub const LONG_MS: u64 = 86_400_000;

/// Tasks that are over and still answered for, and the bytes of their messages.
pub(super) const OVER_MAX: usize = 1_000;
const OVER_LEN_MAX: usize = 256 << 20;

/// A task that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grave {
    /// SHA-256 of what the order says, however often it was sealed.
    order: Hash32,
    /// From then on the order is refused for its age.
    pub(super) until: Timestamp,
}

fn order_hash(order: &Message) -> Option<Hash32> {
    match order {
        Message::Inject(inject) => json_sha256(inject).ok(),
        Message::Assign(assign) => json_sha256(assign).ok(),
        _ => None,
    }
}

impl Node {
    /// A task is over: whoever asks how it ended is told, while there is room for it.
    pub(super) fn lay_by(&mut self, id: &str) {
        if let Some(state) = self.tasks.get_mut(id) {
            state.over_len = state.messages_len();
            self.over.push_back(id.to_owned());
        }
    }

    /// Makes room among the tasks that are over: the oldest go, and where it is their bytes that
    /// are too many the longest, so that nobody's long one costs others the short ones.
    pub(super) fn bury_old(&mut self) {
        let len_of = |node: &Node, id: &String| node.tasks.get(id).map_or(0, |it| it.over_len);
        let mut len: usize = self.over.iter().map(|id| len_of(self, id)).sum();
        while self.over.len() > OVER_MAX || len > OVER_LEN_MAX {
            let longest = (0..self.over.len()).max_by_key(|at| len_of(self, &self.over[*at]));
            let at = longest.filter(|_| len > OVER_LEN_MAX).unwrap_or(0);
            let Some(id) = self.over.remove(at) else {
                return;
            };
            len -= len_of(self, &id);
            self.bury(&id);
        }
    }

    /// Drops a task's messages, and remembers that it was there.
    pub(super) fn bury(&mut self, id: &str) {
        self.jobs.remove(id);
        let Some(state) = self.tasks.remove(id) else {
            return;
        };
        let order = order_hash(&state.origin.message).unwrap_or(Hash32::ZERO);
        let until = plus(state.task.deadline, FORGET_AFTER_MS);
        self.graves.insert(id.to_owned(), Grave { order, until });
    }

    /// Refuses an order for a task that was here before.
    pub(super) fn check_unburied(&self, order: &Message) -> Result<(), Refusal> {
        let grave = order.task_id().and_then(|id| self.graves.get(id));
        match grave {
            None => Ok(()),
            Some(grave) if Some(grave.order) == order_hash(order) => {
                refuse(ErrorCode::TaskNotFound, "this task is over, and kept here no longer")
            }
            Some(_) => refuse(ErrorCode::DuplicateProposal, "another task has this id"),
        }
    }

    /// Whether what will be left of one more task has room.
    pub(super) fn check_graves(&mut self, now: Timestamp, task: &Task) -> Result<(), Refusal> {
        if self.graves.len() < GRAVES_LONG_MAX {
            return Ok(());
        }
        self.graves.retain(|_, grave| now < grave.until);
        let long = plus(now, LONG_MS);
        let is_long = plus(task.deadline, FORGET_AFTER_MS) > long;
        let of_long = self.graves.values().filter(|grave| grave.until > long).count();
        if self.graves.len() >= GRAVES_MAX || is_long && of_long >= GRAVES_LONG_MAX {
            let reason = "too many tasks were here lately; one with a near deadline may have room";
            return refuse(ErrorCode::InvalidRequest, reason);
        }
        Ok(())
    }
}
