//! Whole swarms in one thread: a virtual clock, a network that fails, and nodes that lie.
//!
//! The same seed is the same run, event by event, so whatever goes wrong once can be looked at as
//! often as it takes.
//!
//! ```
//! use skep_sim::{Setup, run};
//!
//! let report = run(&Setup::calm(1, 4, 1));
//! assert!(report.violations.is_empty(), "{:?}", report.violations);
//! assert_eq!(report.trace_hash, run(&report.setup).trace_hash);
//! ```

pub mod agent;
mod bug;
mod client;
mod door;
mod heard;
mod invariant;
mod liar;
mod lie;
mod map;
mod network;
mod picture;
mod polls;
mod recount;
pub mod rng;
mod run;
mod schemer;
mod seal;
mod setup;
mod timeline;
mod trace;
mod traffic;
mod trick;
mod world;

pub use bug::Bug;
pub use client::{Known, Wish};
pub use invariant::{Invariant, Violation};
pub use lie::Lie;
pub use map::Map;
pub use picture::picture;
pub use run::{GRACE_MS, Report, TaskOutcome, run};
pub use setup::{Setup, brisk};
pub use timeline::{Phase, Timeline};
pub use trace::Trace;
pub use traffic::{Counts, Load, Sum, Traffic};
