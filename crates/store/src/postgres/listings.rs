//! The index of listings on PostgreSQL, and sealed payloads.

use skep_base::AgentId;
use tokio_postgres::Row;

use super::{
    Postgres,
    flush::{Batch, Param, column},
    unavailable,
};
use crate::{
    error::StoreError,
    group::Group,
    listing::{
        self, COUNTED_MAX, Counted, ListingFilter, ListingPage, ListingPlace, ListingRow,
        PAYLOADS_DROPPED, TermEntry, Walk,
    },
};

const UPSERT_LISTINGS: &str = "
    insert into listings (id, agent_id, payee, capability, payment_mode, rank, price,
                          max_latency_ms, verification, clarifies, audited, first_free,
                          success_bps)
    select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[],
                         $7::bigint[], $8::bigint[], $9::bigint[], $10::bool[], $11::bool[],
                         $12::bool[], $13::bigint[])
    on conflict (id) do update set
        agent_id = excluded.agent_id, payee = excluded.payee, capability = excluded.capability,
        payment_mode = excluded.payment_mode, rank = excluded.rank, price = excluded.price,
        max_latency_ms = excluded.max_latency_ms, verification = excluded.verification,
        clarifies = excluded.clarifies, audited = excluded.audited,
        first_free = excluded.first_free, success_bps = excluded.success_bps";
const DELETE_LISTINGS: &str = "delete from listings where id = any($1)";
const DELETE_TERMS: &str = "
    delete from listing_terms t
    using unnest($1::text[], $2::bigint[], $3::text[]) w (term, place, listing_id)
    where t.term = w.term and t.place = w.place and t.listing_id = w.listing_id";
const INSERT_TERMS: &str = "
    insert into listing_terms (term, place, listing_id)
    select * from unnest($1::text[], $2::bigint[], $3::text[])
    on conflict (term, place, listing_id) do nothing";
const INSERT_PAYLOADS: &str = "
    insert into payloads (receipt_id, sealed, expires_at)
    select * from unnest($1::text[], $2::bytea[], $3::bigint[])
    on conflict (receipt_id) do nothing";

const PLACES: &str = "
    select place, listing_id from listing_terms
    where term = $1 and (place, listing_id) > ($2, $3)
    order by place, listing_id limit $4";
/// What has a limit is read first and in order, whatever the planner thinks of it.
const LOOK: &str = "
    select l.id, l.agent_id, l.payee, l.capability, l.payment_mode, l.rank, l.price,
           l.max_latency_ms, l.verification, l.clarifies, l.audited, l.first_free, l.success_bps,
           case when cardinality($5::text[]) = 0 then 0 else (
               select count(*) from listing_terms x
               where x.term = any($5) and x.place = t.place and x.listing_id = t.listing_id)
           end
    from (select place, listing_id from listing_terms
          where term = $1 and (place, listing_id) > ($2, $3)
          order by place, listing_id limit $4) t
    join listings l on l.id = t.listing_id order by t.place, t.listing_id";
/// Each term's listings, counted up to a bound.
const COUNT: &str = "
    select counted.found, counted.place
    from unnest($1::text[]) with ordinality w (term, n) cross join lateral (
        select count(*) found, coalesce(max(place), 0) place from (
            select place from listing_terms where term = w.term order by place limit $2) first
        ) counted
    order by w.n";
/// Jumps from each term to the next one: what lies between is not read.
const TERMS: &str = "
    with recursive found (term, n) as (
        (select term, 1::bigint from listing_terms where term > $1 and term < $2
         order by term limit 1)
        union all
        select (select x.term from listing_terms x where x.term > found.term and x.term < $2
                order by x.term limit 1), n + 1
        from found where found.term is not null and n < $3)
    select term from found where term is not null";

pub(super) fn add_listings(batch: &mut Batch, group: &Group) {
    let payloads = &group.payloads;
    if !payloads.is_empty() {
        let params = vec![
            column(payloads, |p| p.receipt_id.clone()),
            column(payloads, |p| p.sealed.clone()),
            column(payloads, |p| p.expires_at.as_ms()),
        ];
        batch.add(INSERT_PAYLOADS, params);
    }
    if group.listings.is_empty() {
        return;
    }
    let gone = group.listings.gone();
    if !gone.is_empty() {
        batch.add(DELETE_LISTINGS, vec![column(&gone, |id| (*id).clone())]);
    }
    let rows = group.listings.rows();
    if !rows.is_empty() {
        batch.add(UPSERT_LISTINGS, row_columns(&rows));
    }
    let (out, new) = group.listings.terms();
    for (sql, entries) in [(DELETE_TERMS, out), (INSERT_TERMS, new)] {
        if !entries.is_empty() {
            batch.add(sql, term_columns(&entries));
        }
    }
}

