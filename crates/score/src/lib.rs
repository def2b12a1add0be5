//! SwarmScore and ATEP, without I/O: what is counted, what it comes to, and what follows from it.

pub mod atep;
pub mod benchmark;
pub mod compute;
pub mod fact;
pub mod flags;
pub mod import;
pub mod money;
pub mod parameters;
pub mod phase;
pub mod publish;
pub mod session;
pub mod track;
pub mod vc;
pub mod verify;

pub use atep::Breadth;
pub use compute::{Input, Score, compute};
pub use fact::{Dimension, Fact, NumberedFact, Totals};
pub use import::Imported;
pub use track::Track;
