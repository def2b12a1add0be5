//! 6.1: the score, in doubles and in the specification's order of operations, so that everybody
//! gets the same number to the last bit.

use serde::{Deserialize, Serialize};
use skep_wire::{score::BenchmarkTier, settle::Tier};

use crate::{
    fact::Totals,
    parameters::{Level, Parameters},
};

mod gaps;
mod javascript;
#[cfg(test)]
mod tests;

pub(crate) use self::javascript::to_fixed_1;
use self::javascript::{max, min};

const W_CONDUIT: f64 = 0.4;
const W_AP2: f64 = 0.6;
/// Sessions from which on more of them do not raise the score.
pub const CONDUIT_VOLUME_TARGET: f64 = 100.0;
pub const AP2_VOLUME_TARGET: f64 = 50.0;
const SCORE_MAX: f64 = 1000.0;

/// 5.3. Counts are doubles, as in the specification's own code: imported sessions count by halves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    #[serde(rename = "conduitSessions90d")]
    pub conduit_sessions: f64,
    #[serde(rename = "conduitSuccessful90d")]
    pub conduit_successful: f64,
    #[serde(rename = "ap2Sessions90d")]
    pub ap2_sessions: f64,
    #[serde(rename = "ap2Successful90d")]
    pub ap2_successful: f64,
    pub conduit_sessions_lifetime: f64,
    pub ap2_sessions_lifetime: f64,
    pub trust_tier: Tier,
    pub has_cryptographic_identity: bool,
    pub disputed_sessions_active: f64,
}

impl Input {
    /// Of what was counted: in the window, and since the beginning.
    pub fn of(window: &Totals, lifetime: &Totals, gates: Gates) -> Input {
        Input {
            conduit_sessions: window.conduit as f64,
            conduit_successful: window.conduit_ok as f64,
            ap2_sessions: window.ap2 as f64,
            ap2_successful: window.ap2_ok as f64,
            conduit_sessions_lifetime: lifetime.conduit as f64,
            ap2_sessions_lifetime: lifetime.ap2 as f64,
            trust_tier: gates.tier,
            has_cryptographic_identity: gates.has_key,
            disputed_sessions_active: f64::from(gates.disputes),
        }
    }
}

/// What a score depends on besides what was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    pub tier: Tier,
    pub has_key: bool,
    /// Open ones.
    pub disputes: u32,
}

/// What the numbers come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// 0 to 1000, whole.
    pub score: f64,
    pub tier: BenchmarkTier,
    pub conduit_rate: f64,
    pub ap2_rate: f64,
    pub conduit_volume: f64,
    pub ap2_volume: f64,
    pub conduit_contribution: f64,
    pub ap2_contribution: f64,
    pub combined_rate: f64,
    /// As the specification's double; money goes by [`crate::money::modifier_e4`].
    pub escrow_modifier: f64,
}

impl Score {
    /// The score as the whole number that it is.
    pub fn value(&self) -> u16 {
        // Clamped to 0..=1000 and floored before.
        self.score as u16
    }
}

/// The specification's output, in its names and its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub score: f64,
    pub tier: BenchmarkTier,
    pub conduit_rate: f64,
    pub ap2_rate: f64,
    pub conduit_contribution: f64,
    pub ap2_contribution: f64,
    pub qualification_gaps: Vec<String>,
    pub escrow_modifier: f64,
}

impl Output {
    /// As the specification's own code is written by `JSON.stringify`, byte for byte.
    pub fn to_json(&self) -> String {
        let number = javascript::json_number;
        let gaps: Vec<String> = self.qualification_gaps.iter().map(|gap| quoted(gap)).collect();
        format!(
            "{{\"score\":{},\"tier\":\"{}\",\"conduitRate90d\":{},\"ap2Rate90d\":{},\
             \"conduitContribution\":{},\"ap2Contribution\":{},\"qualificationGaps\":[{}],\
             \"escrowModifier\":{}}}",
            number(self.score),
            self.tier.as_str(),
            number(self.conduit_rate),
            number(self.ap2_rate),
            number(self.conduit_contribution),
            number(self.ap2_contribution),
            gaps.join(","),
            number(self.escrow_modifier),
        )
    }
}

/// The sentences of gaps hold nothing that JSON escapes.
fn quoted(gap: &str) -> String {
    format!("\"{gap}\"")
}

/// `computeSwarmScore`, whole.
pub fn output(input: &Input, parameters: &Parameters) -> Output {
    let score = compute(input, parameters);
    Output {
        score: score.score,
        tier: score.tier,
        conduit_rate: score.conduit_rate,
        ap2_rate: score.ap2_rate,
        conduit_contribution: score.conduit_contribution,
        ap2_contribution: score.ap2_contribution,
        qualification_gaps: gaps(input, &score, parameters),
        escrow_modifier: score.escrow_modifier,
    }
}

/// The numbers alone. Nothing is allocated: a `const fn` cannot.
pub const fn compute(input: &Input, parameters: &Parameters) -> Score {
    let conduit_rate = rate(input.conduit_successful, input.conduit_sessions);
    let ap2_rate = rate(input.ap2_successful, input.ap2_sessions);
    let conduit_volume = min(1.0, input.conduit_sessions / CONDUIT_VOLUME_TARGET);
    let ap2_volume = min(1.0, input.ap2_sessions / AP2_VOLUME_TARGET);
    let conduit_contribution = (conduit_rate * conduit_volume * W_CONDUIT * 1000.0).floor();
    let ap2_contribution = (ap2_rate * ap2_volume * W_AP2 * 1000.0).floor();
    let score = max(0.0, min(SCORE_MAX, conduit_contribution + ap2_contribution));
    let sessions = input.conduit_sessions + input.ap2_sessions;
    let combined_rate = rate(input.conduit_successful + input.ap2_successful, sessions);
    let open = matches!(input.trust_tier, Tier::Verified | Tier::Trusted)
        && input.has_cryptographic_identity
        && input.disputed_sessions_active <= 0.0;
    let reached = Reached { score, input, combined_rate };
    let tier = match open && reached.meets(&parameters.standard) {
        false => BenchmarkTier::None,
        true if reached.meets(&parameters.elite) => BenchmarkTier::Elite,
        true => BenchmarkTier::Standard,
    };
    let escrow_modifier = max(0.25, min(1.0, 1.0 - score / 1250.0));
    Score {
        score,
        tier,
        conduit_rate,
        ap2_rate,
        conduit_volume,
        ap2_volume,
        conduit_contribution,
        ap2_contribution,
        combined_rate,
        escrow_modifier,
    }
}

/// What a level is held against.
struct Reached<'a> {
    score: f64,
    input: &'a Input,
    combined_rate: f64,
}

impl Reached<'_> {
    const fn meets(&self, level: &Level) -> bool {
        self.score >= level.score as f64
            && self.input.conduit_sessions >= level.conduit_sessions as f64
            && self.input.ap2_sessions >= level.ap2_sessions as f64
            && self.combined_rate >= level.success_rate
    }
}

const fn rate(successful: f64, sessions: f64) -> f64 {
    if sessions > 0.0 { successful / sessions } else { 0.0 }
}

/// What is missing for a benchmark, in the specification's words and order; none if it is held.
pub fn gaps(input: &Input, score: &Score, parameters: &Parameters) -> Vec<String> {
    match score.tier {
        BenchmarkTier::None => gaps::gaps(input, score, &parameters.standard),
        BenchmarkTier::Standard | BenchmarkTier::Elite => Vec::new(),
    }
}
