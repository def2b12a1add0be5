//! How facts are found: from an agent's newest one back.
//!
//! Facts stand in the order in which they were counted, and no index leads to an agent's. Each
//! points to the one before it and to the one whose number is its own without the lowest bit, so
//! any of `n` is reached in some steps for each digit of `n`, and a new one finds what it points
//! to from the one before it.

use rusqlite::{Connection, OptionalExtension, Row, types::Type};
use skep_base::AgentId;

/// A fact with where it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Place {
    pub(in super::super) id: i64,
    pub(in super::super) at: i64,
    pub(in super::super) n: i64,
    pub(in super::super) prev: Option<i64>,
    pub(in super::super) jump: Option<i64>,
}

/// Two neighbours among an agent's facts.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Split {
    pub(in super::super) upto: Option<Place>,
    pub(in super::super) after: Option<Place>,
}

/// An agent's newest fact.
pub(in super::super) fn end(conn: &Connection, agent: &AgentId) -> rusqlite::Result<Option<Place>> {
    let sql = "
        select max(fact) from (
            select fact from score_ends where agent_id = ?1
            union all
            select last_fact from accounts
            where account >= 'wallet:' || ?1 || ':' and account < 'wallet:' || ?1 || ';')";
    let id: Option<i64> =
        conn.prepare_cached(sql)?.query_row([agent.to_string()], |row| row.get(0))?;
    id.map(|id| place(conn, id)).transpose()
}

fn place(conn: &Connection, id: i64) -> rusqlite::Result<Place> {
    let place = |row: &Row<'_>| {
        let (at, n, prev, jump) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Place { id, at, n, prev, jump })
    };
    conn.prepare_cached("select at, n, prev, jump from score_facts where id = ?1")?
        .query_row([id], place)
        .optional()?
        .ok_or_else(|| missing(id))
}

/// A fact that another one points to is never taken away, except by somebody with a tool.
pub(super) fn missing(id: i64) -> rusqlite::Error {
    let reason = format!("there is no fact with the id {id}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, reason.into())
}

/// Where the facts up to `end` part, of which the newer ones are `later` and the older ones not.
pub(in super::super) fn split(
    conn: &Connection,
    end: Option<Place>,
    later: impl Fn(&Place) -> bool,
) -> rusqlite::Result<Split> {
    let (mut upto, mut after) = (end, None);
    while let Some(here) = upto.filter(|here| later(here)) {
        let far = match here.jump {
            Some(jump) if here.jump != here.prev => Some(place(conn, jump)?),
            _ => None,
        };
        // What is not later is only ever reached in a step of one: nothing lies between the two.
        upto = match far.filter(|far| later(far)) {
            Some(far) => Some(far),
            None => here.prev.map(|prev| place(conn, prev)).transpose()?,
        };
        after = Some(here);
    }
    Ok(Split { upto, after })
}

/// Where the fact after `end` jumps to.
pub(super) fn next_jump(conn: &Connection, end: Option<Place>) -> rusqlite::Result<Option<i64>> {
    let Some(mut here) = end else { return Ok(None) };
    let n = here.n + 1;
    let target = n & (n - 1);
    if target == 0 {
        return Ok(None);
    }
    // Jumps from the fact before lead through all that could be meant, one bit after the other.
    while here.n > target {
        let Some(jump) = here.jump else { return Ok(None) };
        if here.n & (here.n - 1) == target {
            return Ok(Some(jump));
        }
        here = place(conn, jump)?;
    }
    Ok(Some(here.id))
}
