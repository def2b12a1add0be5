//! What travels beside a proof, stored apart from it: a deal's records are read often, pictures
//! seldom.

use serde_json::Value;
use skep_base::{
    Hash32,
    id::{DealId, VerificationId},
};
use skep_store::{Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::settle::Attachment;

use super::proof_key;
use crate::{Failure, Market, answer::Stop, read::next};

fn attachment_key(deal: &DealId, hash: &Hash32) -> RecordKey {
    RecordKey { route: RouteKey::of(deal), kind: "attachment", id: hash.to_string() }
}

/// A callback as it is stored: what its attachments hold lies elsewhere.
pub(super) fn without_data(mut callback: Value) -> Value {
    for entry in entries(&mut callback) {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("data");
        }
    }
    callback
}

fn entries(callback: &mut Value) -> impl Iterator<Item = &mut Value> {
    callback.get_mut("attachments").and_then(Value::as_array_mut).into_iter().flatten()
}

fn hash_of(entry: &Value) -> Option<Hash32> {
    entry.get("sha256")?.as_str()?.parse().ok()
}

pub(super) fn load(load: &mut Load, deal: &DealId, attachments: &[Attachment]) {
    let keys = attachments.iter().map(|one| attachment_key(deal, &one.sha256));
    load.records.extend(keys.map(|key| (key, Lock::Exclusive)));
}

/// The same bytes are kept once, whichever verdict names them.
pub(super) fn keep(turn: &mut Turn, deal: &DealId, attachments: &[Attachment]) -> Result<(), Stop> {
    for attachment in attachments {
        let key = attachment_key(deal, &attachment.sha256);
        if turn.record::<Attachment>(&key)?.is_none() {
            turn.put(&key, attachment)?;
        }
    }
    Ok(())
}

impl Market {
    /// The callback to a verification as it came.
    pub(super) async fn callback_to(&self, id: &VerificationId) -> Result<Option<Value>, Failure> {
        match self.read(proof_key(id)).await? {
            Some(stored) => self.with_data(id, stored).await.map(Some),
            None => Ok(None),
        }
    }

    /// A stored callback with its attachments put back.
    pub(super) async fn with_data(
        &self,
        id: &VerificationId,
        mut stored: Value,
    ) -> Result<Value, Failure> {
        let hashes: Vec<Hash32> = entries(&mut stored).filter_map(|e| hash_of(e)).collect();
        if hashes.is_empty() {
            return Ok(stored);
        }
        let keys = hashes.iter().map(|hash| attachment_key(&id.deal(), hash)).collect();
        let mut records = self.read_all(keys).await?;
        let mut found = Vec::<Attachment>::new();
        for _ in &hashes {
            found.extend(next::<Attachment>(&mut records)?);
        }
        for entry in entries(&mut stored) {
            let kept = found.iter().find(|kept| Some(kept.sha256) == hash_of(entry));
            if let Some(kept) = kept {
                entry["data"] = Value::String(kept.data.clone());
            }
        }
        Ok(stored)
    }
}
