//! Verifiers and reviewers who should not be heard.

use std::time::Duration;

use serde_json::json;
use skep_base::{
    Amount,
    ed25519::SecretKey,
    id::{DealId, VerificationId},
};
use skep_market::{DealRefusal, Failure, Refusal};
use skep_settle::{
    deal,
    proof::{self, Fault},
};
use skep_wire::settle::{
    EngineOffer, EscrowStatus, NewVerifierKey, Outcome, SplitVerdict, Tier, VerificationCallback,
};

use super::{sqlite, step};
use crate::{deal_world::*, fixture::*, on_both_engines};

const MINUTE: Duration = Duration::from_secs(60);

fn named(verifier: &Looker) -> serde_json::Value {
    json!({"metadata": {"skep": {"verifier": verifier.id()}}})
}

async fn attach(w: &World, who: &Person, operator: &SecretKey) {
    w.f.change(who, who.attach(operator, w.f.now())).await.unwrap();
}

/// An operator of its own.
async fn operator_of(w: &World, seed: u8) -> SecretKey {
    let key = SecretKey::from_seed([seed; 32]);
    w.market().register_operator(operator(&key, "Acme", w.f.now())).await.unwrap();
    key
}

/// Vera's word on a deal that was delivered, signed by another of her keys.
async fn signed_by(
    w: &World,
    id: VerificationId,
    kid: &'static str,
    key: &SecretKey,
) -> VerificationCallback {
    let mut bundle = w.finding(id, &w.vera, Outcome::Verified).await;
    kid.clone_into(&mut bundle.verifier.kid);
    proof::seal(bundle, None, key).unwrap()
}

#[tokio::test]
async fn a_key_counts_only_while_it_is_good() {
    let w = sqlite().await;
    let now = w.f.now();
    let (soon, short) = (SecretKey::from_seed([51; 32]), SecretKey::from_seed([52; 32]));
    let keys = [
        ("soon", &soon, Some(now.plus(20 * MINUTE)), None),
        ("short", &short, None, Some(now.plus(10 * MINUTE))),
    ];
    for (kid, key, not_before, not_after) in keys {
        let (kid, public_key) = (kid.to_owned(), key.public());
        let new = NewVerifierKey { kid, public_key, not_before, not_after };
        let signed = w.vera.person.signed("new key");
        w.market().add_verifier_key(&signed, new).await.unwrap();
    }
    let (id, verification) = w.delivered(named(&w.vera)).await;
    let expired = |kid: &str| DealRefusal::VerifierKeyExpired { kid: kid.to_owned() };

    let early = signed_by(&w, verification, "soon", &soon).await;
    assert_eq!(w.thwarted_deal(id, w.callback(early)).await, expired("soon"));
    w.f.clock.advance(10 * MINUTE);
    let late = signed_by(&w, verification, "short", &short).await;
    assert_eq!(w.thwarted_deal(id, w.callback(late)).await, expired("short"));

    let said = w.verdict(verification, Outcome::Verified).await;
    let revoke = w.vera.person.signed("revoke");
    w.market().revoke_verifier_key(&revoke, "k1".to_owned()).await.unwrap();
    let revoked = DealRefusal::VerifierKeyRevoked { kid: "k1".to_owned() };
    assert_eq!(w.thwarted_deal(id, w.callback(said)).await, revoked);
    let never = signed_by(&w, verification, "k7", &short).await;
    let unknown = DealRefusal::UnknownVerifierKey { kid: "k7".to_owned() };
    assert_eq!(w.thwarted_deal(id, w.callback(never)).await, unknown);

    w.f.clock.advance(10 * MINUTE);
    let in_time = signed_by(&w, verification, "soon", &soon).await;
    w.callback(in_time).await.unwrap();
    assert_eq!(w.money(id).await, "99000/0/0 1000/0/0 0");
}

