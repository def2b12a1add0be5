//! What a session's owner can read.

use skep_base::{AgentId, Hash32, id::SessionId};
use skep_wire::{
    Page,
    conduit::{Session, SessionBundle, SessionProof, Step},
    settle::Attachment,
};

use super::{
    SessionRecord, SessionRefusal, StepRecord, act::bug, attachment_key, proof_key, session_key,
    step_key,
};
use crate::{Failure, Market, Refusal, read::next};

impl Market {
    pub async fn session(&self, agent: &AgentId, id: SessionId) -> Result<Session, Failure> {
        let record = self.own_session(agent, id).await?;
        let page = record.proven.then(|| format!("/sessions/{id}?token={}", self.page_token(id)));
        Ok(Session { proof_page: page, ..record.view(id) })
    }

    /// The steps of a session, oldest first.
    pub async fn session_steps(
        &self,
        agent: &AgentId,
        id: SessionId,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page<Step>, Failure> {
        let record = self.own_session(agent, id).await?;
        let first = match cursor {
            None => 0,
            Some(cursor) => cursor.parse().map_err(|_| Refusal::MalformedCursor)?,
        };
        let limit = u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        let end = record.actions.min(u32::saturating_add(first, limit));
        let keys = (first..end).map(|index| step_key(&id, index)).collect();
        let mut records = self.read_all(keys).await?;
        let mut items = Vec::new();
        while records.len() > 0 {
            let step: Option<StepRecord> = next(&mut records)?;
            let StepRecord { event, head, cost, error, .. } =
                step.ok_or_else(|| bug(format!("a step of {id} is gone")))?;
            items.push(Step { event, head, cost_minor: cost, error });
        }
        Ok(Page { items, next_cursor: (end < record.actions).then(|| end.to_string()) })
    }

    /// The proof of a session that is over, with the pictures and files beside it.
    pub async fn session_proof(
        &self,
        agent: &AgentId,
        id: SessionId,
    ) -> Result<SessionProof, Failure> {
        let record = self.own_session(agent, id).await?;
        self.proof_of(record, id).await
    }

    /// The proof of a session, to whoever has the link to its page.
    pub async fn session_view(&self, id: SessionId, token: &str) -> Result<SessionProof, Failure> {
        let unknown = || Failure::from(SessionRefusal::UnknownSession { session: id });
        if !self.opens(id, token) {
            return Err(unknown());
        }
        let record: Option<SessionRecord> = self.read(session_key(&id)).await?;
        self.proof_of(record.ok_or_else(unknown)?, id).await
    }

    async fn proof_of(
        &self,
        record: SessionRecord,
        id: SessionId,
    ) -> Result<SessionProof, Failure> {
        if !record.is_over() {
            return Err(SessionRefusal::StillOpen.into());
        }
        let proof: Option<SessionProof> = self.read(proof_key(&id)).await?;
        let reason = record.reason.unwrap_or_default();
        let mut proof = proof.ok_or(SessionRefusal::NoProof { reason })?;
        let bundle: SessionBundle = serde_json::from_value(proof.bundle.clone())
            .map_err(|e| bug(format!("the proof of {id} is unreadable: {e}")))?;
        let count = u32::try_from(bundle.action_log.len()).unwrap_or(u32::MAX);
        let keys = (0..count).map(|index| step_key(&id, index)).collect();
        let mut records = self.read_all(keys).await?;
        let mut kept = Vec::new();
        while records.len() > 0 {
            let step: Option<StepRecord> = next(&mut records)?;
            kept.extend(step.into_iter().flat_map(|step| step.attachments));
        }
        kept.sort_unstable();
        kept.dedup();
        proof.attachments = self.attachments(&id, &kept).await?;
        Ok(proof)
    }

    pub(super) async fn attachments(
        &self,
        id: &SessionId,
        kept: &[Hash32],
    ) -> Result<Vec<Attachment>, Failure> {
        let keys = kept.iter().map(|sha256| attachment_key(id, sha256)).collect();
        let mut records = self.read_all(keys).await?;
        let mut attachments = Vec::with_capacity(kept.len());
        while records.len() > 0 {
            let attachment: Option<Attachment> = next(&mut records)?;
            attachments.push(attachment.ok_or_else(|| bug(format!("a picture of {id} is gone")))?);
        }
        Ok(attachments)
    }
}
