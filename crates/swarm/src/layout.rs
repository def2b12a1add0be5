//! The pyramid: who is in which tier, and under whom.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use skep_base::Did;
use skep_wire::swarm::{Location, Share, Tier};

use crate::coordinate::{micros, square_us};

#[cfg(test)]
mod tests;

/// The deepest hierarchy; its last tier takes whoever is left.
pub const DEPTH_MAX: u32 = 10;
/// How many an agent leads: at least, and at most.
pub const K_MIN: usize = 3;
pub const K_MAX: usize = 10;

/// The smallest depth with `k` to the power of it at least `n`, from 1 to [`DEPTH_MAX`].
pub fn depth(n: u64, k: u64) -> u32 {
    let mut power = k;
    let mut depth = 1;
    while power < n && depth < DEPTH_MAX {
        power = power.saturating_mul(k);
        depth += 1;
    }
    depth
}

/// How many agents each tier has: `k` in the first, `k` times as many in each next one, the rest
/// in the last.
pub fn tier_sizes(n: u64, k: u64) -> Vec<u64> {
    sizes_below(n, k.clamp(1, n.max(1)), k)
}

fn sizes_below(n: u64, first: u64, k: u64) -> Vec<u64> {
    let (mut sizes, mut size, mut rest) = (vec![first.min(n)], first, n.saturating_sub(first));
    while rest > 0 {
        size = size.saturating_mul(k.max(1));
        let last = sizes.len() + 1 == DEPTH_MAX as usize;
        let here = if last { rest } else { size.min(rest) };
        sizes.push(here);
        rest -= here;
    }
    sizes
}

/// How many an agent leads in a swarm of `n`: the rounded square root, from 3 to 10.
pub fn k_of(n: usize) -> usize {
    let root = n.isqrt();
    // (root + 1/2)² = root² + root + 1/4.
    let rounded = if n - root * root > root { root + 1 } else { root };
    rounded.clamp(K_MIN, K_MAX)
}

/// A hierarchy. The same members, winners and locations give the same one everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The first is Tier 1.
    pub tiers: Vec<Vec<Did>>,
    /// By DID.
    places: Vec<Placed>,
    /// Everybody that has a parent, in the order of parents.
    children: Vec<Did>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    did: Did,
    tier: Tier,
    parent: Option<Did>,
    children: Range<usize>,
    branch_size: u64,
}

impl Layout {
    /// Puts the members below those that were elected: the rest by weight, then DID.
    ///
    /// If nobody was elected, those with the highest weights lead. Parents have room for `k` each;
    /// the earlier in its tier chooses first.
    pub fn new(
        members: &[(Did, Share)],
        tier1: &[Did],
        k: usize,
        locations: &BTreeMap<Did, Location>,
    ) -> Layout {
        let k = k.max(1);
        let tiers = fill_tiers(members, tier1, k);
        let mut layout = Layout { places: Vec::new(), children: Vec::new(), tiers };
        let (mut parents, mut indexes) = (vec![None; layout.first_len()], Vec::new());
        let mut begins = 0;
        for (above, here) in layout.tiers.iter().zip(layout.tiers.iter().skip(1)) {
            for parent in choose_parents(above, here, k, locations) {
                parents.push(Some(begins + parent));
            }
            begins += above.len();
        }
        let all: Vec<(Did, Tier)> = (1..)
            .zip(&layout.tiers)
            .flat_map(|(tier, dids)| dids.iter().map(move |did| (*did, Tier(tier))))
            .collect();
        // Children come after their parents, so that one walk backwards adds up the branches.
        let mut branches = vec![1u64; all.len()];
        for (index, parent) in parents.iter().enumerate().rev() {
            if let Some(parent) = parent {
                branches[*parent] += branches[index];
                indexes.push((*parent, index));
            }
        }
        indexes.sort_unstable();
        layout.children = indexes.iter().map(|(_, child)| all[*child].0).collect();
        for (index, (did, tier)) in all.iter().enumerate() {
            let from = indexes.partition_point(|(parent, _)| *parent < index);
            let to = indexes.partition_point(|(parent, _)| *parent <= index);
            layout.places.push(Placed {
                did: *did,
                tier: *tier,
                parent: parents[index].map(|parent: usize| all[parent].0),
                children: from..to,
                branch_size: branches[index],
            });
        }
        layout.places.sort_unstable_by_key(|placed| placed.did);
        layout
    }

