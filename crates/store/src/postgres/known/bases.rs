//! What a lane knows of facts that are older than the window: nobody adds such, so whatever other
//! nodes do, it stays true until the next one grows as old.

use std::time::Duration;

use skep_base::{AgentId, Timestamp};

use crate::{
    generations::Generations,
    score_fact::{SCORE_WINDOW, ScoreTotals},
};

/// Agents of one generation; two are kept.
const GENERATION: usize = 4096;
/// How much earlier than now a fact may be that is committed later: a turn's time is its group's.
const LATE_MAX: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(in super::super) struct Bases(Generations<AgentId, Base>);

#[derive(Clone, Copy, Debug)]
struct Base {
    sums: ScoreTotals,
    from: Timestamp,
    until: Timestamp,
}

impl Default for Bases {
    fn default() -> Bases {
        Bases(Generations::of(GENERATION))
    }
}

impl Bases {
    /// Whether something is known, for some time or other.
    pub(in super::super) fn knows(&self, agent: &AgentId) -> bool {
        self.0.get(agent).is_some()
    }

    /// The sums before the window that ends `now`.
    pub(in super::super) fn at(&self, agent: &AgentId, now: Timestamp) -> Option<ScoreTotals> {
        let known = self.0.get(agent).filter(|base| base.from <= now && now < base.until);
        known.map(|base| base.sums)
    }

    /// As it is `now`; `next` is the oldest fact within the window.
    pub(in super::super) fn keep(
        &mut self,
        agent: AgentId,
        sums: ScoreTotals,
        now: Timestamp,
        next: Option<Timestamp>,
    ) {
        let until = next.unwrap_or(now).min(now.minus(LATE_MAX)).plus(SCORE_WINDOW);
        self.0.keep(agent, Base { sums, from: now, until });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_hold_until_the_next_fact_leaves_the_window() {
        let (mut bases, agent) = (Bases::default(), AgentId([1; 20]));
        let day = |n: u64| Timestamp::from_ms(0).plus(Duration::from_secs(n * 86_400));
        let sums = ScoreTotals { ap2: 3, ..ScoreTotals::default() };
        assert!(!bases.knows(&agent));
        bases.keep(agent, sums, day(100), Some(day(40)));
        assert_eq!(bases.at(&agent, day(99)), None, "before it was asked");
        assert_eq!(bases.at(&agent, day(129)), Some(sums));
        assert_eq!(bases.at(&agent, day(130)), None, "of exactly this age counts no more");
        // With nothing in the window, whatever comes stays for its whole length.
        bases.keep(agent, sums, day(200), None);
        assert_eq!(bases.at(&agent, day(289)), Some(sums));
        assert_eq!(bases.at(&agent, day(290)), None);
    }
}
