//! Peers to measure the ledger against: the same rows, written without any of its work.

mod bulk;
mod deals;
mod facts;
mod listings;

use std::{
    path::Path,
    time::{Duration, Instant},
};

pub use self::{
    deals::copy_deals,
    facts::{ScoreSample, load_scores},
    listings::{Sample, load_listings},
};
use rusqlite::{Connection, params};
use skep_base::{
    AgentId, Amount, Asset, Timestamp,
    id::{EventId, TransferId},
};

use crate::{
    account::{Account, AccountId},
    event::{Event, Head},
    sqlite::{Settings, Synchronous, apply, connect, migrate},
    transfer::{Kind, Transfer},
    turn::RouteKey,
};

/// What raw SQLite managed.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    pub steps: u64,
    pub elapsed: Duration,
}

impl Raw {
    /// Steps in a second.
    pub fn per_second(&self) -> f64 {
        self.steps as f64 / self.elapsed.as_secs_f64()
    }
}

/// One row of everything that a hold or a post writes, with nothing looked up and nothing
/// checked by the program. `group` steps share a commit.
struct RawStep {
    transfer: Transfer,
    account: Account,
    event: Event,
    hash: [u8; 32],
    guard: String,
}

/// Writes holds and posts on bare SQLite, `group` at a time, for about `time`.
pub fn raw_sqlite(folder: &Path, group: usize, time: Duration) -> rusqlite::Result<Raw> {
    let path = folder.join(format!("raw-{group}.db"));
    let settings = Settings { path, synchronous: Synchronous::Full };
    let mut conn = connect(&settings)?;
    migrate(&mut conn).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    conn.execute_batch("pragma wal_autocheckpoint = 1000")?;
    let wallets: Vec<AccountId> = (0..64).map(|n| wallet(n as u8)).collect();
    for id in &wallets {
        let mut account = Account::unopened(id.clone());
        account.posted = Amount::MAX;
        apply::write_account(&conn, &account, None, 1)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    }
    let mut elapsed = Duration::ZERO;
    let mut steps = 0;
    let mut head = Head::START;
    while elapsed < time {
        let first = head.seq + 1;
        let rows: Vec<RawStep> =
            (steps..).take(group).map(|n| raw_step(n, &wallets, &mut head)).collect();
        let started = Instant::now();
        conn.execute_batch("begin immediate")?;
        for (row, seq) in rows.iter().zip(first..) {
            write_raw(&conn, row, seq)?;
        }
        conn.prepare_cached("update log_head set seq = ?1, hash = ?2 where one = 1")?
            .execute((head.seq, head.hash.as_bytes()))?;
        conn.execute_batch("commit")?;
        elapsed += started.elapsed();
        steps += group as u64;
    }
    Ok(Raw { steps, elapsed })
}

fn wallet(n: u8) -> AccountId {
    AccountId::wallet(&AgentId([n; 20]), Asset::USDC)
}

/// Rows are made before the clock runs: the peer is SQLite, not our formatting. Ids look like real
/// ones, since their length and order decide what an index costs.
fn raw_step(n: u64, wallets: &[AccountId], head: &mut Head) -> RawStep {
    let at = Timestamp::from_ms(1_800_000_000_000 + n as i64 / 50);
    let mut rest = [0; 10];
    rest[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let id = TransferId::new(at, rest);
    let is_post = n % 2 == 1;
    rest[..8].copy_from_slice(&(n & !1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let hold = TransferId::new(Timestamp::from_ms(1_800_000_000_000 + (n & !1) as i64 / 50), rest);
    let (debit, credit) = (&wallets[n as usize / 2 % 64], &wallets[(n as usize / 2 + 7) % 64]);
    let amount = Amount::new(5).unwrap_or(Amount::ZERO);
    let transfer = Transfer {
        id,
        route: RouteKey::of(hold),
        kind: if is_post { Kind::Post } else { Kind::Pending },
        debit: debit.clone(),
        credit: credit.clone(),
        amount,
        held_change: if is_post { -5 } else { 5 },
        pending: is_post.then_some(hold),
        debt: None,
        budget: None,
    };
    let body = format!("{{\"id\":\"{id}\",\"from\":\"{debit}\",\"to\":\"{credit}\",\"amount\":5}}");
    let event = Event {
        id: EventId::from_bytes(*id.as_bytes()),
        route: RouteKey::of(hold),
        version: 100,
        kind: "transfer.posted".to_owned(),
        at,
        body,
        notify: Vec::new(),
    };
    head.seq += 1;
    let account = Account { posted: Amount::MAX, ..Account::unopened(debit.clone()) };
    RawStep { transfer, account, event, hash: [7; 32], guard: id.to_string() }
}

fn write_raw(conn: &Connection, step: &RawStep, seq: i64) -> rusqlite::Result<()> {
    let failed = |e: crate::sqlite::WorkError| rusqlite::Error::ToSqlConversionFailure(e.into());
    let now = step.event.at.as_ms();
    apply::write_transfer(conn, &step.transfer, now).map_err(failed)?;
    conn.prepare_cached(
        "update accounts set posted = ?2, held = ?3, version = version + 1 where account = ?1",
    )?
    .execute((step.account.id.as_str(), step.account.posted.minor(), 0))?;
    if step.transfer.kind == Kind::Post {
        conn.prepare_cached(
            "update accounts set posted = ?2, held = ?3, version = version + 1 where account = ?1",
        )?
        .execute((step.transfer.credit.as_str(), step.account.posted.minor(), 0))?;
    }
    let event = &step.event;
    conn.prepare_cached(
        "insert into events (seq, hash, id, route_key, version, kind, at, body)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        seq,
        &step.hash,
        event.id.to_string(),
        event.route.as_str(),
        event.version,
        event.kind,
        now,
        event.body
    ])?;
    conn.prepare_cached(
        "insert into guards (scope, key, fingerprint, refused, body, expires_at)
         values (?1, ?2, ?3, 0, ?4, ?5)",
    )?
    .execute(params!["bench", step.guard, &step.hash, event.body, now])?;
    Ok(())
}

/// Reads every transfer and every event once, as plainly as SQLite can: what an audit cannot beat.
pub fn raw_scan(path: &Path) -> rusqlite::Result<Raw> {
    let conn = Connection::open(path)?;
    let started = Instant::now();
    let mut steps = 0;
    for sql in [
        "select count(*), sum(amount), sum(length(id) + length(debit_account)) from transfers",
        "select count(*), sum(length(body)), sum(length(hash)) from events",
    ] {
        steps += conn.query_row(sql, [], |row| row.get::<_, i64>(0))? as u64;
    }
    Ok(Raw { steps, elapsed: started.elapsed() })
}
