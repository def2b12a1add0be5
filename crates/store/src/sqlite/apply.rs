//! A group of calls on SQLite: what they name is loaded, what they wrote is written.

use std::collections::{BTreeMap, btree_map::Entry};

use rusqlite::{Connection, OptionalExtension, Row, params};
use skep_base::{Amount, Hash32, Timestamp, id::TransferId};

use super::{
    known::Known,
    listings,
    score_facts::{self, Ends},
    writer::WorkError,
};
use crate::{
    account::{Account, AccountId},
    book::DEBTS_PAID_AT_ONCE_MAX,
    event::Head,
    group::{Group, KeptAnswer, NewGuard, RecordSlot, accounts_of},
    score_fact::WantedFacts,
    transfer::{Debt, Kind, Resolution, StoredTransfer, Transfer},
    turn::{Answer, Bug, Call, Guard, RecordKey, RouteKey, StoredRecord},
};

/// Puts what a call names, and the group does not have yet, before the group.
pub(super) fn load(
    conn: &Connection,
    call: &Call,
    group: &mut Group,
    now: Timestamp,
    known: &mut Known,
) -> Result<(), WorkError> {
    for guard in &call.guards {
        let key = (guard.scope.clone(), guard.key.clone());
        if let Entry::Vacant(place) = group.guards.entry(key) {
            place.insert(kept_answer(conn, guard)?);
        }
    }
    let tracks = call.load.facts.iter().map(|wanted| (*wanted.track).clone());
    for key in call.load.records.iter().map(|(key, _)| key.clone()).chain(tracks) {
        if let Entry::Vacant(place) = group.records.entry(key) {
            let stored = known.records.load(conn, place.key())?;
            place.insert(RecordSlot::of(stored));
        }
    }
    for (kind, name) in &call.load.names {
        let key = (*kind, name.clone());
        if let Entry::Vacant(place) = group.names.entry(key) {
            let owner = conn
                .prepare_cached("select owner from names where kind = ?1 and name = ?2")?
                .query_row((kind, name), |row| row.get(0))
                .optional()?;
            place.insert(owner);
        }
    }
    for WantedFacts { agent, .. } in &call.load.facts {
        if let Entry::Vacant(place) = group.counted.entry(*agent) {
            place.insert(known.facts.counted(conn, agent, now)?);
        }
    }
    let mut wanted = call.load.accounts.clone();
    for (route, id) in &call.load.transfers {
        if let Entry::Vacant(place) = group.transfers.entry((route.clone(), *id)) {
            place.insert(stored_transfer(conn, route, id)?);
        }
        if let Some(Some(stored)) = group.transfers.get(&(route.clone(), *id)) {
            wanted.extend(accounts_of(&stored.transfer));
        }
    }
    load_accounts(conn, wanted, group)
}

/// Loads accounts and, for those that owe, whom they owe: a credit pays debts at once.
fn load_accounts(
    conn: &Connection,
    mut wanted: Vec<AccountId>,
    group: &mut Group,
) -> Result<(), WorkError> {
    while let Some(id) = wanted.pop() {
        if !id.purpose().has_balance_row() || group.accounts.contains_key(&id) {
            continue;
        }
        let account = account(conn, &id)?.unwrap_or_else(|| Account::unopened(id.clone()));
        if account.owed > Amount::ZERO {
            let debts = open_debts(conn, &id)?;
            wanted.extend(debts.iter().map(|debt| debt.creditor.clone()));
            group.debts.insert(id.clone(), debts);
        }
        group.accounts.insert(id, account);
    }
    Ok(())
}

fn kept_answer(conn: &Connection, guard: &Guard) -> rusqlite::Result<Option<KeptAnswer>> {
    conn.prepare_cached(
        "select fingerprint, refused, body from guards where scope = ?1 and key = ?2",
    )?
    .query_row((&guard.scope, &guard.key), |row| {
        let answer = Answer { refused: row.get(1)?, body: row.get(2)? };
        Ok(KeptAnswer { fingerprint: row.get(0)?, answer })
    })
    .optional()
}

