//! 7.5: one question before a hire, one answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Timestamp, wallet::WalletSignature};

use super::{Usdc, signed::wallet_signed};

/// The longest brief, in bytes (7.5.1).
pub const BRIEF_LEN_MAX: usize = 2048;
/// The most alternatives of a counter (7.5.3).
pub const OPTIONS_MAX: usize = 3;
/// After a counter a buyer does not ask the same listing again for so long (7.5.3).
pub const COUNTER_PAUSE_MS: u64 = 30_000;
/// A seller answers within this (7.5), and a buyer waits so long.
pub const CLARIFY_SELLER_MS: u64 = 3_000;
pub const CLARIFY_BUYER_MS: u64 = 5_000;
/// Unaccepted clarifications of one buyer in a day (7.5.6).
pub const CLARIFY_PER_DAY: u32 = 10;

/// `POST /clarify`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClarifyRequest {
    pub protocol: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub buyer_id: AgentId,
    pub capability: String,
    pub brief: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub max_price_usdc: Option<Usdc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_latency_ms: Option<u64>,
    pub nonce: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub seller_id: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub issued_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub signature: Option<WalletSignature>,
}

wallet_signed!(ClarifyRequest, buyer_id, hashing "params");

/// 7.5.2. The token is the seller's promise about exactly these parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Quote {
    pub quote_token: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub price_usdc: Usdc,
    pub estimated_latency_ms: u64,
    /// Unix time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// 7.5.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counter {
    pub reason: String,
    pub options: Vec<Quote>,
}

/// 7.5.2 to 7.5.4.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Clarified {
    Quote { protocol: String, quote: Quote },
    Counter { protocol: String, counter: Counter },
    Decline { protocol: String, reason: String },
}
