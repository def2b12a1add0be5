//! Chance that is the same for the same seed, on every machine and in every version.

use skep_wire::swarm::Share;

#[cfg(test)]
mod tests;

/// A generator with 256 bits of state (xoshiro256**), filled from a seed by SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

/// One step of SplitMix64: also a good way to mix a number into another.
pub fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        }))
    }

    /// A generator of its own for one purpose: what it draws does not shift what others draw.
    pub fn fork(seed: u64, purpose: &str) -> Rng {
        Rng::new(purpose.bytes().fold(mix(seed), |state, byte| mix(state ^ u64::from(byte))))
    }

    pub fn next_u64(&mut self) -> u64 {
        let Rng(s) = self;
        let drawn = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        drawn
    }

    /// From 0 to `end`, without `end`; 0 where there is nothing to choose from.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of the product; its bias is far below what a simulation could notice.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// From `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn chance(&mut self, share: Share) -> bool {
        share > Share::ZERO && self.below(u64::from(Share::ONE.e6())) < u64::from(share.e6())
    }

    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(Share::percent(percent))
    }

    /// From `low` to `high` percent.
    pub fn share(&mut self, low: u32, high: u32) -> Share {
        Share::from_e6(self.between(u64::from(low) * 10_000, u64::from(high) * 10_000) as u32)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.index(from.len()))
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.index(last + 1));
        }
    }
}
