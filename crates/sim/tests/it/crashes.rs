use skep_sim::{Known, Setup, run};
use skep_wire::swarm::End;

/// A node can be stored and read back at any message: whether it was does not show.
#[test]
fn stored_and_read_back_at_any_turn_a_swarm_does_the_same() {
    const SEEDS: u64 = 5;
    for seed in 0..SEEDS {
        let nodes = 4 + seed as usize;
        let (tasks, byzantine, flood) = (1, (nodes - 1) / 3, 0);
        let drawn = Setup::from_seed(seed);
        let setup = Setup { nodes, newcomers: 0, tasks, byzantine, flood, ..drawn };
        let (kept, read) = (run(&setup), run(&Setup { reread_every: 17, ..setup.clone() }));
        assert!(kept.violations.is_empty() && read.violations.is_empty(), "seed {seed}");
        assert_eq!(kept.trace_hash, read.trace_hash, "seed {seed}");
        assert_eq!(kept.outcomes, read.outcomes, "seed {seed}");
    }
}

/// Nothing but crashes, many of them in the middle of a turn: no work is lost.
#[test]
fn swarms_of_which_one_after_another_stops_do_their_tasks() {
    const SEEDS: u64 = 60;
    let mut succeeded = 0;
    for seed in 0..SEEDS {
        let nodes = 4 + seed as usize % 9;
        let report = run(&Setup { crashes: 6, ..Setup::calm(seed, nodes, 2) });
        assert!(report.violations.is_empty(), "seed {seed}: {:?}", report.violations);
        assert!(report.outcomes.iter().all(|outcome| outcome.known.is_some()), "seed {seed}");
        let is_done = |known: &Known| matches!(known, Known::Ended(e) if e.end == End::Succeeded);
        succeeded +=
            report.outcomes.iter().filter_map(|o| o.known.as_ref()).filter(|k| is_done(k)).count();
    }
    println!("{succeeded} of {} tasks succeeded", 2 * SEEDS);
    assert!(succeeded > 80, "{succeeded}");
}
