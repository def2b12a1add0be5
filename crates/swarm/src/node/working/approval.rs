//! Plans that the originator wants to see before anybody works.

use skep_base::{Did, Timestamp};
use skep_wire::swarm::{Chosen, End, Message, Outcome};

use super::super::{Node, Output, perform, plus, tasks::TaskState};
use crate::{
    judge,
    kept::{Kept, attach},
};

impl TaskState {
    /// Whether the originator's word can be about the plan that was decided on, as far as that is
    /// known here.
    pub(in crate::node) fn is_about_plan(&self, word: &Kept) -> bool {
        let decided = self.plan.decided().map(|proven| &proven.value.outcome);
        match (&word.message, decided) {
            (Message::Verification(said), Some(Outcome::Plan(Chosen::Plan { plan_id, .. }))) => {
                said.plan_id.as_ref().is_none_or(|id| id == plan_id)
            }
            _ => true,
        }
    }

    /// What was said before the plan was known may have been about another.
    pub(super) fn drop_other_words(&mut self) {
        self.approval = self.approval.take().filter(|word| self.is_about_plan(word));
    }
}

impl Node {
    /// Shows the originator the plan, and again while there is no answer: each time after as long
    /// as it has waited, since people may need hours.
    pub(super) fn ask_for_approval(&mut self, now: Timestamp, id: &str, out: &mut Vec<Output>) {
        let timing = &self.genesis.timing;
        let (soon, late) = (4 * timing.resend_ms, timing.execution_ms);
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let (originator, ends_at) = (state.originator(), state.ends_at());
        let Some(work) = state.work.as_mut().filter(|work| work.report_at <= now) else {
            return;
        };
        if now >= ends_at
            && let Some(result) = &mut state.result
        {
            work.report_at = plus(now, soon);
            let record = vec![state.origin.clone()];
            let ended = judge::ended(End::Failed, vec![None; work.parts.len()]);
            let acts = result.offer(judge::value(Outcome::Result(ended), &record), record);
            perform(acts, out);
            return;
        }
        let since = work.parts.first().map_or(now, |part| part.task.created_at);
        let waited = u64::try_from(now.as_ms() - since.as_ms()).unwrap_or(0);
        work.report_at = plus(now, waited.clamp(soon, late.max(soon)));
        perform(state.plan.tell(vec![originator]), out);
    }

    /// The originator knows the leaders of the swarm, and all witnesses have to know that nobody
    /// waits for it any more: else whoever leads later could say that it was silent for a day.
    pub(in crate::node) fn pass_on_approval(&self, id: &str, out: &mut Vec<Output>) {
        let leaders = self.leaders();
        let Some(state) = self.tasks.get(id).filter(|_| leaders.contains(&self.me)) else {
            return;
        };
        let (Some(approval), Some(result)) = (&state.approval, &state.result) else {
            return;
        };
        let witnesses = result.setting().witnesses.iter();
        let to: Vec<Did> = witnesses.filter(|did| !leaders.contains(did)).copied().collect();
        if !to.is_empty() {
            // The order has its originator's keys.
            let attached = attach(&[state.origin.clone(), approval.clone()]);
            out.push(Output::Send { to, message: approval.message.clone(), attached });
        }
    }

    pub(in crate::node) fn go_on_if_approved(
        &mut self,
        now: Timestamp,
        id: &str,
        out: &mut Vec<Output>,
    ) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let (Some(work), Some(approval)) = (&mut state.work, &state.approval) else {
            return;
        };
        let Message::Verification(said) = &approval.message else {
            return;
        };
        let is_this = said.plan_id.as_ref().is_none_or(|plan_id| *plan_id == work.plan.plan_id);
        if !work.waits_for_approval || !is_this {
            return;
        }
        if said.accepted {
            work.waits_for_approval = false;
            self.run_work(now, id, out);
            return;
        }
        let parts = vec![None; work.parts.len()];
        let record = vec![state.origin.clone(), approval.clone()];
        let outcome = Outcome::Result(judge::ended(End::Rejected, parts));
        if let Some(result) = &mut state.result {
            let acts = result.offer(judge::value(outcome, &record), record);
            perform(acts, out);
        }
    }
}
