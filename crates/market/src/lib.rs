//! The use cases of Skep: each prepares, loads and locks, steps, and writes once.
//!
//! It knows no HTTP, no chain and no browser; what it needs from outside comes in as values.
//! Invariants: a caller's key is checked again inside the transaction that acts on it; money
//! moves only through the ledger's page of a turn; whatever happened is an event.

mod answer;
mod change_keys;
mod identity;
mod read;
mod register;
mod transfer;
mod work;

use std::sync::Arc;

use skep_base::ed25519::SecretKey;
use skep_store::Store;

pub use self::{
    answer::{Answered, Failure, Guarded, Refusal},
    identity::{AgentRecord, KeyInput, KeyRefusal, RECOVERY_DELAY, ROTATION_FREEZE},
    register::{OperatorRecord, check_webhook},
    transfer::{FAUCET_MINOR_MAX, HOLD_VOIDABLE_BY_PAYER_AFTER},
};
use skep_base::{AgentId, Hash32, Timestamp, ed25519::PublicKey};

/// A request whose signature was checked: who asks, by which key, and what makes it unique.
#[derive(Clone, Debug)]
pub struct Signed {
    pub agent: AgentId,
    /// The key that signed; it must still be the agent's when the request is acted on.
    pub key: PublicKey,
    pub nonce: String,
    /// When the signature stops being good; the nonce is kept until then.
    pub expires_at: Timestamp,
    /// SHA-256 over what was asked: method, path, query and body.
    pub fingerprint: Hash32,
    pub idempotency_key: Option<String>,
}

/// All use cases, over one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Market {
    store: Store,
    log_key: Arc<SecretKey>,
    dev: bool,
}

impl Market {
    /// `dev` allows what only tests and demonstrations may do.
    pub fn new(store: Store, log_key: SecretKey, dev: bool) -> Market {
        Market { store, log_key: Arc::new(log_key), dev }
    }

    /// Whether test money and loopback addresses are allowed.
    pub fn is_dev(&self) -> bool {
        self.dev
    }

    /// The store below, for those who look at the whole: audit and readiness.
    pub fn store(&self) -> &Store {
        &self.store
    }
}
