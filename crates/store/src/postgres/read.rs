//! Reads on PostgreSQL.

use skep_base::{
    AgentId, Hash32, Timestamp,
    id::{DebtId, TransferId},
};
use tokio_postgres::{Row, types::ToSql};

use super::{
    Postgres,
    lane::GroupError,
    load::{RESOLUTIONS, TRANSFERS, account_row, amount, parsed, resolution_row, transfer_row},
    sequencer::event_row,
    unavailable,
};
use crate::{
    account::{Account, AccountId},
    error::StoreError,
    event::LoggedEvent,
    list::Listed,
    store::{Entry, Seen},
    transfer::{DebtState, StoredTransfer},
    turn::{Bug, RecordKey, RouteKey, StoredRecord},
};

impl From<GroupError> for StoreError {
    fn from(error: GroupError) -> StoreError {
        match error {
            GroupError::Raced(text) | GroupError::Failed(text) => StoreError::Unavailable(text),
            GroupError::Lost(text) => StoreError::Unknown(text),
            GroupError::Refused(text) => StoreError::Bug(Bug(text)),
        }
    }
}

const PLACED_RECORDS: &str = "
    select w.place, r.version, r.body
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality
        w (route_key, kind, id, place)
    join records r on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id";
/// Records by their places, accounts by their names, and the time in the column of versions: one
/// question, since every answer wakes whoever waits for it.
const LOOK: &str = "
    select account, posted, held, debited, owed, debit_limit, version,
           null::bigint place, null::text body
    from accounts where account = any($4)
    union all
    select null, null, null, null, null, null, r.version, w.place, r.body
    from unnest($1::text[], $2::text[], $3::text[]) with ordinality
        w (route_key, kind, id, place)
    join records r on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
    union all
    select null, null, null, null, null, null,
           cast(extract(epoch from clock_timestamp()) * 1000 as bigint), null, null";
const HISTORY: &str = "
    select id, route_key, kind, debit_account, credit_account, amount, held_change, pending_id,
           debt_id, budget_account, at
    from (
        (select * from transfers where debit_account = $1 and (at, id) < ($2, $3)
         order by at desc, id desc limit $4)
        union all
        (select * from transfers where credit_account = $1 and (at, id) < ($2, $3)
         order by at desc, id desc limit $4)
    ) page order by at desc, id desc limit $4";
const EVENTS: &str = "
    select n.seq, n.hash, e.id, e.route_key, e.version, e.kind, e.at, e.body
    from event_numbers n join events e on e.route_key = n.route_key and e.id = n.id
    where n.seq > $1 order by n.seq limit $2";
const INBOX: &str = "
    select n.seq, n.hash, e.id, e.route_key, e.version, e.kind, e.at, e.body
    from inbox i join event_numbers n on n.seq = i.seq
                 join events e on e.route_key = n.route_key and e.id = n.id
    where i.agent_id = $1 and i.seq > $2 order by i.seq limit $3";
const JOURNAL_BALANCE: &str = "
    with base as (
        select coalesce(max(upto), 0) upto, coalesce(sum(posted), 0) posted
        from rollups where account = $1)
    select cast((select posted from base)
         + coalesce((select sum(amount) from transfers where credit_account = $1
                     and at >= (select upto from base) and kind in ('posted', 'post')), 0)
         - coalesce((select sum(amount) from transfers where debit_account = $1
                     and at >= (select upto from base) and kind in ('posted', 'post')), 0)
         as bigint)";

/// The three columns of the keys.
fn columns(keys: &[RecordKey]) -> [Vec<&str>; 3] {
    [
        keys.iter().map(|key| key.route.as_str()).collect(),
        keys.iter().map(|key| key.kind).collect(),
        keys.iter().map(|key| key.id.as_str()).collect(),
    ]
}

/// Records in the order in which they were asked for.
fn in_places(rows: &[Row], count: usize) -> Vec<Option<StoredRecord>> {
    let mut found = vec![None; count];
    for row in rows {
        let place = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
        if let Some(slot) = found.get_mut(place) {
            *slot = Some(StoredRecord { version: row.get(1), body: row.get(2) });
        }
    }
    found
}

impl Postgres {
    pub(super) async fn ask(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await.map_err(unavailable)?;
        client.query(&statement, params).await.map_err(unavailable)
    }

    pub(crate) async fn records_of_kind(
        &self,
        kind: &'static str,
        after: String,
        limit: usize,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let sql = "select id, version, body from records
                   where route_key > $1 and kind = $2 and id = route_key
                   order by route_key limit $3";
        let rows = self.ask(sql, &[&after, &kind, &(limit as i64)]).await?;
        let stored = |row: &Row| StoredRecord { version: row.get(1), body: row.get(2) };
        Ok(rows.iter().map(|row| (row.get(0), stored(row))).collect())
    }

