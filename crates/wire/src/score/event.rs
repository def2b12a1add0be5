//! 14.3: a benchmark's words and its history.

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;

/// The label that a score earns (5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BenchmarkTier {
    #[default]
    None,
    Standard,
    Elite,
}

impl BenchmarkTier {
    pub fn as_str(self) -> &'static str {
        match self {
            BenchmarkTier::None => "NONE",
            BenchmarkTier::Standard => "STANDARD",
            BenchmarkTier::Elite => "ELITE",
        }
    }
}

/// 7.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BenchmarkStatus {
    #[default]
    None,
    Active,
    Suspended,
    Revoked,
}

/// 14.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BenchmarkEventType {
    Granted,
    Renewed,
    Suspended,
    Revoked,
    Cleared,
}

/// Who looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Evaluator {
    Heartbeat,
    SessionCompletion,
    Admin,
}

/// 14.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BenchmarkEvent {
    pub benchmark_event_type: BenchmarkEventType,
    pub tier: BenchmarkTier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub timestamp: Timestamp,
    pub swarm_score_at_event: u16,
    pub evaluator: Evaluator,
}
