use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skep_base::AgentId;

use super::Payable;
use crate::hire::{EscrowTerms, HireEnvelope, Receipt};

/// `POST /x402/verify` and `/x402/settle`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FacilitatorRequest {
    pub x402_version: u8,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub payment_payload: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub payment_requirements: Value,
    /// What a seller of Skep adds; others leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skep: Option<SkepTerms>,
}

/// What a payment is for, where the buyer has signed that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkepTerms {
    /// The hire that the buyer signed; its budget is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hire: Option<HireEnvelope>,
    /// For a payment into escrow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow: Option<EscrowTerms>,
    /// The seller's receipt of a direct payment: settling enters it as well, so that nobody has to
    /// bring it. Verifying does not look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
}

/// Reasons that clients know.
pub mod reason {
    pub const INSUFFICIENT_FUNDS: &str = "insufficient_funds";
    pub const INVALID_NETWORK: &str = "invalid_network";
    pub const UNSUPPORTED_SCHEME: &str = "unsupported_scheme";
    pub const INVALID_PAYLOAD: &str = "invalid_payload";
    pub const INVALID_REQUIREMENTS: &str = "invalid_payment_requirements";
    pub const INVALID_VERSION: &str = "invalid_x402_version";
    pub const SIGNATURE: &str = "invalid_exact_evm_payload_signature";
    pub const RECIPIENT: &str = "invalid_exact_evm_payload_recipient_mismatch";
    pub const VALUE: &str = "invalid_exact_evm_payload_authorization_value_mismatch";
    pub const VALID_AFTER: &str = "invalid_exact_evm_payload_authorization_valid_after";
    pub const VALID_BEFORE: &str = "invalid_exact_evm_payload_authorization_valid_before";
    pub const NONCE_USED: &str = "invalid_exact_evm_nonce_already_used";
    pub const TOKEN: &str = "invalid_exact_evm_token_name_mismatch";
    pub const SETTLEMENT_PENDING: &str = "settlement_pending";
    pub const UNEXPECTED_SETTLE: &str = "unexpected_settle_error";
    // Of Skep's own.
    pub const HIRE_SIGNATURE: &str = "invalid_hire_signature";
    pub const NOT_THE_BUYER: &str = "payer_is_not_the_buyer";
    pub const WALLET_BINDING: &str = "invalid_wallet_binding";
    pub const NOT_FOR_THIS_HIRE: &str = "payment_not_for_this_hire";
    pub const RESOURCE: &str = "payment_for_another_resource";
    pub const ESCROW_TERMS: &str = "invalid_escrow_terms";
    pub const BUDGET: &str = "invalid_budget";
    pub const BUDGET_EXCEEDED: &str = "budget_exceeded";
    pub const WALLET_BLOCKED: &str = "wallet_blocked";
    pub const IDENTIFIER_REUSED: &str = "payment_identifier_reused";
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VerifyResponse {
    pub is_valid: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payer: Option<AgentId>,
    /// For the seller of a signed hire: with it, it need not ask as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payable: Option<Payable>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleResponse {
    pub success: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payer: Option<AgentId>,
    /// `0x` and 64 hex digits; empty if nothing was settled.
    #[serde(default)]
    pub transaction: String,
    #[serde(default)]
    pub network: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Of a payment into escrow: its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow_id: Option<String>,
    /// The receipt that came along is entered. If it is not, it can be submitted by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub receipt_entered: bool,
}

/// One thing that the facilitator can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SupportedKind {
    pub x402_version: u8,
    pub scheme: String,
    pub network: String,
    /// The rail: asset, name and version of its domain, and the escrow's address.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra: Map<String, Value>,
}

/// `GET /x402/supported`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Supported {
    pub kinds: Vec<SupportedKind>,
    pub extensions: Vec<String>,
    pub signers: BTreeMap<String, Vec<String>>,
}

/// One entry of the discovery lists ("bazaar").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DiscoveredResource {
    pub resource: String,
    /// `http`
    #[serde(rename = "type")]
    pub kind: String,
    pub x402_version: u8,
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub accepts: Vec<Value>,
    pub last_updated: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Value,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extensions: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pagination {
    pub limit: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// `GET /x402/discovery/resources` answers `items`, `GET /x402/discovery/search` `resources`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Discovery {
    pub x402_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<DiscoveredResource>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<DiscoveredResource>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_results: Option<bool>,
    pub pagination: Option<Pagination>,
}
