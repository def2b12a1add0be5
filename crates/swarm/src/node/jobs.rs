//! What a node was given to do: it does it, or divides it further (ASIP 9–11, decision 50).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    Artifact, Assign, ErrorCode, Message, Plan, Share, SubmitResult, Subtask, Task, Verification,
};

use super::{
    Ask, Event, Node, Output, Refusal, refuse, send,
    shares::Speaks,
    tasks::{DEPTH_MAX, check_name},
    working::REWORKS_MAX,
};
use crate::{aggregate, judge, kept::Kept};

/// Parts that a node works on at a time, of tasks that it knows to be planned or for its own
/// leader. Others have as many places apart: whatever they invent keeps this node from nothing.
const JOBS_MAX: usize = 500;
/// And for one coordinator, where this node does not know of a plan that they are parts of.
const JOBS_UNKNOWN_MAX: usize = 8;
/// And that are kept for one coordinator until their deadline, those that are over included.
pub const JOBS_OF_ONE_MAX: usize = 100;
/// Decision 50: what is harder is divided, if there are enough agents.
pub const RECURSION_ABOVE: Share = Share::percent(40);
pub const RECURSION_AGENTS_MIN: usize = 3;

/// Whether a part is hard enough to be divided by whoever has enough agents for it.
pub(super) fn is_divided(complexity: Share, depth: u32) -> bool {
    complexity > RECURSION_ABOVE && depth < DEPTH_MAX
}

/// A part that this node was given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    task: Task,
    coordinator: Did,
    attempt: u32,
    /// Why the attempt before was not good enough.
    #[serde(default)]
    reason: Option<String>,
    submitted: Option<SubmitResult>,
    over: bool,
    /// It is divided further: its own task has the rest.
    divided: bool,
}

impl Job {
    /// Whether it is still to be worked on here.
    pub(super) fn is_undone(&self) -> bool {
        !self.over && self.submitted.is_none()
    }

    /// What the agent has to do now, or do again after a crash.
    pub(super) fn question(&self, now: Timestamp) -> Option<Ask> {
        let is_open = !self.over && !self.divided && self.submitted.is_none();
        (is_open && now < self.task.deadline).then(|| Ask::Execute {
            task: self.task.clone(),
            attempt: self.attempt,
            reason: self.reason.clone(),
        })
    }

    pub(super) fn is_by(&self, coordinator: &Did) -> bool {
        self.coordinator == *coordinator
    }
}

impl Node {
    pub(super) fn take_assign(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Assign,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        if m.assignee != self.me || m.task.assigned_to != Some(self.me) {
            return refuse(ErrorCode::InvalidParams, "this is for somebody else");
        }
        if !self.may_order(kept, m) {
            return refuse(ErrorCode::InvalidSignature, "the signer does not coordinate this task");
        }
        let id = &m.task.task_id;
        self.check_unburied(&kept.message)?;
        if let Some(job) = self.jobs.get(id) {
            // It or its answer was lost.
            let submitted = job.submitted.clone().filter(|_| job.coordinator == kept.meta.signer);
            if let Some(result) = submitted {
                out.push(send(vec![job.coordinator], Message::SubmitResult(result)));
            }
            return Ok(());
        }
        if m.task.deadline <= now {
            return refuse(ErrorCode::DeadlineExceeded, "the deadline has passed");
        }
        self.check_task(now, &m.task, false)?;
        check_name(&m.task, &kept.meta.signer)?;
        self.check_part(m)?;
        self.jobs.retain(|_, job| now < job.task.deadline);
        if !self.has_time(kept, m) {
            return refuse(ErrorCode::InvalidRequest, "this node has enough to do");
        }
        let below = self.epoch_of(&m.task).map_or(0, |epoch| self.below(&epoch, &self.me).len());
        let divided =
            is_divided(m.task.complexity, m.task.depth) && below + 1 >= RECURSION_AGENTS_MIN;
        let job = Job {
            task: m.task.clone(),
            coordinator: kept.meta.signer,
            attempt: 1,
            reason: None,
            submitted: None,
            over: false,
            divided,
        };
        if divided {
            self.open_task(now, kept, kept.meta.signer, Speaks::Itself)?;
            self.jobs.insert(id.clone(), job);
            self.take_the_chair(now, id, out);
        } else {
            out.extend(job.question(now).map(Output::Ask));
            self.jobs.insert(id.clone(), job);
        }
        Ok(())
    }

    /// How many boards may sit one below the other where an agent divides a part of a task.
    pub(super) fn levels_below(&self, task: &Task, did: &Did) -> u64 {
        let Some(epoch) = self.epoch_of(task) else {
            return 0;
        };
        let below = self.below(&epoch, did);
        if below.len() + 1 < RECURSION_AGENTS_MIN {
            return 0;
        }
        let layout = epoch.layout();
        let deeper = below.iter().map(|did| layout.levels_below(did, RECURSION_AGENTS_MIN));
        1 + deeper.max().unwrap_or(0)
    }

