//! The write set of a group, sent together with its commit.
//!
//! Every statement is sent before the first answer comes. That is safe because whatever does not
//! hit exactly the rows it means raises an error, and an error turns the commit behind it into a
//! rollback.
//!
//! Columns are unnested side by side in a select list: there rows go on one by one, while `from`
//! stores each column whole before it gives the first.

use std::{collections::BTreeSet, sync::LazyLock};

use deadpool_postgres::Object;
use futures_util::future::join_all;
use skep_base::{Amount, Timestamp};
use tokio_postgres::{Statement, error::Severity, types::ToSql};

use super::{
    describe,
    held::Marks,
    lane::GroupError,
    listings::add_listings,
    score_facts::{self, insert_facts},
};
use crate::{
    account::{Account, AccountId},
    group::{Group, RecordSlot},
    turn::RecordKey,
};

const INSERT_RECORDS: &str = "
    insert into records (route_key, kind, id, version, body, updated_at)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bigint[]),
           unnest($5::text[]), $6";
const UPDATE_RECORDS: &str = "
    with hit as (
        update records r set version = w.version, body = w.body, updated_at = $6
        from (select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]),
                     unnest($4::bigint[]), unnest($5::text[]), unnest($7::bigint[]))
            w (route_key, kind, id, version, body, old_version)
        where r.route_key = w.route_key and r.kind = w.kind and r.id = w.id
          and r.version = w.old_version
        returning 1)
    select must_change((select count(*) from hit), cardinality($1::text[]))";
const CHANGE_TAG: &str = "update rarely_written set tag = uuid_send(gen_random_uuid())";
const INSERT_NAMES: &str = "
    insert into names (kind, name, owner)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::text[])";
const INSERT_ACCOUNTS: &str = "
    insert into accounts (account, purpose, asset, posted, held, debited, owed, debit_limit,
                          counted, version, opened_at)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bigint[]),
           unnest($5::bigint[]), unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]),
           unnest($9::bytea[]), 1, $10";
const UPDATE_ACCOUNTS: &str = "
    with hit as (
        update accounts a set posted = w.posted, held = w.held, debited = w.debited,
                              owed = w.owed, debit_limit = w.debit_limit, version = a.version + 1,
                              counted = coalesce(w.counted, a.counted)
        from (select unnest($1::text[]), unnest($2::bigint[]), unnest($3::bigint[]),
                     unnest($4::bigint[]), unnest($5::bigint[]), unnest($6::bigint[]),
                     unnest($7::bigint[]), unnest($8::bytea[]))
            w (account, posted, held, debited, owed, debit_limit, old_version, counted)
        where a.account = w.account and a.version = w.old_version
        returning 1)
    select must_change((select count(*) from hit), cardinality($1::text[]))";
const INSERT_TRANSFERS: &str = "
    insert into transfers (route_key, id, kind, debit_account, credit_account, asset, amount,
                           held_change, pending_id, debt_id, budget_account, at)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
           unnest($5::text[]), unnest($6::text[]), unnest($7::bigint[]), unnest($8::bigint[]),
           unnest($9::text[]), unnest($10::text[]), unnest($11::text[]), $12";
const INSERT_DEBTS: &str = "
    insert into debts (debtor_account, id, creditor_account, amount, open, opened_at)
    select debtor, id, creditor, amount, amount, $5
    from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) w (debtor, id, creditor, amount)";
const UPDATE_DEBTS: &str = "
    with hit as (
        update debts d set open = w.open
        from unnest($1::text[], $2::text[], $3::bigint[]) w (debtor, id, open)
        where d.debtor_account = w.debtor and d.id = w.id
        returning 1)
    select must_change((select count(*) from hit), cardinality($1::text[]))";
static INSERT_EVENTS: LazyLock<String> = LazyLock::new(|| insert_events(""));
/// With the facts that events tell of: a statement of their own would cost every settlement more.
static INSERT_EVENTS_AND_FACTS: LazyLock<String> = LazyLock::new(|| {
    let facts = insert_facts(EVENT_COLUMNS + 1);
    insert_events(&format!("counted as ({facts}),"))
});
const EVENT_COLUMNS: usize = 7;
const INSERT_JOBS: &str = "
    insert into jobs (route_key, id, kind, destination, due_at, body)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::text[]),
           unnest($5::bigint[]), unnest($6::text[])";
