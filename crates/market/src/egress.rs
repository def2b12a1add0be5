//! The world outside, as use cases see it.

use std::{fmt::Debug, pin::Pin};

/// Something on its way to a stranger and back.
pub type Sending<'a, T> = Pin<Box<dyn Future<Output = Result<T, EgressFailure>> + Send + 'a>>;

/// Requests to addresses that strangers gave. Whoever implements it refuses inner addresses, and
/// follows no redirects to one (decision 34).
pub trait Egress: Send + Sync + Debug {
    /// Sends a body and gives the status of the answer, whatever it is.
    fn post(&self, url: String, headers: Vec<(String, String)>, body: Vec<u8>) -> Sending<'_, u16>;

    /// Fetches a body of at most `body_max` bytes from this very address: a redirect is no answer.
    fn get_here(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>>;

    /// Fetches a body of at most `body_max` bytes.
    fn get(&self, url: String, body_max: usize) -> Sending<'_, Vec<u8>>;
}

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct EgressFailure {
    /// Stable; whoever gave the address may see it.
    pub code: String,
    /// For the operator.
    pub detail: String,
}
