//! What callers are told when a use case says no. Every match is exhaustive: a new reason does not
//! compile until someone decides here what callers hear.

mod deal;
mod hire;
mod pay;
mod score;
mod session;

use skep_market::{DealRefusal, Failure, Guarded, KeyRefusal, Refusal};
use skep_store::{LedgerRefusal, StoreError};

use self::{
    deal::of_deal,
    hire::of_hire,
    pay::{of_budget, of_escrow, of_payment},
    score::of_score,
    session::of_session,
};
use crate::{code::Code, problem::ApiError};

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> ApiError {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::RefusedBefore(refusal) => {
                ApiError { replayed: true, ..ApiError::from(refusal) }
            }
            Failure::KeyReused(Guarded::Nonce) => Code::NonceReused.into(),
            Failure::KeyReused(Guarded::IdempotencyKey) => Code::IdempotencyKeyReused.into(),
            Failure::Store(error) => error.into(),
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let code = match &refusal {
            Refusal::UnknownAgent { .. } => Code::UnknownAgent,
            Refusal::UnknownOperator { .. } => Code::UnknownOperator,
            Refusal::KeyNotCurrent => Code::KeyNotCurrent,
            Refusal::BadStatementSignature { .. } => Code::BadStatementSignature,
            Refusal::BadStatement { .. } => Code::BadStatement,
            Refusal::StatementNotFresh { .. } => Code::StatementNotFresh,
            Refusal::AgentExists { .. } => Code::AgentExists,
            Refusal::KeyTaken => Code::KeyTaken,
            Refusal::Keys { reason } => of_keys(reason),
            Refusal::Ledger { reason } => of_ledger(reason),
            Refusal::MoneyFrozen { .. } => Code::MoneyFrozen,
            Refusal::InDebt { .. } => Code::InDebt,
            Refusal::UnknownTransfer { .. } => Code::UnknownTransfer,
            Refusal::MalformedCursor => Code::MalformedCursor,
            Refusal::NotYours { .. } => Code::NotYours,
            Refusal::Session { reason } => of_session(reason),
            Refusal::Admin { .. } => Code::AdminRefused,
            Refusal::NotDev => Code::NotDev,
            Refusal::FaucetLimit { .. } => Code::FaucetLimit,
            Refusal::Promised { .. } => Code::Promised,
            Refusal::Deal { reason } => of_deal(reason),
            Refusal::Hire { reason } => of_hire(reason),
            Refusal::Payment { reason } => of_payment(reason),
            Refusal::Budget { reason } => of_budget(reason),
            Refusal::Escrow { reason } => of_escrow(reason),
            Refusal::Score { reason } => of_score(reason),
        };
        let tiers = match &refusal {
            Refusal::Session { reason } => session::tiers(reason),
            _ => None,
        };
        let benchmark = match &refusal {
            Refusal::Deal { reason: DealRefusal::BenchmarkRequired { reason } } => {
                Some(reason.clone())
            }
            _ => None,
        };
        let retry_after = match &refusal {
            Refusal::Hire { reason } => hire::wait(reason),
            _ => None,
        };
        ApiError { tiers, benchmark, retry_after, ..ApiError::new(code, refusal.to_string()) }
    }
}

fn of_keys(reason: &KeyRefusal) -> Code {
    match reason {
        KeyRefusal::OldKeyNotCurrent => Code::OldKeyNotCurrent,
        KeyRefusal::KeyRevoked => Code::KeyRevoked,
        KeyRefusal::NoRecoveryKey => Code::NoRecoveryKey,
        KeyRefusal::NotTheRecoveryKey => Code::NotTheRecoveryKey,
        KeyRefusal::RecoveryWaiting => Code::RecoveryWaiting,
        KeyRefusal::NoRecoveryWaiting => Code::NoRecoveryWaiting,
        KeyRefusal::RecoveryTooEarly { .. } => Code::RecoveryTooEarly,
        KeyRefusal::NotSignedByOwner => Code::NotSignedByOwner,
        KeyRefusal::UnknownKey => Code::KeyNeverHeld,
        KeyRefusal::AlreadyRevoked => Code::AlreadyRevoked,
        KeyRefusal::KeyUsedBefore => Code::KeyUsedBefore,
        KeyRefusal::CompromisedInFuture => Code::CompromisedInFuture,
        KeyRefusal::TooManyKeys => Code::TooManyKeys,
        KeyRefusal::OperatorInCooldown { .. } => Code::OperatorInCooldown,
        KeyRefusal::OperatorChanged => Code::OperatorChanged,
        KeyRefusal::TooManyOperators { .. } => Code::TooManyOperators,
    }
}

fn of_ledger(reason: &LedgerRefusal) -> Code {
    match reason {
        LedgerRefusal::InsufficientFunds { .. } => Code::InsufficientFunds,
        LedgerRefusal::LimitReached { .. } => Code::LimitReached,
        LedgerRefusal::ZeroAmount => Code::ZeroAmount,
        LedgerRefusal::SameAccount => Code::SameAccount,
        LedgerRefusal::AssetMismatch { .. } => Code::AssetMismatch,
        LedgerRefusal::NotItsBudget { .. } => Code::NotItsBudget,
        LedgerRefusal::BudgetIsNoWallet { .. } => Code::BudgetIsNoWallet,
        LedgerRefusal::UnknownBudget { .. } => Code::UnknownBudget,
        LedgerRefusal::IdTaken { .. } => Code::TransferIdTaken,
        LedgerRefusal::UnknownTransfer { .. } => Code::UnknownTransfer,
        LedgerRefusal::NotPending { .. } => Code::NotPending,
        LedgerRefusal::AlreadyPosted { .. } => Code::AlreadyPosted,
        LedgerRefusal::AlreadyVoided { .. } => Code::AlreadyVoided,
        LedgerRefusal::MoreThanPending { .. } => Code::MoreThanPending,
        LedgerRefusal::Overflow { .. } => Code::AmountOverflow,
        // The market never lets it out: it is a bug of a use case, not an answer.
        LedgerRefusal::NotLoaded { .. } => Code::Internal,
    }
}

impl From<StoreError> for ApiError {
    /// Logged here, where it is handled; callers hear no names of tables or hosts.
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::Unavailable(reason) => {
                tracing::warn!(reason, "the database is not available");
                Code::Unavailable.into()
            }
            StoreError::Unknown(reason) => {
                tracing::warn!(reason, "it is not known whether a write was committed");
                Code::OutcomeUnknown.into()
            }
            StoreError::Bug(bug) => {
                tracing::error!(%bug, "an invariant is broken");
                metrics::counter!("bugs_total").increment(1);
                Code::Internal.into()
            }
        }
    }
}
