//! 10.2: what was brought from a platform ends with the trust in it. How many agents have brought
//! something nobody counts, so a job looks at all track records, page by page, and gives each agent
//! whom it concerns a job of its own: one that cannot be done holds up nobody else's.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Timestamp, json::read_own};
use skep_score::Track;
use skep_store::{Bug, Job, JobDraft, JobEnd, Load, Lock, RouteKey, StoredRecord, Turn};
use skep_wire::score::{Evaluator, TrustRegistry};

use super::{Scored, admin::trust_registry_key, load_track, tell_agent};
use crate::{AgentRecord, Failure, Market, answer::Stop, identity::agent_key};

/// Jobs that end imports.
pub(crate) const DISTRUST_JOB: &str = "score.distrust";
/// Track records that one job looks at.
const PAGE: usize = 200;

/// A platform that is not trusted any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Distrust {
    platform: String,
    /// Imports up to then end, also if the platform is trusted again before they are reached: how
    /// far a job has come decides for nobody. Whoever wants to brings another export.
    dropped_at: Timestamp,
    whose: Whose,
}

/// Whose import ends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Whose {
    /// Of everybody after an earlier page's last one.
    Everybody(String),
    Agent(AgentId),
}

/// What the log says of an import that ends.
#[derive(Debug, Serialize)]
struct ImportEnded<'a> {
    agent_id: AgentId,
    platform: &'a str,
}

/// Has all imports from a platform end that was just dropped.
pub(super) fn distrust(turn: &mut Turn, platform: &str) -> Result<(), Stop> {
    let (platform, dropped_at) = (platform.to_owned(), turn.now());
    Distrust { platform, dropped_at, whose: Whose::Everybody(String::new()) }.set(turn)
}

impl Distrust {
    fn set(&self, turn: &mut Turn) -> Result<(), Stop> {
        let route = match &self.whose {
            Whose::Everybody(_) => trust_registry_key().route,
            Whose::Agent(agent) => RouteKey::of(agent),
        };
        let (destination, due_at) = (String::new(), turn.now());
        let body = serde_json::to_string(self).map_err(|e| Bug(e.to_string()))?;
        turn.job(JobDraft { route, kind: DISTRUST_JOB, destination, due_at, body });
        Ok(())
    }

    fn of(&self, whose: Whose) -> Distrust {
        Distrust { whose, ..self.clone() }
    }

    /// Whether this ends what an agent has brought.
    fn ends(&self, track: &Track, registry: &TrustRegistry, now: Timestamp) -> bool {
        // What is older than its 90 days has ended by itself.
        let Some(imported) = track.live_import(now) else { return false };
        imported.platform == self.platform
            && (registry.find(&self.platform).is_none() || imported.imported_at <= self.dropped_at)
    }

    /// The agent, if it may have something to lose. What cannot be read is nobody's import; audits
    /// tell of it.
    fn concerned(&self, id: &str, stored: &StoredRecord) -> Option<AgentId> {
        let track = read_own::<Track>(stored.body.as_bytes())
            .inspect_err(|error| tracing::error!(%error, id, "a track record is unreadable"));
        let imported = track.ok()?.imported?;
        id.parse().ok().filter(|_| imported.platform == self.platform)
    }
}

impl Market {
    /// Ends what was brought from a platform that was dropped.
    pub(crate) async fn finish_distrust(&self, job: Job) -> Result<(), Failure> {
        let Ok(distrust) = serde_json::from_str::<Distrust>(&job.body) else {
            self.store.fail_job(job, "the job names no platform".to_owned(), None).await?;
            return Ok(());
        };
        let end = JobEnd { route: job.route, id: job.id };
        match distrust.whose.clone() {
            Whose::Everybody(after) => self.distrust_page(distrust, after, end).await,
            Whose::Agent(agent) => self.end_import(agent, distrust, end).await,
        }
    }

    async fn distrust_page(
        &self,
        distrust: Distrust,
        after: String,
        end: JobEnd,
    ) -> Result<(), Failure> {
        let page = self.store.records_of_kind("score", &after, PAGE).await?;
        let last = page.last().filter(|_| page.len() == PAGE);
        let next = last.map(|(last, _)| Whose::Everybody(last.clone()));
        let concerned = page.iter().filter_map(|(id, stored)| distrust.concerned(id, stored));
        let concerned = concerned.map(Whose::Agent);
        let whose: Vec<Whose> = concerned.chain(next).collect();
        let looked = self.run(Load::default(), vec![], move |turn| {
            turn.end_job(end.clone());
            whose.iter().try_for_each(|whose| distrust.of(whose.clone()).set(turn))
        });
        looked.await.map(drop)
    }

    async fn end_import(
        &self,
        agent: AgentId,
        distrust: Distrust,
        end: JobEnd,
    ) -> Result<(), Failure> {
        let operator = self.agent_record(&agent).await?.agent.operator;
        let owner = agent_key(&agent);
        let records = vec![(owner.clone(), Lock::Shared), (trust_registry_key(), Lock::None)];
        let mut load = Load { records, ..Load::default() };
        load_track(&mut load, &agent, &operator, Lock::Exclusive);
        let market = self.clone();
        let ended = self.run(load, vec![], move |turn| {
            turn.end_job(end.clone());
            let known: Option<AgentRecord> = turn.record(&owner)?;
            if known.is_none_or(|known| known.agent.operator != operator) {
                // It was just attached to another one: whether that is in its cool-down counts.
                return distrust.set(turn);
            }
            let registry: TrustRegistry = turn.record(&trust_registry_key())?.unwrap_or_default();
            let mut track = market.track_of(turn, &agent)?;
            if !distrust.ends(&track, &registry, turn.now()) {
                return Ok(());
            }
            track.end_import();
            let told = ImportEnded { agent_id: agent, platform: &distrust.platform };
            tell_agent(turn, &agent, "score.import_ended", &told)?;
            let who = Scored { agent, operator: &operator };
            market.evaluate(turn, who, &mut track, Evaluator::Admin)?;
            market.put_track(turn, &agent, &track)
        });
        ended.await.map(drop)
    }
}
