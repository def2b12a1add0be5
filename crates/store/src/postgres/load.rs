//! What the calls of a group name, loaded and locked in sorted order.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Object;
use futures_util::future::try_join_all;
use skep_base::{AgentId, Amount, Clock, Timestamp, id::TransferId};
use tokio_postgres::{Row, types::ToSql};

use super::{bases::Bases, lane::GroupError, score_facts};
use crate::{
    account::{Account, AccountId},
    book::DEBTS_PAID_AT_ONCE_MAX,
    group::{Group, KeptAnswer, RecordSlot, accounts_of},
    score_fact::Counted,
    transfer::{Debt, Kind, Resolution, StoredTransfer, Transfer},
    turn::{Answer, Call, Lock, RecordKey, RouteKey, StoredRecord},
};

pub(super) const NOW: &str = "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)";

const GUARDS: &str = "
    select g.scope, g.key, g.fingerprint, g.refused, g.body
    from guards g join unnest($1::text[], $2::text[]) w (scope, key)
        on g.scope = w.scope and g.key = w.key";
const NAMES: &str = "
    select n.kind, n.name, n.owner
    from names n join unnest($1::text[], $2::text[]) w (kind, name)
        on n.kind = w.kind and n.name = w.name";
const RECORDS: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join unnest($1::text[], $2::text[], $3::text[]) w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id";
const RECORDS_SHARED: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join unnest($1::text[], $2::text[], $3::text[]) w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
    order by r.route_key, r.kind, r.id for share of r";
const RECORDS_LOCKED: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join unnest($1::text[], $2::text[], $3::text[]) w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
    order by r.route_key, r.kind, r.id for update of r";
pub(super) const TRANSFERS: &str = "
    select t.id, t.route_key, t.kind, t.debit_account, t.credit_account, t.amount, t.held_change,
           t.pending_id, t.debt_id, t.budget_account, t.at
    from transfers t join unnest($1::text[], $2::text[]) w (route_key, id)
        on t.route_key = w.route_key and t.id = w.id";
pub(super) const RESOLUTIONS: &str = "
    select t.pending_id, t.id, t.kind, t.amount, t.route_key
    from transfers t join unnest($1::text[], $2::text[]) w (route_key, id)
        on t.route_key = w.route_key and t.pending_id = w.id";
const ACCOUNTS_LOCKED: &str = "
    select account, posted, held, debited, owed, debit_limit, version
    from accounts where account = any($1) order by account for update";
const DEBTS: &str = "
    select id, creditor_account, open from debts
    where debtor_account = $1 and open > 0 order by opened_at, id limit $2";

/// What the time is taken from.
pub(super) struct Time<'a> {
    /// Overrides the database's clock, for tests.
    pub(super) clock: Option<&'a dyn Clock>,
    /// It is never earlier than this.
    pub(super) least: Timestamp,
    /// What depends on it.
    pub(super) bases: &'a mut Bases,
}

/// Begins the transaction, loads, locks, and tells the time: one round trip, unless a stored
/// transfer names an account that the calls do not.
pub(super) async fn load(
    client: &Object,
    wanted: &mut Wanted,
    group: &mut Group,
    mut time: Time<'_>,
) -> Result<Timestamp, GroupError> {
    loop {
        let (now, missing) = load_named(client, wanted, group, &mut time).await?;
        if missing.is_empty() {
            return Ok(now);
        }
        // Locked behind the others, they could make two groups wait for each other: all locks go,
        // and all are taken anew in order.
        let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
        client.batch_execute("rollback").await.map_err(failed)?;
        wanted.accounts.extend(missing);
        *group = Group::default();
    }
}

