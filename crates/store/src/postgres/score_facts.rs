//! What counts for a score, on PostgreSQL.

mod packed;

use std::{collections::BTreeMap, time::Duration};

use deadpool_postgres::Object;
use skep_base::{AgentId, Timestamp};
use tokio_postgres::{Row, types::ToSql};

use super::{
    Postgres,
    bases::Bases,
    flush::{Batch, Param, column},
    lane::GroupError,
    load::parsed,
};
use crate::{
    error::StoreError,
    group::Group,
    score_fact::{Counted, SCORE_WINDOW, ScoreFact, ScoreMark},
    turn::{Lock, RecordKey, StoredRecord},
};

/// Held until the transaction is over, in the order of the numbers. A row would have to be written
/// to be locked, and mostly a track record stays as it is.
const LOCKED: &str = "
    select case w.exclusive when true then cast(pg_advisory_xact_lock(w.number) as text)
           else cast(pg_advisory_xact_lock_shared(w.number) as text) end
    from unnest($1::bigint[], $2::bool[]) w (number, exclusive)";
/// The time, and for each agent its last fact.
const LAST: &str = "
    select coalesce($2::bigint, greatest($3::bigint, cast(
               extract(epoch from clock_timestamp()) * 1000 as bigint))),
           w.agent_id, l.*
    from unnest($1::text[]) w (agent_id)
    left join lateral (
        select n, at, body
        from score_facts x where x.agent_id = w.agent_id order by x.n desc limit 1) l on true";
/// Besides, the last one before the window at that time, and when the first one within it was.
const COUNTED: &str = "
    with told (now) as materialized (
        select coalesce($2::bigint, greatest($3::bigint, cast(
            extract(epoch from clock_timestamp()) * 1000 as bigint))))
    select told.now, w.agent_id, l.*, f.*, o.*
    from told cross join unnest($1::text[]) w (agent_id)
    left join lateral (
        select n, at, body
        from score_facts x where x.agent_id = w.agent_id order by x.n desc limit 1) l on true
    left join lateral (
        select fact_number(w.agent_id, told.now - $4::bigint) as n where l.n is not null) b on true
    left join lateral (
        select body from score_facts x where x.agent_id = w.agent_id and x.n = b.n) f on true
    left join lateral (
        select at as oldest_at
        from score_facts x where x.agent_id = w.agent_id and x.n = b.n + 1) o on true";
/// An agent's record, its last fact and the last one before the window, from one snapshot.
const RECORD_COUNTED: &str = "
    select r.version, r.body, l.*, f.*
    from (select 1) one
    left join records r on r.route_key = $1 and r.kind = $2 and r.id = $3
    left join lateral (
        select n, at, body
        from score_facts x where x.agent_id = $4 order by x.n desc limit 1) l on true
    left join lateral (
        select body
        from score_facts x where x.agent_id = $4 and x.n = fact_number($4, $5)) f on true";
pub(crate) const INSERT_FACTS: &str = "
    insert into score_facts (agent_id, n, at, body)
    select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])";
/// Later than a time, or of that time with a higher number.
const AFTER: &str = "
    select n, at, body from score_facts where agent_id = $1
        and n > (select least(fact_number($1, $2), greatest(fact_number($1, $3), $4::bigint)))
    order by n limit $5";
const BEFORE: &str = "
    select n, at, body from score_facts where agent_id = $1
        and n <= (select least(fact_number($1, $2), greatest(fact_number($1, $3), $4::bigint)))
    order by n desc limit $5";

/// Prepared beforehand, so that the question leaves together with its neighbours.
pub(super) async fn prepare(client: &Object) -> Result<(), tokio_postgres::Error> {
    for sql in [LOCKED, LAST, COUNTED] {
        client.prepare_cached(sql).await?;
    }
    Ok(())
}

/// Locks agents' facts.
pub(super) async fn lock(
    client: &Object,
    facts: &BTreeMap<AgentId, Lock>,
) -> Result<(), GroupError> {
    let held = facts.iter().filter(|(_, lock)| **lock != Lock::None);
    let mut locks: Vec<(i64, bool)> =
        held.map(|(agent, lock)| (lock_number(agent), *lock == Lock::Exclusive)).collect();
    if locks.is_empty() {
        return Ok(());
    }
    // Two that have one number are locked as the stricter one of them wants.
    locks.sort_unstable_by_key(|(number, exclusive)| (*number, !exclusive));
    let (numbers, exclusive): (Vec<i64>, Vec<bool>) = locks.into_iter().unzip();
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let statement = client.prepare_cached(LOCKED).await.map_err(failed)?;
    client.query(&statement, &[&numbers, &exclusive]).await.map_err(failed)?;
    Ok(())
}

