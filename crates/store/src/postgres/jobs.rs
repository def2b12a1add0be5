//! Leases, ends and failures of jobs on PostgreSQL, and what is dropped by expiry.

use std::{collections::BTreeMap, time::Duration};

use skep_base::Timestamp;
use tokio_postgres::Transaction;

use super::{Postgres, load::parsed, unavailable};
use crate::{
    error::StoreError,
    job::{
        BREAKER_FAILURES, CANDIDATES_MAX, Destination, JOBS_PER_DESTINATION_MAX, Job, Room,
        breaker_pause, choose,
    },
    turn::RouteKey,
};

/// Rows younger than this are not summed up yet: a transaction under way may still add some.
const ROLL_UP_AGE: Duration = Duration::from_secs(3600);

/// A destination that has all it may have is left out here: its jobs must not hide others.
const DUE: &str = "
    select route_key, id, kind, destination, due_at, body, attempts + 1 from jobs
    where not dead and due_at <= $1 and leased_until <= $1
      and destination not in (select destination from breakers where open_until > $1)
      and destination not in (
          select j.destination from jobs j
          left join breakers b on b.destination = j.destination
          where j.leased_until > 0 and j.leased_until > $1 and j.destination <> ''
          group by j.destination, b.failures
          having count(*) >= case when b.failures >= $3 then 1 else $4::bigint end)
    order by (destination <> ''), due_at limit $2 for update skip locked";
const ROLL_UP: &str = "
    insert into rollups (account, upto, posted)
    select account, $1, cast(sum(posted) as bigint) from (
        select account, posted from rollups
        union all
        select credit_account, amount from transfers t
        where (credit_account like 'fees:%' or credit_account like 'external:%')
          and kind in ('posted', 'post') and at < $1
          and at >= coalesce((select upto from rollups where account = t.credit_account), 0)
        union all
        select debit_account, -amount from transfers t
        where (debit_account like 'fees:%' or debit_account like 'external:%')
          and kind in ('posted', 'post') and at < $1
          and at >= coalesce((select upto from rollups where account = t.debit_account), 0)
    ) lines group by account
    on conflict (account) do update set upto = excluded.upto, posted = excluded.posted";

impl Postgres {
    pub(crate) async fn lease_jobs(
        &self,
        room: Room,
        lease: Duration,
    ) -> Result<Vec<Job>, StoreError> {
        let now = self.now().await?;
        let mut client = self.client().await?;
        let tx = client.transaction().await.map_err(unavailable)?;
        let (failures, most) = (BREAKER_FAILURES, JOBS_PER_DESTINATION_MAX as i64);
        let rows = tx
            .query(DUE, &[&now.as_ms(), &CANDIDATES_MAX, &failures, &most])
            .await
            .map_err(unavailable)?;
        let mut due = Vec::new();
        for row in &rows {
            due.push(Job {
                route: RouteKey::of(row.get::<_, &str>(0)),
                id: parsed(row, 1)?,
                kind: row.get(2),
                destination: row.get(3),
                due_at: Timestamp::from_ms(row.get(4)),
                body: row.get(5),
                attempts: row.get(6),
            });
        }
        if due.is_empty() {
            return Ok(due);
        }
        let chosen = choose(due, destinations(&tx, now).await?, now, room);
        for job in &chosen {
            tx.execute(
                "update jobs set attempts = $3, leased_until = $4
                 where route_key = $1 and id = $2",
                &[
                    &job.route.as_str(),
                    &job.id.to_string(),
                    &job.attempts,
                    &now.plus(lease).as_ms(),
                ],
            )
            .await
            .map_err(unavailable)?;
        }
        tx.commit().await.map_err(unavailable)?;
        Ok(chosen)
    }

