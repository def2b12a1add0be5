//! How a board deliberates: commit, reveal, criticise, vote (ASIP 6–8, 19).

use std::collections::{BTreeMap, BTreeSet};

use skep_base::{Did, Timestamp, hash::json_sha256};
use skep_wire::swarm::{
    Commit, CriticScore, Critique, ErrorCode, Message, Outcome, Plan, PlanVote, Reveal, named,
};

use super::{
    Ask, Node, Output, Refusal, perform, plus, refuse, send,
    table::{Board, Phase, Question},
    tasks::TaskState,
};
use crate::{
    draw::quorum,
    judge,
    kept::{Kept, attach},
};

/// What one signer may say in one phase: the second, different word is evidence against it.
const PER_SIGNER_MAX: usize = 2;

impl Node {
    /// All who vote for a task on boards that this node sits on.
    pub(super) fn audience(&self, id: &str) -> Vec<Did> {
        let boards = self.tasks.get(id).into_iter().flat_map(|state| state.table.boards.values());
        let all: BTreeSet<Did> = boards.flat_map(|board| board.voters.iter().copied()).collect();
        all.into_iter().collect()
    }

    /// The agent's plan: its hash goes out, the plan stays here.
    pub(super) fn propose_plan(
        &mut self,
        now: Timestamp,
        id: &str,
        mut plan: Plan,
        out: &mut Vec<Output>,
    ) {
        let me = self.me;
        let Some(state) = self.tasks.get(id).filter(|state| state.table.plan.is_none()) else {
            return;
        };
        (plan.proposer, plan.task_id, plan.epoch) = (me, id.to_owned(), state.task.epoch);
        // Nobody else can take it.
        plan.plan_id = named(&plan.plan_id, &me);
        let reveal = Reveal { task_id: id.to_owned(), plan };
        if self.can_say(id, &Message::Reveal(reveal.clone()), out).is_err() {
            return;
        }
        if let Some(state) = self.tasks.get_mut(id) {
            state.table.plan = Some(reveal.plan);
        }
        self.send_own(id, Phase::Commit, out);
        self.run_boards(now, id, out);
    }

    /// Sends what this node says in a phase, again or for the first time.
    pub(super) fn send_own(&self, id: &str, phase: Phase, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let said = state.table.said.get(&self.me).and_then(|said| said.of(phase).first());
        let message = match (said, &state.table.plan, phase) {
            (Some(kept), ..) => kept.message.clone(),
            (None, Some(plan), Phase::Commit) => {
                let Ok(plan_hash) = json_sha256(plan) else {
                    return;
                };
                let epoch = state.task.epoch;
                let task_id = id.to_owned();
                Message::Commit(Commit { task_id, proposer: self.me, epoch, plan_hash })
            }
            (None, Some(plan), Phase::Reveal) => {
                Message::Reveal(Reveal { task_id: id.to_owned(), plan: plan.clone() })
            }
            _ => return,
        };
        out.push(send(self.audience(id), message));
    }

    pub(super) fn send_critique(
        &mut self,
        id: &str,
        plan_scores: BTreeMap<String, CriticScore>,
        content: String,
        out: &mut Vec<Output>,
    ) {
        let (task_id, voter_id) = (id.to_owned(), self.me);
        let critique = Critique { task_id, voter_id, round: 2, plan_scores, content };
        self.answer_once(id, Question::Critique, Message::Critique(critique), out);
    }

    pub(super) fn send_ballot(
        &mut self,
        id: &str,
        rankings: Vec<String>,
        critic_scores: BTreeMap<String, CriticScore>,
        out: &mut Vec<Output>,
    ) {
        let Some(epoch) = self.tasks.get(id).map(|state| state.task.epoch) else {
            return;
        };
        let (task_id, voter) = (id.to_owned(), self.me);
        let vote = PlanVote { task_id, epoch, voter, rankings, critic_scores };
        self.answer_once(id, Question::Vote, Message::PlanVote(vote), out);
    }

    /// An agent that was asked again may answer twice, and two different ballots are none.
    fn answer_once(
        &mut self,
        id: &str,
        question: Question,
        answer: Message,
        out: &mut Vec<Output>,
    ) {
        let is_answered = |state: &TaskState| state.table.answered.contains(&question);
        if self.tasks.get(id).is_none_or(is_answered) || self.can_say(id, &answer, out).is_err() {
            return;
        }
        if let Some(state) = self.tasks.get_mut(id) {
            state.table.answered.insert(question);
        }
        out.push(send(self.audience(id), answer));
    }

    pub(super) fn take_commit(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Commit,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.hear(now, kept, &m.task_id, Phase::Commit, out)
    }

    pub(super) fn take_reveal(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Reveal,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let hash = judge::plan_hash(kept);
        let state = self.known(&m.task_id)?;
        let commits = state.table.said.get(&m.plan.proposer).map_or(&[][..], |said| &said.commits);
        let fits = |kept: &Kept| match &kept.message {
            Message::Commit(commit) => Some(commit.plan_hash) == hash,
            _ => false,
        };
        if !commits.is_empty() && !commits.iter().any(fits) {
            return refuse(ErrorCode::CommitRevealMismatch, "that is not what was committed to");
        }
        self.hear(now, kept, &m.task_id, Phase::Reveal, out)
    }

