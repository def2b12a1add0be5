//! Where agents' facts stand.

use rusqlite::Connection;
use skep_base::{AgentId, Timestamp};

use super::super::score_facts::{Ends, Place, end, mark, marks_back, split};
use crate::{
    generations::Generations,
    score_fact::{Counted, SCORE_WINDOW, ScoreFact, ScoreMark},
};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;
/// Facts that are read at once of those that leave the window next: looking for one of them takes
/// several times as long as reading it.
const LEAVING_MAX: i64 = 16;

#[derive(Debug)]
pub(in super::super) struct KnownFacts(Generations<AgentId, Standing>);

impl Default for KnownFacts {
    fn default() -> KnownFacts {
        KnownFacts(Generations::of(GENERATION))
    }
}

#[derive(Clone, Debug)]
struct Standing {
    counted: Counted,
    /// The newest fact, which the next one points to.
    end: Option<Place>,
    /// Until then no other fact leaves the window; not known for whoever was asked for once.
    base_until: Option<Timestamp>,
    /// Some of those that leave it next, the first one last.
    leaving: Vec<ScoreMark>,
}

impl KnownFacts {
    /// What is told of an agent's facts when it is `now`, which never goes back.
    pub(in super::super) fn counted(
        &mut self,
        conn: &Connection,
        agent: &AgentId,
        now: Timestamp,
    ) -> rusqlite::Result<Counted> {
        let known = match self.0.get(agent) {
            Some(known) if known.base_until.is_some_and(|until| now < until) => {
                return Ok(known.counted);
            }
            Some(known) => known.clone().asked_again(conn, now)?,
            None => Standing::asked(conn, agent, now)?,
        };
        let counted = known.counted;
        self.0.keep(*agent, known);
        Ok(counted)
    }

    /// An agent's newest fact.
    pub(in super::super) fn end(
        &self,
        conn: &Connection,
        agent: &AgentId,
    ) -> rusqlite::Result<Option<Place>> {
        match self.0.get(agent) {
            Some(known) => Ok(known.end),
            None => end(conn, agent),
        }
    }

    /// Facts that are committed, and where their agents' end now.
    pub(super) fn add(&mut self, facts: &[ScoreFact], ends: &Ends) {
        for fact in facts {
            let Some(mut known) = self.0.take(&fact.agent) else { continue };
            known.counted.last = Some(fact.mark());
            known.end = ends.get(&fact.agent).copied();
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
    Standing::asked(conn, agent, now).map(|standing| standing.counted)
}

impl Standing {
    fn asked(conn: &Connection, agent: &AgentId, now: Timestamp) -> rusqlite::Result<Standing> {
        let end = end(conn, agent)?;
        let last = end.map(|end| mark(conn, &end)).transpose()?;
        let since = now.minus(SCORE_WINDOW).as_ms();
        let base = match split(conn, end, |place| place.at > since)?.upto {
            // All of it is over.
            Some(base) if Some(base) == end => last,
            Some(base) => Some(mark(conn, &base)?),
            None => None,
        };
        let base = base.map(|mark| mark.totals).unwrap_or_default();
        let counted = Counted { last, base };
        Ok(Standing { counted, end, base_until: None, leaving: Vec::new() })
    }

    /// Whoever is asked for twice is worth the question when its window moves next.
    fn asked_again(mut self, conn: &Connection, now: Timestamp) -> rusqlite::Result<Standing> {
        let since = now.minus(SCORE_WINDOW);
        while let Some(left) = self.leaving.pop_if(|next| next.at <= since) {
            self.counted.base = left.totals;
        }
        if self.leaving.is_empty() {
            let parted = split(conn, self.end, |place| place.at > since.as_ms())?;
            let base = parted.upto.map(|base| mark(conn, &base)).transpose()?;
            self.counted.base = base.map(|mark| mark.totals).unwrap_or_default();
            if let Some(first) = parted.after {
                let past = first.n.saturating_add(LEAVING_MAX);
                let last = split(conn, self.end, |place| place.n >= past)?.upto.unwrap_or(first);
                self.leaving = marks_back(conn, Some(last.id), last.n - first.n + 1)?;
            }
        }
        // With nothing in the window it moves with the next fact.
        let next = self.leaving.last();
        let until = next.map_or(Timestamp::from_ms(i64::MAX), |next| next.at.plus(SCORE_WINDOW));
        self.base_until = Some(until);
        Ok(self)
    }
}
