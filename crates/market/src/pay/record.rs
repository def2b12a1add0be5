//! What is remembered of a payment.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Hash32, Timestamp, id::DealId};
use skep_store::RecordKey;

/// A payment that was settled here. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentRecord {
    pub payer: AgentId,
    pub pay_to: AgentId,
    pub amount: Amount,
    /// Of the authorization that paid.
    pub nonce: Hash32,
    pub tx_hash: String,
    /// The digest of the signed hire that it pays for.
    pub hire_hash: Option<Hash32>,
    /// The escrow that it went into.
    pub escrow_id: Option<DealId>,
    pub seller: Option<AgentId>,
    pub at: Timestamp,
}

/// Where a payment is kept.
pub fn payment_key(tx_hash: &str) -> RecordKey {
    RecordKey::own("payment", tx_hash)
}
