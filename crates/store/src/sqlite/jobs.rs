//! Leases, ends and failures of jobs on SQLite, and what is dropped by expiry.

use std::{collections::BTreeMap, time::Duration};

use rusqlite::Connection;
use skep_base::Timestamp;

use super::{Sqlite, apply::parsed, writer::WorkError};
use crate::{
    error::StoreError,
    job::{
        BREAKER_FAILURES, CANDIDATES_MAX, Destination, JOBS_PER_DESTINATION_MAX, Job, Room,
        breaker_pause, choose,
    },
    turn::RouteKey,
};

impl Sqlite {
    pub(crate) async fn lease_jobs(
        &self,
        room: Room,
        lease: Duration,
    ) -> Result<Vec<Job>, StoreError> {
        self.submit(move |desk| {
            let now = desk.now;
            let due = due_jobs(desk.conn, now)?;
            if due.is_empty() {
                return Ok(Vec::new());
            }
            let chosen = choose(due, destinations(desk.conn, now)?, now, room);
            for job in &chosen {
                desk.conn
                    .prepare_cached(
                        "update jobs set attempts = ?3, leased_until = ?4
                         where route_key = ?1 and id = ?2",
                    )?
                    .execute((
                        job.route.as_str(),
                        job.id.to_string(),
                        job.attempts,
                        now.plus(lease).as_ms(),
                    ))?;
            }
            Ok(chosen)
        })
        .await
    }

    pub(crate) async fn finish_job(&self, job: Job) -> Result<bool, StoreError> {
        self.submit(move |desk| {
            let hit = desk
                .conn
                .prepare_cached(
                    "delete from jobs where route_key = ?1 and id = ?2 and attempts = ?3",
                )?
                .execute((job.route.as_str(), job.id.to_string(), job.attempts))?;
            desk.conn
                .prepare_cached("delete from breakers where destination = ?1")?
                .execute([&job.destination])?;
            Ok(hit == 1)
        })
        .await
    }

    pub(crate) async fn fail_job(
        &self,
        job: Job,
        error: String,
        retry_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.submit(move |desk| {
            let due = retry_at.unwrap_or(job.due_at).as_ms();
            let hit = desk
                .conn
                .prepare_cached(
                    "update jobs set due_at = ?4, last_error = ?5, dead = ?6, leased_until = 0
                     where route_key = ?1 and id = ?2 and attempts = ?3",
                )?
                .execute((
                    job.route.as_str(),
                    job.id.to_string(),
                    job.attempts,
                    due,
                    error,
                    retry_at.is_none(),
                ))?;
            if hit == 1 && !job.destination.is_empty() {
                count_failure(desk.conn, &job.destination, desk.now)?;
            }
            Ok(hit == 1)
        })
        .await
    }

    /// Forgets guards that have expired, a batch at a time. Says how many.
    pub(crate) async fn drop_expired(&self) -> Result<usize, StoreError> {
        self.submit(|desk| {
            let sql = "delete from guards where (scope, key) in (
                           select scope, key from guards where expires_at <= ?1 limit 1000)";
            Ok(desk.conn.prepare_cached(sql)?.execute([desk.now.as_ms()])?)
        })
        .await
    }

    /// Sums up the accounts that have no balance row.
    pub(crate) async fn roll_up(&self) -> Result<(), StoreError> {
        self.submit(|desk| {
            let sql = "
                insert into rollups (account, upto, posted)
                select account, max(upto), sum(posted) from (
                    select account, upto, posted from rollups
                    union all
                    select credit_account, n, amount from transfers t
                    where (credit_account like 'fees:%' or credit_account like 'external:%')
                      and kind in ('posted', 'post')
                      and n > coalesce((select upto from rollups
                                        where account = t.credit_account), 0)
                    union all
                    select debit_account, n, -amount from transfers t
                    where (debit_account like 'fees:%' or debit_account like 'external:%')
                      and kind in ('posted', 'post')
                      and n > coalesce((select upto from rollups
                                        where account = t.debit_account), 0)
                ) group by account
                on conflict (account) do update set upto = excluded.upto, posted = excluded.posted";
            desk.conn.prepare_cached(sql)?.execute([])?;
            Ok(())
        })
        .await
    }
}

fn due_jobs(conn: &Connection, now: Timestamp) -> Result<Vec<Job>, WorkError> {
    // A destination that has all it may have is left out here: its jobs must not hide others.
    let per_destination = JOBS_PER_DESTINATION_MAX as i64;
    let jobs = conn
        .prepare_cached(
            "select route_key, id, kind, destination, due_at, body, attempts + 1 from jobs
             where dead = 0 and due_at <= ?1 and leased_until <= ?1
               and destination not in (select destination from breakers where open_until > ?1)
               and destination not in (
                   select j.destination from jobs j
                   left join breakers b on b.destination = j.destination
                   where j.leased_until > 0 and j.leased_until > ?1 and j.destination <> ''
                   group by j.destination, b.failures
                   having count(*) >= case when b.failures >= ?3 then 1 else ?4 end)
             order by (destination <> ''), due_at limit ?2",
        )?
        .query_map((now.as_ms(), CANDIDATES_MAX, BREAKER_FAILURES, per_destination), |row| {
            Ok(Job {
                route: RouteKey::of(row.get_ref(0)?.as_str()?),
                id: parsed(row, 1)?,
                kind: row.get(2)?,
                destination: row.get(3)?,
                due_at: Timestamp::from_ms(row.get(4)?),
                body: row.get(5)?,
                attempts: row.get(6)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(jobs)
}

fn destinations(
    conn: &Connection,
    now: Timestamp,
) -> Result<BTreeMap<String, Destination>, WorkError> {
    let mut known: BTreeMap<String, Destination> = BTreeMap::new();
    let mut busy = conn.prepare_cached(
        "select destination, count(*) from jobs
         where leased_until > 0 and leased_until > ?1 and destination <> ''
         group by destination",
    )?;
    let mut rows = busy.query([now.as_ms()])?;
    while let Some(row) = rows.next()? {
        known.entry(row.get(0)?).or_default().under_way = row.get::<_, i64>(1)? as usize;
    }
    let mut broken =
        conn.prepare_cached("select destination, failures, open_until from breakers")?;
    let mut rows = broken.query([])?;
    while let Some(row) = rows.next()? {
        let entry = known.entry(row.get(0)?).or_default();
        entry.failures = row.get(1)?;
        entry.open_until = row.get(2)?;
    }
    Ok(known)
}

fn count_failure(conn: &Connection, destination: &str, now: Timestamp) -> Result<(), WorkError> {
    let failures: i64 = conn
        .prepare_cached(
            "insert into breakers (destination, failures, open_until) values (?1, 1, 0)
             on conflict (destination) do update set failures = failures + 1
             returning failures",
        )?
        .query_row([destination], |row| row.get(0))?;
    conn.prepare_cached("update breakers set open_until = ?2 where destination = ?1")?
        .execute((destination, now.plus(breaker_pause(failures)).as_ms()))?;
    Ok(())
}
