use skep_base::Timestamp;
use skep_wire::score::{Fact, VolumeFlag::*};

use super::*;

/// Settlements with each counterparty.
fn facts(with: &[u64]) -> Vec<NumberedFact> {
    let mut facts = Vec::new();
    for (i, count) in with.iter().enumerate() {
        for _ in 0..*count {
            facts.push(NumberedFact {
                n: facts.len() as u64 + 1,
                fact: Fact {
                    dimension: Dimension::Ap2,
                    source: facts.len().to_string(),
                    ok: true,
                    released_cents: 1,
                    counterparty: Some(AgentId([i as u8; 20])),
                    proof: None,
                    at: Timestamp::EPOCH,
                },
            });
        }
    }
    facts
}

#[test]
fn volume_between_the_same_few_is_flagged() {
    for (with, flags) in [
        (&[][..], &[][..]),
        (&[9], &[]),
        (&[5, 5], &[]),
        (&[6, 4], &[SingleCounterpartyVolume]),
        (&[10], &[SingleCounterpartyVolume]),
        (&[6, 6, 7], &[]),
        (&[5, 5, 4, 2, 2, 2], &[]),
        (&[5, 5, 5, 2, 2, 1], &[FewCounterpartiesVolume]),
        (&[20], &[SingleCounterpartyVolume, FewCounterpartiesVolume]),
        (&[3, 3, 3, 3, 3, 3, 3], &[]),
    ] {
        let volume = volume(&facts(with));
        assert_eq!(volume.counterparties, with.len() as u64);
        assert_eq!(volume.flags, flags, "{with:?}");
    }
}
