use serde::{Deserialize, Serialize};
use skep_base::{Timestamp, id::DealId};

use crate::{Failure, Refusal, answer::Stop};

/// Why a step of a hire's escrow is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum EscrowRefusal {
    #[error("there is no escrow {escrow} of a hire here")]
    Unknown { escrow: DealId },
    #[error("the order is about another escrow, or about something else than it was sent for")]
    OtherOrder,
    #[error("the order's signature does not hold: {what}")]
    Signature { what: String },
    #[error("the buyer releases or refunds; the seller may give the money back")]
    NotYours,
    #[error("the escrow was settled before, in another way")]
    Over,
    #[error("nothing was delivered yet; if nothing comes, the money goes back by itself")]
    NotDelivered,
    #[error("another receipt was delivered into this escrow")]
    Delivered,
    #[error("that is not the result, or not what was asked for")]
    WrongResult,
    #[error("the money goes back at {refund_at}, not before")]
    TooEarly { refund_at: Timestamp },
    #[error("the delivery was due before {at}")]
    TooLate { at: Timestamp },
}

impl From<EscrowRefusal> for Refusal {
    fn from(reason: EscrowRefusal) -> Refusal {
        Refusal::Escrow { reason }
    }
}

impl From<EscrowRefusal> for Stop {
    fn from(reason: EscrowRefusal) -> Stop {
        Stop::Refused(reason.into())
    }
}

impl From<EscrowRefusal> for Failure {
    fn from(reason: EscrowRefusal) -> Failure {
        Failure::Refused(reason.into())
    }
}
