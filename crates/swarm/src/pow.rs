//! Work that a new name costs (ASIP 1, decision 43).

use skep_base::{Did, Hash32, hash::sha256_parts};
use skep_wire::swarm::ProofOfWork;

#[cfg(test)]
mod tests;

/// The leading zero bits that a swarm asks for at least.
pub const DIFFICULTY_MIN: u32 = 16;
/// Nobody has found more; a proof that claims it is a mistake.
pub const DIFFICULTY_MAX: u32 = 64;

/// Tries nonces from 0. Takes about two to the power of `difficulty` hashes, so ask for what can be
/// waited for; more than [`DIFFICULTY_MAX`] is not asked.
pub fn solve(did: &Did, difficulty: u32) -> ProofOfWork {
    let difficulty = difficulty.min(DIFFICULTY_MAX);
    let name = did.to_string();
    let mut nonce = 0u64;
    loop {
        let hash = work(&name, nonce);
        if zero_bits(&hash) >= difficulty {
            return ProofOfWork { nonce, hash, difficulty };
        }
        nonce = nonce.wrapping_add(1);
    }
}

/// Whether a proof is this agent's, is what it says, and is enough.
pub fn check(did: &Did, proof: &ProofOfWork, difficulty: u32) -> bool {
    (difficulty..=DIFFICULTY_MAX).contains(&proof.difficulty)
        && zero_bits(&proof.hash) >= proof.difficulty
        && work(&did.to_string(), proof.nonce) == proof.hash
}

fn work(name: &str, nonce: u64) -> Hash32 {
    sha256_parts(&[name.as_bytes(), &nonce.to_le_bytes()])
}

pub(crate) fn zero_bits(hash: &Hash32) -> u32 {
    let zeros = hash.0.iter().take_while(|byte| **byte == 0).count();
    let next = hash.0.get(zeros).map_or(0, |byte| byte.leading_zeros());
    zeros as u32 * u8::BITS + next
}
