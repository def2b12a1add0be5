//! 7.1: the publication, and what Skep adds to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    ed25519::{SecretKey, Signature},
    hash::sha256_parts,
    json::CanonicalError,
};

use super::{
    event::{BenchmarkStatus, BenchmarkTier},
    fraction::Fraction,
    parameters::Parameters,
    portability::{ImportedCounts, Probation},
};
use crate::settle::Tier;

/// Who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Issuer {
    /// The host that the issuer is known by.
    pub platform: String,
    pub platform_url: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub computed_at: Timestamp,
    /// Which of the issuer's keys signed.
    pub kid: String,
    /// Ed25519 over the canonical JSON of all the rest, in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<Signature>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScoreValue {
    pub value: u16,
    pub tier: BenchmarkTier,
    pub conduit_contribution: u16,
    pub ap2_contribution: u16,
}

/// What was counted of browser sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Technical {
    pub conduit_sessions_90d: u64,
    pub conduit_successful_90d: u64,
    pub conduit_rate_90d: f64,
    #[serde(alias = "volume_factor")]
    pub conduit_volume_factor: f64,
    pub conduit_sessions_lifetime: u64,
    /// Of the window's sessions: those whose proof was checked.
    pub verified_proof_count: u64,
}

/// What was counted of escrows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Commercial {
    pub ap2_sessions_90d: u64,
    pub ap2_successful_90d: u64,
    pub ap2_rate_90d: f64,
    #[serde(alias = "volume_factor")]
    pub ap2_volume_factor: f64,
    pub ap2_sessions_lifetime: u64,
    /// Since the beginning; USD and its stablecoins only.
    pub total_escrow_released_cents: u64,
    /// Of these, in the window.
    pub escrow_released_90d_cents: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dimensions {
    pub technical_execution: Technical,
    pub commercial_reliability: Commercial,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GateResults {
    pub atep_tier: Tier,
    pub has_cryptographic_identity: bool,
    pub disputed_sessions_active: u32,
    pub meets_conduit_minimum: bool,
    pub meets_ap2_minimum: bool,
    pub meets_success_rate: bool,
    /// 9.7: an agent of the same operator was found to cheat.
    pub operator_under_review: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Escrow {
    /// What the score alone comes to.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub modifier: Fraction,
    /// What is really held of a price (decision 8).
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub effective_modifier: Fraction,
    pub description: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchmarkState {
    pub status: BenchmarkStatus,
    /// NONE unless it is ACTIVE.
    pub tier: BenchmarkTier,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub first_earned_at: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last_evaluated_at: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub continuous_since: Option<Timestamp>,
    pub streak_days: u64,
}

/// 9.3: too much of the volume comes from too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum VolumeFlag {
    /// More than half of the settlements are with one counterparty.
    SingleCounterpartyVolume,
    /// More than seventy per cent are with three.
    FewCounterpartiesVolume,
}

/// 9.8: how varied the work is. It does not change the score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diversity {
    /// Hosts that were worked on.
    pub domains_worked: u64,
    pub task_types: Vec<String>,
    /// Whom the window's settlements were with, over the newest thousand facts.
    pub counterparties: u64,
    pub flags: Vec<VolumeFlag>,
}

/// Which of the agent's facts lie in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogSpan {
    /// One more than `last_n` if there are none.
    pub first_n: u64,
    pub last_n: u64,
    /// `sha256:` and the chain's end before the first of them.
    pub chain_before: String,
    pub chain_after: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// Of the newest sessions, newest first: `sha256:` and the hash.
    pub recent_proof_hashes: Vec<String>,
    /// The end of the chain of all facts.
    pub proof_chain_root: String,
    pub log: LogSpan,
}

/// 11.2: how far an agent has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// 1: up to nine sessions; the score is shown to its owner only.
    #[default]
    Unverified,
    /// 2
    Basic,
    /// 3
    Verified,
}

/// What the numbers come to together with what was imported (10.1). Beside the local score, never
/// in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WithImports {
    pub score: u16,
    pub tier: BenchmarkTier,
    /// The tier that the import gives, at most VERIFIED (11.3).
    pub atep_tier: Tier,
    /// Who issued what was imported.
    pub platform: String,
    /// Before the haircut.
    pub imported: ImportedCounts,
    /// What of their number is left out.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub import_haircut: Fraction,
    pub conduit_sessions_90d: f64,
    pub conduit_successful_90d: f64,
    pub ap2_sessions_90d: f64,
    pub ap2_successful_90d: f64,
    pub probation: Probation,
    /// When what was imported ends to count.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ends_at: Timestamp,
}

/// 7.1, whole, and Skep's additions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Publication {
    pub swarmscore_version: String,
    /// [`super::FORMULA_VERSION`]
    pub formula_version: String,
    /// A UUID.
    pub agent_passport_id: String,
    pub issuer: Issuer,
    pub score: ScoreValue,
    pub dimensions: Dimensions,
    pub gates: GateResults,
    pub parameters: Parameters,
    pub escrow: Escrow,
    pub benchmark: BenchmarkState,
    pub qualification_gaps: Vec<String>,
    /// Points that are missing for the first label; the specification's list does not say it.
    pub score_gap: u16,
    pub phase: Phase,
    /// What buyers are told.
    pub signal: String,
    pub diversity: Diversity,
    pub evidence: Evidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_imports: Option<WithImports>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub valid_until: Timestamp,
}

impl Publication {
    /// Signs it with the key that `issuer.kid` names.
    pub fn sign(mut self, key: &SecretKey) -> Result<Publication, CanonicalError> {
        self.issuer.signature = None;
        let bytes = skep_base::json::to_vec(&self)?;
        self.issuer.signature = Some(key.sign(&bytes));
        Ok(self)
    }
}

/// The id of an agent's passport: a UUID that follows from the agent.
pub fn passport_id(agent: &AgentId) -> String {
    let hash = sha256_parts(&[b"skep/passport/v1", agent.to_string().as_bytes()]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    // Version 8 and the variant of RFC 9562.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What an issuer signs: everything but `issuer.signature`, in canonical form.
pub fn signed_bytes(document: &Value) -> Option<Vec<u8>> {
    let mut unsigned = document.clone();
    unsigned.get_mut("issuer")?.as_object_mut()?.remove("signature")?;
    skep_base::json::to_vec(&unsigned).ok()
}
