use skep_base::hash::sha256;

use super::*;

fn did(n: usize) -> Did {
    Did::from_fingerprint(sha256(&n.to_be_bytes()))
}

/// Numbers from 0 to 1, the same ones in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn points_in_a_plane_find_their_distances() {
    const NODES: usize = 60;
    let mut numbers = Numbers(42);
    let real: Vec<Location> = (0..NODES)
        .map(|_| Location { x: numbers.next() * 0.2, y: numbers.next() * 0.2, z: 0.0 })
        .collect();
    let mut nodes = [Coordinate::default(); NODES];
    for _ in 0..200 {
        for at in 0..NODES {
            let other = (numbers.next() * NODES as f64) as usize;
            if other != at {
                let rtt = Duration::from_micros(distance_us(&real[at], &real[other]));
                let theirs = nodes[other];
                nodes[at].update(&did(at), &theirs, &did(other), rtt);
            }
        }
    }
    let mut errors: Vec<f64> = Vec::new();
    for a in 0..NODES {
        for b in 0..a {
            let truth = distance_us(&real[a], &real[b]) as f64;
            let foretold = distance_us(&nodes[a].at, &nodes[b].at) as f64;
            errors.push((foretold - truth).abs() / truth);
        }
    }
    errors.sort_by(f64::total_cmp);
    let median = errors[errors.len() / 2];
    assert!(median < 0.15, "{median}");
}

#[test]
fn two_at_the_origin_part_the_same_way_everywhere() {
    let start = Coordinate::default();
    let rtt = Duration::from_millis(80);
    let moved = |mine: usize, other: usize| {
        let mut node = start;
        node.update(&did(mine), &start, &did(other), rtt);
        node
    };
    assert_eq!(moved(1, 2), moved(1, 2));
    assert_ne!(moved(1, 2).at, moved(2, 1).at);
    // Half of the trust, a quarter of a step: 10 ms.
    assert_eq!(distance_us(&start.at, &moved(1, 2).at).abs_diff(10_000) / 3, 0);
}

#[test]
fn what_cannot_be_is_ignored() {
    let start = Coordinate::default();
    let mut node = start;
    node.update(&did(1), &start, &did(2), RTT_MAX + Duration::from_nanos(1));
    for x in [f64::NAN, f64::INFINITY, 1e300, -10.1] {
        let liar = Coordinate { at: Location { x, y: 0.0, z: 0.0 }, error: 0.0 };
        node.update(&did(1), &liar, &did(2), Duration::from_millis(10));
    }
    assert_eq!(node, start);
    let boaster = Coordinate { at: start.at, error: f64::NAN };
    for rtt_ms in [0, 10, 500] {
        node.update(&did(1), &boaster, &did(2), Duration::from_millis(rtt_ms));
        assert!(is_sane(&node.at) && (ERROR_MIN..=ERROR_MAX).contains(&node.error));
    }
}

#[test]
fn a_liar_moves_nobody_far() {
    let mut node = Coordinate::default();
    for x in [9.9, -9.9] {
        let before = node.at;
        let liar = Coordinate { at: Location { x, y: 0.0, z: 0.0 }, error: 0.0 };
        node.update(&did(1), &liar, &did(2), Duration::from_millis(1));
        let moved = distance_us(&before, &node.at);
        assert!((1..=20_000).contains(&moved), "{moved}");
    }
}

#[test]
fn distances_are_whole_microseconds() {
    let at = |x, y, z| Location { x, y, z };
    assert_eq!(distance_us(&at(0.0, 0.0, 0.0), &at(0.003, 0.004, 0.0)), 5_000);
    assert_eq!(distance_us(&at(0.0, 0.0, 0.1), &at(0.0, 0.0, 0.100_000_4)), 0);
    assert_eq!(distance_us(&at(-1e9, 0.0, 0.0), &at(1e9, 0.0, 0.0)), 20_000_000);
}
