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
mod test_clock;
mod transfer;
mod work;

use std::{sync::Arc, time::Duration};

use skep_base::ed25519::SecretKey;
use skep_store::Store;

pub use self::{
    answer::{Answered, Failure, Guarded, Refusal},
    identity::{AgentRecord, KeyInput, KeyRefusal, RECOVERY_DELAY, ROTATION_FREEZE},
    register::{OperatorRecord, check_webhook},
    test_clock::TestClock,
    transfer::{FAUCET_MINOR_MAX, HOLD_VOIDABLE_BY_PAYER_AFTER},
};
use skep_base::{AgentId, Clock, Hash32, Timestamp, ed25519::PublicKey};

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
    test_clock: Option<Arc<TestClock>>,
}

impl Market {
    /// `dev` allows what only tests and demonstrations may do.
    pub fn new(store: Store, log_key: SecretKey, dev: bool) -> Market {
        Market { store, log_key: Arc::new(log_key), dev, test_clock: None }
    }

    /// Lets callers move the store's clock, which must be this one. It goes on where it was when
    /// the last event was written: time does not go back over a restart.
    pub async fn with_test_clock(self, clock: Arc<TestClock>) -> Result<Market, Failure> {
        if let Some(last) = self.store.last_event_at().await? {
            clock.advance(last.since(clock.now()));
        }
        Ok(Market { test_clock: Some(clock), ..self })
    }

    /// Moves the clock of a node that was made with `--dev` ahead.
    pub fn advance_clock(&self, by: Duration) -> Result<Timestamp, Failure> {
        let clock = self.test_clock.as_ref().filter(|_| self.dev).ok_or(Refusal::NotDev)?;
        Ok(clock.advance(by))
    }

    /// What time it is outside, where statements are signed, when the store says `now`.
    fn outside(&self) -> impl Fn(Timestamp) -> Timestamp + Send + use<> {
        let clock = self.test_clock.clone();
        move |now| now.minus(clock.as_ref().map_or(Duration::ZERO, |clock| clock.ahead()))
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
