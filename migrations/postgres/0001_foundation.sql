-- What the database is: when it was made, whether for --dev, whose node it serves.
create table meta (
    key text primary key,
    value text not null
);

-- The state of every machine, guarded by its version.
create table records (
    route_key text not null,
    kind text not null,
    id text not null,
    version bigint not null check (version > 0),
    body text not null,
    updated_at bigint not null,
    primary key (route_key, kind, id)
) with (fillfactor = 80);

-- Names that only one owner can have.
create table names (
    kind text not null,
    name text not null,
    owner text not null,
    primary key (name, kind)
);

-- Accounts whose balance is locked and checked. Accounts that every settlement touches have no
-- row here: their balance is the sum of their journal.
create table accounts (
    account text collate "C" primary key,
    purpose text not null,
    asset text not null,
    posted bigint not null check (posted >= 0),
    held bigint not null check (held >= 0),
    debited bigint not null check (debited >= 0),
    owed bigint not null check (owed >= 0),
    debit_limit bigint,
    version bigint not null check (version > 0),
    opened_at bigint not null,
    constraint accounts_not_overdrawn check (posted >= held or purpose = 'budget'),
    constraint accounts_within_limit check (debit_limit is null or debited + held <= debit_limit)
) with (fillfactor = 70);

-- The journal. Rows are only ever added.
create table transfers (
    route_key text collate "C" not null,
    id text collate "C" not null,
    kind text not null,
    debit_account text collate "C" not null,
    credit_account text collate "C" not null,
    asset text not null,
    amount bigint not null check (amount > 0),
    held_change bigint not null,
    pending_id text collate "C",
    debt_id text collate "C",
    budget_account text collate "C",
    at bigint not null,
    primary key (route_key, id),
    check (debit_account <> credit_account),
    check (
        case kind
            when 'posted' then held_change = 0 and pending_id is null
            when 'pending' then held_change = amount and pending_id is null
            when 'post' then held_change + amount <= 0 and pending_id is not null
            when 'void' then held_change + amount = 0 and pending_id is not null
            else false
        end
    )
);
-- At most one row posts or voids a pending transfer.
create unique index transfers_by_pending on transfers (route_key, pending_id)
    where pending_id is not null;
create index transfers_by_debit on transfers (debit_account, at);
create index transfers_by_credit on transfers (credit_account, at);
create index transfers_by_budget on transfers (budget_account) where budget_account is not null;
create index transfers_by_debt on transfers (debt_id) where debt_id is not null;

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is never changed', tg_table_name;
end
$$;
create trigger transfers_are_never_changed before update or delete on transfers
    for each row execute function refuse_change();
create trigger transfers_are_never_emptied before truncate on transfers
    for each statement execute function refuse_change();

-- What is owed; every credit of the debtor's account pays it first.
create table debts (
    debtor_account text collate "C" not null,
    id text collate "C" not null,
    creditor_account text collate "C" not null,
    amount bigint not null check (amount > 0),
    open bigint not null check (open >= 0 and open <= amount),
    opened_at bigint not null,
    primary key (debtor_account, id)
);
create index debts_open on debts (debtor_account, opened_at) where open > 0;

-- The balances of accounts without a row, summed up to a time that no open transaction reaches.
create table rollups (
    account text collate "C" primary key,
    upto bigint not null,
    posted bigint not null
);

-- Events as their transactions write them, without numbers.
create table events (
    route_key text collate "C" not null,
    id text collate "C" not null,
    version bigint not null,
    kind text not null,
    at bigint not null,
    body text not null,
    notify text[] not null,
    primary key (route_key, id)
);
create trigger events_are_never_changed before update or delete on events
    for each row execute function refuse_change();
create trigger events_are_never_emptied before truncate on events
    for each statement execute function refuse_change();

-- Events that have no number yet, in the order in which they arrived: what was written because
-- of something else arrived after it.
create table events_unnumbered (
    arrival bigint generated always as identity primary key,
    route_key text collate "C" not null,
    id text collate "C" not null
);

-- The log: gapless numbers, each hash over the one before. One sequencer at a time writes it.
create table event_numbers (
    seq bigint primary key,
    hash bytea not null,
    route_key text collate "C" not null,
    id text collate "C" not null
);
create trigger event_numbers_are_never_changed before update or delete on event_numbers
    for each row execute function refuse_change();
create trigger event_numbers_are_never_emptied before truncate on event_numbers
    for each statement execute function refuse_change();

create table log_head (
    one int primary key check (one = 1),
    seq bigint not null,
    hash bytea not null
);

-- Which events an agent is told of.
create table inbox (
    agent_id text collate "C" not null,
    seq bigint not null,
    primary key (agent_id, seq)
);

-- Nonces and idempotency keys with what was answered, until they expire.
create table guards (
    scope text collate "C" not null,
    key text collate "C" not null,
    fingerprint bytea not null,
    refused boolean not null,
    body text not null,
    expires_at bigint not null,
    primary key (scope, key)
);
-- Keys expire about in the order in which they came: a small index is enough to find them.
create index guards_by_expiry on guards using brin (expires_at) with (pages_per_range = 16);

-- Work for after the commit, and for later: the outbox and the timers.
create table jobs (
    route_key text collate "C" not null,
    id text collate "C" not null,
    kind text not null,
    destination text not null,
    due_at bigint not null,
    body text not null,
    attempts bigint not null default 0,
    leased_until bigint not null default 0,
    last_error text,
    dead boolean not null default false,
    primary key (route_key, id)
);
create index jobs_by_due on jobs (due_at) where not dead;

-- Destinations that failed often are left alone for a while.
create table breakers (
    destination text primary key,
    failures bigint not null,
    open_until bigint not null
);

insert into log_head (one, seq, hash) values (1, 0, decode(repeat('00', 32), 'hex'));

-- A guard of the program that holds only as long as it hits its row: a miss is an error, which
-- undoes the transaction even when its commit is already on the way.
create function must_change(hit bigint, wanted bigint) returns void language plpgsql as $$
begin
    if hit <> wanted then
        raise exception 'stale write: % rows instead of %', hit, wanted using errcode = 'SK001';
    end if;
end
$$;
