//! The real binary: real processes, real files, real signals.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/cli.rs"]
mod cli;
#[path = "it/deals.rs"]
mod deals;
#[path = "it/kill.rs"]
mod kill;
