//! 3.3 and 3.7: money held, and money moved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    ed25519::{PublicKey, Signature},
    id::{DealId, VerificationId},
    money::DecimalText,
};

use super::{deal::RefundReason, negotiation::RemainderPolicy};
use crate::identity::Statement;

/// 4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EscrowStatus {
    Held,
    Released,
    Refunded,
}

/// 3.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EscrowHold {
    pub vcap_version: String,
    /// `escrow_hold`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    pub source_wallet: String,
    pub destination_wallet: String,
    /// What is held of the price.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub amount: DecimalText,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub currency: Asset,
    pub status: EscrowStatus,
    /// `vcap:terms:sha256:` and the hash of the agreed terms.
    pub release_condition: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub held_at: Timestamp,
    /// The whole price, in minor units.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_minor: Amount,
    /// What the price has beyond the hold, and who carries it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub remainder_minor: Amount,
    pub remainder_policy: RemainderPolicy,
    /// The largest buyer's share of the fee, held beside the price.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fee_reserved_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verifier_price_minor: Amount,
    /// What the platform fronts of the hold (decision 11).
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub subsidy_minor: Amount,
    /// Which part of a price the provider's score asks to be held, in 1/10000 (SwarmScore 12.1).
    #[serde(default = "whole")]
    pub modifier_e4: u16,
    /// And which part is held: all of it while a dispute is open, for example.
    #[serde(default = "whole")]
    pub effective_modifier_e4: u16,
}

/// Everything is held.
fn whole() -> u16 {
    10_000
}

/// What a settlement rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_hash: Hash32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub proof_signature: Signature,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extracted_content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_log: Option<Vec<Value>>,
}

/// 10.1: who carries the fee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeeSplit {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub seller_minor: Amount,
}

/// 10.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformFee {
    /// A fraction: 0.05 is five per cent.
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub rate: DecimalText,
    /// `percentage`
    pub rate_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = f64))]
    pub amount: DecimalText,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub amount_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub currency: Asset,
    pub split: FeeSplit,
}

/// 3.7.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EscrowSettlement {
    pub vcap_version: String,
    /// `escrow_settlement`
    pub message_type: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub escrow_id: DealId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub negotiation_id: DealId,
    /// RELEASED or REFUNDED.
    pub status: EscrowStatus,
    /// Why, where it was not a verdict that released it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<RefundReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub verification_id: Option<VerificationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub proof_hash: Option<Hash32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub proof_signature: Option<Signature>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_fee: Option<PlatformFee>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub settled_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requester: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub provider: AgentId,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub currency: Asset,
    /// Of the price: what the provider gets before its share of the fee.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub released_minor: Amount,
    /// Of the price: what stays with the requester.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub refunded_minor: Amount,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub verifier_paid_minor: Amount,
    /// `proof`, `bundle_less`, `self_attested`, `agreed` or `none`.
    pub method: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub terms_hash: Hash32,
}

impl Statement for EscrowSettlement {
    const TYPE: &'static str = "skep/settlement/v1";
}

/// 2.1 step 12: the settlement, signed by the marketplace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettlementReceipt {
    pub settlement: EscrowSettlement,
    /// The marketplace's key for settlements.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: PublicKey,
    /// Over the canonical JSON of the settlement with its `type`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub signature: Signature,
}
