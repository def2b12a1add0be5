//! Weighted Borda: who leads (ASIP 3).

use std::{cmp::Reverse, collections::BTreeMap};

use skep_base::Did;
use skep_wire::swarm::Share;

use super::counted;

/// The winners with their points, best first: more points, then a higher composite score, then
/// the lower DID.
///
/// A vote is its voter, the voter's weight and its ranking. Candidates that nobody knows, repeated
/// ones and the voter itself are taken out first; of the C that remain the first gets C-1 points,
/// times the weight in millionths.
pub fn borda(
    candidates: &BTreeMap<Did, Share>,
    votes: &[(Did, Share, Vec<Did>)],
    seats: usize,
) -> Vec<(Did, u128)> {
    let standing: Vec<(Did, Share)> =
        candidates.iter().map(|(did, composite)| (*did, *composite)).collect();
    let directory = Directory::new(&standing);
    let mut points = vec![0u128; standing.len()];
    // The vote that named a candidate last, counted from 1.
    let mut named_by = vec![0usize; standing.len()];
    let mut ranked = Vec::with_capacity(standing.len());
    for (number, (voter, weight, ranking)) in counted(votes, |vote| &vote.0).iter().enumerate() {
        ranked.clear();
        for did in ranking {
            let Some(index) = directory.find(did) else { continue };
            if named_by[index] != number + 1 && did != voter {
                named_by[index] = number + 1;
                ranked.push(index);
            }
        }
        for (below, index) in ranked.iter().rev().enumerate() {
            points[*index] += below as u128 * u128::from(weight.e6());
        }
    }
    let mut order: Vec<usize> = (0..standing.len()).collect();
    order.sort_unstable_by_key(|index| {
        let (did, composite) = standing[*index];
        (Reverse(points[*index]), Reverse(composite), did)
    });
    order.truncate(seats);
    order.into_iter().map(|index| (standing[index].0, points[index])).collect()
}

/// Finds a candidate's place among the sorted ones.
struct Directory<'a> {
    standing: &'a [(Did, Share)],
    /// Where the candidates begin whose DIDs start with these bits, and where the next ones do.
    starts: Vec<u32>,
}

/// DIDs are hashes: so many leading bits tell a hundred candidates nearly always apart. Where
/// somebody has searched for DIDs with equal bits, a binary search remains.
const BITS: u32 = 12;

fn prefix(did: &Did) -> usize {
    let [first, second, ..] = did.fingerprint().0;
    usize::from(u16::from_be_bytes([first, second]) >> (u16::BITS - BITS))
}

impl<'a> Directory<'a> {
    fn new(standing: &'a [(Did, Share)]) -> Self {
        let mut starts = vec![0u32; (1 << BITS) + 1];
        for (did, _) in standing {
            starts[prefix(did) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Directory { standing, starts }
    }

    fn find(&self, did: &Did) -> Option<usize> {
        let prefix = prefix(did);
        let (from, to) = (self.starts[prefix] as usize, self.starts[prefix + 1] as usize);
        match &self.standing[from..to] {
            [] => None,
            [(only, _)] => (only == did).then_some(from),
            some => some.binary_search_by(|(known, _)| known.cmp(did)).ok().map(|at| from + at),
        }
    }
}
