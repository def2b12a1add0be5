//! Draws that everybody can repeat, and nobody steers but by choosing the beacon (decision 44).
//!
//! A lot is a hash of the beacon, which was fixed before anybody knew the subject, of the subject
//! and of whoever takes part. A DID's text has always the same length, so no two inputs run into
//! each other.

use skep_base::{
    Did, Hash32,
    hash::{sha256, sha256_parts},
};

#[cfg(test)]
mod tests;

/// How many witnesses make an outcome final where the swarm has more members: enough that a third
/// of them is rarely dishonest, few enough that their signatures fit into one message.
pub const WITNESSES_MAX: usize = 64;

/// What a DID drew for a subject.
pub fn lot(beacon: &Hash32, subject: &str, did: &Did) -> Hash32 {
    sha256_parts(&[beacon.as_bytes(), subject.as_bytes(), did.to_string().as_bytes()])
}

/// Each DID once, the lowest lot first.
pub fn by_lot(beacon: &Hash32, subject: &str, dids: &[Did]) -> Vec<Did> {
    lowest(beacon, subject, dids.to_vec(), usize::MAX)
}

/// Those who vote on a plan beside the board. Whoever is on the board is not in `tier2`.
pub fn senate(beacon: &Hash32, task_id: &str, tier2: &[Did], k: usize) -> Vec<Did> {
    let tier2 = sorted(tier2);
    let seats = k.min(tier2.len() / 2);
    lowest(beacon, task_id, tier2, seats)
}

/// The member of a board that looks for flaws.
pub fn critic(beacon: &Hash32, task_id: &str, members: &[Did]) -> Option<Did> {
    let members = sorted(members);
    let mut drawn = [beacon.as_bytes(), task_id.as_bytes()].concat();
    members.iter().for_each(|did| drawn.extend(did.to_string().bytes()));
    let number = u128::from_be_bytes(*sha256(&drawn).0.first_chunk()?);
    let index = number.checked_rem(members.len() as u128)?;
    members.get(index as usize).copied()
}

/// Whose signatures make the outcome of a subject final. Those concerned come first; whoever is
/// not a member is no witness.
pub fn witnesses(beacon: &Hash32, subject: &str, concerned: &[Did], members: &[Did]) -> Vec<Did> {
    let members = sorted(members);
    if members.len() <= WITNESSES_MAX {
        return members;
    }
    let (concerned, others): (Vec<Did>, Vec<Did>) = {
        let concerned = sorted(concerned);
        members.into_iter().partition(|did| concerned.binary_search(did).is_ok())
    };
    let mut chosen = lowest(beacon, subject, concerned, WITNESSES_MAX);
    let free = WITNESSES_MAX - chosen.len();
    if free > 0 {
        chosen.extend(lowest(beacon, subject, others, free));
    }
    chosen.sort_unstable();
    chosen
}

/// How many of `n` must agree so that no two quorums can differ while fewer than a third lie.
pub fn quorum(n: usize) -> usize {
    // The same as ⌊2n/3⌋, without a product that could overflow.
    n / 3 * 2 + n % 3 * 2 / 3 + 1
}

fn sorted(dids: &[Did]) -> Vec<Did> {
    let mut dids = dids.to_vec();
    dids.sort_unstable();
    dids.dedup();
    dids
}

fn lowest(beacon: &Hash32, subject: &str, mut dids: Vec<Did>, count: usize) -> Vec<Did> {
    dids.sort_unstable();
    dids.dedup();
    let mut lots: Vec<(Hash32, Did)> =
        dids.into_iter().map(|did| (lot(beacon, subject, &did), did)).collect();
    if (1..lots.len()).contains(&count) {
        lots.select_nth_unstable(count - 1);
    }
    lots.truncate(count);
    lots.sort_unstable();
    lots.into_iter().map(|(_, did)| did).collect()
}
