//! The numbers that decide who holds a benchmark.

pub use skep_wire::score::{Level, Parameters};
