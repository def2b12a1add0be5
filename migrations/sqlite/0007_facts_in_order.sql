-- Facts stand in the order in which they were counted, so that all of a commit share its last page.
-- They are found from their agent's newest one: each points to the one before it, and to the one
-- whose number is its own without the lowest bit. Both lie before it, whatever else is wrong.
create table score_facts_in_order (
    id integer primary key,
    agent_id text not null,
    at integer not null,
    n integer not null check (n > 0),
    prev integer check (prev < id),
    jump integer check (jump <= prev),
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
    check ((prev is null) = (n = 1)),
    check ((jump is null) = ((n & (n - 1)) = 0))
) strict;
insert into score_facts_in_order
    (id, agent_id, at, n, prev, jump, dimension, source, ok, released_cents, counterparty, proof,
     chain, conduit_sum, conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, cents_sum)
select id, agent_id, at, n,
       case when n > 1 then id - 1 end,
       case when (n & (n - 1)) > 0 then id - (n & -n) end,
       dimension, source, ok, released_cents, counterparty, proof, chain, conduit_sum,
       conduit_ok_sum, proofs_sum, ap2_sum, ap2_ok_sum, cents_sum
from (select f.*, row_number() over (order by agent_id, at, n) as id from score_facts f);
drop table score_facts;
alter table score_facts_in_order rename to score_facts;
create trigger score_facts_are_never_changed before update on score_facts
begin
    select raise(abort, 'what was counted is never changed');
end;
create trigger score_facts_are_never_deleted before delete on score_facts
begin
    select raise(abort, 'what was counted is never changed');
end;

-- Where an agent's facts end: the greater of what stands here and in its wallets. A settlement
-- writes a wallet anyway; what is counted without one is noted here.
alter table accounts add column last_fact integer;
create table score_ends (
    agent_id text primary key,
    fact integer not null
) strict, without rowid;
insert into score_ends (agent_id, fact)
select agent_id, max(id) from score_facts group by agent_id;
