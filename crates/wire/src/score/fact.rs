//! What is counted, one by one, and how it is chained.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Hash32, Timestamp, hash::sha256};

/// Which of the two kinds of work it was (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Dimension {
    /// A recorded browser session with a proof that was checked.
    Conduit,
    /// An escrow that was released, or refunded by the provider's fault.
    Ap2,
}

/// One session or settlement that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fact {
    pub dimension: Dimension,
    /// The session's or the deal's id.
    pub source: String,
    pub ok: bool,
    /// Released to the agent, in US cents, rounded down; USD and its stablecoins only.
    pub released_cents: u64,
    /// Who paid for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub counterparty: Option<AgentId>,
    /// The hash of the proof, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub proof: Option<Hash32>,
    /// When it ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
}

impl Fact {
    /// The end of the chain after this fact, the `n`th of its agent.
    pub fn link(&self, before: Hash32, agent: &AgentId, n: u64) -> Hash32 {
        let dimension: &[u8] = match self.dimension {
            Dimension::Conduit => b"conduit",
            Dimension::Ap2 => b"ap2",
        };
        let counterparty = self.counterparty.map(|agent| agent.to_string()).unwrap_or_default();
        let proof = self.proof.map(|hash| hash.to_string()).unwrap_or_default();
        let (n, at) = (n.to_string(), self.at.as_ms().to_string());
        let cents = self.released_cents.to_string();
        let ok: &[u8] = if self.ok { b"ok" } else { b"failed" };
        let agent = agent.to_string();
        let fields: [&[u8]; 10] = [
            b"skep/score-fact/v1",
            agent.as_bytes(),
            n.as_bytes(),
            dimension,
            self.source.as_bytes(),
            ok,
            cents.as_bytes(),
            counterparty.as_bytes(),
            proof.as_bytes(),
            at.as_bytes(),
        ];
        // Each field with its length, so that no two facts share bytes.
        let len = fields.iter().map(|field| 8 + field.len()).sum::<usize>();
        let mut bytes = Vec::with_capacity(32 + len);
        bytes.extend_from_slice(before.as_bytes());
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        sha256(&bytes)
    }
}

/// A fact with its place in its agent's chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NumberedFact {
    /// From 1.
    pub n: u64,
    pub fact: Fact,
}
