//! The numbers that decide who holds a benchmark. They have a version, since 9.4 tightens them.

use serde::{Deserialize, Serialize};

/// Minimums of one level (decision 3 of the specification).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Level {
    pub score: u16,
    pub conduit_sessions: u32,
    pub ap2_sessions: u32,
    pub success_rate: f64,
}

/// One set of minimums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Parameters {
    /// 1 is the specification's own.
    pub version: u32,
    pub standard: Level,
    pub elite: Level,
}

impl Parameters {
    /// 6.1.
    pub const SPEC: Parameters = Parameters {
        version: 1,
        standard: Level { score: 700, conduit_sessions: 50, ap2_sessions: 25, success_rate: 0.95 },
        elite: Level { score: 850, conduit_sessions: 150, ap2_sessions: 50, success_rate: 0.97 },
    };
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters::SPEC
    }
}
