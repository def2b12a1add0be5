-- An agent's wallet in USDC says how its facts stand, and which track record goes with them. Whoever
-- counts holds that row, and a settlement locks and writes it anyway. From the first byte on:
--   8  the number of the last fact, 0 if there is none      8  its time
--   32 the end of the chain      48 the sums, as in a fact
--   16 of the SHA-256 of the track record's version and text, if there is a track record
alter table accounts add column counted bytea;

-- What wallets must say.
create view counted_in_wallets as
select 'wallet:' || coalesce(f.agent_id, r.id) || ':USDC' as account,
       coalesce(int8send(f.n) || int8send(f.at) || substr(f.body, 10, 80),
                decode(repeat('00', 96), 'hex'))
       || coalesce(substr(sha256(int8send(r.version) || convert_to(r.body, 'UTF8')), 1, 16), '')
       as counted
from (select distinct on (agent_id) agent_id, n, at, body from score_facts
      order by agent_id, n desc) f
full join (select id, version, body from records where kind = 'score') r on r.id = f.agent_id;

insert into accounts (account, purpose, asset, posted, held, debited, owed, counted, version,
                      opened_at)
select account, 'wallet', 'USDC', 0, 0, 0, 0, counted, 1,
       (select cast(extract(epoch from now()) * 1000 as bigint))
from counted_in_wallets
on conflict (account) do update set counted = excluded.counted;

-- A program that does not know of this writes no fact any more.
alter table score_facts rename column body to packed;

-- Another value whenever a record is written of a kind that hardly ever is: until then nodes need not
-- ask for such records again.
create table rarely_written (
    one boolean primary key default true check (one),
    tag bytea not null
);
insert into rarely_written (tag) values (uuid_send(gen_random_uuid()));