    fn first_len(&self) -> usize {
        self.tiers.first().map_or(0, Vec::len)
    }

    fn place(&self, did: &Did) -> Option<&Placed> {
        let at = self.places.binary_search_by_key(did, |placed| placed.did).ok()?;
        self.places.get(at)
    }

    pub fn tier_of(&self, did: &Did) -> Option<Tier> {
        self.place(did).map(|placed| placed.tier)
    }

    /// Nobody for Tier 1.
    pub fn parent_of(&self, did: &Did) -> Option<Did> {
        self.place(did)?.parent
    }

    /// In the order of their tier.
    pub fn children_of(&self, did: &Did) -> &[Did] {
        self.place(did).map_or(&[], |placed| &self.children[placed.children.clone()])
    }

    /// How many levels below an agent have a leader with enough agents, itself included.
    pub fn levels_below(&self, did: &Did, agents_min: usize) -> u64 {
        let children = self.children_of(did);
        if children.len() + 1 < agents_min {
            return 0;
        }
        let deeper = children.iter().map(|child| self.levels_below(child, agents_min));
        1 + deeper.max().unwrap_or(0)
    }

    /// Counted from 1.
    pub fn tier(&self, n: u32) -> &[Did] {
        let index = (n as usize).checked_sub(1);
        index.and_then(|index| self.tiers.get(index)).map_or(&[], Vec::as_slice)
    }

    /// The agent and all below it; 0 for who is not in the swarm.
    pub fn branch_size(&self, did: &Did) -> u64 {
        self.place(did).map_or(0, |placed| placed.branch_size)
    }
}

fn fill_tiers(members: &[(Did, Share)], tier1: &[Did], k: usize) -> Vec<Vec<Did>> {
    let mut weights: BTreeMap<Did, Share> = BTreeMap::new();
    for (did, weight) in members {
        let known = weights.entry(*did).or_default();
        *known = (*known).max(*weight);
    }
    let mut elected = Vec::with_capacity(tier1.len());
    let mut chosen = BTreeSet::new();
    for did in tier1 {
        if weights.contains_key(did) && chosen.insert(*did) {
            elected.push(*did);
        }
    }
    let mut order: Vec<(Reverse<Share>, Did)> =
        weights.iter().map(|(did, weight)| (Reverse(*weight), *did)).collect();
    order.sort_unstable();
    order.retain(|(_, did)| !chosen.contains(did));
    let first = if elected.is_empty() { k.min(order.len()) } else { elected.len() };
    elected.extend(order.iter().map(|(_, did)| *did));
    let mut rest = elected.as_slice();
    let mut tiers = Vec::new();
    for size in sizes_below(rest.len() as u64, first as u64, k as u64) {
        let (tier, below) = rest.split_at(size as usize);
        tiers.push(tier.to_vec());
        rest = below;
    }
    tiers.retain(|tier| !tier.is_empty());
    tiers
}

/// For each agent of a tier the index of its leader in the tier above.
///
/// Who has a location gets the nearest leader that has room, the earlier of two at the same
/// distance, and those without a location last. Who has none gets the first that has room. If
/// nobody has room, it is the nearest of all, or the last.
fn choose_parents(
    above: &[Did],
    here: &[Did],
    k: usize,
    locations: &BTreeMap<Did, Location>,
) -> Vec<usize> {
    let place = |did: &Did| locations.get(did).map(micros);
    let leaders: Vec<Option<[i64; 3]>> = above.iter().map(place).collect();
    let all: Vec<usize> = (0..above.len()).collect();
    let (mut room, mut open) = (vec![k; above.len()], all.clone());
    let nearest = |from: [i64; 3], among: &[usize]| {
        let distance = |leader: usize| leaders[leader].map_or(u64::MAX, |at| square_us(&from, &at));
        among.iter().copied().min_by_key(|leader| (distance(*leader), *leader))
    };
    let mut parents = Vec::with_capacity(here.len());
    for did in here {
        let parent = match place(did) {
            Some(from) if open.is_empty() => nearest(from, &all),
            Some(from) => nearest(from, &open),
            None => open.first().copied(),
        };
        let parent = parent.unwrap_or(above.len().saturating_sub(1));
        parents.push(parent);
        if let Some(left) = room.get_mut(parent).filter(|left| **left > 0) {
            *left -= 1;
            if *left == 0 {
                open.retain(|leader| *leader != parent);
            }
        }
    }
    parents
}
