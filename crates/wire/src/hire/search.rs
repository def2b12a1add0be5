//! 6: finding sellers.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Timestamp, id::ListingId};

use super::{Listing, Usdc};
use crate::score::{BenchmarkTier, Phase};

pub const SEARCH_LIMIT_DEFAULT: u32 = 10;
pub const SEARCH_LIMIT_MAX: u32 = 100;

/// How a capability is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Match {
    #[default]
    Exact,
    /// The same words at the beginning: `text.translate` finds `text.translate.en.it.fluent`.
    Prefix,
}

/// `POST /v1/search`. A capability, words of a description, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Search {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    #[serde(default, rename = "match")]
    pub matching: Match,
    /// Words that a listing's description or capability has, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_price_usdc: Option<Usdc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_success_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_avg_stars: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_trust_tier: Option<u8>,
    /// `direct`, `platform_escrow:NAME`, `platform_escrow:*`, `custom_escrow:…`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clarification_supported: Option<bool>,
    /// `v0` or `v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_verification_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_participating: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_call_free: Option<bool>,
    /// SwarmScore: only sellers that hold this benchmark, or a higher one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub benchmark: Option<BenchmarkTier>,
    /// Only this agent's listings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub agent_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// 6.2. What is not known yet is null and passes no minimum.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reputation {
    pub success_rate: Option<f64>,
    pub avg_latency_ms: Option<u64>,
    /// Receipts of the last 30 days.
    pub last_30d_hire_count: Option<u64>,
    pub avg_stars: Option<f64>,
    pub total_ratings: Option<u64>,
    pub claimed: bool,
    pub trust_tier: Option<u8>,
}

/// Why a listing stands where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ranking {
    /// Higher is better; equal ones stand by their id.
    pub score: i64,
    /// What made the score, most important first, for people.
    pub because: Vec<String>,
}

/// One seller that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Found {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub listing_id: ListingId,
    /// As the seller signed it: check it before you pay.
    pub listing: Listing,
    pub reputation: Reputation,
    /// Whether its address answered when it was last asked.
    pub alive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub checked_at: Option<Timestamp>,
    /// Whether the seller's key was shown to be at its address.
    #[serde(default)]
    pub endpoint_proven: bool,
    pub ranking: Ranking,
    /// The benchmark that the seller holds.
    #[serde(default)]
    pub benchmark: BenchmarkTier,
    /// SwarmScore 11.2: how far the seller has come.
    #[serde(default)]
    pub phase: Phase,
    /// The same in a sentence, for people.
    #[serde(default)]
    pub signal: String,
    /// The whole hundreds of its SwarmScore, if that is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_at_least: Option<u16>,
    /// SwarmScore 9.7: fraud was found at the seller's operator.
    #[serde(default)]
    pub operator_under_review: bool,
}

/// 6.2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchAnswer {
    pub agents: Vec<Found>,
    pub next_cursor: Option<String>,
    #[serde(rename = "match")]
    pub matching: Match,
    /// How the order is made, in one sentence.
    pub ranked_by: String,
    /// If nothing was found: capabilities that somebody sells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_capabilities: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_distinct_capabilities: Option<u64>,
}