/// Says also which accounts the stored transfers name besides.
async fn load_named(
    client: &Object,
    wanted: &Wanted,
    group: &mut Group,
    time: &mut Time<'_>,
) -> Result<(Timestamp, BTreeSet<AccountId>), GroupError> {
    wanted.expect_nothing(group);
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    // Prepared beforehand, the questions below leave in the order in which they are written.
    for sql in [GUARDS, NAMES, RECORDS, RECORDS_SHARED, RECORDS_LOCKED, TRANSFERS, RESOLUTIONS, NOW]
    {
        client.prepare_cached(sql).await.map_err(failed)?;
    }
    client.prepare_cached(ACCOUNTS_LOCKED).await.map_err(failed)?;
    score_facts::prepare(client).await.map_err(failed)?;
    let begin = async { client.batch_execute("begin").await.map_err(failed) };
    let own_accounts = names_of(&wanted.accounts);
    // Whoever resolves a hold locks its debit account first: read after the lock, the resolution
    // is the last word.
    let answers = futures_util::try_join!(
        begin,
        score_facts::lock(client, &wanted.facts),
        ask(client, GUARDS, &wanted.guards),
        ask(client, NAMES, &wanted.names),
        ask(client, RECORDS_LOCKED, &wanted.locked),
        ask(client, RECORDS_SHARED, &wanted.shared),
        ask(client, RECORDS, &wanted.read),
        ask(client, TRANSFERS, &wanted.transfers),
        ask(client, ACCOUNTS_LOCKED, &own_accounts),
        ask(client, RESOLUTIONS, &wanted.transfers),
        tell_time(client, wanted, time),
    )?;
    let (_, _, guards, names, locked, shared, read, transfers, accounts, resolutions, told) =
        answers;
    keep_guards(&guards, group);
    for row in &names {
        wanted.keep_name(row, group);
    }
    for row in read.iter().chain(&shared).chain(&locked) {
        wanted.keep_record(row, group);
    }
    let mut named_by_transfers = BTreeSet::new();
    for row in &transfers {
        let transfer = transfer_row(row)?;
        named_by_transfers.extend(accounts_of(&transfer));
        let stored =
            StoredTransfer { transfer, at: Timestamp::from_ms(row.get(10)), resolution: None };
        let key = (stored.transfer.route.clone(), stored.transfer.id);
        group.transfers.insert(key, Some(stored));
    }
    named_by_transfers.retain(|id| !wanted.accounts.contains(id));
    let debtors = keep_accounts(&accounts, &wanted.accounts, group)?;
    lock_creditors(client, debtors, group).await?;
    for row in &resolutions {
        keep_resolution(row, group)?;
    }
    let (now, counted) = told;
    group.counted.extend(counted);
    Ok((now, named_by_transfers))
}

/// The time, and what was counted of agents at that time.
type Told = (Timestamp, Vec<(AgentId, Counted)>);

async fn tell_time(
    client: &Object,
    wanted: &Wanted,
    time: &mut Time<'_>,
) -> Result<Told, GroupError> {
    let least = time.least;
    let clock = time.clock.map(|clock| clock.now().max(least));
    if !wanted.facts.is_empty() {
        let agents: Vec<AgentId> = wanted.facts.keys().copied().collect();
        let fixed = clock.map(|at| at.as_ms());
        return score_facts::counted(client, &agents, time.bases, fixed, least.as_ms()).await;
    }
    if let Some(now) = clock {
        return Ok((now, Vec::new()));
    }
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let statement = client.prepare_cached(NOW).await.map_err(failed)?;
    let told = client.query_one(&statement, &[]).await.map_err(failed)?;
    Ok((Timestamp::from_ms(told.get(0)).max(least), Vec::new()))
}

/// Columns of text, one array each; an empty one asks nothing.
type Columns = Vec<Vec<String>>;

async fn ask(
    client: &Object,
    sql: &'static str,
    columns: &Columns,
) -> Result<Vec<Row>, GroupError> {
    if columns.first().is_none_or(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let statement = client.prepare_cached(sql).await.map_err(failed)?;
    let params: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|c| c as _).collect();
    client.query(&statement, &params).await.map_err(failed)
}

/// The keys of all calls of a group, each once.
pub(super) struct Wanted {
    guards: Columns,
    names: Columns,
    name_kinds: Vec<&'static str>,
    read: Columns,
    shared: Columns,
    locked: Columns,
    /// In order.
    record_keys: Vec<RecordKey>,
    transfers: Columns,
    accounts: BTreeSet<AccountId>,
    facts: BTreeMap<AgentId, Lock>,
}