const DELETE_JOBS: &str = "
    delete from jobs j using (select unnest($1::text[]), unnest($2::text[])) w (route_key, id)
    where j.route_key = w.route_key and j.id = w.id";
const CLOSE_BREAKERS: &str = "delete from breakers where destination = any($1)";
const DELETE_LISTED: &str = "
    delete from lists l using (select unnest($1::text[]), unnest($2::text[])) w (list, member)
    where l.list = w.list and l.member = w.member";
const INSERT_LISTED: &str = "
    insert into lists (list, member, at) select unnest($1::text[]), unnest($2::text[]), $3
    on conflict (list, member) do nothing";
const INSERT_GUARDS: &str = "
    insert into guards (scope, key, fingerprint, refused, body, expires_at)
    select unnest($1::text[]), unnest($2::text[]), unnest($3::bytea[]), unnest($4::bool[]),
           unnest($5::text[]), unnest($6::bigint[])";

fn insert_events(beside: &str) -> String {
    format!(
        "with {beside} added as (
            insert into events (route_key, id, version, kind, at, body, notify)
            select route_key, id, version, kind, at, body,
                   case notify when '' then '{{}}' else string_to_array(notify, ',') end
            from (select unnest($1::text[]), unnest($2::text[]), unnest($3::bigint[]),
                         unnest($4::text[]), unnest($5::bigint[]), unnest($6::text[]),
                         unnest($7::text[]))
                w (route_key, id, version, kind, at, body, notify)
            returning route_key, id)
        insert into events_unnumbered (route_key, id) select route_key, id from added"
    )
}

pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// Statements with their parameters, in the order in which they are sent.
#[derive(Default)]
pub(super) struct Batch {
    lines: Vec<(&'static str, Vec<Param>)>,
}

impl Batch {
    pub(super) fn add(&mut self, sql: &'static str, params: Vec<Param>) {
        self.lines.push((sql, params));
    }
}

pub(super) fn column<T, V, I>(rows: &[T], value: I) -> Param
where
    V: Sync + Send + 'static,
    Vec<V>: ToSql,
    I: Fn(&T) -> V,
{
    Box::new(rows.iter().map(value).collect::<Vec<V>>())
}

/// Writes and commits.
pub(super) async fn flush(
    client: &Object,
    group: &Group,
    marks: &Marks<'_>,
    now: Timestamp,
) -> Result<(), GroupError> {
    let mut batch = Batch::default();
    add_records(&mut batch, group, now)?;
    add_money(&mut batch, group, marks, now);
    add_rest(&mut batch, group);
    add_lists(&mut batch, group, now);
    add_listings(&mut batch, group);
    add_guards(&mut batch, group);
    let mut statements: Vec<Statement> = Vec::with_capacity(batch.lines.len());
    for (sql, _) in &batch.lines {
        let prepared = client.prepare_cached(sql).await;
        statements.push(prepared.map_err(|e| GroupError::before_commit(&e))?);
    }
    let sent = batch.lines.iter().zip(&statements).map(|((_, params), statement)| {
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|p| &**p as _).collect();
        async move { client.execute(statement, &params).await }
    });
    let (written, committed) = futures_util::join!(join_all(sent), client.batch_execute("commit"));
    // The first refusal is the reason; what comes behind it only says that it is behind it.
    written.into_iter().find_map(Result::err).or(committed.err()).map_or(Ok(()), |error| {
        Err(match is_refusal(&error) {
            true => GroupError::before_commit(&error),
            false => GroupError::Lost(describe(&error)),
        })
    })
}

/// Whether the server itself said no and lives on: then the commit was a rollback. Anything else
/// (a lost connection, a server going down, a proxy's word) leaves open what became of it.
fn is_refusal(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        let ends = matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        let class = db.code().code().get(..2).unwrap_or_default();
        !ends && !matches!(class, "08" | "57" | "58" | "XX")
    })
}

