//! Makes every track record again from the event log alone, and says where it differs from what is
//! stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skep_base::{AgentId, Hash32, json::read_own};
use skep_score::{Totals, Track, benchmark::Benchmark, import::Imported};
use skep_store::{Bug, Event, Progress, Store, StoreError};
use skep_wire::{score::BenchmarkEvent, settle::Tier};

use super::{
    BadgeChanged,
    count::{ScoreLine, turn_count},
    fact::{fact_of, totals},
    stored_track,
};
use crate::{Failure, Market};

/// Events, and records, that are looked at in one go.
const PAGE: usize = 1000;
/// Problems that a report lists; more are only counted.
pub const PROBLEMS_LISTED_MAX: usize = 100;
/// A node that runs on moves what is compared: whoever differs is looked at again so often.
const LOOKS_MAX: u32 = 4;
/// Between two such looks; events get their numbers a moment after their commit.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// What a recomputation found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScoreReport {
    pub agents: u64,
    pub facts: u64,
    pub events: u64,
    pub problem_count: u64,
    /// The first hundred of them.
    pub problems: Vec<String>,
}

impl ScoreReport {
    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(text);
        }
    }
}

#[derive(Debug, Deserialize)]
struct Promoted {
    agent_id: AgentId,
    tier: Tier,
}

#[derive(Debug, Deserialize)]
struct Brought {
    agent_id: AgentId,
    imported: Imported,
}

#[derive(Debug, Deserialize)]
struct Changed {
    agent_id: AgentId,
    #[serde(flatten)]
    event: BenchmarkEvent,
}

/// Track records as the log tells them.
#[derive(Debug, Default)]
struct Replay {
    tracks: BTreeMap<AgentId, Track>,
    seq: i64,
    events: u64,
}

