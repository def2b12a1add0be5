//! A fingerprint of a whole run: two runs with the same one have gone the same way.

use std::fmt;

use skep_base::Hash32;

use crate::rng::mix;

/// Not for secrets: it tells runs apart, it keeps nobody from making two that look alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    high: u64,
    low: u64,
}

impl Trace {
    pub fn add(&mut self, number: u64) {
        self.high = mix(self.high ^ number);
        self.low = mix(self.low.rotate_left(17).wrapping_add(number)) ^ self.high;
    }

    pub fn add_hash(&mut self, hash: &Hash32) {
        hash.0.as_chunks().0.iter().for_each(|eight| self.add(u64::from_be_bytes(*eight)));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}
