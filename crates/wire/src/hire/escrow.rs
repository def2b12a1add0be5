//! 7.3.3 and decision 20: money that waits for the buyer's check.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Hash32, Timestamp,
    hash::keccak256,
    id::DealId,
    wallet::{WalletSignature, object_hash},
};

use super::{SignedError, VerificationSummary, signed::wallet_signed};
use crate::settle::{EscrowStatus, SettlementReceipt};

/// How long a buyer has to check a result (7.3.3).
pub const WINDOW_SYNC_MS: u64 = 30_000;
pub const WINDOW_ASYNC_MS: u64 = 5 * 60_000;
/// The longest window and the longest time until delivery that a node takes: a day.
pub const ESCROW_WAIT_MS_MAX: u64 = 24 * 3600 * 1000;

/// What the buyer's payment into an escrow is for. Its hash is the payment's nonce, so that nobody
/// can use the money for anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EscrowTerms {
    /// The digest of the hire that the buyer signed.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hire_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub seller: AgentId,
    /// Who gets the money on release.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub payee: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount: Amount,
    pub capability: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification_version: Option<String>,
    /// How long the buyer may check after the delivery.
    pub verification_window_ms: u64,
    /// How long the seller may take.
    pub deliver_within_ms: u64,
}

impl EscrowTerms {
    pub fn payment_nonce(&self) -> Result<Hash32, SignedError> {
        let hash = object_hash(self).map_err(|e| SignedError::NotSignable(e.to_string()))?;
        Ok(keccak256(&[b"skep/escrow-payment/v1", hash.as_bytes().as_slice()].concat()))
    }
}

/// What a buyer says about money in escrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EscrowVerb {
    Release,
    Refund,
}

/// `POST /v1/escrows/{id}/release` or `/refund`: signed by the buyer, or a refund by the seller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EscrowOrder {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_id: DealId,
    pub verb: EscrowVerb,
    /// The buyer; the seller may give the money back.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub by: AgentId,
    /// Of the result that it is about; absent if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub result_hash: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationSummary>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub issued_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(EscrowOrder, by);

/// `POST /v1/escrows/{id}/timeout-refund`: anybody may ask, once the time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeoutRefund {}

/// `GET /v1/escrows/{id}`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HireEscrow {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_id: DealId,
    pub terms: EscrowTerms,
    /// Whose wallet the money came from and goes back to, where that is not the buyer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub payer: Option<AgentId>,
    pub status: EscrowStatus,
    /// Why it was refunded: `buyer`, `seller`, `not_delivered` or `window_passed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The payment into the escrow.
    pub tx_hash: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub held_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub delivered_at: Option<Timestamp>,
    /// When the money goes back if nobody says anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub refund_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_id: Option<String>,
    /// Signed by the node, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<SettlementReceipt>,
}
