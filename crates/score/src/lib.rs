//! SwarmScore and ATEP, without I/O: what is counted, what it comes to, and what follows from it.

pub mod benchmark;
pub mod compute;
pub mod fact;
pub mod money;
pub mod parameters;
pub mod track;

pub use compute::{Input, Score, compute};
pub use fact::{Dimension, Fact, Totals};
pub use track::Track;
