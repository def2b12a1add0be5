//! What only a node's operator may do. Every act has a reason, and the log keeps both.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{AgentId, Did, Money, Timestamp, id::TransferId};

use crate::{
    score::{Level, TrustedIssuer},
    settle::Tier,
};

/// The longest reason, in bytes.
pub const REASON_LEN_MAX: usize = 1000;

/// An act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum AdminAct {
    /// SwarmScore 9.7: fraud. The operator that the agent had when it happened gets a cool-down.
    RevokeBenchmark {
        agent_id: AgentId,
        /// When it happened; needed if the agent has left an operator in the last 90 days.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
    /// Takes a revocation back.
    ClearRevocation { agent_id: AgentId },
    /// Ends an operator's cool-down before its time.
    EndCooldown { operator: Did },
    /// ATEP: somebody has looked at the agent, as TRUSTED needs.
    ReviewAgent { agent_id: AgentId },
    /// ATEP: a tier is taken away by hand, never by itself.
    Demote { agent_id: AgentId, tier: Tier },
    /// Which of the fee's rates is the agent's (VCAP 10.2).
    SetSubscription {
        agent_id: AgentId,
        #[serde(default)]
        subscription: Option<String>,
    },
    /// SwarmScore 11.3: money of the platform's own, from which it fronts a part of newcomers'
    /// holds. The same id again fills nothing.
    FundSubsidies { id: TransferId, money: Money },
    /// SwarmScore 9.4: tighter minimums, with a version of their own.
    SetParameters { standard: Level, elite: Level },
    /// SwarmScore 10.2: whose exports are taken.
    TrustIssuer { issuer: TrustedIssuer },
    /// And whose no longer.
    DropIssuer { platform: String },
}

/// An act with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdminRequest {
    #[serde(flatten)]
    pub act: AdminAct,
    pub reason: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdminAnswer {
    pub at: Timestamp,
    /// How what the act was about stands now.
    pub now: Value,
}

/// SwarmScore 9.4: how many of those who could hold a benchmark do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QualificationReport {
    pub at: Timestamp,
    /// `2026-Q4`
    pub quarter: String,
    pub parameters_version: u32,
    /// Agents that are VERIFIED or TRUSTED.
    pub verified: u64,
    /// Those of them that hold a benchmark.
    pub qualified: u64,
    pub elite: u64,
    /// `qualified` of `verified`.
    pub rate: f64,
    /// Above it the minimums are to be tightened.
    pub limit: f64,
    #[serde(default)]
    pub over_limit: bool,
    pub advice: String,
    /// What was written down at the ends of earlier quarters, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<QualificationReport>,
}
