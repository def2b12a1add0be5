//! Counting ballots: instant runoff for plans, weighted Borda for elections (ASIP 3 and 8).
//!
//! Ties end in a total order, so that every node names the same winner (decision 45). Who votes
//! once is counted once; who votes twice and differently is not counted at all.

mod borda;
mod runoff;
#[cfg(test)]
mod tests;

pub use borda::borda;
pub use runoff::{Ballot, Round, Runoff, critic_mean_e6, instant_runoff};

use skep_base::Did;

/// The votes that count: one of each voter, none of a voter whose votes differ.
fn counted<T: PartialEq>(votes: &[T], voter: impl Fn(&T) -> &Did) -> Vec<&T> {
    let mut counted: Vec<&T> = votes.iter().collect();
    // Whoever keeps votes by their voters has sorted them already.
    if counted.is_sorted_by(|a, b| voter(a) < voter(b)) {
        return counted;
    }
    counted.sort_by_key(|vote| voter(vote));
    let mut kept = Vec::with_capacity(counted.len());
    for same in counted.chunk_by(|a, b| voter(a) == voter(b)) {
        if let Some((first, rest)) = same.split_first()
            && rest.iter().all(|vote| vote == first)
        {
            kept.push(*first);
        }
    }
    kept
}