    pub(crate) async fn finish_job(&self, job: Job) -> Result<bool, StoreError> {
        let client = self.client().await?;
        let sql = "with ended as (
                       delete from jobs where route_key = $1 and id = $2 and attempts = $3
                       returning 1),
                   closed as (delete from breakers where destination = $4)
                   select count(*) from ended";
        let (route, id) = (job.route.as_str(), job.id.to_string());
        let row = client
            .query_one(sql, &[&route, &id, &job.attempts, &job.destination])
            .await
            .map_err(unavailable)?;
        Ok(row.get::<_, i64>(0) == 1)
    }

    pub(crate) async fn fail_job(
        &self,
        job: Job,
        error: String,
        retry_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let now = self.now().await?;
        let mut client = self.client().await?;
        let tx = client.transaction().await.map_err(unavailable)?;
        let sql = "update jobs set due_at = $4, last_error = $5, dead = $6, leased_until = 0
                   where route_key = $1 and id = $2 and attempts = $3";
        let (route, id) = (job.route.as_str(), job.id.to_string());
        let due = retry_at.unwrap_or(job.due_at).as_ms();
        let dead = retry_at.is_none();
        let hit = tx
            .execute(sql, &[&route, &id, &job.attempts, &due, &error, &dead])
            .await
            .map_err(unavailable)?;
        if hit == 1 && !job.destination.is_empty() {
            let sql = "insert into breakers as b (destination, failures, open_until)
                       values ($1, 1, 0)
                       on conflict (destination) do update set failures = b.failures + 1
                       returning failures";
            let row = tx.query_one(sql, &[&job.destination]).await.map_err(unavailable)?;
            let until = now.plus(breaker_pause(row.get(0))).as_ms();
            let sql = "update breakers set open_until = $2 where destination = $1";
            tx.execute(sql, &[&job.destination, &until]).await.map_err(unavailable)?;
        }
        tx.commit().await.map_err(unavailable)?;
        Ok(hit == 1)
    }

    pub(crate) async fn drop_expired(&self) -> Result<usize, StoreError> {
        let now = self.now().await?;
        let client = self.client().await?;
        let sql = "delete from guards where (scope, key) in (
                       select scope, key from guards where expires_at <= $1 limit 1000
                       for update skip locked)";
        let hit = client.execute(sql, &[&now.as_ms()]).await.map_err(unavailable)?;
        Ok(usize::try_from(hit).unwrap_or(usize::MAX))
    }

    pub(crate) async fn roll_up(&self) -> Result<(), StoreError> {
        let now = self.now().await?;
        let upto = now.minus(ROLL_UP_AGE).as_ms();
        let mut client = self.client().await?;
        let tx = client.transaction().await.map_err(unavailable)?;
        // Two nodes summing up at once would count a stretch twice.
        tx.batch_execute("lock table rollups in exclusive mode").await.map_err(unavailable)?;
        let newest = "select coalesce(max(upto), 0) from rollups";
        let done: i64 = tx.query_one(newest, &[]).await.map_err(unavailable)?.get(0);
        if done < upto {
            tx.execute(ROLL_UP, &[&upto]).await.map_err(unavailable)?;
        }
        tx.commit().await.map_err(unavailable)
    }
}

async fn destinations(
    tx: &Transaction<'_>,
    now: Timestamp,
) -> Result<BTreeMap<String, Destination>, StoreError> {
    let mut known: BTreeMap<String, Destination> = BTreeMap::new();
    let busy = "select destination, count(*) from jobs
                where leased_until > 0 and leased_until > $1 and destination <> ''
                group by destination";
    for row in tx.query(busy, &[&now.as_ms()]).await.map_err(unavailable)? {
        let under_way = usize::try_from(row.get::<_, i64>(1)).unwrap_or(usize::MAX);
        known.entry(row.get(0)).or_default().under_way = under_way;
    }
    let broken = "select destination, failures, open_until from breakers";
    for row in tx.query(broken, &[]).await.map_err(unavailable)? {
        let entry = known.entry(row.get(0)).or_default();
        entry.failures = row.get(1);
        entry.open_until = row.get(2);
    }
    Ok(known)
}
