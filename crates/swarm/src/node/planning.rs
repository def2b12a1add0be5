//! How a board comes to sit: invite, accept, decline, ready (ASIP 14–17, decisions 44b, 50).

use std::collections::{BTreeMap, BTreeSet};

use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    Accept, Chosen, Decline, ErrorCode, Invite, Message, Outcome, Ready, Share, Subject, Task,
};

use super::{
    Ask, Node, Output, Refusal, perform, plus, refuse, send,
    shares::Speaks,
    table::{Board, Forming, Phase, Question},
    tasks::TaskState,
};
use crate::{
    assignment,
    epoch::Epoch,
    judge,
    kept::{Kept, attach},
};

/// An agent with so much to do takes no seat.
const LOAD_MAX: u32 = 20;
/// Boards that may sit for one task: one for each chair that is tried.
const BOARDS_MAX: usize = 16;

impl Node {
    /// Decision 44b: Tier 1 and the Tier-2 agents of the chair's cluster; below, the chair's own.
    /// Those that others act for are not asked by the ones who do.
    fn cluster(&self, epoch: &Epoch, task: &Task, chair: &Did) -> Vec<Did> {
        let mut all = self.below(epoch, chair);
        if task.depth == 0 {
            let failed = |did: &&Did| self.leader_of(epoch.number(), did) != *chair;
            all.extend(epoch.tier1().iter().filter(failed));
        }
        all.into_iter().filter(|did| did != chair).collect()
    }

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
            invited: self.cluster(&epoch, &state.task, &self.me),
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

    pub(super) fn invite(&self, id: &str, invited: usize, to: Vec<Did>, out: &mut Vec<Output>) {
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
        let mut attached = attach(std::slice::from_ref(&state.origin));
        attached.extend(attach(&self.credentials(task.epoch)));
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
        let attached: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        let may_chair = match &origin.message {
            Message::Inject(inject) => {
                let number = inject.task.epoch;
                self.learn_successions(now, number, &attached, out);
                let epoch = self.epoch_of(&inject.task);
                epoch.is_none_or(|epoch| epoch.is_tier1(&m.chair))
                    || self.is_successor(number, &m.chair)
            }
            Message::Assign(assign) => assign.assignee == m.chair,
            _ => false,
        };
        if !may_chair {
            return refuse(ErrorCode::InvalidSignature, "the signer may not chair this board");
        }
        self.open_task(now, &origin, m.chair, Speaks::Itself)?;
        self.admit_successor(&m.task_id, m.chair);
        let Some(state) = self.tasks.get(&m.task_id) else {
            return refuse(ErrorCode::TaskNotFound, "the order is for another task");
        };
        let Some(epoch) = self.epoch_of(&state.task) else {
            return refuse(ErrorCode::EpochMismatch, "this election is not known here");
        };
        if !self.cluster(&epoch, &state.task, &m.chair).contains(&self.me) {
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
        self.take_seat(now, &m.task_id, m.agent_id, Some(kept.bare()), out)
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

    pub(super) fn take_seat(
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

    pub(super) fn known(&mut self, id: &str) -> Result<&mut TaskState, Refusal> {
        match self.tasks.get_mut(id) {
            Some(state) => Ok(state),
            None => refuse(ErrorCode::TaskNotFound, "there is no such task here"),
        }
    }

    /// Once all have answered or time is up: who sits, who criticises, who votes.
    pub(super) fn form_board(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
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
        let credentials = self.credentials(state.task.epoch).into_iter();
        let credentials = credentials.filter(|_| state.is_root());
        let ground: Vec<Kept> = [&state.origin]
            .into_iter()
            .chain(accepted.into_iter().filter(|kept| members.contains(&kept.meta.signer)))
            .cloned()
            .chain(credentials)
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
        let mut ground: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        ground.retain(|kept| is_ground(kept, &m.task_id));
        let Some((origin, task)) = judge::task_of(&ground) else {
            return refuse(ErrorCode::TaskNotFound, "no order comes with the board");
        };
        if task.task_id != m.task_id {
            return refuse(ErrorCode::TaskNotFound, "the order is for another task");
        }
        self.open_task(now, origin, m.chair_id, Speaks::Itself)?;
        self.learn_successions(now, task.epoch, &ground, out);
        self.admit_successor(&m.task_id, m.chair_id);
        let Some(epoch) = self.epoch_of(task) else {
            return refuse(ErrorCode::EpochMismatch, "this election is not known here");
        };
        let mut record = ground.clone();
        record.push(kept.bare());
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
            ready: kept.bare(),
            ground,
            critic: m.adversarial_critic,
            members,
            voters,
            phase: Phase::Commit,
            until: plus(now, timing.commit_ms),
            votes_until: plus(now, timing.deliberation_ms()),
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
        let asked = self.cluster(&epoch, &state.task, &self.me);
        let all: BTreeSet<Did> = asked.into_iter().chain(board.voters.iter().copied()).collect();
        all.into_iter().filter(|did| witnesses.binary_search(did).is_err()).collect()
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

    pub(super) fn resend_invitations(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
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
            return self.offer_cancellation(id, out);
        }
        if now >= state.task.deadline {
            let record = vec![state.origin.clone()];
            let value = judge::value(Outcome::Plan(Chosen::TooLate), &record);
            let acts = state.plan.offer(value, record);
            perform(acts, out);
            return;
        }
        let is_reserve = state.plan.setting().is_reserve(&self.me);
        match state.table.boards.get(&self.me).map(|board| board.phase) {
            Some(Phase::Over) => self.offer_plan(id, out),
            None if is_reserve => {}
            Some(_) => {}
            None if state.table.forming.is_none() => self.take_the_chair(now, id, out),
            None => {}
        }
    }
}

/// What a board rests on: the order, who has agreed to sit, and who acts in whose place. Whatever
/// else came along is not kept.
fn is_ground(kept: &Kept, task_id: &str) -> bool {
    match &kept.message {
        Message::Inject(_) | Message::Assign(_) | Message::Accept(_) => {
            kept.message.task_id() == Some(task_id)
        }
        Message::Succession(_) => true,
        Message::Certificate(signed) => matches!(signed.subject, Subject::Succession { .. }),
        _ => false,
    }
}
