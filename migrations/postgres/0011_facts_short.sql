-- A fact is two numbers and one value: each column more costs the server, and the sender, at every
-- settlement. The value begins with the 20 bytes of the agent's address and the 8 of the fact's time;
-- what migration 8 names follows, so its byte 1 is here byte 29. The index has the numbers alone: the
-- address's first 8 bytes, whose few namesakes are told apart by the value, and the fact's own number.
-- It need not be unique: whoever adds a fact holds the agent's wallet, whose row is written under its
-- old version in the same transaction, and the audit finds a number that stands there twice.
drop view counted_in_wallets;
drop view score_facts_in_words;
drop function fact_number;
create table score_facts_short (
    head bigint not null,
    n bigint not null,
    packed bytea not null
);
insert into score_facts_short (head, n, packed)
select head, n, agent || int8send(at) || packed from score_facts;
drop table score_facts;
alter table score_facts_short rename to score_facts;
-- No two keys are alike, but for those namesakes: looking for such is work for nothing.
create index score_facts_places on score_facts (head, n) with (deduplicate_items = off);
create trigger score_facts_are_never_changed before update or delete on score_facts
    for each row execute function refuse_change();
create trigger score_facts_are_never_emptied before truncate on score_facts
    for each statement execute function refuse_change();

create function fact_agent(packed bytea) returns bytea language sql immutable as $$
    select substr(packed, 1, 20)
$$;
create function fact_at(packed bytea) returns bigint language sql immutable as $$
    select packed_number(packed, 21)
$$;

-- The number of the agent's last fact up to a time; 0 if there is none.
create function fact_number(of bytea, until bigint) returns bigint language plpgsql stable as $$
declare
    low bigint := 0;
    high bigint;
    middle bigint;
    found_at bigint;
    its_head constant bigint := packed_number(of, 1);
begin
    select n, fact_at(packed) into high, found_at from score_facts
    where head = its_head and fact_agent(packed) = of order by n desc limit 1;
    if high is null or found_at <= until then
        return coalesce(high, 0);
    end if;
    -- Mostly all are of late.
    select fact_at(packed) into found_at from score_facts
    where head = its_head and fact_agent(packed) = of and n = 1;
    if found_at > until then
        return 0;
    end if;
    high := high - 1;
    while low < high loop
        middle := (low + high + 1) / 2;
        select fact_at(packed) into found_at from score_facts
        where head = its_head and fact_agent(packed) = of and n = middle;
        if found_at > until then
            high := middle - 1;
        else
            low := middle;
        end if;
    end loop;
    return low;
end
$$;

create view score_facts_in_words as
select '0x' || encode(fact_agent(packed), 'hex') as agent_id, fact_at(packed) as at, n,
       case when flags & 1 = 1 then 'ap2' else 'conduit' end as dimension,
       convert_from(substr(packed, 118 + case when flags & 4 = 4 then 20 else 0 end
                                       + case when flags & 8 = 8 then 32 else 0 end), 'UTF8')
       as source,
       flags & 2 = 2 as ok,
       packed_number(packed, 30) as released_cents,
       case when flags & 4 = 4 then '0x' || encode(substr(packed, 118, 20), 'hex') end
       as counterparty,
       case when flags & 8 = 8
            then substr(packed, 118 + case when flags & 4 = 4 then 20 else 0 end, 32) end as proof,
       substr(packed, 38, 32) as chain,
       packed_number(packed, 70) as conduit_sum,
       packed_number(packed, 78) as conduit_ok_sum,
       packed_number(packed, 86) as proofs_sum,
       packed_number(packed, 94) as ap2_sum,
       packed_number(packed, 102) as ap2_ok_sum,
       packed_number(packed, 110) as cents_sum
from (select f.*, get_byte(packed, 28) as flags from score_facts f) f;
-- As in migration 9, from the same bytes.
create view counted_in_wallets as
select 'wallet:' || coalesce(f.agent_id, r.id) || ':USDC' as account,
       coalesce(int8send(f.n) || substr(f.packed, 21, 8) || substr(f.packed, 38, 80),
                decode(repeat('00', 96), 'hex'))
       || coalesce(substr(sha256(int8send(r.version) || convert_to(r.body, 'UTF8')), 1, 16), '')
       as counted
from (select distinct on (fact_agent(packed))
             '0x' || encode(fact_agent(packed), 'hex') as agent_id, n, packed
      from score_facts order by fact_agent(packed), n desc) f
full join (select id, version, body from records where kind = 'score') r on r.id = f.agent_id;
