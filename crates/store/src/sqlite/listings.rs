//! The index of listings on SQLite, and sealed payloads.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_base::AgentId;

use super::{READ_AGE_MAX, Sqlite, writer::WorkError};
use crate::{
    error::StoreError,
    group::Group,
    listing::{
        self, COUNTED_MAX, Counted, ListingFilter, ListingPage, ListingPlace, ListingRow,
        PAYLOADS_DROPPED, Walk,
    },
};

/// Writes what the group's calls did to the index, and what they keep sealed.
pub(super) fn write(conn: &Connection, group: &Group) -> Result<(), WorkError> {
    for payload in &group.payloads {
        conn.prepare_cached(
            "insert into payloads (receipt_id, sealed, expires_at) values (?1, ?2, ?3)
             on conflict (receipt_id) do nothing",
        )?
        .execute((&payload.receipt_id, &payload.sealed, payload.expires_at.as_ms()))?;
    }
    if group.listings.is_empty() {
        return Ok(());
    }
    for id in group.listings.gone() {
        conn.prepare_cached("delete from listings where id = ?1")?.execute([id])?;
    }
    for row in group.listings.rows() {
        write_row(conn, row)?;
    }
    let (out, new) = group.listings.terms();
    for (term, place, id) in out {
        conn.prepare_cached(
            "delete from listing_terms where term = ?1 and place = ?2 and listing_id = ?3",
        )?
        .execute((term, place, id))?;
    }
    for (term, place, id) in new {
        write_term(conn, &term, place, &id)?;
    }
    Ok(())
}

/// A row that is there keeps its number, which its terms know.
pub(crate) fn write_row(conn: &Connection, row: &ListingRow) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "insert into listings
             (id, agent_id, payee, capability, payment_mode, rank, price, max_latency_ms,
              verification, clarifies, audited, first_free, success_bps)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
         on conflict (id) do update set
             agent_id = ?2, payee = ?3, capability = ?4, payment_mode = ?5, rank = ?6, price = ?7,
             max_latency_ms = ?8, verification = ?9, clarifies = ?10, audited = ?11,
             first_free = ?12, success_bps = ?13",
    )?
    .execute(params![
        row.id,
        row.agent_id,
        row.payee,
        row.capability,
        row.payment_mode,
        row.rank,
        row.price,
        row.max_latency_ms,
        row.verification,
        row.clarifies,
        row.audited,
        row.first_free,
        row.success_bps
    ])
    .map(drop)
}

/// The term of a row that is written.
pub(crate) fn write_term(
    conn: &Connection,
    term: &str,
    place: i64,
    id: &str,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "insert into listing_terms (term, place, listing_id, n)
         values (?1, ?2, ?3, (select n from listings where id = ?3))
         on conflict (term, place, listing_id) do nothing",
    )?
    .execute((term, place, id))
    .map(drop)
}

impl Sqlite {
    pub(crate) async fn search_listings(
        self: &Arc<Self>,
        terms: Vec<String>,
        filter: ListingFilter,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<ListingPage, StoreError> {
        self.read(READ_AGE_MAX, move |conn| search(conn, terms, filter, after, limit)).await
    }

    pub(crate) async fn listing_places(
        self: &Arc<Self>,
        term: String,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<Vec<ListingPlace>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let (place, id) = listing::begin(after);
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            conn.prepare_cached(
                "select place, listing_id from listing_terms
                 where term = ?1 and (place, listing_id) > (?2, ?3)
                 order by place, listing_id limit ?4",
            )?
            .query_map((term, place, id, limit), |row| {
                Ok(listing::entry(row.get(0)?, row.get(1)?))
            })?
            .collect()
        })
        .await
    }

    /// Jumps from each term to the next one: what lies between is not read.
    pub(crate) async fn listing_terms(
        self: &Arc<Self>,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let mut next = conn.prepare_cached(
                "select term from listing_terms where term > ?1 and term < ?2
                 order by term limit 1",
            )?;
            let mut found: Vec<String> = Vec::new();
            let end = format!("{prefix}\u{10ffff}");
            while found.len() < limit {
                let last = found.last().unwrap_or(&prefix);
                let term = next.query_row((last, &end), |row| row.get(0)).optional()?;
                let Some(term) = term else { break };
                found.push(term);
            }
            Ok(found)
        })
        .await
    }

    pub(crate) async fn agents_paid_at(
        self: &Arc<Self>,
        payee: AgentId,
    ) -> Result<Option<(String, String)>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let end = |sql: &str| -> rusqlite::Result<Option<String>> {
                conn.prepare_cached(sql)?.query_row([payee.to_string()], |row| row.get(0))
            };
            let first = end("select min(agent_id) from listings where payee = ?1")?;
            let last = end("select max(agent_id) from listings where payee = ?1")?;
            Ok(first.zip(last))
        })
        .await
    }

    pub(crate) async fn payload(
        self: &Arc<Self>,
        receipt_id: String,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached("select sealed from payloads where receipt_id = ?1")?
                .query_row([receipt_id], |row| row.get(0))
                .optional()
        })
        .await
    }

    pub(crate) async fn drop_payloads(&self) -> Result<usize, StoreError> {
        self.submit(|desk| {
            let sql = "delete from payloads where receipt_id in (
                           select receipt_id from payloads where expires_at <= ?1 limit ?2)";
            let most = PAYLOADS_DROPPED as i64;
            Ok(desk.conn.prepare_cached(sql)?.execute((desk.now.as_ms(), most))?)
        })
        .await
    }
}