    /// How many boards may sit one below the other for the hardest part of a task's plan, whoever
    /// is given it: the same for every witness, since all wait for one coordinator.
    pub(super) fn levels_of_plan(&self, id: &str) -> u64 {
        let Some(state) = self.tasks.get(id) else {
            return 0;
        };
        let (Some(plan), Some(epoch)) = (self.winning_plan(state), self.epoch_of(&state.task))
        else {
            return 0;
        };
        let depth = state.task.depth.saturating_add(1);
        let is_hard = |part: &Subtask| is_divided(part.estimated_complexity, depth);
        if !plan.subtasks.iter().any(is_hard) {
            return 0;
        }
        let levels = |did| epoch.layout().levels_below(did, RECURSION_AGENTS_MIN);
        epoch.tier1().iter().map(levels).max().unwrap_or(0)
    }

    /// Whether this node knows that a task's plan is final.
    pub(super) fn is_planned(&self, id: &str) -> bool {
        self.tasks.get(id).is_some_and(|state| state.plan.decided().is_some())
    }

    /// An order is for a part of the task that it names; where this node knows how that was
    /// planned, for one that the plan has, as it is there, while the task goes on.
    fn check_part(&self, m: &Assign) -> Result<(), Refusal> {
        let (task, parent_id) = (&m.task, &m.parent_task_id);
        let names_it = task.parent_task_id.as_ref() == Some(parent_id);
        if !names_it || !judge::is_part(parent_id, task.index, &task.task_id) {
            return refuse(ErrorCode::InvalidParams, "it is no part of the task that it names");
        }
        let Some(parent) = self.tasks.get(parent_id).filter(|it| it.plan.decided().is_some())
        else {
            return Ok(());
        };
        // Those who have only planned a part know no end of it.
        if parent.is_root() && parent.ended.is_some() {
            return refuse(ErrorCode::TaskNotFound, "the task is over");
        }
        let is_planned = |plan: Plan| {
            plan.subtasks.iter().any(|part| {
                part.index == task.index
                    && part.description == task.description
                    && part.required_capabilities == task.capabilities_required
                    && part.estimated_complexity == task.complexity
            })
        };
        match self.winning_plan(parent).is_some_and(is_planned) {
            true => Ok(()),
            false => refuse(ErrorCode::InvalidParams, "the plan has no such part"),
        }
    }

    /// Nobody keeps this node busy with what it has made up.
    fn has_time(&self, kept: &Kept, m: &Assign) -> bool {
        let open = self.jobs.values().filter(|job| !job.over);
        let of_signer = |job: &&Job| job.coordinator == kept.meta.signer;
        let is_expected = self.is_expected(&m.task, &kept.meta.signer);
        let is_alike = |job: &&Job| self.is_expected(&job.task, &job.coordinator) == is_expected;
        let same = open.clone().filter(of_signer).count();
        open.filter(is_alike).count() < JOBS_MAX
            && self.jobs.values().filter(of_signer).count() < JOBS_OF_ONE_MAX
            && (self.is_planned(&m.parent_task_id) || same < JOBS_UNKNOWN_MAX)
    }

    /// Whether this node knows of a plan that a part belongs to, or is given it by its own leader.
    fn is_expected(&self, task: &Task, coordinator: &Did) -> bool {
        let leader = || self.parent_in(&*self.epoch_of(task)?, &self.me);
        task.parent_task_id.as_ref().is_some_and(|id| self.is_planned(id))
            || leader() == Some(*coordinator)
    }

    /// How much this node has to do for tasks that it knows to be planned, by order of who leads
    /// them now. However often one part is ordered, it is one: what anybody could have made up
    /// keeps it from nothing.
    pub(super) fn load(&self) -> u32 {
        let undone = self.jobs.values().filter(|job| job.is_undone());
        let wanted = undone.filter_map(|job| {
            let parent = job.task.parent_task_id.as_ref()?;
            self.leads_now(parent, &job.coordinator).then_some((parent, job.task.index))
        });
        u32::try_from(wanted.collect::<BTreeSet<_>>().len()).unwrap_or(u32::MAX)
    }

    /// Whether somebody coordinates a task that is planned and not over, as far as is known here.
    fn leads_now(&self, id: &str, did: &Did) -> bool {
        let Some(state) = self.tasks.get(id).filter(|it| it.plan.decided().is_some()) else {
            return false;
        };
        match &state.result {
            Some(result) => state.ended.is_none() && result.leads_soon().next() == Some(*did),
            None => !state.is_root() && state.plan.setting().leaders.contains(did),
        }
    }

