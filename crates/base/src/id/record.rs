use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    str::FromStr,
};

use crate::{
    hash::sha256_parts,
    text::{FromText, write_ascii},
    time::Timestamp,
};

/// What an id names. The kind is in its text, so that ids cannot be mixed up outside the program
/// either.
pub trait Kind: 'static {
    const PREFIX: &'static str;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident, $alias:ident, $prefix:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $kind {}

            impl Kind for $kind {
                const PREFIX: &'static str = $prefix;
            }

            #[doc = concat!("An id that starts with `", $prefix, "_`.")]
            pub type $alias = Id<$kind>;
        )*
    };
}

kinds! {
    /// A movement of money between accounts of the ledger.
    Transfer, TransferId, "tr";
    /// An entry of the event log.
    Event, EventId, "evt";
    /// A piece of work for the background runner.
    Job, JobId, "job";
    /// A signed statement of what was done and paid.
    Receipt, ReceiptId, "rcpt";
    Session, SessionId, "sess";
    /// What an agent sells, at which price.
    Listing, ListingId, "lst";
    /// One call to the HTTP interface.
    Request, RequestId, "req";
    /// Something the node owes the outside world and must still do.
    Debt, DebtId, "debt";
    /// A message to an agent or its operator.
    Notice, NoticeId, "ntc";
}

/// 16 bytes: 48 bits of milliseconds, then 80 bits of entropy, so that ids sort by their time.
///
/// Written as the kind's prefix, `_` and 26 lower-case characters of Crockford's base 32.
pub struct Id<K> {
    bytes: [u8; 16],
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Id<K> {
    pub fn new(at: Timestamp, entropy: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&at.as_ms().to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&entropy);
        Self::from_bytes(bytes)
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Id { bytes, kind: PhantomData }
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.bytes
    }

    /// When it was made, by the clock of whoever made it.
    pub fn time(&self) -> Timestamp {
        let ms = self.bytes[..6].iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte));
        Timestamp::from_ms(ms)
    }

    /// The id of something that follows from this one: the same label always gives the same child.
    pub fn derive<K2: Kind>(&self, label: &str) -> Id<K2> {
        let hash = sha256_parts(&[&self.bytes, label.as_bytes()]);
        let mut bytes = self.bytes;
        bytes[6..].copy_from_slice(&hash.as_bytes()[..10]);
        Id::from_bytes(bytes)
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

/// The longest prefix of a kind.
const PREFIX_MAX: usize = 4;

/// Crockford's base 32, without the letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The length of 128 bits at 5 bits a character; the first character carries 3 of them.
const CHARS: usize = 26;

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const { assert!(K::PREFIX.len() <= PREFIX_MAX) };
        let mut text = [b'_'; PREFIX_MAX + 1 + CHARS];
        let (prefix, text) = (K::PREFIX.as_bytes(), &mut text[..K::PREFIX.len() + 1 + CHARS]);
        text[..prefix.len()].copy_from_slice(prefix);
        let mut number = u128::from_be_bytes(self.bytes);
        for char in text[prefix.len() + 1..].iter_mut().rev() {
            *char = ALPHABET[(number & 31) as usize];
            number >>= 5;
        }
        write_ascii(f, text)
    }
}

impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    #[error(
        "an id that starts with {expected}_ is expected here, and this one starts with {found}_"
    )]
    WrongKind { expected: &'static str, found: String },
    #[error("an id is {expected}_ and 26 lower-case characters of Crockford's base 32")]
    Malformed { expected: &'static str },
}

impl<K: Kind> FromStr for Id<K> {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let expected = K::PREFIX;
        let malformed = ParseIdError::Malformed { expected };
        let Some((prefix, chars)) = text.split_once('_') else {
            return Err(malformed);
        };
        if prefix != expected {
            // Prefixes are short; what is longer is no prefix and not worth repeating.
            let found = prefix.chars().take(16).collect();
            return Err(ParseIdError::WrongKind { expected, found });
        }
        if chars.len() != CHARS || chars.as_bytes()[0] > b'7' {
            return Err(malformed);
        }
        let mut number = 0_u128;
        for char in chars.bytes() {
            let digit =
                ALPHABET.iter().position(|known| *known == char).ok_or(malformed.clone())?;
            number = number << 5 | digit as u128;
        }
        Ok(Self::from_bytes(number.to_be_bytes()))
    }
}

impl<K: Kind> serde::Serialize for Id<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, K: Kind> serde::Deserialize<'de> for Id<K> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FromText::new("a typed id"))
    }
}
