use skep_wire::{score::BenchmarkTier, settle::Tier};

use super::*;

fn input(counts: [u32; 4], tier: Tier, has_key: bool, disputes: u32) -> Input {
    let [conduit, conduit_ok, ap2, ap2_ok] = counts.map(f64::from);
    Input {
        conduit_sessions: conduit,
        conduit_successful: conduit_ok,
        ap2_sessions: ap2,
        ap2_successful: ap2_ok,
        conduit_sessions_lifetime: 500.0,
        ap2_sessions_lifetime: 300.0,
        trust_tier: tier,
        has_cryptographic_identity: has_key,
        disputed_sessions_active: f64::from(disputes),
    }
}

/// The numeric path runs while this is compiled, where nothing can be allocated.
#[test]
fn nothing_is_allocated_for_a_score() {
    const INPUT: Input = Input {
        conduit_sessions: 200.0,
        conduit_successful: 200.0,
        ap2_sessions: 100.0,
        ap2_successful: 100.0,
        conduit_sessions_lifetime: 500.0,
        ap2_sessions_lifetime: 300.0,
        trust_tier: Tier::Trusted,
        has_cryptographic_identity: true,
        disputed_sessions_active: 0.0,
    };
    const SCORE: Score = compute(&INPUT, &Parameters::SPEC);
    assert_eq!(SCORE, compute(&INPUT, &Parameters::SPEC));
    assert_eq!((SCORE.value(), SCORE.tier), (1000, BenchmarkTier::Elite));
}

/// 6.3: contributions, score, label, and what is held.
#[test]
fn the_specification_s_vectors_hold() {
    use BenchmarkTier::*;
    let rows = [
        (input([73, 70, 31, 30], Tier::Verified, true, 0), (279, 360, 639), None, "0.4888"),
        (input([30, 24, 10, 8], Tier::Basic, false, 1), (96, 96, 192), None, "0.8464"),
        (input([80, 76, 40, 38], Tier::Verified, true, 0), (304, 455, 759), Standard, "0.3928"),
        (input([200, 200, 100, 100], Tier::Trusted, true, 0), (400, 600, 1000), Elite, "0.2500"),
    ];
    for (input, (conduit, ap2, value), tier, modifier) in rows {
        let score = compute(&input, &Parameters::SPEC);
        assert_eq!(score.conduit_contribution, f64::from(conduit));
        assert_eq!(score.ap2_contribution, f64::from(ap2));
        assert_eq!((score.value(), score.tier), (value, tier));
        assert_eq!(format!("{:.4}", score.escrow_modifier), modifier);
    }
}

/// Erratum: the specification prints 589 and 981 for its fourth vector, and its own code computes
/// 590 and 982, since it does not cut the rate to four decimals first (decision 36).
#[test]
fn the_fourth_vector_is_what_the_code_computes() {
    let score = compute(&input([200, 196, 60, 59], Tier::Trusted, true, 0), &Parameters::SPEC);
    assert_eq!((score.conduit_contribution, score.ap2_contribution), (392.0, 590.0));
    assert_eq!((score.value(), score.tier), (982, BenchmarkTier::Elite));
    assert_eq!(score.escrow_modifier, 0.25);
}

#[test]
fn gaps_are_listed_in_order() {
    let output = output(&input([30, 24, 10, 8], Tier::Basic, false, 1), &Parameters::SPEC);
    let gaps = [
        "ATEP tier must be VERIFIED or above (current: BASIC)",
        "Ed25519 cryptographic identity key must be provisioned",
        "Need 20 more Conduit sessions in 90-day window",
        "Need 15 more AP2 sessions in 90-day window",
        "Combined 90-day success rate must be >= 95% (current: 80.0%)",
        "1 active dispute(s) must be resolved",
    ];
    assert_eq!(output.qualification_gaps, gaps);
    // The first vector lacks nothing but points, and the list does not say so.
    let output =
        super::output(&input([73, 70, 31, 30], Tier::Verified, true, 0), &Parameters::SPEC);
    assert_eq!((output.tier, output.qualification_gaps.len()), (BenchmarkTier::None, 0));
}

#[test]
fn halves_are_printed_as_javascript_does() {
    for (value, text) in [
        (93.25, "93.3"),
        (93.75, "93.8"),
        (93.35, "93.3"),
        (-0.25, "-0.3"),
        (0.0, "0.0"),
        (1e21, "1e+21"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(to_fixed_1(value), text);
    }
}

/// Tighter minimums (9.4) name themselves in the gaps.
#[test]
fn parameters_move_the_minimums() {
    let mut tighter = Parameters::SPEC;
    tighter.version = 2;
    tighter.standard.conduit_sessions = 90;
    let agent = input([80, 76, 40, 38], Tier::Verified, true, 0);
    let output = output(&agent, &tighter);
    assert_eq!(output.tier, BenchmarkTier::None);
    assert_eq!(output.qualification_gaps, ["Need 10 more Conduit sessions in 90-day window"]);
}