    pub(super) fn take_critique(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Critique,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.hear(now, kept, &m.task_id, Phase::Critique, out)
    }

    pub(super) fn take_ballot(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &PlanVote,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let state = self.known(&m.task_id)?;
        if state.plan.decided().is_some() {
            return refuse(ErrorCode::VotingTimeout, "the vote is over");
        }
        let own = |kept: &Kept| match &kept.message {
            Message::Reveal(reveal) => Some(&reveal.plan.plan_id) == m.rankings.first(),
            _ => false,
        };
        let reveals = state.table.said.values().filter(|said| !said.reveals.is_empty()).count();
        let is_self_vote =
            state.table.said.get(&m.voter).is_some_and(|s| s.reveals.iter().any(own));
        if is_self_vote && reveals > 1 {
            return refuse(ErrorCode::SelfVote, "nobody ranks its own plan first");
        }
        self.hear(now, kept, &m.task_id, Phase::Vote, out)
    }

    /// Keeps what was said: the same once, something different as evidence.
    pub(super) fn hear(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        id: &str,
        phase: Phase,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let signer = kept.meta.signer;
        let state = self.known(id)?;
        let sits = state.table.boards.values().any(|board| board.voters.contains(&signer));
        // Where no board is known, only a commit may have overtaken the word that there is one: who
        // has no part in a board keeps nothing of what is said there.
        let may_sit = sits || (state.table.boards.is_empty() && phase == Phase::Commit);
        if state.plan.decided().is_some() || !may_sit {
            return Ok(());
        }
        // Whoever commits when plans are on the table could have seen them.
        let mut boards = state.table.boards.values().filter(|b| b.members.contains(&signer));
        let is_late = sits && boards.all(|board| board.phase != Phase::Commit);
        if phase == Phase::Commit && is_late && !state.table.has(&signer, phase) {
            return refuse(ErrorCode::CommitRevealMismatch, "the time for commits is over");
        }
        let said = state.table.said.entry(signer).or_default().of_mut(phase);
        if said.iter().any(|known| known.message == kept.message) {
            if phase == Phase::Vote {
                self.answer_chair(now, id, &signer, out);
            }
            return Ok(());
        }
        if said.len() < PER_SIGNER_MAX {
            said.push(kept.bare());
        }
        let first = said.len() == 1;
        self.run_boards(now, id, out);
        if first {
            Ok(())
        } else {
            refuse(ErrorCode::DuplicateProposal, "it said otherwise before")
        }
    }

    /// A chair that repeats its ballot waits for others, and those who have heard everybody repeat
    /// nothing by themselves. Two chairs of one task do not answer each other in circles.
    fn answer_chair(&mut self, now: Timestamp, id: &str, chair: &Did, out: &mut Vec<Output>) {
        let next = plus(now, self.genesis.timing.resend_ms);
        let Some(state) = self.tasks.get_mut(id).filter(|_| *chair != self.me) else {
            return;
        };
        let ballot = state.table.said.get(&self.me).and_then(|said| said.of(Phase::Vote).first());
        let board = state.table.boards.get_mut(chair);
        let is_over = |board: &&mut Board| board.phase == Phase::Over && board.resend_at <= now;
        if let (Some(ballot), Some(board)) = (ballot, board.filter(is_over)) {
            board.resend_at = next;
            out.push(send(vec![*chair], ballot.message.clone()));
        }
    }

    pub(super) fn run_boards(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let chairs: Vec<Did> = match self.tasks.get(id) {
            Some(state) if state.plan.decided().is_none() => {
                state.table.boards.keys().copied().collect()
            }
            _ => return,
        };
        for chair in chairs {
            while self.advance(now, id, &chair, out) {}
            self.resend_phase(now, id, &chair, out);
        }
    }