impl Wanted {
    pub(super) fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Wanted {
        let mut guards = BTreeSet::new();
        let mut names = BTreeSet::new();
        let (mut read, mut shared, mut locked) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut transfers = BTreeSet::new();
        let mut accounts = BTreeSet::new();
        let mut facts = BTreeMap::new();
        for call in calls {
            for (agent, lock) in &call.load.facts {
                let held = facts.entry(*agent).or_insert(*lock);
                *held = (*held).max(*lock);
            }
            guards.extend(call.guards.iter().map(|g| [&*g.scope, &*g.key]));
            names.extend(call.load.names.iter().map(|(kind, name)| (*kind, name.as_str())));
            for (key, lock) in &call.load.records {
                let set = match lock {
                    Lock::None => &mut read,
                    Lock::Shared => &mut shared,
                    Lock::Exclusive => &mut locked,
                };
                set.insert(key.clone());
            }
            transfers.extend(call.load.transfers.iter().cloned());
            let with_row = call.load.accounts.iter().filter(|a| a.purpose().has_balance_row());
            accounts.extend(with_row.cloned());
        }
        shared.retain(|key| !locked.contains(key));
        read.retain(|key| !locked.contains(key) && !shared.contains(key));
        let record_columns = |keys: &BTreeSet<RecordKey>| {
            columns(keys.iter().map(|k| [k.route.as_str(), k.kind, k.id.as_str()]))
        };
        let [read_columns, shared_columns, locked_columns] =
            [&read, &shared, &locked].map(record_columns);
        let mut record_keys: Vec<RecordKey> =
            read.into_iter().chain(shared).chain(locked).collect();
        record_keys.sort_unstable();
        Wanted {
            guards: columns(guards.into_iter()),
            name_kinds: names.iter().map(|(kind, _)| *kind).collect(),
            names: columns(names.iter().map(|(kind, name)| [*kind, *name])),
            read: read_columns,
            shared: shared_columns,
            locked: locked_columns,
            record_keys,
            transfers: columns(
                transfers.iter().map(|(route, id)| [route.as_str().to_owned(), id.to_string()]),
            ),
            accounts,
            facts,
        }
    }

    /// Everything that was asked for and is not found is known to be absent.
    fn expect_nothing(&self, group: &mut Group) {
        for (scope, key) in self.guards[0].iter().zip(&self.guards[1]) {
            group.guards.insert((scope.clone(), key.clone()), None);
        }
        for (kind, name) in self.name_kinds.iter().zip(&self.names[1]) {
            group.names.insert((kind, name.clone()), None);
        }
        for key in &self.record_keys {
            group.records.insert(key.clone(), RecordSlot { stored_version: 0, now: None });
        }
    }

    fn keep_name(&self, row: &Row, group: &mut Group) {
        let (kind, name): (&str, &str) = (row.get(0), row.get(1));
        if let Some(kind) = self.name_kinds.iter().find(|k| **k == kind) {
            group.names.insert((kind, name.to_owned()), Some(row.get(2)));
        }
    }

    fn keep_record(&self, row: &Row, group: &mut Group) {
        let (route, kind, id): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        let place = self.record_keys.binary_search_by(|k| {
            (k.route.as_str(), k.kind, k.id.as_str()).cmp(&(route, kind, id))
        });
        if let Some(key) = place.ok().and_then(|place| self.record_keys.get(place)) {
            let stored = StoredRecord { version: row.get(3), body: row.get(4) };
            let slot = RecordSlot { stored_version: stored.version, now: Some(stored) };
            group.records.insert(key.clone(), slot);
        }
    }
}

fn columns<const N: usize, S: Into<String>>(rows: impl Iterator<Item = [S; N]>) -> Columns {
    let mut columns: Columns = (0..N).map(|_| Vec::new()).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value.into());
        }
    }
    columns
}

fn keep_guards(rows: &[Row], group: &mut Group) {
    for row in rows {
        let fingerprint: &[u8] = row.get(2);
        let answer = Answer { refused: row.get(3), body: row.get(4) };
        // A fingerprint of another length matches nothing: the guard then reads as a conflict.
        let fingerprint = fingerprint.try_into().unwrap_or([0; 32]);
        let kept = KeptAnswer { fingerprint, answer };
        group.guards.insert((row.get(0), row.get(1)), Some(kept));
    }
}

fn keep_resolution(row: &Row, group: &mut Group) -> Result<(), GroupError> {
    let pending: TransferId = parsed(row, 0)?;
    let key = (RouteKey::of(row.get::<_, &str>(4)), pending);
    if let Some(Some(stored)) = group.transfers.get_mut(&key) {
        stored.resolution = Some(resolution_row(row)?);
    }
    Ok(())
}

