use serde::{Deserialize, Serialize};
use skep_hire::budget::BudgetRefusal;
use skep_store::LedgerRefusal;
use skep_wire::x402::reason;

use crate::{Refusal, answer::Stop};

/// Why a payment is not taken, in x402's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct PayRefusal {
    /// One of [`skep_wire::x402::reason`].
    pub reason: String,
    pub message: String,
}

impl PayRefusal {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> PayRefusal {
        PayRefusal { reason: reason.to_owned(), message: message.into() }
    }

    /// The facilitator's word for another rule's no.
    pub(super) fn of(refusal: Refusal) -> PayRefusal {
        let message = refusal.to_string();
        let reason = match refusal {
            Refusal::Payment { reason } => return reason,
            Refusal::Budget { reason: BudgetRefusal::Exceeded { .. } } => reason::BUDGET_EXCEEDED,
            Refusal::Budget { .. } => reason::BUDGET,
            Refusal::Escrow { .. } => reason::ESCROW_TERMS,
            Refusal::Keys { .. }
            | Refusal::MoneyFrozen { .. }
            | Refusal::InDebt { .. }
            | Refusal::Promised { .. } => reason::WALLET_BLOCKED,
            Refusal::Ledger { reason } => match reason {
                LedgerRefusal::InsufficientFunds { .. } => reason::INSUFFICIENT_FUNDS,
                LedgerRefusal::LimitReached { .. } => reason::BUDGET_EXCEEDED,
                LedgerRefusal::UnknownBudget { .. } | LedgerRefusal::NotItsBudget { .. } => {
                    reason::BUDGET
                }
                LedgerRefusal::ZeroAmount => reason::VALUE,
                LedgerRefusal::SameAccount => reason::RECIPIENT,
                _ => reason::UNEXPECTED_SETTLE,
            },
            _ => reason::UNEXPECTED_SETTLE,
        };
        PayRefusal::new(reason, message)
    }
}

impl From<PayRefusal> for Refusal {
    fn from(reason: PayRefusal) -> Refusal {
        Refusal::Payment { reason }
    }
}

impl From<PayRefusal> for Stop {
    fn from(reason: PayRefusal) -> Stop {
        Stop::Refused(reason.into())
    }
}
