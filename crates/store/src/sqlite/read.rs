//! Reads of one snapshot on SQLite.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use skep_base::{
    AgentId, Timestamp,
    id::{DebtId, TransferId},
};

use super::{
    AUDIT_AGE_MAX, READ_AGE_MAX, Sqlite,
    apply::{account, amount, hash, parsed, record, stored_transfer, transfer_row},
};
use crate::{
    Entry,
    account::{Account, AccountId},
    error::StoreError,
    event::{Event, LoggedEvent},
    list::Listed,
    store::Seen,
    transfer::{DebtState, StoredTransfer},
    turn::{RecordKey, RouteKey, StoredRecord},
};

impl Sqlite {
    pub(crate) async fn record(
        self: &Arc<Self>,
        key: RecordKey,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| record(conn, &key)).await
    }

    pub(crate) async fn records(
        self: &Arc<Self>,
        keys: Vec<RecordKey>,
    ) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| keys.iter().map(|key| record(conn, key)).collect())
            .await
    }

    pub(crate) async fn records_of_kind(
        self: &Arc<Self>,
        kind: &'static str,
        after: String,
        limit: usize,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        self.read(AUDIT_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select id, version, body from records
                 where route_key > ?1 and kind = ?2 and id = route_key
                 order by route_key limit ?3",
            )?
            .query_map((after, kind, limit as i64), |row| {
                Ok((row.get(0)?, StoredRecord { version: row.get(1)?, body: row.get(2)? }))
            })?
            .collect()
        })
        .await
    }

    pub(crate) async fn look(
        self: &Arc<Self>,
        keys: Vec<RecordKey>,
        ids: Vec<AccountId>,
    ) -> Result<Seen, StoreError> {
        let now = self.clock().now();
        self.read(READ_AGE_MAX, move |conn| {
            let records = keys.iter().map(|key| record(conn, key)).collect::<Result<_, _>>()?;
            let known = ids.into_iter().map(|id| {
                let found = account(conn, &id)?;
                Ok(found.unwrap_or_else(|| Account::unopened(id)))
            });
            Ok(Seen { now, records, accounts: known.collect::<rusqlite::Result<_>>()? })
        })
        .await
    }

    pub(crate) async fn name_owner(
        self: &Arc<Self>,
        kind: &'static str,
        name: String,
    ) -> Result<Option<String>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached("select owner from names where kind = ?1 and name = ?2")?
                .query_row((kind, name), |row| row.get(0))
                .optional()
        })
        .await
    }

    pub(crate) async fn accounts(
        self: &Arc<Self>,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let ids: Vec<AccountId> = conn
                .prepare_cached(
                    "select account from accounts where account >= ?1 and account < ?1 || '~'
                     order by account limit ?2",
                )?
                .query_map((prefix, limit as i64), |row| parsed(row, 0))?
                .collect::<rusqlite::Result<_>>()?;
            ids.iter().filter_map(|id| account(conn, id).transpose()).collect()
        })
        .await
    }

    pub(crate) async fn transfer(
        self: &Arc<Self>,
        route: RouteKey,
        id: TransferId,
    ) -> Result<Option<StoredTransfer>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| stored_transfer(conn, &route, &id)).await
    }

    pub(crate) async fn history(
        self: &Arc<Self>,
        of: AccountId,
        before: Option<String>,
        limit: usize,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        let before = match before.map(|cursor| cursor.parse()) {
            None => i64::MAX,
            Some(Ok(before)) => before,
            Some(Err(_)) => return Ok(None),
        };
        self.read(READ_AGE_MAX, move |conn| history(conn, &of, before, limit)).await.map(Some)
    }

    pub(crate) async fn events(
        self: &Arc<Self>,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select seq, hash, id, route_key, version, kind, at, body from events
                 where seq > ?1 order by seq limit ?2",
            )?
            .query_map((after, limit as i64), logged_event)?
            .collect()
        })
        .await
    }

    pub(crate) async fn last_event_at(self: &Arc<Self>) -> Result<Option<Timestamp>, StoreError> {
        self.read(READ_AGE_MAX, |conn| {
            let sql = "select at from events order by seq desc limit 1";
            let at: Option<i64> = conn.query_row(sql, [], |row| row.get(0)).optional()?;
            Ok(at.map(Timestamp::from_ms))
        })
        .await
    }

    pub(crate) async fn inbox(
        self: &Arc<Self>,
        agent: AgentId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select e.seq, e.hash, e.id, e.route_key, e.version, e.kind, e.at, e.body
                 from inbox i join events e on e.seq = i.seq
                 where i.agent_id = ?1 and i.seq > ?2 order by i.seq limit ?3",
            )?
            .query_map((agent.to_string(), after, limit as i64), logged_event)?
            .collect()
        })
        .await
    }

    pub(crate) async fn journal_balance(
        self: &Arc<Self>,
        id: AccountId,
    ) -> Result<i64, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let (upto, posted): (i64, i64) = conn
                .prepare_cached("select upto, posted from rollups where account = ?1")?
                .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?
                .unwrap_or_default();
            let tail: i64 = conn
                .prepare_cached(
                    "select coalesce((select sum(amount) from transfers
                                      where credit_account = ?1 and n > ?2
                                        and kind in ('posted', 'post')), 0)
                          - coalesce((select sum(amount) from transfers
                                      where debit_account = ?1 and n > ?2
                                        and kind in ('posted', 'post')), 0)",
                )?
                .query_row((id.as_str(), upto), |row| row.get(0))?;
            Ok(posted + tail)
        })
        .await
    }

    pub(crate) async fn debt(
        self: &Arc<Self>,
        debtor: AccountId,
        id: DebtId,
    ) -> Result<Option<DebtState>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select amount, open, opened_at, creditor_account from debts
                 where debtor_account = ?1 and id = ?2",
            )?
            .query_row((debtor.as_str(), id.to_string()), |row| {
                Ok(DebtState {
                    amount: amount(row, 0)?,
                    open: amount(row, 1)?,
                    opened_at: Timestamp::from_ms(row.get(2)?),
                    creditor: parsed(row, 3)?,
                })
            })
            .optional()
        })
        .await
    }

    pub(crate) async fn earned(
        self: &Arc<Self>,
        account: AccountId,
        since: Timestamp,
    ) -> Result<i64, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select coalesce(sum(max(earned, 0)), 0) from (
                     select sum(t.amount) - coalesce((
                         select sum(own.amount) from transfers own
                         where own.route_key = t.route_key and own.debit_account = ?1
                           and own.credit_account like 'escrow:%'
                           and own.kind in ('posted', 'post')), 0) as earned
                     from transfers t
                     where t.credit_account = ?1 and t.at >= ?2
                       and t.debit_account like 'escrow:%' and t.kind in ('posted', 'post')
                     group by t.route_key)",
            )?
            .query_row((account.as_str(), since.as_ms()), |row| row.get(0))
        })
        .await
    }

    pub(crate) async fn listed(
        self: &Arc<Self>,
        list: String,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let (at, member) = after.unwrap_or((i64::MIN, String::new()));
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select member, at from lists where list = ?1 and (at, member) > (?2, ?3)
                 order by at, member limit ?4",
            )?
            .query_map((list, at, member, limit as i64), |row| {
                Ok(Listed { member: row.get(0)?, at: Timestamp::from_ms(row.get(1)?) })
            })?
            .collect()
        })
        .await
    }

    pub(crate) async fn listed_latest(
        self: &Arc<Self>,
        list: String,
        before: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let (at, member) = before.unwrap_or((i64::MAX, String::new()));
        self.read(READ_AGE_MAX, move |conn| {
            conn.prepare_cached(
                "select member, at from lists where list = ?1 and (at, member) < (?2, ?3)
                 order by at desc, member desc limit ?4",
            )?
            .query_map((list, at, member, limit as i64), |row| {
                Ok(Listed { member: row.get(0)?, at: Timestamp::from_ms(row.get(1)?) })
            })?
            .collect()
        })
        .await
    }

    pub(crate) async fn list_len(
        self: &Arc<Self>,
        list: String,
    ) -> Result<(u64, Option<Timestamp>), StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            let sql = "select count(*), min(at) from lists where list = ?1";
            conn.prepare_cached(sql)?.query_row([list], |row| {
                let (count, oldest): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
                Ok((u64::try_from(count).unwrap_or_default(), oldest.map(Timestamp::from_ms)))
            })
        })
        .await
    }

    pub(crate) async fn meta(
        self: &Arc<Self>,
        key: &'static str,
    ) -> Result<Option<String>, StoreError> {
        self.read(READ_AGE_MAX, move |conn| {
            conn.query_row("select value from meta where key = ?1", [key], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Sets a fact about the database once; whoever comes later reads what is there.
    pub(crate) async fn meta_once(
        &self,
        key: &'static str,
        value: String,
    ) -> Result<String, StoreError> {
        self.submit(move |desk| {
            desk.conn.execute(
                "insert into meta (key, value) values (?1, ?2) on conflict (key) do nothing",
                (key, value),
            )?;
            let sql = "select value from meta where key = ?1";
            Ok(desk.conn.query_row(sql, [key], |row| row.get(0))?)
        })
        .await
    }
}

fn history(
    conn: &Connection,
    of: &AccountId,
    before: i64,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    conn.prepare_cached(
        "select t.id, t.route_key, t.kind, t.debit_account, t.credit_account, t.amount,
                t.held_change, t.pending_id, t.debt_id, t.budget_account, t.n, t.at
         from transfers t join (
             select n from (select n from transfers where debit_account = ?1 and n < ?2
                            order by n desc limit ?3)
             union all
             select n from (select n from transfers where credit_account = ?1 and n < ?2
                            order by n desc limit ?3)
             order by n desc limit ?3
         ) page on page.n = t.n order by t.n desc",
    )?
    .query_map((of.as_str(), before, limit as i64), |row| {
        Ok(Entry {
            cursor: row.get::<_, i64>(10)?.to_string(),
            at: Timestamp::from_ms(row.get(11)?),
            transfer: transfer_row(row)?,
        })
    })?
    .collect()
}

pub(super) fn logged_event(row: &rusqlite::Row<'_>) -> rusqlite::Result<LoggedEvent> {
    Ok(LoggedEvent {
        seq: row.get(0)?,
        hash: hash(row, 1)?,
        event: Event {
            id: parsed(row, 2)?,
            route: RouteKey::of(row.get_ref(3)?.as_str()?),
            version: row.get(4)?,
            kind: row.get(5)?,
            at: Timestamp::from_ms(row.get(6)?),
            body: row.get(7)?,
            notify: Vec::new(),
        },
    })
}
