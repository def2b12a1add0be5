//! What the calls of a group name, loaded and locked in sorted order.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
};

use deadpool_postgres::Object;
use futures_util::future::try_join_all;
use skep_base::{AgentId, Amount, Clock, Timestamp, id::TransferId};
use tokio_postgres::{Row, types::ToSql};

use super::{
    held::{Asked, Held, MARKS, key_columns, stored},
    known::{Known, Rare, Tag},
    lane::GroupError,
    score_facts,
};
use crate::{
    account::{Account, AccountId},
    book::DEBTS_PAID_AT_ONCE_MAX,
    group::{Group, KeptAnswer, RecordSlot, accounts_of},
    score_fact::{ScoreTotals, TRACK, WantedFacts},
    transfer::{Debt, Kind, Resolution, StoredTransfer, Transfer},
    turn::{Answer, Call, Lock, RecordKey, RouteKey, StoredRecord},
};

/// The time, and the tag of the records that hardly ever change.
pub(super) const NOW: &str = "
    select cast(extract(epoch from clock_timestamp()) * 1000 as bigint), tag from rarely_written";

const GUARDS: &str = "
    select g.scope, g.key, g.fingerprint, g.refused, g.body
    from guards g join (select unnest($1::text[]), unnest($2::text[])) w (scope, key)
        on g.scope = w.scope and g.key = w.key";
const NAMES: &str = "
    select n.kind, n.name, n.owner
    from names n join (select unnest($1::text[]), unnest($2::text[])) w (kind, name)
        on n.kind = w.kind and n.name = w.name";
pub(super) const RECORDS: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join (select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]))
            w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id";
const RECORDS_SHARED: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join (select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]))
            w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
    order by r.route_key, r.kind, r.id for share of r";
const RECORDS_LOCKED: &str = "
    select r.route_key, r.kind, r.id, r.version, r.body
    from records r join (select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]))
            w (route_key, kind, id)
        on r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
    order by r.route_key, r.kind, r.id for update of r";
pub(super) const TRANSFERS: &str = "
    select t.id, t.route_key, t.kind, t.debit_account, t.credit_account, t.amount, t.held_change,
           t.pending_id, t.debt_id, t.budget_account, t.at
    from transfers t join (select unnest($1::text[]), unnest($2::text[])) w (route_key, id)
        on t.route_key = w.route_key and t.id = w.id";
pub(super) const RESOLUTIONS: &str = "
    select t.pending_id, t.id, t.kind, t.amount, t.route_key
    from transfers t join (select unnest($1::text[]), unnest($2::text[])) w (route_key, id)
        on t.route_key = w.route_key and t.pending_id = w.id";
const ACCOUNTS_LOCKED: &str = "
    select account, posted, held, debited, owed, debit_limit, version, counted
    from accounts where account = any($1) order by account for update";
const DEBTS: &str = "
    select id, creditor_account, open from debts
    where debtor_account = $1 and open > 0 order by opened_at, id limit $2";

/// Prepared beforehand, these leave in the order in which they are asked.
const ASKED: [&str; 11] = [
    GUARDS,
    NAMES,
    RECORDS,
    RECORDS_SHARED,
    RECORDS_LOCKED,
    TRANSFERS,
    RESOLUTIONS,
    NOW,
    ACCOUNTS_LOCKED,
    MARKS,
    score_facts::BASES,
];

/// What a lane brings along.
pub(super) struct Around<'a> {
    /// Overrides the database's clock, for tests.
    pub(super) clock: Option<&'a dyn Clock>,
    /// It is never earlier than this.
    pub(super) least: Timestamp,
    pub(super) known: &'a mut Known,
}

/// What a group goes by besides what it has loaded.
pub(super) struct Loaded {
    pub(super) now: Timestamp,
    /// The agents whose facts and track records are held.
    pub(super) held: Held,
}

