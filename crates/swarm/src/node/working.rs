//! How a plan is carried out: approval, assignment, checks, other attempts, the whole result
//! (ASIP 9–11, decision 47).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    Artifact, Chosen, Dissolve, End, ErrorCode, Message, Outcome, Plan, Subject, SubmitResult,
    Subtask, Task, TaskStatus, Value, named,
};

use self::words::{order, verdict};
use super::{
    Ask, Node, Output, Refusal, jobs::is_divided, perform, plus, refuse, send, tasks::TaskState,
};
use crate::{
    accord::{Accord, Setting, Verdict},
    assignment::{Worker, assign},
    epoch::Epoch,
    judge,
    kept::Kept,
};

mod approval;
mod whole;
mod words;

/// ASIP 11: reworks that an executor may do before another one gets the part.
pub const REWORKS_MAX: u32 = 3;
/// Ids of further attempts differ between coordinators.
const ATTEMPTS_PER_VIEW: u32 = 1_000;

/// A coordinator's view of its task's parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    plan: Plan,
    parts: Vec<Part>,
    /// Who has failed at which part.
    avoid: BTreeSet<(u32, Did)>,
    /// Nobody works before the originator has seen the plan.
    waits_for_approval: bool,
    reported: bool,
    report_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Part {
    task: Task,
    assignee: Option<Did>,
    attempt: u32,
    reworks: u32,
    /// The result that is being looked at, or was found good.
    result: Option<Kept>,
    done: bool,
    until: Timestamp,
    again_at: Timestamp,
}

impl Part {
    /// The result that was found good.
    fn good(&self) -> Option<&Kept> {
        self.result.as_ref().filter(|_| self.done)
    }

    fn question(&self) -> Option<Ask> {
        match &self.result.as_ref().filter(|_| !self.done)?.message {
            Message::SubmitResult(result) => {
                Some(Ask::Check { task: self.task.clone(), result: Box::new(result.clone()) })
            }
            _ => None,
        }
    }
}

impl Work {
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.waits_for_approval {
            return Some(self.report_at);
        }
        let open = self.parts.iter().filter(|part| !part.done);
        let parts = open.map(|part| part.until.min(part.again_at)).min();
        let is_done = self.parts.iter().all(|part| part.done);
        let report = is_done.then_some(self.report_at);
        parts.into_iter().chain(report).min()
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The bytes of the parts' results.
    pub(super) fn results_len(&self) -> usize {
        let results = self.parts.iter().filter_map(|part| part.result.as_ref());
        results.map(|kept| kept.wire_len()).sum()
    }

    pub(super) fn is_reported(&self) -> bool {
        self.reported
    }

    /// What this node's agent is asked about results.
    pub(super) fn questions(&self) -> impl Iterator<Item = Ask> {
        self.parts.iter().filter_map(Part::question)
    }

    /// What somebody still works on.
    pub(super) fn open(&self) -> impl Iterator<Item = (Did, String)> {
        let open = self.parts.iter().filter(|part| !part.done);
        open.filter_map(|part| Some((part.assignee?, part.task.task_id.clone())))
    }

    fn artifacts(&self) -> Vec<Option<Artifact>> {
        let artifact = |part: &Part| match &part.good()?.message {
            Message::SubmitResult(result) => Some(result.artifact.clone()),
            _ => None,
        };
        self.parts.iter().map(artifact).collect()
    }
}

