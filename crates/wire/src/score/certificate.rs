//! 8.4: what a stranger needs to check a score without trusting its issuer's word.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Hash32};

use super::{fact::NumberedFact, keys::KeySet};
use crate::{
    conduit::SessionProof,
    settle::{SettlementReceipt, VerificationCallback},
};

/// A settlement that was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settled {
    pub receipt: SettlementReceipt,
    /// The verifier's word that it rests on, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<VerificationCallback>))]
    pub callback: Option<Value>,
}

impl Settled {
    /// The callback, if there is one that can be read.
    pub fn callback(&self) -> Option<VerificationCallback> {
        serde_json::from_value(self.callback.clone()?).ok()
    }
}

/// `GET /conduit/agents/{id}/benchmark-certificate`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Certificate {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// As it was signed.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Publication))]
    pub publication: Value,
    /// The newest of the window, oldest first, without a gap.
    pub facts: Vec<NumberedFact>,
    /// The chain's end before the first of them.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub chain_before: Hash32,
    /// Without attachments, newest first.
    pub session_proofs: Vec<SessionProof>,
    pub settlements: Vec<Settled>,
    /// The issuer's keys. Whoever does not trust this copy fetches them.
    pub keys: KeySet,
}
