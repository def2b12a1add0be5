//! Fixtures for tests and benchmarks: real programs, real files, real crashes.
//!
//! ```no_run
//! use skep_testkit::postgres::TempPostgres;
//!
//! let url = TempPostgres::shared().create_database("ledger").expect("a fresh database");
//! assert!(url.starts_with("postgres://postgres@127.0.0.1:"));
//! ```

pub mod postgres;
pub mod powercut;
pub mod process;
pub mod rng;
