//! Fractions of one with four decimals, written exactly.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Ten thousandths, from 0 to 1; written as a number like 0.3928.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u16);

impl Fraction {
    pub const ONE: Fraction = Fraction(10_000);

    /// More than one is one.
    pub const fn from_e4(e4: u16) -> Fraction {
        if e4 > Self::ONE.0 { Self::ONE } else { Fraction(e4) }
    }

    pub const fn e4(self) -> u16 {
        self.0
    }

    /// The double that is nearest, whose shortest text is these four decimals.
    pub fn to_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE.0)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_f64(), f)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

/// How far a double may be from the four decimals that it stands for: others compute in doubles,
/// and the specification's own code gives 0.39280000000000004.
const ROUNDING: f64 = 1e-9;

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let e4 = (number * f64::from(Fraction::ONE.0)).round();
        // What is out of range saturates and differs.
        let read = Fraction(e4 as u16);
        if read > Fraction::ONE || (read.to_f64() - number).abs() > ROUNDING {
            let message = "a number from 0 to 1 with at most four decimals is expected";
            return Err(de::Error::custom(message));
        }
        Ok(read)
    }
}
