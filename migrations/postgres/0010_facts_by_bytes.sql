-- Whose a fact is stands there as the 20 bytes of the address, not as text, and the key begins with
-- two numbers, the address's first 8 bytes and the fact's own: it is compared at every settlement, a
-- dozen times, and mostly the first number decides. That numbers begin at 1 is the audit's to say:
-- each statement that wrote facts took the check apart again.
drop view counted_in_wallets;
drop view score_facts_in_words;
drop function fact_number;
create table score_facts_by_bytes (
    head bigint not null,
    n bigint not null,
    at bigint not null,
    agent bytea not null,
    packed bytea not null,
    primary key (head, n, agent)
);
insert into score_facts_by_bytes (head, n, at, agent, packed)
select packed_number(agent, 1), n, at, agent, packed
from (select decode(substr(agent_id, 3), 'hex') as agent, n, at, packed from score_facts) f;
drop table score_facts;
alter table score_facts_by_bytes rename to score_facts;
alter index score_facts_by_bytes_pkey rename to score_facts_pkey;
create trigger score_facts_are_never_changed before update or delete on score_facts
    for each row execute function refuse_change();
create trigger score_facts_are_never_emptied before truncate on score_facts
    for each statement execute function refuse_change();

-- The number of the agent's last fact up to a time; 0 if there is none.
create function fact_number(of bytea, until bigint) returns bigint language plpgsql stable as $$
declare
    low bigint := 0;
    high bigint;
    middle bigint;
    found_at bigint;
    its_head constant bigint := packed_number(of, 1);
begin
    select n, at into high, found_at from score_facts
    where head = its_head and agent = of order by n desc limit 1;
    if high is null or found_at <= until then
        return coalesce(high, 0);
    end if;
    -- Mostly all are of late.
    select at into found_at from score_facts where head = its_head and agent = of and n = 1;
    if found_at > until then
        return 0;
    end if;
    high := high - 1;
    while low < high loop
        middle := (low + high + 1) / 2;
        select at into found_at from score_facts
        where head = its_head and agent = of and n = middle;
        if found_at > until then
            high := middle - 1;
        else
            low := middle;
        end if;
    end loop;
    return low;
end
$$;

-- As in migrations 8 and 9, from the same bytes.
create view score_facts_in_words as
select '0x' || encode(agent, 'hex') as agent_id, at, n,
       case when flags & 1 = 1 then 'ap2' else 'conduit' end as dimension,
       convert_from(substr(packed, 90 + case when flags & 4 = 4 then 20 else 0 end
                                      + case when flags & 8 = 8 then 32 else 0 end), 'UTF8')
       as source,
       flags & 2 = 2 as ok,
       packed_number(packed, 2) as released_cents,
       case when flags & 4 = 4 then '0x' || encode(substr(packed, 90, 20), 'hex') end
       as counterparty,
       case when flags & 8 = 8
            then substr(packed, 90 + case when flags & 4 = 4 then 20 else 0 end, 32) end as proof,
       substr(packed, 10, 32) as chain,
       packed_number(packed, 42) as conduit_sum,
       packed_number(packed, 50) as conduit_ok_sum,
       packed_number(packed, 58) as proofs_sum,
       packed_number(packed, 66) as ap2_sum,
       packed_number(packed, 74) as ap2_ok_sum,
       packed_number(packed, 82) as cents_sum
from (select f.*, get_byte(packed, 0) as flags from score_facts f) f;
create view counted_in_wallets as
select 'wallet:' || coalesce(f.agent_id, r.id) || ':USDC' as account,
       coalesce(int8send(f.n) || int8send(f.at) || substr(f.packed, 10, 80),
                decode(repeat('00', 96), 'hex'))
       || coalesce(substr(sha256(int8send(r.version) || convert_to(r.body, 'UTF8')), 1, 16), '')
       as counted
from (select distinct on (agent) '0x' || encode(agent, 'hex') as agent_id, n, at, packed
      from score_facts order by agent, n desc) f
full join (select id, version, body from records where kind = 'score') r on r.id = f.agent_id;
