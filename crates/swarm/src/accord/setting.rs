//! Who takes part in an accord, who leads it, and how long its views last.

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::Subject;

use super::plus;
use crate::draw::quorum;

/// Who takes part, and how patient they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub subject: Subject,
    /// In the order of their DIDs.
    pub witnesses: Vec<Did>,
    /// Who leads view 0, 1, 2, …, and again from the start.
    pub leaders: Vec<Did>,
    /// Who leads every other view when all of them have had two turns: they only bring it to an
    /// end.
    #[serde(default)]
    pub reserves: Vec<Did>,
    /// Whether in view 0 each of them may propose: the first one heard counts.
    pub anyone_first: bool,
    /// How long a view lasts while there is time.
    pub slow_ms: u64,
    /// And when the deadline has passed, or where there is nothing to wait for.
    pub quick_ms: u64,
    pub deadline: Timestamp,
    pub resend_ms: u64,
}

impl Setting {
    pub(super) fn quorum(&self) -> usize {
        quorum(self.witnesses.len())
    }

    /// So many that one of them at least is honest.
    pub(crate) fn more_than_lie(&self) -> usize {
        self.witnesses.len() - self.quorum() + 1
    }

    pub(super) fn is_witness(&self, did: &Did) -> bool {
        self.witnesses.binary_search(did).is_ok()
    }

    pub(super) fn leader(&self, view: u32) -> Option<Did> {
        const ROUNDS: usize = 2;
        let in_turn = |all: &[Did], turn: usize| -> Option<Did> {
            all.get(turn.checked_rem(all.len())?).copied()
        };
        let view = usize::try_from(view).ok()?;
        match view.checked_sub(ROUNDS * self.leaders.len()) {
            Some(late) if !self.reserves.is_empty() => match late % 2 {
                0 => in_turn(&self.reserves, late / 2),
                _ => in_turn(&self.leaders, late / 2),
            },
            _ => in_turn(&self.leaders, view),
        }
    }

    /// Whether somebody leads only because all others have failed.
    pub fn is_reserve(&self, did: &Did) -> bool {
        self.reserves.contains(did)
    }

    pub(super) fn may_lead(&self, view: u32, did: &Did) -> bool {
        match view {
            0 if self.anyone_first => self.leaders.contains(did),
            _ => self.leader(view) == Some(*did),
        }
    }

    pub(super) fn view_end(&self, now: Timestamp, view: u32) -> Timestamp {
        /// Views get longer, so that slow ones meet in the end.
        const GROWTH_MAX: u32 = 8;
        let quick = self.quick_ms.saturating_mul(u64::from(1 + view.min(GROWTH_MAX)));
        let soon = plus(now, quick);
        plus(now, self.slow_ms).min(self.deadline).max(soon)
    }
}
