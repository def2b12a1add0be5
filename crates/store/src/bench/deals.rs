//! Many deals at once, for measurements of how cost grows: a settled one, copied row for row.
//!
//! The copies are as large and as indexed as real ones. Their events have numbers below zero, so
//! the log's chain does not hold them: such a database is for measuring only.

use rusqlite::{Connection, params};
use tokio_postgres::NoTls;

/// Copies of one statement: enough that its cost is the rows'.
const BATCH: u64 = 10_000;
/// The first digits of the copies' ids, far from the time of real ones.
const FIRST: i64 = 0x0100_0000_0000;

/// What a deal's rows share: its id without the last byte, which numbers its verifications.
const SHARED_LEN: usize = 34;

/// Copies the deal `model` so often into the database at `url`, beside whoever uses it.
pub async fn copy_deals(url: &str, model: &str, count: u64) -> Result<(), String> {
    match url.strip_prefix("sqlite:") {
        Some(path) => {
            let (path, model) = (path.to_owned(), model.to_owned());
            let copied = tokio::task::spawn_blocking(move || sqlite(&path, &model, count));
            copied.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
        }
        None => postgres(url, model, count).await.map_err(|e| e.to_string()),
    }
}

const SQLITE: [&str; 5] = [
    "insert into records (route_key, kind, id, version, body, updated_at)
     select replace(route_key, ?1, new.shared), kind, replace(id, ?1, new.shared), version,
            replace(body, ?1, new.shared), updated_at
     from new join records on route_key = ?2",
    "insert into accounts (account, purpose, asset, posted, held, debited, owed, debit_limit,
                           version, opened_at)
     select replace(account, ?1, new.shared), purpose, asset, posted, held, debited, owed,
            debit_limit, version, opened_at
     from new join accounts on account between 'escrow:' || ?2 and 'escrow:' || ?2 || '~'",
    "insert into transfers (route_key, id, kind, debit_account, credit_account, asset, amount,
                            held_change, pending_id, debt_id, budget_account, at)
     select replace(route_key, ?1, new.shared), id, kind, replace(debit_account, ?1, new.shared),
            replace(credit_account, ?1, new.shared), asset, amount, held_change, pending_id,
            debt_id, budget_account, at
     from new join transfers on route_key = ?2",
    "insert into inbox (agent_id, seq)
     select agent_id, -(new.n * 16 + seq % 16) from new join told
     where ?1 is not null and ?2 is not null",
    "insert into events (seq, hash, id, route_key, version, kind, at, body)
     select -(new.n * 16 + seq % 16), hash, id, replace(route_key, ?1, new.shared), version, kind,
            at, replace(body, ?1, new.shared)
     from new join events on route_key = ?2",
];

fn sqlite(path: &str, model: &str, count: u64) -> rusqlite::Result<()> {
    let mut conn = Connection::open(path)?;
    conn.busy_timeout(std::time::Duration::from_secs(60))?;
    let first = next_place(&conn)?;
    // The inbox is not indexed by event: its part of the model is looked for once.
    conn.execute(
        "create temp table told as select agent_id, seq from inbox where seq in
                  (select seq from events where route_key = ?1)",
        [model],
    )?;
    let mut done = 0;
    while done < count {
        let rows = BATCH.min(count - done);
        let transaction = conn.transaction()?;
        transaction
            .execute_batch("create temp table if not exists new (n integer, shared text)")?;
        transaction.execute("delete from temp.new", [])?;
        transaction.execute(
            "with recursive place (n) as (
                 select ?1 union all select n + 1 from place where n < ?1 + ?2 - 1)
             insert into temp.new
             select n, substr(printf('%012x', ?4 + n), 1, 8) || '-'
                       || substr(printf('%012x', ?4 + n), 9, 4) || substr(?3, 14, 21)
             from place",
            params![first + done as i64, rows as i64, model, FIRST],
        )?;
        for sql in SQLITE {
            transaction.execute(sql, params![&model[..SHARED_LEN], model])?;
        }
        transaction.commit()?;
        done += rows;
    }
    Ok(())
}

/// The first number that no earlier copy has.
fn next_place(conn: &Connection) -> rusqlite::Result<i64> {
    let sql = "select coalesce(-min(seq), 0) / 16 + 1 from events where seq < 0";
    conn.query_row(sql, [], |row| row.get(0))
}

const NEW: &str = "
    with new as (
        select n, substr(lpad(to_hex($5::bigint + n), 12, '0'), 1, 8) || '-'
                  || substr(lpad(to_hex($5::bigint + n), 12, '0'), 9, 4)
                  || substr($2::text, 14, 21) as shared
        from generate_series($3::bigint, $4::bigint) n)";

const POSTGRES: [&str; 6] = [
    "insert into records (route_key, kind, id, version, body, updated_at)
     select replace(route_key, $1::text, shared), kind, replace(id, $1, shared), version,
            replace(body, $1, shared), updated_at
     from new, records where route_key = $2",
    "insert into accounts (account, purpose, asset, posted, held, debited, owed, debit_limit,
                           version, opened_at)
     select replace(account, $1::text, shared), purpose, asset, posted, held, debited, owed,
            debit_limit, version, opened_at
     from new, accounts where account between 'escrow:' || $2 and 'escrow:' || $2 || '~'",
    "insert into transfers (route_key, id, kind, debit_account, credit_account, asset, amount,
                            held_change, pending_id, debt_id, budget_account, at)
     select replace(route_key, $1::text, shared), id, kind, replace(debit_account, $1, shared),
            replace(credit_account, $1, shared), asset, amount, held_change, pending_id, debt_id,
            budget_account, at
     from new, transfers where route_key = $2",
    "insert into inbox (agent_id, seq)
     select agent_id, -(n * 16 + seq % 16) from new, told where $1::text is not null",
    "insert into events (route_key, id, version, kind, at, body, notify)
     select replace(route_key, $1::text, shared), id, version, kind, at,
            replace(body, $1, shared), notify
     from new, events where route_key = $2",
    "insert into event_numbers (seq, hash, route_key, id)
     select -(n * 16 + seq % 16), hash, replace(route_key, $1::text, shared), id
     from new, event_numbers where route_key = $2",
];

async fn postgres(url: &str, model: &str, count: u64) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let place = "select coalesce(-min(seq), 0) / 16 + 1 from event_numbers where seq < 0";
    let first: i64 = client.query_one(place, &[]).await?.get(0);
    let told = "create temp table told as select agent_id, seq from inbox where seq in
                (select seq from event_numbers where route_key = $1)";
    // A statement that makes a table takes no parameters; the id is one of ours.
    client.batch_execute(&told.replace("$1", &format!("'{model}'"))).await?;
    let mut done = 0;
    while done < count {
        let rows = BATCH.min(count - done);
        let from = first + done as i64;
        let to = from + rows as i64 - 1;
        for sql in POSTGRES {
            let shared = &model[..SHARED_LEN];
            let sql = format!("{NEW} {sql}");
            client.execute(&sql, &[&shared, &model, &from, &to, &FIRST]).await?;
        }
        done += rows;
    }
    // What the copying leaves to do is not the deals' to pay for.
    client.batch_execute("vacuum (freeze, analyze)").await?;
    client.batch_execute("checkpoint").await?;
    drop(client);
    connection.abort();
    Ok(())
}
