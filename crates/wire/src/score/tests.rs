use serde_json::json;

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
    for bad in [json!(0.39280000000000004), json!(1.0001), json!(-0.1), json!(1e300), json!("1")] {
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

#[test]
fn the_profile_is_the_registered_one() {
    let profile = serde_json::to_value(Profile::swarmscore()).unwrap();
    assert_eq!(profile["profile_name"], "swarmscore-v1");
    assert_eq!(profile["extension_fields"].as_object().unwrap().len(), 10);
    let score = json!({ "type": "integer", "min": 0.0, "max": 1000.0, "required": true });
    assert_eq!(profile["extension_fields"]["swarmScore"], score);
    assert_eq!(profile["certification_tiers"][1]["badge_type"], "swarmscore:benchmark_elite");
}

#[test]
fn an_absent_extension_reads_as_none() {
    let extensions: Extensions = serde_json::from_value(json!({})).unwrap();
    assert_eq!(extensions.tier(), BenchmarkTier::None);
    let written = serde_json::to_value(&extensions).unwrap();
    assert!(written.get("swarmscore").is_none());
    assert!(written["swarmscore_safety"]["hallucination_rate"].is_null());
}
