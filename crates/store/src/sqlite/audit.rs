//! The audit of a SQLite database, in one snapshot.

mod facts;

use std::{path::Path, sync::Arc};

use rusqlite::Connection;

use super::{
    AUDIT_AGE_MAX, Settings, Sqlite, Synchronous, apply::hash, connect_reader, failed,
    read::logged_event,
};
use crate::{
    Progress,
    audit::{AccountLine, NOTHING_MAY_MATCH, OPEN_HOLDS, PAGE, Report, Sums, account_lines_sql},
    error::{OpenError, StoreError},
    event::Head,
    migrate, score_fact,
};

impl Sqlite {
    pub(crate) async fn audit(self: &Arc<Self>, progress: Progress) -> Result<Report, StoreError> {
        self.read(AUDIT_AGE_MAX, move |conn| audit(conn, progress)).await
    }
}

/// Audits a file beside whoever writes it, without its lock.
pub(crate) fn audit_file(path: &Path, progress: Progress) -> Result<Report, OpenError> {
    let settings = Settings { path: path.to_owned(), synchronous: Synchronous::Full };
    let conn = reader(&settings)?;
    conn.execute_batch("begin").map_err(failed)?;
    audit(&conn, progress).map_err(failed)
}

/// A connection that only looks, at a file that is there and whose schema is known.
pub(super) fn reader(settings: &Settings) -> Result<Connection, OpenError> {
    if !settings.path.exists() {
        let reason = "there is no such file".to_owned();
        return Err(OpenError::BadUrl { url: settings.path.display().to_string(), reason });
    }
    let conn = connect_reader(settings).map_err(failed)?;
    let applied: Vec<(i64, String)> = conn
        .prepare("select number, fingerprint from schema_migrations order by number")
        .and_then(|mut s| s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    migrate::pending(migrate::SQLITE, &applied)?;
    Ok(conn)
}

fn audit(conn: &Connection, mut progress: Progress) -> rusqlite::Result<Report> {
    let count = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|n| n as u64);
    let accounts = count("select count(*) from accounts")?;
    let events = count("select count(*) from events")?;
    let mut report = Report {
        transfers: count("select count(*) from transfers")?,
        open_holds: count(OPEN_HOLDS)?,
        open_debts: count("select count(*) from debts where open > 0")?,
        ..Report::default()
    };
    let total = accounts + events;
    let mut cursor = String::new();
    let mut lines = conn.prepare(&account_lines_sql("?1", "?2"))?;
    loop {
        let page: Vec<AccountLine> =
            lines.query_map((&cursor, PAGE), line)?.collect::<rusqlite::Result<_>>()?;
        let Some(last) = page.last() else { break };
        cursor.clone_from(&last.account);
        page.iter().for_each(|line| report.account(line));
        progress(report.accounts, total);
    }
    for (meaning, sql) in NOTHING_MAY_MATCH {
        // That question is for rows that stand by agent; facts have their own check here.
        if sql != score_fact::BROKEN {
            list(conn, &mut report, meaning, sql)?;
        }
    }
    facts::check(conn, &mut report)?;
    let mut head = Head::START;
    let mut chain = conn.prepare(
        "select seq, hash, id, route_key, version, kind, at, body from events
         where seq > ?1 order by seq limit ?2",
    )?;
    loop {
        let page: Vec<_> =
            chain.query_map((head.seq, PAGE), logged_event)?.collect::<rusqlite::Result<_>>()?;
        if page.is_empty() {
            break;
        }
        report.events(&mut head, &page);
        progress(report.accounts + report.events, total);
    }
    let stored = conn.query_row("select seq, hash from log_head", [], |row| {
        Ok(Head { seq: row.get(0)?, hash: hash(row, 1)? })
    })?;
    report.head(head, stored);
    check_totals(conn, &mut report)?;
    check_file(conn, &mut report)?;
    Ok(report)
}

/// Reports each row that a question finds which should find none.
fn list(conn: &Connection, report: &mut Report, meaning: &str, sql: &str) -> rusqlite::Result<()> {
    let mut found = conn.prepare(sql)?;
    let mut rows = found.query([])?;
    while let Some(row) = rows.next()? {
        report.problem(format!("{meaning}: {}", row.get::<_, String>(0)?));
    }
    Ok(())
}

/// What all accounts hold came from accounts without a row: nothing is made of nothing.
fn check_totals(conn: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let mut sums = conn.prepare(
        "select asset,
                sum(case when debit_account like 'external:%' or debit_account like 'fees:%'
                         then amount else 0 end)
              - sum(case when credit_account like 'external:%' or credit_account like 'fees:%'
                         then amount else 0 end)
         from transfers where kind in ('posted', 'post') group by asset",
    )?;
    let mut rows = sums.query([])?;
    while let Some(row) = rows.next()? {
        let (asset, brought_in): (String, i64) = (row.get(0)?, row.get(1)?);
        let held = report.held_by_accounts.get(&asset).copied().unwrap_or_default();
        if held != brought_in {
            report.problem(format!("{asset}: accounts hold {held}, {brought_in} was brought in"));
        }
    }
    Ok(())
}

fn check_file(conn: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let word: String = conn.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    if word != "ok" {
        report.problem(format!("the database file is damaged: {word}"));
    }
    Ok(())
}

fn line(row: &rusqlite::Row<'_>) -> rusqlite::Result<AccountLine> {
    let sums = |first: usize| {
        Ok::<_, rusqlite::Error>(Sums {
            posted: row.get(first)?,
            held: row.get(first + 1)?,
            debited: row.get(first + 2)?,
            owed: row.get(first + 3)?,
        })
    };
    Ok(AccountLine {
        account: row.get(0)?,
        asset: row.get(1)?,
        is_budget: row.get(2)?,
        debit_limit: row.get(3)?,
        stored: sums(4)?,
        derived: sums(8)?,
    })
}
