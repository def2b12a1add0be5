//! What counts for a score, on SQLite.

mod places;

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included},
    sync::Arc,
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_base::{AgentId, Timestamp};

pub(super) use self::places::{Place, end, split};
use self::places::{missing, next_jump};
use super::{
    READ_AGE_MAX, Sqlite,
    apply::{hash, optional, parsed, record},
    known::{KnownFacts, asked},
    writer::WorkError,
};
use crate::{
    account::AccountId,
    error::StoreError,
    group::Group,
    score_fact::{COLUMNS, Counted, ScoreFact, ScoreMark, ScoreTotals},
    turn::{RecordKey, StoredRecord},
};

/// Where the facts of agents end that were counted for.
pub(super) type Ends = BTreeMap<AgentId, Place>;

/// How an agent's facts stood after one of them.
pub(super) fn mark(conn: &Connection, place: &Place) -> rusqlite::Result<ScoreMark> {
    marks_back(conn, Some(place.id), 1)?.pop().ok_or_else(|| missing(place.id))
}

/// How an agent's facts stood after this one and those before it, the newest first.
pub(super) fn marks_back(
    conn: &Connection,
    from: Option<i64>,
    limit: i64,
) -> rusqlite::Result<Vec<ScoreMark>> {
    let columns = "at, n, chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum,
                   cents_sum";
    let mark = |row: &Row<'_>| {
        Ok(ScoreMark {
            at: Timestamp::from_ms(row.get(1)?),
            n: row.get(2)?,
            chain: hash(row, 3)?,
            totals: totals(row, 4)?,
        })
    };
    back(conn, from, limit, columns, mark)
}

/// This fact and those before it, the newest first.
fn back<T>(
    conn: &Connection,
    from: Option<i64>,
    limit: i64,
    columns: &str,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let sql = format!("select prev, {columns} from score_facts where id = ?1");
    let mut one = conn.prepare_cached(&sql)?;
    let (mut next, mut found) = (from, Vec::new());
    while let Some(id) = next
        && (found.len() as i64) < limit
    {
        let row = |row: &Row<'_>| Ok((row.get(0)?, read(row)?));
        let (prev, fact) = one.query_row([id], row).optional()?.ok_or_else(|| missing(id))?;
        found.push(fact);
        next = prev;
    }
    Ok(found)
}

/// Adds a group's facts at the end, and says where their agents' end now.
pub(super) fn write(
    conn: &Connection,
    group: &Group,
    known: &KnownFacts,
) -> Result<Ends, WorkError> {
    let mut ends = Ends::new();
    for fact in &group.new_facts {
        let before = match ends.get(&fact.agent) {
            Some(end) => Some(*end),
            None => known.end(conn, &fact.agent)?,
        };
        ends.insert(fact.agent, append(conn, fact, before)?);
    }
    Ok(ends)
}

/// Notes where agents' facts end: in a wallet that the group writes, which is what it gives, or
/// else in a row of its own.
pub(super) fn write_ends<'a>(
    conn: &Connection,
    group: &'a Group,
    ends: &Ends,
) -> rusqlite::Result<BTreeMap<&'a AccountId, i64>> {
    let mut in_wallets = BTreeMap::new();
    for (agent, end) in ends {
        let (first, past) = (format!("wallet:{agent}:"), format!("wallet:{agent};"));
        let wallets = (Included(first.as_str()), Excluded(past.as_str()));
        match group.changed_accounts.range::<str, _>(wallets).next() {
            Some(wallet) => drop(in_wallets.insert(wallet, end.id)),
            None => write_end(conn, agent, end)?,
        }
    }
    Ok(in_wallets)
}

fn write_end(conn: &Connection, agent: &AgentId, end: &Place) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "insert into score_ends (agent_id, fact) values (?1, ?2)
         on conflict (agent_id) do update set fact = excluded.fact",
    )?
    .execute((agent.to_string(), end.id))
    .map(drop)
}

