//! 7.1 and levels one and two: what is published, and what a changed field is found by.

use serde_json::{Value, json};
use skep_base::Timestamp;
use skep_score::verify::{self, Source};
use skep_wire::score::{
    BenchmarkStatus, BenchmarkTier, Fraction, Phase, VerifyAnswer, VerifyLevel,
};

use crate::world::{Checks, DAY, World, house};

fn checked(world: &World, publication: &Value) -> VerifyAnswer {
    let keys = world.house.keys();
    let source = Source { keys: &keys, host: Some(world.house.platform) };
    verify::publication(publication, Some(&source), world.now)
}

#[test]
fn a_publication_states_the_specification_s_third_vector() {
    let world = World::standard(1);
    let said = world.publication(true);
    assert_eq!((said.score.value, said.score.tier), (759, BenchmarkTier::Standard));
    assert_eq!((said.score.conduit_contribution, said.score.ap2_contribution), (304, 455));
    assert_eq!(said.escrow.modifier, Fraction::from_e4(3928));
    assert_eq!(said.escrow.effective_modifier, Fraction::from_e4(3928));
    assert_eq!(said.escrow.description, "39% escrow hold (vs 100% baseline)");
    assert_eq!(said.benchmark.status, BenchmarkStatus::Active);
    assert_eq!(said.dimensions.technical_execution.conduit_sessions_lifetime, 83);
    assert_eq!(said.dimensions.commercial_reliability.escrow_released_90d_cents, 38 * 1250);
    assert_eq!((said.evidence.log.first_n, said.evidence.log.last_n), (4, 123));
    assert_eq!((said.phase, said.score_gap), (Phase::Verified, 0));
    assert_eq!(said.signal, "Established agent — 95.0% success over 120 sessions");
    assert_eq!(said.diversity.counterparties, 8);

    let value = world.value();
    assert!(skep_base::json::to_string(&value).unwrap().contains(r#""modifier":0.3928"#));
    let answer = checked(&world, &value);
    assert_eq!(answer.failed_checks, []);
    assert!(answer.verified && answer.signature_valid && answer.matches);
    assert_eq!((answer.level, answer.recomputed_score), (Some(VerifyLevel::L2), Some(759)));
}

/// Every leaf of a document, as a JSON pointer.
fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                leaves(value, format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                leaves(value, format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at),
    }
}

/// Something else of the same kind.
fn changed(value: &Value) -> Value {
    match value {
        Value::Bool(yes) => json!(!yes),
        Value::Number(n) if n.is_u64() => json!(n.as_u64().unwrap() + 1),
        Value::Number(n) => json!(n.as_f64().unwrap() / 2.0),
        Value::Array(_) => json!(["single_counterparty_volume"]),
        Value::String(text) => match text.as_str() {
            "STANDARD" => json!("ELITE"),
            "VERIFIED" => json!("BASIC"),
            "ACTIVE" => json!("SUSPENDED"),
            text => match text.parse::<Timestamp>() {
                Ok(time) => json!(Timestamp::from_ms(time.as_ms() + DAY)),
                Err(_) => json!(format!("{text}x")),
            },
        },
        Value::Null | Value::Object(_) => json!("x"),
    }
}

#[test]
fn every_changed_field_is_found_out() {
    let world = World::standard(1);
    let signed = world.value();
    let mut fields = Vec::new();
    leaves(&signed, String::new(), &mut fields);
    assert!(fields.len() > 60, "{fields:?}");
    for field in &fields {
        let mut altered = signed.clone();
        let leaf = altered.pointer_mut(field).unwrap();
        *leaf = changed(leaf);
        let answer = checked(&world, &altered);
        assert!(!answer.verified && answer.level.is_none(), "{field}");
        let first = &answer.failed_checks[0];
        assert_eq!(first.level, VerifyLevel::L1, "{field}");
    }
}

#[test]
fn an_issuer_that_signs_a_changed_field_is_found_out_by_arithmetic_or_evidence() {
    let world = World::standard(1);
    let signed = world.value();
    let mut fields = Vec::new();
    leaves(&signed, String::new(), &mut fields);
    let keys = world.house.keys();
    let source = Source { keys: &keys, host: Some(world.house.platform) };
    let mut believed = Vec::new();
    for field in fields.iter().filter(|field| *field != "/issuer/signature") {
        let mut certificate = world.certificate();
        let leaf = certificate.publication.pointer_mut(field).unwrap();
        *leaf = changed(leaf);
        world.resign(&mut certificate.publication);
        let answer = verify::certificate(&certificate, Some(&source), &Checks, world.now);
        if answer.failed_checks.is_empty() {
            believed.push(field.as_str());
        } else {
            assert!(!answer.verified, "{field}");
        }
    }
    // Nobody can show these from 90 days of evidence: they are the issuer's word. The level that is
    // held was earned at the last evaluation, and the numbers may have moved since.
    let word = [
        "/benchmark/tier",
        "/dimensions/commercial_reliability/total_escrow_released_cents",
        "/diversity/domains_worked",
        "/diversity/task_types/0",
    ];
    assert_eq!(believed, word);
}

#[test]
fn a_derived_field_that_was_signed_again_fails_by_its_name() {
    let world = World::standard(1);
    for (pointer, path, value) in [
        ("/score/value", "score.value", json!(760)),
        ("/score/tier", "score.tier", json!("ELITE")),
        ("/escrow/modifier", "escrow.modifier", json!(0.3)),
        ("/escrow/effective_modifier", "escrow.effective_modifier", json!(0.25)),
        ("/qualification_gaps", "qualification_gaps", json!(["nothing"])),
        ("/signal", "signal", json!("The best agent")),
        ("/benchmark/streak_days", "benchmark.streak_days", json!(61)),
    ] {
        let mut altered = world.value();
        *altered.pointer_mut(pointer).unwrap() = value;
        world.resign(&mut altered);
        let answer = checked(&world, &altered);
        assert!(answer.signature_valid);
        assert_eq!(answer.level, Some(VerifyLevel::L1), "{path}");
        assert!(answer.failed_checks.iter().any(|failed| failed.check == path), "{answer:?}");
    }
}

#[test]
fn keys_hosts_and_times_are_checked() {
    let mut world = World::standard(1);
    let value = world.value();
    let name = |answer: VerifyAnswer| answer.failed_checks[0].check.clone();
    assert_eq!(name(verify::publication(&value, None, world.now)), "keys");
    let mut keys = world.house.keys();
    let elsewhere = Source { keys: &keys, host: Some("evil.example") };
    assert_eq!(name(verify::publication(&value, Some(&elsewhere), world.now)), "issuer_host");
    // Another platform's key under the same name.
    let other = house(2).keys();
    let source = Source { keys: &other, host: None };
    assert_eq!(name(verify::publication(&value, Some(&source), world.now)), "signature");
    keys.keys[0].valid_until = world.now;
    let source = Source { keys: &keys, host: None };
    assert_eq!(name(verify::publication(&value, Some(&source), world.now)), "key_validity");
    keys.keys.remove(0);
    let source = Source { keys: &keys, host: None };
    assert_eq!(name(verify::publication(&value, Some(&source), world.now)), "kid");
    world.now = Timestamp::from_ms(world.now.as_ms() + DAY - 1);
    assert!(checked(&world, &value).verified);
    world.now = Timestamp::from_ms(world.now.as_ms() + 1);
    assert_eq!(name(checked(&world, &value)), "expired");
    assert_eq!(name(verify::publication(&json!({"score": 1}), None, world.now)), "format");
}

#[test]
fn a_newcomer_s_publication_holds_too() {
    let mut world = World::new(1);
    let empty = world.publication(true);
    assert_eq!((empty.evidence.log.first_n, empty.evidence.log.last_n), (1, 0));
    assert_eq!(empty.signal, "New agent — no track record yet");
    assert_eq!(empty.score_gap, 700);
    assert!(checked(&world, &world.value()).verified);
    assert!(!world.track.is_published(world.now));
    for i in 0..10 {
        world.session(i > 0);
    }
    let said = world.publication(true);
    assert!(world.track.is_published(world.now));
    assert_eq!(said.signal, "Building track record — 10 sessions completed");
    assert_eq!(said.escrow.effective_modifier, said.escrow.modifier);
    assert!(checked(&world, &world.value()).verified);
}

#[test]
fn doubts_hold_the_whole_price_and_are_published() {
    let hold = |world: &World| {
        assert!(checked(world, &world.value()).verified);
        let said = world.publication(true);
        (said.escrow.modifier.e4(), said.escrow.effective_modifier.e4())
    };
    let mut world = World::standard(1);
    world.track.disputes = 1;
    assert_eq!(hold(&world), (3928, 10_000));
    let gaps = world.publication(true).qualification_gaps;
    assert_eq!(gaps, ["1 active dispute(s) must be resolved"]);
    world.track.disputes = 0;
    let revoke = skep_score::benchmark::Input::Revoke { reason: "fraud" };
    let (revoked, _) =
        skep_score::benchmark::step(&world.track.benchmark, world.now, 759, revoke).unwrap();
    world.track.benchmark = revoked;
    assert_eq!(hold(&world), (3928, 10_000));
    let world = World::standard(1);
    let mut said = world.with_record(true, |record| {
        let around = skep_score::track::Around { cooldown: true, ..*record.around };
        let record = skep_score::publish::Record { around: &around, ..*record };
        skep_score::publish::publication(&record, &world.house.platform())
    });
    assert!(said.gates.operator_under_review);
    assert_eq!(said.escrow.effective_modifier.e4(), 10_000);
    // The doubt cannot be left out without the hold.
    said.gates.operator_under_review = false;
    let said = serde_json::to_value(said.sign(&world.house.issuer).unwrap()).unwrap();
    assert_eq!(checked(&world, &said).failed_checks[0].check, "escrow.effective_modifier");
}
