//! 6: the formula, by the specification's own examples.

use anyhow::{Result, ensure};
use skep_score::{
    Input,
    compute::{compute, output},
    money::modifier_e4,
    parameters::Parameters,
};
use skep_wire::{score::BenchmarkTier, settle::Tier};

use super::World;

fn input(counts: [u32; 4], trust_tier: Tier, has_key: bool, disputes: u32) -> Input {
    let [conduit, conduit_ok, ap2, ap2_ok] = counts.map(f64::from);
    Input {
        conduit_sessions: conduit,
        conduit_successful: conduit_ok,
        ap2_sessions: ap2,
        ap2_successful: ap2_ok,
        conduit_sessions_lifetime: conduit,
        ap2_sessions_lifetime: ap2,
        trust_tier,
        has_cryptographic_identity: has_key,
        disputed_sessions_active: f64::from(disputes),
    }
}

pub(super) async fn the_vectors_give_their_numbers(_: &World) -> Result<String> {
    use BenchmarkTier::{Elite, None, Standard};
    let vectors = [
        (input([73, 70, 31, 30], Tier::Verified, true, 0), (279, 360, 639), None, 4888),
        (input([30, 24, 10, 8], Tier::Basic, false, 1), (96, 96, 192), None, 8464),
        (input([80, 76, 40, 38], Tier::Verified, true, 0), (304, 455, 759), Standard, 3928),
        // The erratum: the specification prints 589 and 981.
        (input([200, 196, 60, 59], Tier::Trusted, true, 0), (392, 590, 982), Elite, 2500),
        (input([200, 200, 100, 100], Tier::Trusted, true, 0), (400, 600, 1000), Elite, 2500),
    ];
    let mut scores = Vec::new();
    for (input, (conduit, ap2, value), tier, held_e4) in vectors {
        let score = compute(&input, &Parameters::SPEC);
        let found = (score.conduit_contribution, score.ap2_contribution);
        ensure!(found == (f64::from(conduit), f64::from(ap2)), "{value}: {score:?}");
        ensure!((score.value(), score.tier) == (value, tier), "{value}: {score:?}");
        ensure!(modifier_e4(value) == held_e4, "{value} holds {}", modifier_e4(value));
        scores.push(value.to_string());
    }
    Ok(format!("{}; the fourth is the code's, not the text's", scores.join(", ")))
}

pub(super) async fn what_is_missing_is_listed_in_order(_: &World) -> Result<String> {
    let second = input([30, 24, 10, 8], Tier::Basic, false, 1);
    let gaps = output(&second, &Parameters::SPEC).qualification_gaps;
    let sentences = [
        "ATEP tier must be VERIFIED or above (current: BASIC)",
        "Ed25519 cryptographic identity key must be provisioned",
        "Need 20 more Conduit sessions in 90-day window",
        "Need 15 more AP2 sessions in 90-day window",
        "Combined 90-day success rate must be >= 95% (current: 80.0%)",
        "1 active dispute(s) must be resolved",
    ];
    ensure!(gaps == sentences, "{gaps:?}");
    Ok(format!("{} gaps of vector 2, the last: {}", gaps.len(), gaps[gaps.len() - 1]))
}
