//! All that a fact says beside its number, in one value, and how an agent's facts stand, in
//! another. Migrations 8, 9 and 11 name the bytes.

use skep_base::{AgentId, Hash32, Timestamp};

use crate::{
    error::StoreError,
    postgres::known::{TAG_LEN, Tag},
    score_fact::{ScoreFact, ScoreMark, ScoreTotals},
};

const IS_AP2: u8 = 1;
const IS_OK: u8 = 2;
const HAS_COUNTERPARTY: u8 = 4;
const HAS_PROOF: u8 = 8;

/// What every fact has: agent, time, flags, cents, chain and sums.
const LEAST_LEN: usize = 20 + 8 + 1 + 8 + 32 + 6 * 8;

pub(super) fn pack(fact: &ScoreFact) -> Vec<u8> {
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    let flags = flag(fact.dimension == "ap2", IS_AP2)
        | flag(fact.ok, IS_OK)
        | flag(fact.counterparty.is_some(), HAS_COUNTERPARTY)
        | flag(fact.proof.is_some(), HAS_PROOF);
    let mut body = Vec::with_capacity(LEAST_LEN + 20 + 32 + fact.source.len());
    body.extend(fact.agent.0);
    body.extend(fact.at.as_ms().to_be_bytes());
    body.push(flags);
    body.extend(fact.released_cents.to_be_bytes());
    put_standing(&mut body, &fact.chain, &fact.totals);
    body.extend(fact.counterparty.iter().flat_map(|agent| agent.0));
    body.extend(fact.proof.iter().flat_map(|proof| *proof.as_bytes()));
    body.extend(fact.source.as_bytes());
    body
}

/// The end of the chain, and the sums.
fn put_standing(body: &mut Vec<u8>, chain: &Hash32, totals: &ScoreTotals) {
    let ScoreTotals { conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents } = *totals;
    body.extend(chain.as_bytes());
    for sum in [conduit, conduit_ok, proofs, ap2, ap2_ok, released_cents] {
        body.extend(sum.to_be_bytes());
    }
}

/// What an agent's wallet says: the last fact, if there is any, and the tag of the track record, if
/// there is one.
pub(in super::super) fn mark_bytes(last: Option<&ScoreMark>, tag: Option<&Tag>) -> Vec<u8> {
    let none = ScoreMark {
        at: Timestamp::from_ms(0),
        n: 0,
        chain: Hash32::ZERO,
        totals: ScoreTotals::default(),
    };
    let ScoreMark { at, n, chain, totals } = last.unwrap_or(&none);
    let mut bytes = Vec::with_capacity(8 + 8 + 32 + 6 * 8 + TAG_LEN);
    bytes.extend(n.to_be_bytes());
    bytes.extend(at.as_ms().to_be_bytes());
    put_standing(&mut bytes, chain, totals);
    bytes.extend(tag.iter().flat_map(|tag| **tag));
    bytes
}

/// Reads [`mark_bytes`].
pub(in super::super) fn read_mark(
    bytes: &[u8],
) -> Result<(Option<ScoreMark>, Option<Tag>), StoreError> {
    let mut bytes = Bytes(bytes);
    let (n, at) = (bytes.number()?, Timestamp::from_ms(bytes.number()?));
    let (chain, totals) = bytes.standing()?;
    let tag = if bytes.0.is_empty() { None } else { Some(bytes.take()?) };
    match bytes.0.is_empty() {
        true => Ok(((n > 0).then_some(ScoreMark { at, n, chain, totals }), tag)),
        false => Err(unreadable()),
    }
}

/// How an agent's facts stood after this one.
pub(super) fn mark(n: i64, body: &[u8]) -> Result<ScoreMark, StoreError> {
    let Read { at, chain, totals, .. } = read(body)?;
    Ok(ScoreMark { at, n, chain, totals })
}

pub(super) fn totals(body: &[u8]) -> Result<ScoreTotals, StoreError> {
    Ok(read(body)?.totals)
}

pub(super) fn unpack(n: i64, body: &[u8]) -> Result<ScoreFact, StoreError> {
    let Read { agent, at, flags, released_cents, chain, totals, rest } = read(body)?;
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
    agent: AgentId,
    at: Timestamp,
    flags: u8,
    released_cents: i64,
    chain: Hash32,
    totals: ScoreTotals,
    rest: &'a [u8],
}

fn read(body: &[u8]) -> Result<Read<'_>, StoreError> {
    let mut bytes = Bytes(body);
    let (agent, at) = (AgentId(bytes.take()?), Timestamp::from_ms(bytes.number()?));
    let [flags] = bytes.take()?;
    let released_cents = bytes.number()?;
    let (chain, totals) = bytes.standing()?;
    Ok(Read { agent, at, flags, released_cents, chain, totals, rest: bytes.0 })
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(*first)
    }

    fn standing(&mut self) -> Result<(Hash32, ScoreTotals), StoreError> {
        let chain = Hash32(self.take()?);
        let totals = ScoreTotals {
            conduit: self.number()?,
            conduit_ok: self.number()?,
            proofs: self.number()?,
            ap2: self.number()?,
            ap2_ok: self.number()?,
            released_cents: self.number()?,
        };
        Ok((chain, totals))
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
            assert_eq!(unpack(3, &body).unwrap(), fact);
            assert_eq!(mark(3, &body).unwrap(), fact.mark());
            let least = body.len() - "süd".len();
            for cut in 0..least {
                assert!(unpack(3, &body[..cut]).is_err(), "{cut} of {least}");
            }
            assert!(unpack(3, &body[..least + 2]).is_err(), "half a letter");
            for (last, tag) in [(Some(fact.mark()), Some([n; TAG_LEN])), (Some(fact.mark()), None)]
            {
                let bytes = mark_bytes(last.as_ref(), tag.as_ref());
                assert_eq!(read_mark(&bytes).unwrap(), (last, tag));
            }
        }
        let (none, tagged) = (mark_bytes(None, None), mark_bytes(None, Some(&[3; TAG_LEN])));
        assert_eq!(read_mark(&none).unwrap(), (None, None));
        assert_eq!(read_mark(&tagged).unwrap(), (None, Some([3; TAG_LEN])));
        for cut in (0..tagged.len()).filter(|cut| *cut != none.len()) {
            assert!(read_mark(&tagged[..cut]).is_err(), "{cut}");
        }
    }
}
