//! The real binary: real processes, real files, real signals.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/check.rs"]
mod check;
#[path = "it/cli.rs"]
mod cli;
#[path = "it/custom_work.rs"]
mod custom_work;
#[path = "it/deal_kills.rs"]
mod deal_kills;
#[path = "it/deals.rs"]
mod deals;
#[path = "it/hire.rs"]
mod hire;
#[path = "it/hire_attacks.rs"]
mod hire_attacks;
#[path = "it/hire_kills.rs"]
mod hire_kills;
#[path = "it/hire_stage.rs"]
mod hire_stage;
#[path = "it/hire_wallets.rs"]
mod hire_wallets;
#[path = "it/kill.rs"]
mod kill;
#[path = "it/market_process.rs"]
mod market_process;
#[path = "it/proof_page.rs"]
mod proof_page;
#[path = "it/score.rs"]
mod score;
#[path = "it/sell.rs"]
mod sell;
#[path = "it/sessions.rs"]
mod sessions;
#[path = "it/site.rs"]
mod site;
#[path = "it/stage.rs"]
mod stage;
#[path = "it/swarm.rs"]
mod swarm;
#[path = "it/terms_of_business.rs"]
mod terms_of_business;
#[path = "it/verifier_process.rs"]
mod verifier_process;
#[path = "it/x402_clients.rs"]
mod x402_clients;
