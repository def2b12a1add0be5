-- What search knows of a listing; the listing itself is a record.
create table listings (
    id text primary key,
    agent_id text not null,
    payee text not null,
    capability text not null,
    payment_mode text not null,
    rank integer not null,
    price integer not null check (price > 0),
    max_latency_ms integer not null,
    verification integer not null,
    clarifies integer not null,
    audited integer not null,
    first_free integer not null,
    success_bps integer
) strict;
create index listings_by_payee on listings (payee, agent_id);

-- What a listing is found by. The place is the rank below zero, so that the best come first and
-- a search reads one stretch of one index.
create table listing_terms (
    term text not null,
    place integer not null,
    listing_id text not null,
    primary key (term, place, listing_id)
) strict, without rowid;

-- What was asked and answered in a hire, sealed, until it is forgotten.
create table payloads (
    receipt_id text primary key,
    sealed blob not null,
    expires_at integer not null
) strict;
create index payloads_by_expiry on payloads (expires_at);
