//! What a transfer is, and why one is refused.

use serde::{Deserialize, Serialize};
use skep_base::{
    Amount, Asset, Timestamp,
    id::{DebtId, TransferId},
};

use crate::{account::AccountId, turn::RouteKey};

/// What a row of the journal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Moves money at once.
    Posted,
    /// Sets money aside.
    Pending,
    /// Moves what a pending transfer set aside, or a part of it, and frees the rest.
    Post,
    /// Frees all that a pending transfer set aside.
    Void,
}

impl Kind {
    /// The word in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Posted => "posted",
            Kind::Pending => "pending",
            Kind::Post => "post",
            Kind::Void => "void",
        }
    }

    /// Reads the word in the journal.
    pub fn parse(word: &str) -> Option<Kind> {
        [Kind::Posted, Kind::Pending, Kind::Post, Kind::Void]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }

    /// Whether the row's amount leaves the debit account.
    pub fn moves_money(self) -> bool {
        matches!(self, Kind::Posted | Kind::Post)
    }
}

/// One row of the journal. It balances by construction: one debit, one credit, one amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Chosen by the caller, so that a retry is the same transfer.
    pub id: TransferId,
    /// The deal that it belongs to, or its own id.
    pub route: RouteKey,
    pub kind: Kind,
    pub debit: AccountId,
    pub credit: AccountId,
    /// Greater than zero.
    pub amount: Amount,
    /// What the row adds to (pending) or takes from (post, void) the debit account's holds.
    pub held_change: i64,
    /// The pending transfer that a post or a void resolves.
    pub pending: Option<TransferId>,
    /// The debt that it pays.
    pub debt: Option<DebtId>,
    /// The budget that is charged for it.
    pub budget: Option<AccountId>,
}

impl Transfer {
    /// The asset of both accounts.
    pub fn asset(&self) -> Asset {
        self.debit.asset()
    }
}

/// A transfer that a caller wants: money from one account to another.
#[derive(Clone, Debug)]
pub struct Order {
    pub id: TransferId,
    pub route: RouteKey,
    pub debit: AccountId,
    pub credit: AccountId,
    pub amount: Amount,
    pub budget: Option<AccountId>,
}

/// How a pending transfer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub id: TransferId,
    pub kind: Kind,
    pub amount: Amount,
}

/// A transfer of the journal and, if it was pending, how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTransfer {
    pub transfer: Transfer,
    /// When it was written.
    pub at: Timestamp,
    pub resolution: Option<Resolution>,
}

/// Money that an account's owner owes; every credit of the account pays it first (decision 9 of
/// the spec notes).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Debt {
    pub id: DebtId,
    pub debtor: AccountId,
    pub creditor: AccountId,
    /// What is still to be paid.
    pub open: Amount,
}

/// A debt as the ledger keeps it, paid or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebtState {
    /// What was owed at first.
    pub amount: Amount,
    /// What is still to be paid.
    pub open: Amount,
    pub opened_at: Timestamp,
    pub creditor: AccountId,
}

/// Why the ledger's rules say no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum LedgerRefusal {
    #[error("{account} has {available} minor units free, {needed} are needed")]
    InsufficientFunds { account: AccountId, available: Amount, needed: Amount },
    #[error("{account} may spend {left} more minor units, {needed} are needed")]
    LimitReached { account: AccountId, left: Amount, needed: Amount },
    #[error("a transfer moves more than zero")]
    ZeroAmount,
    #[error("a transfer needs two different accounts")]
    SameAccount,
    #[error("{debit} and {credit} hold different assets")]
    AssetMismatch { debit: AccountId, credit: AccountId },
    #[error("{budget} does not limit {debit}")]
    NotItsBudget { budget: AccountId, debit: AccountId },
    #[error("a budget only limits a wallet: money cannot be moved from or to {account}")]
    BudgetIsNoWallet { account: AccountId },
    #[error("the budget {budget} does not exist")]
    UnknownBudget { budget: AccountId },
    #[error("transfer {id} exists already with other contents")]
    IdTaken { id: TransferId },
    #[error("there is no transfer {id}")]
    UnknownTransfer { id: TransferId },
    #[error("transfer {id} is not pending")]
    NotPending { id: TransferId },
    #[error("transfer {id} was already posted")]
    AlreadyPosted { id: TransferId },
    #[error("transfer {id} was already voided")]
    AlreadyVoided { id: TransferId },
    #[error("at most the {pending} minor units of the pending transfer can be posted, not {asked}")]
    MoreThanPending { pending: Amount, asked: Amount },
    #[error("the amounts of {account} would pass what an account can hold")]
    Overflow { account: AccountId },
    #[error("{account} was not loaded for this turn")]
    NotLoaded { account: AccountId },
}
