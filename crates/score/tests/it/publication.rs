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
pub fn leaves(value: &Value, at: String, found: &mut Vec<String>) {
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
pub fn changed(value: &Value) -> Value {
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

/// What a changed field fails first when nobody signs it again.
fn unsigned(world: &World, field: &str) -> &'static str {
    let with_imports = world.imported.is_some();
    match field {
        "/issuer/signature" => "format",
        "/issuer/kid" => "kid",
        "/issuer/platform" => "platform_url",
        "/issuer/platform_url" if !with_imports => "platform_url",
        "/issuer/computed_at" => "computed_at",
        // No words of the format: an agent without a benchmark says NONE and null there.
        "/benchmark/status" | "/benchmark/tier" | "/score/tier" if with_imports => "format",
        "/benchmark/continuous_since" | "/benchmark/first_earned_at" if with_imports => "format",
        "/gates/atep_tier" | "/with_imports/tier" if with_imports => "format",
        _ => "signature",
    }
}

#[test]
fn every_changed_field_is_found_out() {
    for (world, least) in [(World::standard(1), 60), (World::travelled(), 75)] {
        let signed = world.value();
        let mut fields = Vec::new();
        leaves(&signed, String::new(), &mut fields);
        assert!(fields.len() > least, "{fields:?}");
        for field in &fields {
            let mut altered = signed.clone();
            let leaf = altered.pointer_mut(field).unwrap();
            *leaf = changed(leaf);
            let answer = checked(&world, &altered);
            assert!(!answer.verified && answer.level.is_none(), "{field}");
            let first = &answer.failed_checks[0];
            let (level, check) = (first.level, &*first.check);
            assert_eq!((level, check), (VerifyLevel::L1, unsigned(&world, field)), "{field}");
        }
    }
}

/// Fields that can be changed and signed again without anything failing, of which the last level
/// is L3.
fn believed(world: &World) -> Vec<String> {
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
        let answer = verify::certificate(&certificate, Some(&source), None, &Checks, world.now);
        if answer.failed_checks.is_empty() {
            believed.push(field.clone());
        } else {
            assert!(!answer.verified, "{field}");
        }
    }
    believed
}

#[test]
fn an_issuer_that_signs_a_changed_field_is_found_out_by_arithmetic_or_evidence() {
    // Nobody can show these from 90 days of evidence: they are the issuer's word. The level that is
    // held was earned at the last evaluation, and the numbers may have moved since.
    let word = [
        "/benchmark/tier",
        "/dimensions/commercial_reliability/total_escrow_released_cents",
        "/diversity/domains_worked",
        "/diversity/task_types/0",
    ];
    assert_eq!(believed(&World::standard(1)), word);
    // How long the probation is was agreed on with the platform that something was imported from.
    // This platform's address ends with a slash, and a path below it is still its own.
    let word = [
        "/dimensions/commercial_reliability/total_escrow_released_cents",
        "/diversity/domains_worked",
        "/diversity/task_types/0",
        "/issuer/platform_url",
        "/with_imports/probation/sessions_needed",
    ];
    assert_eq!(believed(&World::travelled()), word);
}

/// 7.1 as it is printed, with times and hashes that can be read.
fn example() -> Value {
    json!({
        "swarmscore_version": "1.0",
        "agent_passport_id": "6f1c2f0a-3f0e-4c43-9a55-0b6f0f3d1c11",
        "issuer": {
            "platform": "swarmsync.ai",
            "platform_url": "https://swarmsync.ai",
            "computed_at": "2026-03-17T08:00:00.000Z",
            "signature": "5f2b8c0c3bb1a3f6e1a0f3c2b4d5968778695a4b3c2d1e0f",
        },
        "score": {
            "value": 759,
            "tier": "STANDARD",
            "conduit_contribution": 304,
            "ap2_contribution": 455,
        },
        "dimensions": {
            "technical_execution": {
                "conduit_sessions_90d": 80,
                "conduit_successful_90d": 76,
                "conduit_rate_90d": 0.95,
                "conduit_volume_factor": 0.8,
                "conduit_sessions_lifetime": 250,
                "verified_proof_count": 74,
            },
            "commercial_reliability": {
                "ap2_sessions_90d": 40,
                "ap2_successful_90d": 38,
                "ap2_rate_90d": 0.95,
                "ap2_volume_factor": 0.8,
                "ap2_sessions_lifetime": 120,
                "total_escrow_released_cents": 4500000,
            },
        },
        "gates": {
            "atep_tier": "VERIFIED",
            "has_cryptographic_identity": true,
            "disputed_sessions_active": 0,
            "meets_conduit_minimum": true,
            "meets_ap2_minimum": true,
            "meets_success_rate": true,
        },
        "escrow": {
            "modifier": 0.39280000000000004,
            "description": "39% escrow hold (vs 100% baseline)",
        },
        "benchmark": {
            "status": "ACTIVE",
            "tier": "STANDARD",
            "first_earned_at": "2026-01-15T10:30:00.000Z",
            "last_evaluated_at": "2026-03-17T08:00:00.000Z",
            "continuous_since": "2026-01-15T10:30:00.000Z",
            "streak_days": 61,
        },
        "qualification_gaps": [],
        "evidence": {
            "recent_proof_hashes": ["sha256:a1b2c3d4e5f6", "sha256:f6e5d4c3b2a1"],
            "proof_chain_root": "sha256:0000abcdef",
        },
        "valid_until": "2026-03-18T08:00:00.000Z",
    })
}

