//! 8.4: what a stranger needs to check a score without trusting its issuer's word.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Hash32, Timestamp, ed25519::PublicKey, json};

use super::{fact::NumberedFact, keys::KeySet};
use crate::{
    conduit::SessionProof,
    hire::{EscrowOrder, EscrowTerms},
    settle::{ProofBody, SettlementReceipt},
};

/// A settlement that was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settled {
    pub receipt: SettlementReceipt,
    /// The verdict that it rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The buyer's own word on a hire's escrow, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<Ordered>,
}

/// What a buyer has signed about the money of its hire. The order names the escrow; the amount is
/// in the terms, whose hash the receipt names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ordered {
    pub terms: EscrowTerms,
    pub order: EscrowOrder,
}

/// What a verifier has signed, together with what the receipt says. What was asked for and what was
/// found in it stays between the parties: its hash is in the receipt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verdict {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verifier: AgentId,
    pub kid: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: PublicKey,
    pub passed: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub completed_at: Timestamp,
}

impl Settled {
    /// Whether the verdict's signature, which the receipt names, is by the verdict's key.
    pub fn is_signed(&self, verdict: &Verdict) -> bool {
        let said = &self.receipt.settlement;
        let (Some(verification_id), Some(proof_hash), Some(signature)) =
            (said.verification_id, said.proof_hash, said.proof_signature)
        else {
            return false;
        };
        let body = ProofBody {
            verification_id,
            negotiation_id: said.negotiation_id,
            escrow_ref: said.escrow_id,
            passed: verdict.passed,
            proof_hash,
            completed_at: verdict.completed_at,
        };
        json::to_vec(&body).is_ok_and(|text| verdict.key.verify(&text, &signature).is_ok())
    }
}

/// A record from elsewhere that counts here (10.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportSource {
    /// As it was signed there and brought here.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Publication))]
    pub publication: Value,
    /// The key that signed it, as its platform announced it. Whoever does not trust this copy
    /// fetches it.
    pub keys: KeySet,
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
    /// What `with_imports` rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportSource>,
    /// The issuer's keys. Whoever does not trust this copy fetches them.
    pub keys: KeySet,
}
