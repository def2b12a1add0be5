//! The event log: every step leaves a record, and the records are chained by their hashes.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Hash32, Timestamp,
    hash::{sha256, sha256_parts},
    id::EventId,
};

use crate::turn::RouteKey;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub route: RouteKey,
    /// Orders the events of one route.
    pub version: i64,
    /// Past tense: `transfer.posted`.
    pub kind: String,
    pub at: Timestamp,
    /// JSON, kept byte for byte as it was hashed.
    pub body: String,
    /// Whose inboxes show it.
    pub notify: Vec<AgentId>,
}

impl Event {
    /// What the chain is made of. Every field is length-prefixed, so no two events share bytes.
    pub fn digest(&self) -> Hash32 {
        let id = self.id.to_string();
        let at = self.at.as_ms().to_string();
        let version = self.version.to_string();
        let fields: [&str; 6] = [&id, self.route.as_str(), &version, &self.kind, &at, &self.body];
        let mut bytes = Vec::with_capacity(64 + self.body.len() + 128);
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field.as_bytes());
        }
        sha256(&bytes)
    }
}

/// An event with its number and its link in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    pub seq: i64,
    pub hash: Hash32,
    pub event: Event,
}

/// The end of the chain: whoever keeps it can tell later that nothing before it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub seq: i64,
    pub hash: Hash32,
}

impl Head {
    /// Before the first event.
    pub const START: Head = Head { seq: 0, hash: Hash32::ZERO };

    /// The head after one more event.
    pub fn next(&self, event: &Event) -> Head {
        let seq = self.seq + 1;
        let digest = event.digest();
        let hash = sha256_parts(&[self.hash.as_bytes(), &seq.to_be_bytes(), digest.as_bytes()]);
        Head { seq, hash }
    }
}
