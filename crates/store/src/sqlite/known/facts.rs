//! Where agents' facts stand.

use rusqlite::Connection;
use skep_base::{AgentId, Timestamp};

use super::super::score_facts::{first_after, mark_at};
use crate::{
    generations::Generations,
    score_fact::{Counted, SCORE_WINDOW, ScoreFact},
};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;

#[derive(Debug)]
pub(in super::super) struct KnownFacts(Generations<AgentId, Standing>);

impl Default for KnownFacts {
    fn default() -> KnownFacts {
        KnownFacts(Generations::of(GENERATION))
    }
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    counted: Counted,
    /// Until then no other fact leaves the window; not known for whoever was asked for once.
    base_until: Option<Timestamp>,
}

impl KnownFacts {
    /// What is told of an agent's facts when it is `now`, which never goes back.
    pub(in super::super) fn counted(
        &mut self,
        conn: &Connection,
        agent: &AgentId,
        now: Timestamp,
    ) -> rusqlite::Result<Counted> {
        let known = match self.0.get(agent).copied() {
            Some(known) if known.base_until.is_some_and(|until| now < until) => {
                return Ok(known.counted);
            }
            Some(known) => asked_again(conn, agent, now, known.counted)?,
            None => Standing { counted: asked(conn, agent, now)?, base_until: None },
        };
        self.0.keep(*agent, known);
        Ok(known.counted)
    }

    /// Facts that are committed.
    pub(super) fn add(&mut self, facts: &[ScoreFact]) {
        for fact in facts {
            let Some(mut known) = self.0.get(&fact.agent).copied() else { continue };
            known.counted.last = Some(fact.mark());
            known.base_until = known.base_until.map(|until| until.min(fact.at.plus(SCORE_WINDOW)));
            self.0.keep(fact.agent, known);
        }
    }
}

pub(in super::super) fn asked(
    conn: &Connection,
    agent: &AgentId,
    now: Timestamp,
) -> rusqlite::Result<Counted> {
    let agent = agent.to_string();
    let last = mark_at(conn, &agent, i64::MAX)?;
    let since = now.minus(SCORE_WINDOW);
    let base = match last {
        None => None,
        // All of it is over.
        Some(last) if last.at <= since => Some(last),
        Some(_) => mark_at(conn, &agent, since.as_ms())?,
    };
    Ok(Counted { last, base: base.map(|mark| mark.totals).unwrap_or_default() })
}

/// Whoever is asked for twice is worth the question when its window moves next.
fn asked_again(
    conn: &Connection,
    agent: &AgentId,
    now: Timestamp,
    before: Counted,
) -> rusqlite::Result<Standing> {
    let (agent, since) = (agent.to_string(), now.minus(SCORE_WINDOW));
    let base = mark_at(conn, &agent, since.as_ms())?;
    let next = first_after(conn, &agent, since.as_ms())?;
    let counted = Counted { base: base.map(|mark| mark.totals).unwrap_or_default(), ..before };
    // With nothing in the window it moves with the next fact.
    let until = next.map_or(Timestamp::from_ms(i64::MAX), |at| at.plus(SCORE_WINDOW));
    Ok(Standing { counted, base_until: Some(until) })
}
