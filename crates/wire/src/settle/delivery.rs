//! 3.4: the provider says that the work is done.

use serde::{Deserialize, Serialize};
use skep_base::{Hash32, Timestamp, id::DealId};

use super::negotiation::{Hints, Party};

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeliveryStatus {
    Success,
    /// Judged against the full criteria all the same.
    Partial,
    /// The provider gives up: the requester is refunded.
    Failed,
}

/// A piece of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    /// `url`, `file`, `text`, `api_response`, …
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// SHA-256 of the content, or of what the URI gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub hash: Option<Hash32>,
}

/// What is delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryBody {
    pub status: DeliveryStatus,
    pub description: String,
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
}

/// 3.4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceDelivery {
    pub vcap_version: String,
    /// `service_delivery`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_id: DealId,
    pub provider: Party,
    pub delivery: DeliveryBody,
    /// May fill what the terms left open, never weaken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_hints: Option<Hints>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub delivered_at: Timestamp,
}
