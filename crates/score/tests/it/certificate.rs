//! Level three: facts, proofs and receipts behind a score.

use std::time::Duration;

use serde_json::json;
use skep_base::{AgentId, Hash32, ed25519::SecretKey};
use skep_score::{
    publish,
    track::WINDOW,
    verify::{self, Source},
};
use skep_settle::{deal::DISPUTE_REVIEW, offer::DURATION_S_MAX, verification::SENT_WITHIN};
use skep_wire::{
    score::{
        BenchmarkTier, Certificate, IssuerKey, KeyPurpose, KeySet, Phase, Publication, Verdict,
        VerifyAnswer, VerifyLevel,
    },
    settle::Tier,
};

use crate::world::{Checks, DAY, MINUTE, World, agent, buyer, house, time};

fn checked(world: &World, certificate: &Certificate) -> VerifyAnswer {
    let keys = world.house.keys();
    let source = Source { keys: &keys, host: None };
    verify::certificate(certificate, Some(&source), None, &Checks, world.now)
}

fn names(answer: &VerifyAnswer) -> Vec<&str> {
    answer.failed_checks.iter().map(|failed| failed.check.as_str()).collect()
}

const A_DAY: Duration = Duration::from_millis(DAY as u64);
const A_MINUTE: Duration = Duration::from_millis(MINUTE as u64);

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
        // Nineteen are left, and the one that is asked for is not.
        ("settlements.missing", |c| drop(c.settlements.remove(0))),
        ("settlements.missing", |c| drop(c.settlements.remove(9))),
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
        let names = names(&answer);
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
    let names = names(&answer);
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
    *publication = serde_json::to_value(publish::derive(&lie)).unwrap();
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

/// What fails of a certificate with twelve of each, signed so long before they were counted.
fn found(stale: Duration, verifier: Option<(u8, Duration)>, ok: bool) -> Vec<String> {
    let mut world = World::new(1);
    world.now = time(200 * DAY);
    world.stale = stale;
    world.verifier = verifier.map(|(n, before)| (SecretKey::from_seed([n; 32]), before));
    for n in 0..12 {
        world.session(true);
        world.settlement(ok, buyer(n));
    }
    // The first one is about to leave the window.
    world.now = world.facts[0].fact.at.plus(WINDOW - A_MINUTE);
    let answer = checked(&world, &world.certificate());
    let mut found: Vec<String> = names(&answer).iter().map(|name| (*name).to_owned()).collect();
    found.dedup();
    found
}

#[test]
fn what_was_signed_long_ago_is_not_this_quarters() {
    let none = Vec::<String>::new();
    for ok in [true, false] {
        assert_eq!(found(Duration::ZERO, None, ok), none);
    }
    // Neither last year's nor last quarter's: what the newest ten should be is not there.
    let old = ["sessions.window", "sessions.missing", "settlements.window", "settlements.missing"];
    for stale in [365 * A_DAY, 90 * A_DAY, 2 * A_DAY] {
        for ok in [true, false] {
            assert_eq!(found(stale, None, ok), old, "{stale:?} {ok}");
        }
    }
    // A proof that came late, and a refund that was looked at later; what is paid counts at once.
    assert_eq!(found(A_DAY - 30 * A_MINUTE, None, false), none);
    let late = ["settlements.window", "settlements.missing"];
    assert_eq!(found(A_DAY - 30 * A_MINUTE, None, true), late);
}

/// A node may count what it likes; a stranger counts a success only where something succeeded.
#[test]
fn a_session_in_which_nothing_worked_is_no_success() {
    for (ok, failed) in [(true, vec!["sessions.fact", "sessions.missing"]), (false, vec![])] {
        let mut world = World::new(1);
        for n in 0..12 {
            world.fails = n == 11;
            world.session(ok || n != 11);
        }
        assert_eq!(names(&checked(&world, &world.certificate())), failed, "{ok}");
    }
}

