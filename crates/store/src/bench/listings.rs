//! Many listings at once, for measurements of how a search's cost grows.

use std::ops::Range;

use rusqlite::{Connection, params};
use tokio_postgres::Client;

use super::bulk;
use crate::{
    listing::{Indexed, ListingRow, place},
    sqlite::listings::{write_row, write_term},
};

/// A listing as it is stored: what search knows of it, and its record.
#[derive(Clone, Debug)]
pub struct Sample {
    pub indexed: Indexed,
    pub record: String,
}

/// Writes the listings that `make` makes of these numbers into the database at `url`, beside
/// whoever uses it.
pub async fn load_listings(
    url: &str,
    numbers: Range<u64>,
    make: fn(u64) -> Sample,
) -> Result<(), String> {
    bulk::load(url, numbers, make, sqlite, postgres).await
}

fn sqlite(
    conn: &mut Connection,
    numbers: Range<u64>,
    make: fn(u64) -> Sample,
) -> rusqlite::Result<()> {
    for batch in bulk::batches(numbers) {
        let transaction = conn.transaction()?;
        for Sample { indexed: Indexed { row, terms }, record } in batch.map(make) {
            transaction
                .prepare_cached(
                    "insert into records (route_key, kind, id, version, body, updated_at)
                     values (?1, 'listing', ?1, 1, ?2, 0)",
                )?
                .execute(params![row.id, record])?;
            write_row(&transaction, &row)?;
            for term in &terms {
                write_term(&transaction, term, place(row.rank), &row.id)?;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

async fn postgres(
    client: Client,
    numbers: Range<u64>,
    make: fn(u64) -> Sample,
) -> Result<Client, tokio_postgres::Error> {
    let records = "
        insert into records (route_key, kind, id, version, body, updated_at)
        select id, 'listing', id, 1, body, 0 from unnest($1::text[], $2::text[]) w (id, body)";
    let rows = "
        insert into listings (id, agent_id, payee, capability, payment_mode, rank, price,
                              max_latency_ms, verification, clarifies, audited, first_free,
                              success_bps)
        select id, agent, agent, capability, mode, rank, price, 1000, 0, false, false, false, null
        from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
            w (id, agent, capability, mode, rank, price)";
    let entries = "
        insert into listing_terms (term, place, listing_id)
        select * from unnest($1::text[], $2::bigint[], $3::text[])";
    for batch in bulk::batches(numbers) {
        let samples: Vec<Sample> = batch.map(make).collect();
        let all = |column: fn(&ListingRow) -> &String| -> Vec<&str> {
            samples.iter().map(|s| column(&s.indexed.row).as_str()).collect()
        };
        let number = |column: fn(&ListingRow) -> i64| -> Vec<i64> {
            samples.iter().map(|s| column(&s.indexed.row)).collect()
        };
        let ids = all(|row| &row.id);
        let bodies: Vec<&str> = samples.iter().map(|s| s.record.as_str()).collect();
        client.execute(records, &[&ids, &bodies]).await?;
        let (agents, names) = (all(|row| &row.agent_id), all(|row| &row.capability));
        let modes = all(|row| &row.payment_mode);
        let (ranks, prices) = (number(|row| row.rank), number(|row| row.price));
        client.execute(rows, &[&ids, &agents, &names, &modes, &ranks, &prices]).await?;
        let (mut terms, mut places, mut listings) = (Vec::new(), Vec::new(), Vec::new());
        for Sample { indexed: Indexed { row, terms: own }, .. } in &samples {
            for term in own {
                terms.push(term.as_str());
                places.push(place(row.rank));
                listings.push(row.id.as_str());
            }
        }
        client.execute(entries, &[&terms, &places, &listings]).await?;
    }
    Ok(client)
}
