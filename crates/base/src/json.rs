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
pub use parser::{ParseError, from_slice, parse, read_own};

/// How deep arrays and objects may nest, in and out.
pub const MAX_DEPTH: usize = 128;

/// How deep what strangers add to a message of their own accord may nest. Answers wrap it in a few
/// levels more, and must stay readable for everybody.
pub const FREE_DEPTH_MAX: usize = 64;

/// How deep a value nests: 0 for what is neither array nor object.
pub fn depth(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The largest integer that every JSON implementation reads exactly: 2^53 - 1.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// The name under which `serde_json` hands raw JSON text through serde.
pub(crate) const RAW_VALUE: &str = "$serde_json::private::RawValue";
