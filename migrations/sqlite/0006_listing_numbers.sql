-- Listings get numbers, and what they are found by says which: a search then goes from a term to a
-- row in one step, where an id takes two.
create table listings_numbered (
    n integer primary key,
    id text not null unique,
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
insert into listings_numbered
    (id, agent_id, payee, capability, payment_mode, rank, price, max_latency_ms, verification,
     clarifies, audited, first_free, success_bps)
select id, agent_id, payee, capability, payment_mode, rank, price, max_latency_ms, verification,
       clarifies, audited, first_free, success_bps
from listings;
drop table listings;
alter table listings_numbered rename to listings;
create index listings_by_payee on listings (payee, agent_id);

create table listing_terms_numbered (
    term text not null,
    place integer not null,
    listing_id text not null,
    n integer not null,
    primary key (term, place, listing_id)
) strict, without rowid;
insert into listing_terms_numbered (term, place, listing_id, n)
select t.term, t.place, t.listing_id, l.n
from listing_terms t join listings l on l.id = t.listing_id;
drop table listing_terms;
alter table listing_terms_numbered rename to listing_terms;
