use skep_base::Did;
use skep_sim::{Lie, Map, Report, Setup, brisk, run};
use skep_swarm::{coordinate::distance_us, genesis::Timing, layout::Layout};
use skep_wire::swarm::Location;

/// Nodes of one region are nearer to each other than this, regions further apart.
const NEAR_US: u64 = 20_000;

/// A swarm that has held elections before its one task comes.
fn settled(seed: u64, nodes: usize, begin_ms: u64) -> Setup {
    let timing = Timing { epoch_ms: 300_000, ..brisk() };
    Setup { timing, begin_ms, ..Setup::calm(seed, nodes, 1) }
}

fn mean(numbers: &[u64]) -> u64 {
    numbers.iter().sum::<u64>() / (numbers.len() as u64).max(1)
}

/// What nodes believe of pairs that are really near, and of those that are far.
fn believed(map: &Map) -> (Vec<u64>, Vec<u64>) {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for a in 0..map.real.len() {
        for b in 0..a {
            let (Some(one), Some(two)) = (&map.believed[a], &map.believed[b]) else {
                continue;
            };
            let is_near = distance_us(&map.real[a], &map.real[b]) < NEAR_US;
            let side = if is_near { &mut near } else { &mut far };
            side.push(distance_us(&one.at, &two.at));
        }
    }
    (near, far)
}

/// How far children really are from their parents.
fn from_parents(map: &Map, layout: &Layout) -> u64 {
    let place = |did: &Did| -> Location { map.real_of(did).expect("a node of this run") };
    let dids = map.epoch.members().iter();
    let pairs = dids.filter_map(|did| Some((place(did), place(&layout.parent_of(did)?))));
    mean(&pairs.map(|(child, parent)| distance_us(&child, &parent)).collect::<Vec<_>>())
}

/// The same hierarchy as if nobody had a place.
fn blind(map: &Map) -> Layout {
    let members: Vec<_> = map.epoch.elected.members.iter().map(|m| (m.did, m.weight)).collect();
    Layout::new(&members, map.epoch.tier1(), map.epoch.k(), &Default::default())
}

fn check(report: &Report) {
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.map.epoch.number() > 2, "elections were held");
}

#[test]
fn nodes_find_out_who_is_near() {
    // In a large swarm each hears its family and a few others only: that takes longer.
    for (seed, nodes, begin_ms) in [(1, 60, 620_000), (2, 200, 1_220_000)] {
        let report = run(&settled(seed, nodes, begin_ms));
        check(&report);
        let (near, far) = believed(&report.map);
        let (near, far) = (mean(&near), mean(&far));
        assert!(2 * near < far, "{nodes} nodes: near ones {near} us apart, far ones {far} us");
        let grouped = from_parents(&report.map, report.map.epoch.layout());
        let blind = from_parents(&report.map, &blind(&report.map));
        assert!(3 * grouped < 2 * blind, "{nodes} nodes: {grouped} us against {blind} us");
    }
}

#[test]
fn who_lies_about_its_place_moves_the_others_little() {
    for seed in 0..4 {
        let lies = Some(vec![Lie::FalsePlace]);
        let report = run(&Setup { byzantine: 6, lies, ..settled(seed, 40, 620_000) });
        check(&report);
        for (number, believed) in report.map.believed.iter().enumerate() {
            let away = believed.map_or(0, |it| distance_us(&it.at, &Location::default()));
            assert!(away < 1_000_000, "node {number} of seed {seed} is {away} us from the origin");
        }
    }
}
