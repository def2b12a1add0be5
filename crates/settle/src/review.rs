//! 7.3: a person decides what no engine could.

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::settle::ReviewStatus as Status;

/// Why a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The verifier did not answer in time (7.1).
    Timeout,
    /// Two verifiers could not find out.
    Error,
    /// The terms say so, or hold nothing that an engine could check.
    Human,
    /// One side contests a verdict.
    Dispute,
    /// The requester does not take the provider's word.
    Objection,
    /// No verifier that is independent of both sides has the engine.
    NoVerifier,
}

impl Cause {
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Timeout => "timeout",
            Cause::Error => "error",
            Cause::Human => "human",
            Cause::Dispute => "dispute",
            Cause::Objection => "objection",
            Cause::NoVerifier => "no_verifier",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Decide,
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the review is over")]
    Over,
    #[error("the time for the review ended at {deadline}")]
    TooLate { deadline: Timestamp },
}

/// Advances a review. Without a deadline it waits for a person (decision 30).
pub fn step(
    status: Status,
    deadline: Option<Timestamp>,
    now: Timestamp,
    input: Input,
) -> Result<Status, Refusal> {
    match (status, input, deadline) {
        (Status::Pending, Input::Tick, Some(deadline)) if now >= deadline => Ok(Status::Lapsed),
        (Status::Pending, Input::Decide, Some(deadline)) if now >= deadline => {
            Err(Refusal::TooLate { deadline })
        }
        (Status::Pending, Input::Decide, _) => Ok(Status::Decided),
        (Status::Decided | Status::Lapsed, Input::Decide, _) => Err(Refusal::Over),
        (_, Input::Tick, _) => Ok(status),
    }
}

#[cfg(test)]
mod tests;
