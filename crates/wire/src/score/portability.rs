//! Section 10: taking a record elsewhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{Hash32, Timestamp};

use super::{fraction::Fraction, keys::KeySet, publication::Phase};
use crate::settle::Tier;

/// 10.2: an issuer whose exports count here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrustedIssuer {
    pub platform: String,
    pub platform_url: String,
    /// Where its keys are.
    #[serde(alias = "hmac_key_url")]
    pub key_url: String,
    /// Keys that were given by hand; then nothing is fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeySet>,
    /// What part of its sessions is left out.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub import_haircut: Fraction,
    /// Local sessions before anything imported counts.
    pub probation_sessions: u32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub trusted_since: Timestamp,
    pub verification_method: String,
    /// How it is known that sessions there are verified independently (decision 41a).
    pub statement: String,
}

/// 10.2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TrustRegistry {
    pub swarmscore_trust_registry_version: String,
    pub trusted_issuers: Vec<TrustedIssuer>,
}

impl Default for TrustRegistry {
    fn default() -> TrustRegistry {
        let swarmscore_trust_registry_version = "1.0".to_owned();
        TrustRegistry { swarmscore_trust_registry_version, trusted_issuers: Vec::new() }
    }
}

impl TrustRegistry {
    pub fn find(&self, platform: &str) -> Option<&TrustedIssuer> {
        self.trusted_issuers.iter().find(|issuer| issuer.platform == platform)
    }
}

/// `GET /v1/swarmscore/export/{agent}`: local sessions only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Export {
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Publication))]
    pub publication: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Passport))]
    pub passport: Value,
}

/// `POST /v1/swarmscore/import`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportRequest {
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Publication))]
    pub source_publication: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::score::Passport))]
    pub source_passport: Value,
}

impl From<Export> for ImportRequest {
    fn from(export: Export) -> ImportRequest {
        ImportRequest { source_publication: export.publication, source_passport: export.passport }
    }
}

/// What an export says that was counted elsewhere, in its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportedCounts {
    pub conduit_sessions: u64,
    pub conduit_successful: u64,
    pub ap2_sessions: u64,
    pub ap2_successful: u64,
}

/// 10.1 step 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Probation {
    pub local_sessions: u64,
    pub sessions_needed: u64,
    /// What was imported counts for the benchmark and for what is held.
    pub over: bool,
}

/// 10.1 step 4: the tier that a platform without an agreement says the agent has. Its signature was
/// checked; how it counts was not, and nothing of it counts here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InformalTier {
    pub platform: String,
    pub tier: Tier,
    /// Always true.
    pub unverified: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub computed_at: Timestamp,
}

/// What came of an import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportAnswer {
    /// Whether its sessions count; without an agreement with its issuer only its tier is shown.
    pub accepted: bool,
    /// Whether the tier is shown, without counting: its issuer's own keys have signed it.
    #[serde(default)]
    pub noted: bool,
    pub platform: String,
    /// Of the publication: it can be brought once.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub digest: Hash32,
    /// The tier that passport and publication show, the lower one if they differ.
    pub source_tier: Tier,
    pub imported: ImportedCounts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub import_haircut: Option<Fraction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probation: Option<Probation>,
    /// The phase that the agent is in now.
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub ends_at: Option<Timestamp>,
}
