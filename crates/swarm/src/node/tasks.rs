//! Tasks: how they come in, how they are taken back, how they end (ASIP 5, decisions 44b, 51).

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use skep_base::{Did, Timestamp};
use skep_wire::swarm::{
    Chosen, End, Ended, ErrorCode, Inject, Message, Outcome, REQUIRED_MAX, Subject, TAG_LEN,
    TASK_SUBTASKS_MAX, Task, Value, Verification, is_named_by,
};

use super::{
    Event, Node, Output, Refusal,
    graves::OVER_MAX,
    patience::patient_until,
    perform, plus, refuse,
    shares::{BROUGHT_MAX, Share, Speaks, TASKS_MAX},
    table::{Board, Phase, Table},
    working::Work,
};
use crate::{
    accord::{Accord, Setting, Verdict},
    draw::WITNESSES_MAX,
    epoch::Epoch,
    judge::{self, DESCRIPTION_LEN_MAX, NAME_LEN_MAX, json_len},
    kept::Kept,
    layout::K_MAX,
};

/// The longest id of a task; parts of parts have longer ones.
pub const TASK_ID_LEN_MAX: usize = 128;
/// The longest task, as JSON: invitations and boards repeat it, beside who sits there.
pub const ORDER_LEN_MAX: usize = 48 << 10;
/// How far away a deadline may be.
pub const DEADLINE_MAX_MS: u64 = 30 * 86_400_000;
/// How long after its deadline a task that never ended is forgotten.
pub const FORGET_AFTER_MS: u64 = 3_600_000;
/// Who is no witness may miss the end.
const GUEST_FORGETS_AFTER_MS: u64 = 60_000;
/// How long an originator may take to approve of a plan: nobody keeps a place for ever by silence.
pub const APPROVAL_MAX_MS: u64 = 86_400_000;
/// Tasks that a node knows of at a time: room for all that a third of 64 members may bring, beside
/// those that are over and what all leaders may take.
const KNOWN_MAX: usize = WITNESSES_MAX / 3 * BROUGHT_MAX + OVER_MAX + K_MAX * 2 * TASKS_MAX;
/// Decision 50.
pub const DEPTH_MAX: u32 = 10;

/// What a node knows of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskState {
    pub(super) task: Task,
    /// The order from outside, or the assignment by the parent's coordinator.
    pub(super) origin: Kept,
    /// Who has brought it here: its share of this node's memory is limited.
    pub(super) by: Did,
    /// It came along with a word about it: whoever passes an order on does not speak for it.
    #[serde(default)]
    pub(super) is_forwarded: bool,
    pub(super) plan: Accord,
    /// For a task from outside: until then this witness hopes for a fuller record.
    #[serde(default)]
    pub(super) patient_until: Option<Timestamp>,
    pub(super) table: Table,
    pub(super) result: Option<Accord>,
    /// When the plan was final here.
    #[serde(default)]
    pub(super) planned_at: Option<Timestamp>,
    pub(super) work: Option<Work>,
    pub(super) cancelled: Option<Kept>,
    /// What the originator says of the plan, where it wants to be asked.
    pub(super) approval: Option<Kept>,
    pub(super) ended: Option<Ended>,
    /// The bytes of its messages, when it is over.
    #[serde(default)]
    pub(super) over_len: usize,
}

impl TaskState {
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        if self.ended.is_some() {
            return None;
        }
        let accord = match &self.result {
            Some(result) => result.wake_at(),
            None => self.plan.wake_at(),
        };
        let work = self.work.as_ref().and_then(Work::wake_at);
        let table = if self.plan.decided().is_some() { None } else { self.table.wake_at() };
        [accord, work, table].into_iter().flatten().min()
    }

    /// Whether the originator still has to say something about the plan.
    pub(super) fn waits(&self) -> bool {
        self.task.needs_approval && self.approval.is_none()
    }

    /// When it has failed if nothing more happens.
    pub(super) fn ends_at(&self) -> Timestamp {
        match self.planned_at.filter(|_| self.waits()) {
            Some(at) => plus(at, APPROVAL_MAX_MS).min(self.task.deadline),
            None => self.task.deadline,
        }
    }

    pub(super) fn originator(&self) -> Did {
        self.origin.meta.signer
    }

    /// The bytes of what is kept of it.
    pub(super) fn messages_len(&self) -> usize {
        let single = [Some(&self.origin), self.cancelled.as_ref(), self.approval.as_ref()];
        let single: usize = single.into_iter().flatten().map(|kept| kept.wire_len()).sum();
        let accords = [Some(&self.plan), self.result.as_ref()].into_iter().flatten();
        let work = self.work.as_ref().map_or(0, Work::results_len);
        single + accords.map(Accord::decided_len).sum::<usize>() + self.table.len() + work
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.origin.message, Message::Inject(_))
    }
}

