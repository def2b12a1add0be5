//! 3.5 and 3.6, and the proof bundle of section 5.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Hash32, Timestamp,
    ed25519::Signature,
    hash::sha256,
    id::{DealId, VerificationId},
};

use super::delivery::Artifact;
use crate::conduit::CostCategory;

/// What a verifier is to check: the frozen terms, with what the delivery filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerificationSpec {
    /// The engine.
    #[serde(rename = "type")]
    pub kind: String,
    pub url: Option<String>,
    pub selector: Option<String>,
    pub expected_content: Option<String>,
    pub fingerprint_delta: bool,
    pub timeout_seconds: u64,
    /// The page's fingerprint when the deal was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub baseline_fingerprint: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Value>,
}

/// Where a verification belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Context {
    pub marketplace: String,
    /// `escrow_verification`
    pub purpose: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_ref: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
}

/// 3.5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerificationRequest {
    pub vcap_version: String,
    /// `verification_request`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub spec: VerificationSpec,
    pub context: Context,
    /// SHA-256 over the agreed terms.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub terms_hash: Hash32,
    /// What was delivered.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requested_at: Timestamp,
}

/// An engine's or a person's word. `VERIFIED` and `passed` always agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    Verified,
    /// An engine found the criteria not met.
    Failed,
    /// A person, or the requester, did.
    Rejected,
    /// Nothing could be found out: no money moves.
    Error,
}

impl Outcome {
    pub fn passed(self) -> bool {
        self == Outcome::Verified
    }
}

/// One step of a verifier. It is hashed as it is sent, unknown fields included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Action {
    /// From 0.
    pub index: u32,
    /// `NAVIGATE`, `EXTRACT`, `FINGERPRINT`, …
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    pub success: bool,
    pub cost_cents: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub timestamp: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_snippet: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_category: Option<CostCategory>,
    /// What it was given, passwords and the like left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Of all that it gave, where that is more than the snippet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub data_sha256: Option<Hash32>,
    /// A PNG among the attachments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub screenshot_sha256: Option<Hash32>,
    /// Of the page afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub fingerprint: Option<Hash32>,
}

impl Action {
    /// A step that has just begun.
    pub fn begun(index: usize, action: &str, timestamp: Timestamp) -> Action {
        Action {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            action: action.to_owned(),
            url: None,
            selector: None,
            success: false,
            cost_cents: 0,
            duration_ms: None,
            timestamp,
            data_snippet: None,
            cost_category: None,
            input: None,
            data_sha256: None,
            screenshot_sha256: None,
            fingerprint: None,
        }
    }
}

/// Something too large for a log, named there by its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attachment {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub sha256: Hash32,
    /// `image/png`, `text/plain`, …
    pub media_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Base64.
    pub data: String,
}

impl Attachment {
    pub fn new(bytes: &[u8], media_type: &str, name: Option<&str>) -> Attachment {
        Attachment {
            sha256: sha256(bytes),
            media_type: media_type.to_owned(),
            name: name.map(str::to_owned),
            data: STANDARD.encode(bytes),
        }
    }

    /// The bytes, if they are what the hash says. Base64 is read strictly: one text for each.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let bytes = STANDARD.decode(&self.data).ok()?;
        (sha256(&bytes) == self.sha256).then_some(bytes)
    }
}

/// A page before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fingerprints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub baseline: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub current: Option<Hash32>,
}

/// Who verified, with which key and what software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifierStamp {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: AgentId,
    pub kid: String,
    pub software: String,
}

/// 5.4: the verifier's own identity, signed by its registered key over `agent_id` and `timestamp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentIdentity {
    pub agent_id: String,
    /// PEM, Ed25519 SPKI.
    pub public_key: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub timestamp: Timestamp,
}

/// Why nothing could be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorReport {
    /// `unreachable`, `refused_address`, `bad_selector`, …
    pub code: String,
    pub detail: String,
}

/// A reviewer's division of the price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SplitVerdict {
    /// What the provider gets, in minor units.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub released_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub refunded_minor: Amount,
}

/// What a verification found and how. `proof_hash` is the SHA-256 of its canonical JSON, so it
/// holds neither hash nor signature of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProofBundle {
    /// `skep/vcap-proof/v1`
    pub format: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_ref: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub terms_hash: Hash32,
    pub spec: VerificationSpec,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
    /// Of the callback's `extracted_content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub extracted_content_sha256: Option<Hash32>,
    /// As they were sent; [`Action`] is how they are read.
    pub action_log: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub action_log_head: Option<Hash32>,
    /// `sha256-jcs-hex/1`
    pub chain_alg: String,
    #[serde(default)]
    pub fingerprints: Fingerprints,
    /// Of what was delivered, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub artifact_hashes: Vec<Hash32>,
    pub verifier: VerifierStamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_identity: Option<AgentIdentity>,
    /// The verification that this one takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub supersedes: Option<VerificationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitVerdict>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub started_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub completed_at: Timestamp,
}

/// 5.2: exactly these six are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProofBody {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_ref: DealId,
    pub passed: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub completed_at: Timestamp,
}

/// 3.6. Its signature is its authentication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerificationCallback {
    pub vcap_version: String,
    /// `verification_callback`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    pub passed: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_hash: Hash32,
    /// Base64url.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_signature: Signature,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extracted_content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(default)]
    pub action_log: Vec<Value>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub completed_at: Timestamp,
    /// The bundle that `proof_hash` is of; only a verifier registered for it may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_bundle: Option<Value>,
    /// Where the bundle can be fetched instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_bundle_uri: Option<String>,
    /// Which of the verifier's keys signed, where no bundle says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// What the bundle's actions name by hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

/// 4.3, and REJECTED for a person's no (decision 29).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum VerificationStatus {
    Pending,
    Running,
    Verified,
    Failed,
    Rejected,
    Timeout,
    Error,
}

/// `GET /vcap/v1/verifications/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verification {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verification_id: VerificationId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub status: VerificationStatus,
    /// The engine, `human` or `requester`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verifier: Option<AgentId>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub deadline: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub supersedes: Option<VerificationId>,
    /// What the verifier was asked.
    pub request: VerificationRequest,
    /// What the verifier answered, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Value>,
    /// Where people can look at the answer, on this node. Whoever has the link may look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_page: Option<String>,
}

/// The page's fingerprint before the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BaselineReport {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fingerprint: Hash32,
}