impl Replay {
    async fn go_on(&mut self, store: &Store, progress: &mut Progress) -> Result<(), StoreError> {
        let mut total = self.events;
        loop {
            let page = store.events(self.seq, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            self.seq = last.seq;
            for logged in &page {
                self.apply(&logged.event)?;
            }
            self.events += page.len() as u64;
            total = total.max(self.events) + if page.len() == PAGE { PAGE as u64 } else { 0 };
            progress(self.events, total);
        }
    }

    fn apply(&mut self, event: &Event) -> Result<(), StoreError> {
        match event.kind.as_str() {
            "tier.promoted" | "tier.demoted" => {
                let Promoted { agent_id, tier } = read(event)?;
                let track = self.tracks.entry(agent_id).or_default();
                (track.tier, track.tier_at) = (tier, Some(event.at));
            }
            "benchmark.changed" => {
                let changed: Changed = read(event)?;
                let track = self.tracks.entry(changed.agent_id).or_default();
                track.benchmark = track.benchmark.after(&changed.event);
            }
            "score.imported" => {
                let Brought { agent_id, imported } = read(event)?;
                self.tracks.entry(agent_id).or_default().bring(imported);
            }
            "badge.changed" => {
                let BadgeChanged { agent_id, change } = read(event)?;
                self.tracks.entry(agent_id).or_default().apply_badge(&change);
            }
            // Most events say nothing of scores, and are not taken apart.
            _ if event.body.contains("\"scored\"") => {
                let line: ScoreLine = read(event)?;
                let Some(agent) = line.scored else { return Ok(()) };
                let track = self.tracks.entry(agent).or_default();
                turn_count(&mut track.disputes, line.dispute);
                turn_count(&mut track.subsidies_open, line.subsidy);
                if let Some(mut fact) = line.counted {
                    track.count(&agent, &mut fact);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(event: &Event) -> Result<T, StoreError> {
    read_own(event.body.as_bytes())
        .map_err(|e| Bug(format!("event {} is unreadable: {e}", event.id)).into())
}

impl Market {
    /// Makes every track record again from the log, and compares.
    pub async fn recompute_scores(&self, progress: Progress) -> Result<ScoreReport, Failure> {
        Ok(recompute(&self.store, progress).await?)
    }
}

/// The same over a store that nobody else needs to have open.
pub async fn recompute(store: &Store, mut progress: Progress) -> Result<ScoreReport, StoreError> {
    let mut replay = Replay::default();
    replay.go_on(store, &mut progress).await?;
    let mut report = ScoreReport::default();
    let mut suspects = all_agents(store, &replay).await?;
    report.agents = suspects.len() as u64;
    for look in 1..=LOOKS_MAX {
        let mut found = Vec::new();
        for agent in &suspects {
            let made = replay.tracks.get(agent).cloned().unwrap_or_default();
            let wrong = compare(store, agent, &made).await?;
            if !wrong.is_empty() {
                found.push((*agent, wrong));
            }
        }
        if found.is_empty() {
            break;
        }
        if look == LOOKS_MAX {
            found.into_iter().flat_map(|(_, wrong)| wrong).for_each(|text| report.problem(text));
            break;
        }
        suspects = found.into_iter().map(|(agent, _)| agent).collect();
        tokio::time::sleep(LOOK_PAUSE).await;
        replay.go_on(store, &mut progress).await?;
    }
    // Those that were numbered while it was looked, too.
    report.facts = replay.tracks.values().map(|track| track.facts).sum();
    report.events = replay.events;
    Ok(report)
}

/// Everybody of whom the log or the store knows something.
async fn all_agents(store: &Store, replay: &Replay) -> Result<BTreeSet<AgentId>, StoreError> {
    let mut agents: BTreeSet<AgentId> = replay.tracks.keys().copied().collect();
    let mut after = String::new();
    loop {
        let page = store.records_of_kind("score", &after, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(agents) };
        after.clone_from(last);
        agents.extend(page.iter().filter_map(|(id, _)| id.parse::<AgentId>().ok()));
    }
}

/// Says where an agent's stored track record and facts are not what the log makes of them.
async fn compare(store: &Store, agent: &AgentId, made: &Track) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let stored = match stored_track(store, agent, store.now().await?).await {
        Ok((_, track, _)) => track,
        Err(StoreError::Bug(Bug(error))) => return Ok(vec![error]),
        Err(error) => return Err(error),
    };
    if told(&stored) != told(made) {
        let (stored, made) = (told(&stored), told(made));
        wrong.push(format!("the score of {agent} is {stored:?}, the log makes {made:?}"));
    }
    let (mut chain, mut sums, mut n, mut place) = (Hash32::ZERO, Totals::default(), 0, None);
    loop {
        let page = store.score_facts(*agent, place, PAGE).await?;
        let Some(last) = page.last() else { break };
        place = Some((last.at, last.n));
        for row in &page {
            let fact = fact_of(row);
            n += 1;
            chain = fact.link(chain, agent, n);
            sums.add(&fact);
            if row.n.unsigned_abs() != n || row.chain != chain || totals(row.totals) != sums {
                wrong.push(format!("fact {} of {agent} breaks the chain", row.n));
                (n, chain, sums) = (row.n.unsigned_abs(), row.chain, totals(row.totals));
            }
        }
    }
    if (n, chain, sums) != (made.facts, made.chain, made.totals) {
        wrong.push(format!("the facts of {agent} end with {n}, the log makes {}", made.facts));
    }
    Ok(wrong)
}

/// What the log tells of a track record: all but when it was last looked at, and by whom.
fn told(track: &Track) -> Track {
    Track {
        facts: track.facts,
        chain: track.chain,
        totals: track.totals,
        first_at: track.first_at,
        last_at: track.last_at,
        last_proof_at: track.last_proof_at,
        disputes: track.disputes,
        tier: track.tier,
        tier_at: track.tier_at,
        benchmark: Benchmark { last_evaluated_at: None, ..track.benchmark.clone() },
        badges: track.badges.clone(),
        past_badges: track.past_badges.clone(),
        imported: track.imported.clone(),
        import_digests: track.import_digests.clone(),
        subsidies_open: track.subsidies_open,
        ..Track::default()
    }
}
