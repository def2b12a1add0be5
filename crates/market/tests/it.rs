//! The use cases on both engines, with real signatures: SQLite in a temporary folder, and a real
//! PostgreSQL that the tests start themselves.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/keys.rs"]
mod keys;
#[path = "it/log.rs"]
mod log;
#[path = "it/money.rs"]
mod money;
#[path = "it/registration.rs"]
mod registration;
