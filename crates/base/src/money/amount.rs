use std::{cmp::Ordering, fmt, str::FromStr};

use crate::text;

/// A number of minor units, never negative. In JSON it is a string of digits, since a JSON number
/// is not exact everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(i64);

/// What becomes of the part of a minor unit that a ratio leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    Floor,
    Ceil,
    /// To the nearest, and a half to the even one, so that many roundings do not drift.
    HalfEven,
}

impl Amount {
    pub const ZERO: Amount = Amount(0);
    pub const MAX: Amount = Amount(i64::MAX);

    pub const fn new(minor: i64) -> Option<Self> {
        if minor < 0 { None } else { Some(Amount(minor)) }
    }

    pub const fn minor(self) -> i64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).map(Amount)
    }

    /// `None` if more is taken than there is.
    pub fn checked_sub(self, other: Amount) -> Option<Amount> {
        Amount::new(self.0 - other.0)
    }

    /// This amount times `num / den`. `None` if the ratio is negative or the result too large.
    pub fn mul_ratio(self, num: i128, den: i128, rounding: Rounding) -> Option<Amount> {
        if num < 0 || den <= 0 {
            return None;
        }
        let product = i128::from(self.0).checked_mul(num)?;
        let (quotient, rest) = (product / den, product % den);
        let up = match rounding {
            Rounding::Floor => false,
            Rounding::Ceil => rest > 0,
            Rounding::HalfEven => match rest.cmp(&(den - rest)) {
                Ordering::Less => false,
                Ordering::Equal => quotient % 2 == 1,
                Ordering::Greater => true,
            },
        };
        i64::try_from(quotient.checked_add(i128::from(up))?).ok().map(Amount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({})", self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseAmountError {
    #[error("an amount in minor units is digits without leading zeros")]
    Malformed,
    #[error("the amount is too large")]
    TooLarge,
}

impl FromStr for Amount {
    type Err = ParseAmountError;

    fn from_str(text: &str) -> Result<Self, ParseAmountError> {
        let leading_zero = text.len() > 1 && text.starts_with('0');
        if text.is_empty() || leading_zero || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(ParseAmountError::Malformed);
        }
        text.parse().map(Amount).map_err(|_| ParseAmountError::TooLarge)
    }
}

text::serde_as_text!(Amount, "minor units as a string of digits");
