use skep_sim::{Bug, Invariant, Lie, Setup, brisk, run};
use skep_swarm::genesis::Timing;
use skep_wire::swarm::Share;

/// A swarm in which what the bug spoils comes up: leaders that die, a newcomer, a plot.
fn setup(seed: u64, bug: Bug) -> Setup {
    let calm = Setup::calm(seed, 10, 1);
    match bug {
        Bug::ShutDoor | Bug::NoElection => {
            let timing = Timing { epoch_ms: 120_000, ..brisk() };
            Setup { newcomers: 1, timing, begin_ms: 480_000, ..calm }
        }
        // Where few vote, the best one's own ballot, which it is not in, decides much.
        Bug::VoterTwice => {
            let timing = Timing { epoch_ms: 120_000, ..brisk() };
            Setup { timing, begin_ms: 480_000, ..Setup::calm(seed, 4, 1) }
        }
        Bug::Cosign => Setup { byzantine: 3, lies: Some(vec![Lie::TwoBundles]), ..calm },
        _ => {
            let (lies, loss) = (Some(vec![Lie::Silent]), Share::percent(2));
            Setup { byzantine: 3, lies, loss, ..calm }
        }
    }
}

fn broken(setup: &Setup) -> Vec<Invariant> {
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
        assert_eq!(found[0], bug.breaks(), "{bug:?} with seed {seed}");
        // Nodes that follow two plans come to two ends; those that only tell a lie do not. What
        // they tell of an end is not what the client knows.
        let is_told = bug.breaks() == Invariant::RootMatches;
        let follows = |which: &Invariant| is_told && *which == Invariant::TaskOnce;
        let only_it = found.iter().all(|which| *which == bug.breaks() || follows(which));
        assert!(only_it || bug == Bug::Cosign, "{bug:?} with seed {seed}: {found:?}");
        assert_eq!(broken(&setup(seed, bug)), Vec::new(), "seed {seed} without a bug");
    }
}
