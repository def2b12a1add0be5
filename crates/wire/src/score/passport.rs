//! ATEP: the passport, whole and for everybody.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    ed25519::{SecretKey, Signature},
    json::CanonicalError,
};

use super::{
    event::{BenchmarkEvent, BenchmarkTier},
    portability::InformalTier,
    publication::Publication,
};
use crate::settle::Tier;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PassportIssuer {
    pub platform: String,
    pub platform_url: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
    pub kid: String,
    /// Ed25519 over the canonical JSON of all the rest, in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<Signature>,
}

/// Sessions of both kinds, since the beginning; settlements apart too (3.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicStatistics {
    pub total_sessions: u64,
    pub successful_sessions: u64,
    pub failed_sessions: u64,
    pub success_rate: f64,
    pub ap2_total_sessions: u64,
    pub ap2_successful_sessions: u64,
    pub ap2_success_rate: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub first_session_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub last_session_at: Option<Timestamp>,
}

/// With what the agent has paid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Statistics {
    #[serde(flatten)]
    pub public: PublicStatistics,
    pub total_cost_cents: u64,
    pub average_cost_cents: f64,
}

/// Why a tier is not reached although there are sessions enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Blocked {
    AwaitingCryptographicIdentity,
    AwaitingManualReview,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicTier {
    pub current: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub promoted_at: Option<Timestamp>,
}

/// With the way to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrustTier {
    #[serde(flatten)]
    pub public: PublicTier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_tier: Option<Tier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions_until_next: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_blocked_reason: Option<Blocked>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// The most frequent first.
    pub domains_worked: Vec<String>,
    pub task_types: Vec<String>,
    /// Domains of a specialist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specializations: Vec<String>,
}

/// ATEP's twelve, and the two of 14.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BadgeKind {
    #[serde(rename = "session_milestone_10")]
    SessionMilestone10,
    #[serde(rename = "session_milestone_50")]
    SessionMilestone50,
    #[serde(rename = "session_milestone_100")]
    SessionMilestone100,
    #[serde(rename = "session_milestone_500")]
    SessionMilestone500,
    #[serde(rename = "high_success_90")]
    HighSuccess90,
    #[serde(rename = "high_success_95")]
    HighSuccess95,
    #[serde(rename = "high_success_99")]
    HighSuccess99,
    DomainSpecialist,
    MultiDomain,
    CryptoIdentity,
    ConduitVerified,
    TrustedReview,
    #[serde(rename = "swarmscore:benchmark_standard")]
    BenchmarkStandard,
    #[serde(rename = "swarmscore:benchmark_elite")]
    BenchmarkElite,
}

/// What a badge rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BadgeEvidence {
    pub session_count: u64,
    pub success_rate: f64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Badge {
    pub badge_type: BadgeKind,
    pub label: String,
    pub description: String,
    pub criteria: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub earned_at: Timestamp,
    /// Null for those that are for ever, and for those that are looked at all the time.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub expires_at: Option<Timestamp>,
    /// In the full passport only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<BadgeEvidence>,
}

/// A badge that was held once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoricalBadge {
    pub badge_type: BadgeKind,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub earned_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expired_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Identity {
    pub has_cryptographic_identity: bool,
    /// PEM, Ed25519 SPKI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub key_provisioned_at: Option<Timestamp>,
}

/// 13.4: nothing was assessed, and that is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Safety {
    pub version: String,
    pub prompt_injection_resistance: Option<Value>,
    pub hallucination_rate: Option<Value>,
    pub instruction_following: Option<Value>,
    pub assessed_by: Option<String>,
}

impl Default for Safety {
    fn default() -> Safety {
        Safety {
            version: "1.0".to_owned(),
            prompt_injection_resistance: None,
            hallucination_rate: None,
            instruction_following: None,
            assessed_by: None,
        }
    }
}

/// 7.3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Extensions {
    /// A whole signed [`Publication`], as its issuer wrote it; absent where the agent is too new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Publication>))]
    pub swarmscore: Option<Value>,
    /// 14.3, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarmscore_history: Vec<BenchmarkEvent>,
    #[serde(default)]
    pub swarmscore_safety: Safety,
    /// What platforms without an agreement say. It counts for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarmscore_unverified_imports: Vec<InformalTier>,
}

impl Extensions {
    /// The publication, if there is one that can be read.
    pub fn publication(&self) -> Option<Publication> {
        serde_json::from_value(self.swarmscore.clone()?).ok()
    }

    /// 7.3: what is absent reads as NONE.
    pub fn tier(&self) -> BenchmarkTier {
        self.publication().map_or(BenchmarkTier::None, |publication| publication.score.tier)
    }
}

/// For the agent itself and for exports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Passport {
    pub atep_version: String,
    /// A UUID.
    pub passport_id: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    pub issuer: PassportIssuer,
    pub statistics: Statistics,
    pub trust_tier: TrustTier,
    pub capabilities: Capabilities,
    pub badges: Vec<Badge>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub historical_badges: Vec<HistoricalBadge>,
    pub identity: Identity,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub updated_at: Timestamp,
    #[serde(default)]
    pub extensions: Extensions,
}

/// For everybody. It is signed too (decision 40).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublicPassport {
    pub atep_version: String,
    pub passport_id: String,
    pub issuer: PassportIssuer,
    pub statistics: PublicStatistics,
    pub trust_tier: PublicTier,
    pub capabilities: Capabilities,
    pub badges: Vec<Badge>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub historical_badges: Vec<HistoricalBadge>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub updated_at: Timestamp,
    #[serde(default)]
    pub extensions: Extensions,
}

impl Passport {
    pub fn sign(mut self, key: &SecretKey) -> Result<Passport, CanonicalError> {
        self.issuer.signature = None;
        self.issuer.signature = Some(key.sign(&skep_base::json::to_vec(&self)?));
        Ok(self)
    }
}

impl PublicPassport {
    pub fn sign(mut self, key: &SecretKey) -> Result<PublicPassport, CanonicalError> {
        self.issuer.signature = None;
        self.issuer.signature = Some(key.sign(&skep_base::json::to_vec(&self)?));
        Ok(self)
    }
}
