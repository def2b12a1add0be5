//! Messages as a node keeps them.

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use skep_wire::swarm::{Check, Claim, Message, OpenError, Signed};

/// A checked message that many may hold. Stored with everything that was signed; what a node reads
/// back from its own store is not checked again.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept(pub Arc<Signed>);

impl Kept {
    /// Without what has come along with it: nobody's memory is filled with that.
    pub(crate) fn bare(&self) -> Kept {
        match &self.attached[..] {
            [] => self.clone(),
            _ => Kept(Arc::new(self.without_attachments())),
        }
    }

    /// What somebody else has said about the same task, where this one only repeats it.
    pub(crate) fn passed_on(&self) -> Option<Kept> {
        let about = |message: &Message| (message.method(), message.task_id().map(str::to_owned));
        let own = about(&self.message);
        self.attached.iter().find(|inner| about(&inner.message) == own).cloned().map(Kept)
    }
}

impl Deref for Kept {
    type Target = Signed;

    fn deref(&self) -> &Signed {
        &self.0
    }
}

impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.to_json().serialize(serializer)
    }
}

struct Checked;

impl Check for Checked {
    fn check(&self, _: &Claim<'_>) -> Result<(), OpenError> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kept, D::Error> {
        let envelope = Value::deserialize(deserializer)?;
        let signed = Signed::from_json(envelope, &Checked).map_err(de::Error::custom)?;
        Ok(Kept(Arc::new(signed)))
    }
}

/// What others are sent along: each once, and without what had come along with it. So nobody passes
/// on what somebody else has repeated.
pub(crate) fn attach(messages: &[Kept]) -> Vec<Arc<Signed>> {
    let mut known = BTreeSet::new();
    let once = messages.iter().filter(|message| known.insert(message.hash()));
    once.map(|message| message.bare().0).collect()
}
