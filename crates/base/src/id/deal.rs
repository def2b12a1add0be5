use std::{fmt, str::FromStr};

use crate::{
    hash::sha256_parts,
    id::{DebtId, TransferId},
    text,
    time::Timestamp,
};

/// A deal. Its negotiation, escrow, agreement and settlement all go by this one id, which VCAP
/// wants to be a UUID (3.1, 3.3): version 7, whose first 48 bits are the time, and whose last byte
/// is zero so that the deal's verifications can be numbered below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DealId([u8; 16]);

/// One verification of a deal: the deal's id with the attempt's number in its last byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerificationId([u8; 16]);

impl DealId {
    /// The same seed at the same time is the same deal.
    pub fn new(at: Timestamp, seed: &[&[u8]]) -> DealId {
        let mut bytes = *sha256_parts(seed).as_bytes().first_chunk().expect("32 bytes hold 16");
        let ms = at.as_ms().to_be_bytes();
        bytes[..6].copy_from_slice(&ms[2..]);
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes[15] = 0;
        DealId(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The movement of money that `label` names.
    pub fn transfer(&self, label: &str) -> TransferId {
        TransferId::from_bytes(self.0).derive(label)
    }

    /// The debt that `label` names.
    pub fn debt(&self, label: &str) -> DebtId {
        DebtId::from_bytes(self.0).derive(label)
    }

    /// The deal's verification of this number, from 1.
    pub fn verification(&self, attempt: u8) -> VerificationId {
        let mut bytes = self.0;
        bytes[15] = attempt;
        VerificationId(bytes)
    }
}

impl VerificationId {
    pub fn deal(&self) -> DealId {
        let mut bytes = self.0;
        bytes[15] = 0;
        DealId(bytes)
    }

    /// From 1.
    pub const fn attempt(&self) -> u8 {
        self.0[15]
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the UUID of a {what}, in lower case, as this marketplace made it")]
pub struct ParseUuidError {
    what: &'static str,
}

/// Where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

fn write(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut digits = [0; 32];
    hex::encode_to_slice(bytes, &mut digits).map_err(|_| fmt::Error)?;
    let (mut text, mut from) = ([b'-'; 36], 0);
    for (at, end) in HYPHENS.into_iter().chain([36]).enumerate() {
        // As many hyphens stand before this part as parts do.
        let part = &mut text[from + at..end];
        part.copy_from_slice(&digits[from..from + part.len()]);
        from += part.len();
    }
    text::write_ascii(f, &text)
}

fn read(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 || HYPHENS.iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let mut digits = bytes.iter().filter(|b| **b != b'-').map(|b| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    });
    let mut read = [0; 16];
    for byte in &mut read {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(read)
}

impl fmt::Display for DealId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

impl fmt::Display for VerificationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

impl fmt::Debug for DealId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for VerificationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for DealId {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<DealId, ParseUuidError> {
        let read = read(text).filter(|bytes| bytes[15] == 0);
        read.map(DealId).ok_or(ParseUuidError { what: "deal" })
    }
}

impl FromStr for VerificationId {
    type Err = ParseUuidError;

    fn from_str(text: &str) -> Result<VerificationId, ParseUuidError> {
        let read = read(text).filter(|bytes| bytes[15] != 0);
        read.map(VerificationId).ok_or(ParseUuidError { what: "verification" })
    }
}

text::serde_as_text!(DealId, "the UUID of a deal");
text::serde_as_text!(VerificationId, "the UUID of a verification");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_7_and_lead_to_each_other() {
        let deal = DealId::new(Timestamp::from_ms(0x0192_1f3a_4b5c), &[b"agent", b"nonce"]);
        let text = deal.to_string();
        assert_eq!(text.parse(), Ok(deal));
        assert!(text.starts_with("01921f3a-4b5c-7") && text.ends_with("00"), "{text}");
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
        let second = deal.verification(2);
        assert_eq!((second.deal(), second.attempt()), (deal, 2));
        assert_eq!(second.to_string().parse(), Ok(second));
        assert!(second.to_string().parse::<DealId>().is_err());
        assert!(text.parse::<VerificationId>().is_err());
        assert_ne!(deal.transfer("hold"), deal.transfer("release"));
    }

    #[test]
    fn other_texts_are_refused() {
        let good = DealId::new(Timestamp::from_ms(7), &[b"x"]).to_string();
        let upper = good.to_uppercase();
        for bad in ["", "x", &good[1..], &upper, &good.replace('-', "_"), &format!("{good}0")] {
            assert!(bad.parse::<DealId>().is_err(), "{bad}");
        }
    }
}