fn row_columns(rows: &[&ListingRow]) -> Vec<Param> {
    vec![
        column(rows, |r| r.id.clone()),
        column(rows, |r| r.agent_id.clone()),
        column(rows, |r| r.payee.clone()),
        column(rows, |r| r.capability.clone()),
        column(rows, |r| r.payment_mode.clone()),
        column(rows, |r| r.rank),
        column(rows, |r| r.price),
        column(rows, |r| r.max_latency_ms),
        column(rows, |r| r.verification),
        column(rows, |r| r.clarifies),
        column(rows, |r| r.audited),
        column(rows, |r| r.first_free),
        column(rows, |r| r.success_bps),
    ]
}

fn term_columns(entries: &[TermEntry]) -> Vec<Param> {
    vec![
        column(entries, |(term, _, _)| term.clone()),
        column(entries, |(_, place, _)| *place),
        column(entries, |(_, _, id)| id.clone()),
    ]
}

impl Postgres {
    pub(crate) async fn search_listings(
        &self,
        mut terms: Vec<String>,
        filter: ListingFilter,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<ListingPage, StoreError> {
        let Some(rarest) = self.rarest(&terms).await? else { return Ok(ListingPage::default()) };
        let walked = terms.swap_remove(rarest);
        let mut walk = Walk::new(filter, terms.len(), after, limit);
        while let Some((place, id, rows)) = walk.next_look() {
            let seen = self.ask(LOOK, &[&walked, &place, &id, &rows, &terms]).await?;
            walk.take(seen.iter().map(|row| (listing_row(row), row.get(13))).collect());
        }
        Ok(walk.page())
    }

    pub(crate) async fn listing_places(
        &self,
        term: String,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<Vec<ListingPlace>, StoreError> {
        let (place, id) = listing::begin(after);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let seen = self.ask(PLACES, &[&term, &place, &id, &limit]).await?;
        Ok(seen.iter().map(|row| listing::entry(row.get(0), row.get(1))).collect())
    }

    /// Which of the terms the fewest listings have, as far as they are counted.
    async fn rarest(&self, terms: &[String]) -> Result<Option<usize>, StoreError> {
        if terms.len() < 2 {
            return Ok((!terms.is_empty()).then_some(0));
        }
        let counts = self.ask(COUNT, &[&terms, &COUNTED_MAX]).await?;
        let of = |row: &Row| Counted { found: row.get(0), place: row.get(1) };
        let counted: Vec<Counted> = counts.iter().map(of).collect();
        Ok(Counted::rarest(&counted))
    }

    pub(crate) async fn listing_terms(
        &self,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let end = format!("{prefix}\u{10ffff}");
        let rows = self.ask(TERMS, &[&prefix, &end, &(limit as i64)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn agents_paid_at(
        &self,
        payee: AgentId,
    ) -> Result<Option<(String, String)>, StoreError> {
        let sql = "select min(agent_id), max(agent_id) from listings where payee = $1";
        let rows = self.ask(sql, &[&payee.to_string()]).await?;
        let ends = rows.first().map(|row| (row.get(0), row.get(1)));
        Ok(ends.and_then(|(first, last): (Option<String>, Option<String>)| first.zip(last)))
    }

    pub(crate) async fn payload(&self, receipt_id: String) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "select sealed from payloads where receipt_id = $1";
        let rows = self.ask(sql, &[&receipt_id]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    pub(crate) async fn drop_payloads(&self) -> Result<usize, StoreError> {
        let now = self.now().await?;
        let client = self.client().await?;
        let sql = "delete from payloads where receipt_id in (
                       select receipt_id from payloads where expires_at <= $1 limit $2
                       for update skip locked)";
        let most = PAYLOADS_DROPPED as i64;
        let hit = client.execute(sql, &[&now.as_ms(), &most]).await.map_err(unavailable)?;
        Ok(usize::try_from(hit).unwrap_or(usize::MAX))
    }
}

fn listing_row(row: &Row) -> ListingRow {
    ListingRow {
        id: row.get(0),
        agent_id: row.get(1),
        payee: row.get(2),
        capability: row.get(3),
        payment_mode: row.get(4),
        rank: row.get(5),
        price: row.get(6),
        max_latency_ms: row.get(7),
        verification: row.get(8),
        clarifies: row.get(9),
        audited: row.get(10),
        first_free: row.get(11),
        success_bps: row.get(12),
    }
}
