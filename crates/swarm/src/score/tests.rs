use skep_base::{ed25519::Signature, hash::sha256};
use skep_wire::swarm::Attestation;

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

/// Believes issuer 100 and whatever members 1 to 5 say.
struct Swarm {
    attesters: Vec<Did>,
}

impl Trust for Swarm {
    fn issuer_signed(&self, a: &SignedAttestation) -> bool {
        a.attestation.attester == did(100)
    }

    fn witness_signed(&self, a: &SignedAttestation) -> bool {
        *a.signature.as_bytes() == [1; 64]
    }

    fn attesters(&self, _: &Did) -> Vec<Did> {
        self.attesters.clone()
    }
}

fn said(by: u32, quality: Quality, percent: u32, epoch: u64) -> SignedAttestation {
    let (subject, value, attester) = (did(0), Share::percent(percent), did(by));
    let attestation = Attestation { subject, quality, value, epoch, attester };
    SignedAttestation { attestation, signature: Signature::from_bytes([1; 64]) }
}

fn shown(attestations: Vec<SignedAttestation>) -> Evidenced {
    let swarm = Swarm { attesters: (1..=5).map(did).collect() };
    evidenced(&did(0), 7, &Evidence(attestations), &swarm)
}

#[test]
fn uptime_is_the_median_of_those_drawn() {
    use Quality::Uptime;
    let three = vec![said(1, Uptime, 90, 7), said(2, Uptime, 80, 6), said(3, Uptime, 70, 7)];
    assert_eq!(shown(three.clone()).uptime, Share::percent(70), "two are missing: 0 0 70 80 90");
    assert_eq!(shown(three[..2].to_vec()).uptime, Share::ZERO);
    let mut more = three.clone();
    more.extend([said(6, Uptime, 100, 7), said(0, Uptime, 100, 7)]);
    more.extend([said(4, Uptime, 100, 5), said(5, Uptime, 100, 8)]);
    more.extend([said(1, Uptime, 100, 6), said(1, Uptime, 95, 7)]);
    let mut forged = said(4, Uptime, 100, 7);
    forged.signature = Signature::from_bytes([2; 64]);
    let mut of_another = said(5, Uptime, 100, 7);
    of_another.attestation.subject = did(3);
    more.extend([forged, of_another]);
    assert_eq!(shown(more.clone()), shown(three.clone()), "nothing of that counts");
    more.reverse();
    assert_eq!(shown(more), shown(three));
    let alone = Swarm { attesters: vec![did(0)] };
    let own = Evidence(vec![said(0, Uptime, 100, 7)]);
    assert_eq!(evidenced(&did(0), 7, &own, &alone).uptime, Share::ZERO);
}

#[test]
fn reputation_and_stake_come_from_issuers() {
    use Quality::{ProofOfCompute, Reputation, Stake};
    let evidence = shown(vec![
        said(100, Reputation, 80, 7),
        said(1, Reputation, 90, 7),
        said(100, Stake, 40, 6),
        said(100, Stake, 60, 5),
        said(100, ProofOfCompute, 100, 7),
    ]);
    let expected = Evidenced {
        reputation: Share::percent(80),
        stake: Share::percent(40),
        ..Default::default()
    };
    assert_eq!(evidence, expected);
    assert_eq!(weight(&evidence), Share::percent(38));
    assert_eq!(weight(&Evidenced::default()), WEIGHT_MIN);
    assert!(!beyond_evidence(&score([0, 80, 0, 40]), &evidence));
    for more in [[1, 80, 0, 40], [0, 81, 0, 40], [0, 80, 1, 40], [0, 80, 0, 41]] {
        assert!(beyond_evidence(&score(more), &evidence), "{more:?}");
    }
}

#[test]
fn evidence_is_limited() {
    let mut flood = vec![said(6, Quality::Uptime, 1, 7); EVIDENCE_MAX - 1];
    flood.push(said(100, Quality::Stake, 40, 7));
    flood.push(said(100, Quality::Reputation, 40, 7));
    let shown = shown(flood);
    assert_eq!((shown.stake, shown.reputation), (Share::percent(40), Share::ZERO));
}

#[test]
fn attesters_are_others() {
    let members: Vec<Did> = (0..30).map(did).collect();
    let drawn = attesters(&Hash32::ZERO, &did(0), &members);
    assert_eq!(drawn.len(), ATTESTERS);
    assert!(!drawn.contains(&did(0)));
    assert_eq!(attesters(&Hash32::ZERO, &did(0), &members[..3]).len(), 2);
    assert_eq!(attesters(&Hash32::ZERO, &did(0), &members[..1]), []);
}
