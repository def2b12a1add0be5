-- Things that wait for somebody, oldest first. Each is on a list once, however often it is put on.
create table lists (
    list text collate "C" not null,
    member text collate "C" not null,
    at bigint not null,
    primary key (list, member)
);
create index lists_by_age on lists (list, at, member);

-- Who is busy with what: only jobs under way are in it.
create index jobs_by_lease on jobs (leased_until) where leased_until > 0;
