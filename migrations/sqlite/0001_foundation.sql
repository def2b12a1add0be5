-- What the database is: when it was made, whether for --dev, whose node it serves.
create table meta (
    key text primary key,
    value text not null
) strict, without rowid;

-- The state of every machine, guarded by its version.
create table records (
    route_key text not null,
    kind text not null,
    id text not null,
    version integer not null check (version > 0),
    body text not null,
    updated_at integer not null,
    primary key (route_key, kind, id)
) strict, without rowid;

-- Names that only one owner can have.
create table names (
    kind text not null,
    name text not null,
    owner text not null,
    primary key (kind, name)
) strict, without rowid;

-- Accounts whose balance is locked and checked. Accounts that every settlement touches have no
-- row here: their balance is the sum of their journal.
create table accounts (
    account text primary key,
    purpose text not null,
    asset text not null,
    posted integer not null check (posted >= 0),
    held integer not null check (held >= 0),
    debited integer not null check (debited >= 0),
    owed integer not null check (owed >= 0),
    debit_limit integer,
    version integer not null check (version > 0),
    opened_at integer not null,
    constraint accounts_not_overdrawn check (posted >= held or purpose = 'budget'),
    constraint accounts_within_limit check (debit_limit is null or debited + held <= debit_limit)
) strict, without rowid;

-- The journal. Rows are only ever added.
create table transfers (
    n integer primary key,
    route_key text not null,
    id text not null,
    kind text not null,
    debit_account text not null,
    credit_account text not null,
    asset text not null,
    amount integer not null check (amount > 0),
    held_change integer not null,
    pending_id text,
    debt_id text,
    budget_account text,
    at integer not null,
    check (debit_account <> credit_account),
    check (
        case kind
            when 'posted' then held_change = 0 and pending_id is null
            when 'pending' then held_change = amount and pending_id is null
            when 'post' then held_change + amount <= 0 and pending_id is not null
            when 'void' then held_change + amount = 0 and pending_id is not null
            else 0
        end
    )
) strict;
create unique index transfers_by_id on transfers (route_key, id);
-- At most one row posts or voids a pending transfer.
create unique index transfers_by_pending on transfers (route_key, pending_id)
    where pending_id is not null;
create index transfers_by_debit on transfers (debit_account);
create index transfers_by_credit on transfers (credit_account);
create index transfers_by_budget on transfers (budget_account) where budget_account is not null;
create index transfers_by_debt on transfers (debt_id) where debt_id is not null;

create trigger transfers_are_never_changed before update on transfers
begin
    select raise(abort, 'the journal is never changed');
end;
create trigger transfers_are_never_deleted before delete on transfers
begin
    select raise(abort, 'the journal is never changed');
end;

-- What is owed; every credit of the debtor's account pays it first.
create table debts (
    debtor_account text not null,
    id text not null,
    creditor_account text not null,
    amount integer not null check (amount > 0),
    open integer not null check (open >= 0 and open <= amount),
    opened_at integer not null,
    primary key (debtor_account, id)
) strict, without rowid;
create index debts_open on debts (debtor_account, opened_at) where open > 0;

-- The balances of accounts without a row, summed up to a journal row.
create table rollups (
    account text primary key,
    upto integer not null,
    posted integer not null
) strict, without rowid;

-- The event log: gapless numbers, each hash over the one before.
create table events (
    seq integer primary key,
    hash blob not null,
    id text not null,
    route_key text not null,
    version integer not null,
    kind text not null,
    at integer not null,
    body text not null
) strict;
create index events_by_route on events (route_key);
create trigger events_are_never_changed before update on events
begin
    select raise(abort, 'the event log is never changed');
end;
create trigger events_are_never_deleted before delete on events
begin
    select raise(abort, 'the event log is never changed');
end;

create table log_head (
    one integer primary key check (one = 1),
    seq integer not null,
    hash blob not null
) strict;

-- Which events an agent is told of.
create table inbox (
    agent_id text not null,
    seq integer not null,
    primary key (agent_id, seq)
) strict, without rowid;

-- Nonces and idempotency keys with what was answered, until they expire.
create table guards (
    scope text not null,
    key text not null,
    fingerprint blob not null,
    refused integer not null,
    body text not null,
    expires_at integer not null,
    primary key (scope, key)
) strict, without rowid;
create index guards_by_expiry on guards (expires_at);

-- Work for after the commit, and for later: the outbox and the timers.
create table jobs (
    route_key text not null,
    id text not null,
    kind text not null,
    destination text not null,
    due_at integer not null,
    body text not null,
    attempts integer not null default 0,
    leased_until integer not null default 0,
    last_error text,
    dead integer not null default 0,
    primary key (route_key, id)
) strict, without rowid;
create index jobs_by_due on jobs (due_at) where dead = 0;

-- Destinations that failed often are left alone for a while.
create table breakers (
    destination text primary key,
    failures integer not null,
    open_until integer not null
) strict, without rowid;

insert into log_head (one, seq, hash) values (1, 0, zeroblob(32));