#[test]
fn a_verdict_is_as_old_as_its_deal_allows() {
    let none = Vec::<String>::new();
    let bad = ["settlements.window", "settlements.missing"];
    let judged = |before, ok| found(Duration::ZERO, Some((7, before)), ok);
    let release = verify::VERDICT_BEFORE_RELEASE;
    assert_eq!(judged(release, true), none);
    assert_eq!(judged(release + 30 * A_MINUTE, true), bad);
    let refund = verify::VERDICT_BEFORE_REFUND;
    assert_eq!(judged(refund, false), none);
    assert_eq!(judged(refund + 30 * A_MINUTE, false), bad);
    // The rules of deals say the same.
    assert_eq!(release, SENT_WITHIN);
    assert_eq!(refund, SENT_WITHIN + Duration::from_secs(DURATION_S_MAX) + DISPUTE_REVIEW);
}

#[test]
fn the_nodes_own_verifier_is_not_independent() {
    let mut world = World::new(1);
    let verifier = SecretKey::from_seed([7; 32]);
    let (key, valid) = (verifier.public(), (time(-400 * DAY), time(400 * DAY)));
    world.verifier = Some((verifier, Duration::ZERO));
    for n in 0..12 {
        world.settlement(n > 0, buyer(n));
    }
    let certificate = world.certificate();
    let independent = |certificate: &Certificate, keys: &KeySet| {
        let source = Source { keys, host: None };
        let answer = verify::certificate(certificate, Some(&source), None, &Checks, world.now);
        assert_eq!(answer.failed_checks, []);
        let coverage = answer.coverage.unwrap();
        assert_eq!(coverage.settlements_proven, 12);
        coverage.settlements_independent
    };
    let mut keys = world.house.keys();
    assert_eq!(independent(&certificate, &keys), 12);
    let own = IssuerKey::ed25519("verifier-1", &key, KeyPurpose::Verifier, valid);
    keys.keys.push(own.clone());
    assert_eq!(independent(&certificate, &keys), 0);
    // Whether the certificate says it or the node's own list.
    let mut said = certificate.clone();
    said.keys.keys.push(own);
    assert_eq!(independent(&said, &world.house.keys()), 0);
}

/// Changes an imported record as its issuer would who computes the rest honestly.
fn with_other_imports(world: &World, change: impl Fn(&mut Publication)) -> Certificate {
    let mut certificate = world.certificate();
    let mut said: Publication = serde_json::from_value(certificate.publication).unwrap();
    change(&mut said);
    let said = publish::derive(&said).sign(&world.house.issuer).unwrap();
    certificate.publication = serde_json::to_value(said).unwrap();
    certificate
}

/// Anybody can make a key and sign as another platform with it.
#[test]
fn it_is_said_whose_keys_an_import_was_checked_by() {
    let (world, home) = (World::travelled(), World::standard(1).house.keys());
    let (certificate, keys) = (world.certificate(), world.house.keys());
    let (issuer, origin) = (Source { keys: &keys, host: None }, Source { keys: &home, host: None });
    for (origin, pinned) in [(None, Some(false)), (Some(&origin), Some(true))] {
        let answer = verify::certificate(&certificate, Some(&issuer), origin, &Checks, world.now);
        assert_eq!(answer.failed_checks, []);
        assert_eq!(answer.coverage.unwrap().imports_pinned, pinned);
    }
    let local = World::standard(1);
    assert_eq!(checked(&local, &local.certificate()).coverage.unwrap().imports_pinned, None);
}

/// What an admin has taken away does not come back from elsewhere; strangers agree.
#[test]
fn a_demotion_holds_for_imports_too() {
    let mut world = World::travelled();
    for n in 0..12 {
        world.settlement(true, buyer(n));
    }
    assert_eq!(
        (world.track.tier, world.track.shown_tier(world.now)),
        (Tier::Basic, Tier::Verified)
    );
    assert_eq!(world.track.held(), BenchmarkTier::Standard);
    world.track.tier_cap = Some(Tier::Basic);
    world.session(true);
    assert_eq!((world.track.tier, world.track.shown_tier(world.now)), (Tier::Basic, Tier::Basic));
    assert_eq!(world.track.held(), BenchmarkTier::None);
    let said = world.publication(true);
    assert_eq!((said.with_imports.unwrap().atep_tier, said.phase), (Tier::Basic, Phase::Basic));
    let answer = checked(&world, &world.certificate());
    assert_eq!((answer.failed_checks, answer.level), (vec![], Some(VerifyLevel::L3)));
}

