//! What is counted: sessions and escrows that have ended, one after the other, chained by hashes.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Hash32, Timestamp, hash::sha256};

/// Which of the two kinds of work it was (5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// A recorded browser session with a proof that was checked.
    Conduit,
    /// An escrow that was released, or refunded by the provider's fault.
    Ap2,
}

/// One session or settlement that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub dimension: Dimension,
    /// The session's or the deal's id.
    pub source: String,
    pub ok: bool,
    /// Released to the agent, in US cents, rounded down; USD and its stablecoins only.
    pub released_cents: u64,
    /// Who paid for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterparty: Option<AgentId>,
    /// The hash of the proof, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Hash32>,
    /// When it ended.
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
        let mut bytes = before.as_bytes().to_vec();
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        sha256(&bytes)
    }
}

/// Sums over an agent's facts. They only grow: what happened in a window is a difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub conduit: u64,
    pub conduit_ok: u64,
    /// Sessions whose proof was checked.
    pub proofs: u64,
    pub ap2: u64,
    pub ap2_ok: u64,
    pub released_cents: u64,
}

impl Totals {
    pub fn add(&mut self, fact: &Fact) {
        let ok = u64::from(fact.ok);
        match fact.dimension {
            Dimension::Conduit => {
                self.conduit += 1;
                self.conduit_ok += ok;
                self.proofs += u64::from(fact.proof.is_some());
            }
            Dimension::Ap2 => {
                self.ap2 += 1;
                self.ap2_ok += ok;
            }
        }
        self.released_cents = self.released_cents.saturating_add(fact.released_cents);
    }

    /// What came after `earlier`.
    pub fn since(&self, earlier: &Totals) -> Totals {
        Totals {
            conduit: self.conduit.saturating_sub(earlier.conduit),
            conduit_ok: self.conduit_ok.saturating_sub(earlier.conduit_ok),
            proofs: self.proofs.saturating_sub(earlier.proofs),
            ap2: self.ap2.saturating_sub(earlier.ap2),
            ap2_ok: self.ap2_ok.saturating_sub(earlier.ap2_ok),
            released_cents: self.released_cents.saturating_sub(earlier.released_cents),
        }
    }

    /// Of both kinds; ATEP counts them together.
    pub fn sessions(&self) -> u64 {
        self.conduit + self.ap2
    }

    pub fn successful(&self) -> u64 {
        self.conduit_ok + self.ap2_ok
    }
}
