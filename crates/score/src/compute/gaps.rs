//! What is missing, in words that other implementations use too: a changed letter breaks them.

use skep_wire::settle::Tier;

use super::{
    Input, Score,
    javascript::{number, to_fixed_1},
};
use crate::parameters::Level;

pub(super) fn gaps(input: &Input, score: &Score, least: &Level) -> Vec<String> {
    let mut gaps = Vec::new();
    if input.trust_tier < Tier::Verified {
        let current = match input.trust_tier {
            Tier::Unverified => "UNVERIFIED",
            Tier::Basic => "BASIC",
            Tier::Verified => "VERIFIED",
            Tier::Trusted => "TRUSTED",
        };
        gaps.push(format!("ATEP tier must be VERIFIED or above (current: {current})"));
    }
    if !input.has_cryptographic_identity {
        gaps.push("Ed25519 cryptographic identity key must be provisioned".to_owned());
    }
    let mut more = |least: u32, has: f64, what: &str| {
        let least = f64::from(least);
        if has < least {
            let missing = number(least - has);
            gaps.push(format!("Need {missing} more {what} sessions in 90-day window"));
        }
    };
    more(least.conduit_sessions, input.conduit_sessions, "Conduit");
    more(least.ap2_sessions, input.ap2_sessions, "AP2");
    if score.combined_rate < least.success_rate {
        let (least, current) =
            (number(least.success_rate * 100.0), to_fixed_1(score.combined_rate * 100.0));
        gaps.push(format!(
            "Combined 90-day success rate must be >= {least}% (current: {current}%)"
        ));
    }
    if input.disputed_sessions_active > 0.0 {
        let open = number(input.disputed_sessions_active);
        gaps.push(format!("{open} active dispute(s) must be resolved"));
    }
    gaps
}