#[test]
fn the_specification_s_own_format_is_recomputed() {
    let now = "2026-03-17T12:00:00Z".parse().unwrap();
    let keys = house(1).keys();
    let source = Source { keys: &keys, host: None };
    let check = |said: &Value| verify::publication(said, Some(&source), now);
    let answer = check(&example());
    assert_eq!((answer.recomputed_score, answer.matches), (Some(759), true));
    // Nobody can check a signature by a key that must stay secret.
    assert_eq!((answer.level, answer.verified, answer.signature_valid), (None, false, false));
    let failed: Vec<_> = answer.failed_checks.iter().map(|f| (f.level, &*f.check)).collect();
    assert_eq!(failed, [(VerifyLevel::L1, "kid")]);
    let mut other = example();
    for (field, name) in [("technical_execution", "conduit"), ("commercial_reliability", "ap2")] {
        // 7.2 calls these otherwise; evidence is recommended only.
        let fields = other["dimensions"][field].as_object_mut().unwrap();
        let factor = fields.remove(&format!("{name}_volume_factor")).unwrap();
        fields.insert("volume_factor".to_owned(), factor);
    }
    other.as_object_mut().unwrap().remove("evidence");
    other["escrow"]["modifier"] = json!(0.3928);
    other["valid_until"] = json!("2026-03-24T08:00:00Z");
    assert_eq!(check(&other).failed_checks, answer.failed_checks);
    assert!(check(&other).matches);
}

#[test]
fn what_the_specification_derives_is_compared_and_nothing_else() {
    let now = "2026-03-17T12:00:00Z".parse().unwrap();
    let l2 = |said: &Value| -> Vec<String> {
        let failed = verify::publication(said, None, now).failed_checks;
        let failed = failed.into_iter().filter(|failed| failed.level == VerifyLevel::L2);
        failed.map(|failed| failed.check).collect()
    };
    for (pointer, value) in [
        ("/score/value", json!(760)),
        ("/score/conduit_contribution", json!(305)),
        ("/dimensions/technical_execution/conduit_rate_90d", json!(0.96)),
        ("/dimensions/commercial_reliability/ap2_volume_factor", json!(0.9)),
        ("/gates/meets_ap2_minimum", json!(false)),
        ("/escrow/modifier", json!(0.3929)),
        ("/qualification_gaps", json!(["more"])),
        ("/swarmscore_version", json!("2.0")),
    ] {
        let mut said = example();
        *said.pointer_mut(pointer).unwrap() = value;
        assert_eq!(l2(&said), [pointer[1..].replace('/', ".")]);
    }
    // An addition that is stated counts.
    let mut said = example();
    said["escrow"]["effective_modifier"] = json!(0.25);
    assert_eq!(l2(&said), ["escrow.effective_modifier"]);
    let mut said = example();
    said["parameters"] = json!({ "standard": { "score": 100 } });
    assert!(l2(&said).contains(&"parameters".to_owned()));
    // Whoever names its formula or its key states all the rest.
    for (object, name) in [("", "formula_version"), ("/issuer", "kid")] {
        let mut said = example();
        said.pointer_mut(object).unwrap()[name] = json!("swarmscore/1.0");
        assert_eq!(verify::publication(&said, None, now).failed_checks[0].check, "format");
    }
}

#[test]
fn an_addition_that_is_left_out_is_missed() {
    // Nobody else knows these, and no time is as good as null.
    let word = ["/benchmark/last_evaluated_at", "/diversity/task_types/0"];
    for world in [World::standard(1), World::travelled()] {
        let signed = world.value();
        let mut fields = Vec::new();
        leaves(&signed, String::new(), &mut fields);
        fields.retain(|field| !signed.pointer(field).unwrap().is_null());
        for field in fields {
            let mut certificate = world.certificate();
            let (parent, name) = field.rsplit_once('/').unwrap();
            let parent = certificate.publication.pointer_mut(parent).unwrap();
            match parent {
                Value::Object(fields) => drop(fields.remove(name)),
                Value::Array(items) => drop(items.remove(name.parse().unwrap())),
                _ => unreachable!("{field}"),
            }
            if field != "/issuer/signature" {
                world.resign(&mut certificate.publication);
            }
            let keys = world.house.keys();
            let source = Source { keys: &keys, host: None };
            let answer = verify::certificate(&certificate, Some(&source), None, &Checks, world.now);
            if answer.failed_checks.is_empty() {
                assert!(word.contains(&&*field), "{field}");
            }
        }
    }
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