fn add_records(batch: &mut Batch, group: &Group, now: Timestamp) -> Result<(), GroupError> {
    let mut inserts = Vec::new();
    let mut updates = Vec::new();
    for key in &group.changed_records {
        let Some(RecordSlot { stored_version, now: Some(record) }) = group.records.get(key) else {
            return Err(GroupError::Refused(format!("{} was changed but not loaded", key.id)));
        };
        let list = if *stored_version == 0 { &mut inserts } else { &mut updates };
        list.push((key, record, *stored_version));
    }
    for (rows, sql) in [(&inserts, INSERT_RECORDS), (&updates, UPDATE_RECORDS)] {
        if rows.is_empty() {
            continue;
        }
        let mut params = vec![
            column(rows, |(k, _, _)| k.route.as_str().to_owned()),
            column(rows, |(k, _, _)| k.kind),
            column(rows, |(k, _, _)| k.id.clone()),
            column(rows, |(_, r, _)| r.version),
            column(rows, |(_, r, _)| r.body.clone()),
            Box::new(now.as_ms()) as Param,
        ];
        if sql == UPDATE_RECORDS {
            params.push(column(rows, |(_, _, old)| *old));
        }
        batch.add(sql, params);
    }
    if group.changed_records.iter().any(RecordKey::is_rarely_written) {
        batch.add(CHANGE_TAG, Vec::new());
    }
    if !group.new_names.is_empty() {
        let rows = &group.new_names;
        let params = vec![
            column(rows, |(kind, _, _)| *kind),
            column(rows, |(_, name, _)| name.clone()),
            column(rows, |(_, _, owner)| owner.clone()),
        ];
        batch.add(INSERT_NAMES, params);
    }
    Ok(())
}

fn add_money(batch: &mut Batch, group: &Group, marks: &Marks<'_>, now: Timestamp) {
    let marked = marks.in_wallets.keys().copied();
    let changed: BTreeSet<&AccountId> = group.changed_accounts.iter().chain(marked).collect();
    let changed = changed.into_iter().filter_map(|id| group.accounts.get(id));
    let (new, old): (Vec<&Account>, Vec<&Account>) = changed.partition(|a| a.version == 0);
    let limit = |a: &&Account| a.debit_limit.map(Amount::minor);
    let mark = |a: &&Account| marks.in_wallets.get(&a.id).cloned();
    if !new.is_empty() {
        let params = vec![
            column(&new, |a| a.id.as_str().to_owned()),
            column(&new, |a| a.id.purpose().as_str()),
            column(&new, |a| a.id.asset().to_string()),
            column(&new, |a| a.posted.minor()),
            column(&new, |a| a.held.minor()),
            column(&new, |a| a.debited.minor()),
            column(&new, |a| a.owed.minor()),
            column(&new, limit),
            column(&new, mark),
            Box::new(now.as_ms()) as Param,
        ];
        batch.add(INSERT_ACCOUNTS, params);
    }
    if !old.is_empty() {
        let params = vec![
            column(&old, |a| a.id.as_str().to_owned()),
            column(&old, |a| a.posted.minor()),
            column(&old, |a| a.held.minor()),
            column(&old, |a| a.debited.minor()),
            column(&old, |a| a.owed.minor()),
            column(&old, limit),
            column(&old, |a| a.version),
            column(&old, mark),
        ];
        batch.add(UPDATE_ACCOUNTS, params);
    }
    add_journal(batch, group, now);
}

