//! A seller's word that a job is over, as it was posted to an order's `callback_url`. It comes from
//! anybody, so it is taken only where a hire waits for it.

use skep_base::AgentId;
use skep_wire::hire::{JobCallback, JobStatus, SignedError, WalletSigned};

use super::{Buyer, lock};

/// Callbacks that are kept until their hires look for them.
const CALLBACKS_MAX: usize = 1000;

/// Why a callback is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    #[error("the callback is not the seller's: {0}")]
    BadSignature(#[from] SignedError),
    /// Of another seller, of another job, or of a hire that is over.
    #[error("no open hire waits for the job {job_id:?} of {seller}")]
    NotAwaited { seller: AgentId, job_id: String },
}

impl CallbackError {
    pub fn code(&self) -> &'static str {
        match self {
            CallbackError::BadSignature(_) => "bad_callback_signature",
            CallbackError::NotAwaited { .. } => "callback_not_awaited",
        }
    }
}

impl Buyer {
    /// Wakes the hire that waits for this word. The same word again, while the hire has not looked
    /// yet, changes nothing; when the hire is over, nobody waits for it any more.
    pub fn take_callback(&self, callback: JobCallback) -> Result<(), CallbackError> {
        use JobStatus::{Complete, Failed, Pending};
        callback.check_signature()?;
        let (Pending { job_id, .. } | Complete { job_id, .. } | Failed { job_id, .. }) =
            &callback.job;
        let (seller, job_id) = (callback.seller_id, job_id.clone());
        if !self.book().awaits(seller, &job_id) {
            return Err(CallbackError::NotAwaited { seller, job_id });
        }
        let mut callbacks = lock(&self.inner.callbacks);
        while callbacks.len() >= CALLBACKS_MAX {
            callbacks.pop_first();
        }
        callbacks.insert((seller, job_id), callback);
        drop(callbacks);
        self.inner.rung.notify_waiters();
        Ok(())
    }
}
