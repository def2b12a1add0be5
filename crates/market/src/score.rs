//! Scores: what counts is counted in the very step that ends it, and what follows from the count
//! follows in the same write set.

mod admin;
mod certificate;
mod count;
mod distrust;
mod esteem;
mod fact;
mod gate;
mod heartbeat;
mod issuer;
mod passport;
mod portability;
mod publication;
mod rank;
mod recompute;
mod refusal;
mod report;
mod sample;
mod seen;
mod subsidy;

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Did, Timestamp, json::read_own};
use skep_score::{
    Totals, Track,
    atep::{Breadth, badges::BadgeChange},
    parameters::Parameters,
    track::{Around, Evaluated},
};
use skep_store::{
    Bug, Load, Lock, RecordKey, RouteKey, ScoreFact, Store, StoreError, Turn, WantedFacts,
    track_key,
};
use skep_wire::score::{BenchmarkEvent, BenchmarkEventType, Evaluator, OperatorReview};

pub use self::{
    admin::AdminRefusal,
    certificate::{Known, check_score},
    fact::fact_of,
    publication::Headline,
    recompute::{ScoreReport, recompute as recompute_scores},
    refusal::{ImportWord, ScoreRefusal},
    sample::sample_score,
};
pub(crate) use self::{
    count::{
        Change, Fronted, ScoreLine, deal_change, escrow_fact, judged_fact, session_fact,
        session_visit,
    },
    distrust::DISTRUST_JOB,
    esteem::{Esteem, tier_of},
    heartbeat::HEARTBEAT_JOB,
    issuer::Office,
    publication::breadth_key,
    rank::{RANK_JOB, Whose, is_newcomer, rank_now},
    seen::Seen,
    subsidy::{end_subsidy, load_subsidies, subsidies_allow, take_subsidy},
};
use crate::{Failure, Market, answer::Stop, notice};

// Both say how long a fact counts: the store to find sums by, the rules to name it.
const _: () =
    assert!(skep_store::SCORE_WINDOW.as_millis() == skep_score::track::WINDOW.as_millis());

/// Where it is written down that an operator answers for fraud (9.7).
pub(crate) fn operator_score_key(operator: &Did) -> RecordKey {
    RecordKey::own("operator_score", operator)
}

/// Events of a benchmark that are at hand for each agent: more than a year of heartbeats.
pub const HISTORY_MAX: u64 = 500;
/// Lines of a history that one heartbeat takes away; it adds a single one.
const HISTORY_TRIMMED_MAX: usize = 100;

/// The list of an agent's benchmark events, each as JSON (14.3), at most about [`HISTORY_MAX`] of
/// them. The log is the whole truth.
pub(crate) fn history_list(agent: &AgentId) -> String {
    format!("benchmark_history:{agent}")
}

/// What an operator answers for (9.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorScore {
    /// Until then nobody of it is evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revocations: Vec<OperatorRevocation>,
}

/// A benchmark that was taken for fraud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRevocation {
    pub agent_id: AgentId,
    pub at: Timestamp,
    pub reason: String,
    /// When the agent did it, if that was said: it may have another operator since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub happened_at: Option<Timestamp>,
    /// Taken back, with the justification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversed: Option<String>,
}

impl OperatorScore {
    pub fn in_cooldown(&self, now: Timestamp) -> bool {
        self.cooldown(now).is_some()
    }

    /// Until when the cool-down goes on that it is in.
    pub(crate) fn cooldown(&self, now: Timestamp) -> Option<Timestamp> {
        self.cooldown_until.filter(|until| now < *until)
    }

    /// What is said of all its agents meanwhile, also of those that are new (rule 4).
    pub(crate) fn review(&self, now: Timestamp) -> Option<OperatorReview> {
        self.cooldown(now).map(OperatorReview::until)
    }

    /// Takes an agent's newest revocation back. Says whether there was one.
    fn reverse(&mut self, agent: &AgentId, reason: &str) -> bool {
        let own = |r: &&mut OperatorRevocation| r.agent_id == *agent && r.reversed.is_none();
        let newest = self.revocations.iter_mut().rev().find(own);
        let found = newest.map(|revocation| revocation.reversed = Some(reason.to_owned()));
        found.is_some()
    }
}

/// Whose track record it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored<'a> {
    pub(crate) agent: AgentId,
    /// The one whose record was loaded with the agent's. A deal names the one of its acceptance.
    pub(crate) operator: &'a Did,
}

/// Adds what counting touches: the track record, what was counted before the window, and whether
/// the operator is in its cool-down. The agent's own record must be loaded too.
pub(crate) fn load_track(load: &mut Load, agent: &AgentId, operator: &Did, lock: Lock) {
    load.records.push((operator_score_key(operator), Lock::None));
    load.facts.push(WantedFacts::of(agent, lock));
}

