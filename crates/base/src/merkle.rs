//! Merkle trees as in RFC 6962: a list of leaves, a root, and short proofs about both.
//!
//! Functions take *leaf hashes* ([`leaf_hash`] of each entry), never entries. Leaves and nodes are
//! hashed with different prefixes, so that a node can never be passed off as an entry.

use crate::hash::{Hash32, sha256, sha256_parts};

#[cfg(test)]
mod tests;

pub fn leaf_hash(entry: &[u8]) -> Hash32 {
    sha256_parts(&[&[0], entry])
}

pub fn node_hash(left: &Hash32, right: &Hash32) -> Hash32 {
    sha256_parts(&[&[1], left.as_bytes(), right.as_bytes()])
}

/// The root over leaf hashes in their order. No leaves: the hash of nothing.
pub fn root(leaves: &[Hash32]) -> Hash32 {
    match leaves {
        [] => sha256(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            node_hash(&root(left), &root(right))
        }
    }
}

/// The largest power of two below `size`: where RFC 6962 cuts a list of two or more leaves.
fn split(size: usize) -> usize {
    1 << (size - 1).ilog2()
}

/// The sibling hashes from a leaf up to the root; `None` if there is no such leaf. RFC 6962 2.1.1.
pub fn inclusion_proof(leaves: &[Hash32], index: u64) -> Option<Vec<Hash32>> {
    let mut index = usize::try_from(index).ok().filter(|index| *index < leaves.len())?;
    let mut rest = leaves;
    let mut proof = Vec::new();
    while rest.len() > 1 {
        let (left, right) = rest.split_at(split(rest.len()));
        if index < left.len() {
            proof.push(root(right));
            rest = left;
        } else {
            proof.push(root(left));
            index -= left.len();
            rest = right;
        }
    }
    proof.reverse();
    Some(proof)
}

/// Whether `leaf` is the entry at `index` of the tree with this root and size.
///
/// A root does not contain its size, and a path can fit several: take the size from where the root
/// came.
pub fn verify_inclusion(
    root: &Hash32,
    leaf: &Hash32,
    index: u64,
    size: u64,
    proof: &[Hash32],
) -> bool {
    if index >= size {
        return false;
    }
    // Both walk up together: `last` is the place of the rightmost node on the level of `place`.
    let (mut place, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if place % 2 == 1 || place == last {
            hash = node_hash(sibling, &hash);
            // A rightmost left child has no sibling here: it rises until it is a right child.
            while place % 2 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && hash == *root
}

/// Proof that the first `old_size` leaves are a prefix of the tree; `None` if there are fewer
/// leaves. Empty when there is nothing to show: an empty old tree, or the same one. RFC 6962 2.1.2.
pub fn consistency_proof(leaves: &[Hash32], old_size: u64) -> Option<Vec<Hash32>> {
    let mut old = usize::try_from(old_size).ok().filter(|old| *old <= leaves.len())?;
    if old == 0 || old == leaves.len() {
        return Some(Vec::new());
    }
    let mut rest = leaves;
    let mut proof = Vec::new();
    // While the old tree is the whole left part so far, the verifier has its root already.
    let mut known = true;
    while old != rest.len() {
        let (left, right) = rest.split_at(split(rest.len()));
        if old <= left.len() {
            proof.push(root(right));
            rest = left;
        } else {
            proof.push(root(left));
            old -= left.len();
            rest = right;
            known = false;
        }
    }
    if !known {
        proof.push(root(rest));
    }
    proof.reverse();
    Some(proof)
}

/// Whether the tree of `old_size` leaves with `old_root` is a prefix of the one with `new_root`.
///
/// An empty tree is a prefix of every tree and the proof of it is empty.
pub fn verify_consistency(
    old_root: &Hash32,
    old_size: u64,
    new_root: &Hash32,
    new_size: u64,
    proof: &[Hash32],
) -> bool {
    if old_size > new_size {
        return false;
    }
    if old_size == new_size {
        return proof.is_empty() && old_root == new_root;
    }
    if old_size == 0 {
        return proof.is_empty() && *old_root == sha256(&[]);
    }
    let (mut place, mut last) = (old_size - 1, new_size - 1);
    while place % 2 == 1 {
        place >>= 1;
        last >>= 1;
    }
    // The old tree is a complete subtree exactly when nothing of it is left above: its root starts
    // both.
    let (start, proof) = match (place, proof) {
        (0, proof) => (*old_root, proof),
        (_, [first, rest @ ..]) => (*first, rest),
        (_, []) => return false,
    };
    let (mut old, mut new) = (start, start);
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if place % 2 == 1 || place == last {
            old = node_hash(sibling, &old);
            new = node_hash(sibling, &new);
            while place % 2 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            new = node_hash(&new, sibling);
        }
        place >>= 1;
        last >>= 1;
    }
    last == 0 && old == *old_root && new == *new_root
}
