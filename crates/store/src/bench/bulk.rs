//! Much at once into a database, beside whoever uses it.

use std::{fmt, ops::Range, time::Duration};

use rusqlite::Connection;
use tokio_postgres::{Client, Error, NoTls};

/// Things of one transaction.
const BATCH: u64 = 5_000;

pub(super) fn batches(numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = numbers.end;
    let starts = numbers.step_by(usize::try_from(BATCH).unwrap_or(1));
    starts.map(move |start| start..end.min(start + BATCH))
}

/// Makes a thing of its number.
type Make<T> = fn(u64) -> T;
/// Writes things into SQLite.
type Sqlite<T> = fn(&mut Connection, Range<u64>, Make<T>) -> rusqlite::Result<()>;

/// Writes what `make` makes of these numbers, by the writer of whichever engine it is.
pub(super) async fn load<T: 'static>(
    url: &str,
    numbers: Range<u64>,
    make: Make<T>,
    sqlite: Sqlite<T>,
    postgres: impl AsyncFnOnce(Client, Range<u64>, Make<T>) -> Result<Client, Error>,
) -> Result<(), String> {
    let Some(path) = url.strip_prefix("sqlite:").map(str::to_owned) else {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(text)?;
        let connection = tokio::spawn(connection);
        let client = postgres(client, numbers, make).await.map_err(text)?;
        // What the loading leaves to do is nobody else's to pay for.
        client.batch_execute("vacuum (freeze, analyze)").await.map_err(text)?;
        client.batch_execute("checkpoint").await.map_err(text)?;
        drop(client);
        connection.abort();
        return Ok(());
    };
    let loaded = tokio::task::spawn_blocking(move || {
        let mut conn = Connection::open(path)?;
        conn.busy_timeout(Duration::from_secs(60))?;
        sqlite(&mut conn, numbers, make)
    });
    loaded.await.map_err(text)?.map_err(text)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
