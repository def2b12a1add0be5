use skep_base::Did;
use skep_sim::{Known, Lie, Report, Setup, brisk, run};
use skep_swarm::genesis::Timing;
use skep_wire::swarm::{End, Message};

/// Each lie alone, by as many as a swarm bears: chance mixes it with others, and may leave it out.
/// In a network in which nothing is lost, most tasks succeed all the same.
#[test]
fn swarms_bear_each_lie() {
    const SEEDS: u64 = 8;
    const TASKS: usize = 2;
    /// Of sixteen: some clients refuse the plan or take the task back.
    const SUCCESSES_MIN: usize = 14;
    for lie in Lie::all() {
        let mut successes = 0;
        for seed in 0..SEEDS {
            let calm = Setup::calm(seed, 10, TASKS);
            let report = run(&Setup { byzantine: 3, lies: Some(vec![lie]), ..calm });
            assert!(report.violations.is_empty(), "{lie:?}, {seed}: {:?}", report.violations);
            successes += succeeded(&report);
        }
        assert!(successes >= SUCCESSES_MIN, "{lie:?}: only {successes} tasks succeeded");
    }
}

pub fn succeeded(report: &Report) -> usize {
    let known = report.outcomes.iter().filter_map(|outcome| outcome.known.as_ref());
    known.filter(|known| matches!(known, Known::Ended(it) if it.end == End::Succeeded)).count()
}

/// Those who leave out others' candidacies when they count, or have seen nobody else do anything,
/// have no more seats than with a lie that is not about elections.
#[test]
fn who_lies_in_elections_does_not_win_them() {
    const SEEDS: u64 = 6;
    let held = |lie: Lie| {
        let (mut successes, mut seats) = (0, 0);
        for seed in 0..SEEDS {
            let setup = Setup {
                timing: Timing { epoch_ms: 300_000, ..brisk() },
                begin_ms: 620_000,
                byzantine: 3,
                lies: Some(vec![lie]),
                ..Setup::calm(seed, 10, 2)
            };
            let report = run(&setup);
            assert!(report.violations.is_empty(), "{seed}: {:?}", report.violations);
            let epoch = &report.map.epoch;
            assert!(epoch.number() >= 3, "elections go on");
            let lies = |did: &&Did| {
                let number = report.map.dids.iter().position(|other| other == *did);
                number.is_some_and(|number| !report.liars[number].is_empty())
            };
            successes += succeeded(&report);
            seats += epoch.tier1().iter().filter(lies).count();
        }
        (successes, seats)
    };
    let (_, by_right) = held(Lie::Forge);
    for lie in [Lie::StandAlone, Lie::FalseWitness, Lie::CountFew] {
        let (successes, seats) = held(lie);
        assert!(successes >= 10, "{lie:?}: only {successes} tasks of twelve succeeded");
        assert_eq!(seats, by_right, "{lie:?}");
    }
}

/// Those who count as few ballots as they can, election after election, expel nobody.
#[test]
fn who_leaves_ballots_out_expels_nobody() {
    const SEEDS: u64 = 4;
    for seed in 0..SEEDS {
        let setup = Setup {
            timing: Timing { epoch_ms: 180_000, ..brisk() },
            begin_ms: 2_000_000,
            byzantine: 3,
            lies: Some(vec![Lie::CountFew]),
            ..Setup::calm(seed, 10, 2)
        };
        let report = run(&setup);
        assert!(report.violations.is_empty(), "{seed}: {:?}", report.violations);
        let epoch = &report.map.epoch;
        assert!(epoch.number() >= 12, "elections go on");
        assert_eq!(epoch.members().len(), 10, "seed {seed}");
    }
}

/// Botched work is done again, and the task succeeds.
#[test]
fn what_failed_once_succeeds_when_it_is_done_again() {
    const SEEDS: u64 = 12;
    let mut mended = 0;
    for seed in 0..SEEDS {
        let report = run(&Setup { keep_messages: true, ..Setup::calm(seed, 8, 1) });
        let refused = report.messages.iter().any(|message| {
            matches!(&message.message, Message::Verification(m)
                if !m.accepted && m.plan_id.is_none())
        });
        let succeeded = matches!(&report.outcomes[0].known, Some(Known::Ended(ended))
            if ended.end == End::Succeeded);
        mended += u64::from(refused && succeeded);
    }
    assert!(mended > 0);
}