/// All facts of an agent that has none yet.
pub(crate) fn write_first(conn: &Connection, facts: &[ScoreFact]) -> rusqlite::Result<()> {
    let mut end = None;
    for fact in facts {
        end = Some(append(conn, fact, end)?);
    }
    match (facts.last(), end) {
        (Some(last), Some(end)) => write_end(conn, &last.agent, &end),
        _ => Ok(()),
    }
}

fn append(conn: &Connection, fact: &ScoreFact, before: Option<Place>) -> rusqlite::Result<Place> {
    let (prev, jump) = (before.map(|end| end.id), next_jump(conn, before)?);
    conn.prepare_cached(
        "insert into score_facts
             (agent_id, at, n, dimension, source, ok, released_cents, counterparty, proof, chain,
              conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, cents_sum, prev, jump)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
    )?
    .execute(params![
        fact.agent.to_string(),
        fact.at.as_ms(),
        fact.n,
        fact.dimension,
        fact.source,
        fact.ok,
        fact.released_cents,
        fact.counterparty.map(|agent| agent.to_string()),
        fact.proof.as_ref().map(|hash| hash.as_bytes()),
        fact.chain.as_bytes(),
        fact.totals.conduit,
        fact.totals.conduit_ok,
        fact.totals.proofs,
        fact.totals.ap2,
        fact.totals.ap2_ok,
        fact.totals.released_cents,
        prev,
        jump
    ])?;
    Ok(Place { id: conn.last_insert_rowid(), at: fact.at.as_ms(), n: fact.n, prev, jump })
}

impl Sqlite {
    pub(crate) async fn counted(
        self: &Arc<Self>,
        agent: AgentId,
        key: RecordKey,
        now: Timestamp,
    ) -> Result<(Option<StoredRecord>, Counted), StoreError> {
        self.read(READ_AGE_MAX, move |conn| Ok((record(conn, &key)?, asked(conn, &agent, now)?)))
            .await
    }

    pub(crate) async fn score_facts(
        self: &Arc<Self>,
        agent: AgentId,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let end = end(conn, &agent)?;
            let Some(first) = split(conn, end, |place| (place.at, place.n) > after)?.after else {
                return Ok(Vec::new());
            };
            let before = first.n.saturating_add(bounded(limit));
            let last = split(conn, end, |place| place.n >= before)?.upto;
            let (last, count) = last.map_or((None, 0), |l| (Some(l.id), l.n - first.n + 1));
            let mut page = back(conn, last, count, COLUMNS, fact)?;
            page.reverse();
            Ok(page)
        })
        .await
    }

    pub(crate) async fn score_facts_latest(
        self: &Arc<Self>,
        agent: AgentId,
        before: (i64, i64),
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let end = end(conn, &agent)?;
            let newest = split(conn, end, |place| (place.at, place.n) >= before)?.upto;
            back(conn, newest.map(|place| place.id), bounded(limit), COLUMNS, fact)
        })
        .await
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn totals(row: &Row<'_>, first: usize) -> rusqlite::Result<ScoreTotals> {
    Ok(ScoreTotals {
        conduit: row.get(first)?,
        conduit_ok: row.get(first + 1)?,
        proofs: row.get(first + 2)?,
        ap2: row.get(first + 3)?,
        ap2_ok: row.get(first + 4)?,
        released_cents: row.get(first + 5)?,
    })
}

/// Read behind the id of the fact before it.
fn fact(row: &Row<'_>) -> rusqlite::Result<ScoreFact> {
    let proof = match row.get_ref(9)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(hash(row, 9)?),
    };
    Ok(ScoreFact {
        agent: parsed(row, 1)?,
        at: Timestamp::from_ms(row.get(2)?),
        n: row.get(3)?,
        dimension: row.get(4)?,
        source: row.get(5)?,
        ok: row.get(6)?,
        released_cents: row.get(7)?,
        counterparty: optional(row, 8)?,
        proof,
        chain: hash(row, 10)?,
        totals: totals(row, 11)?,
    })
}
