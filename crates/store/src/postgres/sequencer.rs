//! Gives events their numbers and their place in the hash chain.
//!
//! Transactions add events unordered, so that no row makes all writers wait. Whoever locks the
//! head of the log numbers what has been committed since, in batches; any node may, one at a time
//! does.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use deadpool_postgres::{Object, Pool};
use skep_base::{Hash32, Timestamp};
use tokio::sync::{Notify, watch};
use tokio_postgres::Row;

use super::{describe, lane::GroupError, load::parsed};
use crate::{
    error::OpenError,
    event::{Event, Head},
    turn::RouteKey,
};

/// Events numbered in one transaction.
const BATCH: i64 = 2000;
/// How long events of other nodes may wait.
const PAUSE: Duration = Duration::from_millis(200);
/// The shortest time between two batches: fewer, larger ones cost the writers less.
const BREATH: Duration = Duration::from_millis(20);

const HEAD_LOCKED: &str = "select seq, hash from log_head where one = 1 for update skip locked";
const HEAD: &str = "select seq, hash from log_head where one = 1";
const UNNUMBERED: &str = "
    select e.id, e.route_key, e.version, e.kind, e.at, e.body, e.notify, u.arrival
    from events_unnumbered u join events e on e.route_key = u.route_key and e.id = u.id
    order by u.arrival limit $1";
const NUMBER: &str = "
    insert into event_numbers (seq, hash, route_key, id)
    select * from unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[])";
const FORGET: &str = "delete from events_unnumbered where arrival = any($1)";
const TELL: &str = "
    insert into inbox (agent_id, seq) select * from unnest($1::text[], $2::bigint[])";
const MOVE_HEAD: &str = "
    with hit as (update log_head set seq = $1, hash = $2 where one = 1 and seq = $3 returning 1)
    select must_change((select count(*) from hit), 1), pg_notify('skep_events', $4)";

pub(super) async fn run(pool: Pool, written: Arc<Notify>, head_seen: watch::Sender<Head>) {
    loop {
        match number_batch(&pool).await {
            Ok((head, full)) => {
                head_seen.send_if_modified(|seen| {
                    let moved = head.seq > seen.seq;
                    if moved {
                        *seen = head;
                    }
                    moved
                });
                if full {
                    continue;
                }
            }
            Err(error) => tracing::warn!(error, "events were not numbered; trying again"),
        }
        // Any write of this node wakes it; writes of nodes that have died, the time.
        let _ = tokio::time::timeout(PAUSE, written.notified()).await;
        tokio::time::sleep(BREATH).await;
    }
}

/// The head afterwards, and whether there may be more to number.
async fn number_batch(pool: &Pool) -> Result<(Head, bool), String> {
    let client = pool.get().await.map_err(|e| e.to_string())?;
    let done = number_on(&client).await;
    if done.is_err() && client.batch_execute("rollback").await.is_err() {
        // A connection in an unknown state is not used again.
        drop(Object::take(client));
    }
    done
}

/// What a batch writes, one entry for each event or line.
#[derive(Default)]
struct Numbers {
    seqs: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    routes: Vec<String>,
    ids: Vec<String>,
    arrivals: Vec<i64>,
    told: Vec<String>,
    told_seqs: Vec<i64>,
}

/// Two round trips: what is sent together is answered in its order, and an error turns the commit
/// behind it into a rollback.
async fn number_on(client: &Object) -> Result<(Head, bool), String> {
    let failed = |e: tokio_postgres::Error| describe(&e);
    let sqls = [HEAD_LOCKED, UNNUMBERED, NUMBER, FORGET, TELL, MOVE_HEAD];
    let mut prepared = Vec::with_capacity(sqls.len());
    for sql in sqls {
        prepared.push(client.prepare_cached(sql).await.map_err(failed)?);
    }
    let [head_locked, unnumbered, give_numbers, forget, tell, move_head] = &prepared[..] else {
        return Err("a statement is missing".to_owned());
    };
    let (_, locked, rows) = futures_util::try_join!(
        client.batch_execute("begin"),
        client.query_opt(head_locked, &[]),
        async { client.query(unnumbered, &[&BATCH]).await },
    )
    .map_err(failed)?;
    let Some(old) = locked.map(|row| head_row(&row)) else {
        // Another node is at it; its result is as good.
        let row = client.query_one(HEAD, &[]).await.map_err(failed)?;
        client.batch_execute("commit").await.map_err(failed)?;
        return Ok((head_row(&row), false));
    };
    if rows.is_empty() {
        client.batch_execute("commit").await.map_err(failed)?;
        return Ok((old, false));
    }
    let (head, n) = number(old, &rows)?;
    let (hash, text) = (head.hash.as_bytes().to_vec(), head.seq.to_string());
    futures_util::try_join!(
        async { client.execute(give_numbers, &[&n.seqs, &n.hashes, &n.routes, &n.ids]).await },
        async { client.execute(forget, &[&n.arrivals]).await },
        async { client.execute(tell, &[&n.told, &n.told_seqs]).await },
        async { client.execute(move_head, &[&head.seq, &hash, &old.seq, &text]).await },
        client.batch_execute("commit"),
    )
    .map_err(failed)?;
    Ok((head, rows.len() as i64 == BATCH))
}

/// Continues the chain.
fn number(mut head: Head, rows: &[Row]) -> Result<(Head, Numbers), String> {
    let mut n = Numbers::default();
    for row in rows {
        let event = event_row(row, 0).map_err(|_| "an event is unreadable".to_owned())?;
        head = head.next(&event);
        n.seqs.push(head.seq);
        n.hashes.push(head.hash.as_bytes().to_vec());
        n.routes.push(event.route.as_str().to_owned());
        n.ids.push(event.id.to_string());
        n.arrivals.push(row.get(7));
        let once: BTreeSet<String> = row.get::<_, Vec<String>>(6).into_iter().collect();
        for agent in once {
            n.told.push(agent);
            n.told_seqs.push(head.seq);
        }
    }
    Ok((head, n))
}

/// Where the log ends now.
pub(super) async fn head(pool: &Pool) -> Result<Head, OpenError> {
    let client = pool.get().await.map_err(|e| OpenError::Failed(e.to_string()))?;
    let row = client.query_one(HEAD, &[]).await;
    row.map(|row| head_row(&row)).map_err(|e| OpenError::Failed(describe(&e)))
}

pub(super) fn head_row(row: &Row) -> Head {
    let hash: &[u8] = row.get(1);
    Head { seq: row.get(0), hash: Hash32(hash.try_into().unwrap_or([0; 32])) }
}

/// An event whose columns (id, route, version, kind, at, body) begin at `first`.
pub(super) fn event_row(row: &Row, first: usize) -> Result<Event, GroupError> {
    Ok(Event {
        id: parsed(row, first)?,
        route: RouteKey::of(row.get::<_, &str>(first + 1)),
        version: row.get(first + 2),
        kind: row.get(first + 3),
        at: Timestamp::from_ms(row.get(first + 4)),
        body: row.get(first + 5),
        notify: Vec::new(),
    })
}
