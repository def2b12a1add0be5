//! What counts for a score, on SQLite.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_base::{AgentId, Timestamp};

use super::{
    READ_AGE_MAX, Sqlite,
    apply::{hash, optional, parsed, record},
    known::asked,
    writer::WorkError,
};
use crate::{
    error::StoreError,
    group::Group,
    score_fact::{COLUMNS, Counted, ScoreFact, ScoreMark, ScoreTotals},
    turn::{RecordKey, StoredRecord},
};

/// Where an agent's facts stood then.
pub(super) fn mark_at(
    conn: &Connection,
    agent: &str,
    at: i64,
) -> rusqlite::Result<Option<ScoreMark>> {
    let sql = "select at, n, chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum,
                      cents_sum
               from score_facts where agent_id = ?1 and at <= ?2 order by at desc, n desc limit 1";
    let mark = |row: &Row<'_>| {
        Ok(ScoreMark {
            at: Timestamp::from_ms(row.get(0)?),
            n: row.get(1)?,
            chain: hash(row, 2)?,
            totals: totals(row, 3)?,
        })
    };
    conn.prepare_cached(sql)?.query_row((agent, at), mark).optional()
}

/// When an agent's first fact after that time was.
pub(super) fn first_after(
    conn: &Connection,
    agent: &str,
    at: i64,
) -> rusqlite::Result<Option<Timestamp>> {
    let sql = "select at from score_facts where agent_id = ?1 and at > ?2 order by at limit 1";
    let at_of = |row: &Row<'_>| row.get(0).map(Timestamp::from_ms);
    conn.prepare_cached(sql)?.query_row((agent, at), at_of).optional()
}

pub(super) fn write(conn: &Connection, group: &Group) -> Result<(), WorkError> {
    for fact in &group.new_facts {
        write_fact(conn, fact)?;
    }
    Ok(())
}

pub(crate) fn write_fact(conn: &Connection, fact: &ScoreFact) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "insert into score_facts
             (agent_id, at, n, dimension, source, ok, released_cents, counterparty, proof, chain,
              conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, cents_sum)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
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
        fact.totals.released_cents
    ])
    .map(drop)
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
            conn.prepare_cached(&format!(
                "select {COLUMNS} from score_facts where agent_id = ?1 and (at, n) > (?2, ?3)
                 order by at, n limit ?4"
            ))?
            .query_map((agent.to_string(), after.0, after.1, limit as i64), fact)?
            .collect()
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
            conn.prepare_cached(&format!(
                "select {COLUMNS} from score_facts where agent_id = ?1 and (at, n) < (?2, ?3)
                 order by at desc, n desc limit ?4"
            ))?
            .query_map((agent.to_string(), before.0, before.1, limit as i64), fact)?
            .collect()
        })
        .await
    }
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

fn fact(row: &Row<'_>) -> rusqlite::Result<ScoreFact> {
    let proof = match row.get_ref(8)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(hash(row, 8)?),
    };
    Ok(ScoreFact {
        agent: parsed(row, 0)?,
        at: Timestamp::from_ms(row.get(1)?),
        n: row.get(2)?,
        dimension: row.get(3)?,
        source: row.get(4)?,
        ok: row.get(5)?,
        released_cents: row.get(6)?,
        counterparty: optional(row, 7)?,
        proof,
        chain: hash(row, 9)?,
        totals: totals(row, 10)?,
    })
}
