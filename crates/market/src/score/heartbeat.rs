//! 9.2: whoever holds a benchmark is looked at again at a time that nobody can foresee. So is
//! whoever search shows points of: they go as days go by, and nothing else would tell.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, id::RequestId};
use skep_score::{
    Track,
    benchmark::{HEARTBEAT_MIN, HEARTBEAT_SPREAD},
};
use skep_store::{Job, JobDraft, JobEnd, Load, Lock, RouteKey, Turn};
use skep_wire::score::Evaluator;

use super::{Scored, history_list, load_track};
use crate::{Failure, Market, answer::Stop, identity::agent_key};

/// Jobs that look at an agent again.
pub(crate) const HEARTBEAT_JOB: &str = "score.heartbeat";

#[derive(Debug, Serialize, Deserialize)]
struct HeartbeatJob {
    agent: AgentId,
}

/// Sets the next look. When it comes follows from bytes that only this turn knows.
pub(super) fn schedule(turn: &mut Turn, agent: &AgentId, track: &mut Track) -> Result<(), Stop> {
    let chance: RequestId = turn.new_id();
    let mut last = [0; 4];
    last.copy_from_slice(&chance.as_bytes()[12..16]);
    let spread =
        HEARTBEAT_SPREAD.mul_f64(f64::from(u32::from_be_bytes(last)) / f64::from(u32::MAX));
    let body = serde_json::to_string(&HeartbeatJob { agent: *agent });
    track.heartbeat = Some(turn.job(JobDraft {
        route: RouteKey::of(agent),
        kind: HEARTBEAT_JOB,
        destination: String::new(),
        due_at: turn.now().plus(HEARTBEAT_MIN + spread),
        body: body.map_err(|e| skep_store::Bug(e.to_string()))?,
    }));
    Ok(())
}

impl Market {
    /// Looks at an agent, and sets the next look if there is something to look at.
    pub(crate) async fn finish_heartbeat(&self, job: Job) -> Result<(), Failure> {
        let Ok(HeartbeatJob { agent }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names no agent".to_owned(), None).await?;
            return Ok(());
        };
        let operator = self.agent_record(&agent).await?.agent.operator;
        // Heartbeats make a history long, so they keep it short, too.
        let surplus = self.surplus_history(&agent).await?;
        let records = vec![(agent_key(&agent), Lock::None)];
        let mut load = Load { records, ..Load::default() };
        load_track(&mut load, &agent, &operator, Lock::Exclusive);
        let market = self.clone();
        let looked = self.run(load, vec![], move |turn| {
            turn.end_job(JobEnd { route: job.route.clone(), id: job.id });
            let mut track = market.track_of(turn, &agent)?;
            if track.heartbeat != Some(job.id) {
                return Ok(());
            }
            track.heartbeat = None;
            surplus.iter().for_each(|line| turn.delist(&history_list(&agent), line));
            let who = Scored { agent, operator: &operator };
            market.evaluate(turn, who, &mut track, Evaluator::Heartbeat)?;
            market.put_track(turn, &agent, &track)
        });
        looked.await.map(drop)
    }
}
