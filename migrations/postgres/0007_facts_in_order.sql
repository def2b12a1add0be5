-- Whoever counts for an agent takes the next number, and nobody has it twice. Times grow with the
-- numbers.
alter table score_facts drop constraint score_facts_pkey, add primary key (agent_id, n);

-- The number of the agent's last fact up to a time; 0 if there is none.
create function fact_number(of text, until bigint) returns bigint language plpgsql stable as $$
declare
    low bigint := 0;
    high bigint;
    middle bigint;
    found_at bigint;
begin
    select n, at into high, found_at from score_facts where agent_id = of order by n desc limit 1;
    if high is null or found_at <= until then
        return coalesce(high, 0);
    end if;
    -- Mostly all are of late.
    select at into found_at from score_facts where agent_id = of and n = 1;
    if found_at > until then
        return 0;
    end if;
    high := high - 1;
    while low < high loop
        middle := (low + high + 1) / 2;
        select at into found_at from score_facts where agent_id = of and n = middle;
        if found_at > until then
            high := middle - 1;
        else
            low := middle;
        end if;
    end loop;
    return low;
end
$$;
