//! One suite over both engines: SQLite in a temporary folder, and a real PostgreSQL that the
//! tests start themselves.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

#[path = "it/crash.rs"]
mod crash;
#[path = "it/fixture.rs"]
mod fixture;
#[path = "it/jobs.rs"]
mod jobs;
#[path = "it/ledger.rs"]
mod ledger;
#[path = "it/listings.rs"]
mod listings;
#[path = "it/lists.rs"]
mod lists;
#[path = "it/log.rs"]
mod log;
#[path = "it/races.rs"]
mod races;
#[path = "it/schema.rs"]
mod schema;
#[path = "it/score_facts.rs"]
mod score_facts;
