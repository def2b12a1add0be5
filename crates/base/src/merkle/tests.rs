use proptest::prelude::*;

use super::*;

/// The entries of the reference tree that Certificate Transparency logs are tested with.
fn reference() -> Vec<Hash32> {
    [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
    .map(|entry| leaf_hash(&hex::decode(entry).unwrap()))
    .to_vec()
}

const ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

const LEAF_1: &str = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7";
const LEAF_4: &str = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b";
const NODES_2_3: &str = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e";
const NODES_4_5: &str = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a";
const NODES_4_7: &str = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4";
const NODES_6_7: &str = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0";

fn hashes(texts: &[&str]) -> Vec<Hash32> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn reference_roots() {
    let leaves = reference();
    for (size, expected) in ROOTS.iter().enumerate() {
        assert_eq!(root(&leaves[..size]).to_string(), *expected, "{size} leaves");
    }
}

#[test]
fn reference_proofs() {
    let leaves = reference();
    for (index, size, proof) in [
        (0, 1, &[][..]),
        (0, 8, &[LEAF_1, NODES_2_3, NODES_4_7]),
        (5, 8, &[LEAF_4, NODES_6_7, ROOTS[4]]),
        (2, 3, &[ROOTS[2]]),
        (1, 5, &[ROOTS[1], NODES_2_3, LEAF_4]),
    ] {
        assert_eq!(
            inclusion_proof(&leaves[..size], index),
            Some(hashes(proof)),
            "{index} of {size}"
        );
    }
    for (old, new, proof) in [
        (1, 1, &[][..]),
        (1, 8, &[LEAF_1, NODES_2_3, NODES_4_7]),
        (6, 8, &[NODES_4_5, NODES_6_7, ROOTS[4]]),
        (2, 5, &[NODES_2_3, LEAF_4]),
    ] {
        assert_eq!(consistency_proof(&leaves[..new], old), Some(hashes(proof)), "{old} in {new}");
    }
}

fn leaves(count: usize) -> Vec<Hash32> {
    (0..count).map(|nth| leaf_hash(&nth.to_be_bytes())).collect()
}

/// Every leaf of every tree up to 40, and every pair of sizes.
#[test]
fn all_small_trees() {
    let all = leaves(40);
    let roots: Vec<Hash32> = (0..=all.len()).map(|size| root(&all[..size])).collect();
    for size in 0..=all.len() {
        for index in 0..size {
            let proof = inclusion_proof(&all[..size], index as u64).unwrap();
            for (other, leaf) in all.iter().enumerate() {
                let verified =
                    verify_inclusion(&roots[size], leaf, index as u64, size as u64, &proof);
                assert_eq!(verified, other == index, "leaf {other} as {index} of {size}");
            }
        }
        assert_eq!(inclusion_proof(&all[..size], size as u64), None);
        for old in 0..=size {
            let proof = consistency_proof(&all[..size], old as u64).unwrap();
            for (other, other_root) in roots.iter().enumerate() {
                let verified =
                    verify_consistency(other_root, old as u64, &roots[size], size as u64, &proof);
                assert_eq!(verified, other == old, "root {other} as {old} in {size}");
            }
        }
        assert_eq!(consistency_proof(&all[..size], size as u64 + 1), None);
    }
}

#[test]
fn senseless_proofs_are_refused() {
    let hash = leaf_hash(b"x");
    assert!(!verify_inclusion(&hash, &hash, 0, 0, &[]));
    assert!(!verify_inclusion(&hash, &hash, 1, 1, &[]));
    assert!(!verify_inclusion(&hash, &hash, u64::MAX, u64::MAX, &[]));
    assert!(!verify_inclusion(&hash, &hash, u64::MAX - 1, u64::MAX, &[hash; 64]));
    assert!(!verify_inclusion(&hash, &hash, 0, 1, &[hash]));
    assert!(!verify_consistency(&hash, 2, &hash, 1, &[]));
    assert!(!verify_consistency(&hash, 0, &hash, 1, &[]));
    assert!(!verify_consistency(&hash, 1, &hash, 1, &[hash]));
    assert!(!verify_consistency(&hash, 3, &hash, u64::MAX, &[]));
    assert!(!verify_consistency(&hash, u64::MAX - 1, &hash, u64::MAX, &[hash; 70]));
    assert!(!verify_consistency(&hash, 1, &hash, 2, &[]));
}

proptest! {
    #[test]
    fn a_change_anywhere_fails_inclusion(
        size in 1_usize..200,
        index in any::<prop::sample::Index>(),
        bit in 0_usize..256,
        which in any::<prop::sample::Index>(),
        wrong in any::<u64>(),
    ) {
        let all = leaves(size);
        let index = index.index(size);
        let (root, leaf) = (root(&all), all[index]);
        let (index, size) = (index as u64, size as u64);
        let proof = inclusion_proof(&all, index).unwrap();
        prop_assert!(verify_inclusion(&root, &leaf, index, size, &proof));

        let flip = |mut hash: Hash32| { hash.0[bit / 8] ^= 1 << (bit % 8); hash };
        prop_assert!(!verify_inclusion(&flip(root), &leaf, index, size, &proof));
        prop_assert!(!verify_inclusion(&root, &flip(leaf), index, size, &proof));
        if !proof.is_empty() {
            let mut changed = proof.clone();
            let place = which.index(proof.len());
            changed[place] = flip(changed[place]);
            prop_assert!(!verify_inclusion(&root, &leaf, index, size, &changed));
            prop_assert!(!verify_inclusion(&root, &leaf, index, size, &proof[1..]));
        }
        let longer = [proof.clone(), vec![leaf]].concat();
        prop_assert!(!verify_inclusion(&root, &leaf, index, size, &longer));
        for other in [wrong, wrong % size] {
            prop_assert_eq!(verify_inclusion(&root, &leaf, other, size, &proof), other == index);
        }
    }

    /// A proof fits some other sizes too, as its path does not say how large the tree is; but a
    /// size with another number of levels on the path never verifies.
    #[test]
    fn a_size_with_another_path_fails(
        size in 1_u64..200,
        index in any::<prop::sample::Index>(),
        other in 1_u64..400,
    ) {
        let all = leaves(size as usize);
        let index = index.index(all.len()) as u64;
        let proof = inclusion_proof(&all, index).unwrap();
        let accepted = verify_inclusion(&root(&all), &all[index as usize], index, other, &proof);
        let same_length = other > index
            && inclusion_proof(&leaves(other as usize), index).unwrap().len() == proof.len();
        prop_assert!(!accepted || same_length);
        prop_assert!(accepted || other != size);
    }

    #[test]
    fn a_change_anywhere_fails_consistency(
        size in 2_usize..200,
        old in any::<prop::sample::Index>(),
        bit in 0_usize..256,
        which in any::<prop::sample::Index>(),
    ) {
        let all = leaves(size);
        let old = 1 + old.index(size - 1);
        let (old_root, new_root) = (root(&all[..old]), root(&all));
        let (old, new) = (old as u64, size as u64);
        let proof = consistency_proof(&all, old).unwrap();
        prop_assert!(verify_consistency(&old_root, old, &new_root, new, &proof));

        let flip = |mut hash: Hash32| { hash.0[bit / 8] ^= 1 << (bit % 8); hash };
        prop_assert!(!verify_consistency(&flip(old_root), old, &new_root, new, &proof));
        prop_assert!(!verify_consistency(&old_root, old, &flip(new_root), new, &proof));
        let mut changed = proof.clone();
        let place = which.index(proof.len());
        changed[place] = flip(changed[place]);
        prop_assert!(!verify_consistency(&old_root, old, &new_root, new, &changed));
        let shorter = &proof[..proof.len() - 1];
        prop_assert!(!verify_consistency(&old_root, old, &new_root, new, shorter));
        let longer = [proof.clone(), vec![old_root]].concat();
        prop_assert!(!verify_consistency(&old_root, old, &new_root, new, &longer));
        prop_assert!(!verify_consistency(&new_root, new, &old_root, old, &proof));
    }

    #[test]
    fn another_history_is_not_consistent(
        size in 2_usize..100,
        old in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut all = leaves(size);
        let old = 1 + old.index(size - 1);
        let old_root = root(&all[..old]);
        all[at.index(old)] = leaf_hash(b"rewritten");
        let proof = consistency_proof(&all, old as u64).unwrap();
        prop_assert!(!verify_consistency(&old_root, old as u64, &root(&all), size as u64, &proof));
    }
}