impl Node {
    /// There is a plan: the one who proposed it coordinates, and others if it fails.
    pub(super) fn begin_result(
        &mut self,
        now: Timestamp,
        id: &str,
        proposer: Did,
        out: &mut Vec<Output>,
    ) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        if !state.is_root() {
            // Below, whoever was given the part answers for it.
            if state.plan.setting().leaders.contains(&self.me) {
                self.coordinate(now, id, out);
            } else {
                state.ended = Some(judge::ended(End::Unplanned, Vec::new()));
                self.lay_by(id);
            }
            return;
        }
        let levels = self.levels_of_plan(id);
        let timing = &self.genesis.timing;
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let mut setting: Setting = state.plan.setting().clone();
        setting.subject = Subject::Result { task_id: id.to_owned() };
        setting.leaders.retain(|did| *did != proposer);
        setting.leaders.insert(0, proposer);
        setting.reserves.retain(|did| *did != proposer);
        setting.anyone_first = false;
        setting.slow_ms = timing.coordination_ms(levels);
        // What is there at the deadline still counts.
        setting.deadline = plus(state.task.deadline, timing.view_ms);
        let result = Accord::new(self.me, setting, vec![state.origin.clone()], now);
        let leads = result.leads();
        state.result = Some(result);
        state.planned_at = Some(now);
        state.drop_other_words();
        self.pass_on_approval(id, out);
        if leads {
            self.coordinate(now, id, out);
        }
    }

    pub(super) fn winning_plan(&self, state: &TaskState) -> Option<Plan> {
        winner(self.epochs.get(&state.task.epoch)?, &state.plan)
    }

    fn coordinate(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id).filter(|state| state.work.is_none()) else {
            return;
        };
        let Some(plan) = self.winning_plan(state) else {
            return;
        };
        let view = state.result.as_ref().map_or(0, Accord::view);
        let part = |subtask: &Subtask| Part {
            task: Task {
                task_id: String::new(),
                parent_task_id: Some(id.to_owned()),
                epoch: state.task.epoch,
                status: TaskStatus::InProgress,
                description: subtask.description.clone(),
                assigned_to: None,
                tier_level: state.task.tier_level.saturating_add(1),
                subtasks: Vec::new(),
                created_at: now,
                deadline: state.task.deadline,
                capabilities_required: subtask.required_capabilities.clone(),
                depth: state.task.depth.saturating_add(1),
                index: subtask.index,
                complexity: subtask.estimated_complexity,
                needs_approval: false,
            },
            assignee: None,
            attempt: view.saturating_mul(ATTEMPTS_PER_VIEW),
            reworks: 0,
            result: None,
            done: false,
            until: now,
            again_at: now,
        };
        let work = Work {
            parts: plan.subtasks.iter().map(part).collect(),
            plan,
            avoid: BTreeSet::new(),
            waits_for_approval: state.task.needs_approval && state.is_root(),
            reported: false,
            report_at: now,
        };
        if let Some(state) = self.tasks.get_mut(id) {
            state.work = Some(work);
        }
        self.go_on_if_approved(now, id, out);
        self.run_work(now, id, out);
    }

    /// Who can be given a part: Tier 1 and the coordinator's own; below, its own.
    fn workers(&self, now: Timestamp, task: &Task) -> Vec<Worker> {
        let Some(epoch) = self.epoch_of(task) else {
            return Vec::new();
        };
        let mut others = self.below(&epoch, &self.me);
        if task.depth == 0 {
            others.extend(self.council_of(&epoch));
        }
        let silence = self.genesis.timing.silence_ms;
        let is_there =
            |did: &Did| self.peers.get(did).is_some_and(|peer| now < plus(peer.heard_at, silence));
        let mut all: Vec<Did> =
            others.into_iter().filter(|did| *did != self.me && is_there(did)).collect();
        if all.is_empty() {
            all.push(self.me);
        }
        let worker = |did: Did| {
            let peer = self.peers.get(&did);
            let capabilities = match peer {
                Some(peer) if did != self.me => peer.capabilities.clone(),
                _ => self.profile.capabilities.clone(),
            };
            let weight = epoch.member(&did).map(|member| member.weight).unwrap_or_default();
            let active_tasks = peer.map_or(0, |peer| peer.active_tasks);
            Worker { did, capabilities, active_tasks, weight }
        };
        all.into_iter().map(worker).collect()
    }

    pub(super) fn run_work(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        self.tick_result(now, id, out);
        let Some(state) = self.tasks.get(id).filter(|state| state.ended.is_none()) else {
            return;
        };
        let Some(work) = &state.work else {
            return;
        };
        if work.waits_for_approval {
            return self.ask_for_approval(now, id, out);
        }
        if now >= state.task.deadline {
            self.stop_waiting(id);
        } else if work.parts.iter().any(|part| !part.done && part.until <= now) {
            self.assign_parts(now, id, out);
        }
        self.remind(now, id, out);
        self.report(now, id, out);
    }

    /// The time is over: nobody is given a part or reminded of it any more, and nothing is to be
    /// woken for.
    fn stop_waiting(&mut self, id: &str) {
        let work = self.tasks.get_mut(id).and_then(|state| state.work.as_mut());
        let parts = work.into_iter().flat_map(|work| &mut work.parts);
        for part in parts.filter(|part| !part.done) {
            (part.until, part.again_at) = (Timestamp::MAX, Timestamp::MAX);
        }
    }

    /// Gives every part that nobody does, or not in time, to somebody.
    fn assign_parts(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let (resend_ms, me) = (self.genesis.timing.resend_ms, self.me);
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let workers = self.workers(now, &state.task);
        let deadline = state.task.deadline;
        let levels: BTreeMap<Did, u64> =
            workers.iter().map(|it| (it.did, self.levels_below(&state.task, &it.did))).collect();
        let timing = self.genesis.timing.clone();
        let Some(work) = self.tasks.get_mut(id).and_then(|state| state.work.as_mut()) else {
            return;
        };
        let mut open = Vec::new();
        for (part, subtask) in work.parts.iter_mut().zip(&work.plan.subtasks) {
            if !part.done && part.until <= now {
                if let Some(late) = part.assignee.take() {
                    work.avoid.insert((subtask.index, late));
                }
                open.push(subtask.clone());
            }
        }
        for (index, did) in assign(&open, &workers, &work.avoid) {
            let Some(part) = usize::try_from(index).ok().and_then(|i| work.parts.get_mut(i)) else {
                continue;
            };
            part.attempt = part.attempt.saturating_add(1);
            (part.assignee, part.reworks, part.result) = (Some(did), 0, None);
            let is_hard = is_divided(part.task.complexity, part.task.depth);
            let levels = levels.get(&did).copied().filter(|_| is_hard).unwrap_or(0);
            part.until = plus(now, timing.part_ms(levels)).min(deadline);
            part.again_at = plus(now, 4 * resend_ms);
            part.task.task_id = named(&judge::part_id(id, index, part.attempt), &me);
            part.task.assigned_to = Some(did);
            part.task.created_at = now;
            part.task.deadline = part.until;
            out.push(order(id, part, did, &work.plan));
        }
        // Nobody is there: once more later.
        for part in work.parts.iter_mut().filter(|part| !part.done && part.assignee.is_none()) {
            part.until = plus(now, resend_ms);
        }
    }

    /// Sends an order again whose answer is missing: it or the answer may be lost.
    fn remind(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let resend_ms = self.genesis.timing.resend_ms;
        let Some(work) = self.tasks.get_mut(id).and_then(|state| state.work.as_mut()) else {
            return;
        };
        for part in work.parts.iter_mut().filter(|part| !part.done && part.again_at <= now) {
            part.again_at = plus(now, 4 * resend_ms);
            if let Some(did) = part.assignee.filter(|_| part.result.is_none()) {
                out.push(order(id, part, did, &work.plan));
            }
        }
    }

    pub(super) fn take_result(
        &mut self,
        kept: &Kept,
        m: &SubmitResult,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let Some((part, _)) = self.part(&m.task_id, m.agent_id) else {
            return refuse(ErrorCode::TaskNotFound, "nobody here has ordered that");
        };
        if !judge::is_whole(m) || m.artifact.producer != m.agent_id {
            return refuse(
                ErrorCode::ResultRejected,
                "the hashes or the size are not those of the content",
            );
        }
        // Of whatever else comes later nothing was looked at.
        if let Some(Message::SubmitResult(good)) = part.good().map(|kept| &kept.message) {
            out.push(send(vec![m.agent_id], verdict(good, true, None)));
            return Ok(());
        }
        match &part.result {
            Some(known) if known.message == kept.message => return Ok(()),
            // Looking at a result is work for this node's agent: one at a time, and another only
            // when it was found wanting, which is counted.
            Some(_) => {
                let reason = "another result of this part is being looked at";
                return refuse(ErrorCode::DuplicateProposal, reason);
            }
            None => part.result = Some(kept.bare()),
        }
        out.extend(part.question().map(Output::Ask));
        Ok(())
    }

    /// The part that an executor works on for this node.
    fn part(&mut self, part_id: &str, executor: Did) -> Option<(&mut Part, String)> {
        self.tasks.iter_mut().find_map(|(id, state)| {
            let parts = &mut state.work.as_mut()?.parts;
            let is_it = |p: &&mut Part| p.task.task_id == part_id && p.assignee == Some(executor);
            parts.iter_mut().find(is_it).map(|part| (part, id.clone()))
        })
    }

    /// Whether a result is looked at here, or was found good.
    pub(super) fn has_result(&self, kept: &Kept) -> bool {
        let works = self.tasks.values().filter_map(|state| state.work.as_ref());
        let results = works.flat_map(|work| &work.parts).filter_map(|part| part.result.as_ref());
        results.into_iter().any(|result| result.message == kept.message)
    }

    /// What this node's agent says of a result.
    pub(super) fn take_check(
        &mut self,
        now: Timestamp,
        part_id: &str,
        artifact_id: &str,
        accepted: bool,
        reason: Option<String>,
        out: &mut Vec<Output>,
    ) {
        let executor = self.tasks.values().find_map(|state| {
            let parts = &state.work.as_ref()?.parts;
            parts.iter().find(|part| part.task.task_id == part_id)?.assignee
        });
        let Some((part, id)) = executor.and_then(|executor| self.part(part_id, executor)) else {
            return;
        };
        let Some(Message::SubmitResult(result)) = part.result.as_ref().map(|r| r.message.clone())
        else {
            return;
        };
        if part.done || result.artifact.artifact_id != artifact_id {
            return;
        }
        if accepted {
            part.done = true;
        } else {
            part.result = None;
            part.reworks += 1;
            part.again_at = part.until;
            if part.reworks > REWORKS_MAX {
                part.until = now;
            }
        }
        out.push(send(vec![result.agent_id], verdict(&result, accepted, reason)));
        self.run_work(now, &id, out);
    }

    /// All parts are done: the whole goes to the witnesses, or up to whoever ordered it.
    fn report(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let (me, resend_ms) = (self.me, self.genesis.timing.resend_ms);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(work) = &mut state.work else {
            return;
        };
        let parts = work.artifacts();
        let is_late = now >= state.task.deadline;
        if judge::end_of(&parts) != End::Succeeded && !is_late {
            return;
        }
        if let Some(result) = &mut state.result {
            if work.reported || !result.leads() {
                work.report_at = plus(now, resend_ms);
                return;
            }
            work.reported = true;
            work.report_at = Timestamp::MAX;
            let mut record = vec![state.origin.clone()];
            record.extend(state.approval.clone());
            record.extend(work.parts.iter().filter(|p| p.done).filter_map(|p| p.result.clone()));
            let outcome = Outcome::Result(judge::ended(judge::end_of(&parts), parts));
            let acts = result.offer(judge::value(outcome, &record), record);
            perform(acts, out);
            return;
        }
        if is_late {
            return self.fail_part(id);
        }
        if now < work.report_at && work.reported {
            return;
        }
        (work.reported, work.report_at) = (true, plus(now, 4 * resend_ms));
        let whole = work.whole(id, me).map(Message::SubmitResult);
        let to = vec![state.originator()];
        match whole.filter(|whole| self.can_say(id, whole, out).is_ok()) {
            Some(whole) => out.push(send(to, whole)),
            None => self.fail_part(id),
        }
    }

    fn tick_result(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id).filter(|state| state.ended.is_none()) else {
            return;
        };
        let Some(result) = &mut state.result else {
            return;
        };
        let acts = result.tick(now);
        let (wanted, _) = perform(acts, out);
        if wanted {
            self.result_wanted(now, id, out);
        }
    }

    /// This node leads now: it coordinates, or says what there is when the time is over.
    fn result_wanted(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let plan = self.winning_plan(state);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let (Some(plan), Some(result)) = (plan, &mut state.result) else {
            return;
        };
        if let Some(cancelled) = &state.cancelled {
            let record = vec![state.origin.clone(), cancelled.clone()];
            let ended = judge::ended(End::Cancelled, vec![None; plan.subtasks.len()]);
            let value = judge::value(Outcome::Result(ended), &record);
            let acts = result.offer(value, record);
            perform(acts, out);
            return;
        }
        if now >= state.task.deadline && state.work.is_none() {
            let record = vec![state.origin.clone()];
            let ended = judge::ended(End::Failed, vec![None; plan.subtasks.len()]);
            let value = judge::value(Outcome::Result(ended), &record);
            let acts = result.offer(value, record);
            perform(acts, out);
            return;
        }
        if let Some(work) = &mut state.work {
            work.reported = false;
            work.report_at = now;
            self.report(now, id, out);
        } else if !result.setting().is_reserve(&self.me) {
            self.coordinate(now, id, out);
        }
    }

    pub(super) fn take_result_word(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        id: &str,
        out: &mut Vec<Output>,
    ) {
        self.learn_task(now, kept, id);
        let deadline = self.tasks.get(id).map(TaskState::ends_at);
        let (Some(TaskState { task, origin, plan, result: Some(result), .. }), Some(deadline)) =
            (self.tasks.get_mut(id), deadline)
        else {
            return;
        };
        let epoch = self.epochs.get(&task.epoch);
        let judge = |value: &Value, record: &[Kept]| {
            // Whoever repeats an order may have sealed it anew.
            let is_ours =
                judge::task_of(record).is_some_and(|(kept, _)| kept.message == origin.message);
            let Some(epoch) = epoch.filter(|_| is_ours) else {
                return Verdict::Invalid;
            };
            let follows = winner(epoch, plan)
                .is_some_and(|plan| judge::check_result(epoch, &plan, value, record).is_ok());
            if !follows {
                return Verdict::Invalid;
            }
            match &value.outcome {
                Outcome::Result(ended)
                    if matches!(ended.end, End::Failed | End::SucceededPartially)
                        && now < deadline =>
                {
                    Verdict::NotYet
                }
                _ => Verdict::Valid,
            }
        };
        let acts = result.take(now, kept, &judge);
        let (wanted, decided) = perform(acts, out);
        if wanted {
            self.result_wanted(now, id, out);
        }
        if decided {
            self.result_decided(id, out);
        }
    }

    fn result_decided(&mut self, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let decided = state.result.as_ref().and_then(Accord::decided);
        let Some(Outcome::Result(ended)) = decided.map(|proven| proven.value.outcome.clone())
        else {
            return;
        };
        // ASIP 18: those who sat for it may forget it.
        if state.table.is_chair(&self.me) {
            let (task_id, reason) = (id.to_owned(), None);
            let to = state.plan.setting().leaders.iter().filter(|did| **did != self.me);
            let to: Vec<Did> = to.copied().collect();
            out.push(send(to, Message::Dissolve(Dissolve { task_id, reason })));
        }
        self.end(id, ended, out);
    }
}

/// The plan that has won.
fn winner(epoch: &Epoch, plan: &Accord) -> Option<Plan> {
    let decided = plan.decided()?;
    let Outcome::Plan(Chosen::Plan { plan_id, .. }) = &decided.value.outcome else {
        return None;
    };
    let deliberation = judge::deliberation(epoch, &decided.record).ok()?;
    deliberation.plans.get(plan_id).map(|plan| (*plan).clone())
}