pub(super) fn record(conn: &Connection, key: &RecordKey) -> rusqlite::Result<Option<StoredRecord>> {
    conn.prepare_cached(
        "select version, body from records where route_key = ?1 and kind = ?2 and id = ?3",
    )?
    .query_row((key.route.as_str(), key.kind, &key.id), |row| {
        Ok(StoredRecord { version: row.get(0)?, body: row.get(1)? })
    })
    .optional()
}

pub(super) fn account(conn: &Connection, id: &AccountId) -> rusqlite::Result<Option<Account>> {
    conn.prepare_cached(
        "select posted, held, debited, owed, debit_limit, version from accounts
         where account = ?1",
    )?
    .query_row([id.as_str()], |row| {
        Ok(Account {
            id: id.clone(),
            posted: amount(row, 0)?,
            held: amount(row, 1)?,
            debited: amount(row, 2)?,
            owed: amount(row, 3)?,
            debit_limit: row.get::<_, Option<i64>>(4)?.and_then(Amount::new),
            version: row.get(5)?,
        })
    })
    .optional()
}

fn open_debts(conn: &Connection, debtor: &AccountId) -> rusqlite::Result<Vec<Debt>> {
    conn.prepare_cached(
        "select id, creditor_account, open from debts
         where debtor_account = ?1 and open > 0 order by opened_at, id limit ?2",
    )?
    .query_map((debtor.as_str(), DEBTS_PAID_AT_ONCE_MAX as i64), |row| {
        Ok(Debt {
            id: parsed(row, 0)?,
            debtor: debtor.clone(),
            creditor: parsed(row, 1)?,
            open: amount(row, 2)?,
        })
    })?
    .collect()
}

/// A row of the journal with its resolution, by its id.
pub(super) fn stored_transfer(
    conn: &Connection,
    route: &RouteKey,
    id: &TransferId,
) -> rusqlite::Result<Option<StoredTransfer>> {
    let transfer = conn
        .prepare_cached(
            "select id, route_key, kind, debit_account, credit_account, amount, held_change,
                    pending_id, debt_id, budget_account, at
             from transfers where route_key = ?1 and id = ?2",
        )?
        .query_row((route.as_str(), id.to_string()), |row| {
            Ok((transfer_row(row)?, Timestamp::from_ms(row.get(10)?)))
        })
        .optional()?;
    let Some((transfer, at)) = transfer else {
        return Ok(None);
    };
    let resolution = conn
        .prepare_cached(
            "select id, kind, amount from transfers where route_key = ?1 and pending_id = ?2",
        )?
        .query_row((route.as_str(), id.to_string()), |row| {
            Ok(Resolution { id: parsed(row, 0)?, kind: kind(row, 1)?, amount: amount(row, 2)? })
        })
        .optional()?;
    Ok(Some(StoredTransfer { transfer, at, resolution }))
}

pub(super) fn transfer_row(row: &Row<'_>) -> rusqlite::Result<Transfer> {
    Ok(Transfer {
        id: parsed(row, 0)?,
        route: RouteKey::of(row.get_ref(1)?.as_str()?),
        kind: kind(row, 2)?,
        debit: parsed(row, 3)?,
        credit: parsed(row, 4)?,
        amount: amount(row, 5)?,
        held_change: row.get(6)?,
        pending: optional(row, 7)?,
        debt: optional(row, 8)?,
        budget: optional(row, 9)?,
    })
}