/// What was counted before the window.
pub(crate) fn base_of(turn: &Turn, agent: &AgentId) -> Result<Totals, Stop> {
    Ok(fact::totals(turn.counted(agent)?.base))
}

impl Scored<'_> {
    fn in_cooldown(&self, turn: &Turn) -> Result<bool, Stop> {
        let known: Option<OperatorScore> = turn.record(&operator_score_key(self.operator))?;
        Ok(known.is_some_and(|known| known.in_cooldown(turn.now())))
    }

    /// What a score depends on besides the track record. Who has another operator by now is as in a
    /// cool-down: of that one nothing was loaded.
    pub(crate) fn around<'a>(
        &self,
        market: &Market,
        turn: &Turn,
        base: &'a Totals,
        parameters: &'a Parameters,
    ) -> Result<Around<'a>, Stop> {
        let present = market.present(turn, &self.agent)?;
        let has_key = present.is_some_and(|present| present.has_key);
        let cooldown = present.is_some_and(|present| present.operator != *self.operator)
            || self.in_cooldown(turn)?;
        Ok(Around { now: turn.now(), base, has_key, cooldown, parameters })
    }
}

impl Market {
    /// The minimums that hold now.
    pub(crate) fn parameters(&self) -> Parameters {
        *self.parameters.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other nodes follow within seconds.
    fn set_current(&self, parameters: Parameters) {
        *self.parameters.write().unwrap_or_else(PoisonError::into_inner) = parameters;
    }

    /// Counts what a step has changed, and gives what the step's event says of it.
    pub(crate) fn count(
        &self,
        turn: &mut Turn,
        who: Scored<'_>,
        mut change: Change,
    ) -> Result<ScoreLine, Stop> {
        if change.is_nothing() || !self.counts {
            return Ok(ScoreLine::default());
        }
        let (mut track, stored) = self.track_and_stored(turn, &who.agent)?;
        change.apply(&mut track);
        if let Some(fact) = &mut change.fact {
            // The log tells of what has run out before it tells of what is earned anew.
            let over = track.run_out(turn.now());
            tell_badges(turn, &who.agent, &over)?;
            let n = track.count(&who.agent, fact);
            turn.add_fact(fact::row(who.agent, n, fact, &track))?;
        }
        self.evaluate(turn, who, &mut track, Evaluator::SessionCompletion)?;
        if let Some(visit) = &change.visit {
            let (key, now) = (breadth_key(&who.agent), turn.now());
            let mut breadth: Breadth = turn.record(&key)?.unwrap_or_default();
            breadth.add(visit, now);
            let badges = track.see_breadth(&breadth, now);
            tell_badges(turn, &who.agent, &badges)?;
            turn.put(&key, &breadth)?;
        }
        stored.put(turn, track)?;
        Ok(change.line(who.agent))
    }

    /// Looks at everything that follows from the numbers, and tells what has changed. Whoever asks
    /// writes the track record.
    pub(crate) fn evaluate(
        &self,
        turn: &mut Turn,
        who: Scored<'_>,
        track: &mut Track,
        evaluator: Evaluator,
    ) -> Result<Evaluated, Stop> {
        let (base, parameters) = (base_of(turn, &who.agent)?, self.parameters());
        let around = who.around(self, turn, &base, &parameters)?;
        let evaluated = track.evaluate(&around, evaluator);
        // The benchmark follows in a moment, under the operator that the agent has.
        let present = if around.cooldown { self.present(turn, &who.agent)? } else { None };
        if present.is_some_and(|present| present.operator != *who.operator) {
            heartbeat::look_now(turn, &who.agent, evaluator)?;
        }
        if let Some(from) = evaluated.promoted_from {
            let told = serde_json::json!({
                "agent_id": who.agent, "from": from, "tier": track.tier,
            });
            tell_agent(turn, &who.agent, "tier.promoted", &told)?;
        }
        if let Some(event) = &evaluated.event {
            tell_benchmark(turn, &who.agent, track, event)?;
        }
        if evaluated.event.is_some() || evaluated.promoted_from.is_some() {
            report::enlist(turn, &who.agent, track);
        }
        tell_badges(turn, &who.agent, &evaluated.badges)?;
        let to_show = track.to_show(&evaluated.score, turn.now());
        if to_show != track.shown {
            track.shown = to_show;
            rank_now(turn, &Whose::Agent(who.agent))?;
        }
        // What is shown now decides, too, whether somebody looks again. A new benchmark gets a look
        // of its own: the one that is set may be due already.
        let granted =
            |event: &BenchmarkEvent| event.benchmark_event_type == BenchmarkEventType::Granted;
        let is_set = track.heartbeat.is_some() && !evaluated.event.as_ref().is_some_and(granted);
        if track.has_heartbeat() && !is_set {
            heartbeat::schedule(turn, &who.agent, track)?;
        }
        Ok(evaluated)
    }

    /// An agent's track record, with what was counted before the window that ends now.
    pub async fn track_record(&self, agent: &AgentId) -> Result<(Track, Totals), Failure> {
        let now = self.store.now().await?;
        let (_, track, base) = stored_track(&self.store, agent, now).await?;
        Ok((track, base))
    }

    /// What became of an agent's benchmark, newest first (14.3).
    pub async fn benchmark_history(
        &self,
        agent: &AgentId,
        limit: usize,
    ) -> Result<Vec<BenchmarkEvent>, Failure> {
        let listed = self.store.listed_latest(&history_list(agent), None, limit).await?;
        let event = |listed: &skep_store::Listed| serde_json::from_str(&listed.member).ok();
        Ok(listed.iter().filter_map(event).collect())
    }

    /// The oldest lines of a history that is too long.
    async fn surplus_history(&self, agent: &AgentId) -> Result<Vec<String>, Failure> {
        let list = history_list(agent);
        let (length, _) = self.store.list_len(&list).await?;
        let over = usize::try_from(length.saturating_sub(HISTORY_MAX)).unwrap_or(usize::MAX);
        if over == 0 {
            return Ok(Vec::new());
        }
        let oldest = self.store.listed(&list, None, over.min(HISTORY_TRIMMED_MAX)).await?;
        Ok(oldest.into_iter().map(|listed| listed.member).collect())
    }

    /// An agent's facts, newest first, before the time and number of an earlier page's last one.
    pub async fn facts(
        &self,
        agent: &AgentId,
        before: Option<(Timestamp, i64)>,
        limit: usize,
    ) -> Result<Vec<ScoreFact>, Failure> {
        Ok(self.store.score_facts_latest(*agent, before, limit).await?)
    }
}

/// An agent's track record with its record's version, and what was counted before the window that
/// ends at `now`, all as of one moment.
async fn stored_track(
    store: &Store,
    agent: &AgentId,
    now: Timestamp,
) -> Result<(i64, Track, Totals), StoreError> {
    let (record, counted) = store.counted(*agent, track_key(agent), now).await?;
    let stored = match &record {
        None => Track::default(),
        Some(record) => read_own(record.body.as_bytes())
            .map_err(|e| Bug(format!("the score of {agent} is unreadable: {e}")))?,
    };
    let track = Track::resume(stored, counted.last.map(fact::mark));
    Ok((record.map_or(0, |record| record.version), track, fact::totals(counted.base)))
}

/// Writes down what became of a benchmark: the event, and a line of the agent's history.
pub(crate) fn tell_benchmark(
    turn: &mut Turn,
    agent: &AgentId,
    track: &mut Track,
    event: &BenchmarkEvent,
) -> Result<(), Stop> {
    track.benchmark_events += 1;
    let line = serde_json::to_string(event).map_err(|e| Bug(e.to_string()))?;
    turn.enlist(&history_list(agent), line);
    let told = BenchmarkChanged { agent_id: *agent, event };
    tell_agent(turn, agent, "benchmark.changed", &told)
}

/// Writes down what became of an agent's score, and tells it: in its inbox, and at its webhook. Its
/// record is loaded wherever it is evaluated.
pub(crate) fn tell_agent(
    turn: &mut Turn,
    agent: &AgentId,
    kind: &'static str,
    told: &impl Serialize,
) -> Result<(), Stop> {
    let route = RouteKey::of(agent);
    let event = turn.event(&route, kind, told, &[*agent])?;
    Ok(notice::tell_loaded(turn, event, kind, &route, &[*agent], told)?)
}

/// Writes down which badges came or went.
pub(crate) fn tell_badges(
    turn: &mut Turn,
    agent: &AgentId,
    changes: &[BadgeChange],
) -> Result<(), Stop> {
    for change in changes {
        let told = BadgeChanged { agent_id: *agent, change: *change };
        turn.event(&RouteKey::of(agent), "badge.changed", &told, &[])?;
    }
    Ok(())
}

/// What the log says of a badge.
#[derive(Debug, Serialize, Deserialize)]
struct BadgeChanged {
    agent_id: AgentId,
    #[serde(flatten)]
    change: BadgeChange,
}

/// What the log says of a benchmark.
#[derive(Debug, Serialize)]
struct BenchmarkChanged<'a> {
    agent_id: AgentId,
    #[serde(flatten)]
    event: &'a BenchmarkEvent,
}