impl Node {
    pub(super) fn epoch_of(&self, task: &Task) -> Option<Arc<Epoch>> {
        self.epochs.get(&task.epoch).cloned()
    }

    /// ASIP 5, sent to this node by whoever wants the work done.
    pub(super) fn take_inject(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        inject: &Inject,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let id = inject.task.task_id.clone();
        if let Some(known) = self.tasks.get(&id) {
            if known.origin.message != kept.message {
                return refuse(ErrorCode::DuplicateProposal, "another task has this id");
            }
            if known.ended.is_some() {
                self.answer_originator(now, &id, out);
                return Ok(());
            }
        } else {
            self.check_unburied(&kept.message)?;
            let leads = self.leaders().contains(&self.me);
            if !leads && self.epoch().is_tier1(&self.me) {
                let reason = "another acts for this agent until the next election";
                return refuse(ErrorCode::InvalidRequest, reason);
            }
            if !leads {
                return refuse(ErrorCode::InvalidRequest, "tasks go to a Tier-1 agent");
            }
            if inject.task.deadline <= now {
                return refuse(ErrorCode::DeadlineExceeded, "the deadline has passed");
            }
            self.open_task(now, kept, self.me, Speaks::Itself)?;
            self.admit_successor(&id, self.me);
            out.push(Output::Event(Event::Injected { task_id: id.clone() }));
        }
        // Where a board sits already, a second one would only slow it down.
        let sits =
            |chair: &Did, board: &Board| board.phase != Phase::Over && self.hears(now, chair);
        let waits = self.tasks.get(&id).is_some_and(|known| {
            let may_lead = known.plan.view() == 0 && known.plan.leads();
            may_lead
                && !known.table.is_chair(&self.me)
                && !known.table.boards.iter().any(|(chair, board)| sits(chair, board))
        });
        if waits {
            self.take_the_chair(now, &id, out);
        }
        Ok(())
    }

    /// Who acts for a leader of the task's epoch may be the first to propose.
    pub(super) fn admit_successor(&mut self, id: &str, did: Did) {
        let epoch = self.tasks.get(id).map(|state| state.task.epoch);
        if epoch.is_some_and(|epoch| self.is_successor(epoch, &did))
            && let Some(state) = self.tasks.get_mut(id)
        {
            state.plan.admit(did);
        }
    }

    /// The epoch in which a task was ordered, where this node was a member: others have no part in
    /// it, and nobody would tell a stranger the end.
    fn epoch_as_member(&self, task: &Task) -> Result<Arc<Epoch>, Refusal> {
        let Some(epoch) = self.epoch_of(task) else {
            let reason = format!("the election of epoch {} is not known here", task.epoch);
            return refuse(ErrorCode::EpochMismatch, reason);
        };
        if !epoch.contains(&self.me) {
            let reason = "this node was no member when it was ordered";
            return refuse(ErrorCode::EpochMismatch, reason);
        }
        Ok(epoch)
    }

