//! What callers are told when a step of a session is refused.

use skep_market::SessionRefusal;
use skep_settle::session;
use skep_wire::settle::Tier;

use crate::code::Code;

pub(super) fn of_session(reason: &SessionRefusal) -> Code {
    match reason {
        SessionRefusal::UnknownSession { .. } => Code::UnknownSession,
        SessionRefusal::Rule { reason } => match reason {
            session::Refusal::Over { .. } => Code::SessionOver,
            session::Refusal::NothingDone => Code::NothingDone,
            session::Refusal::TierTooLow { .. } => Code::TierTooLow,
            session::Refusal::BudgetSpent { .. } => Code::BudgetSpent,
            session::Refusal::TooManyActions { .. } => Code::TooManyActions,
        },
        SessionRefusal::TooManySessions { .. } => Code::TooManySessions,
        SessionRefusal::MaxCostTooLow { .. } => Code::MaxCostTooLow,
        SessionRefusal::PurposeTooLong => Code::PurposeTooLong,
        SessionRefusal::NoBrowser { .. } => Code::NoBrowser,
        SessionRefusal::GatewayBusy => Code::GatewayBusy,
        SessionRefusal::GatewayUnavailable { .. } => Code::GatewayUnavailable,
        SessionRefusal::BadAction { .. } => Code::BadAction,
        SessionRefusal::Busy | SessionRefusal::AskAgain => Code::SessionBusy,
        SessionRefusal::StillOpen => Code::SessionOpen,
        SessionRefusal::NoProof { .. } => Code::NoSessionProof,
    }
}

/// The tier that would allow it, and the caller's own.
pub(super) fn tiers(reason: &SessionRefusal) -> Option<(Tier, Tier)> {
    match reason {
        SessionRefusal::Rule { reason: session::Refusal::TierTooLow { required, tier, .. } } => {
            Some((*required, *tier))
        }
        _ => None,
    }
}
