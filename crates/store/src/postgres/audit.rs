//! The audit of a PostgreSQL database, in one snapshot.

use futures_util::TryStreamExt;
use tokio_postgres::{Client, Row, Transaction};

use super::{Postgres, connect, read::logged_event, sequencer::head_row, unavailable};
use crate::{
    audit::{AccountLine, NOTHING_MAY_MATCH, OPEN_HOLDS, PAGE, Report, Sums, account_lines_sql},
    error::{OpenError, StoreError},
    event::Head,
    store::Progress,
};

impl Postgres {
    pub(crate) async fn audit(&self, progress: Progress) -> Result<Report, StoreError> {
        let mut client = self.client().await?;
        audit(&mut client, progress).await
    }
}

/// Audits a database beside the nodes that write it, changing nothing.
pub(crate) async fn audit_url(url: &str, progress: Progress) -> Result<Report, OpenError> {
    let mut client = connect::reader(url).await?;
    audit(&mut client, progress).await.map_err(|e| OpenError::Failed(e.to_string()))
}

async fn audit(client: &mut Client, mut progress: Progress) -> Result<Report, StoreError> {
    let tx = client
        .build_transaction()
        .read_only(true)
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await
        .map_err(unavailable)?;
    // The audit reads everything: here the planner may choose.
    let free = "set local enable_seqscan = on; set local enable_hashjoin = on;
                set local enable_mergejoin = on; set local plan_cache_mode = auto";
    tx.batch_execute(free).await.map_err(unavailable)?;
    let accounts = count(&tx, "select count(*) from accounts").await?;
    let events = count(&tx, "select count(*) from event_numbers").await?;
    let total = accounts + events;
    let mut report = Report {
        transfers: count(&tx, "select count(*) from transfers").await?,
        events_unnumbered: count(&tx, "select count(*) from events_unnumbered").await?,
        open_holds: count(&tx, OPEN_HOLDS).await?,
        open_debts: count(&tx, "select count(*) from debts where open > 0").await?,
        ..Report::default()
    };
    let sql = account_lines_sql("$1", "$2");
    let mut cursor = String::new();
    loop {
        let page = tx.query(&sql, &[&cursor, &PAGE]).await.map_err(unavailable)?;
        let Some(last) = page.last() else { break };
        cursor = last.get(0);
        page.iter().for_each(|row| report.account(&line(row)));
        progress(report.accounts, total);
    }
    for (meaning, sql) in NOTHING_MAY_MATCH {
        let rows = tx.query_raw(sql, std::iter::empty::<i64>()).await.map_err(unavailable)?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.try_next().await.map_err(unavailable)? {
            report.problem(format!("{meaning}: {}", row.get::<_, String>(0)));
        }
    }
    check_marks(&tx, &mut report).await?;
    check_chain(&tx, &mut report, &mut progress, total).await?;
    check_totals(&tx, &mut report).await?;
    tx.commit().await.map_err(unavailable)?;
    Ok(report)
}

async fn count(tx: &Transaction<'_>, sql: &str) -> Result<u64, StoreError> {
    let row = tx.query_one(sql, &[]).await.map_err(unavailable)?;
    Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
}

async fn check_chain(
    tx: &Transaction<'_>,
    report: &mut Report,
    progress: &mut Progress,
    total: u64,
) -> Result<(), StoreError> {
    let sql = "select n.seq, n.hash, e.id, e.route_key, e.version, e.kind, e.at, e.body
               from event_numbers n join events e on e.route_key = n.route_key and e.id = n.id
               where n.seq > $1 order by n.seq limit $2";
    let mut head = Head::START;
    loop {
        let rows = tx.query(sql, &[&head.seq, &PAGE]).await.map_err(unavailable)?;
        if rows.is_empty() {
            break;
        }
        let page = rows.iter().map(logged_event).collect::<Result<Vec<_>, _>>()?;
        report.events(&mut head, &page);
        progress(report.accounts + report.events, total);
    }
    let stored = tx.query_one("select seq, hash from log_head", &[]).await.map_err(unavailable)?;
    report.head(head, head_row(&stored));
    let lost = "select e.id from events e
                left join event_numbers n on n.route_key = e.route_key and n.id = e.id
                left join events_unnumbered u on u.route_key = e.route_key and u.id = e.id
                where n.seq is null and u.id is null";
    for row in tx.query(lost, &[]).await.map_err(unavailable)? {
        report.problem(format!("an event that will never get a number: {}", row.get::<_, &str>(0)));
    }
    Ok(())
}

/// What all accounts hold came from accounts without a row: nothing is made of nothing.
async fn check_totals(tx: &Transaction<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "
        select asset, cast(
                sum(case when debit_account like 'external:%' or debit_account like 'fees:%'
                         then amount else 0 end)
              - sum(case when credit_account like 'external:%' or credit_account like 'fees:%'
                         then amount else 0 end) as bigint)
        from transfers where kind in ('posted', 'post') group by asset";
    for row in tx.query(sql, &[]).await.map_err(unavailable)? {
        let (asset, brought_in): (String, i64) = (row.get(0), row.get(1));
        let held = report.held_by_accounts.get(&asset).copied().unwrap_or_default();
        if held != brought_in {
            report.problem(format!("{asset}: accounts hold {held}, {brought_in} was brought in"));
        }
    }
    Ok(())
}

/// What a wallet says of its agent's facts is what they and the track record say.
async fn check_marks(tx: &Transaction<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "
        select coalesce(a.account, w.account)
        from (select account, counted from accounts where counted is not null) a
        full join counted_in_wallets w on w.account = a.account
        where a.counted is distinct from w.counted";
    let rows = tx.query_raw(sql, std::iter::empty::<i64>()).await.map_err(unavailable)?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.try_next().await.map_err(unavailable)? {
        let account: &str = row.get(0);
        report
            .problem(format!("a wallet that does not say how its agent's facts stand: {account}"));
    }
    Ok(())
}

fn line(row: &Row) -> AccountLine {
    let sums = |first: usize| Sums {
        posted: row.get(first),
        held: row.get(first + 1),
        debited: row.get(first + 2),
        owed: row.get(first + 3),
    };
    AccountLine {
        account: row.get(0),
        asset: row.get(1),
        is_budget: row.get(2),
        debit_limit: row.get(3),
        stored: sums(4),
        derived: sums(8),
    }
}
