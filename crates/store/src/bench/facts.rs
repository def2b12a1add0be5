//! Many track records at once, for measurements of what counting costs when there are many.

use std::ops::Range;

use rusqlite::{Connection, params};
use skep_base::{AgentId, Asset};
use tokio_postgres::{Client, types::ToSql};

use super::bulk;
use crate::{
    account::AccountId,
    postgres::score_facts::{columns, first_mark, insert_facts},
    score_fact::ScoreFact,
    sqlite::score_facts::write_first,
};

/// An agent's track record as it is stored, and what was counted for it.
#[derive(Clone, Debug)]
pub struct ScoreSample {
    pub agent: AgentId,
    pub record: String,
    pub facts: Vec<ScoreFact>,
}

/// Writes the track records that `make` makes of these numbers into the database at `url`, beside
/// whoever uses it.
pub async fn load_scores(
    url: &str,
    numbers: Range<u64>,
    make: fn(u64) -> ScoreSample,
) -> Result<(), String> {
    bulk::load(url, numbers, make, sqlite, postgres).await
}

fn sqlite(
    conn: &mut Connection,
    numbers: Range<u64>,
    make: fn(u64) -> ScoreSample,
) -> rusqlite::Result<()> {
    for batch in bulk::batches(numbers) {
        let transaction = conn.transaction()?;
        for ScoreSample { agent, record, facts } in batch.map(make) {
            transaction
                .prepare_cached(
                    "insert into records (route_key, kind, id, version, body, updated_at)
                     values (?1, 'score', ?1, 1, ?2, 0)",
                )?
                .execute(params![agent.to_string(), record])?;
            write_first(&transaction, &facts)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

async fn postgres(
    client: Client,
    numbers: Range<u64>,
    make: fn(u64) -> ScoreSample,
) -> Result<Client, tokio_postgres::Error> {
    let records = "
        insert into records (route_key, kind, id, version, body, updated_at)
        select id, 'score', id, 1, body, 0 from unnest($1::text[], $2::text[]) w (id, body)";
    let wallets = "
        insert into accounts (account, purpose, asset, posted, held, debited, owed, counted,
                              version, opened_at)
        select w.account, 'wallet', 'USDC', 0, 0, 0, 0, w.counted, 1, 0
        from unnest($1::text[], $2::bytea[]) w (account, counted)";
    let facts = client.prepare(&insert_facts(1)).await?;
    for batch in bulk::batches(numbers) {
        let samples: Vec<ScoreSample> = batch.map(make).collect();
        let ids: Vec<String> = samples.iter().map(|s| s.agent.to_string()).collect();
        let bodies: Vec<&str> = samples.iter().map(|s| s.record.as_str()).collect();
        client.execute(records, &[&ids, &bodies]).await?;
        let names: Vec<String> =
            samples.iter().map(|s| AccountId::wallet(&s.agent, Asset::USDC).to_string()).collect();
        let marks: Vec<Vec<u8>> = samples.iter().map(|s| first_mark(&s.facts, &s.record)).collect();
        client.execute(wallets, &[&names, &marks]).await?;
        let rows: Vec<ScoreFact> = samples.into_iter().flat_map(|s| s.facts).collect();
        let columns = columns(&rows);
        let params: Vec<&(dyn ToSql + Sync)> =
            columns.iter().map(|c| c.as_ref() as &(dyn ToSql + Sync)).collect();
        client.execute(&facts, &params).await?;
    }
    Ok(client)
}
