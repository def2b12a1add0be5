//! 4.3: somebody looks at the work, or does not in time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::Timestamp;
use skep_wire::settle::{Outcome, VerificationStatus as Status};

/// A verdict is sent at most so long after it was reached: what is said of the work is said of the
/// time of its settlement. Whoever could not send it looks again.
pub const SENT_WITHIN: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Acknowledge,
    Verdict(Outcome),
    /// Time has passed.
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the verification is over: its status is {status:?}")]
    Over { status: Status },
    #[error("the verification timed out at {deadline}")]
    TooLate { deadline: Timestamp },
}

/// Advances a verification that must be over before `deadline`, if it has one. Deadline and verdict
/// are compared here and nowhere else, so that a sweep that comes late changes nothing.
pub fn step(
    status: Status,
    deadline: Option<Timestamp>,
    now: Timestamp,
    input: Input,
) -> Result<Status, Refusal> {
    use {Input::*, Status::*};
    let passed = deadline.filter(|deadline| now >= *deadline);
    match (status, input) {
        (Pending | Running, Tick) if passed.is_some() => Ok(Timeout),
        (Pending | Running, Tick) => Ok(status),
        // 7.1: the late word is evidence for the reviewer, no verdict.
        (Pending | Running | Timeout, Acknowledge | Verdict(_)) if let Some(deadline) = passed => {
            Err(Refusal::TooLate { deadline })
        }
        // A second acknowledgement of the same job is harmless.
        (Pending | Running, Acknowledge) => Ok(Running),
        // A verdict without an acknowledgement implies one.
        (Pending | Running, Verdict(outcome)) => Ok(match outcome {
            Outcome::Verified => Verified,
            Outcome::Failed => Failed,
            Outcome::Rejected => Rejected,
            Outcome::Error => Error,
        }),
        (Verified | Failed | Rejected | Timeout | Error, Tick) => Ok(status),
        (Verified | Failed | Rejected | Timeout | Error, _) => Err(Refusal::Over { status }),
    }
}

#[cfg(test)]
mod tests;
