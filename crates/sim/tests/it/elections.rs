use std::collections::BTreeMap;

use skep_base::Did;
use skep_sim::{Lie, Setup, brisk, run};
use skep_swarm::{
    genesis::Timing,
    score::composite,
    transcript::{Report, Transcript},
};
use skep_wire::swarm::{Message, Score, Share};

/// What a run's transcript says when it is decided again.
fn audited(report: &skep_sim::Report) -> Report {
    let written = Transcript::write(&report.genesis, &report.keys, &report.messages);
    let text = serde_json::to_vec(&written).expect("it is JSON");
    Transcript::read(&text).expect("all is signed").verify()
}

#[test]
fn who_does_not_compute_weighs_less_and_an_auditor_finds_the_same() {
    let setup = Setup {
        timing: Timing { epoch_ms: 300_000, ..brisk() },
        begin_ms: 620_000,
        byzantine: 3,
        lies: Some(vec![Lie::FalseCompute]),
        real_signatures: true,
        keep_messages: true,
        ..Setup::calm(3, 10, 1)
    };
    let report = run(&setup);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let audit = audited(&report);
    assert_eq!(audit.differences, Vec::new());
    let epoch = &report.map.epoch;
    assert!(audit.elections.contains(&epoch.number()) && epoch.number() >= 3);

    // What each may claim beside what others have seen of it.
    let mut shown: BTreeMap<Did, Share> = BTreeMap::new();
    for message in &report.messages {
        if let Message::Candidacy(candidacy) = &message.message {
            let (proof_of_compute, uptime) = (Share::ZERO, Share::ZERO);
            let bare = Score { proof_of_compute, uptime, ..candidacy.score.clone() };
            shown.insert(candidacy.agent_id, composite(&bare));
        }
    }
    for (number, did) in report.map.dids.iter().enumerate() {
        let weight = epoch.member(did).expect("everybody stays").weight;
        let seen_e6 = weight.e6() - shown[did].e6();
        // A quarter is for computing, a fifth for being there.
        let lies = !report.liars[number].is_empty();
        let expected = if lies { 100_000..=300_000 } else { 400_000..=450_000 };
        assert!(expected.contains(&seen_e6), "node {number}, lies {lies}: {seen_e6}");
    }
}
