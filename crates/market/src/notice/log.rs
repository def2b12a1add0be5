//! What became of an agent's notices, for the agent to read.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use skep_base::AgentId;
use skep_store::{Job, Load, Lock, RecordKey};
use skep_wire::notice::{WebhookAttempt, WebhookOutcome};

use super::{Notice, Reply, ends, outcome};
use crate::{Failure, Market};

/// Attempts that are kept for each agent: enough to see what is wrong, and never more to write.
const ATTEMPTS_KEPT: usize = 50;

/// An agent's latest attempts, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct WebhookLog {
    attempts: VecDeque<WebhookAttempt>,
}

impl WebhookLog {
    fn add(&mut self, attempt: WebhookAttempt) {
        self.attempts.push_back(attempt);
        while self.attempts.len() > ATTEMPTS_KEPT {
            self.attempts.pop_front();
        }
    }
}

fn log_record(agent: &AgentId) -> RecordKey {
    RecordKey::own("webhook_log", agent)
}

impl Market {
    /// The latest attempts to deliver an agent's notices, newest first.
    pub async fn webhook_log(&self, agent: &AgentId) -> Result<Vec<WebhookAttempt>, Failure> {
        let log: WebhookLog = self.read(log_record(agent)).await?.unwrap_or_default();
        Ok(log.attempts.into_iter().rev().collect())
    }

    /// Notes an attempt. Where nothing is to follow, the job ends in the same write set.
    pub(super) async fn log_attempt(
        &self,
        job: &Job,
        notice: Notice,
        reply: Reply,
    ) -> Result<WebhookOutcome, Failure> {
        let key = log_record(&notice.agent_id);
        let load = Load { records: vec![(key.clone(), Lock::Exclusive)], ..Load::default() };
        let job = job.clone();
        let noted = self.run(load, vec![], move |turn| {
            let mut log: WebhookLog = turn.record(&key)?.unwrap_or_default();
            let outcome = outcome(&reply, &job.id, job.attempts, turn.now());
            log.add(WebhookAttempt {
                at: turn.now(),
                event_id: notice.event_id,
                kind: notice.kind.clone(),
                attempt: job.attempts,
                status: reply.as_ref().ok().copied(),
                error: reply.as_ref().err().map(|failure| failure.code.clone()),
                outcome,
            });
            turn.put(&key, &log)?;
            if ends(&reply, outcome) {
                turn.job_done(&job);
            }
            Ok(outcome)
        });
        Ok(noted.await?.value)
    }
}