/// Writes all that the group's calls wrote, and says where the event log and its agents' facts
/// end now.
pub(super) fn flush(
    conn: &Connection,
    group: &Group,
    head: Head,
    now: Timestamp,
    known: &Known,
) -> Result<(Head, Ends), WorkError> {
    let now = now.as_ms();
    write_records(conn, group, now)?;
    let ends = score_facts::write(conn, group, &known.facts)?;
    let in_wallets = score_facts::write_ends(conn, group, &ends)?;
    write_money(conn, group, &in_wallets, now)?;
    let head = write_events(conn, group, head)?;
    for job in &group.jobs {
        let draft = &job.draft;
        conn.prepare_cached(
            "insert into jobs (route_key, id, kind, destination, due_at, body)
             values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            draft.route.as_str(),
            job.id.to_string(),
            draft.kind,
            draft.destination,
            draft.due_at.as_ms(),
            draft.body
        ])?;
    }
    for end in &group.ended_jobs {
        conn.prepare_cached("delete from jobs where route_key = ?1 and id = ?2")?
            .execute((end.route.as_str(), end.id.to_string()))?;
    }
    for destination in &group.reached {
        conn.prepare_cached("delete from breakers where destination = ?1")?
            .execute([destination])?;
    }
    write_lists(conn, group, now)?;
    listings::write(conn, group)?;
    for NewGuard { guard, answer, expires_at } in &group.new_guards {
        conn.prepare_cached(
            "insert into guards (scope, key, fingerprint, refused, body, expires_at)
             values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            guard.scope,
            guard.key,
            guard.fingerprint.as_bytes(),
            answer.refused,
            answer.body,
            expires_at.as_ms()
        ])?;
    }
    Ok((head, ends))
}

fn write_lists(conn: &Connection, group: &Group, now: i64) -> Result<(), WorkError> {
    for (list, member) in group.lists.off() {
        conn.prepare_cached("delete from lists where list = ?1 and member = ?2")?
            .execute((list, member))?;
    }
    for (list, member) in group.lists.on() {
        conn.prepare_cached(
            "insert into lists (list, member, at) values (?1, ?2, ?3)
             on conflict (list, member) do nothing",
        )?
        .execute((list, member, now))?;
    }
    Ok(())
}

fn write_records(conn: &Connection, group: &Group, now: i64) -> Result<(), WorkError> {
    for key in &group.changed_records {
        let Some(RecordSlot { stored_version, now: Some(record) }) = group.records.get(key) else {
            return Err(Bug(format!("{} was changed but not loaded", key.id)).into());
        };
        let hit = if *stored_version == 0 {
            conn.prepare_cached(
                "insert into records (route_key, kind, id, version, body, updated_at)
                 values (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                key.route.as_str(),
                key.kind,
                key.id,
                record.version,
                record.body,
                now
            ])?
        } else {
            conn.prepare_cached(
                "update records set version = ?4, body = ?5, updated_at = ?6
                 where route_key = ?1 and kind = ?2 and id = ?3 and version = ?7",
            )?
            .execute(params![
                key.route.as_str(),
                key.kind,
                key.id,
                record.version,
                record.body,
                now,
                stored_version
            ])?
        };
        must_hit(hit, &key.id)?;
    }
    for (kind, name, owner) in &group.new_names {
        conn.prepare_cached("insert into names (kind, name, owner) values (?1, ?2, ?3)")?
            .execute((kind, name, owner))?;
    }
    Ok(())
}

fn write_money(
    conn: &Connection,
    group: &Group,
    last_facts: &BTreeMap<&AccountId, i64>,
    now: i64,
) -> Result<(), WorkError> {
    for id in &group.changed_accounts {
        if let Some(account) = group.accounts.get(id) {
            write_account(conn, account, last_facts.get(id).copied(), now)?;
        }
    }
    for row in &group.journal {
        write_transfer(conn, row, now)?;
    }
    for debt in &group.new_debts {
        conn.prepare_cached(
            "insert into debts (debtor_account, id, creditor_account, amount, open, opened_at)
             values (?1, ?2, ?3, ?4, ?4, ?5)",
        )?
        .execute(params![
            debt.debtor.as_str(),
            debt.id.to_string(),
            debt.creditor.as_str(),
            debt.open.minor(),
            now
        ])?;
    }
    for (id, (debtor, open)) in &group.paid_debts {
        let hit = conn
            .prepare_cached("update debts set open = ?3 where debtor_account = ?1 and id = ?2")?
            .execute((debtor.as_str(), id.to_string(), open.minor()))?;
        must_hit(hit, debtor)?;
    }
    Ok(())
}

