//! The use cases on both engines, with real signatures: SQLite in a temporary folder, and a real
//! PostgreSQL that the tests start themselves.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/attacks.rs"]
mod attacks;
#[path = "it/deal_money.rs"]
mod deal_money;
#[path = "it/deal_property.rs"]
mod deal_property;
#[path = "it/deal_races.rs"]
mod deal_races;
#[path = "it/deal_world.rs"]
mod deal_world;
#[path = "it/deals.rs"]
mod deals;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/keys.rs"]
mod keys;
#[path = "it/log.rs"]
mod log;
#[path = "it/money.rs"]
mod money;
#[path = "it/notices.rs"]
mod notices;
#[path = "it/pay.rs"]
mod pay;
#[path = "it/pay_budgets.rs"]
mod pay_budgets;
#[path = "it/pay_escrow.rs"]
mod pay_escrow;
#[path = "it/pay_judge.rs"]
mod pay_judge;
#[path = "it/pay_lost.rs"]
mod pay_lost;
#[path = "it/pay_property.rs"]
mod pay_property;
#[path = "it/pay_wallets.rs"]
mod pay_wallets;
#[path = "it/pay_world.rs"]
mod pay_world;
#[path = "it/receipts.rs"]
mod receipts;
#[path = "it/receiver.rs"]
mod receiver;
#[path = "it/registration.rs"]
mod registration;
#[path = "it/registry.rs"]
mod registry;
#[path = "it/scores.rs"]
mod scores;
#[path = "it/seller.rs"]
mod seller;
#[path = "it/sessions.rs"]
mod sessions;
