use skep_sim::{Known, Lie, Setup, brisk, run};
use skep_swarm::{genesis::Timing, transcript::Transcript};
use skep_wire::swarm::{End, Message};

/// Leaders are silent; when clients come, others act in their place, and what those chair is proven
/// to whoever reads the transcript.
#[test]
fn clients_find_who_acts_for_a_leader_that_is_gone() {
    const SEEDS: u64 = 10;
    let (mut in_place, mut chaired) = (0, 0);
    for seed in 0..SEEDS {
        let setup = Setup {
            byzantine: 3,
            lies: Some(vec![Lie::Silent]),
            begin_ms: 90_000,
            real_signatures: true,
            keep_messages: true,
            ..Setup::calm(seed, 12, 2)
        };
        let report = run(&setup);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        for task in report.outcomes.iter().filter(|task| task.wish == skep_sim::Wish::Result) {
            let good = matches!(&task.known, Some(Known::Ended(e)) if e.end == End::Succeeded);
            assert!(good, "seed {seed}: {task:?}");
        }
        in_place += report.counts.in_place;
        let proven = |message: &&std::sync::Arc<skep_wire::swarm::Signed>| {
            let by_proof = |m: &std::sync::Arc<skep_wire::swarm::Signed>| {
                matches!(m.message, Message::Succession(_))
            };
            matches!(message.message, Message::Ready(_)) && message.attached.iter().any(by_proof)
        };
        chaired += report.messages.iter().filter(proven).count();
        let written = Transcript::write(&report.genesis, &report.keys, &report.messages);
        let read = Transcript::read(&serde_json::to_vec(&written).unwrap()).unwrap();
        assert_eq!(read.verify().differences, Vec::new(), "seed {seed}");
    }
    assert!(in_place > 0 && chaired > 0, "{in_place} orders, {chaired} boards");
}

/// In a large swarm those below a new leader hear it for the first time: that is no silence.
#[test]
fn nobody_follows_a_leader_that_was_just_elected() {
    let timing = Timing { epoch_ms: 120_000, ..brisk() };
    let calm = Setup::calm(3, 90, 1);
    let report = run(&Setup { timing, begin_ms: 260_000, keep_messages: true, ..calm });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.map.epoch.number() >= 3);
    let is_one = |message: &&std::sync::Arc<skep_wire::swarm::Signed>| {
        matches!(message.message, Message::Succession(_))
    };
    assert_eq!(report.messages.iter().filter(is_one).count(), 0);
}