    /// Begins to take part in a task that somebody speaks for, from the order that it rests on.
    pub(super) fn open_task(
        &mut self,
        now: Timestamp,
        origin: &Kept,
        by: Did,
        speaks: Speaks,
    ) -> Result<(), Refusal> {
        let (task, chair) = match &origin.message {
            Message::Inject(inject) => (&inject.task, None),
            Message::Assign(assign) => (&assign.task, Some(assign.assignee)),
            _ => return refuse(ErrorCode::TaskNotFound, "no order comes with it"),
        };
        if let Some(known) = self.tasks.get(&task.task_id) {
            if known.origin.message != origin.message {
                return refuse(ErrorCode::DuplicateProposal, "another task has this id");
            }
            if speaks == Speaks::Itself {
                self.charge_chair(&task.task_id, by);
            }
            return Ok(());
        }
        self.check_unburied(&origin.message)?;
        self.check_task(now, task, chair.is_none())?;
        check_name(task, &origin.meta.signer)?;
        self.check_graves(now, task)?;
        let epoch = self.epoch_as_member(task)?;
        if self.tasks.len() >= KNOWN_MAX {
            return refuse(ErrorCode::InvalidRequest, "this node knows too many tasks");
        }
        let share = Share {
            by,
            is_root: chair.is_none(),
            is_forwarded: speaks == Speaks::ForOthers,
            needs_approval: task.needs_approval,
        };
        self.count_task(now, &origin.meta.signer, &share)?;
        let subject = Subject::Plan { task_id: task.task_id.clone() };
        let timing = &self.genesis.timing;
        let witnesses = judge::witnesses_of(&epoch, origin);
        let (leaders, reserves) = who_leads(&epoch, &subject, chair, &witnesses);
        let setting = Setting {
            witnesses,
            leaders,
            reserves,
            subject,
            anyone_first: true,
            slow_ms: timing.planning_ms(),
            quick_ms: timing.view_ms,
            deadline: task.deadline,
            resend_ms: timing.resend_ms,
        };
        let state = TaskState {
            task: task.clone(),
            origin: origin.bare(),
            by,
            is_forwarded: share.is_forwarded,
            plan: Accord::new(self.me, setting, vec![origin.bare()], now),
            patient_until: chair.is_none().then(|| patient_until(timing, now, task.deadline)),
            table: Table::default(),
            result: None,
            planned_at: None,
            work: None,
            cancelled: None,
            approval: None,
            ended: None,
            over_len: 0,
        };
        self.tasks.insert(task.task_id.clone(), state);
        Ok(())
    }

    pub(super) fn check_task(
        &self,
        now: Timestamp,
        task: &Task,
        is_root: bool,
    ) -> Result<(), Refusal> {
        if task.description.len() > DESCRIPTION_LEN_MAX {
            let reason = format!("a description has at most {DESCRIPTION_LEN_MAX} bytes");
            return refuse(ErrorCode::InvalidParams, reason);
        }
        if json_len(task) > ORDER_LEN_MAX {
            let reason = format!("a task has at most {ORDER_LEN_MAX} bytes");
            return refuse(ErrorCode::InvalidParams, reason);
        }
        let id_max = if is_root { TASK_ID_LEN_MAX + TAG_LEN } else { 4 * TASK_ID_LEN_MAX };
        if task.task_id.is_empty() || task.task_id.len() > id_max {
            let reason = format!("the id of a task has 1 to {id_max} bytes");
            return refuse(ErrorCode::InvalidParams, reason);
        }
        let parent = task.parent_task_id.as_ref().map_or(0, String::len);
        if !judge::are_names(&task.subtasks, TASK_SUBTASKS_MAX)
            || !judge::are_names(&task.capabilities_required, REQUIRED_MAX)
            || parent > NAME_LEN_MAX
        {
            let reason = format!(
                "a task names at most {TASK_SUBTASKS_MAX} others and {REQUIRED_MAX} capabilities, \
                 in {NAME_LEN_MAX} bytes each"
            );
            return refuse(ErrorCode::InvalidParams, reason);
        }
        if task.depth > DEPTH_MAX || (task.depth == 0) != is_root {
            return refuse(ErrorCode::InvalidParams, "the depth is not what it can be");
        }
        if task.needs_approval && !is_root {
            return refuse(ErrorCode::InvalidParams, "nobody is asked about the plan of a part");
        }
        if task.deadline > plus(now, DEADLINE_MAX_MS) {
            let days = DEADLINE_MAX_MS / 86_400_000;
            let reason = format!("a deadline is at most {days} days away");
            return refuse(ErrorCode::InvalidParams, reason);
        }
        if plus(task.deadline, FORGET_AFTER_MS) <= now {
            return refuse(ErrorCode::DeadlineExceeded, "the task is long over");
        }
        Ok(())
    }

