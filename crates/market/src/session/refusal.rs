//! Why a step of a session is refused.

use serde::{Deserialize, Serialize};
use skep_base::{Amount, id::SessionId};
use skep_settle::session;
use skep_wire::{conduit::GatewayError, settle::Tier};

use super::PURPOSE_LEN_MAX;
use crate::{Failure, Refusal, answer::Stop};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum SessionRefusal {
    #[error("there is no session {session} of yours")]
    UnknownSession { session: SessionId },
    #[error(transparent)]
    Rule { reason: session::Refusal },
    #[error(
        "a session must be able to pay for one action: hold at least {least_minor} minor units"
    )]
    MaxCostTooLow { least_minor: Amount },
    #[error("you have {max} sessions open, which is the most: close one first")]
    TooManySessions { max: usize },
    #[error("a purpose has at most {PURPOSE_LEN_MAX} bytes")]
    PurposeTooLong,
    #[error("{detail}")]
    NoBrowser { detail: String },
    #[error("every browser is in use; try again in a moment")]
    GatewayBusy,
    #[error("the browser cannot be reached now; try again with the same Idempotency-Key")]
    GatewayUnavailable { detail: String },
    #[error("{detail}")]
    BadAction { detail: String },
    #[error("other actions of this session keep coming first; send one after the other")]
    Busy,
    #[error("the session is open: close it, or ask it for EXPORT_PROOF")]
    StillOpen,
    #[error("the session has no proof: {reason}")]
    NoProof { reason: String },
    /// Never leaves the market: the session moved on meanwhile.
    #[error("the session moved on; try again")]
    AskAgain,
}

impl SessionRefusal {
    /// What the owner hears of the gateway's trouble. `None` if the session cannot go on.
    pub(super) fn of(error: GatewayError, action: &str, tier: Tier) -> Option<SessionRefusal> {
        Some(match error {
            GatewayError::NoBrowser { detail } => SessionRefusal::NoBrowser { detail },
            GatewayError::Busy => SessionRefusal::GatewayBusy,
            GatewayError::BadAction { detail } => SessionRefusal::BadAction { detail },
            GatewayError::TierTooLow { required } => {
                let action = action.to_owned();
                session::Refusal::TierTooLow { action, required, tier }.into()
            }
            GatewayError::Unreachable { detail } => SessionRefusal::GatewayUnavailable { detail },
            GatewayError::Moved | GatewayError::Taken { .. } => SessionRefusal::AskAgain,
            GatewayError::UnknownSession | GatewayError::Over { .. } => return None,
        })
    }
}

impl From<session::Refusal> for SessionRefusal {
    fn from(reason: session::Refusal) -> SessionRefusal {
        SessionRefusal::Rule { reason }
    }
}

impl From<SessionRefusal> for Stop {
    fn from(reason: SessionRefusal) -> Stop {
        Stop::Refused(Refusal::Session { reason })
    }
}

impl From<SessionRefusal> for Failure {
    fn from(reason: SessionRefusal) -> Failure {
        Failure::Refused(Refusal::Session { reason })
    }
}
