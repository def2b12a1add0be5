//! What is ordered, and what came of it.

use serde::Serialize;
use serde_json::Value;
use skep_base::{
    AgentId, Amount,
    id::{DealId, ListingId},
};
use skep_wire::hire::{Found, PaymentMode, Receipt, Verification};

/// Sellers that are tried, one after the other, unless the order says otherwise.
pub const SELLERS_MAX_DEFAULT: usize = 3;

/// How a hire is to be paid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PaymentChoice {
    #[default]
    Any,
    /// Sellers with this mode come first, the others after them.
    Prefer(PaymentMode),
    Require(PaymentMode),
    /// Any escrow of the node.
    Escrow,
}

/// What is to be done, and what it may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct HireOrder {
    pub capability: String,
    pub params: Value,
    /// Zero: only a free first call will do.
    pub max_price: Amount,
    pub max_latency_ms: Option<u64>,
    pub payment: PaymentChoice,
    /// Only this seller.
    pub agent: Option<AgentId>,
    /// Only this listing.
    pub listing: Option<ListingId>,
    /// Where the seller posts the result later; the buyer asks for it as well.
    pub callback_url: Option<String>,
    /// A quote that [`Buyer::clarify`](super::Buyer::clarify) got; its parameters are used.
    pub quote_token: Option<String>,
    pub sellers_max: usize,
    /// Whether money in escrow is released for a result that nobody can check. Without, nobody is
    /// hired in escrow for work that has no check: it would be done for nothing.
    pub accept_unverifiable: bool,
}

impl HireOrder {
    pub fn new(capability: impl Into<String>, params: Value, max_price: Amount) -> HireOrder {
        HireOrder {
            capability: capability.into(),
            params,
            max_price,
            max_latency_ms: None,
            payment: PaymentChoice::Any,
            agent: None,
            listing: None,
            callback_url: None,
            quote_token: None,
            sellers_max: SELLERS_MAX_DEFAULT,
            accept_unverifiable: false,
        }
    }
}

/// A seller that was tried and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    pub seller: AgentId,
    pub listing_id: ListingId,
    /// A stable word.
    pub code: String,
    pub detail: String,
    /// Whether a payment had been signed for it, which then was not or can no longer be taken.
    pub authorized: bool,
}

/// How money in escrow ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EscrowEnd {
    pub escrow_id: DealId,
    /// `RELEASED`, `REFUNDED`, or `HELD` while that is not done yet.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A hire that was answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hired {
    pub hire_id: String,
    pub seller: AgentId,
    pub listing_id: ListingId,
    pub capability: String,
    pub result: Value,
    /// What the buyer's own run of the check found.
    pub verification: Verification,
    pub dispute: bool,
    /// As the seller signed it and the buyer counter-signed it.
    pub receipt: Receipt,
    /// For one rating of the seller.
    pub rating_token: Option<String>,
    /// Why the node did not take the buyer's word about the receipt, if it never will.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub countersign_refused: Option<String>,
    /// What it cost in the end: nothing after a refund.
    pub paid: Amount,
    /// The wallet that paid, where that is not the buyer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payer: Option<AgentId>,
    pub tx_hash: String,
    pub payment_mode: PaymentMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escrow: Option<EscrowEnd>,
    pub latency_ms: u64,
    /// Those before it.
    pub tried: Vec<Attempt>,
    /// What the node could not be told yet; [`Buyer::resume`](super::Buyer::resume) does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
}

/// What an order would do: `--dry-run`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// In the order in which they would be tried.
    pub candidates: Vec<Candidate>,
    /// Those that were found and would not be tried, and why.
    pub refused: Vec<Attempt>,
}

/// One seller of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    pub found: Found,
    /// What would be signed for it; nothing if its first call may be free.
    pub price: Amount,
    pub payment_mode: PaymentMode,
}
