//! What counts for a score, on PostgreSQL.

pub(super) mod packed;

use std::{collections::BTreeMap, time::Duration};

use deadpool_postgres::Object;
use skep_base::{AgentId, Timestamp};
use tokio_postgres::{Row, types::ToSql};

use super::{
    Postgres,
    flush::{Param, column},
    known::{Bases, tag_of},
    lane::GroupError,
};
use crate::{
    error::StoreError,
    score_fact::{Counted, SCORE_WINDOW, ScoreFact, ScoreMark, ScoreTotals},
    turn::{RecordKey, StoredRecord},
};

/// The time, and for each agent the last fact before the window that ends then, and when the first
/// one within it was.
pub(super) const BASES: &str = "
    with told (now) as materialized (
        select coalesce($2::bigint, greatest($3::bigint, cast(
            extract(epoch from clock_timestamp()) * 1000 as bigint))))
    select told.now, w.agent, f.*, o.*
    from told cross join unnest($1::bytea[]) w (agent)
    left join lateral (
        select fact_number(w.agent, told.now - $4::bigint) as n) b on true
    left join lateral (
        select packed from score_facts x
        where x.head = packed_number(w.agent, 1) and fact_agent(x.packed) = w.agent
            and x.n = b.n) f on true
    left join lateral (
        select fact_at(packed) as oldest_at
        from score_facts x
        where x.head = packed_number(w.agent, 1) and fact_agent(x.packed) = w.agent
            and x.n = b.n + 1) o on true";
/// An agent's record, its last fact and the last one before the window, from one snapshot.
const RECORD_COUNTED: &str = "
    select r.version, r.body, l.*, f.*
    from (select 1) one
    left join records r on r.route_key = $1 and r.kind = $2 and r.id = $3
    left join lateral (
        select n, packed
        from score_facts x where x.head = packed_number($4, 1) and fact_agent(x.packed) = $4
        order by x.n desc limit 1) l on true
    left join lateral (
        select packed
        from score_facts x where x.head = packed_number($4, 1) and fact_agent(x.packed) = $4
            and x.n = fact_number($4, $5)) f on true";
/// Later than a time, or of that time with a higher number.
const AFTER: &str = "
    select n, packed from score_facts where head = packed_number($1, 1) and fact_agent(packed) = $1
        and n > (select least(fact_number($1, $2), greatest(fact_number($1, $3), $4::bigint)))
    order by n limit $5";
const BEFORE: &str = "
    select n, packed from score_facts where head = packed_number($1, 1) and fact_agent(packed) = $1
        and n <= (select least(fact_number($1, $2), greatest(fact_number($1, $3), $4::bigint)))
    order by n desc limit $5";

/// Which time it is, unless it is `fixed`, and what was counted of agents before the window that
/// ends then.
pub(super) async fn bases(
    client: &Object,
    agents: &[AgentId],
    bases: &mut Bases,
    (fixed, least): (Option<Timestamp>, Timestamp),
) -> Result<(Timestamp, BTreeMap<AgentId, ScoreTotals>), GroupError> {
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let statement = client.prepare_cached(BASES).await.map_err(failed)?;
    let names: Vec<&[u8]> = agents.iter().map(bytes_of).collect();
    let (fixed, least) = (fixed.map(|at| at.as_ms()), least.as_ms());
    let params: [&(dyn ToSql + Sync); 4] = [&names, &fixed, &least, &window_ms(SCORE_WINDOW)];
    let rows = client.query(&statement, &params).await.map_err(failed)?;
    let now = rows.first().map(|row| Timestamp::from_ms(row.get(0)));
    let now = now.ok_or_else(|| GroupError::Refused("nobody was asked for".to_owned()))?;
    let found = rows.iter().map(|row| {
        let (agent, before): (AgentId, Option<&[u8]>) = (agent_in(row, 1)?, row.get(2));
        let base = before.map(packed::totals).transpose();
        let base = base.map_err(|e| GroupError::Refused(e.to_string()))?.unwrap_or_default();
        let oldest: Option<i64> = row.get(3);
        bases.keep(agent, base, now, oldest.map(Timestamp::from_ms));
        Ok((agent, base))
    });
    Ok((now, found.collect::<Result<_, GroupError>>()?))
}

