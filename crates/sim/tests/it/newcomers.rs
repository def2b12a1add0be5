use skep_sim::{Known, Setup, brisk, run};
use skep_swarm::genesis::Timing;
use skep_wire::swarm::{End, Message};

/// Strangers come one after the other, are elected, and take part in the task that comes then.
#[test]
fn strangers_become_members_and_work() {
    let timing = Timing { epoch_ms: 120_000, ..brisk() };
    let calm = Setup::calm(3, 12, 2);
    let setup = Setup {
        newcomers: 4,
        timing,
        begin_ms: 700_000,
        real_signatures: true,
        keep_messages: true,
        ..calm
    };
    let report = run(&setup);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    // One in an election.
    assert_eq!(report.joined, 4);
    for outcome in &report.outcomes {
        assert!(matches!(&outcome.known, Some(Known::Ended(e)) if e.end == End::Succeeded));
    }
    let founders: Vec<_> = report.genesis.founders.iter().map(|key| key.did()).collect();
    let by_newcomers = |message: &&std::sync::Arc<skep_wire::swarm::Signed>| {
        matches!(message.message, Message::Commit(_)) && !founders.contains(&message.meta.signer)
    };
    assert!(report.messages.iter().filter(by_newcomers).count() > 0, "newcomers plan, too");
}

/// In a large swarm a newcomer knows a few members, and they tell it the rest.
#[test]
fn a_large_swarm_lets_strangers_in() {
    let timing = Timing { epoch_ms: 120_000, ..brisk() };
    let calm = Setup::calm(3, 90, 1);
    let report = run(&Setup { newcomers: 6, timing, begin_ms: 360_000, ..calm });
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert_eq!(report.joined, 6);
    // In a swarm of this size few watch each: that is counted again, too.
    assert!(report.counts.recounted > 0);
    assert_eq!(report.counts.recounted, report.counts.elections);
}