/// Writes an account and, if it is a wallet whose agent was counted for, where its facts end.
pub(crate) fn write_account(
    conn: &Connection,
    account: &Account,
    last_fact: Option<i64>,
    now: i64,
) -> Result<(), WorkError> {
    let id = &account.id;
    let limit = account.debit_limit.map(Amount::minor);
    let hit = if account.version == 0 {
        conn.prepare_cached(
            "insert into accounts (account, posted, held, debited, owed, debit_limit, version,
                                   purpose, asset, opened_at, last_fact)
             values (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            id.as_str(),
            account.posted.minor(),
            account.held.minor(),
            account.debited.minor(),
            account.owed.minor(),
            limit,
            id.purpose().as_str(),
            id.asset().to_string(),
            now,
            last_fact
        ])?
    } else {
        conn.prepare_cached(
            "update accounts set posted = ?2, held = ?3, debited = ?4, owed = ?5,
                                 debit_limit = ?6, version = version + 1,
                                 last_fact = coalesce(?8, last_fact)
             where account = ?1 and version = ?7",
        )?
        .execute(params![
            id.as_str(),
            account.posted.minor(),
            account.held.minor(),
            account.debited.minor(),
            account.owed.minor(),
            limit,
            account.version,
            last_fact
        ])?
    };
    must_hit(hit, id)
}

pub(crate) fn write_transfer(conn: &Connection, row: &Transfer, now: i64) -> Result<(), WorkError> {
    conn.prepare_cached(
        "insert into transfers (route_key, id, kind, debit_account, credit_account, asset, amount,
                                held_change, pending_id, debt_id, budget_account, at)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .execute(params![
        row.route.as_str(),
        row.id.to_string(),
        row.kind.as_str(),
        row.debit.as_str(),
        row.credit.as_str(),
        row.asset().to_string(),
        row.amount.minor(),
        row.held_change,
        row.pending.map(|id| id.to_string()),
        row.debt.map(|id| id.to_string()),
        row.budget.as_ref().map(AccountId::as_str),
        now
    ])?;
    Ok(())
}

fn write_events(conn: &Connection, group: &Group, mut head: Head) -> Result<Head, WorkError> {
    for event in &group.events {
        head = head.next(event);
        conn.prepare_cached(
            "insert into events (seq, hash, id, route_key, version, kind, at, body)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            head.seq,
            head.hash.as_bytes(),
            event.id.to_string(),
            event.route.as_str(),
            event.version,
            event.kind,
            event.at.as_ms(),
            event.body
        ])?;
        for agent in &event.notify {
            conn.prepare_cached("insert or ignore into inbox (agent_id, seq) values (?1, ?2)")?
                .execute((agent.to_string(), head.seq))?;
        }
    }
    Ok(head)
}

fn must_hit(hit: usize, what: impl std::fmt::Display) -> Result<(), WorkError> {
    if hit == 1 { Ok(()) } else { Err(Bug(format!("a stale write of {what}")).into()) }
}

pub(super) fn amount(row: &Row<'_>, column: usize) -> rusqlite::Result<Amount> {
    let minor: i64 = row.get(column)?;
    Amount::new(minor).ok_or(rusqlite::Error::IntegralValueOutOfRange(column, minor))
}

pub(super) fn hash(row: &Row<'_>, column: usize) -> rusqlite::Result<Hash32> {
    row.get::<_, [u8; 32]>(column).map(Hash32)
}

fn kind(row: &Row<'_>, column: usize) -> rusqlite::Result<Kind> {
    let word = row.get_ref(column)?.as_str()?;
    Kind::parse(word).ok_or_else(|| unreadable(column, word))
}

pub(super) fn parsed<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|_| unreadable(column, text))
}

pub(super) fn optional<T: std::str::FromStr>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| unreadable(column, text)),
    }
}

fn unreadable(column: usize, text: &str) -> rusqlite::Error {
    let reason = format!("unreadable value {text:?}");
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, reason.into())
}
