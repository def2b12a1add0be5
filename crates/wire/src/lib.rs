//! Messages as they are sent between Skep and its users.
//!
//! Signed bytes must never change because a struct elsewhere was renamed: what is here is the
//! contract, and nothing else is. It holds no rules beyond what a message must look like.

pub mod admin;
pub mod conduit;
pub mod hire;
pub mod http_signature;
pub mod identity;
pub mod notice;
pub mod problem;
pub mod score;
pub mod settle;
pub mod swarm;
pub mod wallet;
pub mod x402;

/// Lists are answered a page at a time.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it back as `cursor` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
