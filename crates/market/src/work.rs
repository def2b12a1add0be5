//! What a node does by itself: due jobs, expiry, sums.

use std::time::Duration;

use skep_store::Job;
use tokio::sync::watch;

use crate::{Failure, KeyRefusal, Market, Refusal, change_keys::RECOVERY_JOB};

/// How often due jobs are looked for.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a job may take before another worker gets it.
const LEASE: Duration = Duration::from_secs(60);
/// Jobs taken at once.
const JOBS_MAX: usize = 32;
/// Attempts after which a job is given up; its last error stays readable.
const ATTEMPTS_MAX: i64 = 12;
/// Rounds between two clean-ups.
const ROUNDS_PER_CLEANUP: u64 = 20;
/// Rounds between two sums of the accounts without a balance row.
const ROUNDS_PER_ROLL_UP: u64 = 600;

impl Market {
    /// Works until `stop` says so.
    pub async fn work(self, mut stop: watch::Receiver<bool>) {
        let mut round = 0;
        while !*stop.borrow() {
            if let Err(error) = self.work_once(round).await {
                tracing::warn!(%error, "a round of work failed");
            }
            round += 1;
            tokio::select! {
                _ = tokio::time::sleep(PAUSE) => {}
                changed = stop.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn work_once(&self, round: u64) -> Result<(), Failure> {
        self.do_due_jobs().await?;
        if round.is_multiple_of(ROUNDS_PER_CLEANUP) {
            while self.store.drop_expired().await? == 1000 {}
        }
        if round % ROUNDS_PER_ROLL_UP == ROUNDS_PER_ROLL_UP - 1 {
            self.store.roll_up().await?;
        }
        Ok(())
    }

    /// Does every job that is due now. Says how many.
    pub async fn do_due_jobs(&self) -> Result<usize, Failure> {
        let jobs = self.store.lease_jobs(JOBS_MAX, LEASE).await?;
        let count = jobs.len();
        for job in jobs {
            self.perform(job).await?;
        }
        Ok(count)
    }

    async fn perform(&self, job: Job) -> Result<(), Failure> {
        let done = match job.kind.as_str() {
            RECOVERY_JOB => self.finish_recovery(&job).await,
            unknown => {
                // A newer node of the same database may know it.
                let error = format!("this node does not know jobs of the kind {unknown}");
                let later = self.store.now().await?.plus(LEASE);
                self.store.fail_job(job, error, Some(later)).await?;
                return Ok(());
            }
        };
        match done {
            Ok(()) => Ok(()),
            // The clock was set back a little since the job was found due.
            Err(Failure::Refused(Refusal::Keys {
                reason: KeyRefusal::RecoveryTooEarly { effective_at },
            })) => {
                let error = format!("not before {effective_at}");
                self.store.fail_job(job, error, Some(effective_at)).await?;
                Ok(())
            }
            Err(Failure::Store(error)) if job.attempts < ATTEMPTS_MAX => {
                let wait = Duration::from_secs(1 << job.attempts.clamp(0, 12));
                let later = self.store.now().await?.plus(wait);
                self.store.fail_job(job, error.to_string(), Some(later)).await?;
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, job = %job.id, kind = job.kind, "a job is given up");
                self.store.fail_job(job, error.to_string(), None).await?;
                Ok(())
            }
        }
    }
}
