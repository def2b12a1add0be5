use skep_base::{ed25519::Signature, hash::sha256};
use skep_wire::swarm::{Attestation, SignedAttestation};

use super::*;

fn did(n: u32) -> Did {
    Did::from_fingerprint(sha256(&n.to_be_bytes()))
}

fn score(percents: [u32; 4]) -> Score {
    let [proof_of_compute, reputation, uptime, stake] = percents.map(Share::percent);
    Score { agent_id: did(0), proof_of_compute, reputation, uptime, stake }
}

#[test]
fn the_composite_is_exact() {
    // 0.2125 + 0.368 + 0.198 + 0.075
    assert_eq!(composite(&score([85, 92, 99, 50])), Share::from_e6(853_500));
    assert_eq!(composite(&score([100; 4])), Share::ONE);
    assert_eq!(composite(&score([0; 4])), Share::ZERO);
    let mut least = score([0; 4]);
    least.reputation = Share::from_e6(1);
    assert_eq!(composite(&least), Share::ZERO, "rounded down");
}

#[test]
fn who_may_stand() {
    assert!(may_stand(&score([0, 50, 50, 0])), "exactly 0.3 and 0.5");
    assert!(!may_stand(&score([100, 100, 49, 100])));
    assert!(!may_stand(&score([0, 49, 50, 0])));
    let mut just_below = score([0, 50, 50, 0]);
    just_below.reputation = Share::from_e6(499_999);
    assert!(!may_stand(&just_below));
}

fn said(by: u32, quality: Quality, percent: u32, epoch: u64) -> SignedAttestation {
    let (subject, value, attester) = (did(0), Share::percent(percent), did(by));
    let attestation = Attestation { subject, quality, value, epoch, attester };
    SignedAttestation { attestation, signature: Signature::from_bytes([1; 64]) }
}

/// In a swarm that trusts issuer 100.
fn shown(attestations: Vec<SignedAttestation>) -> Evidenced {
    evidenced(&did(0), 7, &Evidence(attestations), |by| *by == did(100))
}

#[test]
fn reputation_and_stake_come_from_issuers() {
    use Quality::{Reputation, Stake};
    let mut of_another = said(100, Reputation, 100, 7);
    of_another.attestation.subject = did(3);
    let evidence = shown(vec![
        said(100, Reputation, 80, 7),
        said(1, Reputation, 90, 7),
        of_another,
        said(100, Stake, 40, 6),
        said(100, Stake, 60, 5),
        said(100, Stake, 70, 8),
    ]);
    let expected = Evidenced { reputation: Share::percent(80), stake: Share::percent(40) };
    assert_eq!(evidence, expected);
    assert!(!is_beyond(&score([100, 80, 100, 40]), &evidence));
    for more in [[0, 81, 0, 40], [0, 80, 0, 41]] {
        assert!(is_beyond(&score(more), &evidence), "{more:?}");
    }
}

#[test]
fn evidence_is_limited() {
    let mut flood = vec![said(6, Quality::Stake, 1, 7); EVIDENCE_MAX - 1];
    flood.push(said(100, Quality::Stake, 40, 7));
    flood.push(said(100, Quality::Reputation, 40, 7));
    let shown = shown(flood);
    assert_eq!((shown.stake, shown.reputation), (Share::percent(40), Share::ZERO));
}

#[test]
fn what_was_observed_is_the_upper_median() {
    let median = |seen: &[u32]| {
        upper_median(&seen.iter().map(|percent| Share::percent(*percent)).collect::<Vec<_>>())
    };
    assert_eq!(median(&[0, 0, 70, 80, 90]), Share::percent(70));
    assert_eq!(median(&[0, 0, 0, 80, 90]), Share::ZERO);
    assert_eq!(median(&[80, 90]), Share::percent(90));
    assert_eq!(median(&[]), Share::ZERO);
}
