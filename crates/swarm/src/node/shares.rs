//! How much of a node's memory each agent's tasks may take.
//!
//! Whoever gives orders costs nothing to invent, so the agents that bring them are counted, too:
//! members, of whom there are only so many.

use skep_base::{Did, Timestamp};
use skep_wire::swarm::ErrorCode;

use super::{Node, Refusal, plus, refuse, tasks::TaskState};

/// One originator injects so many tasks in [`INJECT_WINDOW_MS`].
pub const INJECTIONS_MAX: usize = 10;
pub const INJECT_WINDOW_MS: u64 = 60_000;
/// And one coordinator so many parts.
pub const PARTS_MAX: usize = 100;
/// Parts that are divided further and open at a time, of those that one agent speaks for.
pub const PARTS_OPEN_MAX: usize = 30;
/// Originators whose injections are counted.
const ORIGINATORS_MAX: usize = 10_000;
/// Tasks from outside that a node has taken and that are open; others hear of no more from it.
/// Those whose originator wants to see the plan, and those that it passes on, are counted apart:
/// neither keeps it from its work.
pub const TASKS_MAX: usize = 50;
/// All that one agent may have brought: tasks that are its own or passed on, with an approval or
/// without, and parts, for which nobody is asked.
pub(super) const BROUGHT_MAX: usize = 4 * TASKS_MAX + 2 * PARTS_OPEN_MAX;

/// Whether whoever brings an order answers for it: it was given the order, or chairs a board. The
/// others only speak about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaks {
    Itself,
    ForOthers,
}

/// The places that a task is counted among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) by: Did,
    pub(super) is_root: bool,
    pub(super) is_forwarded: bool,
    /// Its originator wants to see the plan: whatever it says of it and when, the place stays the
    /// same, or others would have it once more.
    pub(super) needs_approval: bool,
}

impl Share {
    fn of(state: &TaskState) -> Share {
        Share {
            by: state.by,
            is_root: state.is_root(),
            is_forwarded: state.is_forwarded,
            needs_approval: state.task.needs_approval,
        }
    }

    fn open_max(&self) -> usize {
        if self.is_root { TASKS_MAX } else { PARTS_OPEN_MAX }
    }
}

impl Node {
    fn has_place(&self, share: &Share) -> bool {
        let open = self.tasks.values().filter(|state| state.ended.is_none());
        open.filter(|state| Share::of(state) == *share).count() < share.open_max()
    }

    /// Nobody fills this node's memory with orders: neither who gives them nor who brings them.
    pub(super) fn count_task(
        &mut self,
        now: Timestamp,
        originator: &Did,
        share: &Share,
    ) -> Result<(), Refusal> {
        if !self.has_place(share) {
            let reason = format!("{} tasks by one agent are open; try another", share.open_max());
            return refuse(ErrorCode::InvalidRequest, reason);
        }
        if self.injections.len() >= ORIGINATORS_MAX {
            self.injections
                .retain(|_, times| times.iter().any(|at| now < plus(*at, INJECT_WINDOW_MS)));
        }
        let max = if share.is_root { INJECTIONS_MAX } else { PARTS_MAX };
        let times = self.injections.entry(*originator).or_default();
        times.retain(|at| now < plus(*at, INJECT_WINDOW_MS));
        if times.len() >= max {
            let reason = format!("at most {max} tasks a minute by one agent");
            return refuse(ErrorCode::InvalidRequest, reason);
        }
        times.push(now);
        Ok(())
    }

    /// Somebody answers for a task that was only spoken of until now: it is counted there.
    pub(super) fn charge_chair(&mut self, id: &str, chair: Did) {
        let Some(state) = self.tasks.get(id).filter(|state| state.is_forwarded) else {
            return;
        };
        let share = Share { by: chair, is_forwarded: false, ..Share::of(state) };
        if self.has_place(&share)
            && let Some(state) = self.tasks.get_mut(id)
        {
            (state.by, state.is_forwarded) = (chair, false);
        }
    }
}
