//! 9.2: whoever holds a benchmark is looked at again at a time that nobody can foresee. So is
//! whoever search shows points of: they go as days go by, and nothing else would tell.

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Timestamp,
    id::{JobId, RequestId},
};
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
    /// Whose look it makes up for, which could not be taken then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owed: Option<Evaluator>,
}

/// Sets the next look. When it comes follows from bytes that only this turn knows.
pub(super) fn schedule(turn: &mut Turn, agent: &AgentId, track: &mut Track) -> Result<(), Stop> {
    let chance: RequestId = turn.new_id();
    let mut last = [0; 4];
    last.copy_from_slice(&chance.as_bytes()[12..16]);
    let spread =
        HEARTBEAT_SPREAD.mul_f64(f64::from(u32::from_be_bytes(last)) / f64::from(u32::MAX));
    let due_at = turn.now().plus(HEARTBEAT_MIN + spread);
    track.heartbeat = Some(look(turn, agent, due_at, None)?);
    Ok(())
}

/// Has an agent looked at in a moment, as by whoever was not able to: after a settlement a
/// benchmark that was earned is granted, and the next look stays when it is.
pub(super) fn look_now(turn: &mut Turn, agent: &AgentId, owed: Evaluator) -> Result<(), Stop> {
    look(turn, agent, turn.now(), Some(owed)).map(drop)
}

fn look(
    turn: &mut Turn,
    agent: &AgentId,
    due_at: Timestamp,
    owed: Option<Evaluator>,
) -> Result<JobId, Stop> {
    let body = serde_json::to_string(&HeartbeatJob { agent: *agent, owed });
    Ok(turn.job(JobDraft {
        route: RouteKey::of(agent),
        kind: HEARTBEAT_JOB,
        destination: String::new(),
        due_at,
        body: body.map_err(|e| skep_store::Bug(e.to_string()))?,
    }))
}

impl Market {
    /// Looks at an agent, and sets the next look if there is something to look at.
    pub(crate) async fn finish_heartbeat(&self, job: Job) -> Result<(), Failure> {
        let Ok(HeartbeatJob { agent, owed }) = serde_json::from_str(&job.body) else {
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
            let evaluator = match owed {
                Some(owed) => owed,
                None if track.heartbeat != Some(job.id) => return Ok(()),
                None => {
                    track.heartbeat = None;
                    Evaluator::Heartbeat
                }
            };
            surplus.iter().for_each(|line| turn.delist(&history_list(&agent), line));
            let who = Scored { agent, operator: &operator };
            market.evaluate(turn, who, &mut track, evaluator)?;
            market.put_track(turn, &agent, &track)
        });
        looked.await.map(drop)
    }
}
