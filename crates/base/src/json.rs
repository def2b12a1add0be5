//! Canonical JSON (RFC 8785) and the strict parser that goes with it.
//!
//! What is hashed or signed passes through here in both directions. [`parse`] refuses every text
//! whose meaning two parsers may disagree on; whatever it accepts, it accepts again in canonical
//! form and the canonical form does not change any more. A program can hold what the parser
//! refuses: a double from 2^53 up to 1e21 is written as RFC 8785 says, as a long integer that no
//! strict parser reads.

mod canonical;
mod parser;
#[cfg(test)]
mod tests;

pub(crate) use canonical::to_vec_without_floats;
pub use canonical::{CanonicalError, to_string, to_vec, write};
pub use parser::{ParseError, from_slice, parse};

/// How deep arrays and objects may nest, in and out.
pub const MAX_DEPTH: usize = 128;

/// The largest integer that every JSON implementation reads exactly: 2^53 - 1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// The name under which `serde_json` hands raw JSON text through serde.
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";
