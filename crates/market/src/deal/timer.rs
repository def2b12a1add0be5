//! 7.2 and decision 31: deadlines act by themselves.

use serde::Deserialize;
use skep_base::id::DealId;
use skep_store::Job;

use crate::{Failure, Market};

/// Jobs that let time act on a deal.
pub(crate) const TICK_JOB: &str = "deal.tick";

#[derive(Debug, Deserialize)]
struct TickJob {
    deal: DealId,
}

impl Market {
    /// Performs a deal's timer. The turn that acts ends the job; what was not due yet comes again.
    pub(crate) async fn finish_tick(&self, job: Job) -> Result<(), Failure> {
        let Ok(TickJob { deal }) = serde_json::from_str(&job.body) else {
            let error = "the job names no deal".to_owned();
            self.store.fail_job(job, error, None).await?;
            return Ok(());
        };
        match self.tick(deal).await? {
            Some(due) => {
                self.store.fail_job(job, format!("not before {due}"), Some(due)).await?;
            }
            // Gone already if the turn moved the timer; a leftover of an older one ends here.
            None => {
                self.store.finish_job(job).await?;
            }
        }
        Ok(())
    }
}
