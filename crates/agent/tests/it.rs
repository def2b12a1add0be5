//! Agents against nodes and one another, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/attacks.rs"]
mod attacks;
#[path = "it/bank.rs"]
mod bank;
#[path = "it/callbacks.rs"]
mod callbacks;
#[path = "it/clarify.rs"]
mod clarify;
#[path = "it/crash.rs"]
mod crash;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/identifiers.rs"]
mod identifiers;
#[path = "it/jobs.rs"]
mod jobs;
#[path = "it/journal_cuts.rs"]
mod journal_cuts;
#[path = "it/node.rs"]
mod node;
#[path = "it/paid.rs"]
mod paid;
#[path = "it/program.rs"]
mod program;
#[path = "it/purse.rs"]
mod purse;
#[path = "it/schemas.rs"]
mod schemas;
#[path = "it/stage.rs"]
mod stage;
#[path = "it/stall.rs"]
mod stall;
#[path = "it/wallets.rs"]
mod wallets;
#[path = "it/world.rs"]
mod world;