fn search(
    conn: &Connection,
    mut terms: Vec<String>,
    filter: ListingFilter,
    after: Option<ListingPlace>,
    limit: usize,
) -> rusqlite::Result<ListingPage> {
    let Some(rarest) = rarest(conn, &terms)? else { return Ok(ListingPage::default()) };
    let walked = terms.swap_remove(rarest);
    let others = serde_json::to_string(&terms).unwrap_or_default();
    let mut walk = Walk::new(filter, terms.len(), after, limit);
    // What has a limit is read first and in order, whatever the planner thinks of it.
    let mut look = conn.prepare_cached(
        "select l.id, l.agent_id, l.payee, l.capability, l.payment_mode, l.rank, l.price,
                l.max_latency_ms, l.verification, l.clarifies, l.audited, l.first_free,
                l.success_bps,
                case when ?5 = '[]' then 0 else (
                    select count(*) from json_each(?5) o cross join listing_terms x
                    where x.term = o.value and x.place = t.place and x.listing_id = t.listing_id)
                end
         from (select place, listing_id, n from listing_terms
               where term = ?1 and (place, listing_id) > (?2, ?3)
               order by place, listing_id limit ?4) t
         cross join listings l on l.n = t.n and +l.id = t.listing_id
         order by t.place, t.listing_id",
    )?;
    while let Some((place, id, rows)) = walk.next_look() {
        let seen = look
            .query_map(params![walked, place, id, rows, others], |row| {
                Ok((listing_row(row)?, row.get(13)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        walk.take(seen);
    }
    Ok(walk.page())
}

/// Which of the terms the fewest listings have, as far as they are counted.
fn rarest(conn: &Connection, terms: &[String]) -> rusqlite::Result<Option<usize>> {
    if terms.len() < 2 {
        return Ok((!terms.is_empty()).then_some(0));
    }
    let mut count = conn.prepare_cached(
        "select count(*), coalesce(max(place), 0)
         from (select place from listing_terms where term = ?1 order by place limit ?2)",
    )?;
    let mut counted = Vec::with_capacity(terms.len());
    for term in terms {
        let of = |row: &Row<'_>| Ok(Counted { found: row.get(0)?, place: row.get(1)? });
        counted.push(count.query_row((term, COUNTED_MAX), of)?);
    }
    Ok(Counted::rarest(&counted))
}

fn listing_row(row: &Row<'_>) -> rusqlite::Result<ListingRow> {
    Ok(ListingRow {
        id: row.get(0)?,
        agent_id: row.get(1)?,
        payee: row.get(2)?,
        capability: row.get(3)?,
        payment_mode: row.get(4)?,
        rank: row.get(5)?,
        price: row.get(6)?,
        max_latency_ms: row.get(7)?,
        verification: row.get(8)?,
        clarifies: row.get(9)?,
        audited: row.get(10)?,
        first_free: row.get(11)?,
        success_bps: row.get(12)?,
    })
}
