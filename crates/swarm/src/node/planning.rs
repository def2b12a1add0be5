//! How a board plans: invite, accept, ready; commit, reveal, criticise, vote (ASIP 6–8, 14–19).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp, hash::json_sha256};
use skep_wire::swarm::{
    Accept, Chosen, Commit, CriticScore, Critique, Decline, ErrorCode, Invite, Message, Outcome,
    Plan, PlanVote, Ready, Reveal, Share, Task,
};

use super::{Ask, Node, Output, Refusal, perform, plus, refuse, send, tasks::TaskState};
use crate::{
    assignment,
    draw::quorum,
    epoch::Epoch,
    judge,
    kept::{Kept, attach},
};

/// An agent with so much to do takes no seat.
const LOAD_MAX: u32 = 20;
/// What one signer may say in one phase: the second, different word is evidence against it.
const PER_SIGNER_MAX: usize = 2;
/// Boards that may sit for one task: one for each chair that is tried.
const BOARDS_MAX: usize = 16;

/// Everything that was said about one task, and the boards that sit for it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Table {
    forming: Option<Forming>,
    boards: BTreeMap<Did, Board>,
    said: BTreeMap<Did, Said>,
    plan: Option<Plan>,
    asked: BTreeSet<Question>,
}

/// What one agent has said.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Said {
    commits: Vec<Kept>,
    reveals: Vec<Kept>,
    critiques: Vec<Kept>,
    ballots: Vec<Kept>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Question {
    Plan,
    Critique,
    Vote,
}

