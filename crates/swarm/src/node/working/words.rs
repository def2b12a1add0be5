//! What a coordinator says to those who work for it.

use skep_base::Did;
use skep_wire::swarm::{Assign, Message, Plan, SubmitResult, Verification};

use super::{Part, judge::DESCRIPTION_LEN_MAX};
use crate::node::{Output, send};

pub(super) fn order(id: &str, part: &Part, assignee: Did, plan: &Plan) -> Output {
    let assign = Assign {
        task: part.task.clone(),
        assignee,
        parent_task_id: id.to_owned(),
        winning_plan_id: plan.plan_id.clone(),
    };
    send(vec![assignee], Message::Assign(assign))
}

/// As much of a reason as is sent.
fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(DESCRIPTION_LEN_MAX)]
}

pub(super) fn verdict(result: &SubmitResult, accepted: bool, reason: Option<String>) -> Message {
    Message::Verification(Verification {
        task_id: result.task_id.clone(),
        agent_id: result.agent_id,
        accepted,
        reason: reason.map(|reason| shortened(&reason).to_owned()),
        plan_id: None,
        content_cid: Some(result.artifact.content_cid.clone()),
    })
}
