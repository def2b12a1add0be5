use std::{
    env, fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::*;

#[test]
fn fractions_have_four_exact_decimals() {
    for e4 in 0..=10_000 {
        let fraction = Fraction::from_e4(e4);
        let text = serde_json::to_string(&fraction).unwrap();
        assert!(text.len() <= "0.0000".len(), "{text}");
        assert_eq!(serde_json::from_str::<Fraction>(&text).unwrap(), fraction);
    }
    assert_eq!(serde_json::from_value::<Fraction>(json!(1)).unwrap(), Fraction::ONE);
    // As the specification's code computes them.
    for (double, e4) in [(0.39280000000000004, 3928), (0.43999999999999995, 4400)] {
        let read: Fraction = serde_json::from_value(json!(double)).unwrap();
        assert_eq!((read.e4(), read.to_f64()), (e4, f64::from(e4) / 1e4));
    }
    for bad in
        [json!(0.39281), json!(0.392800002), json!(1.0001), json!(-0.1), json!(1e300), json!("1")]
    {
        serde_json::from_value::<Fraction>(bad).unwrap_err();
    }
}

#[test]
fn badges_are_called_as_they_are_registered() {
    let names = [
        (BadgeKind::SessionMilestone10, "session_milestone_10"),
        (BadgeKind::HighSuccess99, "high_success_99"),
        (BadgeKind::ConduitVerified, "conduit_verified"),
        (BadgeKind::BenchmarkElite, "swarmscore:benchmark_elite"),
    ];
    for (kind, name) in names {
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(name));
    }
}

/// What 14.1 and 14.4 register: `profile` and `badges`.
fn registered() -> Value {
    serde_json::from_str(include_str!("registered.json")).unwrap()
}

/// Every registered value is there as it was registered; objects may say more.
fn says(path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, value) in theirs {
                let path = format!("{path}.{name}");
                says(&path, ours.get(name).unwrap_or(&Value::Null), value);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len(), "{path}");
            for (n, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                says(&format!("{path}.{n}"), ours, theirs);
            }
        }
        (Value::Number(ours), Value::Number(theirs)) => {
            assert_eq!(ours.as_f64(), theirs.as_f64(), "{path}");
        }
        _ => assert_eq!(ours, theirs, "{path}"),
    }
}

#[test]
fn the_profile_is_the_registered_one() {
    let profile = serde_json::to_value(Profile::swarmscore()).unwrap();
    let registered = registered();
    says("profile", &profile, &registered["profile"]);
    says("badges", &profile["badges"], &registered["badges"]);
    // No field of the extension is ours alone.
    let fields = |profile: &Value| profile["extension_fields"].as_object().unwrap().len();
    assert_eq!(fields(&profile), fields(&registered["profile"]));
}

/// Where the specification is at hand, the copy is compared with it.
#[test]
fn what_is_registered_is_what_the_specification_says() {
    let folder = env::var_os("SKEP_SPECS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/specs"),
        PathBuf::from,
    );
    let Ok(text) = fs::read_to_string(folder.join("swarmscore-v1.txt")) else { return };
    let after = |title: &str, opens: char| {
        let section = &text[text.find(title).unwrap()..];
        let json = &section[section.find(opens).unwrap()..];
        serde_json::Deserializer::from_str(json).into_iter::<Value>().next().unwrap().unwrap()
    };
    let mut profile = after("14.1 Profile Definition", '{');
    let mut badges = after("14.4 Badge Registration", '[');
    // Descriptions are for people, and in our own words.
    for described in badges.as_array_mut().unwrap().iter_mut().chain([&mut profile]) {
        described.as_object_mut().unwrap().remove("description").unwrap();
    }
    assert_eq!(registered(), json!({ "profile": profile, "badges": badges }));
}

#[test]
fn an_absent_extension_reads_as_none() {
    let extensions: Extensions = serde_json::from_value(json!({})).unwrap();
    assert_eq!(extensions.tier(), BenchmarkTier::None);
    let written = serde_json::to_value(&extensions).unwrap();
    assert!(written.get("swarmscore").is_none());
    assert!(written["swarmscore_safety"]["hallucination_rate"].is_null());
}
