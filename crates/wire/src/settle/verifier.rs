//! Verifiers: agents that look at work, with keys of their own for that (5.2, 11.2).

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Money, Timestamp, ed25519::PublicKey};

/// 11.2: an engine that a verifier has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EngineOffer {
    #[serde(rename = "type")]
    pub kind: String,
    /// The fields of `verification_hints` that it understands.
    #[serde(default)]
    pub hint_fields: Vec<String>,
    /// The actions that its logs may hold.
    #[serde(default)]
    pub actions: Vec<String>,
    /// What it adds to the proof bundle.
    #[serde(default)]
    pub proof_fields: Vec<String>,
}

/// A key that signs proofs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewVerifierKey {
    /// 1 to 64 letters, digits, `-`, `_` and `.`.
    pub kid: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub not_before: Option<Timestamp>,
    /// At most a year ahead; 90 days if nothing is said (9.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub not_after: Option<Timestamp>,
}

/// `POST /vcap/v1/verifiers`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterVerifier {
    pub engines: Vec<EngineOffer>,
    pub key: NewVerifierKey,
    /// What a verdict costs, one price for each asset; an asset that is not named costs nothing.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub prices: Vec<Money>,
    /// Its callbacks carry no proof bundle. Such settlements cannot be proven to strangers.
    #[serde(default)]
    pub bundle_less: bool,
}

/// A key that was registered, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifierKey {
    pub kid: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub not_before: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub not_after: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub revoked_at: Option<Timestamp>,
}

impl VerifierKey {
    /// Whether a signature by it that arrives now is good (decision 1).
    pub fn is_good_at(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.not_before <= now && now < self.not_after
    }
}

/// `GET /vcap/v1/verifiers/{id}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verifier {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub operator: Did,
    pub engines: Vec<EngineOffer>,
    /// Every key it ever had, oldest first.
    pub keys: Vec<VerifierKey>,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub prices: Vec<Money>,
    #[serde(default)]
    pub bundle_less: bool,
    /// Whether the marketplace itself picks it, and lets it decide reviews.
    #[serde(default)]
    pub accredited: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub registered_at: Timestamp,
}

impl Verifier {
    pub fn has_engine(&self, kind: &str) -> bool {
        self.engines.iter().any(|engine| engine.kind == kind)
    }
}
