//! A small random source that gives the same numbers for the same seed on every machine.

use std::ops::RangeInclusive;

/// SplitMix64. Good enough to choose faults, useless for keys.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; zero when `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product has less bias than a remainder and costs no division.
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The seed to use: that of the environment (`SEED=…`) when a failure is replayed.
pub fn seed_or(default: u64) -> u64 {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(default)
}

/// The seeds to use: one that is replayed (`SEED=…`), a part of them (`SEEDS=1000-1999`), or all.
pub fn seeds_or(all: RangeInclusive<u64>) -> RangeInclusive<u64> {
    if let Some(seed) = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..=seed;
    }
    let part = std::env::var("SEEDS").ok();
    let ends = part.as_deref().and_then(|part| part.split_once('-'));
    match ends.and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?)) {
        Some(part) => part,
        None => all,
    }
}

/// Whether there is time for large numbers (`SKEP_TEST_LONG=1`).
pub fn is_long() -> bool {
    std::env::var_os("SKEP_TEST_LONG").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_published_numbers() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn stays_below_its_limit_and_reaches_every_number() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 5];
        for _ in 0..1000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
