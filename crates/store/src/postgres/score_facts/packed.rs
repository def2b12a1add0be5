//! All that a fact says beside whose it is, its number and its time, in one value. Migration 8
//! names the bytes.

use skep_base::{AgentId, Hash32, Timestamp};

use crate::{
    error::StoreError,
    score_fact::{ScoreFact, ScoreMark, ScoreTotals},
};

const IS_AP2: u8 = 1;
const IS_OK: u8 = 2;
const HAS_COUNTERPARTY: u8 = 4;
const HAS_PROOF: u8 = 8;

/// What every fact has: flags, cents, chain and sums.
const LEAST_LEN: usize = 1 + 8 + 32 + 6 * 8;

pub(super) fn pack(fact: &ScoreFact) -> Vec<u8> {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let flags = flag(fact.dimension == "ap2", IS_AP2)
        | flag(fact.ok, IS_OK)
        | flag(fact.counterparty.is_some(), HAS_COUNTERPARTY)
        | flag(fact.proof.is_some(), HAS_PROOF);
    let ScoreTotals { conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents } = fact.totals;
    let mut body = Vec::with_capacity(LEAST_LEN + 20 + 32 + fact.source.len());
    body.push(flags);
    body.extend(fact.released_cents.to_be_bytes());
    body.extend(fact.chain.as_bytes());
    for sum in [conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents] {
        body.extend(sum.to_be_bytes());
    }
    body.extend(fact.counterparty.iter().flat_map(|agent| agent.0));
    body.extend(fact.proof.iter().flat_map(|proof| *proof.as_bytes()));
    body.extend(fact.source.as_bytes());
    body
}

/// How an agent's facts stood after this one.
pub(super) fn mark(n: i64, at: Timestamp, body: &[u8]) -> Result<ScoreMark, StoreError> {
    let Read { chain, totals, .. } = read(body)?;
    Ok(ScoreMark { at, n, chain, totals })
}

pub(super) fn totals(body: &[u8]) -> Result<ScoreTotals, StoreError> {
    Ok(read(body)?.totals)
}

pub(super) fn unpack(
    agent: AgentId,
    n: i64,
    at: Timestamp,
    body: &[u8],
) -> Result<ScoreFact, StoreError> {
    let Read { flags, released_cents, chain, totals, rest } = read(body)?;
    let mut rest = Bytes(rest);
    let (counterparty, proof) = (flags & HAS_COUNTERPARTY != 0, flags & HAS_PROOF != 0);
    let counterparty = counterparty.then(|| rest.take().map(AgentId)).transpose()?;
    let proof = proof.then(|| rest.take().map(Hash32)).transpose()?;
    let source = std::str::from_utf8(rest.0).map_err(|_| unreadable())?.to_owned();
    Ok(ScoreFact {
        agent,
        at,
        n,
        dimension: if flags & IS_AP2 != 0 { "ap2" } else { "conduit" }.to_owned(),
        source,
        ok: flags & IS_OK != 0,
        released_cents,
        counterparty,
        proof,
        chain,
        totals,
    })
}

/// What every fact has.
struct Read<'a> {
    flags: u8,
    released_cents: i64,
    chain: Hash32,
    totals: ScoreTotals,
    rest: &'a [u8],
}

fn read(body: &[u8]) -> Result<Read<'_>, StoreError> {
    let mut bytes = Bytes(body);
    let [flags] = bytes.take()?;
    Ok(Read {
        flags,
        released_cents: bytes.number()?,
        chain: Hash32(bytes.take()?),
        totals: ScoreTotals {
            conduit: bytes.number()?,
            conduit_ok: bytes.number()?,
            proofs: bytes.number()?,
            ap2: bytes.number()?,
            ap2_ok: bytes.number()?,
            released_cents: bytes.number()?,
        },
        rest: bytes.0,
    })
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<i64, StoreError> {
        self.take().map(i64::from_be_bytes)
    }
}

fn unreadable() -> StoreError {
    StoreError::Unavailable("the database holds a fact that is unreadable".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_read_as_it_was_packed_and_not_when_it_was_cut() {
        let (agent, other, at) = (AgentId([7; 20]), AgentId([9; 20]), Timestamp::from_ms(77));
        for n in 0..16_u8 {
            let fact = ScoreFact {
                agent,
                at,
                n: 3,
                dimension: if n & 1 == 0 { "ap2" } else { "conduit" }.to_owned(),
                source: "süd".to_owned(),
                ok: n & 2 == 0,
                released_cents: i64::MAX,
                counterparty: (n & 4 == 0).then_some(other),
                proof: (n & 8 == 0).then_some(Hash32([5; 32])),
                chain: Hash32([n; 32]),
                totals: ScoreTotals {
                    conduit: 1,
                    conduit_ok: 2,
                    proofs: -3,
                    ap2: i64::MIN,
                    ap2_ok: 5,
                    released_cents: 6,
                },
            };
            let body = pack(&fact);
            assert_eq!(unpack(agent, 3, at, &body).unwrap(), fact);
            assert_eq!(mark(3, at, &body).unwrap(), fact.mark());
            let least = body.len() - "süd".len();
            for cut in 0..least {
                assert!(unpack(agent, 3, at, &body[..cut]).is_err(), "{cut} of {least}");
            }
            assert!(unpack(agent, 3, at, &body[..least + 2]).is_err(), "half a letter");
        }
    }
}
