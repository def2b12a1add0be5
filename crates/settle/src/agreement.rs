//! 4.4: what both sides have agreed on, and how it ends.

use serde::{Deserialize, Serialize};
use skep_wire::settle::AgreementStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Since acceptance.
    Active,
    /// The work was found good, or both agreed on how to divide the price.
    Completed,
    /// The work was found bad. `open`: that can still be contested, or is.
    Disputed {
        open: bool,
    },
    Cancelled,
}

impl State {
    pub fn status(self) -> AgreementStatus {
        match self {
            State::Active => AgreementStatus::Active,
            State::Completed => AgreementStatus::Completed,
            State::Disputed { .. } => AgreementStatus::Disputed,
            State::Cancelled => AgreementStatus::Cancelled,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The work was found good.
    Verify,
    /// The work was found bad; whether that can be contested.
    Reject { contestable: bool },
    /// The window passed unused, or a reviewer says so too.
    Uphold,
    /// A reviewer says otherwise.
    Overturn,
    /// Before delivery, or by a missed deadline.
    Cancel,
    /// Both sides divide the price.
    Agree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the agreement has ended, or not come so far")]
pub struct OutOfTurn;

/// Advances an agreement (decision 29a).
pub fn step(state: State, input: Input) -> Result<State, OutOfTurn> {
    use {Input::*, State::*};
    match (state, input) {
        (Active, Verify) => Ok(Completed),
        (Active, Reject { contestable }) => Ok(Disputed { open: contestable }),
        (Active, Cancel) => Ok(Cancelled),
        (Active | Disputed { open: true }, Agree) => Ok(Completed),
        (Disputed { open: true }, Uphold) => Ok(Disputed { open: false }),
        (Disputed { open: true }, Overturn) => Ok(Completed),
        (Active | Completed | Disputed { .. } | Cancelled, _) => Err(OutOfTurn),
    }
}

#[cfg(test)]
mod tests;
