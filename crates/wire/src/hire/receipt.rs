//! Receipts (decisions 16 to 18): the seller signs, the buyer counter-signs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Hash32, Timestamp,
    hash::json_sha256,
    id::{DealId, ListingId},
    json::CanonicalError,
    wallet::WalletSignature,
};

use super::{PaymentMode, Verification, VerificationSummary, signed::wallet_signed};

/// The longest id of a hire, in bytes.
pub const HIRE_ID_LEN_MAX: usize = 128;
/// What a free call has for a transaction (decision 18).
pub const NO_TX: &str = "0x0000000000000000000000000000000000000000000000000000000000000000";

/// `POST /v1/receipts`. Fields that are absent are not signed; unknown ones are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    pub protocol_version: String,
    pub hire_id: String,
    /// The seller.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub agent_id: AgentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payee: Option<AgentId>,
    /// Who paid.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer: AgentId,
    pub capability: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability_version: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount_usdc_atomic: Amount,
    pub network: String,
    pub tx_hash: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub completed_at: Timestamp,
    /// What the seller's own run found.
    pub verification: VerificationSummary,
    /// SHA-256 of the canonical parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub params_hash: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub result_hash: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payment_mode: Option<PaymentMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub escrow_id: Option<DealId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub listing_id: Option<ListingId>,
    /// The digest of the hire that the buyer signed. Absent: the buyer was a plain x402 client,
    /// and the result is not verified by the buyer (decision 14).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub hire_hash: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub extra: BTreeMap<String, Value>,
}

wallet_signed!(Receipt, agent_id);

impl Receipt {
    /// The SHA-256 of the receipt with its signature: what a counter-signature names.
    pub fn hash(&self) -> Result<Hash32, CanonicalError> {
        json_sha256(self)
    }
}

/// What `POST /v1/receipts` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReceiptAccepted {
    pub ok: bool,
    pub receipt_id: String,
    /// For the seller's one rating of the buyer. Empty unless the seller has signed the request:
    /// the buyer has the receipt too, and anybody can repeat what is public.
    pub rating_token: String,
}

/// `POST /v1/receipts/{id}/countersign`: what the buyer found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CounterSignature {
    pub hire_id: String,
    /// [`Receipt::hash`] of what the seller signed.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub receipt_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer: AgentId,
    pub verification: VerificationSummary,
    /// False where there is no check for the capability.
    pub verifiable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// A check failed, or the buyer says for another reason that this is not what was asked for.
    pub dispute: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signed_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(CounterSignature, buyer);

/// What a counter-signature answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CounterSigned {
    pub ok: bool,
    pub receipt_id: String,
    pub dispute: bool,
    /// For the buyer's one rating of the seller (decision 17). Empty where it was counter-signed
    /// before, unless the buyer has signed the request.
    pub rating_token: String,
}

/// `POST /v1/receipts/{id}/payload`: what was asked and answered, for whoever checks later. Both
/// must have the hashes of the receipt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HirePayload {
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub result: Value,
}

/// Who found what in a result (decision 16): each is marked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Findings {
    pub seller: VerificationSummary,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buyer: Option<CounterSignature>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Verification>,
}

/// How a result stands, by those who are not its seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Judgement {
    /// The buyer has not said yet, or never will: a plain x402 client does not.
    NotVerifiedByBuyer,
    NotVerifiable,
    Passed,
    Failed,
}

/// `GET /v1/receipts/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredReceipt {
    pub receipt_id: String,
    pub receipt: Receipt,
    pub findings: Findings,
    pub judgement: Judgement,
    pub dispute: bool,
    /// The buyer's operator is the seller's or the payee's: it counts for nothing.
    #[serde(default)]
    pub linked: bool,
    /// In escrow: `HELD`, `RELEASED` or `REFUNDED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub accepted_at: Timestamp,
}

/// `POST /v1/rate`: 9.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rating {
    pub rating_token: String,
    /// 1 to 5.
    pub stars: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}
