use std::collections::BTreeSet;

use skep_sim::{Bug, Invariant, Lie, Setup, run};
use skep_wire::swarm::Share;

/// A swarm in which leaders die, so that every kind of event comes up.
fn setup(seed: u64, bug: Option<Bug>) -> Setup {
    Setup {
        bug,
        byzantine: 3,
        lies: Some(vec![Lie::Silent]),
        loss: Share::percent(2),
        ..Setup::calm(seed, 10, 1)
    }
}

fn broken(seed: u64, bug: Option<Bug>) -> BTreeSet<Invariant> {
    run(&setup(seed, bug)).violations.into_iter().map(|found| found.invariant).collect()
}

/// Some seeds have no succession: each bug is looked for in as many as it takes.
#[test]
fn every_planted_bug_is_found_and_only_it() {
    const SEEDS: u64 = 20;
    for bug in Bug::ALL {
        let found = (0..SEEDS).find_map(|seed| {
            let found = broken(seed, Some(bug));
            (!found.is_empty()).then_some((seed, found))
        });
        let (seed, found) = found.unwrap_or_else(|| panic!("nobody noticed {bug:?}"));
        assert_eq!(found, BTreeSet::from([bug.breaks()]), "{bug:?} with seed {seed}");
        assert_eq!(broken(seed, None), BTreeSet::new(), "seed {seed} without a bug");
    }
}
