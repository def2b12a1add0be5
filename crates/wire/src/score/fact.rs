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

/// What a link is made of is about as long.
const LINK_LEN_USUAL: usize = 384;

impl Fact {
    /// The end of the chain after this fact, the `n`th of its agent.
    pub fn link(&self, before: Hash32, agent: &AgentId, n: u64) -> Hash32 {
        let dimension = match self.dimension {
            Dimension::Conduit => "conduit",
            Dimension::Ap2 => "ap2",
        };
        let mut bytes = Vec::with_capacity(LINK_LEN_USUAL);
        bytes.extend_from_slice(before.as_bytes());
        // Each field with its length, so that no two facts share bytes.
        let mut field = |text: &str| {
            bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        field("skep/score-fact/v1");
        field(&agent.to_string());
        field(&n.to_string());
        field(dimension);
        field(&self.source);
        field(if self.ok { "ok" } else { "failed" });
        field(&self.released_cents.to_string());
        field(&self.counterparty.map_or(String::new(), |agent| agent.to_string()));
        field(&self.proof.map_or(String::new(), |proof| proof.to_string()));
        field(&self.at.as_ms().to_string());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_the_hash_of_the_one_before_and_of_every_field_with_its_length() {
        let (agent, other, before) = (AgentId([1; 20]), AgentId([2; 20]), Hash32([3; 32]));
        let full = Fact {
            dimension: Dimension::Ap2,
            source: "süd".to_owned(),
            ok: true,
            released_cents: 25,
            counterparty: Some(other),
            proof: Some(Hash32([4; 32])),
            at: Timestamp::from_ms(7),
        };
        let bare = Fact {
            dimension: Dimension::Conduit,
            ok: false,
            counterparty: None,
            proof: None,
            ..full.clone()
        };
        let (a, b, proof) = ("01".repeat(20), "02".repeat(20), "04".repeat(32));
        for (fact, words) in [
            (&full, ["ap2", "süd", "ok", "25", &format!("0x{b}"), &proof, "7"]),
            (&bare, ["conduit", "süd", "failed", "25", "", "", "7"]),
        ] {
            let mut bytes = before.as_bytes().to_vec();
            for word in ["skep/score-fact/v1", &format!("0x{a}"), "9"].iter().chain(&words) {
                bytes.extend((word.len() as u64).to_be_bytes());
                bytes.extend(word.as_bytes());
            }
            assert_eq!(fact.link(before, &agent, 9), sha256(&bytes));
        }
    }
}
