//! The numbers that decide who holds a benchmark. 9.4 tightens them, and never loosens them.

use serde::{Deserialize, Serialize};
pub use skep_wire::score::{Level, Parameters};

#[cfg(test)]
mod tests;

/// 9.4: the part of the VERIFIED agents that may hold a benchmark before minimums are tightened.
pub const QUALIFIED_MAX: f64 = 0.22;
/// The most sessions that minimums may ask for.
const SESSIONS_MAX: u32 = 1_000_000;

/// Why minimums are not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NotTighter {
    #[error("a number is below the present one")]
    Eased,
    #[error("nobody could reach them")]
    Unreachable,
    #[error("they are the present ones")]
    Same,
}

/// Whether no minimum is below the other's, and each can be reached.
fn is_as_hard(level: &Level, than: &Level) -> bool {
    level.score >= than.score
        && level.conduit_sessions >= than.conduit_sessions
        && level.ap2_sessions >= than.ap2_sessions
        && level.success_rate >= than.success_rate
}

fn can_be_reached(level: &Level) -> bool {
    level.score <= 1000
        && level.conduit_sessions <= SESSIONS_MAX
        && level.ap2_sessions <= SESSIONS_MAX
        && level.success_rate <= 1.0
}

/// The next version of the minimums.
pub fn tighten(
    before: &Parameters,
    standard: Level,
    elite: Level,
) -> Result<Parameters, NotTighter> {
    let after = Parameters { version: before.version.saturating_add(1), standard, elite };
    if !is_as_hard(&standard, &before.standard) || !is_as_hard(&elite, &before.elite) {
        return Err(NotTighter::Eased);
    }
    if !can_be_reached(&standard) || !can_be_reached(&elite) {
        return Err(NotTighter::Unreachable);
    }
    if (standard, elite) == (before.standard, before.elite) {
        return Err(NotTighter::Same);
    }
    Ok(after)
}

/// Whether these can have come from the specification's own by tightening. A new version is there
/// because a minimum changed.
pub fn are_allowed(stated: &Parameters) -> bool {
    let spec = Parameters::SPEC;
    match tighten(&spec, stated.standard, stated.elite) {
        Ok(_) => stated.version > spec.version,
        Err(NotTighter::Same) => stated.version == spec.version,
        Err(NotTighter::Eased | NotTighter::Unreachable) => false,
    }
}
