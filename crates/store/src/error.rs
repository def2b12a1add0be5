//! Why the store could not do what it was asked.

use crate::turn::Bug;

/// The database, not the rules, said no. Refusals of the rules are answers, not errors.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. Trying again may work.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The commit's answer was lost: it may or may not have happened. A retry with the same key
    /// finds out.
    #[error("it is not known whether the write was committed: {0}")]
    Unknown(String),
    /// An invariant is broken; nothing was written.
    #[error("an invariant is broken: {0}")]
    Bug(#[from] Bug),
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another process uses {path}: end it, or choose another --data-dir")]
    Locked { path: String },
    #[error("the database has schema {found}, this program knows up to {known}: use a newer one")]
    NewerSchema { found: i64, known: i64 },
    #[error("migration {number} of the database is not the one this program has: {detail}")]
    ForeignSchema { number: i64, detail: String },
    #[error("the database risks losing acknowledged money: {setting}")]
    UnsafeSetting { setting: String },
    #[error("{url} is not a database this program can open: {reason}")]
    BadUrl { url: String, reason: String },
    #[error("the database could not be opened: {0}")]
    Failed(String),
}