/// Keeps accounts that were locked, those that are not there as unopened. Says who owes.
fn keep_accounts(
    rows: &[Row],
    asked: &BTreeSet<AccountId>,
    group: &mut Group,
) -> Result<Vec<AccountId>, GroupError> {
    let mut debtors = Vec::new();
    for row in rows {
        let account = account_row(row)?;
        if account.owed > Amount::ZERO {
            debtors.push(account.id.clone());
        }
        group.accounts.insert(account.id.clone(), account);
    }
    for id in asked {
        group.accounts.entry(id.clone()).or_insert_with(|| Account::unopened(id.clone()));
    }
    Ok(debtors)
}

/// Locks those whom debtors owe, and whom these owe: a credit pays debts at once.
async fn lock_creditors(
    client: &Object,
    mut debtors: Vec<AccountId>,
    group: &mut Group,
) -> Result<(), GroupError> {
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    while !debtors.is_empty() {
        let statement = client.prepare_cached(DEBTS).await.map_err(failed)?;
        let limit = DEBTS_PAID_AT_ONCE_MAX as i64;
        let pages = try_join_all(debtors.iter().map(|debtor| {
            let (statement, name) = (&statement, debtor.as_str());
            async move { client.query(statement, &[&name, &limit]).await }
        }))
        .await
        .map_err(failed)?;
        let mut wanted = BTreeSet::new();
        for (debtor, rows) in debtors.into_iter().zip(pages) {
            let debts =
                rows.iter().map(|row| debt_row(row, &debtor)).collect::<Result<Vec<_>, _>>()?;
            wanted.extend(debts.iter().map(|debt| debt.creditor.clone()));
            group.debts.insert(debtor, debts);
        }
        wanted.retain(|id| id.purpose().has_balance_row() && !group.accounts.contains_key(id));
        let rows = ask(client, ACCOUNTS_LOCKED, &names_of(&wanted)).await?;
        debtors = keep_accounts(&rows, &wanted, group)?;
    }
    Ok(())
}

fn names_of(accounts: &BTreeSet<AccountId>) -> Columns {
    vec![accounts.iter().map(ToString::to_string).collect()]
}

pub(super) fn account_row(row: &Row) -> Result<Account, GroupError> {
    Ok(Account {
        id: parsed(row, 0)?,
        posted: amount(row, 1)?,
        held: amount(row, 2)?,
        debited: amount(row, 3)?,
        owed: amount(row, 4)?,
        debit_limit: row.get::<_, Option<i64>>(5).and_then(Amount::new),
        version: row.get(6),
    })
}

fn debt_row(row: &Row, debtor: &AccountId) -> Result<Debt, GroupError> {
    Ok(Debt {
        id: parsed(row, 0)?,
        debtor: debtor.clone(),
        creditor: parsed(row, 1)?,
        open: amount(row, 2)?,
    })
}

pub(super) fn transfer_row(row: &Row) -> Result<Transfer, GroupError> {
    Ok(Transfer {
        id: parsed(row, 0)?,
        route: RouteKey::of(row.get::<_, &str>(1)),
        kind: kind(row, 2)?,
        debit: parsed(row, 3)?,
        credit: parsed(row, 4)?,
        amount: amount(row, 5)?,
        held_change: row.get(6),
        pending: optional(row, 7)?,
        debt: optional(row, 8)?,
        budget: optional(row, 9)?,
    })
}

pub(super) fn resolution_row(row: &Row) -> Result<Resolution, GroupError> {
    Ok(Resolution { id: parsed(row, 1)?, kind: kind(row, 2)?, amount: amount(row, 3)? })
}

pub(super) fn amount(row: &Row, column: usize) -> Result<Amount, GroupError> {
    let minor: i64 = row.get(column);
    Amount::new(minor).ok_or_else(|| unreadable(&minor.to_string()))
}

fn kind(row: &Row, column: usize) -> Result<Kind, GroupError> {
    let word: &str = row.get(column);
    Kind::parse(word).ok_or_else(|| unreadable(word))
}

pub(super) fn parsed<T: std::str::FromStr>(row: &Row, column: usize) -> Result<T, GroupError> {
    let text: &str = row.get(column);
    text.parse().map_err(|_| unreadable(text))
}

fn optional<T: std::str::FromStr>(row: &Row, column: usize) -> Result<Option<T>, GroupError> {
    let text: Option<&str> = row.get(column);
    text.map(|t| t.parse().map_err(|_| unreadable(t))).transpose()
}

fn unreadable(text: &str) -> GroupError {
    GroupError::Refused(format!("the database holds an unreadable value: {text:?}"))
}
