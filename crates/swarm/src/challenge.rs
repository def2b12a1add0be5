//! The timed challenge of an epoch: work that nobody could do before the epoch's beacon was known
//! (decision 44a).

use skep_base::{Did, Hash32, hash::sha256_parts};
use skep_wire::swarm::Share;

use crate::pow::{DIFFICULTY_MAX, zero_bits};

#[cfg(test)]
mod tests;

/// An answer within this time is as good as one can be: news of the epoch and the answer have to
/// travel, each perhaps twice.
pub const FULL_MS: u64 = 30_000;
/// An answer after this time is none.
pub const END_MS: u64 = 120_000;
/// The largest nonce: signed JSON holds no larger whole number.
pub const NONCE_MAX: u64 = (1 << 53) - 1;

/// Tries nonces from 0, about two to the power of `difficulty` of them.
pub fn solve(beacon: &Hash32, did: &Did, difficulty: u32) -> u64 {
    let difficulty = difficulty.min(DIFFICULTY_MAX);
    let name = did.to_string();
    let is_enough = |nonce: &u64| zero_bits(&work(beacon, &name, *nonce)) >= difficulty;
    (0..=NONCE_MAX).find(is_enough).unwrap_or(NONCE_MAX)
}

/// Whether a nonce answers the challenge.
pub fn check(beacon: &Hash32, did: &Did, nonce: u64, difficulty: u32) -> bool {
    let bits = zero_bits(&work(beacon, &did.to_string(), nonce));
    nonce <= NONCE_MAX && bits >= difficulty.min(DIFFICULTY_MAX)
}

/// What an answer is worth that came so long after its watcher learnt of the epoch: less and less
/// from [`FULL_MS`] to [`END_MS`].
pub fn grade(took_ms: u64) -> Share {
    let left_ms = END_MS.saturating_sub(took_ms.max(FULL_MS));
    let e6 = left_ms * u64::from(Share::ONE.e6()) / (END_MS - FULL_MS);
    Share::from_e6(e6 as u32)
}

fn work(beacon: &Hash32, name: &str, nonce: u64) -> Hash32 {
    sha256_parts(&[beacon.as_bytes(), name.as_bytes(), &nonce.to_le_bytes()])
}