    /// Whoever takes part in what is decided about a task hears of it there, if not before.
    pub(super) fn learn_task(&mut self, now: Timestamp, kept: &Kept, id: &str) {
        if self.tasks.contains_key(id) {
            return;
        }
        let attached: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        if let Some((origin, task)) = judge::task_of(&attached)
            && task.task_id == id
        {
            // A refusal leaves the task unknown, and what follows does nothing.
            let _ = self.open_task(now, origin, kept.meta.signer, Speaks::ForOthers);
        }
    }

    /// Runs everything that waits for a time.
    pub(super) fn run_tasks(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let due = |task: &TaskState| task.wake_at().is_some_and(|at| at <= now);
        let ids: Vec<String> =
            self.tasks.iter().filter(|(_, task)| due(task)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.run_planning(now, &id, out);
            self.run_work(now, &id, out);
        }
        self.forget(now);
    }

    pub(super) fn forget(&mut self, now: Timestamp) {
        self.tasks.retain(|_, state| {
            let rest_ms =
                if state.plan.is_witness() { FORGET_AFTER_MS } else { GUEST_FORGETS_AFTER_MS };
            state.ended.is_some() || now < plus(state.task.deadline, rest_ms)
        });
        self.bury_old();
        self.graves.retain(|_, grave| now < grave.until);
    }

    /// ASIP 11: from a coordinator about work, or from the originator about the plan.
    pub(super) fn take_verification(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        m: &Verification,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let passed_on = kept.passed_on();
        let word = passed_on.as_ref().unwrap_or(kept);
        if let Some(state) = self.tasks.get_mut(&m.task_id)
            && state.is_root()
            && word.meta.signer == state.originator()
        {
            let is_better = state.approval.as_ref().is_none_or(|word| !state.is_about_plan(word));
            if is_better && state.is_about_plan(word) {
                state.approval = Some(word.bare());
                self.pass_on_approval(&m.task_id, out);
            }
            self.go_on_if_approved(now, &m.task_id, out);
            return Ok(());
        }
        self.take_judgement(now, kept, m, out)
    }

    pub(super) fn take_plan_word(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        id: &str,
        out: &mut Vec<Output>,
    ) {
        self.learn_task(now, kept, id);
        if self.answer_late(now, kept, id, out) {
            return;
        }
        let Some(epoch) = self.tasks.get(id).and_then(|state| self.epoch_of(&state.task)) else {
            return;
        };
        let attached: Vec<Kept> = kept.attached.iter().cloned().map(Kept).collect();
        self.learn_successions(now, epoch.number(), &attached, out);
        self.admit_successor(id, kept.meta.signer);
        let onlooker = self.onlooker(now, &epoch, id, kept);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let (deadline, origin) = (state.task.deadline, &state.origin.message);
        let table = &state.table;
        let judge = |value: &Value, record: &[Kept]| {
            // Whoever repeats an order may have sealed it anew.
            let is_ours = judge::task_of(record).is_some_and(|(kept, _)| kept.message == *origin);
            if !is_ours || judge::check_plan(&epoch, value, record).is_err() {
                return Verdict::Invalid;
            }
            match value.outcome {
                Outcome::Plan(Chosen::TooLate) if now < deadline => Verdict::NotYet,
                Outcome::Plan(Chosen::Plan { .. } | Chosen::NoPlan)
                    if onlooker.is_early(table, &epoch, value, record) =>
                {
                    Verdict::NotYet
                }
                _ => Verdict::Valid,
            }
        };
        let acts = state.plan.take(now, kept, &judge);
        let (wanted, decided) = perform(acts, out);
        if wanted {
            self.plan_wanted(now, id, out);
        }
        if decided {
            self.plan_decided(now, id, out);
        }
    }

