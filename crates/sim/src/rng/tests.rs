use super::*;

#[test]
fn a_seed_is_one_sequence_for_ever() {
    let mut rng = Rng::new(7);
    let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
    let mut again = Rng::new(7);
    assert_eq!(drawn, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
    assert_ne!(drawn[0], Rng::new(8).next_u64());
    assert_ne!(Rng::fork(7, "a").next_u64(), Rng::fork(7, "b").next_u64());
}

#[test]
fn what_is_drawn_lies_within_its_bounds_and_reaches_them() {
    let mut rng = Rng::new(1);
    let mut seen = [0u32; 6];
    for _ in 0..6_000 {
        seen[rng.between(0, 5) as usize] += 1;
    }
    assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    assert!((0..1_000).all(|_| !rng.chance(Share::ZERO) && rng.chance(Share::ONE)));
    let mut list: Vec<u32> = (0..50).collect();
    rng.shuffle(&mut list);
    assert_ne!(list, (0..50).collect::<Vec<_>>());
    list.sort_unstable();
    assert_eq!(list, (0..50).collect::<Vec<_>>());
}
