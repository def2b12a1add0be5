//! 3.1 and 3.2: an offer, and what the other side says to it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Amount, Asset, Money, Timestamp, id::DealId, money::DecimalText};

/// One side of a deal as a message names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Party {
    /// The agent's DID (a URI) or its address.
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Role {
    Requester,
    Provider,
}

impl Role {
    pub fn other(self) -> Role {
        match self {
            Role::Requester => Role::Provider,
            Role::Provider => Role::Requester,
        }
    }
}

/// What is to be checked (3.1, 3.4, 6.3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hints {
    /// The engine: `http` (also `url`), `api`, `artifact`, `human`, `requester`, or one that a
    /// verifier has registered.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// RFC 9535 JSONPath if it begins with `$`, else CSS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// A piece of text that must be there, whatever its case and white space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_content: Option<String>,
    /// Whether the page must have changed since the deal was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint_delta: Option<bool>,
    /// Whether the provider's own word is enough. Honoured only as decision 26 says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<Value>,
}

/// The work and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkRequest {
    pub service_type: String,
    pub description: String,
    /// Read from its digits, never through a double.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub budget_amount: DecimalText,
    /// ISO 4217, or USDC.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub budget_currency: Asset,
    /// The same in minor units; if it is there, both must agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub budget_amount_minor: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Value>,
    /// Until when the work must be delivered; seven days from acceptance if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub deadline_utc: Option<Timestamp>,
    /// Only with a provider that holds a benchmark (SwarmScore 12.3).
    #[serde(default, alias = "requiresBenchmark", skip_serializing_if = "Option::is_none")]
    pub requires_benchmark: Option<bool>,
}

/// Who carries what a hold below the whole price leaves open (decision 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RemainderPolicy {
    /// The requester pays it when the escrow is released.
    #[default]
    OnRelease,
    /// It is set aside in the requester's wallet.
    Reserve,
    /// The provider gets it at acceptance, and owes it back if the escrow is refunded.
    Advance,
}

/// `metadata.skep`: terms that VCAP leaves to implementations. A counter-offer may change any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DealOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remainder_policy: Option<RemainderPolicy>,
    /// How long a failed verdict can be disputed before the refund; 0 if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispute_window_s: Option<u64>,
    /// How long a verification may take; 1800 for an engine, a day for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
    /// After so long in review the requester is refunded. Without it a reviewer must decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_deadline_s: Option<u64>,
    /// The verifier that both agree on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verifier: Option<AgentId>,
    /// What the verifier gets for its verdict, in minor units of the deal's currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verifier_price_minor: Option<Amount>,
    /// The requester agrees that the provider's word is enough, with an objection window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<bool>,
    /// Until when this offer stands; a day if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub offer_expires_at: Option<Timestamp>,
}

/// A message's free part, of which Skep reads `skep`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Metadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skep: Option<DealOptions>,
    #[serde(flatten)]
    pub more: serde_json::Map<String, Value>,
}

/// 3.1. `negotiation_id` is the marketplace's to give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NegotiationRequest {
    pub vcap_version: String,
    /// `negotiation_request`
    pub message_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negotiation_id: Option<String>,
    pub requester: Party,
    pub provider: Party,
    pub request: WorkRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_hints: Option<Hints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Only with a provider that holds a benchmark (SwarmScore 12.3); in `request` too.
    #[serde(default, alias = "requiresBenchmark", skip_serializing_if = "Option::is_none")]
    pub requires_benchmark: Option<bool>,
}

impl NegotiationRequest {
    /// Whether only a holder of a benchmark may take this.
    pub fn requires_benchmark(&self) -> bool {
        [self.requires_benchmark, self.request.requires_benchmark].contains(&Some(true))
    }
}

/// What a side says to the offer on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ResponseStatus {
    Accepted,
    /// Becomes the state DECLINED; that word is understood too.
    #[serde(alias = "DECLINED")]
    Rejected,
    Countered,
}

/// What a counter-offer changes; the rest stays as it was offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CounterTerms {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub amount: Option<DecimalText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub amount_minor: Option<Amount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub currency: Option<Asset>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub deadline_utc: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejection_reason: Option<String>,
}

/// 3.2, sent by whoever's turn it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NegotiationResponse {
    pub vcap_version: String,
    /// `negotiation_response`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub response_status: ResponseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_terms: Option<CounterTerms>,
    /// The provider's idea of how to check. It counts only where the requester left that open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_verification_hints: Option<Hints>,
    /// A requester's counter may change what it asked to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_hints: Option<Hints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NegotiationStatus {
    Pending,
    Countered,
    Accepted,
    Declined,
}

/// `GET /vcap/v1/negotiations/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Negotiation {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub status: NegotiationStatus,
    /// Why it was declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requester: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: AgentId,
    /// Whose answer is awaited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Role>,
    /// Offers made so far, the first one included.
    pub rounds: u8,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub expires_at: Timestamp,
    /// The price on the table.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub price: Money,
    /// What is to be checked, as the table stands.
    pub criteria: Hints,
    pub options: DealOptions,
    /// Every message as it came: the request, then the responses.
    pub messages: Vec<Value>,
}
