//! What owners and buyers are shown of a score.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Timestamp};

use super::{
    event::BenchmarkEvent,
    passport::{Badge, TrustTier},
    portability::InformalTier,
    publication::Publication,
};

/// 9.7, rule 4: a label, not a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperatorReview {
    /// `Operator Under Review`
    pub label: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub until: Timestamp,
}

impl OperatorReview {
    pub fn until(until: Timestamp) -> OperatorReview {
        OperatorReview { label: "Operator Under Review".to_owned(), until }
    }
}

/// `GET /v1/agents/{id}/score`, and what `skep score show` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScoreView {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    /// Whether others see the score (decision 38).
    pub published: bool,
    pub publication: Publication,
    pub trust_tier: TrustTier,
    pub badges: Vec<Badge>,
    /// The newest first.
    pub benchmark_history: Vec<BenchmarkEvent>,
    /// How many events there were in all.
    #[serde(default)]
    pub benchmark_events: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_review: Option<OperatorReview>,
    /// What platforms without an agreement say. It counts for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified_imports: Vec<InformalTier>,
}
