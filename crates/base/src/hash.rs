//! SHA-256 and Keccak-256, and the 32 bytes that both give.

use std::{fmt, str::FromStr};

use serde::Serialize;
use sha2::Digest;

use crate::{json, text};

#[cfg(test)]
mod tests;

/// 32 bytes of hash, written as 64 lower-case hex digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash32(pub [u8; 32]);

impl Hash32 {
    pub const ZERO: Hash32 = Hash32([0; 32]);

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The form Ethereum tools write: `0x` and 64 hex digits.
    pub fn to_prefixed(&self) -> String {
        format!("0x{self}")
    }
}

impl AsRef<[u8]> for Hash32 {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 32]> for Hash32 {
    fn from(bytes: [u8; 32]) -> Self {
        Hash32(bytes)
    }
}

impl fmt::Display for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_hex::<64>(f, "", &self.0)
    }
}

impl fmt::Debug for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash32({self})")
    }
}

/// Only the lower-case form is read: a hash that has two spellings is two keys in somebody's table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 lower-case hex digits")]
pub struct ParseHashError;

impl FromStr for Hash32 {
    type Err = ParseHashError;

    fn from_str(text: &str) -> Result<Self, ParseHashError> {
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(ParseHashError);
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseHashError)?;
        Ok(Hash32(bytes))
    }
}

text::serde_as_text!(Hash32, "64 lower-case hex digits");

pub fn sha256(bytes: &[u8]) -> Hash32 {
    Hash32(sha2::Sha256::digest(bytes).into())
}

/// SHA-256 of the parts one after the other, without joining them first.
pub fn sha256_parts(parts: &[&[u8]]) -> Hash32 {
    let mut hasher = sha2::Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    Hash32(hasher.finalize().into())
}

/// Ethereum's hash: Keccak with the original padding, which is not SHA3-256.
pub fn keccak256(bytes: &[u8]) -> Hash32 {
    Hash32(sha3::Keccak256::digest(bytes).into())
}

/// SHA-256 of the canonical JSON of a value.
pub fn json_sha256<T: Serialize + ?Sized>(value: &T) -> Result<Hash32, json::CanonicalError> {
    Ok(sha256(&json::to_vec(value)?))
}
