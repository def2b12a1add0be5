//! What a use case answers, and how its answer survives a retry.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use skep_base::{Timestamp, id::TransferId, json::read_own};
use skep_hire::budget::BudgetRefusal;
use skep_store::{
    Bug, Call, Decision, Guard, Kept, LedgerRefusal, Load, Lock, Outcome, StoreError, Turn,
};

use crate::{
    Market, Signed,
    deal::DealRefusal,
    hire::HireRefusal,
    identity::{AgentRecord, KeyRefusal, agent_key},
    pay::{EscrowRefusal, PayRefusal},
    score::{AdminRefusal, ScoreRefusal},
    session::SessionRefusal,
};

/// How long an idempotency key is kept.
const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 3600);
/// A nonce outlives its signature by the clocks' difference that is allowed.
pub(crate) const NONCE_KEPT_EXTRA: Duration = Duration::from_secs(60);

/// A use case's answer, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    pub value: T,
    /// The request was a repetition: this is what it answered the first time.
    pub replayed: bool,
}

/// Which of a request's keys was used for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    Nonce,
    IdempotencyKey,
}

/// Why a use case gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The rules say no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The rules said no when this very request came before.
    #[error(transparent)]
    RefusedBefore(Refusal),
    #[error("this {} was used for another request", match .0 {
        Guarded::Nonce => "nonce",
        Guarded::IdempotencyKey => "idempotency key",
    })]
    KeyReused(Guarded),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the rules say no. Stored beside a request's nonce, so that a retry hears the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("there is no agent {agent}; register it with POST /v1/agents")]
    UnknownAgent { agent: String },
    #[error("there is no operator {operator}; register it with POST /v1/operators")]
    UnknownOperator { operator: String },
    #[error("the key that signed is not the agent's current key; sign with that one")]
    KeyNotCurrent,
    #[error("the signature of the {signer} over the {statement} does not hold")]
    BadStatementSignature { signer: String, statement: String },
    #[error("{what}")]
    BadStatement { what: String },
    #[error("the statement's time {issued_at} is not within {minutes} minutes of now")]
    StatementNotFresh { issued_at: Timestamp, minutes: u64 },
    #[error("agent {agent} is registered already, with other keys or by a newer statement")]
    AgentExists { agent: String },
    #[error("this key belongs to another agent; make a fresh one")]
    KeyTaken,
    #[error(transparent)]
    Keys { reason: KeyRefusal },
    #[error(transparent)]
    Ledger { reason: LedgerRefusal },
    #[error("after a key rotation no money leaves the wallet before {until}")]
    MoneyFrozen { until: Timestamp },
    #[error("the wallet owes {owed_minor} minor units; pay that first")]
    InDebt { owed_minor: i64 },
    #[error("{promised_minor} minor units of the wallet are promised to open deals")]
    Promised { promised_minor: i64 },
    #[error("the cursor is none that this node gave out; begin without one")]
    MalformedCursor,
    #[error("there is no transfer {id} between you and somebody else")]
    UnknownTransfer { id: TransferId },
    #[error("{who} may not do that: {rule}")]
    NotYours { who: String, rule: String },
    #[error("test money is only given by a node that was made with --dev")]
    NotDev,
    #[error(transparent)]
    Deal { reason: DealRefusal },
    #[error(transparent)]
    Session { reason: SessionRefusal },
    #[error(transparent)]
    Hire { reason: HireRefusal },
    #[error(transparent)]
    Payment { reason: PayRefusal },
    #[error(transparent)]
    Escrow { reason: EscrowRefusal },
    #[error(transparent)]
    Budget { reason: BudgetRefusal },
    #[error(transparent)]
    Admin { reason: AdminRefusal },
    #[error(transparent)]
    Score { reason: ScoreRefusal },
    #[error("the faucet gives at most {max_minor} minor units at a time")]
    FaucetLimit { max_minor: i64 },
}

impl From<LedgerRefusal> for Refusal {
    fn from(reason: LedgerRefusal) -> Refusal {
        Refusal::Ledger { reason }
    }
}

impl From<KeyRefusal> for Refusal {
    fn from(reason: KeyRefusal) -> Refusal {
        Refusal::Keys { reason }
    }
}

/// What a step may end in besides an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Refused before the caller was known: its nonce stays unused.
    #[error(transparent)]
    Unheard(Refusal),
    #[error(transparent)]
    Bug(#[from] Bug),
}