/// A board that its chair, this node, puts together.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Forming {
    invited: Vec<Did>,
    answers: BTreeMap<Did, Option<Kept>>,
    until: Timestamp,
    resend_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Phase {
    Commit,
    Reveal,
    Critique,
    Vote,
    Over,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Board {
    ready: Kept,
    /// The order and the answers to the invitation.
    ground: Vec<Kept>,
    members: Vec<Did>,
    voters: Vec<Did>,
    critic: Option<Did>,
    phase: Phase,
    until: Timestamp,
    resend_at: Timestamp,
    extended: bool,
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

    fn has(&self, did: &Did, phase: Phase) -> bool {
        self.said.get(did).is_some_and(|said| !said.of(phase).is_empty())
    }
}

impl Said {
    fn of(&self, phase: Phase) -> &[Kept] {
        match phase {
            Phase::Commit => &self.commits,
            Phase::Reveal => &self.reveals,
            Phase::Critique => &self.critiques,
            Phase::Vote => &self.ballots,
            Phase::Over => &[],
        }
    }

    fn of_mut(&mut self, phase: Phase) -> &mut Vec<Kept> {
        match phase {
            Phase::Commit => &mut self.commits,
            Phase::Reveal => &mut self.reveals,
            Phase::Critique => &mut self.critiques,
            Phase::Vote | Phase::Over => &mut self.ballots,
        }
    }
}

/// Decision 44b: Tier 1 and the Tier-2 agents of the chair's cluster; below, the chair's own.
fn cluster(epoch: &Epoch, task: &Task, chair: &Did) -> Vec<Did> {
    let below = epoch.layout().children_of(chair).iter().copied();
    let above = if task.depth == 0 { epoch.tier1() } else { &[] };
    let all: BTreeSet<Did> = below.chain(above.iter().copied()).collect();
    all.into_iter().filter(|did| did != chair).collect()
}

impl Node {
    /// This node chairs: it invites its cluster, and tells the witnesses what is planned.
    pub(super) fn take_the_chair(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let Some(epoch) = self.epoch_of(&state.task) else {
            return;
        };
        let timing = &self.genesis.timing;
        let forming = Forming {
            invited: cluster(&epoch, &state.task, &self.me),
            answers: BTreeMap::new(),
            until: plus(now, timing.board_ms),
            resend_at: plus(now, timing.resend_ms.min(timing.board_ms / 2)),
        };
        let mut to: BTreeSet<Did> = forming.invited.iter().copied().collect();
        to.extend(&state.plan.setting().witnesses);
        to.remove(&self.me);
        self.invite(id, forming.invited.len(), to.into_iter().collect(), out);
        if let Some(state) = self.tasks.get_mut(id) {
            state.table.forming = Some(forming);
        }
        self.form_board(now, id, out);
    }

    fn invite(&self, id: &str, invited: usize, to: Vec<Did>, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id).filter(|_| !to.is_empty()) else {
            return;
        };
        let task = &state.task;
        let invite = Invite {
            task_id: task.task_id.clone(),
            task_digest: task.description.clone(),
            complexity_estimate: task.complexity,
            depth: task.depth,
            required_capabilities: task.capabilities_required.clone(),
            capacity: u32::try_from(assignment::capacity(invited + 1)).unwrap_or(u32::MAX),
            chair: self.me,
        };
        let attached = attach(std::slice::from_ref(&state.origin));
        out.push(Output::Send { to, message: Message::Invite(invite), attached });
    }

    pub(super) fn take_invite(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Invite,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let Some(origin) = kept.attached.first().cloned().map(Kept) else {
            return refuse(ErrorCode::TaskNotFound, "no order comes with the invitation");
        };
        let may_chair = match &origin.message {
            Message::Inject(inject) => {
                let epoch = self.epoch_of(&inject.task);
                epoch.is_none_or(|epoch| epoch.is_tier1(&m.chair))
            }
            Message::Assign(assign) => assign.assignee == m.chair,
            _ => false,
        };
        if !may_chair {
            return refuse(ErrorCode::InvalidSignature, "the signer may not chair this board");
        }
        self.open_task(now, &origin)?;
        let Some(state) = self.tasks.get(&m.task_id) else {
            return refuse(ErrorCode::TaskNotFound, "the order is for another task");
        };
        let Some(epoch) = self.epoch_of(&state.task) else {
            return refuse(ErrorCode::EpochMismatch, "this election is not known here");
        };
        if !cluster(&epoch, &state.task, &m.chair).contains(&self.me) {
            return Ok(());
        }
        let (task_id, agent_id) = (m.task_id.clone(), self.me);
        let load = self.load();
        let answer = if load >= LOAD_MAX {
            Message::Decline(Decline { task_id, agent_id })
        } else {
            let has = |name: &String| self.profile.capabilities.contains(name);
            let affinity = |name: &String| if has(name) { Share::ONE } else { Share::ZERO };
            let required = m.required_capabilities.iter();
            Message::Accept(Accept {
                task_id,
                agent_id,
                active_tasks: load,
                capabilities: self.profile.capabilities.clone(),
                affinity_scores: required.map(|name| (name.clone(), affinity(name))).collect(),
            })
        };
        out.push(send(vec![m.chair], answer));
        Ok(())
    }

    pub(super) fn take_accept(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Accept,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.take_seat(now, &m.task_id, m.agent_id, Some(kept.clone()), out)
    }

    pub(super) fn take_decline(
        &mut self,
        now: Timestamp,
        _: &Kept,
        m: &Decline,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        self.take_seat(now, &m.task_id, m.agent_id, None, out)
    }

    fn take_seat(
        &mut self,
        now: Timestamp,
        id: &str,
        from: Did,
        answer: Option<Kept>,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let state = self.known(id)?;
        if let Some(forming) = &mut state.table.forming
            && forming.invited.contains(&from)
        {
            forming.answers.entry(from).or_insert(answer);
            self.form_board(now, id, out);
        }
        Ok(())
    }

    fn known(&mut self, id: &str) -> Result<&mut TaskState, Refusal> {
        match self.tasks.get_mut(id) {
            Some(state) => Ok(state),
            None => refuse(ErrorCode::TaskNotFound, "there is no such task here"),
        }
    }

    /// Once all have answered or time is up: who sits, who criticises, who votes.
    fn form_board(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let Some(forming) = &state.table.forming else {
            return;
        };
        if forming.answers.len() < forming.invited.len() && now < forming.until {
            return;
        }
        let Some(epoch) = self.epoch_of(&state.task) else {
            return;
        };
        let seats = assignment::capacity(forming.invited.len() + 1);
        let accepted: Vec<&Kept> = forming.answers.values().flatten().collect();
        let bodies = |first: bool| -> Vec<Accept> {
            let of_tier = accepted.iter().filter_map(|kept| match &kept.message {
                Message::Accept(m) if epoch.is_tier1(&m.agent_id) == first => Some(m.clone()),
                _ => None,
            });
            of_tier.collect()
        };
        let required = &state.task.capabilities_required;
        let mut chosen = assignment::board(&bodies(true), required, seats);
        let rest = seats.saturating_sub(chosen.len());
        chosen.extend(assignment::board(&bodies(false), required, rest));
        let members: BTreeSet<Did> = chosen.into_iter().chain([self.me]).collect();
        let ground: Vec<Kept> = [&state.origin]
            .into_iter()
            .chain(accepted.into_iter().filter(|kept| members.contains(&kept.meta.signer)))
            .cloned()
            .collect();
        let members: Vec<Did> = members.into_iter().collect();
        let senate = judge::senate_of(&epoch, &state.task, &members);
        let ready = Ready {
            task_id: id.to_owned(),
            chair_id: self.me,
            adversarial_critic: judge::critic_of(&epoch, &state.task, &self.me, &members),
            senate: senate.clone(),
            task: Some(state.task.clone()),
            members: members.clone(),
        };
        let to = members.into_iter().chain(senate).collect();
        out.push(Output::Send { to, message: Message::Ready(ready), attached: attach(&ground) });
        if let Some(state) = self.tasks.get_mut(id) {
            state.table.forming = None;
        }
    }

    pub(super) fn take_ready(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Ready,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let ground: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        let Some((origin, task)) = judge::task_of(&ground) else {
            return refuse(ErrorCode::TaskNotFound, "no order comes with the board");
        };
        if task.task_id != m.task_id {
            return refuse(ErrorCode::TaskNotFound, "the order is for another task");
        }
        self.open_task(now, origin)?;
        let Some(epoch) = self.epoch_of(task) else {
            return refuse(ErrorCode::EpochMismatch, "this election is not known here");
        };
        let mut record = ground.clone();
        record.push(kept.clone());
        let board = match judge::deliberation(&epoch, &record) {
            Ok(deliberation) => deliberation,
            Err(fault) => return refuse(ErrorCode::InvalidParams, fault.to_string()),
        };
        let (members, voters) = (board.board.clone(), board.voters.clone());
        let timing = self.genesis.timing.clone();
        let me = self.me;
        let state = self.known(&m.task_id)?;
        let full = state.table.boards.len() >= BOARDS_MAX;
        if !voters.contains(&me) || full || state.table.boards.contains_key(&m.chair_id) {
            return Ok(());
        }
        let board = Board {
            ready: kept.clone(),
            ground,
            critic: m.adversarial_critic,
            members,
            voters,
            phase: Phase::Commit,
            until: plus(now, timing.commit_ms),
            resend_at: plus(now, timing.resend_ms),
            extended: false,
        };
        let is_member = board.members.contains(&me);
        state.table.boards.insert(m.chair_id, board);
        if is_member {
            if state.table.plan.is_some() {
                self.send_own(&m.task_id, Phase::Commit, out);
            } else if state.table.asked.insert(Question::Plan) {
                out.push(Output::Ask(Ask::Plan { task: state.task.clone() }));
            }
        }
        self.run_boards(now, &m.task_id, out);
        Ok(())
    }

    /// As the chair: those who were asked or vote, and are no witnesses. They hear of the end here.
    pub(super) fn guests(&self, id: &str) -> Vec<Did> {
        let Some(state) = self.tasks.get(id) else {
            return Vec::new();
        };
        let (Some(board), Some(epoch)) =
            (state.table.boards.get(&self.me), self.epoch_of(&state.task))
        else {
            return Vec::new();
        };
        let witnesses = &state.plan.setting().witnesses;
        let asked = cluster(&epoch, &state.task, &self.me);
        let all: BTreeSet<Did> = asked.into_iter().chain(board.voters.iter().copied()).collect();
        all.into_iter().filter(|did| witnesses.binary_search(did).is_err()).collect()
    }

    /// All who vote for a task on boards that this node sits on.
    fn audience(&self, id: &str) -> Vec<Did> {
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
        let Some(state) = self.tasks.get_mut(id).filter(|state| state.table.plan.is_none()) else {
            return;
        };
        (plan.proposer, plan.task_id, plan.epoch) = (me, id.to_owned(), state.task.epoch);
        state.table.plan = Some(plan);
        self.send_own(id, Phase::Commit, out);
        self.run_boards(now, id, out);
    }

    /// Sends what this node says in a phase, again or for the first time.
    fn send_own(&self, id: &str, phase: Phase, out: &mut Vec<Output>) {
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
        out.push(send(self.audience(id), Message::Critique(critique)));
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
        out.push(send(self.audience(id), Message::PlanVote(vote)));
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
    fn hear(
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
        if state.plan.decided().is_some() || (!sits && !state.table.boards.is_empty()) {
            return Ok(());
        }
        let said = state.table.said.entry(signer).or_default().of_mut(phase);
        if said.iter().any(|known| known.message == kept.message) {
            return Ok(());
        }
        if said.len() < PER_SIGNER_MAX {
            said.push(kept.clone());
        }
        let first = said.len() == 1;
        self.run_boards(now, id, out);
        if first {
            Ok(())
        } else {
            refuse(ErrorCode::DuplicateProposal, "it said otherwise before")
        }
    }

    pub(super) fn run_planning(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        if state.plan.decided().is_some() {
            return;
        }
        let acts = state.plan.tick(now);
        let (wanted, _) = perform(acts, out);
        if wanted {
            self.plan_wanted(now, id, out);
        }
        self.resend_invitations(now, id, out);
        self.form_board(now, id, out);
        self.run_boards(now, id, out);
    }

    fn resend_invitations(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let resend_ms = self.genesis.timing.resend_ms;
        let Some(forming) = self.tasks.get_mut(id).and_then(|s| s.table.forming.as_mut()) else {
            return;
        };
        if now < forming.resend_at {
            return;
        }
        forming.resend_at = plus(now, resend_ms);
        let silent = forming.invited.iter().filter(|did| !forming.answers.contains_key(did));
        let (silent, count) = (silent.copied().collect(), forming.invited.len());
        self.invite(id, count, silent, out);
    }

    /// This node leads and has nothing to propose yet.
    pub(super) fn plan_wanted(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        if state.cancelled.is_some() {
            return self.offer_cancellation(now, id, out);
        }
        if now >= state.task.deadline {
            let record = vec![state.origin.clone()];
            let value = judge::value(Outcome::Plan(Chosen::TooLate), &record);
            let acts = state.plan.offer(now, value, record);
            perform(acts, out);
            return;
        }
        match state.table.boards.get(&self.me).map(|board| board.phase) {
            Some(Phase::Over) => self.offer_plan(now, id, out),
            Some(_) => {}
            None if state.table.forming.is_none() => self.take_the_chair(now, id, out),
            None => {}
        }
    }

    fn run_boards(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
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
    fn advance(&mut self, now: Timestamp, id: &str, chair: &Did, out: &mut Vec<Output>) -> bool {
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
        board.resend_at = plus(now, timing.resend_ms);
        match next {
            Phase::Reveal if is_member => self.send_own(id, Phase::Reveal, out),
            Phase::Critique if is_member => self.ask(id, chair, Question::Critique, out),
            Phase::Vote => self.ask(id, chair, Question::Vote, out),
            Phase::Over if *chair == me => self.offer_plan(now, id, out),
            _ => {}
        }
        true
    }

    /// Asks the agent for its opinion, once for each task.
    fn ask(&mut self, id: &str, chair: &Did, question: Question, out: &mut Vec<Output>) {
        let record = self.record(id, chair);
        let me = self.me;
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let phase = if question == Question::Vote { Phase::Vote } else { Phase::Critique };
        if !state.table.asked.insert(question) {
            return self.send_own(id, phase, out);
        }
        let Some(epoch) = self.epochs.get(&state.task.epoch) else {
            return;
        };
        let Ok(deliberation) = judge::deliberation(epoch, &record) else {
            return;
        };
        let plans: Vec<Plan> = deliberation.plans.values().map(|plan| (*plan).clone()).collect();
        let task = state.task.clone();
        let ask = match question {
            Question::Vote => {
                let critique = |kept: &Kept| match &kept.message {
                    Message::Critique(critique) => Some(critique.clone()),
                    _ => None,
                };
                Ask::Vote { task, plans, critiques: record.iter().filter_map(critique).collect() }
            }
            _ => {
                let is_critic = deliberation.ready.adversarial_critic == Some(me);
                Ask::Critique { task, plans, is_critic }
            }
        };
        out.push(Output::Ask(ask));
    }

    /// Everything that a board's outcome rests on.
    fn record(&self, id: &str, chair: &Did) -> Vec<Kept> {
        let Some(state) = self.tasks.get(id) else {
            return Vec::new();
        };
        let Some(board) = state.table.boards.get(chair) else {
            return Vec::new();
        };
        let mut record = board.ground.clone();
        record.push(board.ready.clone());
        for phase in [Phase::Commit, Phase::Reveal, Phase::Critique, Phase::Vote] {
            for did in &board.voters {
                if let Some(said) = state.table.said.get(did) {
                    record.extend(said.of(phase).iter().cloned());
                }
            }
        }
        record
    }

    fn offer_plan(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
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
            let acts = state.plan.offer(now, judge::value(outcome, &record), record);
            perform(acts, out);
        }
    }

    /// Says again what may have been lost, while others are missing.
    fn resend_phase(&mut self, now: Timestamp, id: &str, chair: &Did, out: &mut Vec<Output>) {
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