/// Agents' names are hashes. Two with the same number wait for each other now and then.
fn lock_number(agent: &AgentId) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = agent.0;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Which time it is, and what was counted of the agents then.
pub(super) async fn counted(
    client: &Object,
    agents: &[AgentId],
    bases: &mut Bases,
    fixed: Option<i64>,
    least: i64,
) -> Result<(Timestamp, Vec<(AgentId, Counted)>), GroupError> {
    if agents.iter().all(|agent| bases.knows(agent)) {
        let (now, rows) = ask(client, LAST, agents, (fixed, least)).await?;
        let told = |row: &Row| {
            let (agent, last) = (parsed(row, 1)?, last_in(row, 2).map_err(refused)?);
            Ok(bases.at(&agent, now).map(|base| (agent, Counted { last, base })))
        };
        let counted = rows.iter().map(told).collect::<Result<Option<Vec<_>>, GroupError>>()?;
        // Which time it is was not known before: now and then somebody's window has moved.
        if let Some(counted) = counted {
            return Ok((now, counted));
        }
    }
    let (now, rows) = ask(client, COUNTED, agents, (fixed, least)).await?;
    let counted = rows.iter().map(|row| {
        let (agent, counted) = (parsed(row, 1)?, counted_in(row, 2).map_err(refused)?);
        let oldest: Option<i64> = row.get(6);
        bases.keep(agent, counted.base, now, oldest.map(Timestamp::from_ms));
        Ok((agent, counted))
    });
    Ok((now, counted.collect::<Result<_, GroupError>>()?))
}

fn refused(error: StoreError) -> GroupError {
    GroupError::Refused(error.to_string())
}

async fn ask(
    client: &Object,
    sql: &'static str,
    agents: &[AgentId],
    (fixed, least): (Option<i64>, i64),
) -> Result<(Timestamp, Vec<Row>), GroupError> {
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let statement = client.prepare_cached(sql).await.map_err(failed)?;
    let names: Vec<String> = agents.iter().map(ToString::to_string).collect();
    let window = window_ms(SCORE_WINDOW);
    let mut params: Vec<&(dyn ToSql + Sync)> = vec![&names, &fixed, &least];
    if sql == COUNTED {
        params.push(&window);
    }
    let rows = client.query(&statement, &params).await.map_err(failed)?;
    match rows.first() {
        Some(first) => Ok((Timestamp::from_ms(first.get(0)), rows)),
        None => Err(GroupError::Refused("nobody's facts were asked for".to_owned())),
    }
}

/// The last fact from a column on.
fn last_in(row: &Row, first: usize) -> Result<Option<ScoreMark>, StoreError> {
    let n: Option<i64> = row.get(first);
    n.map(|n| packed::mark(n, Timestamp::from_ms(row.get(first + 1)), row.get(first + 2)))
        .transpose()
}

/// The last fact from a column on, then the one whose sums are those before the window.
fn counted_in(row: &Row, first: usize) -> Result<Counted, StoreError> {
    let before: Option<&[u8]> = row.get(first + 3);
    let base = before.map(packed::totals).transpose()?.unwrap_or_default();
    Ok(Counted { last: last_in(row, first)?, base })
}

fn window_ms(window: Duration) -> i64 {
    i64::try_from(window.as_millis()).unwrap_or(i64::MAX)
}

pub(super) fn add_facts(batch: &mut Batch, group: &Group) {
    let facts = &group.new_facts;
    if facts.is_empty() {
        return;
    }
    batch.add(INSERT_FACTS, columns(facts));
}

/// What [`INSERT_FACTS`] takes.
pub(crate) fn columns(facts: &[ScoreFact]) -> Vec<Param> {
    vec![
        column(facts, |f| f.agent.to_string()),
        column(facts, |f| f.n),
        column(facts, |f| f.at.as_ms()),
        column(facts, packed::pack),
    ]
}

impl Postgres {
    pub(crate) async fn counted(
        &self,
        agent: AgentId,
        key: RecordKey,
        now: Timestamp,
    ) -> Result<(Option<StoredRecord>, Counted), StoreError> {
        let (agent, since) = (agent.to_string(), now.minus(SCORE_WINDOW).as_ms());
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
        let (name, earlier) = (agent.to_string(), at.saturating_sub(1));
        let rows = self.ask(sql, &[&name, &at, &earlier, &n, &(limit as i64)]).await?;
        let fact = |row: &Row| {
            packed::unpack(agent, row.get(0), Timestamp::from_ms(row.get(1)), row.get(2))
        };
        rows.iter().map(fact).collect()
    }
}