    /// Whoever asks about a plan that is final hears of it, and of the end if there is one.
    fn answer_late(
        &mut self,
        now: Timestamp,
        kept: &Kept,
        id: &str,
        out: &mut Vec<Output>,
    ) -> bool {
        let Some(state) = self.tasks.get_mut(id).filter(|state| state.plan.decided().is_some())
        else {
            return false;
        };
        let acts = state.plan.take(now, kept, &|_, _| Verdict::Invalid);
        let asked = !acts.is_empty();
        perform(acts, out);
        if let Some(result) = state.result.as_ref().filter(|_| asked) {
            perform(result.tell(vec![kept.meta.signer]), out);
        }
        true
    }

    /// What follows when a plan, or that there is none, is final.
    pub(super) fn plan_decided(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(decided) = state.plan.decided() else {
            return;
        };
        let value = decided.value.clone();
        let guests = self.guests(id);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(decided) = state.plan.decided() else {
            return;
        };
        perform(state.plan.tell(guests), out);
        // The record has what counts of it.
        state.table.said.clear();
        out.push(Output::Event(Event::PlanDecided {
            task_id: id.to_owned(),
            value: value.clone(),
        }));
        if let Some(epoch) = self.epochs.get(&state.task.epoch)
            && let Ok(deliberation) = judge::deliberation(epoch, &decided.record)
        {
            for did in deliberation.caught {
                out.push(Output::Event(Event::VoterCaught { did, task_id: id.to_owned() }));
            }
        }
        let end = match value.outcome {
            Outcome::Plan(Chosen::Plan { proposer, .. }) => {
                self.begin_result(now, id, proposer, out);
                return;
            }
            Outcome::Plan(Chosen::Cancelled) => End::Cancelled,
            _ => End::Unplanned,
        };
        self.end(id, judge::ended(end, Vec::new()), out);
    }

    /// The task is over here.
    pub(super) fn end(&mut self, id: &str, ended: Ended, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(ended.clone());
        let leads = |accord: &Accord| {
            accord.setting().leaders.contains(&self.me) || accord.has_led(&self.me)
        };
        let leads = state.result.as_ref().map_or_else(|| leads(&state.plan), leads)
            || state.table.boards.contains_key(&self.me);
        let is_root = state.is_root();
        self.lay_by(id);
        self.withdraw_parts(id, out);
        if is_root {
            out.push(Output::Event(Event::Ended { task_id: id.to_owned(), ended }));
            let guests = self.guests(id);
            if let Some(result) = self.tasks.get(id).and_then(|state| state.result.as_ref()) {
                perform(result.tell(guests), out);
            }
            if leads {
                self.tell_originator(id, out);
            }
        }
    }

    /// Whoever orders again what is over has not heard of the end.
    fn answer_originator(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        if let Some(state) = self.tasks.get_mut(id) {
            let originator = state.originator();
            let accord = state.result.as_mut().unwrap_or(&mut state.plan);
            perform(accord.tell_again(now, originator), out);
        }
    }

    fn tell_originator(&self, id: &str, out: &mut Vec<Output>) {
        if let Some(state) = self.tasks.get(id) {
            let accord = state.result.as_ref().unwrap_or(&state.plan);
            perform(accord.tell(vec![state.originator()]), out);
        }
    }

    /// How tasks that this node knows of have ended, for whoever watches.
    pub fn ends(&self) -> BTreeMap<&str, Option<&Ended>> {
        let roots = self.tasks.iter().filter(|(_, state)| state.is_root());
        roots.map(|(id, state)| (id.as_str(), state.ended.as_ref())).collect()
    }
}

/// Who decides about a task, and who ends it when all of them have failed.
fn who_leads(
    epoch: &Epoch,
    subject: &Subject,
    chair: Option<Did>,
    witnesses: &[Did],
) -> (Vec<Did>, Vec<Did>) {
    match chair {
        Some(chair) => (vec![chair], Vec::new()),
        None => (epoch.leaders(subject), epoch.reserves(subject, witnesses)),
    }
}

/// Nobody takes the id of another one's task: witnesses who heard of that first would refuse the
/// right one.
pub(super) fn check_name(task: &Task, by: &Did) -> Result<(), Refusal> {
    if is_named_by(&task.task_id, by) {
        return Ok(());
    }
    refuse(ErrorCode::InvalidParams, "the id of a task ends with who orders it")
}
