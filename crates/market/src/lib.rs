//! The use cases of Skep: each prepares, loads and locks, steps, and writes once.
//!
//! It serves no HTTP and knows no chain and no browser; what it needs from outside comes in as
//! values, or through [`Egress`], [`Gateway`] and [`Checks`].
//! Invariants: a caller's key is checked again inside the transaction that acts on it; money
//! moves only through the ledger's page of a turn; whatever happened is an event.

mod answer;
mod change_keys;
mod checks;
mod deal;
mod egress;
mod hire;
mod identity;
mod link;
mod notice;
mod pay;
mod read;
mod recent;
mod register;
mod score;
mod session;
mod test_clock;
mod transfer;
mod work;

use std::{
    collections::BTreeSet,
    sync::{Arc, RwLock},
    time::Duration,
};

use skep_base::ed25519::SecretKey;
use skep_score::parameters::Parameters;
use skep_settle::Policy;
use skep_store::Store;

pub use self::{
    answer::{Answered, Failure, Guarded, Refusal},
    checks::{Checking, Checks},
    deal::{AGENT_KID, CallbackTaken, DealAnswer, DealRefusal, NegotiationAnswer, ProofView},
    egress::{Egress, EgressFailure, Sending},
    hire::{Challenge, HireRefusal, SAMPLE_POPULAR, SAMPLE_RARE, sample_listing},
    identity::{
        AgentRecord, KeyInput, KeyRefusal, LEFT_ANSWERS, LEFT_MAX, LeftOperator, RECOVERY_DELAY,
        ROTATION_FREEZE,
    },
    pay::{DISCOVERY_OFFSET_MAX, EscrowRefusal, PayRefusal, ResourceFilter},
    register::{OperatorRecord, check_webhook},
    score::{
        AdminRefusal, HISTORY_MAX, Headline, ImportWord, Known, OperatorRevocation, OperatorScore,
        ScoreRefusal, ScoreReport, check_score, fact_of, recompute_scores, sample_score,
    },
    session::{Calling, Conduit, Gateway, PURPOSE_LEN_MAX, SESSIONS_OPEN_MAX, SessionRefusal},
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
    /// Signs settlement receipts.
    settlement_key: Arc<SecretKey>,
    token_secret: hire::TokenSecret,
    webhook_key: Option<Arc<SecretKey>>,
    egress: Option<Arc<dyn Egress>>,
    gateway: Option<Arc<dyn Gateway>>,
    checks: Option<Arc<dyn Checks>>,
    /// Signs scores and passports.
    office: Arc<score::Office>,
    conduit: Arc<Conduit>,
    policy: Arc<Policy>,
    /// Verifiers that the marketplace itself picks, and reviewers.
    accredited: Arc<BTreeSet<AgentId>>,
    /// The verifier that is built into the node.
    own_verifier: Option<AgentId>,
    /// How the marketplace names itself in messages.
    marketplace: Arc<str>,
    directory: Arc<deal::Directory>,
    pots: Arc<deal::Pots>,
    claims: Arc<pay::Claims>,
    receipts: Arc<hire::Receipts>,
    seen: Arc<score::Seen>,
    challenge: Challenge,
    /// The benchmarks' minimums.
    parameters: Arc<RwLock<Parameters>>,
    /// Whether scores are kept.
    counts: bool,
    dev: bool,
    test_clock: Option<Arc<TestClock>>,
}

impl Market {
    /// `dev` allows what only tests and demonstrations may do.
    pub fn new(store: Store, log_key: SecretKey, dev: bool) -> Market {
        let log_key = Arc::new(log_key);
        Market {
            store,
            token_secret: hire::TokenSecret::of(&log_key),
            settlement_key: log_key.clone(),
            office: Arc::new(score::Office::new((*log_key).clone())),
            log_key,
            webhook_key: None,
            egress: None,
            gateway: None,
            checks: None,
            conduit: Arc::default(),
            policy: Arc::default(),
            accredited: Arc::default(),
            own_verifier: None,
            marketplace: "skep".into(),
            directory: Arc::default(),
            pots: Arc::default(),
            claims: Arc::default(),
            receipts: Arc::default(),
            seen: Arc::default(),
            challenge: Challenge::default(),
            parameters: Arc::default(),
            counts: true,
            dev,
            test_clock: None,
        }
    }

    /// Signs settlement receipts with a key of their own (decision 6).
    pub fn with_settlement_key(self, key: SecretKey) -> Market {
        let token_secret = hire::TokenSecret::of(&key);
        Market { settlement_key: Arc::new(key), token_secret, ..self }
    }

    /// Signs notices with this key.
    pub fn with_webhook_key(self, key: SecretKey) -> Market {
        Market { webhook_key: Some(Arc::new(key)), ..self }
    }

    /// Reaches strangers' addresses through this. Without it, jobs that have a destination are
    /// left to other nodes.
    pub fn with_egress(self, egress: Arc<dyn Egress>) -> Market {
        Market { egress: Some(egress), ..self }
    }

    /// Looks at results by this, where the money for them went back (decision 20).
    pub fn with_checks(self, checks: Arc<dyn Checks>) -> Market {
        Market { checks: Some(checks), ..self }
    }

    /// What the node's operator has set about money and reviews.
    pub fn with_policy(self, policy: Policy) -> Market {
        Market { policy: Arc::new(policy), ..self }
    }

    /// Those whom the marketplace trusts to verify for anybody, and to review.
    pub fn with_accredited(self, agents: impl IntoIterator<Item = AgentId>) -> Market {
        Market { accredited: Arc::new(agents.into_iter().collect()), ..self }
    }

    /// How the marketplace names itself in messages.
    pub fn with_name(self, name: &str) -> Market {
        Market { marketplace: name.into(), ..self }
    }

    /// Counts nothing for scores: what settlements cost without them can be measured so.
    pub fn without_scores(self) -> Market {
        Market { counts: false, ..self }
    }

    /// Whether sellers must show that they are at the addresses of their listings.
    pub fn with_listing_challenge(self, challenge: Challenge) -> Market {
        Market { challenge, ..self }
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
