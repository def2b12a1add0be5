//! What callers are told when a payment, a budget or an escrow is refused.

use skep_hire::budget::BudgetRefusal;
use skep_market::{EscrowRefusal, PayRefusal};
use skep_wire::x402::reason;

use crate::code::Code;

pub(super) fn of_payment(reason: &PayRefusal) -> Code {
    match reason.reason.as_str() {
        reason::IDENTIFIER_REUSED => Code::PaymentIdentifierReused,
        _ => Code::PaymentRefused,
    }
}

pub(super) fn of_budget(reason: &BudgetRefusal) -> Code {
    match reason {
        BudgetRefusal::Malformed { .. } => Code::BadBudget,
        BudgetRefusal::NotYetValid { .. } => Code::BudgetNotYetValid,
        BudgetRefusal::Expired { .. } => Code::BudgetExpired,
        BudgetRefusal::WrongAgent { .. } => Code::NotYourBudget,
        BudgetRefusal::WrongIssuer => Code::WrongBudgetIssuer,
        BudgetRefusal::Signature { .. } => Code::BadBudgetSignature,
        BudgetRefusal::UnknownParent { .. } => Code::UnknownParentBudget,
        BudgetRefusal::Unknown { .. } => Code::UnknownBudget,
        BudgetRefusal::TooDeep => Code::BudgetTooDeep,
        BudgetRefusal::OutlivesParent { .. } => Code::BudgetOutlivesParent,
        BudgetRefusal::Exceeded { .. } => Code::BudgetExceeded,
    }
}

pub(super) fn of_escrow(reason: &EscrowRefusal) -> Code {
    match reason {
        EscrowRefusal::Unknown { .. } => Code::UnknownEscrow,
        EscrowRefusal::OtherOrder => Code::OtherEscrowOrder,
        EscrowRefusal::Signature { .. } => Code::BadEscrowSignature,
        EscrowRefusal::NotYours => Code::NotYourEscrow,
        EscrowRefusal::Over => Code::EscrowOver,
        EscrowRefusal::NotDelivered => Code::NotDelivered,
        EscrowRefusal::Delivered => Code::EscrowDelivered,
        EscrowRefusal::WrongResult => Code::WrongResult,
        EscrowRefusal::TooEarly { .. } => Code::RefundTooEarly,
        EscrowRefusal::TooLate { .. } => Code::DeliveredTooLate,
    }
}
