-- What counts for an agent's score: sessions and settlements that ended, numbered and chained, each
-- with the sums of all up to it. What happened in a window is the difference of two rows. Rows are
-- only ever added.
create table score_facts (
    agent_id text not null,
    at integer not null,
    n integer not null check (n > 0),
    dimension text not null check (dimension in ('conduit', 'ap2')),
    source text not null,
    ok integer not null check (ok in (0, 1)),
    released_cents integer not null check (released_cents >= 0),
    counterparty text,
    proof blob,
    chain blob not null,
    conduit_sum integer not null,
    conduit_ok_sum integer not null,
    proofs_sum integer not null,
    ap2_sum integer not null,
    ap2_ok_sum integer not null,
    cents_sum integer not null,
    primary key (agent_id, at, n)
) strict, without rowid;
create trigger score_facts_are_never_changed before update on score_facts
begin
    select raise(abort, 'what was counted is never changed');
end;
create trigger score_facts_are_never_deleted before delete on score_facts
begin
    select raise(abort, 'what was counted is never changed');
end;

-- The order of listings has room for what is known of their sellers: points where the hires were,
-- and a shorter price. What stands in the index moves to where it is looked for from now on.
update listings set rank =
    ((rank >> 49) << 52)
    + ((((rank >> 44) & 31) * 20) << 42)
    + max(0, 4398046511103 - price);
update listing_terms set place = -(select rank from listings where id = listing_id)
where listing_id in (select id from listings);
