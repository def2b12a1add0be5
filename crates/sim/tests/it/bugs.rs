use std::collections::BTreeSet;

use skep_sim::{Bug, Invariant, Lie, Setup, brisk, run};
use skep_swarm::genesis::Timing;
use skep_wire::swarm::Share;

/// A swarm in which what the bug spoils comes up: leaders that die, or a newcomer.
fn setup(seed: u64, bug: Bug) -> Setup {
    let calm = Setup::calm(seed, 10, 1);
    match bug {
        Bug::ShutDoor => {
            let timing = Timing { epoch_ms: 120_000, ..brisk() };
            Setup { newcomers: 1, timing, begin_ms: 480_000, ..calm }
        }
        _ => Setup { byzantine: 3, lies: Some(vec![Lie::Silent]), loss: Share::percent(2), ..calm },
    }
}

fn broken(setup: &Setup) -> BTreeSet<Invariant> {
    run(setup).violations.into_iter().map(|found| found.invariant).collect()
}

/// Some seeds have no succession: each bug is looked for in as many as it takes.
#[test]
fn every_planted_bug_is_found_and_only_it() {
    const SEEDS: u64 = 20;
    for bug in Bug::ALL {
        let found = (0..SEEDS).find_map(|seed| {
            let found = broken(&Setup { bug: Some(bug), ..setup(seed, bug) });
            (!found.is_empty()).then_some((seed, found))
        });
        let (seed, found) = found.unwrap_or_else(|| panic!("nobody noticed {bug:?}"));
        assert_eq!(found, BTreeSet::from([bug.breaks()]), "{bug:?} with seed {seed}");
        assert_eq!(broken(&setup(seed, bug)), BTreeSet::new(), "seed {seed} without a bug");
    }
}
