//! What was said about a task, and the boards that sit for it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::Plan;

use crate::kept::Kept;

/// Everything that was said about one task, and the boards that sit for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(super) forming: Option<Forming>,
    pub(super) boards: BTreeMap<Did, Board>,
    pub(super) said: BTreeMap<Did, Said>,
    pub(super) plan: Option<Plan>,
    pub(super) asked: BTreeSet<Question>,
    /// What the agent says a second time is not said: it may be something else.
    #[serde(default)]
    pub(super) answered: BTreeSet<Question>,
}

/// What one agent has said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) commits: Vec<Kept>,
    pub(super) reveals: Vec<Kept>,
    pub(super) critiques: Vec<Kept>,
    pub(super) ballots: Vec<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Question {
    Plan,
    Critique,
    Vote,
}

impl Question {
    /// When it is asked.
    pub(super) fn phase(self) -> Phase {
        match self {
            Question::Plan => Phase::Commit,
            Question::Critique => Phase::Critique,
            Question::Vote => Phase::Vote,
        }
    }
}

/// A board that its chair, this node, puts together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Forming {
    pub(super) invited: Vec<Did>,
    pub(super) answers: BTreeMap<Did, Option<Kept>>,
    pub(super) until: Timestamp,
    pub(super) resend_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Phase {
    Commit,
    Reveal,
    Critique,
    Vote,
    Over,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Board {
    pub(super) ready: Kept,
    /// The order and the answers to the invitation.
    pub(super) ground: Vec<Kept>,
    pub(super) members: Vec<Did>,
    pub(super) voters: Vec<Did>,
    pub(super) critic: Option<Did>,
    pub(super) phase: Phase,
    pub(super) until: Timestamp,
    /// Before this a ballot is not late.
    pub(super) votes_until: Timestamp,
    pub(super) resend_at: Timestamp,
    pub(super) extended: bool,
}

impl Table {
    pub(super) fn is_chair(&self, did: &Did) -> bool {
        self.forming.is_some() || self.boards.contains_key(did)
    }

    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        let forming = self.forming.as_ref().map(|forming| forming.until.min(forming.resend_at));
        let sitting = self.boards.values().filter(|board| board.phase != Phase::Over);
        let boards = sitting.map(|board| board.until.min(board.resend_at)).min();
        forming.into_iter().chain(boards).min()
    }

    /// The bytes of the messages that are kept here.
    pub(super) fn len(&self) -> usize {
        let boards = self.boards.values();
        let boards = boards.flat_map(|board| board.ground.iter().chain([&board.ready]));
        let said = self.said.values().flat_map(Said::all);
        boards.chain(said).map(|kept| kept.wire_len()).sum()
    }

    /// Whether the agent was asked, and has not answered.
    pub(super) fn waits_for(&self, question: Question) -> bool {
        let is_answered = match question {
            Question::Plan => self.plan.is_some(),
            Question::Critique | Question::Vote => self.answered.contains(&question),
        };
        self.asked.contains(&question) && !is_answered
    }

    pub(super) fn has(&self, did: &Did, phase: Phase) -> bool {
        self.said.get(did).is_some_and(|said| !said.of(phase).is_empty())
    }
}

impl Said {
    fn all(&self) -> impl Iterator<Item = &Kept> {
        let talk = self.critiques.iter().chain(&self.ballots);
        self.commits.iter().chain(&self.reveals).chain(talk)
    }

    pub(super) fn of(&self, phase: Phase) -> &[Kept] {
        match phase {
            Phase::Commit => &self.commits,
            Phase::Reveal => &self.reveals,
            Phase::Critique => &self.critiques,
            Phase::Vote => &self.ballots,
            Phase::Over => &[],
        }
    }

    pub(super) fn of_mut(&mut self, phase: Phase) -> &mut Vec<Kept> {
        match phase {
            Phase::Commit => &mut self.commits,
            Phase::Reveal => &mut self.reveals,
            Phase::Critique => &mut self.critiques,
            Phase::Vote | Phase::Over => &mut self.ballots,
        }
    }
}
