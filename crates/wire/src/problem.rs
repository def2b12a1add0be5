//! Errors as they are answered: RFC 9457.

use serde::{Deserialize, Serialize};

use crate::settle::Tier;

/// `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// Stable: programs decide by it.
    pub code: String,
    /// What happened here, and what to do next.
    pub detail: String,
    /// Whether the same request may work later.
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Where the caller's tier was too low: the one that would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_tier: Option<Tier>,
    /// And the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// What a provider lacks for the benchmark that was asked for.
    #[serde(flatten)]
    pub benchmark: Option<BenchmarkGap>,
}

/// 12.3, in the specification's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("the provider holds no benchmark: it has {current_score} of {required_score} points")]
pub struct BenchmarkGap {
    pub current_score: u16,
    pub required_score: u16,
    /// Never negative: a score may be high enough and something else be missing.
    pub gap: u16,
    pub qualification_gaps: Vec<String>,
}
