//! Sellers as whole programs, over HTTP.

#[path = "it/attacks.rs"]
mod attacks;
#[path = "it/bank.rs"]
mod bank;
#[path = "it/clarify.rs"]
mod clarify;
#[path = "it/crash.rs"]
mod crash;
#[path = "it/jobs.rs"]
mod jobs;
#[path = "it/paid.rs"]
mod paid;
#[path = "it/program.rs"]
mod program;
#[path = "it/stage.rs"]
mod stage;
