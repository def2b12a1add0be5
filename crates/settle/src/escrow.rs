//! 4.2: money is held until it is released or refunded, once.

use serde::{Deserialize, Serialize};
use skep_wire::settle::{EscrowStatus, RefundReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Held,
    Released,
    Refunded(RefundReason),
}

impl State {
    pub fn status(self) -> EscrowStatus {
        match self {
            State::Held => EscrowStatus::Held,
            State::Released => EscrowStatus::Released,
            State::Refunded(_) => EscrowStatus::Refunded,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// To the provider, whole or in part.
    Release,
    Refund(RefundReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the escrow was settled before")]
pub struct AlreadySettled;

/// Closes an escrow. That it does so once even when many ask at the same time is the store's
/// business: the state is written only over the version it was read at (8.2).
pub fn step(state: State, input: Input) -> Result<State, AlreadySettled> {
    match (state, input) {
        (State::Held, Input::Release) => Ok(State::Released),
        (State::Held, Input::Refund(reason)) => Ok(State::Refunded(reason)),
        (State::Released | State::Refunded(_), _) => Err(AlreadySettled),
    }
}

#[cfg(test)]
mod tests;
