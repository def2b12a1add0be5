//! Whether facts follow from one another and are all found.
//!
//! Facts do not stand by agent here: sorting all of them would take memory without a bound, so
//! each is compared with those that it points to.

use rusqlite::Connection;

use super::list;
use crate::audit::Report;

/// Facts that do not follow from the one that they point to.
const BROKEN: &str = "
    select f.agent_id || ' ' || cast(f.n as text)
    from score_facts f left join score_facts b on b.id = f.prev and b.agent_id = f.agent_id
    where f.n <> coalesce(b.n, 0) + 1 or f.at < coalesce(b.at, f.at)
       or f.cents_sum - coalesce(b.cents_sum, 0) <> f.released_cents
       or f.conduit_sum - coalesce(b.conduit_sum, 0) <> (f.dimension = 'conduit')
       or f.conduit_ok_sum - coalesce(b.conduit_ok_sum, 0) <> (f.dimension = 'conduit' and f.ok)
       or f.proofs_sum - coalesce(b.proofs_sum, 0)
              <> (f.dimension = 'conduit' and f.proof is not null)
       or f.ap2_sum - coalesce(b.ap2_sum, 0) <> (f.dimension = 'ap2')
       or f.ap2_ok_sum - coalesce(b.ap2_ok_sum, 0) <> (f.dimension = 'ap2' and f.ok)";

const WRONG_JUMP: &str = "
    select f.agent_id || ' ' || cast(f.n as text)
    from score_facts f left join score_facts j on j.id = f.jump and j.agent_id = f.agent_id
    where coalesce(j.n, 0) <> (f.n & (f.n - 1))";

/// What the store takes for the ends of agents' facts, and the last one of each agent.
const ENDS: &str = "
    with ends (agent_id, fact) as (
        select agent_id, fact from score_ends
        union all
        select substr(account, 8, instr(substr(account, 8), ':') - 1), last_fact
        from accounts where last_fact is not null),
    last (agent_id, fact) as (select agent_id, max(fact) from ends group by agent_id)";

const WRONG_END: &str = "
    select e.agent_id from ends e left join score_facts f on f.id = e.fact
    where f.agent_id is not e.agent_id";

/// Numbers have no gaps: the last one says how many there are.
const LOST: &str = "
    select (select count(*) from score_facts)
         - (select coalesce(sum(f.n), 0) from last l join score_facts f on f.id = l.fact)";

/// Looked for only where some are: it makes an index of all.
const LOST_ENDS: &str = "
    select f.agent_id || ' ' || cast(f.n as text)
    from score_facts f left join score_facts g on g.prev = f.id
    where g.id is null and f.id not in (select fact from last)";

pub(super) fn check(conn: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let with_ends = |sql: &str| format!("{ENDS}{sql}");
    let broken = "a fact that does not follow from the one before it";
    list(conn, report, broken, BROKEN)?;
    list(conn, report, "a fact that jumps to another one than it should", WRONG_JUMP)?;
    let wrong_end = "an end of an agent's facts that is none of them";
    list(conn, report, wrong_end, &with_ends(WRONG_END))?;
    let lost: i64 = conn.query_row(&with_ends(LOST), [], |row| row.get(0))?;
    if lost != 0 {
        let lost_end = "a fact that nothing follows, and that is not its agent's end";
        list(conn, report, lost_end, &with_ends(LOST_ENDS))?;
    }
    Ok(())
}
