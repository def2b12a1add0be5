//! What is counted: sessions and escrows that have ended, one after the other, chained by hashes.

use serde::{Deserialize, Serialize};
pub use skep_wire::score::{Dimension, Fact, NumberedFact};

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
