//! What this node knows of agents' facts without asking the database.
//!
//! Sums before the window stay true until the next fact grows as old, whatever other nodes do:
//! nobody adds facts of long ago. The last fact is true only if no other node has added one since.
//! So it is told only to whoever adds the next, which is refused if its number is taken.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use skep_base::{AgentId, Timestamp};

use crate::{
    generations::Generations,
    score_fact::{Counted, SCORE_WINDOW, ScoreFact, ScoreMark, ScoreTotals},
};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;
/// How much earlier than now a fact may be that is committed later: a turn's time is its group's.
const LATE_MAX: Duration = Duration::from_secs(3600);

/// Shared by all lanes.
#[derive(Debug)]
pub(super) struct Standings(Mutex<Generations<AgentId, Standing>>);

#[derive(Clone, Copy, Debug)]
struct Standing {
    /// The last fact of all that this node knows of; none where another may have added some.
    last: Option<ScoreMark>,
    base: ScoreTotals,
    from: Timestamp,
    until: Timestamp,
}

impl Default for Standings {
    fn default() -> Standings {
        Standings(Mutex::new(Generations::of(GENERATION)))
    }
}

impl Standings {
    fn known(&self) -> MutexGuard<'_, Generations<AgentId, Standing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether sums before the window are known, for some time or other.
    pub(super) fn has_base(&self, agent: &AgentId) -> bool {
        self.known().get(agent).is_some()
    }

    /// The sums before the window that ends `now`.
    pub(super) fn base(&self, agent: &AgentId, now: Timestamp) -> Option<ScoreTotals> {
        let known = self.known().get(agent).copied();
        known.filter(|known| known.is_at(now)).map(|known| known.base)
    }

    /// Whether the last fact is known, too.
    pub(super) fn has_last(&self, agent: &AgentId) -> bool {
        self.known().get(agent).is_some_and(|known| known.last.is_some())
    }

    pub(super) fn counted(&self, agent: &AgentId, now: Timestamp) -> Option<Counted> {
        let known = self.known().get(agent).copied().filter(|known| known.is_at(now))?;
        Some(Counted { last: Some(known.last?), base: known.base })
    }

    /// As the database says it is `now`; `next` is the oldest fact within the window.
    pub(super) fn keep(
        &self,
        agent: AgentId,
        base: ScoreTotals,
        now: Timestamp,
        next: Option<Timestamp>,
    ) {
        let until = next.unwrap_or(now).min(now.minus(LATE_MAX)).plus(SCORE_WINDOW);
        self.known().keep(agent, Standing { last: None, base, from: now, until });
    }

    /// Facts that are committed. Whoever adds the next was told of the one before by the database
    /// or by this node: in both cases it is the last.
    pub(super) fn add(&self, facts: &[ScoreFact]) {
        let mut known = self.known();
        for fact in facts {
            if let Some(standing) = known.get(&fact.agent).copied() {
                let last = Some(fact.mark());
                known.keep(fact.agent, Standing { last, ..standing });
            }
        }
    }

    /// What became of their facts is not known here.
    pub(super) fn forget_last(&self, agents: &BTreeSet<AgentId>) {
        let mut known = self.known();
        for agent in agents {
            if let Some(standing) = known.get(agent).copied() {
                known.keep(*agent, Standing { last: None, ..standing });
            }
        }
    }
}

impl Standing {
    fn is_at(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }
}

#[cfg(test)]
mod tests {
    use skep_base::Hash32;

    use super::*;

    fn day(n: u64) -> Timestamp {
        Timestamp::from_ms(0).plus(Duration::from_secs(n * 86_400))
    }

    #[test]
    fn sums_hold_until_the_next_fact_leaves_the_window() {
        let (standings, agent) = (Standings::default(), AgentId([1; 20]));
        let sums = ScoreTotals { ap2: 3, ..ScoreTotals::default() };
        assert!(!standings.has_base(&agent));
        standings.keep(agent, sums, day(100), Some(day(40)));
        assert_eq!(standings.base(&agent, day(99)), None, "before it was asked");
        assert_eq!(standings.base(&agent, day(129)), Some(sums));
        assert_eq!(standings.base(&agent, day(130)), None, "of exactly this age counts no more");
        // With nothing in the window, whatever comes stays for its whole length.
        standings.keep(agent, sums, day(200), None);
        assert_eq!(standings.base(&agent, day(289)), Some(sums));
        assert_eq!(standings.base(&agent, day(290)), None);
    }

    #[test]
    fn the_last_fact_is_known_from_the_one_that_was_added_here() {
        let (standings, agent) = (Standings::default(), AgentId([1; 20]));
        let fact = ScoreFact {
            agent,
            at: day(100),
            n: 7,
            dimension: "ap2".to_owned(),
            source: "deal 7".to_owned(),
            ok: true,
            released_cents: 10,
            counterparty: None,
            proof: None,
            chain: Hash32([7; 32]),
            totals: ScoreTotals::default(),
        };
        standings.add(std::slice::from_ref(&fact));
        assert!(!standings.has_last(&agent), "without the sums before the window it is of no use");
        standings.keep(agent, ScoreTotals::default(), day(100), None);
        assert!(!standings.has_last(&agent), "another node may add one at any time");
        standings.add(std::slice::from_ref(&fact));
        let told = standings.counted(&agent, day(101));
        assert_eq!(told.and_then(|told| told.last), Some(fact.mark()));
        assert_eq!(standings.counted(&agent, day(300)), None, "the window has moved");
        standings.forget_last(&BTreeSet::from([agent]));
        assert_eq!(standings.counted(&agent, day(101)), None);
        assert!(standings.has_base(&agent));
    }
}