#[tokio::test]
async fn a_revoked_key_does_not_come_back_under_its_name() {
    let w = sqlite().await;
    let revoke = w.vera.person.signed("revoke");
    w.market().revoke_verifier_key(&revoke, "k1".to_owned()).await.unwrap();
    for (kid, key) in [("k1", &w.vera.key), ("k1", &w.viv.key), ("k2", &w.vera.key)] {
        let (kid, public_key) = (kid.to_owned(), key.public());
        let new = NewVerifierKey { kid, public_key, not_before: None, not_after: None };
        let signed = w.vera.person.signed("new key");
        let added = w.market().add_verifier_key(&signed, new);
        assert_eq!(w.thwarted_deal(None, added).await, DealRefusal::BadKeyId);
    }
}

on_both_engines! {
    async fn a_key_that_is_revoked_meanwhile_signs_before_or_not_at_all(f: Fixture) {
        let w = World::new(f).await;
        let mut settled = vec![];
        for round in 0..8_u8 {
            let key = SecretKey::from_seed([100 + round; 32]);
            let kid = format!("race-{round}");
            let new = NewVerifierKey {
                kid: kid.clone(), public_key: key.public(), not_before: None, not_after: None,
            };
            w.market().add_verifier_key(&w.vera.person.signed("new"), new).await.unwrap();
            let (id, verification) = w.delivered(named(&w.vera)).await;
            let mut bundle = w.finding(verification, &w.vera, Outcome::Verified).await;
            bundle.verifier.kid.clone_from(&kid);
            let said = proof::seal(bundle, None, &key).unwrap();
            let revoke = w.vera.person.signed("revoke");
            let pause = Duration::from_micros(u64::from(round) * 300);
            let (taken, revoked) = tokio::join!(w.callback(said), async {
                tokio::time::sleep(pause).await;
                w.market().revoke_verifier_key(&revoke, kid.clone()).await
            });
            revoked.unwrap();
            let held = match taken {
                Ok(taken) => {
                    assert_eq!(taken.escrow, EscrowStatus::Released);
                    settled.push(id);
                    false
                }
                refused => {
                    let revoked = DealRefusal::VerifierKeyRevoked { kid };
                    assert_eq!(deal_refusal(refused), revoked);
                    true
                }
            };
            let expected = if held { "Active Held Pending" } else { "Completed Released Verified" };
            assert_eq!(w.states(id).await, expected);
        }
        // Where the verdict was heard, the log tells of it before it tells of the revocation.
        w.f.kinds().await;
        let log = w.market().events(0, 1000).await.unwrap().items;
        let revocations: Vec<usize> =
            (0..log.len()).filter(|n| log[*n].kind == "verifier.key_revoked").collect();
        let mut releases = 0;
        for (n, event) in log.iter().enumerate().filter(|(_, e)| e.kind == "escrow.released") {
            let created = log.iter().filter(|e| e.kind == "agreement.created");
            let round = created.take_while(|e| e.route != event.route).count();
            assert!(n < revocations[round], "{event:?}");
            releases += 1;
        }
        assert_eq!(releases, settled.len());
        w.f.audit_is_clean().await;
    }

    async fn a_verifier_of_a_sides_operator_is_neither_agreed_on_nor_picked(f: Fixture) {
        let w = World::new(f).await;
        let acme = operator_of(&w, 60).await;
        attach(&w, &w.ben, &acme).await;
        attach(&w, &w.vera.person, &acme).await;
        let id = w.open(named(&w.vera)).await.unwrap();
        let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
        let agent = w.vera.id();
        assert_eq!(refused, DealRefusal::VerifierNotIndependent { agent });
        for _ in 0..4 {
            let (_, verification) = w.delivered(json!({})).await;
            let asked = w.verification(verification).await.verifier;
            assert_eq!(asked, Some(w.viv.id()));
        }
        attach(&w, &w.viv.person, &acme).await;
        let (id, _) = w.delivered(json!({})).await;
        assert_eq!(w.states(id).await, "Active Held Pending");
        let queue = w.market().reviews(&w.rex.id(), None, 10).await.unwrap().items;
        assert_eq!((queue[0].negotiation_id, queue[0].cause.as_str()), (id, "no_verifier"));
        let delta = json!({"verification_hints": {
            "type": "http", "url": "https://a.example/", "fingerprint_delta": true,
        }});
        let id = w.open(delta).await.unwrap();
        let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
        assert!(matches!(refused, DealRefusal::BadVerifier { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn neither_side_is_its_own_verifier() {
    let w = sqlite().await;
    for side in [&w.ann, &w.ben] {
        let agent = side.id();
        let terms = json!({"metadata": {"skep": {"verifier": agent}}});
        let id = w.open(terms.clone()).await.unwrap();
        let accept = || w.respond(&w.ben, id, "ACCEPTED", json!({}));
        let refused = w.thwarted_deal(id, accept()).await;
        assert_eq!(refused, DealRefusal::UnknownVerifier { agent });
        let key = SecretKey::from_seed([70; 32]);
        let looker = Looker { person: Person::new(80), key, kid: "k1" };
        let request = looker.offers(&["artifact"]);
        w.market().register_verifier(&side.signed("register"), request).await.unwrap();
        let refused = w.thwarted_deal(id, accept()).await;
        assert_eq!(refused, DealRefusal::VerifierNotIndependent { agent });
    }
}

#[tokio::test]
async fn the_verifier_that_the_terms_name_must_be_able_and_willing() {
    let w = sqlite().await;
    let agent = w.vera.id();
    let mut llm = named(&w.vera);
    let rubric = json!({"type": "llm", "custom": {"rubric": "It greets"}});
    merge(&mut llm, json!({"verification_hints": rubric}));
    let id = w.open(llm).await.unwrap();
    let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
    let engine = "llm".to_owned();
    assert_eq!(refused, DealRefusal::VerifierLacksEngine { agent, engine });
    let dear = skep_wire::settle::RegisterVerifier {
        prices: vec![usdc(30)],
        ..w.vera.offers(&["artifact"])
    };
    w.register_as(&w.vera, dear).await;
    let mut cheap = named(&w.vera);
    merge(&mut cheap, json!({"metadata": {"skep": {"verifier_price_minor": "29"}}}));
    let id = w.open(cheap).await.unwrap();
    let refused = w.thwarted_deal(id, w.respond(&w.ben, id, "ACCEPTED", json!({}))).await;
    assert_eq!(refused, DealRefusal::VerifierTooDear { agent, price_minor: 30 });
}

/// Whoever asked for the verifier, its going away must not cost the provider its pay.
#[tokio::test]
async fn a_named_verifier_that_went_away_does_not_keep_the_provider_from_delivering() {
    for keeps_its_key in [false, true] {
        let w = sqlite().await;
        let id = w.agreed(named(&w.vera)).await;
        if keeps_its_key {
            let acme = operator_of(&w, 60).await;
            attach(&w, &w.ann, &acme).await;
            attach(&w, &w.vera.person, &acme).await;
        } else {
            let revoke = w.vera.person.signed("revoke");
            w.market().revoke_verifier_key(&revoke, "k1".to_owned()).await.unwrap();
        }
        w.deliver(id, json!({})).await.unwrap();
        let last = *w.agreement(id).await.verifications.last().unwrap();
        assert_ne!(w.verification(last).await.verifier, Some(w.vera.id()));
        assert_eq!(w.states(id).await, "Active Held Pending");
    }
}

/// 11.2: what an engine understands, does and proves.
#[tokio::test]
async fn engines_are_served_as_they_were_registered_and_have_limits() {
    let w = sqlite().await;
    let mut request = w.viv.offers(&["artifact", "own.engine"]);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    request.engines[1].hint_fields = words("expected_content custom.depth");
    request.engines[1].actions = words("READ COUNT");
    request.engines[1].proof_fields = words("extracted_content");
    let offer = |n: u32, request: &skep_wire::settle::RegisterVerifier| {
        let signed = w.viv.person.signed(&format!("offer {n}"));
        let (market, request) = (w.market().clone(), request.clone());
        async move { market.register_verifier(&signed, request).await }
    };
    offer(0, &request).await.unwrap();
    let shown = w.market().verifier(&w.viv.id()).await.unwrap();
    assert_eq!(shown.engines, request.engines);
    let changes: [fn(&mut Vec<EngineOffer>); 5] = [
        |engines| engines.clear(),
        |engines| engines[1].hint_fields = vec!["x".repeat(1_000)],
        |engines| engines[1].actions = vec!["x".to_owned(); 1_000],
        |engines| engines[1].kind.clear(),
        |engines| *engines = vec![engines[0].clone(); 1_000],
    ];
    for (n, change) in (1..).zip(changes) {
        let mut changed = request.clone();
        change(&mut changed.engines);
        let refused = deal_refusal(offer(n, &changed).await);
        assert!(matches!(refused, DealRefusal::BadVerifier { .. }), "{refused:?}");
    }
    let kept = w.market().verifier(&w.viv.id()).await.unwrap();
    assert_eq!(kept.engines, request.engines);
}

#[tokio::test]
async fn a_verifier_that_went_over_to_a_side_is_not_heard() {
    for side_goes in [false, true] {
        let w = sqlite().await;
        let acme = operator_of(&w, 60).await;
        let (first, then) = match side_goes {
            true => (&w.vera.person, &w.ben),
            false => (&w.ben, &w.vera.person),
        };
        attach(&w, first, &acme).await;
        let (id, verification) = w.delivered(named(&w.vera)).await;
        attach(&w, then, &acme).await;
        let verdict = w.verdict(verification, Outcome::Verified).await;
        let refused = w.thwarted_deal(id, w.callback(verdict)).await;
        assert_eq!(refused, DealRefusal::VerifierNotIndependent { agent: w.vera.id() });
    }
}

#[tokio::test]
async fn an_objection_is_not_judged_by_a_verifier_of_either_sides_operator() {
    let w = sqlite().await;
    let acme = operator_of(&w, 60).await;
    attach(&w, &w.ann, &acme).await;
    w.set_standing(&w.ben, json!({"tier": Tier::Trusted})).await;
    let id = w.agreed(json!({"metadata": {"skep": {"auto_approve": true}}})).await;
    w.deliver(id, json!({"verification_hints": {"auto_approve": true}})).await.unwrap();
    for verifier in [&w.vera, &w.viv] {
        attach(&w, &verifier.person, &acme).await;
    }
    let answer = w.object(&w.ann, id).await.unwrap();
    assert_eq!(answer.verifier, None);
    let file = w.market().review(&w.rex.id(), id).await.unwrap();
    assert_eq!(file.review.cause, "objection");
}

#[tokio::test]
async fn only_the_verifier_that_was_asked_is_heard() {
    let w = sqlite().await;
    let (id, verification) = w.delivered(named(&w.vera)).await;
    let not_asked = step(deal::Refusal::NotTheVerifier);
    let registered = w.finding(verification, &w.viv, Outcome::Verified).await;
    let registered = proof::seal(registered, None, &w.viv.key).unwrap();
    assert_eq!(w.thwarted_deal(id, w.callback(registered)).await, not_asked);
    let stranger =
        Looker { person: Person::new(90), key: SecretKey::from_seed([90; 32]), kid: "k1" };
    let unregistered = w.finding(verification, &stranger, Outcome::Verified).await;
    let unregistered = proof::seal(unregistered, None, &stranger.key).unwrap();
    assert_eq!(w.thwarted_deal(id, w.callback(unregistered)).await, not_asked);
    let begun = w.viv.person.signed("ack");
    let begun = w.market().acknowledge(&begun, verification);
    assert_eq!(w.thwarted_deal(id, begun).await, not_asked);
    let none = id.verification(2);
    let mut elsewhere = w.finding(verification, &w.vera, Outcome::Verified).await;
    elsewhere.verification_id = none;
    let elsewhere = proof::seal(elsewhere, None, &w.vera.key).unwrap();
    let unknown = step(deal::Refusal::UnknownAttempt);
    assert_eq!(w.thwarted_deal(id, w.callback(elsewhere)).await, unknown);
}

#[tokio::test]
async fn a_verdict_without_a_bundle_is_heard_only_from_who_registered_so() {
    let w = sqlite().await;
    let (id, verification) = w.delivered(named(&w.vera)).await;
    let bare = VerificationCallback {
        proof_bundle: None,
        ..w.verdict(verification, Outcome::Verified).await
    };
    let no_bundle = DealRefusal::Proof { reason: Fault::NoBundle };
    assert_eq!(w.thwarted_deal(id, w.callback(bare.clone())).await, no_bundle);

    // Whoever was agreed on as one that gives bundles stays one.
    let request = w.vera.offers(&["artifact"]);
    let bundle_less = skep_wire::settle::RegisterVerifier { bundle_less: true, ..request };
    let signed = w.vera.person.signed("bundle-less");
    let changed = w.market().register_verifier(&signed, bundle_less).await;
    assert!(matches!(deal_refusal(changed), DealRefusal::BadVerifier { .. }));

    let blind = Looker::new(96);
    w.f.register(&blind.person).await;
    let request = blind.offers(&["artifact"]);
    w.register_as(&blind, skep_wire::settle::RegisterVerifier { bundle_less: true, ..request })
        .await;
    let (id, verification) = w.delivered(named(&blind)).await;
    let found = w.finding(verification, &blind, Outcome::Verified).await;
    let sealed = skep_settle::proof::seal(found, None, &blind.key).unwrap();
    let bare = VerificationCallback { proof_bundle: None, ..sealed };
    let mut forged = bare.clone();
    forged.proof_signature = w.viv.key.sign(b"x");
    let bad = DealRefusal::Proof { reason: Fault::BadSignature { kid: "k1".to_owned() } };
    assert_eq!(w.thwarted_deal(id, w.callback(forged)).await, bad);
    let flipped = VerificationCallback { passed: false, ..bare.clone() };
    assert_eq!(w.thwarted_deal(id, w.callback(flipped)).await, bad);
    let nameless = VerificationCallback { kid: None, ..bare.clone() };
    let unknown = DealRefusal::UnknownVerifierKey { kid: String::new() };
    assert_eq!(w.thwarted_deal(id, w.callback(nameless)).await, unknown);
    let unreachable = VerificationCallback {
        proof_bundle_uri: Some("https://a.example/bundle".to_owned()),
        ..bare.clone()
    };
    let refused = w.thwarted_deal(id, w.callback(unreachable)).await;
    let detail = "this node fetches nothing".to_owned();
    assert_eq!(refused, DealRefusal::BundleUnreachable { detail });

    w.callback(bare).await.unwrap();
    assert_eq!(w.settlement(id).await.method, "bundle_less");
    assert_eq!(w.money(id).await, "98000/0/0 1000/0/0 0");
}

/// A deal before the reviewers.
async fn in_review(w: &World) -> DealId {
    let human = json!({"verification_hints": {"type": "human"}});
    w.delivered(human).await.0
}

#[tokio::test]
async fn only_accredited_reviewers_without_ties_decide() {
    let w = sqlite().await;
    let id = in_review(&w).await;
    let decide = |by| w.decide_as(by, id, Outcome::Verified, None);
    let unknown = Looker::new(95);
    let refused = w.thwarted(id, decide(&unknown)).await;
    assert_eq!(refused, Refusal::UnknownAgent { agent: unknown.id().to_string() });
    w.f.register(&unknown.person).await;
    let agent = unknown.id();
    assert_eq!(w.thwarted_deal(id, decide(&unknown)).await, DealRefusal::UnknownVerifier { agent });
    w.register(&unknown, &["human"]).await;
    assert_eq!(w.thwarted_deal(id, decide(&unknown)).await, DealRefusal::NotAReviewer { agent });
    let file = w.market().review(&agent, id);
    assert_eq!(w.thwarted_deal(id, file).await, DealRefusal::NotAReviewer { agent });
    let queue = w.market().reviews(&agent, None, 10);
    assert_eq!(w.thwarted_deal(id, queue).await, DealRefusal::NotAReviewer { agent });
    // Accredited, but an engine.
    let agent = w.vera.id();
    assert_eq!(w.thwarted_deal(id, decide(&w.vera)).await, DealRefusal::NotAReviewer { agent });

    let acme = operator_of(&w, 60).await;
    attach(&w, &w.ben, &acme).await;
    attach(&w, &w.rex.person, &acme).await;
    // Of a deal that came after, and of the one that was there before.
    for linked in [in_review(&w).await, id] {
        let agent = w.rex.id();
        let refused = w.thwarted_deal(linked, w.decide(linked, Outcome::Verified, None)).await;
        assert_eq!(refused, DealRefusal::VerifierNotIndependent { agent });
    }
}

#[tokio::test]
async fn a_reviewer_who_is_a_side_decides_nothing() {
    let mut w = sqlite().await;
    let agent = w.ben.id();
    let accredited = [w.vera.id(), w.viv.id(), w.rex.id(), agent];
    w.f.market = w.f.market.clone().with_accredited(accredited);
    let key = SecretKey::from_seed([71; 32]);
    let ben = Looker { person: Person::new(2), key, kid: "k1" };
    let request = ben.offers(&["human"]);
    w.market().register_verifier(&w.ben.signed("register"), request).await.unwrap();
    let id = in_review(&w).await;
    let refused = w.thwarted_deal(id, w.decide_as(&ben, id, Outcome::Verified, None)).await;
    assert_eq!(refused, DealRefusal::VerifierNotIndependent { agent });
}

#[tokio::test]
async fn a_reviewers_division_must_come_out_even() {
    let w = sqlite().await;
    let id = in_review(&w).await;
    let bad = step(deal::Refusal::BadSplit);
    let with = async |outcome, released: i64, refunded: i64| {
        let file = w.market().review(&w.rex.id(), id).await.unwrap();
        let mut bundle = bundle(&file.request, w.rex.id(), "k1", outcome, w.f.now());
        bundle.supersedes = file.supersedes;
        bundle.split = Some(SplitVerdict {
            released_minor: Amount::new(released).unwrap(),
            refunded_minor: Amount::new(refunded).unwrap(),
        });
        w.send_decision(proof::seal(bundle, None, &w.rex.key).unwrap()).await
    };
    for (outcome, released, refunded) in [
        (Outcome::Verified, 400, 599),
        (Outcome::Verified, 400, 601),
        (Outcome::Verified, 1001, 0),
        (Outcome::Verified, 0, 1000),
        (Outcome::Verified, i64::MAX, 1),
        (Outcome::Rejected, 400, 600),
        (Outcome::Error, 400, 600),
    ] {
        let refused = w.thwarted_deal(id, with(outcome, released, refunded)).await;
        assert_eq!(refused, bad, "{outcome:?} {released} {refunded}");
    }
    with(Outcome::Verified, 400, 600).await.unwrap();
    assert_eq!(w.money(id).await, "99600/0/0 400/0/0 0");
}

#[tokio::test]
async fn engines_and_reviewers_have_doors_of_their_own() {
    let w = sqlite().await;
    let id = in_review(&w).await;
    let file = w.market().review(&w.rex.id(), id).await.unwrap();
    let mut said = bundle(&file.request, w.rex.id(), "k1", Outcome::Verified, w.f.now());
    said.supersedes = file.supersedes;
    let said = proof::seal(said, None, &w.rex.key).unwrap();
    assert_eq!(w.thwarted_deal(id, w.callback(said)).await, DealRefusal::ReviewersOnly);
    let (id, verification) = w.delivered(json!({})).await;
    let said = w.verdict(verification, Outcome::Verified).await;
    let decided = w.send_decision(said);
    assert_eq!(w.thwarted_deal(id, decided).await, DealRefusal::ReviewersOnly);
}

#[tokio::test]
async fn one_nonce_serves_one_request() {
    let w = sqlite().await;
    let id = w.agreed(json!({})).await;
    let signed = w.ben.signed_with("once", "cancel");
    w.market().deal_cancel(&signed, id).await.unwrap();
    let again = w.market().deal_cancel(&signed, id).await.unwrap();
    assert!(again.replayed);
    let other = w.ben.signed_with("once", "another body");
    let reused = w.market().deal_cancel(&other, id).await;
    assert!(matches!(reused, Err(Failure::KeyReused(_))), "{reused:?}");
}
