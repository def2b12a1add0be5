//! What the parts of a task make together.

use skep_base::Did;
use skep_wire::swarm::{Artifact, End, Message, SubmitResult, Subtask};

use super::{Node, Part, Work};
use crate::{
    aggregate::{self, Piece},
    judge,
};

impl Work {
    /// The whole that the parts make, with what each of them holds: whoever has ordered it sees
    /// more than its coordinator's word.
    pub(super) fn whole(&self, id: &str, me: Did) -> Option<SubmitResult> {
        let piece = |(part, subtask): (&Part, &Subtask)| {
            let Message::SubmitResult(result) = &part.result.as_ref()?.message else {
                return None;
            };
            let (content, pieces) = match result.parts.is_empty() {
                true => (result.content.clone(), Vec::new()),
                false => (None, aggregate::pieces(result.content.as_deref()?)?),
            };
            let description = subtask.description.clone();
            Some(Piece { description, artifact: result.artifact.clone(), content, pieces })
        };
        let pieces = self.parts.iter().zip(&self.plan.subtasks).map(piece);
        let pieces = pieces.collect::<Option<Vec<Piece>>>()?;
        let parts: Vec<Artifact> = pieces.iter().map(|piece| piece.artifact.clone()).collect();
        let leaves: Vec<Option<Artifact>> = parts.iter().cloned().map(Some).collect();
        let content = aggregate::written(&pieces)?;
        let artifact = Artifact {
            artifact_id: format!("{id}/whole"),
            task_id: id.to_owned(),
            producer: me,
            content_cid: aggregate::cid(content.as_bytes()),
            merkle_hash: aggregate::root(&leaves),
            content_type: aggregate::WHOLE_TYPE.to_owned(),
            size_bytes: aggregate::size(&parts),
            created_at: self.parts.iter().map(|part| part.task.created_at).max()?,
        };
        let (task_id, merkle_proof) = (id.to_owned(), Vec::new());
        let content = Some(content);
        Some(SubmitResult { task_id, agent_id: me, artifact, merkle_proof, content, parts })
    }
}

impl Node {
    /// Nothing comes of a part that this node has divided further: its time is over, or the whole
    /// is too long.
    pub(super) fn fail_part(&mut self, id: &str) {
        if let Some(state) = self.tasks.get_mut(id) {
            state.ended = Some(judge::ended(End::Failed, Vec::new()));
            self.lay_by(id);
        }
    }
}
