use proptest::prelude::*;
use skep_base::hash::sha256;

use super::*;

fn did(n: usize) -> Did {
    Did::from_fingerprint(sha256(&n.to_be_bytes()))
}

fn swarm(n: usize) -> Vec<(Did, Share)> {
    (0..n).map(|n| (did(n), Share::percent(100 - (n % 90) as u32))).collect()
}

fn elected(n: usize) -> Vec<Did> {
    (0..n).map(did).collect()
}

#[test]
fn depth_is_exact_at_powers() {
    let cases = [
        (125, 5, 3),
        (126, 5, 4),
        (216, 6, 3),
        (16_807, 7, 5),
        (850, 10, 3),
        (1_000, 10, 3),
        (1_001, 10, 4),
        (1, 10, 1),
        (0, 10, 1),
        (2, 2, 1),
        (u64::MAX, 2, 10),
        (5, 1, 10),
        (5, 0, 10),
    ];
    for (n, k, expected) in cases {
        assert_eq!(depth(n, k), expected, "{n} at {k}");
    }
}

#[test]
fn tiers_fill_from_the_top() {
    assert_eq!(tier_sizes(850, 10), [10, 100, 740]);
    assert_eq!(tier_sizes(125, 5), [5, 25, 95]);
    assert_eq!(tier_sizes(11, 10), [10, 1]);
    assert_eq!(tier_sizes(110, 10), [10, 100]);
    assert_eq!(tier_sizes(10, 10), [10]);
    assert_eq!(tier_sizes(2, 10), [2]);
    assert_eq!(tier_sizes(1, 10), [1]);
    assert_eq!(tier_sizes(30, 1), [1, 1, 1, 1, 1, 1, 1, 1, 1, 21]);
    for (n, k) in [(10_000, 10), (u64::MAX, 7), (17, 3)] {
        assert_eq!(tier_sizes(n, k).iter().sum::<u64>(), n);
    }
}

#[test]
fn k_is_the_rounded_root() {
    for n in 0..2_000usize {
        let root = (n as f64).sqrt().round() as usize;
        assert_eq!(k_of(n), root.clamp(3, 10), "{n}");
    }
    assert_eq!(k_of(usize::MAX), 10);
}

#[test]
fn without_locations_the_index_decides() {
    let members = swarm(850);
    let layout = Layout::new(&members, &elected(10), 10, &BTreeMap::new());
    let sizes: Vec<usize> = layout.tiers.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 100, 740]);
    assert_eq!(layout.tier(1), elected(10));
    for tier in 2..=3 {
        for (index, did) in layout.tier(tier).iter().enumerate() {
            assert_eq!(layout.parent_of(did), Some(layout.tier(tier - 1)[index / 10]));
            assert_eq!(layout.tier_of(did), Some(Tier(tier)));
        }
    }
    let below: Vec<(Reverse<Share>, Did)> = layout.tiers[1..]
        .concat()
        .iter()
        .map(|did| (Reverse(members.iter().find(|(m, _)| m == did).unwrap().1), *did))
        .collect();
    assert!(below.is_sorted(), "by weight, then DID");
    assert_eq!(layout.branch_size(&did(0)), 111);
    let branches: u64 = layout.tier(1).iter().map(|did| layout.branch_size(did)).sum();
    assert_eq!(branches, 850);
    assert_eq!((layout.tier(0), layout.tier(4)), (&[][..], &[][..]));
    let stranger = did(9_999);
    assert_eq!(layout.tier_of(&stranger), None);
    assert_eq!(layout.children_of(&stranger), []);
    assert_eq!(layout.branch_size(&stranger), 0);
}

#[test]
fn small_swarms() {
    let none = BTreeMap::new();
    assert_eq!(Layout::new(&[], &[], 3, &none), Layout::default());
    let one = Layout::new(&swarm(1), &elected(1), 3, &none);
    assert_eq!((one.tier(1), one.parent_of(&did(0))), (&[did(0)][..], None));
    let two = Layout::new(&swarm(2), &elected(1), 3, &none);
    assert_eq!(two.children_of(&did(0)), [did(1)]);
    // Nobody stood: those with the highest weights lead. Strangers and doubles do not.
    let unled = Layout::new(&swarm(5), &[], 3, &none);
    assert_eq!(unled.tier(1), elected(3));
    let odd = Layout::new(&swarm(5), &[did(77), did(4), did(4)], 3, &none);
    assert_eq!(odd.tier(1), [did(4)]);
    assert_eq!(odd.tier(2).len(), 3);
    // A chain is at most so deep: the rest hangs on the last but one.
    let chain = Layout::new(&swarm(30), &elected(1), 1, &none);
    assert_eq!(chain.tiers.len(), DEPTH_MAX as usize);
    assert_eq!(chain.children_of(&chain.tier(9)[0]).len(), 21);
}

#[test]
fn the_nearest_leader_with_room() {
    let at = |x: f64| Location { x, y: 0.0, z: 0.0 };
    let members = swarm(8);
    // Leaders 0 at 0 ms and 1 at 100 ms; everybody else is near leader 1.
    let mut locations: BTreeMap<Did, Location> =
        (2..8).map(|n| (did(n), at(0.09))).chain([(did(0), at(0.0)), (did(1), at(0.1))]).collect();
    let layout = Layout::new(&members, &elected(2), 3, &locations);
    let children = |n| layout.children_of(&did(n)).to_vec();
    assert_eq!(children(1), layout.tier(2)[..3], "the earlier choose first");
    assert_eq!(children(0), layout.tier(2)[3..]);
    // At the same distance the first leader; without a location the first that has room.
    locations.extend((2..8).map(|n| (did(n), at(0.05))));
    locations.remove(&layout.tier(2)[0]);
    let layout = Layout::new(&members, &elected(2), 3, &locations);
    assert_eq!(layout.children_of(&did(0)), &layout.tier(2)[..3]);
    // What no network has is put on the border, and breaks nothing.
    locations.insert(did(5), at(f64::INFINITY));
    locations.insert(did(6), at(f64::NAN));
    assert_eq!(Layout::new(&members, &elected(2), 3, &locations).branch_size(&did(0)), 4);
}

proptest! {
    #[test]
    fn everybody_has_one_place(
        n in 0usize..150,
        k in 1usize..8,
        leaders in 0usize..8,
        spots in prop::collection::btree_map(0usize..150, (-1.0f64..1.0, -1.0f64..1.0), 0..150),
    ) {
        let mut members = swarm(n);
        let locations =
            spots.into_iter().map(|(n, (x, y))| (did(n), Location { x, y, z: 0.0 })).collect();
        let layout = Layout::new(&members, &elected(leaders), k, &locations);
        prop_assert_eq!(layout.tiers.concat().len(), n);
        for (did, _) in &members {
            let tier = layout.tier_of(did).unwrap();
            prop_assert!(layout.tier(tier.0).contains(did));
            prop_assert_eq!(layout.parent_of(did).is_none(), tier == Tier(1));
            if let Some(parent) = layout.parent_of(did) {
                prop_assert_eq!(layout.tier_of(&parent), Some(Tier(tier.0 - 1)));
                prop_assert!(layout.children_of(&parent).contains(did));
            }
            let below: u64 = layout.children_of(did).iter().map(|c| layout.branch_size(c)).sum();
            prop_assert_eq!(layout.branch_size(did), 1 + below);
            if (tier.0 + 1) < DEPTH_MAX {
                prop_assert!(layout.children_of(did).len() <= k);
            }
        }
        members.reverse();
        prop_assert_eq!(Layout::new(&members, &elected(leaders), k, &locations), layout);
    }
}
