use skep_base::hash::sha256;

use super::*;

fn dids(count: u32) -> Vec<Did> {
    (0..count).map(|n| Did::from_fingerprint(sha256(&n.to_be_bytes()))).collect()
}

const BEACON: Hash32 = Hash32([9; 32]);

#[test]
fn a_lot_is_the_hash_of_beacon_subject_and_did() {
    let did = dids(1)[0];
    let joined = [&[9; 32][..], b"task-1", did.to_string().as_bytes()].concat();
    assert_eq!(lot(&BEACON, "task-1", &did), sha256(&joined));
}

#[test]
fn order_does_not_depend_on_how_the_list_came() {
    let mut list = dids(40);
    let drawn = by_lot(&BEACON, "t", &list);
    list.reverse();
    list.extend(dids(3));
    assert_eq!(by_lot(&BEACON, "t", &list), drawn);
    assert!(drawn.is_sorted_by_key(|did| lot(&BEACON, "t", did)));
    assert_ne!(by_lot(&BEACON, "u", &list), drawn);
    assert_ne!(by_lot(&Hash32::ZERO, "t", &list), drawn);
}

#[test]
fn the_senate_is_at_most_half_of_tier_2() {
    for (tier2, k, seats) in [(0, 10, 0), (1, 10, 0), (5, 10, 2), (100, 10, 10), (19, 10, 9)] {
        let senate = senate(&BEACON, "t", &dids(tier2), k);
        assert_eq!(senate, by_lot(&BEACON, "t", &dids(tier2))[..seats], "{tier2} of {k}");
    }
}

#[test]
fn the_critic_is_a_member_and_every_member_can_be_it() {
    let members = dids(4);
    let mut reversed = members.clone();
    reversed.reverse();
    let mut drawn: Vec<Did> = (0..60)
        .map(|task| {
            let task = task.to_string();
            let critic = critic(&BEACON, &task, &members);
            assert_eq!(critic, super::critic(&BEACON, &task, &reversed));
            critic.unwrap()
        })
        .collect();
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn, sorted(&members));
    assert_eq!(critic(&BEACON, "t", &members[..1]), Some(members[0]));
    assert_eq!(critic(&BEACON, "t", &[]), None);
}

#[test]
fn witnesses_are_all_or_the_concerned_and_drawn_ones() {
    let few = dids(WITNESSES_MAX as u32);
    assert_eq!(witnesses(&BEACON, "t", &few[..3], &few), sorted(&few));
    let many = dids(200);
    let stranger = Did::from_fingerprint(sha256(b"stranger"));
    let mut concerned = many[..10].to_vec();
    concerned.push(stranger);
    let chosen = witnesses(&BEACON, "t", &concerned, &many);
    assert_eq!(chosen.len(), WITNESSES_MAX);
    assert!(chosen.is_sorted());
    assert!(many[..10].iter().all(|did| chosen.contains(did)));
    assert!(!chosen.contains(&stranger));
    let others: Vec<Did> = chosen.into_iter().filter(|did| !concerned.contains(did)).collect();
    assert_eq!(others, sorted(&by_lot(&BEACON, "t", &many[10..])[..WITNESSES_MAX - 10]));
    let all_concerned = witnesses(&BEACON, "t", &many[..100], &many);
    assert_eq!(all_concerned, sorted(&by_lot(&BEACON, "t", &many[..100])[..WITNESSES_MAX]));
}

#[test]
fn two_quorums_share_an_honest_member() {
    assert_eq!([0, 1, 2, 3, 4, 6, 7, 10, 31].map(quorum), [1, 1, 2, 3, 3, 5, 5, 7, 21]);
    for n in 1..1000 {
        let liars = (n - 1) / 3;
        assert!(2 * quorum(n) - n > liars, "{n}");
        assert!(n - liars >= quorum(n), "{n}: the honest ones are enough");
    }
    assert!(quorum(usize::MAX) < usize::MAX);
}
