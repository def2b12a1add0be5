//! The HTTP face over real sockets, with a real store below.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

mod bad_input;
mod documents;
mod money;
mod notices;
mod payments;
mod registry;
mod scores;
mod serving;
mod world;
