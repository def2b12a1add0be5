#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Did, Hash32, Timestamp, id::DealId};
use skep_store::RecordKey;

/// A payment that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PaymentRecord {
    /// Whose wallet the money came from.
    pub payer: AgentId,
    /// For whom, where that is not the payer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buyer: Option<AgentId>,
    /// Whose the wallet is that paid for somebody else, if this node knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer_operator: Option<Did>,
    /// Who got it; of a payment into escrow, who gets it on release.
    pub pay_to: AgentId,
    pub amount: Amount,
    pub nonce: Hash32,
    pub tx_hash: String,
    /// The hire that it pays for, where the buyer signed one.
    pub hire_hash: Option<Hash32>,
    pub escrow_id: Option<DealId>,
    /// The seller that the hire names.
    pub seller: Option<AgentId>,
    pub budget: Option<Hash32>,
    pub at: Timestamp,
}

impl PaymentRecord {
    /// Whose hire it pays for.
    pub(crate) fn buyer(&self) -> AgentId {
        self.buyer.unwrap_or(self.payer)
    }
}

/// Where a payment is kept.
pub(crate) fn payment_key(tx_hash: &str) -> RecordKey {
    RecordKey::own("payment", tx_hash)
}
