mod cases;
mod hostile;
pub(crate) mod made;
mod strict;

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::*;

/// The checks that failed.
fn failed(verification: &Verification) -> Vec<&str> {
    let failed = verification.checks.iter().filter(|check| !check.passed);
    failed.map(|check| check.name.as_str()).collect()
}

#[track_caller]
fn passes(id: &str, version: &str, params: &Value, result: &Value) {
    let seen = verify(id, Some(version), params, result);
    assert!(seen.all_passed && seen.verifiable, "{id} {version}: {seen:?}");
    assert_eq!(seen.version.as_deref(), Some(version));
}

#[track_caller]
fn fails(id: &str, version: &str, params: &Value, result: &Value, check: &str) {
    let seen = verify(id, Some(version), params, result);
    let named = check.split('|').any(|check| failed(&seen).contains(&check));
    assert!(seen.failed() && named, "{id} {version} should fail {check}: {seen:?}");
}

#[test]
fn every_entry_knows_good_from_bad_in_every_version() {
    let mut seen = BTreeSet::new();
    for case in cases::all() {
        let capability = find(case.id).unwrap();
        seen.insert(capability.template);
        for version in ["v0", "v1"] {
            check_params(case.id, Some(version), &case.params).unwrap();
            passes(case.id, version, &case.params, &case.good);
            fails(case.id, version, &case.params, &case.bad, case.finds);
        }
        let names = verify(case.id, Some("v1"), &case.params, &case.good).checks;
        let fine = |name: &str| {
            name.len() <= 32
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        assert!(names.iter().all(|check| fine(&check.name)), "{names:?}");
        let once: BTreeSet<&str> = names.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(once.len(), names.len(), "a receipt has each name once: {names:?}");
    }
    let all: BTreeSet<&str> = taxonomy().iter().map(|entry| entry.template).collect();
    assert_eq!(all.len(), 40);
    assert_eq!(seen, all);
}

#[test]
fn every_schema_compiles_and_its_examples_fit() {
    for case in cases::all() {
        let capability = find(case.id).unwrap();
        for version in ["v0", "v1"] {
            let input = capability.input_schema(version).unwrap();
            let output = capability.output_schema(version).unwrap();
            for (schema, value) in [(input, &case.params), (output, &case.good)] {
                jsonschema::meta::validate(&schema).unwrap();
                let validator = jsonschema::draft202012::new(&schema).unwrap();
                validator.validate(value).unwrap();
                assert!(!validator.is_valid(&json!({})), "{schema}");
            }
        }
        assert_eq!(capability.input_schema("v2"), None);
    }
    for entry in taxonomy() {
        assert_eq!(find(entry.example).unwrap().template, entry.template);
        assert!(entry.input_schema("v1").is_some() && entry.output_schema("v0").is_some());
    }
}

#[test]
fn names_are_the_taxonomys_or_ones_own() {
    let template = |id: &str| find(id).map(|capability| capability.template);
    assert_eq!(template("classify.text.sentiment"), Some("classify.text.sentiment"));
    assert_eq!(template("classify.text.spam"), Some("classify.text.{taxonomy}"));
    let timed = Some("audio.transcribe.json-with-timestamps");
    assert_eq!(template("audio.transcribe.it.json-with-timestamps"), timed);
    assert_eq!(template("text.expand.1.5x"), Some("text.expand.{factor}"));
    assert_eq!(template("embed.text.bge-1.5"), Some("embed.text.{model}"));
    for unknown in [
        "text.translate.en.xx.business",
        "text.translate.en.it.poetic",
        "text.expand.99x",
        "text.expand.",
        "code.generate.cobol.script",
        "compute.statistics.mode",
        "data.lookup.weather.xml",
        "image.upscale.2x.png",
        "image.upscale",
        "text.translate.{src}.{tgt}.{level}",
        "custom.acme.ocr",
        "",
    ] {
        assert!(find(unknown).is_none(), "{unknown}");
    }
    let code = |id: &str| is_valid_id(id).map_err(|bad| bad.code());
    assert_eq!(code("image.upscale.2x"), Ok(()));
    assert_eq!(code("custom.acmecorp.ocr.handwriting"), Ok(()));
    assert_eq!(code("custom.acme"), Err("bad_custom_capability"));
    assert_eq!(code("image.dance"), Err("unknown_capability"));
    assert_eq!(code("ab"), Err("bad_capability_length"));
    assert_eq!(code(&"a".repeat(129)), Err("bad_capability_length"));
    assert_eq!(code("9lives.of.cat"), Err("bad_capability_start"));
    assert_eq!(code("custom.Acme.ocr"), Err("bad_capability_character"));
    assert_eq!(code("custom..ocr"), Err("bad_capability_word"));
}

#[test]
fn what_nobody_can_check_is_never_passed() {
    let (params, result) = (json!({"data": [1, 2]}), json!({"result": 1.5}));
    let mean = "compute.statistics.mean";
    for (id, version) in [("custom.acme.mean", None), ("text.unheard.of", None), (mean, Some("v2"))]
    {
        let seen = verify(id, version, &params, &result);
        assert!(!seen.verifiable && !seen.all_passed && !seen.failed(), "{seen:?}");
    }
    // A buyer who asked for nonsense cannot blame the seller.
    let seen = verify(mean, None, &json!({"data": []}), &result);
    assert!(!seen.verifiable, "{seen:?}");
    assert!(check_params(mean, None, &json!({"data": "many"})).is_err());
    assert!(check_params(mean, Some("v2"), &params).is_err());
    assert_eq!(check_params("custom.acme.mean", None, &json!(3)), Ok(()));
    // Without a version the first one counts.
    assert_eq!(verify(mean, None, &params, &result).version.as_deref(), Some("v0"));
}

#[test]
fn the_first_version_ends_ninety_days_after_the_second_came() {
    let capability = find("image.upscale.2x").unwrap();
    assert_eq!(capability.current_version(), "v1");
    let [(name, ends)] = capability.deprecated_versions().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((name, ends.to_string().as_str()), ("v0", "2027-02-13T00:00:00.000Z"));
    let since = capability.versions[1].since;
    assert_eq!(ends.since(since), Duration::from_secs(90 * 86_400));
}

#[test]
fn only_what_takes_strangers_files_apart_needs_a_sandbox() {
    for (id, needs) in [
        ("image.upscale.4x", true),
        ("audio.generate-speech.alloy.mp3", true),
        ("code.generate.rust.script", true),
        ("chart.generate.from-data", true),
        ("code.execute.sandboxed", false),
        ("compute.math.symbolic", false),
        ("text.rewrite.formal", false),
        ("custom.acme.ocr", false),
    ] {
        assert_eq!(needs_sandbox(id), needs, "{id}");
    }
}
