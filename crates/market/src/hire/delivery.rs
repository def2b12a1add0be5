//! The receipt of a hire whose money is in escrow is its delivery. Escrows are kept by whoever
//! keeps the money; this is all that receipts ask of them.

use skep_base::id::DealId;
use skep_hire::receipt::ReceiptRefusal;
use skep_store::{Load, Turn};
use skep_wire::hire::Receipt;

use super::HireRefusal;
use crate::{Failure, Market, answer::Stop};

impl Market {
    /// Adds what a delivery into the escrow touches.
    pub(super) fn load_escrow(&self, _escrow: &DealId, _load: &mut Load) {}

    /// Notes the delivery, which starts the buyer's time.
    pub(super) fn escrow_delivered(
        &self,
        _turn: &mut Turn,
        _escrow: &DealId,
        _receipt: &Receipt,
    ) -> Result<(), Stop> {
        Err(HireRefusal::from(ReceiptRefusal::EscrowNotHere).into())
    }

    /// `HELD`, `RELEASED` or `REFUNDED`.
    pub(super) async fn escrow_word(&self, _escrow: &DealId) -> Result<Option<String>, Failure> {
        Ok(None)
    }
}
