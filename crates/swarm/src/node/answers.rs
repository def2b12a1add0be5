//! What a node answers to requests that want an answer (ASIP 1, 4, 5, 9, 10).
//!
//! An answer is not signed and decides nothing: it says what the node has made of a request, and
//! what follows from it comes as signed messages.

use skep_base::Timestamp;
use skep_wire::swarm::{
    HandshakeResult, Message, Reply, Response, RpcError, SubmitReceipt, TaskResult, TierResult,
};

use super::{Node, Output, Refusal};
use crate::kept::Kept;

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> RpcError {
        RpcError::new(refusal.code, refusal.reason)
    }
}

impl Node {
    /// Refusals of everything that has an id are answered; the rest where its method has a result.
    pub(super) fn answer(
        &self,
        now: Timestamp,
        kept: &Kept,
        taken: &Result<(), Refusal>,
        out: &mut Vec<Output>,
    ) {
        let Some(id) = kept.id.clone() else {
            return;
        };
        let outcome = match taken {
            Ok(()) => self.reply(now, kept).map(Ok),
            Err(refusal) => Some(Err(refusal.clone().into())),
        };
        if let Some(outcome) = outcome {
            let response = Response { id: Some(id), outcome };
            out.push(Output::Answer { to: kept.meta.signer, response });
        }
    }

    /// Says what is so after the request was taken, not what was asked for.
    fn reply(&self, now: Timestamp, kept: &Kept) -> Option<Reply> {
        let signer = &kept.meta.signer;
        Some(match &kept.message {
            Message::Handshake(hello) => {
                let epoch = self.epoch();
                let depth = (1..).take_while(|n| !epoch.layout().tier(*n).is_empty()).count();
                Reply::Handshake(HandshakeResult {
                    accepted: self.peers.contains_key(&hello.agent_id),
                    agent_id: self.me,
                    current_epoch: self.genesis.epoch_at(now),
                    estimated_swarm_size: u64::try_from(epoch.members().len()).unwrap_or(u64::MAX),
                    hierarchy_depth: u32::try_from(depth).unwrap_or(u32::MAX),
                    your_tier: epoch.layout().tier_of(signer),
                })
            }
            Message::AssignTier(m) => {
                Reply::Tier(TierResult { accepted: m.assigned_agent == self.me, agent_id: self.me })
            }
            Message::Inject(m) => {
                let task_id = m.task.task_id.clone();
                let state = self.tasks.get(&task_id);
                let accepted = state.is_some_and(|state| state.origin.message == kept.message);
                Reply::Task(TaskResult { accepted, task_id })
            }
            Message::Assign(m) => {
                let task_id = m.task.task_id.clone();
                let accepted = self.jobs.get(&task_id).is_some_and(|job| job.is_by(signer));
                Reply::Task(TaskResult { accepted, task_id })
            }
            Message::SubmitResult(m) => Reply::Submitted(SubmitReceipt {
                task_id: m.task_id.clone(),
                artifact_id: m.artifact.artifact_id.clone(),
                accepted: self.has_result(kept),
            }),
            _ => return None,
        })
    }
}
