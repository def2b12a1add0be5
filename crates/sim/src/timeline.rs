//! What happened when, for a picture of a run.

use skep_swarm::node::{Ask, Event};
use skep_wire::swarm::{Message, Subject, plain_id};

/// Lines between lanes are drawn for so many messages at most.
const LINES_MAX: usize = 3_000;
/// And so many points in all lanes.
const POINTS_MAX: usize = 20_000;

/// What a node is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Upkeep,
    Election,
    Board,
    Propose,
    Critique,
    Vote,
    Certify,
    Work,
}

impl Phase {
    pub const ALL: [Phase; 8] = [
        Phase::Upkeep,
        Phase::Election,
        Phase::Board,
        Phase::Propose,
        Phase::Critique,
        Phase::Vote,
        Phase::Certify,
        Phase::Work,
    ];

    pub fn of(message: &Message) -> Phase {
        match message {
            Message::Handshake(_) | Message::Keepalive(_) => Phase::Upkeep,
            Message::Candidacy(_)
            | Message::ElectionVote(_)
            | Message::AssignTier(_)
            | Message::Succession(_) => Phase::Election,
            Message::Certificate(certificate) => match certificate.subject {
                Subject::Election { .. } | Subject::Succession { .. } => Phase::Election,
                Subject::Plan { .. } | Subject::Result { .. } => Phase::Certify,
            },
            Message::Inject(_)
            | Message::Invite(_)
            | Message::Accept(_)
            | Message::Decline(_)
            | Message::Ready(_)
            | Message::Dissolve(_) => Phase::Board,
            Message::Commit(_) | Message::Reveal(_) => Phase::Propose,
            Message::Critique(_) => Phase::Critique,
            Message::PlanVote(_) => Phase::Vote,
            Message::Assign(_) | Message::SubmitResult(_) | Message::Verification(_) => Phase::Work,
        }
    }

    fn of_ask(ask: &Ask) -> Phase {
        match ask {
            Ask::Plan { .. } => Phase::Propose,
            Ask::Critique { .. } => Phase::Critique,
            Ask::Vote { .. } => Phase::Vote,
            Ask::Execute { .. } | Ask::Check { .. } => Phase::Work,
            Ask::Compute { .. } => Phase::Upkeep,
        }
    }

    /// Whether it goes on without any task.
    pub fn is_upkeep(self) -> bool {
        matches!(self, Phase::Upkeep | Phase::Election)
    }

    pub fn name(self) -> &'static str {
        match self {
            Phase::Upkeep => "keepalive",
            Phase::Election => "election",
            Phase::Board => "board",
            Phase::Propose => "commit and reveal",
            Phase::Critique => "critique",
            Phase::Vote => "vote",
            Phase::Certify => "certificate",
            Phase::Work => "work",
        }
    }
}

/// A node's agent thinks or works.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    pub node: usize,
    pub from_ms: i64,
    pub until_ms: i64,
    pub phase: Phase,
}

/// A message from one lane to another.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub from: usize,
    pub to: usize,
    pub sent_ms: i64,
    /// Absent if it was lost.
    pub arrived_ms: Option<i64>,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub node: usize,
    pub at_ms: i64,
    pub phase: Phase,
}

/// Something that the first honest node has said about a whole task or epoch.
#[derive(Clone, Debug)]
pub struct Milestone {
    pub at_ms: i64,
    pub what: String,
}

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub bars: Vec<Bar>,
    pub lines: Vec<Line>,
    pub points: Vec<Point>,
    pub milestones: Vec<Milestone>,
    /// Node, from, until.
    pub downs: Vec<(usize, i64, Option<i64>)>,
    /// Clients' lanes come after those of the nodes.
    pub nodes: usize,
    pub liars: Vec<bool>,
    pub cuts: Vec<(i64, i64)>,
    pub end_ms: i64,
}

impl Timeline {
    pub(crate) fn think(&mut self, from_ms: i64, until_ms: i64, node: usize, ask: &Ask) {
        let phase = Phase::of_ask(ask);
        if self.bars.len() < POINTS_MAX && !phase.is_upkeep() {
            self.bars.push(Bar { node, from_ms, until_ms, phase });
        }
    }

    pub(crate) fn send(
        &mut self,
        sent_ms: i64,
        from: usize,
        to: usize,
        arrived_ms: Option<i64>,
        message: &Message,
    ) {
        let phase = Phase::of(message);
        if phase == Phase::Upkeep {
            return;
        }
        let repeats =
            |point: &Point| point.node == from && point.at_ms == sent_ms && point.phase == phase;
        if self.points.len() < POINTS_MAX && !self.points.last().is_some_and(repeats) {
            self.points.push(Point { node: from, at_ms: sent_ms, phase });
        }
        if self.lines.len() < LINES_MAX {
            self.lines.push(Line { from, to, sent_ms, arrived_ms, phase });
        }
    }

    pub(crate) fn down(&mut self, at_ms: i64, node: usize) {
        self.downs.push((node, at_ms, None));
    }

    pub(crate) fn up(&mut self, at_ms: i64, node: usize) {
        let open =
            self.downs.iter_mut().rev().find(|(which, _, until)| *which == node && until.is_none());
        if let Some((_, _, until)) = open {
            *until = Some(at_ms);
        }
    }

    pub(crate) fn event(&mut self, at_ms: i64, _node: usize, event: &Event) {
        let what = match event {
            Event::PlanDecided { task_id, .. } => format!("{} planned", plain_id(task_id)),
            Event::Ended { task_id, .. } => format!("{} ended", plain_id(task_id)),
            Event::Elected { epoch, .. } => format!("epoch {epoch} elected"),
            Event::Succession { epoch, .. } => format!("leader replaced in epoch {epoch}"),
            Event::Injected { .. }
            | Event::Executed { .. }
            | Event::Withdrawn { .. }
            | Event::Unsaid { .. }
            | Event::VoterCaught { .. } => return,
        };
        if self.milestones.iter().all(|known| known.what != what) {
            self.milestones.push(Milestone { at_ms, what });
        }
    }
}
