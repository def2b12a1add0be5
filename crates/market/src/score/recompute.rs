//! Makes every record that scores keep again from the event log alone, and says where it differs
//! from what is stored.

mod replay;

use std::{collections::BTreeSet, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use skep_base::{AgentId, Did, Hash32, json::read_own};
use skep_score::{Totals, Track, atep::Breadth, benchmark::Benchmark, track::Shown};
use skep_store::{Bug, Progress, RecordKey, Store, StoreError};

use self::replay::{Made, Replay};
use super::{
    OperatorScore,
    fact::{fact_of, totals},
    operator_score_key,
    publication::breadth_key,
    report, stored_track,
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

impl Market {
    /// Makes every record of scores again from the log, and compares.
    pub async fn recompute_scores(&self, progress: Progress) -> Result<ScoreReport, Failure> {
        Ok(recompute(&self.store, progress).await?)
    }
}

/// The same over a store that nobody else needs to have open.
pub async fn recompute(store: &Store, mut progress: Progress) -> Result<ScoreReport, StoreError> {
    let mut replay = Replay::default();
    replay.go_on(store, &mut progress).await?;
    let mut report = ScoreReport::default();
    let mut suspects = everybody(store, &replay).await?;
    report.agents = suspects.iter().filter(|s| matches!(s, Suspect::Agent(_))).count() as u64;
    for look in 1..=LOOKS_MAX {
        let lists = Lists::read(store).await?;
        let mut found = Vec::new();
        for suspect in &suspects {
            let wrong = match suspect {
                Suspect::Agent(agent) => {
                    let made = replay.agents.get(agent).cloned().unwrap_or_default();
                    compare(store, agent, &made, &lists).await?
                }
                Suspect::Operator(operator) => {
                    compare_operator(store, operator, replay.operators.get(operator)).await?
                }
            };
            if !wrong.is_empty() {
                found.push((suspect.clone(), wrong));
            }
        }
        if found.is_empty() {
            break;
        }
        if look == LOOKS_MAX {
            found.into_iter().flat_map(|(_, wrong)| wrong).for_each(|text| report.problem(text));
            break;
        }
        suspects = found.into_iter().map(|(suspect, _)| suspect).collect();
        tokio::time::sleep(LOOK_PAUSE).await;
        replay.go_on(store, &mut progress).await?;
    }
    // Those that were numbered while it was looked, too.
    report.facts = replay.agents.values().map(|made| made.track.facts).sum();
    report.events = replay.events;
    Ok(report)
}

/// Whose records may differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Suspect {
    Agent(AgentId),
    Operator(Did),
}

/// Who is on the lists that the qualification rate is counted from.
#[derive(Debug)]
struct Lists(Vec<(&'static str, BTreeSet<AgentId>)>);

impl Lists {
    async fn read(store: &Store) -> Result<Lists, StoreError> {
        let mut lists = Vec::new();
        for (list, _) in report::lists(&Track::default()) {
            let (mut members, mut after) = (BTreeSet::new(), None);
            loop {
                let page = store.listed(list, after.take(), PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some((last.at.as_ms(), last.member.clone()));
                members.extend(page.iter().filter_map(|l| l.member.parse::<AgentId>().ok()));
            }
            lists.push((list, members));
        }
        Ok(Lists(lists))
    }

    /// Where an agent with this track record is on a list and should not be, or the reverse.
    fn compare(&self, agent: &AgentId, made: &Track, wrong: &mut Vec<String>) {
        for ((list, members), (_, belongs)) in self.0.iter().zip(report::lists(made)) {
            match (members.contains(agent), belongs) {
                (true, false) => {
                    wrong.push(format!("{agent} is on the list {list} and should not"))
                }
                (false, true) => wrong.push(format!("{agent} is missing on the list {list}")),
                _ => {}
            }
        }
    }
}

/// Everybody of whom the log or the store knows something.
async fn everybody(store: &Store, replay: &Replay) -> Result<BTreeSet<Suspect>, StoreError> {
    let mut all: BTreeSet<Suspect> = replay.agents.keys().copied().map(Suspect::Agent).collect();
    all.extend(replay.operators.keys().copied().map(Suspect::Operator));
    for (_, members) in Lists::read(store).await?.0 {
        all.extend(members.into_iter().map(Suspect::Agent));
    }
    for kind in ["score", "breadth", "operator_score"] {
        let mut after = String::new();
        loop {
            let page = store.records_of_kind(kind, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            let ids = page.iter().map(|(id, _)| id);
            all.extend(ids.filter_map(|id| match kind {
                "operator_score" => id.parse().ok().map(Suspect::Operator),
                _ => id.parse().ok().map(Suspect::Agent),
            }));
        }
    }
    Ok(all)
}

/// Says where what is stored of an agent is not what the log makes of it.
async fn compare(
    store: &Store,
    agent: &AgentId,
    made: &Made,
    lists: &Lists,
) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let stored = match stored_track(store, agent, store.now().await?).await {
        Ok((_, track, _)) => track,
        Err(StoreError::Bug(Bug(error))) => return Ok(vec![error]),
        Err(error) => return Err(error),
    };
    if told(&stored) != told(&made.track) {
        let (stored, made) = (told(&stored), told(&made.track));
        wrong.push(format!("the score of {agent} is {stored:?}, the log makes {made:?}"));
    }
    match stored_own::<Breadth>(store, breadth_key(agent)).await? {
        Ok(breadth) if breadth == made.breadth => {}
        Ok(breadth) => {
            let (stored, made) = (extent(&breadth), extent(&made.breadth));
            wrong.push(format!("the breadth of {agent} is {stored}, the log makes {made}"));
        }
        Err(error) => wrong.push(error),
    }
    lists.compare(agent, &made.track, &mut wrong);
    compare_facts(store, agent, &made.track, &mut wrong).await?;
    Ok(wrong)
}

async fn compare_facts(
    store: &Store,
    agent: &AgentId,
    made: &Track,
    wrong: &mut Vec<String>,
) -> Result<(), StoreError> {
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
    Ok(())
}

/// Says where an operator's stored cool-down and revocations are not what the log makes of them.
async fn compare_operator(
    store: &Store,
    operator: &Did,
    made: Option<&OperatorScore>,
) -> Result<Vec<String>, StoreError> {
    let made = made.cloned().unwrap_or_default();
    Ok(match stored_own::<OperatorScore>(store, operator_score_key(operator)).await? {
        Ok(stored) if stored == made => Vec::new(),
        Ok(stored) => {
            vec![format!("the operator {operator} answers for {stored:?}, the log makes {made:?}")]
        }
        Err(error) => vec![error],
    })
}

/// A record as it is stored, or why it cannot be read.
async fn stored_own<T: DeserializeOwned + Default>(
    store: &Store,
    key: RecordKey,
) -> Result<Result<T, String>, StoreError> {
    let (kind, id) = (key.kind, key.id.clone());
    let Some(stored) = store.record(key).await? else { return Ok(Ok(T::default())) };
    let read = read_own(stored.body.as_bytes());
    Ok(read.map_err(|e| format!("the record {kind} of {id} is unreadable: {e}")))
}

/// A breadth in short: it may have hundreds of domains.
fn extent(breadth: &Breadth) -> String {
    let sessions: u64 = breadth.domains.values().map(|domain| domain.total).sum();
    let Breadth { domains, domains_seen, task_types, cost_cents } = breadth;
    format!(
        "{sessions} visits to {} of {domains_seen} domains, {} kinds, {cost_cents} cents",
        domains.len(),
        task_types.len()
    )
}

/// What the log tells of a track record: all but when it was last looked at, when it is looked at
/// next, and what search was told.
fn told(track: &Track) -> Track {
    Track {
        benchmark: Benchmark { last_evaluated_at: None, ..track.benchmark.clone() },
        heartbeat: None,
        shown: Shown::default(),
        looked_at_last: false,
        ..track.clone()
    }
}
