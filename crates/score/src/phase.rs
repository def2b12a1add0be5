//! 11.2: how far an agent has come, and what buyers are told of it.

use std::time::Duration;

use skep_wire::{score::Phase, settle::Tier};

use crate::compute::to_fixed_1;

/// 11.3: how long an agent is new, and stands a little higher in searches.
pub const NEWCOMER: Duration = Duration::from_secs(30 * 24 * 3600);

/// The phase that goes with a tier.
pub fn phase(tier: Tier) -> Phase {
    match tier {
        Tier::Unverified => Phase::Unverified,
        Tier::Basic => Phase::Basic,
        Tier::Verified | Tier::Trusted => Phase::Verified,
    }
}

/// What searches say of a phase: the beginnings of the specification's signals. Numbers would move
/// with every session, and listings are not written anew for that.
pub fn sentence(phase: Phase) -> &'static str {
    match phase {
        Phase::Unverified => "New agent — no track record yet",
        Phase::Basic => "Building track record",
        Phase::Verified => "Established agent",
    }
}

/// What a signal is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    pub phase: Phase,
    pub sessions_lifetime: u64,
    pub sessions_90d: u64,
    /// Of the window, both kinds together.
    pub success_rate: f64,
    /// What was imported is in the numbers.
    pub with_imports: bool,
}

impl Signal {
    /// In the specification's words: other implementations show the same.
    pub fn text(&self) -> String {
        let begins = sentence(self.phase);
        let ends = if self.with_imports { ", imported ones included" } else { "" };
        match self.phase {
            Phase::Unverified => begins.to_owned(),
            Phase::Basic => {
                format!("{begins} — {} sessions completed{ends}", self.sessions_lifetime)
            }
            Phase::Verified => {
                let percent = to_fixed_1(self.success_rate * 100.0);
                format!("{begins} — {percent}% success over {} sessions{ends}", self.sessions_90d)
            }
        }
    }
}
