//! Facts as the rules and as the store know them.

use skep_base::AgentId;
use skep_score::{Dimension, Fact, Totals, Track, track::Mark};
use skep_store::{ScoreFact, ScoreMark, ScoreTotals};

/// The row of the `n`th fact of an agent whose track record has it already.
pub(super) fn row(agent: AgentId, n: u64, fact: &Fact, track: &Track) -> ScoreFact {
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let Totals { conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents } = track.totals;
    ScoreFact {
        agent,
        at: fact.at,
        n: signed(n),
        dimension: word(fact.dimension).to_owned(),
        source: fact.source.clone(),
        ok: fact.ok,
        released_cents: signed(fact.released_cents),
        counterparty: fact.counterparty,
        proof: fact.proof,
        chain: track.chain,
        totals: ScoreTotals {
            conduit: signed(conduit),
            conduit_ok: signed(conduit_ok),
            proofs: signed(proofs),
            ap2: signed(ap2),
            ap2_ok: signed(ap2_ok),
            released_cents: signed(released_cents),
        },
    }
}

/// The fact of a row.
pub fn fact_of(row: &ScoreFact) -> Fact {
    Fact {
        dimension: match row.dimension.as_str() {
            "conduit" => Dimension::Conduit,
            _ => Dimension::Ap2,
        },
        source: row.source.clone(),
        ok: row.ok,
        released_cents: row.released_cents.unsigned_abs(),
        counterparty: row.counterparty,
        proof: row.proof,
        at: row.at,
    }
}

pub(super) fn mark(stored: ScoreMark) -> Mark {
    let ScoreMark { at, n, chain, totals: sums } = stored;
    Mark { facts: n.unsigned_abs(), chain, totals: totals(sums), at }
}

pub(super) fn totals(stored: ScoreTotals) -> Totals {
    let ScoreTotals { conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents } = stored;
    let count = |stored: i64| u64::try_from(stored).unwrap_or_default();
    Totals {
        conduit: count(conduit),
        conduit_ok: count(conduit_ok),
        proofs: count(proofs),
        ap2: count(ap2),
        ap2_ok: count(ap2_ok),
        released_cents: count(released_cents),
    }
}

fn word(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Conduit => "conduit",
        Dimension::Ap2 => "ap2",
    }
}
