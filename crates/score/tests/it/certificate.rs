//! Level three: facts, proofs and receipts behind a score.

use serde_json::json;
use skep_base::{AgentId, Hash32, ed25519::SecretKey};
use skep_score::verify::{self, Source};
use skep_wire::score::{Certificate, KeyPurpose, Verdict, VerifyAnswer, VerifyLevel};

use crate::world::{Checks, World, house};

fn checked(world: &World, certificate: &Certificate) -> VerifyAnswer {
    let keys = world.house.keys();
    let source = Source { keys: &keys, host: None };
    verify::certificate(certificate, Some(&source), &Checks, world.now)
}

#[test]
fn a_stranger_checks_a_certificate() {
    let world = World::standard(1);
    let certificate = world.certificate();
    // As it is sent.
    let text = serde_json::to_string(&certificate).unwrap();
    let certificate: Certificate = serde_json::from_str(&text).unwrap();
    let answer = checked(&world, &certificate);
    assert_eq!(answer.failed_checks, []);
    assert_eq!((answer.verified, answer.level), (true, Some(VerifyLevel::L3)));
    let coverage = answer.coverage.unwrap();
    assert_eq!((coverage.facts_stated, coverage.facts_shown), (120, 120));
    assert_eq!((coverage.sessions_proven, coverage.settlements_proven), (10, 20));
    assert_eq!(coverage.settlements_independent, 0, "these rest on the marketplace's word");
}

#[test]
fn what_is_altered_in_a_certificate_is_named() {
    type Alter = fn(&mut Certificate);
    let world = World::standard(1);
    let cases: &[(&str, Alter)] = &[
        ("facts.number", |c| drop(c.facts.remove(5))),
        ("facts.order", |c| drop(c.facts.remove(5))),
        ("facts.number", |c| drop(c.facts.remove(0))),
        ("facts.number", |c| drop(c.facts.pop())),
        ("facts.source", |c| c.facts.insert(5, c.facts[5].clone())),
        ("facts.order", |c| c.facts.swap(5, 6)),
        ("facts.chain", |c| c.facts[5].fact.source.push('x')),
        ("facts.chain", |c| c.facts[7].fact.ok = true),
        ("facts.conduit_successful_90d", |c| c.facts[7].fact.ok = true),
        ("facts.chain", |c| c.facts[119].fact.released_cents += 1),
        ("facts.escrow_released_90d_cents", |c| c.facts[119].fact.released_cents += 1),
        ("facts.counterparties", |c| {
            c.facts[119].fact.counterparty = Some(AgentId([0x77; 20]));
        }),
        ("facts.recent_proof_hashes", |c| c.facts[79].fact.proof = Some(Hash32::ZERO)),
        ("facts.chain", |c| c.chain_before = Hash32::ZERO),
        ("facts.chain_before", |c| c.chain_before = Hash32::ZERO),
        ("agent_id", |c| c.agent_id = AgentId([0x22; 20])),
        ("sessions.missing", |c| drop(c.session_proofs.pop())),
        ("sessions.proof", |c| c.session_proofs[0].bundle["action_log"][0]["index"] = json!(1)),
        ("sessions.proof", |c| c.session_proofs[0].signature.0[0] ^= 1),
        ("settlements.signature", |c| {
            c.settlements[0].receipt.settlement.requester = AgentId([0x77; 20]);
        }),
        ("settlements.missing", |c| c.settlements.clear()),
        ("settlements.verdict", |c| {
            let key = SecretKey::from_seed([7; 32]).public();
            let (verifier, kid) = (AgentId([7; 20]), "v".to_owned());
            let completed_at = c.settlements[0].receipt.settlement.settled_at;
            let verdict = Verdict { verifier, kid, key, passed: true, completed_at };
            c.settlements[0].verdict = Some(verdict);
        }),
        ("signature", |c| c.publication["score"]["value"] = json!(760)),
    ];
    for (name, alter) in cases {
        let mut certificate = world.certificate();
        alter(&mut certificate);
        let answer = checked(&world, &certificate);
        assert!(!answer.verified && answer.level < Some(VerifyLevel::L3), "{name}");
        let names: Vec<&str> = answer.failed_checks.iter().map(|f| f.check.as_str()).collect();
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

#[test]
fn evidence_of_others_does_not_count() {
    let world = World::standard(1);
    // The same record, sealed and signed by somebody else's gateway and marketplace.
    let other = World::standard(2);
    let mut certificate = world.certificate();
    certificate.session_proofs = other.certificate().session_proofs;
    certificate.settlements = other.certificate().settlements;
    let answer = checked(&world, &certificate);
    let names: Vec<&str> = answer.failed_checks.iter().map(|f| f.check.as_str()).collect();
    assert!(names.contains(&"sessions.gateway") && names.contains(&"settlements.key"), "{names:?}");
    // Nor with the keys that it brings itself, where the stranger has better ones.
    certificate.keys.keys.extend(
        house(2).keys().keys.into_iter().filter(|key| key.purpose != KeyPurpose::Publication),
    );
    assert!(!checked(&world, &certificate).verified);
}

#[test]
fn a_publication_that_claims_more_than_its_facts_is_found_out() {
    let world = World::standard(1);
    let mut certificate = world.certificate();
    let publication = &mut certificate.publication;
    publication["dimensions"]["technical_execution"]["conduit_successful_90d"] = json!(80);
    // The issuer computes all the rest honestly from its lie.
    let lie = serde_json::from_value(publication.clone()).unwrap();
    *publication = serde_json::to_value(skep_score::publish::derive(&lie)).unwrap();
    world.resign(publication);
    let answer = checked(&world, &certificate);
    assert_eq!(answer.level, Some(VerifyLevel::L2));
    assert_eq!(answer.failed_checks[0].check, "facts.conduit_successful_90d");
}

#[test]
fn of_a_long_window_the_newest_thousand_facts_are_shown() {
    let mut world = World::standard(1);
    for _ in 0..900 {
        world.session(true);
    }
    let certificate = world.certificate();
    let answer = checked(&world, &certificate);
    assert_eq!(answer.failed_checks, []);
    assert_eq!(answer.level, Some(VerifyLevel::L3));
    let coverage = answer.coverage.unwrap();
    assert_eq!((coverage.facts_stated, coverage.facts_shown), (1020, 1000));
    // Less than that is not enough, although the chain would hold.
    let mut short = certificate.clone();
    let first = short.facts.remove(0);
    short.chain_before = first.fact.link(short.chain_before, &short.agent_id, first.n);
    assert_eq!(checked(&world, &short).failed_checks[0].check, "facts.number");
}