    pub(crate) async fn record(&self, key: RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        let sql = "select version, body from records
                   where route_key = $1 and kind = $2 and id = $3";
        let rows = self.ask(sql, &[&key.route.as_str(), &key.kind, &key.id]).await?;
        Ok(rows.first().map(|row| StoredRecord { version: row.get(0), body: row.get(1) }))
    }

    pub(crate) async fn records(
        &self,
        keys: Vec<RecordKey>,
    ) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        let [routes, kinds, ids] = columns(&keys);
        Ok(in_places(&self.ask(PLACED_RECORDS, &[&routes, &kinds, &ids]).await?, keys.len()))
    }

    /// Records, accounts and the time, all as they are at one moment.
    pub(crate) async fn look(
        &self,
        keys: Vec<RecordKey>,
        accounts: Vec<AccountId>,
    ) -> Result<Seen, StoreError> {
        let [routes, kinds, ids] = columns(&keys);
        let names: Vec<&str> = accounts.iter().map(AccountId::as_str).collect();
        let rows = self.ask(LOOK, &[&routes, &kinds, &ids, &names]).await?;
        let (mut now, mut known) = (None, Vec::new());
        let mut records = vec![None; keys.len()];
        for row in &rows {
            let (account, place): (Option<&str>, Option<i64>) = (row.get(0), row.get(7));
            match place.and_then(|place| usize::try_from(place - 1).ok()) {
                Some(place) => {
                    if let Some(slot) = records.get_mut(place) {
                        *slot = Some(StoredRecord { version: row.get(6), body: row.get(8) });
                    }
                }
                None if account.is_some() => known.push(account_row(row)?),
                None => now = Some(Timestamp::from_ms(row.get(6))),
            }
        }
        let accounts = accounts.into_iter().map(|id| {
            let known = known.iter().find(|account| account.id == id).cloned();
            known.unwrap_or_else(|| Account::unopened(id))
        });
        let now = self.clock.as_ref().map(|clock| clock.now()).or(now);
        let silent = || StoreError::Unavailable("the database told no time".to_owned());
        Ok(Seen { now: now.ok_or_else(silent)?, records, accounts: accounts.collect() })
    }

    pub(crate) async fn name_owner(
        &self,
        kind: &'static str,
        name: String,
    ) -> Result<Option<String>, StoreError> {
        let sql = "select owner from names where kind = $1 and name = $2";
        Ok(self.ask(sql, &[&kind, &name]).await?.first().map(|row| row.get(0)))
    }

    pub(crate) async fn accounts(
        &self,
        prefix: String,
        limit: usize,
    ) -> Result<Vec<Account>, StoreError> {
        let sql = "select account, posted, held, debited, owed, debit_limit, version from accounts
                   where account >= $1 and account < $1 || '~' order by account limit $2";
        let rows = self.ask(sql, &[&prefix, &(limit as i64)]).await?;
        rows.iter().map(|row| Ok(account_row(row)?)).collect()
    }

    pub(crate) async fn transfer(
        &self,
        route: RouteKey,
        id: TransferId,
    ) -> Result<Option<StoredTransfer>, StoreError> {
        let key: [Vec<String>; 2] = [vec![route.as_str().to_owned()], vec![id.to_string()]];
        let Some(row) = self.ask(TRANSFERS, &[&key[0], &key[1]]).await?.into_iter().next() else {
            return Ok(None);
        };
        let rows = self.ask(RESOLUTIONS, &[&key[0], &key[1]]).await?;
        let resolution = rows.first().map(resolution_row).transpose()?;
        let at = Timestamp::from_ms(row.get(10));
        Ok(Some(StoredTransfer { transfer: transfer_row(&row)?, at, resolution }))
    }

    pub(crate) async fn history(
        &self,
        of: AccountId,
        before: Option<String>,
        limit: usize,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        let parse = |cursor: &str| -> Option<(i64, String)> {
            let (at, id) = cursor.split_once('.')?;
            Some((at.parse().ok()?, id.parse::<TransferId>().ok()?.to_string()))
        };
        let (at, id) = match before.as_deref().map(parse) {
            None => (i64::MAX, String::new()),
            Some(Some(place)) => place,
            Some(None) => return Ok(None),
        };
        let rows = self.ask(HISTORY, &[&of.as_str(), &at, &id, &(limit as i64)]).await?;
        rows.iter()
            .map(|row| {
                let (transfer, at): (_, i64) = (transfer_row(row)?, row.get(10));
                let cursor = format!("{at}.{}", transfer.id);
                Ok(Entry { cursor, at: Timestamp::from_ms(at), transfer })
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub(crate) async fn events(
        &self,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        let rows = self.ask(EVENTS, &[&after, &(limit as i64)]).await?;
        rows.iter().map(logged_event).collect()
    }

    pub(crate) async fn last_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "select e.at from event_numbers n
                   join events e on e.route_key = n.route_key and e.id = n.id
                   order by n.seq desc limit 1";
        let rows = self.ask(sql, &[]).await?;
        Ok(rows.first().map(|row| Timestamp::from_ms(row.get(0))))
    }

    pub(crate) async fn inbox(
        &self,
        agent: AgentId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        let rows = self.ask(INBOX, &[&agent.to_string(), &after, &(limit as i64)]).await?;
        rows.iter().map(logged_event).collect()
    }

    pub(crate) async fn journal_balance(&self, id: AccountId) -> Result<i64, StoreError> {
        let rows = self.ask(JOURNAL_BALANCE, &[&id.as_str()]).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    pub(crate) async fn debt(
        &self,
        debtor: AccountId,
        id: DebtId,
    ) -> Result<Option<DebtState>, StoreError> {
        let sql = "select amount, open, opened_at, creditor_account from debts
                   where debtor_account = $1 and id = $2";
        let rows = self.ask(sql, &[&debtor.as_str(), &id.to_string()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(DebtState {
            amount: amount(row, 0)?,
            open: amount(row, 1)?,
            opened_at: Timestamp::from_ms(row.get(2)),
            creditor: parsed(row, 3)?,
        }))
    }

    pub(crate) async fn earned(
        &self,
        account: AccountId,
        since: Timestamp,
    ) -> Result<i64, StoreError> {
        let sql = "select cast(coalesce(sum(greatest(earned, 0)), 0) as bigint) from (
                       select sum(t.amount) - coalesce((
                           select sum(own.amount) from transfers own
                           where own.route_key = t.route_key and own.debit_account = $1
                             and own.credit_account like 'escrow:%'
                             and own.kind in ('posted', 'post')), 0) as earned
                       from transfers t
                       where t.credit_account = $1 and t.at >= $2
                         and t.debit_account like 'escrow:%' and t.kind in ('posted', 'post')
                       group by t.route_key) by_deal";
        let rows = self.ask(sql, &[&account.as_str(), &since.as_ms()]).await?;
        Ok(rows.first().map_or(0, |row| row.get(0)))
    }

    pub(crate) async fn listed(
        &self,
        list: String,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let (at, member) = after.unwrap_or((i64::MIN, String::new()));
        let sql = "select member, at from lists where list = $1 and (at, member) > ($2, $3)
                   order by at, member limit $4";
        let rows = self.ask(sql, &[&list, &at, &member, &(limit as i64)]).await?;
        let line = |row: &Row| Listed { member: row.get(0), at: Timestamp::from_ms(row.get(1)) };
        Ok(rows.iter().map(line).collect())
    }

    pub(crate) async fn listed_latest(
        &self,
        list: String,
        before: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        let (at, member) = before.unwrap_or((i64::MAX, String::new()));
        let sql = "select member, at from lists where list = $1 and (at, member) < ($2, $3)
                   order by at desc, member desc limit $4";
        let rows = self.ask(sql, &[&list, &at, &member, &(limit as i64)]).await?;
        let line = |row: &Row| Listed { member: row.get(0), at: Timestamp::from_ms(row.get(1)) };
        Ok(rows.iter().map(line).collect())
    }

    pub(crate) async fn list_len(
        &self,
        list: String,
    ) -> Result<(u64, Option<Timestamp>), StoreError> {
        let sql = "select count(*), min(at) from lists where list = $1";
        let rows = self.ask(sql, &[&list]).await?;
        let Some(row) = rows.first() else { return Ok((0, None)) };
        let count = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
        Ok((count, row.get::<_, Option<i64>>(1).map(Timestamp::from_ms)))
    }

    pub(crate) async fn meta(&self, key: &'static str) -> Result<Option<String>, StoreError> {
        let rows = self.ask("select value from meta where key = $1", &[&key]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    pub(crate) async fn meta_once(
        &self,
        key: &'static str,
        value: String,
    ) -> Result<String, StoreError> {
        let sql = "insert into meta (key, value) values ($1, $2)
                   on conflict (key) do update set key = excluded.key returning value";
        let rows = self.ask(sql, &[&key, &value]).await?;
        Ok(rows.first().map_or(value, |row| row.get(0)))
    }
}

pub(super) fn logged_event(row: &Row) -> Result<LoggedEvent, StoreError> {
    let hash: &[u8] = row.get(1);
    let hash = Hash32(hash.try_into().unwrap_or([0; 32]));
    Ok(LoggedEvent { seq: row.get(0), hash, event: event_row(row, 2)? })
}
