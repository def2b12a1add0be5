//! Which key an agent signs with, remembered for a moment.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use skep_base::{AgentId, ed25519::PublicKey};
use skep_market::{Failure, Market, Refusal};
use skep_wire::http_signature::{KeyId, SignatureError};

use crate::{generations::Generations, problem::ApiError};

/// How many agents are remembered.
const AGENTS_MAX: usize = 16_384;
/// How long a revoked key may still read. What changes anything is checked again by the market,
/// inside the transaction.
const KEPT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) agent: AgentId,
    pub(crate) key: PublicKey,
    read_at: Instant,
}

#[derive(Debug)]
pub(crate) struct Keys {
    known: Mutex<Generations<KeyId, Known>>,
}

impl Keys {
    pub(crate) fn new() -> Keys {
        Keys { known: Mutex::new(Generations::new(AGENTS_MAX)) }
    }

    /// What is remembered, if it is fresh.
    pub(crate) fn remembered(&self, key_id: &KeyId) -> Option<Known> {
        let known = self.lock().get(key_id).copied();
        known.filter(|known| known.read_at.elapsed() < KEPT)
    }

    /// Asks the market.
    pub(crate) async fn read(&self, market: &Market, key_id: &KeyId) -> Result<Known, ApiError> {
        let (agent, key) = match market.key_of(&key_id.to_string()).await {
            Ok(found) => found,
            Err(Failure::Refused(Refusal::UnknownAgent { .. } | Refusal::KeyNotCurrent)) => {
                self.lock().remove(key_id);
                return Err(SignatureError::UnknownKey { key_id: key_id.to_string() }.into());
            }
            Err(failure) => return Err(failure.into()),
        };
        let known = Known { agent, key, read_at: Instant::now() };
        self.lock().insert(*key_id, known);
        Ok(known)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations<KeyId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
