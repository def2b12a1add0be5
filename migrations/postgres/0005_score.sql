-- What counts for an agent's score: sessions and settlements that ended, numbered and chained, each
-- with the sums of all up to it. What happened in a window is the difference of two rows. Rows are
-- only ever added.
create table score_facts (
    agent_id text collate "C" not null,
    at bigint not null,
    n bigint not null check (n > 0),
    dimension text not null check (dimension in ('conduit', 'ap2')),
    source text not null,
    ok boolean not null,
    released_cents bigint not null check (released_cents >= 0),
    counterparty text,
    proof bytea,
    chain bytea not null,
    conduit_sum bigint not null,
    conduit_ok_sum bigint not null,
    proofs_sum bigint not null,
    ap2_sum bigint not null,
    ap2_ok_sum bigint not null,
    cents_sum bigint not null,
    primary key (agent_id, at, n)
);
create trigger score_facts_are_never_changed before update or delete on score_facts
    for each row execute function refuse_change();
create trigger score_facts_are_never_emptied before truncate on score_facts
    for each statement execute function refuse_change();

-- The order of listings has room for what is known of their sellers: points where the hires were,
-- and a shorter price. What stands in the index moves to where it is looked for from now on.
update listings set rank =
    ((rank >> 49) << 52)
    + ((((rank >> 44) & 31) * 20) << 42)
    + greatest(0, 4398046511103 - price);
update listing_terms set place = -(select rank from listings where id = listing_id)
where listing_id in (select id from listings);
