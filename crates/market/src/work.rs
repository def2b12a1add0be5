//! What a node does by itself: due jobs, expiry, sums.

use std::time::Duration;

use skep_store::{Job, Room};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{
    Failure, KeyRefusal, Market, Refusal,
    change_keys::RECOVERY_JOB,
    deal::{DEFAULT_JOB, TICK_JOB},
    hire::CHECK_JOB,
    notice::{REACH_JOB, WEBHOOK_JOB},
    pay::{BUDGET_JOB, ESCROW_JOB, JUDGE_JOB},
    score::{DISTRUST_JOB, HEARTBEAT_JOB, RANK_JOB},
    session::SESSION_JOB,
};

/// How often due jobs are looked for.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a job may take before another worker gets it.
const LEASE: Duration = Duration::from_secs(60);
/// Jobs of this node taken at once.
const JOBS_MAX: usize = 32;
/// Jobs on their way outside at the same time: a slow receiver takes a few of these places and
/// nothing else.
const OUTSIDE_MAX: usize = 32;
/// Attempts after which a job is given up; its last error stays readable.
const ATTEMPTS_MAX: i64 = 12;
/// The time between two clean-ups.
const CLEANUP_EVERY: Duration = Duration::from_secs(10);
/// The time between two sums of the accounts without a balance row.
const ROLL_UP_EVERY: Duration = Duration::from_secs(300);
/// How long a node that stops waits for what is on its way outside. What takes longer is tried
/// again once its lease has run out.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Jobs without which money would not move, dead sellers would stay alive, and invented records
/// would count.
const CLOCKS: [&str; 9] = [
    TICK_JOB,
    DEFAULT_JOB,
    SESSION_JOB,
    BUDGET_JOB,
    ESCROW_JOB,
    CHECK_JOB,
    HEARTBEAT_JOB,
    RANK_JOB,
    DISTRUST_JOB,
];

/// Jobs on their way outside.
type Outside = JoinSet<Result<(), Failure>>;

impl Market {
    /// Works until `stop` says so.
    pub async fn work(self, mut stop: watch::Receiver<bool>) {
        let mut outside = Outside::new();
        let mut cleanup = interval_at(Instant::now(), CLEANUP_EVERY);
        let mut roll_up = interval_at(Instant::now() + ROLL_UP_EVERY, ROLL_UP_EVERY);
        cleanup.set_missed_tick_behavior(MissedTickBehavior::Delay);
        roll_up.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !*stop.borrow() {
            let started = self.start_due_jobs(&mut outside).await;
            // Where something was due, more may be.
            let pause = if matches!(started, Ok(1..)) { Duration::ZERO } else { PAUSE };
            note(started.map(|_| ()));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Some(done) = outside.join_next() => note(landed(done)),
                _ = cleanup.tick() => note(self.clean_up().await),
                _ = roll_up.tick() => note(self.store.roll_up().await.map_err(Failure::from)),
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
        let drained = tokio::time::timeout(STOP_WAIT, async {
            while let Some(done) = outside.join_next().await {
                note(landed(done));
            }
        });
        if drained.await.is_err() {
            tracing::info!(jobs = outside.len(), "stopped with jobs on their way outside");
        }
    }

    async fn clean_up(&self) -> Result<(), Failure> {
        while self.store.drop_expired().await? == 1000 {}
        while self.store.drop_payloads().await? {}
        self.close_quarter().await?;
        self.announce_late_keys().await?;
        // Another node may have set them.
        self.refresh_parameters().await
    }

    /// Does every job that is due now. Says how many.
    pub async fn do_due_jobs(&self) -> Result<usize, Failure> {
        let mut outside = Outside::new();
        let started = self.start_due_jobs(&mut outside).await;
        while let Some(done) = outside.join_next().await {
            landed(done)?;
        }
        started
    }

    /// Does the due jobs of this node, and starts those that go outside as far as there is room:
    /// what waits for a stranger keeps nothing else waiting.
    async fn start_due_jobs(&self, outside: &mut Outside) -> Result<usize, Failure> {
        while let Some(done) = outside.try_join_next() {
            note(landed(done));
        }
        let goes_out = self.egress.is_some() || self.gateway.is_some();
        let places = if goes_out { OUTSIDE_MAX } else { 0 };
        let room = Room { here: JOBS_MAX, outside: places.saturating_sub(outside.len()) };
        let jobs = self.store.lease_jobs(room, LEASE).await?;
        let count = jobs.len();
        let (here, away): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.destination.is_empty() && job.kind != JUDGE_JOB);
        // A look at a result takes its time as well.
        for job in away {
            let market = self.clone();
            outside.spawn(async move { market.perform(job).await });
        }
        for job in here {
            self.perform(job).await?;
        }
        Ok(count)
    }

    async fn perform(&self, job: Job) -> Result<(), Failure> {
        let done = match job.kind.as_str() {
            RECOVERY_JOB => self.finish_recovery(&job).await,
            TICK_JOB => self.finish_tick(job.clone()).await,
            DEFAULT_JOB => self.finish_default(job.clone()).await,
            WEBHOOK_JOB => self.deliver(&job).await,
            REACH_JOB => self.finish_reach(job.clone()).await,
            ESCROW_JOB => self.finish_escrow(job.clone()).await,
            JUDGE_JOB => self.finish_judge(job.clone()).await,
            BUDGET_JOB => self.finish_budget(job.clone()).await,
            SESSION_JOB => self.finish_session(job.clone()).await,
            CHECK_JOB => self.finish_check(job.clone()).await,
            HEARTBEAT_JOB => self.finish_heartbeat(job.clone()).await,
            RANK_JOB => self.finish_rank(job.clone()).await,
            DISTRUST_JOB => self.finish_distrust(job.clone()).await,
            unknown => {
                // A newer node of the same database may know it.
                let error = format!("this node does not know jobs of the kind {unknown}");
                let later = self.store.now().await?.plus(LEASE);
                self.store.fail_job(job, error, Some(later)).await?;
                return Ok(());
            }
        };
        // What goes wrong here is not the destination's fault: its breaker stays closed.
        let own = |job: Job| Job { destination: String::new(), ..job };
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
                self.store.fail_job(own(job), error.to_string(), Some(later)).await?;
                Ok(())
            }
            // A clock is never given up: money would lie still for ever.
            Err(error) if CLOCKS.contains(&job.kind.as_str()) => {
                tracing::error!(%error, job = %job.id, kind = job.kind, "a timer failed");
                let wait = Duration::from_secs(1 << job.attempts.clamp(0, 12));
                let later = self.store.now().await?.plus(wait);
                self.store.fail_job(own(job), error.to_string(), Some(later)).await?;
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, job = %job.id, kind = job.kind, "a job is given up");
                self.store.fail_job(own(job), error.to_string(), None).await?;
                Ok(())
            }
        }
    }
}

/// A job that panicked is a bug of ours; its lease runs out and it is tried again.
fn landed(done: Result<Result<(), Failure>, JoinError>) -> Result<(), Failure> {
    done.unwrap_or_else(|error| {
        let bug = skep_store::Bug(format!("a job did not end: {error}"));
        Err(skep_store::StoreError::Bug(bug).into())
    })
}

fn note(result: Result<(), Failure>) {
    if let Err(error) = result {
        tracing::warn!(%error, "a piece of the node's own work failed");
    }
}