/// Whose a fact is, as its first bytes say.
fn bytes_of(agent: &AgentId) -> &[u8] {
    &agent.0
}

/// What its key begins with: numbers are compared quickly. Migration 10 makes the same.
fn head_of(agent: &AgentId) -> i64 {
    agent.0.first_chunk().map_or(0, |head| i64::from_be_bytes(*head))
}

fn agent_in(row: &Row, column: usize) -> Result<AgentId, GroupError> {
    let bytes: &[u8] = row.get(column);
    let bytes = bytes.try_into();
    bytes.map(AgentId).map_err(|_| GroupError::Refused("an address has 20 bytes".to_owned()))
}

/// The last fact from a column on.
fn last_in(row: &Row, first: usize) -> Result<Option<ScoreMark>, StoreError> {
    let n: Option<i64> = row.get(first);
    n.map(|n| packed::mark(n, row.get(first + 1))).transpose()
}

/// The last fact from a column on, then the one whose sums are those before the window.
fn counted_in(row: &Row, first: usize) -> Result<Counted, StoreError> {
    let before: Option<&[u8]> = row.get(first + 2);
    let base = before.map(packed::totals).transpose()?.unwrap_or_default();
    Ok(Counted { last: last_in(row, first)?, base })
}

fn window_ms(window: Duration) -> i64 {
    i64::try_from(window.as_millis()).unwrap_or(i64::MAX)
}

/// A statement that adds facts; its parameters are [`columns`], the first of them with this number.
pub(crate) fn insert_facts(first: usize) -> String {
    let [n, packed] = [1, 2].map(|next| first + next);
    format!(
        "insert into score_facts (head, n, packed)
         select unnest(${first}::bigint[]), unnest(${n}::bigint[]), unnest(${packed}::bytea[])"
    )
}

/// What [`insert_facts`] takes.
pub(crate) fn columns(facts: &[ScoreFact]) -> Vec<Param> {
    vec![column(facts, |f| head_of(&f.agent)), column(facts, |f| f.n), column(facts, packed::pack)]
}

/// What the wallet says of an agent with these facts and this track record, written once.
pub(crate) fn first_mark(facts: &[ScoreFact], record: &str) -> Vec<u8> {
    let tag = tag_of(&StoredRecord { version: 1, body: record.to_owned() });
    packed::mark_bytes(facts.last().map(ScoreFact::mark).as_ref(), Some(&tag))
}

impl Postgres {
    pub(crate) async fn counted(
        &self,
        agent: AgentId,
        key: RecordKey,
        now: Timestamp,
    ) -> Result<(Option<StoredRecord>, Counted), StoreError> {
        let (agent, since) = (bytes_of(&agent), now.minus(SCORE_WINDOW).as_ms());
        let route = key.route.as_str();
        let rows = self.ask(RECORD_COUNTED, &[&route, &key.kind, &key.id, &agent, &since]).await?;
        let Some(row) = rows.first() else { return Ok((None, Counted::default())) };
        let version: Option<i64> = row.get(0);
        let record = version.map(|version| StoredRecord { version, body: row.get(1) });
        Ok((record, counted_in(row, 2)?))
    }

    pub(crate) async fn score_facts(
        &self,
        agent: AgentId,
        after: (i64, i64),
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        self.facts_found(AFTER, agent, after, limit).await
    }

    pub(crate) async fn score_facts_latest(
        &self,
        agent: AgentId,
        before: (i64, i64),
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        let (at, n) = (before.0, before.1.saturating_sub(1));
        self.facts_found(BEFORE, agent, (at, n), limit).await
    }

    async fn facts_found(
        &self,
        sql: &'static str,
        agent: AgentId,
        (at, n): (i64, i64),
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        let (name, earlier) = (bytes_of(&agent), at.saturating_sub(1));
        let rows = self.ask(sql, &[&name, &at, &earlier, &n, &(limit as i64)]).await?;
        rows.iter().map(|row| packed::unpack(row.get(0), row.get(1))).collect()
    }
}