/// Begins the transaction, loads, locks, and tells the time: one round trip, unless a stored
/// transfer names an account that the calls do not.
pub(super) async fn load(
    client: &Object,
    wanted: &mut Wanted,
    group: &mut Group,
    mut around: Around<'_>,
) -> Result<Loaded, GroupError> {
    loop {
        let (loaded, missing) = load_named(client, wanted, group, &mut around).await?;
        if missing.is_empty() {
            return Ok(loaded);
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
    around: &mut Around<'_>,
) -> Result<(Loaded, BTreeSet<AccountId>), GroupError> {
    wanted.expect_nothing(group);
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    for sql in ASKED {
        client.prepare_cached(sql).await.map_err(failed)?;
    }
    let begin = async { client.batch_execute("begin").await.map_err(failed) };
    let own_accounts = names_of(&wanted.accounts);
    let facts = Asked::of(&wanted.facts, &around.known.tracks);
    let (track_columns, mark_columns) = (facts.tracks(), facts.marks());
    let is_unknown = |key: &&RecordKey| around.known.rare.get(key).is_none();
    let unknown: Vec<&RecordKey> = wanted.rare.iter().filter(is_unknown).collect();
    let rare = key_columns(&unknown);
    // Whoever resolves a hold locks its debit account first: read after the lock, the resolution
    // is the last word.
    let answers = futures_util::try_join!(
        begin,
        ask(client, GUARDS, &wanted.guards),
        ask(client, NAMES, &wanted.names),
        ask(client, RECORDS_LOCKED, &wanted.locked),
        ask(client, RECORDS_SHARED, &wanted.shared),
        ask(client, RECORDS, &wanted.read),
        ask(client, TRANSFERS, &wanted.transfers),
        ask(client, ACCOUNTS_LOCKED, &own_accounts),
        ask(client, RESOLUTIONS, &wanted.transfers),
        // After the locks: what is held is read as it stays.
        ask(client, RECORDS, &track_columns),
        ask(client, MARKS, &mark_columns),
        tell_time(client, &wanted.facts, around),
        // After their tag: what is read under it is never older than it.
        ask(client, RECORDS, &rare),
    )?;
    let (_, guards, names, locked, shared, read, transfers, accounts, resolutions, ..) = answers;
    let (.., tracks, marks, (now, bases, tag), rare) = answers;
    keep_guards(&guards, group);
    for row in &names {
        wanted.keep_name(row, group);
    }
    for row in read.iter().chain(&shared).chain(&locked) {
        keep_record(&wanted.record_keys, row, group);
    }
    keep_all(&unknown, &rare, group);
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
    take_rare(client, wanted, (&unknown, tag), &mut around.known.rare, group).await?;
    let rows = (&*accounts, &*marks, &*tracks);
    let held = facts.take(client, &mut around.known.tracks, rows, &bases, group).await?;
    Ok((Loaded { now, held }, named_by_transfers))
}

/// Keeps records that hardly ever change as they are known under their tag, and asks for those that
/// are known no longer. The tag was read before the `asked` ones were.
async fn take_rare(
    client: &Object,
    wanted: &Wanted,
    (asked, tag): (&[&RecordKey], Tag),
    known: &mut Rare,
    group: &mut Group,
) -> Result<(), GroupError> {
    known.seen(tag);
    let mut read = asked.to_vec();
    let mut again = Vec::new();
    for key in wanted.rare.iter().filter(|key| !asked.contains(key)) {
        match known.get(key) {
            Some(record) => drop(group.records.insert(key.clone(), RecordSlot::of(record.clone()))),
            None => again.push(key),
        }
    }
    keep_all(&again, &ask(client, RECORDS, &key_columns(&again)).await?, group);
    read.extend(again);
    read.into_iter().for_each(|key| known.keep(key, stored(group, key)));
    Ok(())
}

/// The time, what was counted of the agents before the window that ends then, and the tag of the
/// records that hardly ever change.
async fn tell_time(
    client: &Object,
    facts: &BTreeMap<AgentId, WantedFacts>,
    around: &mut Around<'_>,
) -> Result<(Timestamp, BTreeMap<AgentId, ScoreTotals>, Tag), GroupError> {
    let (least, bases) = (around.least, &mut around.known.bases);
    let clock = around.clock.map(|clock| clock.now().max(least));
    let failed = |e: tokio_postgres::Error| GroupError::before_commit(&e);
    let agents: Vec<AgentId> = facts.keys().copied().collect();
    let statement = client.prepare_cached(NOW).await.map_err(failed)?;
    let told = async { client.query_one(&statement, &[]).await.map_err(failed) };
    if !agents.iter().all(|agent| bases.knows(agent)) {
        let asked = score_facts::bases(client, &agents, bases, (clock, least));
        let (told, (now, bases)) = futures_util::try_join!(told, asked)?;
        return Ok((now, bases, tag_in(&told)?));
    }
    let told = told.await?;
    let now = clock.unwrap_or_else(|| Timestamp::from_ms(told.get(0)).max(least));
    let known = agents.iter().map(|agent| Some((*agent, bases.at(agent, now)?)));
    // Which time it is was not known before: now and then somebody's window has moved.
    if let Some(known) = known.collect() {
        return Ok((now, known, tag_in(&told)?));
    }
    let (now, bases) = score_facts::bases(client, &agents, bases, (clock, least)).await?;
    Ok((now, bases, tag_in(&told)?))
}

fn tag_in(row: &Row) -> Result<Tag, GroupError> {
    let bytes: &[u8] = row.get(1);
    bytes.try_into().map_err(|_| unreadable("the tag of what is rarely written"))
}

/// Columns of text, one array each; an empty one asks nothing.
pub(super) type Columns = Vec<Vec<String>>;

pub(super) async fn ask(
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
    /// Read only, and known as long as nobody has written any of their kinds.
    rare: Vec<RecordKey>,
    /// All the others, in order; track records of `facts` are not among them.
    record_keys: Vec<RecordKey>,
    transfers: Columns,
    accounts: BTreeSet<AccountId>,
    pub(super) facts: BTreeMap<AgentId, WantedFacts>,
}

impl Wanted {
    pub(super) fn of<'a>(calls: impl Iterator<Item = &'a Call>) -> Wanted {
        let mut guards = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut records: BTreeMap<&RecordKey, Lock> = BTreeMap::new();
        let mut transfers = BTreeSet::new();
        let mut accounts = BTreeSet::new();
        let mut facts: BTreeMap<AgentId, WantedFacts> = BTreeMap::new();
        for call in calls {
            for asked in &call.load.facts {
                let wanted = facts.entry(asked.agent).or_insert_with(|| asked.clone());
                wanted.lock = wanted.lock.max(asked.lock);
            }
            guards.extend(call.guards.iter().map(|g| [&*g.scope, &*g.key]));
            names.extend(call.load.names.iter().map(|(kind, name)| (*kind, name.as_str())));
            for (key, lock) in &call.load.records {
                let wanted = records.entry(key).or_insert(*lock);
                *wanted = (*wanted).max(*lock);
            }
            transfers.extend(call.load.transfers.iter().cloned());
            let with_row = call.load.accounts.iter().filter(|a| a.purpose().has_balance_row());
            accounts.extend(with_row.cloned());
        }
        accounts.extend(facts.values().filter(|f| f.is_held()).map(|f| (*f.wallet).clone()));
        // Track records of those whose facts are wanted come with these: they are read after the
        // wallets that hold them are locked.
        let comes_along = |key: &RecordKey| facts.values().any(|wanted| *wanted.track == *key);
        records.retain(|key, _| key.kind != TRACK || !comes_along(key));
        let is_rare = |key: &RecordKey, lock| lock == Lock::None && key.is_rarely_written();
        let rare = records.extract_if(.., |key, lock| is_rare(key, *lock));
        let rare = rare.map(|(key, _)| key.clone()).collect();
        let with = |lock| {
            let keys = records.iter().filter(|(_, wanted)| **wanted == lock);
            columns(keys.map(|(k, _)| [k.route.as_str(), k.kind, k.id.as_str()]))
        };
        Wanted {
            guards: columns(guards.into_iter()),
            name_kinds: names.iter().map(|(kind, _)| *kind).collect(),
            names: columns(names.iter().map(|(kind, name)| [*kind, *name])),
            read: with(Lock::None),
            shared: with(Lock::Shared),
            locked: with(Lock::Exclusive),
            rare,
            record_keys: records.into_keys().cloned().collect(),
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
}

/// Keeps a record that was asked for by one of these keys, which are in order.
fn keep_record(keys: &[impl Borrow<RecordKey>], row: &Row, group: &mut Group) {
    let (route, kind, id): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
    let place = keys.binary_search_by(|key| {
        let RecordKey { route: its_route, kind: its_kind, id: its_id } = key.borrow();
        (its_route.as_str(), *its_kind, its_id.as_str()).cmp(&(route, kind, id))
    });
    if let Some(key) = place.ok().and_then(|place| keys.get(place)) {
        let stored = StoredRecord { version: row.get(3), body: row.get(4) };
        group.records.insert(key.borrow().clone(), RecordSlot::of(Some(stored)));
    }
}

/// Keeps what these keys were asked for, which are in order: what was not found is known to be
/// absent.
pub(super) fn keep_all(keys: &[&RecordKey], rows: &[Row], group: &mut Group) {
    for key in keys {
        group.records.insert((*key).clone(), RecordSlot::of(None));
    }
    for row in rows {
        keep_record(keys, row, group);
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
