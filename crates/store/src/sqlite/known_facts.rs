//! What the writer knows of agents' facts without asking: nobody else writes them.

use std::collections::HashMap;

use rusqlite::Connection;
use skep_base::{AgentId, Timestamp};

use super::score_facts::{first_after, mark_at};
use crate::score_fact::{Counted, SCORE_WINDOW, ScoreFact};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;

/// The younger entries and the older ones, which go all at once.
#[derive(Debug, Default)]
pub(super) struct KnownFacts {
    young: HashMap<AgentId, Known>,
    old: HashMap<AgentId, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    counted: Counted,
    /// Until then no other fact leaves the window; not known for whoever was asked for once.
    base_until: Option<Timestamp>,
}

impl KnownFacts {
    /// What is told of an agent's facts when it is `now`, which never goes back.
    pub(super) fn counted(
        &mut self,
        conn: &Connection,
        agent: &AgentId,
        now: Timestamp,
    ) -> rusqlite::Result<Counted> {
        let known = self.young.get(agent).or_else(|| self.old.get(agent)).copied();
        let known = match known {
            Some(known) if known.base_until.is_some_and(|until| now < until) => {
                return Ok(known.counted);
            }
            Some(known) => asked_again(conn, agent, now, known.counted)?,
            None => Known { counted: asked(conn, agent, now)?, base_until: None },
        };
        self.keep(*agent, known);
        Ok(known.counted)
    }

    /// Facts that are committed.
    pub(super) fn add(&mut self, facts: &[ScoreFact]) {
        for fact in facts {
            let known = self.young.get(&fact.agent).or_else(|| self.old.get(&fact.agent));
            let Some(mut known) = known.copied() else { continue };
            known.counted.last = Some(fact.mark());
            known.base_until = known.base_until.map(|until| until.min(fact.at.plus(SCORE_WINDOW)));
            self.keep(fact.agent, known);
        }
    }

    /// After a failure the database has the word.
    pub(super) fn forget(&mut self) {
        *self = KnownFacts::default();
    }

    fn keep(&mut self, agent: AgentId, known: Known) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(agent, known);
    }
}

pub(super) fn asked(
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
) -> rusqlite::Result<Known> {
    let (agent, since) = (agent.to_string(), now.minus(SCORE_WINDOW));
    let base = mark_at(conn, &agent, since.as_ms())?;
    let next = first_after(conn, &agent, since.as_ms())?;
    let counted = Counted { base: base.map(|mark| mark.totals).unwrap_or_default(), ..before };
    // With nothing in the window it moves with the next fact.
    let until = next.map_or(Timestamp::from_ms(i64::MAX), |at| at.plus(SCORE_WINDOW));
    Ok(Known { counted, base_until: Some(until) })
}