impl From<LedgerRefusal> for Stop {
    fn from(reason: LedgerRefusal) -> Stop {
        match reason {
            LedgerRefusal::NotLoaded { .. } => Stop::Bug(Bug(reason.to_string())),
            reason => Stop::Refused(reason.into()),
        }
    }
}

impl Market {
    /// Runs a use case that carries its own proof of who asks.
    pub(crate) async fn run<T: Serialize + DeserializeOwned>(
        &self,
        load: Load,
        guards: Vec<Guard>,
        mut step: impl FnMut(&mut Turn) -> Result<T, Stop> + Send + 'static,
    ) -> Result<Answered<T>, Failure> {
        let decide = move |turn: &mut Turn| match step(turn) {
            Ok(value) => Ok(Decision::Commit(to_json(&value)?)),
            Err(Stop::Refused(refusal)) => Ok(Decision::Refuse(to_json(&refusal)?)),
            Err(Stop::Unheard(refusal)) => Ok(Decision::Ignore(to_json(&refusal)?)),
            Err(Stop::Bug(bug)) => Err(bug),
        };
        let call = Call { load, guards, step: Box::new(decide) };
        let (answer, replayed) = match self.store.call(call).await? {
            Outcome::Done(answer) => (answer, false),
            Outcome::Replayed(answer) => (answer, true),
            Outcome::Conflict { guard: 0 } => return Err(Failure::KeyReused(Guarded::Nonce)),
            Outcome::Conflict { .. } => return Err(Failure::KeyReused(Guarded::IdempotencyKey)),
        };
        if answer.refused {
            let refusal = from_json(&answer.body)?;
            return Err(match replayed {
                true => Failure::RefusedBefore(refusal),
                false => Failure::Refused(refusal),
            });
        }
        Ok(Answered { value: from_json(&answer.body)?, replayed })
    }

    /// Runs a use case that an agent signed. The step gets the agent's record, whose key has been
    /// checked inside the transaction (decision 1).
    pub(crate) async fn run_signed<T: Serialize + DeserializeOwned>(
        &self,
        signed: &Signed,
        mut load: Load,
        mut step: impl FnMut(&mut Turn, &AgentRecord) -> Result<T, Stop> + Send + 'static,
    ) -> Result<Answered<T>, Failure> {
        let record_key = agent_key(&signed.agent);
        // Whatever else reads the caller's record, nobody revokes its key until the turn is over.
        match load.records.iter_mut().find(|(key, _)| *key == record_key) {
            None => load.records.push((record_key.clone(), Lock::Shared)),
            Some((_, lock)) if *lock == Lock::None => *lock = Lock::Shared,
            Some(_) => {}
        }
        let (agent, key) = (signed.agent, signed.key);
        self.run(load, guards(signed), move |turn| {
            let unknown = Refusal::UnknownAgent { agent: agent.to_string() };
            let record: AgentRecord = turn.record(&record_key)?.ok_or(Stop::Unheard(unknown))?;
            if record.current_key() != Some(&key) {
                return Err(Stop::Unheard(Refusal::KeyNotCurrent));
            }
            step(turn, &record)
        })
        .await
    }
}

fn guards(signed: &Signed) -> Vec<Guard> {
    let mut guards = vec![Guard {
        scope: format!("nonce:{}", signed.agent),
        key: signed.nonce.clone(),
        fingerprint: signed.fingerprint,
        kept: Kept::Until(signed.expires_at.plus(NONCE_KEPT_EXTRA)),
    }];
    if let Some(key) = &signed.idempotency_key {
        guards.push(Guard {
            scope: format!("idempotency:{}", signed.agent),
            key: key.clone(),
            fingerprint: signed.fingerprint,
            kept: Kept::For(IDEMPOTENCY_KEPT),
        });
    }
    guards
}

fn to_json<T: Serialize>(value: &T) -> Result<String, Bug> {
    serde_json::to_string(value).map_err(|e| Bug(format!("an answer is not JSON: {e}")))
}

fn from_json<T: DeserializeOwned>(body: &str) -> Result<T, StoreError> {
    read_own(body.as_bytes())
        .map_err(|e| StoreError::Bug(Bug(format!("a stored answer is unreadable: {e}"))))
}