#[test]
fn imports_are_what_their_platform_has_signed() {
    let world = World::travelled();
    let good = checked(&world, &world.certificate());
    assert_eq!((good.failed_checks, good.level), (vec![], Some(VerifyLevel::L3)));
    let said = world.publication(true);
    assert!(said.escrow.effective_modifier < said.escrow.modifier, "the import counts");

    type Lie = fn(&mut Publication);
    let lies: &[(&str, Lie)] = &[
        ("imports.counts", |p| p.with_imports.as_mut().unwrap().imported.ap2_successful += 1),
        ("imports.counts", |p| p.with_imports.as_mut().unwrap().imported.conduit_sessions -= 1),
        ("imports.publication", |p| p.with_imports.as_mut().unwrap().platform.push('x')),
        ("imports.platform", |p| p.with_imports.as_mut().unwrap().platform.push('x')),
        ("imports.atep_tier", |p| p.with_imports.as_mut().unwrap().atep_tier = Tier::Trusted),
        ("imports.ends_at", |p| {
            let with = p.with_imports.as_mut().unwrap();
            with.ends_at = with.ends_at.plus(A_DAY);
        }),
    ];
    for (name, lie) in lies {
        let answer = checked(&world, &with_other_imports(&world, lie));
        assert_eq!(answer.level, Some(VerifyLevel::L2), "{name}");
        assert!(names(&answer).contains(name), "{name}: {answer:?}");
    }
    let shown = |change: fn(&mut Certificate)| {
        let mut certificate = world.certificate();
        change(&mut certificate);
        let answer = checked(&world, &certificate);
        assert_eq!(answer.level, Some(VerifyLevel::L2));
        names(&answer).join(" ")
    };
    assert_eq!(shown(|c| c.imported = None), "imports.missing");
    assert_eq!(
        shown(|c| c.imported.as_mut().unwrap().publication = json!(1)),
        "imports.publication"
    );
    assert_eq!(shown(|c| c.imported.as_mut().unwrap().keys.keys.clear()), "imports.publication");
}

#[test]
fn an_import_is_of_another_platform_and_of_this_agent_and_of_before() {
    let source = World::standard(1);
    let mut world = World::travelled();
    let brought = |world: &mut World, change: &dyn Fn(&mut serde_json::Value)| {
        let imported = world.imported.as_mut().unwrap();
        imported.publication = serde_json::to_value(source.publication(false)).unwrap();
        change(&mut imported.publication);
        source.resign(&mut imported.publication);
        names(&checked(world, &world.certificate())).join(" ")
    };
    assert_eq!(brought(&mut world, &|_| ()), "");
    let other = publish::passport_id(&AgentId([0x22; 20]));
    assert_ne!(other, publish::passport_id(&agent()));
    assert_eq!(
        brought(&mut world, &|said| said["agent_passport_id"] = json!(other)),
        "imports.agent"
    );
    // What was counted after the import can be no part of it.
    let mut later = World::travelled();
    later.now = source.now.minus(A_MINUTE);
    later.facts.clear();
    let found = brought(&mut later, &|_| ());
    assert!(found.contains("imports.computed_at"), "{found}");
    // Whoever has that platform's keys for itself does not need those that came along.
    let certificate = World::travelled().certificate();
    let keys = [source.house.keys(), house(2).keys()];
    let answer = |origin: &KeySet, host| {
        let known = world.house.keys();
        let issuer = Source { keys: &known, host: None };
        let origin = Source { keys: origin, host };
        let answer =
            verify::certificate(&certificate, Some(&issuer), Some(&origin), &Checks, world.now);
        names(&answer).join(" ")
    };
    assert_eq!(answer(&keys[0], Some(source.house.platform)), "");
    assert_eq!(answer(&keys[0], Some("evil.example")), "imports.publication");
    assert_eq!(answer(&keys[1], None), "imports.publication");
    // Nor does a platform import what it has exported itself.
    let mut own = World::standard(1);
    own.bring(&World::standard(1));
    let found = checked(&own, &own.certificate());
    assert_eq!(names(&found), ["imports.platform"]);
}
