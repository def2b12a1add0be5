use skep_sim::{Lie, Setup, run};

/// Each lie alone, by as many as a swarm bears: chance mixes it with others, and may leave it out.
#[test]
fn swarms_bear_each_lie() {
    const SEEDS: u64 = 8;
    for lie in Lie::all() {
        for seed in 0..SEEDS {
            let setup = Setup { byzantine: 3, lies: Some(vec![lie]), ..Setup::calm(seed, 10, 2) };
            let report = run(&setup);
            assert!(report.violations.is_empty(), "{lie:?}, {seed}: {:?}", report.violations);
        }
    }
}

/// Botched work is done again, and the task succeeds.
#[test]
fn what_failed_once_succeeds_when_it_is_done_again() {
    use skep_sim::Known;
    use skep_wire::swarm::{End, Message};
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
