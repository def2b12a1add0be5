//! The one place that knows SQL: transactions, ledger journal, event log, outbox, idempotency, on
//! SQLite or PostgreSQL with the same behaviour.
//!
//! It is not a place for rules of a protocol: a [`Call`] brings its own step.
//!
//! Invariants: a write set is written whole or not at all; nothing is answered before it is on the
//! disk; the journal and the event log are only added to; an account's balance is the sum of its
//! journal.

pub mod account;
pub mod audit;
pub mod bench;
pub mod book;
mod clock;
mod error;
pub mod event;
mod generations;
mod group;
pub mod job;
mod list;
mod listing;
mod migrate;
mod postgres;
mod score_fact;
mod sqlite;
mod store;
pub mod transfer;
pub mod turn;

pub use self::{
    account::{Account, AccountId, Purpose},
    book::{Applied, Book},
    clock::SystemClock,
    error::{OpenError, StoreError},
    event::{Event, Head, LoggedEvent},
    generations::Generations,
    job::{Job, Room},
    list::Listed,
    listing::{
        Indexed, LISTINGS_SCANNED_MAX, ListingFilter, ListingPage, ListingPlace, ListingRow,
        ModeFilter, Payload,
    },
    score_fact::{
        Counted, SCORE_WINDOW, ScoreFact, ScoreMark, ScoreTotals, WantedFacts, track_key,
    },
    sqlite::Synchronous,
    store::{Entry, Options, Progress, Seen, Store},
    transfer::{Debt, DebtState, Kind, LedgerRefusal, Order, StoredTransfer, Transfer},
    turn::{
        Answer, Bug, Call, Decision, Guard, JobDraft, JobEnd, Kept, Load, Lock, Outcome, RecordKey,
        RouteKey, StoredRecord, Turn,
    },
};
