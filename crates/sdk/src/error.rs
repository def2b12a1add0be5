//! What can go wrong with a call.

use std::time::Duration;

use skep_wire::{http_signature::SignatureError, problem::Problem};

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The node said no, and why.
    #[error("{}: {}", .problem.code, .problem.detail)]
    Problem {
        problem: Box<Problem>,
        /// How long the node asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The node could not be reached, or its answer was lost on the way.
    #[error("the node cannot be reached at {url}")]
    Connection { url: String, source: reqwest::Error },
    /// What came back is not what this version of the client understands.
    #[error("the node's answer (status {status}) cannot be read: {reason}")]
    Answer { status: u16, reason: String },
    #[error("the request cannot be written as JSON: {0}")]
    Request(String),
    #[error("{url:?} is not the address of a node: {reason}")]
    Url { url: String, reason: String },
    /// The call must be signed, and there is no key.
    #[error("this call must be signed: give the client a key")]
    NoKey,
    #[error("the request could not be signed")]
    Sign(#[source] SignatureError),
    #[error("the system gives no random bytes: {0}")]
    Entropy(String),
    #[error("the client could not be made")]
    Setup(#[source] reqwest::Error),
}

impl Error {
    /// A stable word to decide by: the node's own code where it said something.
    pub fn code(&self) -> &str {
        match self {
            Error::Problem { problem, .. } => &problem.code,
            Error::Connection { .. } => "connection",
            Error::Answer { .. } => "unreadable_answer",
            Error::Request(_) => "bad_request",
            Error::Url { .. } => "bad_url",
            Error::NoKey => "no_key",
            Error::Sign(error) => error.code(),
            Error::Entropy(_) => "no_entropy",
            Error::Setup(_) => "no_client",
        }
    }

    /// Whether the same call may work later. With the same idempotency key it happens once only,
    /// however often it is sent.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Problem { problem, .. } => problem.retryable,
            // What could not even be written down will not be next time.
            Error::Connection { source, .. } => !source.is_builder(),
            // A proxy's page in place of an answer: the node may be on its way back.
            Error::Answer { status, .. } => matches!(status, 502..=504),
            Error::Request(_)
            | Error::Url { .. }
            | Error::NoKey
            | Error::Sign(_)
            | Error::Entropy(_)
            | Error::Setup(_) => false,
        }
    }

    /// How long the node asks to wait before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Problem { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
