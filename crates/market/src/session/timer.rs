//! A session that nobody closes ends by itself, and its money comes back.

use std::time::Duration;

use serde::Deserialize;
use skep_base::id::SessionId;
use skep_store::Job;

use super::{SessionRecord, session_key};
use crate::{Failure, Market, Refusal};

/// Jobs that let time act on a session.
pub(crate) const SESSION_JOB: &str = "session.tick";
/// They wait for a gateway, and so for nobody else's turn.
pub(super) const DESTINATION: &str = "conduit";
/// How long after a session's end its gateway is waited for. Then its money goes back.
/// Longer than any action takes, behind which the gateway's answer may wait.
const GATEWAY_WAIT: Duration = Duration::from_secs(240);
/// Between two questions to a gateway that does not answer.
const PAUSE: Duration = Duration::from_secs(10);
/// How long one question may take: a job's lease must not run out meanwhile.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
struct SessionJob {
    session: SessionId,
}

impl Market {
    /// Performs a session's timer.
    pub(crate) async fn finish_session(&self, job: Job) -> Result<(), Failure> {
        // Whatever comes of it is no fault of a destination.
        let job = Job { destination: String::new(), ..job };
        let Ok(SessionJob { session }) = serde_json::from_str(&job.body) else {
            let error = "the job names no session".to_owned();
            self.store.fail_job(job, error, None).await?;
            return Ok(());
        };
        let record: Option<SessionRecord> = self.read(session_key(&session)).await?;
        let Some(record) = record.filter(|record| !record.is_over()) else {
            self.store.finish_job(job).await?;
            return Ok(());
        };
        let (now, due) = (self.store.now().await?, record.due_at());
        if now < due {
            self.store.fail_job(job, format!("not before {due}"), Some(due)).await?;
            return Ok(());
        }
        let asked = self.session_fail(session, "nobody closed it in time");
        let unreachable = match tokio::time::timeout(QUESTION_TIME_MAX, asked).await {
            Ok(Ok(_)) => None,
            Ok(Err(Failure::Refused(Refusal::Session { reason }))) => Some(reason.to_string()),
            Ok(Err(failure)) => return Err(failure),
            Err(_) => Some("the gateway took too long".to_owned()),
        };
        match unreachable {
            None => {}
            Some(detail) if now < due.plus(GATEWAY_WAIT) => {
                self.store.fail_job(job, detail, Some(now.plus(PAUSE))).await?;
                return Ok(());
            }
            Some(detail) => {
                tracing::warn!(%session, detail, "a session ends without its gateway");
                self.session_lose(session).await?;
            }
        }
        self.store.finish_job(job).await?;
        Ok(())
    }
}
