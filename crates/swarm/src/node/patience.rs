//! What a witness waits for before it signs a plan.
//!
//! In the first view each leader may propose, and an outcome can follow from very little: one that
//! sits alone, or leaves out what others have said, would always be the first. For a while a
//! witness signs only what as many have had a part in as could have; then whatever follows. But in
//! the first views what it has itself said, or voted for, must be in it however late it is: a chair
//! that leaves something out gains nothing by waiting.

use std::collections::BTreeSet;

use skep_base::{Did, Timestamp};
use skep_wire::swarm::{Chosen, Message, Outcome, Value, Word};

use super::{
    Node, plus,
    table::{Phase, Table},
};
use crate::{
    assignment,
    draw::quorum,
    epoch::Epoch,
    genesis::Timing,
    judge::{self, Deliberation},
    kept::Kept,
};

/// In so many views at most a record must have a witness's own ballot, and the plans that it ranks.
/// Whoever reveals its plan to some and not to the chair delays a task by no more than these.
const FULL_VIEWS_MAX: usize = 2;
/// A leader repeats its proposal after at most so many times the first pause.
const PAUSES_MAX: u64 = 8;

/// Until when a witness that hears of a task now waits: a proposal that comes too early is said
/// once more after that, and can still become final before the view or the task is over.
pub(super) fn patient_until(timing: &Timing, now: Timestamp, deadline: Timestamp) -> Timestamp {
    let rest_ms = PAUSES_MAX * timing.resend_ms + timing.view_ms;
    let view_rest_ms = rest_ms.max(2 * timing.vote_ms + timing.view_ms);
    let waits_ms = timing.planning_ms().saturating_sub(view_rest_ms);
    plus(now, waits_ms).min(deadline.minus(std::time::Duration::from_millis(rest_ms)))
}

/// What a witness knows when it judges what somebody proposes.
pub(super) struct Onlooker {
    me: Did,
    now: Timestamp,
    /// Leaders that could sit on a board.
    present: BTreeSet<Did>,
    /// Whether it hopes for a fuller record.
    is_patient: bool,
    /// Whether nothing that it has said may be left out.
    wants_all: bool,
}

impl Node {
    /// Who this node is when it judges a proposal about a task.
    pub(super) fn onlooker(
        &self,
        now: Timestamp,
        epoch: &Epoch,
        id: &str,
        word: &Kept,
    ) -> Onlooker {
        let proposed = match &word.message {
            Message::Certificate(said) if matches!(said.word, Word::Propose { .. }) => {
                usize::try_from(said.view).ok()
            }
            _ => None,
        };
        let state = self.tasks.get(id);
        let patient_until = state.and_then(|state| state.patient_until);
        let is_patient = proposed == Some(0) && patient_until.is_some_and(|until| now < until);
        let full_views = state.map_or(0, |state| state.plan.setting().more_than_lie());
        let wants_all = proposed.is_some_and(|view| view < full_views.min(FULL_VIEWS_MAX));
        let mut present = BTreeSet::new();
        if is_patient {
            // In a large swarm it hears its neighbours only.
            let neighbours = epoch.neighbours(&self.me);
            let is_gone = |did: &Did| neighbours.contains(did) && self.misses(now, epoch, did);
            present = self.council_of(epoch);
            present.retain(|did| !is_gone(did));
        }
        Onlooker { me: self.me, now, present, is_patient, wants_all }
    }
}

impl Onlooker {
    /// Whether more could have had a part in what was proposed, and there is time for it.
    pub(super) fn is_early(
        &self,
        table: &Table,
        epoch: &Epoch,
        value: &Value,
        record: &[Kept],
    ) -> bool {
        let Ok(found) = judge::deliberation(epoch, record) else {
            return false;
        };
        let is_none = matches!(value.outcome, Outcome::Plan(Chosen::NoPlan));
        if self.is_patient && (is_none || self.is_thin(epoch, &found)) {
            return true;
        }
        // A chair that leaves ballots or plans out finds too few witnesses.
        let board = table.boards.get(&found.ready.chair_id);
        let has_voted = table.has(&self.me, Phase::Vote);
        let has_part = match board.filter(|board| board.voters.contains(&self.me)) {
            Some(board) => {
                let has_plans = board.members.iter().any(|did| table.has(did, Phase::Reveal));
                let may_vote = self.now < board.votes_until && has_plans;
                may_vote || self.wants_all && has_voted
            }
            // Its chair has never told this voter of the board.
            None => self.is_patient && found.voters.contains(&self.me),
        };
        has_part && (!has_ballot_of(&self.me, record) || table.misses_plan(&self.me, &found))
    }

    /// Whether fewer sit on a board, or have voted, than could be expected.
    fn is_thin(&self, epoch: &Epoch, found: &Deliberation<'_>) -> bool {
        let below = epoch.layout().children_of(&found.ready.chair_id).len();
        let seats = 1 + assignment::capacity(below + epoch.tier1().len());
        let seated = found.board.iter().filter(|did| self.present.contains(did)).count();
        let voted = found.ballots.len() + found.caught.len();
        seated < quorum(self.present.len()).min(seats) || voted < quorum(found.voters.len())
    }
}

fn has_ballot_of(voter: &Did, record: &[Kept]) -> bool {
    let is_own =
        |kept: &Kept| matches!(kept.message, Message::PlanVote(_)) && kept.meta.signer == *voter;
    record.iter().any(is_own)
}

impl Table {
    /// Whether a plan that this voter has ranked, committed to and revealed by a member of the
    /// board, is not among those that count: rankings of plans that are left out are skipped.
    fn misses_plan(&self, voter: &Did, found: &Deliberation<'_>) -> bool {
        let ballot = self.said.get(voter).and_then(|said| said.of(Phase::Vote).first());
        let Some(Message::PlanVote(vote)) = ballot.map(|kept| &kept.message) else {
            return false;
        };
        let is_ranked = |kept: &Kept| match &kept.message {
            Message::Reveal(reveal) => {
                let id = &reveal.plan.plan_id;
                vote.rankings.contains(id) && !found.plans.contains_key(id)
            }
            _ => false,
        };
        found.board.iter().filter(|did| !found.caught.contains(did)).any(|did| {
            self.has(did, Phase::Commit)
                && self.said.get(did).is_some_and(|said| said.reveals.iter().any(is_ranked))
        })
    }
}