    /// Where this node knows how the task was planned, only its leaders give orders.
    fn may_order(&self, kept: &Kept, m: &Assign) -> bool {
        match self.tasks.get(&m.parent_task_id) {
            Some(parent) => match &parent.result {
                Some(result) => result.setting().leaders.contains(&kept.meta.signer),
                None => parent.plan.setting().leaders.contains(&kept.meta.signer),
            },
            None => true,
        }
    }

    /// The agent's work becomes an artifact with its hashes (decisions 47, 49). Work of an earlier
    /// attempt, by an agent that was asked twice, is not looked at once more.
    pub(super) fn submit_work(
        &mut self,
        now: Timestamp,
        (id, attempt): (&str, u32),
        content: &str,
        out: &mut Vec<Output>,
    ) {
        let me = self.me;
        let is_open = |job: &&Job| !job.over && job.submitted.is_none() && job.attempt == attempt;
        let Some(job) = self.jobs.get(id).filter(is_open) else {
            return;
        };
        let bytes = content.as_bytes();
        let artifact = Artifact {
            artifact_id: format!("{id}/{}", job.attempt),
            task_id: id.to_owned(),
            producer: me,
            content_cid: aggregate::cid(bytes),
            merkle_hash: aggregate::content_root(bytes),
            content_type: "text/plain".to_owned(),
            size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            created_at: now,
        };
        let (to, attempt) = (vec![job.coordinator], job.attempt);
        let result = SubmitResult {
            task_id: id.to_owned(),
            agent_id: me,
            artifact,
            merkle_proof: aggregate::chunk_proof(bytes, 0).unwrap_or_default(),
            content: Some(content.to_owned()),
            parts: Vec::new(),
        };
        let message = Message::SubmitResult(result.clone());
        if let Err(error) = self.can_say(id, &message, out) {
            if attempt <= REWORKS_MAX {
                self.ask_for_other_work(now, id, Some(error.to_string()), out);
            }
            return;
        }
        out.push(Output::Event(Event::Executed { task_id: id.to_owned() }));
        out.push(send(to, message));
        self.keep_result(id, result);
    }

    /// The agent tries once more, and knows why.
    fn ask_for_other_work(
        &mut self,
        now: Timestamp,
        id: &str,
        reason: Option<String>,
        out: &mut Vec<Output>,
    ) {
        if let Some(job) = self.jobs.get_mut(id) {
            (job.submitted, job.reason) = (None, reason);
            job.attempt += 1;
            out.extend(job.question(now).map(Output::Ask));
        }
    }

    fn keep_result(&mut self, id: &str, result: SubmitResult) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.submitted = Some(result);
        }
    }

    /// What the coordinator says of this node's work.
    pub(super) fn take_judgement(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Verification,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let work = self.tasks.get(&m.task_id).and_then(|state| state.work.as_ref());
        let reported = work.is_some_and(super::working::Work::is_reported);
        let Some(job) = self.jobs.get_mut(&m.task_id) else {
            return refuse(ErrorCode::TaskNotFound, "there is no such task here");
        };
        if kept.meta.signer != job.coordinator || m.agent_id != self.me || job.over {
            return Ok(());
        }
        if m.accepted && job.submitted.is_none() && !reported {
            return refuse(ErrorCode::InvalidRequest, "nothing was submitted yet");
        }
        if m.accepted {
            // Whoever has accepted it asks for it no more.
            (job.over, job.submitted) = (true, None);
            if let Some(state) = self.tasks.get_mut(&m.task_id)
                && state.ended.is_none()
            {
                let parts = state.work.as_ref().map_or(0, super::working::Work::len);
                let ended = judge::ended(skep_wire::swarm::End::Succeeded, vec![None; parts]);
                state.ended = Some(ended);
                self.lay_by(&m.task_id);
            }
            return Ok(());
        }
        let Some(submitted) = job.submitted.as_ref().filter(|_| !job.divided) else {
            return Ok(());
        };
        // A word about an earlier attempt that comes late.
        if m.content_cid.as_ref().is_some_and(|cid| *cid != submitted.artifact.content_cid) {
            return Ok(());
        }
        if job.attempt > REWORKS_MAX || job.task.deadline <= now {
            (job.over, job.submitted) = (true, None);
            return Ok(());
        }
        self.ask_for_other_work(now, &m.task_id, m.reason.clone(), out);
        Ok(())
    }

    /// Whoever has given this node a part wants it no more; whether it was given one.
    pub(super) fn withdraw_job(&mut self, id: &str, by: &Did, out: &mut Vec<Output>) -> bool {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.coordinator == *by) else {
            return false;
        };
        let was_open = !std::mem::replace(&mut job.over, true);
        job.submitted = None;
        if was_open && !job.divided {
            out.push(Output::Event(Event::Withdrawn { task_id: id.to_owned() }));
        }
        true
    }
}
