//! SHP's rules, without I/O: what may be sold, how a result is checked, what a listing and a
//! receipt must say, and what a budget allows.

pub mod bazaar;
pub mod budget;
pub mod capability;
pub mod endpoint;
pub mod listing;
mod media;
pub mod rank;
pub mod receipt;
pub mod schema;
pub mod terms;

pub use skep_wire::hire::Verification;
