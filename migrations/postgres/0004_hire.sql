-- What search knows of a listing; the listing itself is a record.
create table listings (
    id text collate "C" primary key,
    agent_id text collate "C" not null,
    payee text collate "C" not null,
    capability text not null,
    payment_mode text not null,
    rank bigint not null,
    price bigint not null check (price > 0),
    max_latency_ms bigint not null,
    verification bigint not null,
    clarifies boolean not null,
    audited boolean not null,
    first_free boolean not null,
    success_bps bigint
);
create index listings_by_payee on listings (payee, agent_id);

-- What a listing is found by. The place is the rank below zero, so that the best come first and
-- a search reads one stretch of one index.
create table listing_terms (
    term text collate "C" not null,
    place bigint not null,
    listing_id text collate "C" not null,
    primary key (term, place, listing_id)
);

-- What was asked and answered in a hire, sealed, until it is forgotten.
create table payloads (
    receipt_id text collate "C" primary key,
    sealed bytea not null,
    expires_at bigint not null
);
-- Sealed bytes do not get smaller.
alter table payloads alter column sealed set storage external;
create index payloads_by_expiry on payloads (expires_at);
