-- A row of a table without rowid may use a quarter of a page, and every record of a deal has more:
-- each lay on a page of its own. In a table with rowids they lie side by side.
create table records_in_pages (
    route_key text not null,
    kind text not null,
    id text not null,
    version integer not null check (version > 0),
    body text not null,
    updated_at integer not null,
    primary key (route_key, kind, id)
) strict;
insert into records_in_pages select * from records;
drop table records;
alter table records_in_pages rename to records;
