//! SHP's rules, without I/O: what may be sold, how a result is checked, what a listing and a
//! receipt must say, and what a budget allows.

pub mod endpoint;
pub mod listing;
pub mod rank;
pub mod receipt;
pub mod terms;

pub use skep_wire::hire::Verification;
