use std::{fmt, str::FromStr};

use crate::{ed25519::PublicKey, hash::Hash32, text};

/// `did:swarm:` and the fingerprint of an agent's first Ed25519 key. It stays when the key rotates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Did(Hash32);

const METHOD: &str = "did:swarm:";

impl Did {
    pub fn of(first_key: &PublicKey) -> Self {
        Did(first_key.fingerprint())
    }

    pub const fn from_fingerprint(fingerprint: Hash32) -> Self {
        Did(fingerprint)
    }

    /// SHA-256 of the raw bytes of the first key.
    pub const fn fingerprint(&self) -> Hash32 {
        self.0
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_hex::<74>(f, METHOD, self.0.as_bytes())
    }
}

impl fmt::Debug for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Did({self})")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a DID here is did:swarm: and 64 lower-case hex digits")]
pub struct ParseDidError;

impl FromStr for Did {
    type Err = ParseDidError;

    fn from_str(text: &str) -> Result<Self, ParseDidError> {
        let digits = text.strip_prefix(METHOD).ok_or(ParseDidError)?;
        digits.parse().map(Did).map_err(|_| ParseDidError)
    }
}

text::serde_as_text!(Did, "did:swarm: and 64 lower-case hex digits");