fn add_journal(batch: &mut Batch, group: &Group, now: Timestamp) {
    let rows = &group.journal;
    if !rows.is_empty() {
        let params = vec![
            column(rows, |t| t.route.as_str().to_owned()),
            column(rows, |t| t.id.to_string()),
            column(rows, |t| t.kind.as_str()),
            column(rows, |t| t.debit.as_str().to_owned()),
            column(rows, |t| t.credit.as_str().to_owned()),
            column(rows, |t| t.asset().to_string()),
            column(rows, |t| t.amount.minor()),
            column(rows, |t| t.held_change),
            column(rows, |t| t.pending.map(|id| id.to_string())),
            column(rows, |t| t.debt.map(|id| id.to_string())),
            column(rows, |t| t.budget.as_ref().map(|b| b.as_str().to_owned())),
            Box::new(now.as_ms()) as Param,
        ];
        batch.add(INSERT_TRANSFERS, params);
    }
    let debts = &group.new_debts;
    if !debts.is_empty() {
        let params = vec![
            column(debts, |d| d.debtor.as_str().to_owned()),
            column(debts, |d| d.id.to_string()),
            column(debts, |d| d.creditor.as_str().to_owned()),
            column(debts, |d| d.open.minor()),
            Box::new(now.as_ms()) as Param,
        ];
        batch.add(INSERT_DEBTS, params);
    }
    let paid: Vec<_> = group.paid_debts.iter().collect();
    if !paid.is_empty() {
        let params = vec![
            column(&paid, |(_, (debtor, _))| AccountId::as_str(debtor).to_owned()),
            column(&paid, |(id, _)| id.to_string()),
            column(&paid, |(_, (_, open))| open.minor()),
        ];
        batch.add(UPDATE_DEBTS, params);
    }
}

fn add_rest(batch: &mut Batch, group: &Group) {
    let (events, facts) = (&group.events, &group.new_facts);
    if !events.is_empty() || !facts.is_empty() {
        let notify = |agents: &[skep_base::AgentId]| {
            agents.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        let mut params = vec![
            column(events, |e| e.route.as_str().to_owned()),
            column(events, |e| e.id.to_string()),
            column(events, |e| e.version),
            column(events, |e| e.kind.clone()),
            column(events, |e| e.at.as_ms()),
            column(events, |e| e.body.clone()),
            column(events, |e| notify(&e.notify)),
        ];
        let sql = if facts.is_empty() { &INSERT_EVENTS } else { &INSERT_EVENTS_AND_FACTS };
        if !facts.is_empty() {
            params.extend(score_facts::columns(facts));
        }
        batch.add(sql, params);
    }
    let jobs = &group.jobs;
    if !jobs.is_empty() {
        let params = vec![
            column(jobs, |j| j.draft.route.as_str().to_owned()),
            column(jobs, |j| j.id.to_string()),
            column(jobs, |j| j.draft.kind),
            column(jobs, |j| j.draft.destination.clone()),
            column(jobs, |j| j.draft.due_at.as_ms()),
            column(jobs, |j| j.draft.body.clone()),
        ];
        batch.add(INSERT_JOBS, params);
    }
    let ended = &group.ended_jobs;
    if !ended.is_empty() {
        let params = vec![
            column(ended, |e| e.route.as_str().to_owned()),
            column(ended, |e| e.id.to_string()),
        ];
        batch.add(DELETE_JOBS, params);
    }
    let reached: Vec<_> = group.reached.iter().collect();
    if !reached.is_empty() {
        batch.add(CLOSE_BREAKERS, vec![column(&reached, |d| d.to_string())]);
    }
}

fn add_lists(batch: &mut Batch, group: &Group, now: Timestamp) {
    let pairs = |rows: &[&(String, String)]| {
        vec![column(rows, |(list, _)| list.clone()), column(rows, |(_, member)| member.clone())]
    };
    let (off, on) = (group.lists.off(), group.lists.on());
    if !off.is_empty() {
        batch.add(DELETE_LISTED, pairs(&off));
    }
    if !on.is_empty() {
        let mut params = pairs(&on);
        params.push(Box::new(now.as_ms()));
        batch.add(INSERT_LISTED, params);
    }
}

fn add_guards(batch: &mut Batch, group: &Group) {
    let guards = &group.new_guards;
    if guards.is_empty() {
        return;
    }
    let params = vec![
        column(guards, |g| g.guard.scope.clone()),
        column(guards, |g| g.guard.key.clone()),
        column(guards, |g| g.guard.fingerprint.as_bytes().to_vec()),
        column(guards, |g| g.answer.refused),
        column(guards, |g| g.answer.body.clone()),
        column(guards, |g| g.expires_at.as_ms()),
    ];
    batch.add(INSERT_GUARDS, params);
}
