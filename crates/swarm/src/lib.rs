//! ASIP: how agents elect coordinators, form boards, plan, vote, work and prove results.
//!
//! Everything here is a function of signed messages and the time: no I/O, no clock, no randomness.
//! The same inputs give the same decision on every node and to every later auditor.

pub mod accord;
pub mod aggregate;
pub mod assignment;
pub mod challenge;
pub mod coordinate;
pub mod draw;
pub mod election;
pub mod epoch;
pub mod genesis;
pub mod judge;
pub mod kept;
pub mod layout;
pub mod node;
pub mod pow;
pub mod score;
pub mod succession;
pub mod tally;
pub mod transcript;
