//! What nobody wants any more: a task that is taken back, and the parts of what is over (ASIP 18).

use skep_base::Did;
use skep_wire::swarm::{Chosen, Dissolve, End, ErrorCode, Message, Outcome};

use super::{Node, Output, Refusal, perform, refuse, send, working::Work};
use crate::{
    judge,
    kept::{Kept, attach},
};

impl Node {
    /// ASIP 18: by the originator, the task is taken back; by a coordinator, a part of one.
    pub(super) fn take_dissolve(
        &mut self,
        kept: &Kept,
        m: &Dissolve,
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let passed_on = kept.passed_on();
        let signer = passed_on.as_ref().map_or(kept.meta.signer, |inner| inner.meta.signer);
        if passed_on.is_none() && !kept.attached.is_empty() {
            return refuse(ErrorCode::InvalidParams, "what comes along takes back something else");
        }
        let was_given = self.withdraw_job(&m.task_id, &signer, out);
        let Some(state) = self.tasks.get_mut(&m.task_id) else {
            return match was_given {
                true => Ok(()),
                false => refuse(ErrorCode::TaskNotFound, "there is no such task here"),
            };
        };
        let orders = signer == state.originator();
        if !state.is_root() {
            // Those who sit for a part hear of it from whoever was given the part.
            if orders || state.task.assigned_to == Some(signer) {
                self.withdraw(&m.task_id, out);
            }
        } else if orders && state.ended.is_none() && state.cancelled.is_none() {
            state.cancelled = Some(passed_on.as_ref().unwrap_or(kept).bare());
            self.offer_cancellation(&m.task_id, out);
            if passed_on.is_none() {
                self.pass_on_cancellation(&m.task_id, out);
            }
        }
        Ok(())
    }

    /// The originator knows the leaders of the swarm. Whoever coordinates the work may be another.
    fn pass_on_cancellation(&self, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get(id) else {
            return;
        };
        let accord = state.result.as_ref().unwrap_or(&state.plan);
        let leads = accord.leads_soon().filter(|did| *did != self.me);
        let to: Vec<Did> = leads.filter(|did| !self.leaders().contains(did)).collect();
        if let Some(cancelled) = state.cancelled.clone().filter(|_| !to.is_empty()) {
            // The order has its originator's keys.
            let (task_id, attached) = (id.to_owned(), attach(&[state.origin.clone(), cancelled]));
            let message = Message::Dissolve(Dissolve { task_id, reason: None });
            out.push(Output::Send { to, message, attached });
        }
    }

    /// As a leader: proposes that the task is over because nobody wants it any more.
    pub(super) fn offer_cancellation(&mut self, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(cancelled) = state.cancelled.clone() else {
            return;
        };
        let record = vec![state.origin.clone(), cancelled];
        let acts = match (&mut state.result, state.plan.decided()) {
            (Some(result), _) if result.leads() => {
                let parts = vec![None; state.work.as_ref().map_or(0, Work::len)];
                if parts.is_empty() {
                    return;
                }
                let outcome = Outcome::Result(judge::ended(End::Cancelled, parts));
                result.offer(judge::value(outcome, &record), record)
            }
            (None, None) if state.plan.leads() => {
                let outcome = Outcome::Plan(Chosen::Cancelled);
                state.plan.offer(judge::value(outcome, &record), record)
            }
            _ => return,
        };
        perform(acts, out);
    }

    /// A part is not wanted any more: neither the board that plans it nor those who do it go on.
    pub(super) fn withdraw(&mut self, id: &str, out: &mut Vec<Output>) {
        let Some(state) = self.tasks.get_mut(id).filter(|state| state.ended.is_none()) else {
            return;
        };
        state.ended = Some(judge::ended(End::Cancelled, Vec::new()));
        let (me, table) = (self.me, &state.table);
        let asked = table.forming.iter().flat_map(|forming| &forming.invited);
        let sitting = table.boards.get(&me).into_iter().flat_map(|board| &board.voters);
        let to: Vec<_> = asked.chain(sitting).copied().filter(|did| *did != me).collect();
        if !to.is_empty() {
            let (task_id, reason) = (id.to_owned(), None);
            out.push(send(to, Message::Dissolve(Dissolve { task_id, reason })));
        }
        self.lay_by(id);
        self.withdraw_parts(id, out);
    }

    /// As a coordinator: whoever still works on a part of what is over hears that it can stop.
    pub(super) fn withdraw_parts(&self, id: &str, out: &mut Vec<Output>) {
        let work = self.tasks.get(id).and_then(|state| state.work.as_ref());
        for (assignee, task_id) in work.into_iter().flat_map(Work::open) {
            let dissolve = Dissolve { task_id, reason: None };
            out.push(send(vec![assignee], Message::Dissolve(dissolve)));
        }
    }
}
