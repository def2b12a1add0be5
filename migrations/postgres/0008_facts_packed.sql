-- All that a fact says in one value: a row of sixteen columns took twice as long to write, and it is
-- written with every settlement. From the first byte on:
--   1  flags: 1 a settlement (else a session), 2 it succeeded, 4 there is a counterparty, 8 a proof
--   8  released cents        32  the end of the chain after it
--   48 the sums after it: sessions, successful ones, proofs, settlements, successful ones, cents
--   20 the counterparty, if there is one      32  the proof, if there is one
--   and what it is about, as text
-- Numbers are signed, their highest byte first. `score_facts_in_words` tells it in columns.
create table score_facts_packed (
    agent_id text collate "C" not null,
    n bigint not null check (n > 0),
    at bigint not null,
    body bytea not null,
    primary key (agent_id, n)
);
insert into score_facts_packed (agent_id, n, at, body)
select agent_id, n, at,
       set_byte('\x00', 0,
           case dimension when 'ap2' then 1 else 0 end + case when ok then 2 else 0 end
           + case when counterparty is null then 0 else 4 end
           + case when proof is null then 0 else 8 end)
       || int8send(released_cents) || chain
       || int8send(conduit_sum) || int8send(conduit_ok_sum) || int8send(proofs_sum)
       || int8send(ap2_sum) || int8send(ap2_ok_sum) || int8send(cents_sum)
       || coalesce(decode(substr(counterparty, 3), 'hex'), '') || coalesce(proof, '')
       || convert_to(source, 'UTF8')
from score_facts;
drop table score_facts;
alter table score_facts_packed rename to score_facts;
alter index score_facts_packed_pkey rename to score_facts_pkey;
create trigger score_facts_are_never_changed before update or delete on score_facts
    for each row execute function refuse_change();
create trigger score_facts_are_never_emptied before truncate on score_facts
    for each statement execute function refuse_change();

-- A number of a packed fact, from a byte on; the first byte is 1.
create function packed_number(body bytea, first int) returns bigint language sql immutable as $$
    select cast(cast('x' || encode(substr(body, first, 8), 'hex') as bit(64)) as bigint)
$$;
create view score_facts_in_words as
select agent_id, at, n,
       case when flags & 1 = 1 then 'ap2' else 'conduit' end as dimension,
       convert_from(substr(body, 90 + case when flags & 4 = 4 then 20 else 0 end
                                    + case when flags & 8 = 8 then 32 else 0 end), 'UTF8') as source,
       flags & 2 = 2 as ok,
       packed_number(body, 2) as released_cents,
       case when flags & 4 = 4 then '0x' || encode(substr(body, 90, 20), 'hex') end as counterparty,
       case when flags & 8 = 8
            then substr(body, 90 + case when flags & 4 = 4 then 20 else 0 end, 32) end as proof,
       substr(body, 10, 32) as chain,
       packed_number(body, 42) as conduit_sum,
       packed_number(body, 50) as conduit_ok_sum,
       packed_number(body, 58) as proofs_sum,
       packed_number(body, 66) as ap2_sum,
       packed_number(body, 74) as ap2_ok_sum,
       packed_number(body, 82) as cents_sum
from (select f.*, get_byte(body, 0) as flags from score_facts f) f;