    /// One phase of one board further, if it is complete or its time is up.
    pub(super) fn advance(
        &mut self,
        now: Timestamp,
        id: &str,
        chair: &Did,
        out: &mut Vec<Output>,
    ) -> bool {
        let timing = self.genesis.timing.clone();
        let me = self.me;
        let Some(state) = self.tasks.get_mut(id) else {
            return false;
        };
        let table = &state.table;
        let Some(board) = table.boards.get(chair) else {
            return false;
        };
        let said = |dids: &[Did], phase| dids.iter().filter(|did| table.has(did, phase)).count();
        let committed = said(&board.members, Phase::Commit);
        let complete = match board.phase {
            Phase::Commit => committed == board.members.len(),
            Phase::Reveal => said(&board.members, Phase::Reveal) >= committed,
            Phase::Critique => said(&board.members, Phase::Critique) == board.members.len(),
            Phase::Vote => said(&board.voters, Phase::Vote) == board.voters.len(),
            Phase::Over => return false,
        };
        let late = now >= board.until;
        if !complete && !late {
            return false;
        }
        let few = said(&board.voters, Phase::Vote) < quorum(board.voters.len());
        let no_plans = said(&board.members, Phase::Reveal) == 0;
        let is_member = board.members.contains(&me);
        let Some(board) = state.table.boards.get_mut(chair) else {
            return false;
        };
        if board.phase == Phase::Vote && late && !complete && few && !board.extended {
            board.extended = true;
            board.until = plus(now, 2 * timing.vote_ms);
            return false;
        }
        let (next, ms) = match board.phase {
            Phase::Commit => (Phase::Reveal, timing.reveal_ms),
            Phase::Reveal if no_plans => (Phase::Over, 0),
            Phase::Reveal => (Phase::Critique, timing.critique_ms),
            Phase::Critique => (Phase::Vote, timing.vote_ms),
            Phase::Vote | Phase::Over => (Phase::Over, 0),
        };
        (board.phase, board.until) = (next, plus(now, ms));
        if next == Phase::Vote {
            board.votes_until = board.until;
        }
        board.resend_at = plus(now, timing.resend_ms);
        match next {
            Phase::Reveal if is_member => self.send_own(id, Phase::Reveal, out),
            Phase::Critique if is_member => self.ask(id, chair, Question::Critique, out),
            Phase::Vote => self.ask(id, chair, Question::Vote, out),
            Phase::Over if *chair == me => self.offer_plan(id, out),
            _ => {}
        }
        true
    }

    /// Asks the agent for its opinion, once for each task.
    pub(super) fn ask(&mut self, id: &str, chair: &Did, question: Question, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        if !state.table.asked.insert(question) {
            return self.send_own(id, question.phase(), out);
        }
        out.extend(self.question(id, chair, question).map(Output::Ask));
    }

    /// What the agent is asked about the plans on a chair's board.
    pub(super) fn question(&self, id: &str, chair: &Did, question: Question) -> Option<Ask> {
        let record = self.record(id, chair);
        let task = self.tasks.get(id)?.task.clone();
        let deliberation = judge::deliberation(self.epochs.get(&task.epoch)?, &record).ok()?;
        let plans: Vec<Plan> = deliberation.plans.values().map(|plan| (*plan).clone()).collect();
        let critique = |kept: &Kept| match &kept.message {
            Message::Critique(critique) => Some(critique.clone()),
            _ => None,
        };
        Some(match question {
            Question::Plan => Ask::Plan { task },
            Question::Critique => {
                let is_critic = deliberation.ready.adversarial_critic == Some(self.me);
                Ask::Critique { task, plans, is_critic }
            }
            Question::Vote => {
                Ask::Vote { task, plans, critiques: record.iter().filter_map(critique).collect() }
            }
        })
    }

    /// Everything that a board's outcome rests on.
    pub(super) fn record(&self, id: &str, chair: &Did) -> Vec<Kept> {
        let Some(state) = self.tasks.get(id) else {
            return Vec::new();
        };
        let Some(board) = state.table.boards.get(chair) else {
            return Vec::new();
        };
        let mut record = board.ground.clone();
        record.push(board.ready.clone());
        for phase in [Phase::Commit, Phase::Reveal, Phase::Critique, Phase::Vote] {
            // Whoever only votes has no plan and no part in the talk.
            let speakers = if phase == Phase::Vote { &board.voters } else { &board.members };
            for said in speakers.iter().filter_map(|did| state.table.said.get(did)) {
                record.extend(said.of(phase).iter().cloned());
            }
        }
        record
    }

    pub(super) fn offer_plan(&mut self, id: &str, out: &mut Vec<Output>) {
        let me = self.me;
        let record = self.record(id, &me);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(epoch) = self.epochs.get(&state.task.epoch) else {
            return;
        };
        if let Ok(deliberation) = judge::deliberation(epoch, &record) {
            let outcome = Outcome::Plan(deliberation.chosen());
            let acts = state.plan.offer(judge::value(outcome, &record), record);
            perform(acts, out);
        }
    }

    /// Says again what may have been lost, while others are missing.
    pub(super) fn resend_phase(
        &mut self,
        now: Timestamp,
        id: &str,
        chair: &Did,
        out: &mut Vec<Output>,
    ) {
        let (resend_ms, me) = (self.genesis.timing.resend_ms, self.me);
        let Some(board) = self.tasks.get_mut(id).and_then(|s| s.table.boards.get_mut(chair)) else {
            return;
        };
        if now < board.resend_at || board.phase == Phase::Over {
            return;
        }
        board.resend_at = plus(now, 2 * resend_ms);
        let phase = board.phase;
        if *chair == me && phase == Phase::Commit {
            let to = board.voters.iter().copied().filter(|did| *did != me).collect();
            let (message, attached) = (board.ready.message.clone(), attach(&board.ground));
            out.push(Output::Send { to, message, attached });
        }
        // A phase begins with what ended the one before: some may still wait for that.
        for earlier in [Phase::Commit, Phase::Reveal, Phase::Critique, Phase::Vote] {
            let is_near = earlier <= phase && (earlier as u8) + 1 >= phase as u8;
            let spoke = self.tasks.get(id).is_some_and(|state| state.table.has(&me, earlier));
            if is_near && spoke {
                self.send_own(id, earlier, out);
            }
        }
    }
}
