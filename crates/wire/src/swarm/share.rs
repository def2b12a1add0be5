//! Shares of one with six decimals, so that every node adds and compares them alike.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Millionths, from 0 to 1; written as a number like 0.85.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u32);

impl Share {
    pub const ZERO: Share = Share(0);
    pub const ONE: Share = Share(1_000_000);

    /// More than one is one.
    pub const fn from_e6(e6: u32) -> Share {
        if e6 > Self::ONE.0 { Self::ONE } else { Share(e6) }
    }

    pub const fn percent(percent: u32) -> Share {
        Share::from_e6(percent.saturating_mul(10_000))
    }

    pub const fn e6(self) -> u32 {
        self.0
    }

    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_f64(), f)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

impl<'de> Deserialize<'de> for Share {
    /// What has more than six decimals is rounded: the signature covers the text, not this number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&number) {
            return Err(de::Error::custom("a number from 0 to 1 is expected"));
        }
        Ok(Share((number * f64::from(Share::ONE.0)).round() as u32))
    }
}
