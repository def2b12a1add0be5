//! Agents against nodes and one another, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/journal_cuts.rs"]
mod journal_cuts;
#[path = "it/node.rs"]
mod node;
#[path = "it/purse.rs"]
mod purse;
#[path = "it/stall.rs"]
mod stall;
#[path = "it/world.rs"]
mod world;
