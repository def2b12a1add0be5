//! Accounts: whose money a row of the journal moves.
//!
//! An account's name says everything about it (`wallet:0x…:USDC`), so nobody has to look an
//! account up before locking it, and a person can read the journal.

use std::{borrow::Borrow, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Asset, id::DealId};

/// How many accounts the platform's subsidy is spread over, so that no row is hot.
pub const SUBSIDY_STRIPES: u8 = 16;

/// The longest name of a budget.
pub const BUDGET_NAME_LEN_MAX: usize = 64;

/// What an account is for, which decides what the database checks about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// An agent's own money.
    Wallet,
    /// Money held for one deal.
    Escrow,
    /// What the platform fronts for newcomers, spread over [`SUBSIDY_STRIPES`].
    Subsidy,
    /// Pays for audits.
    AuditPool,
    /// A spending limit below a wallet: counts what leaves the wallet in its name.
    Budget,
    /// The platform's income. Journal-only.
    Fees,
    /// The world outside: deposits come from it and withdrawals go to it. Journal-only.
    External,
}

impl Purpose {
    const ALL: [(Purpose, &'static str); 7] = [
        (Purpose::Wallet, "wallet"),
        (Purpose::Escrow, "escrow"),
        (Purpose::Subsidy, "subsidy"),
        (Purpose::AuditPool, "audit_pool"),
        (Purpose::Budget, "budget"),
        (Purpose::Fees, "fees"),
        (Purpose::External, "external"),
    ];

    /// The first word of such an account's name.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(p, _)| *p == self).map_or("", |(_, s)| s)
    }

    /// Whether the account has a balance row that is locked and checked. The others are touched
    /// by every settlement: a row of theirs would make all writers wait for one another.
    pub fn has_balance_row(self) -> bool {
        !matches!(self, Purpose::Fees | Purpose::External)
    }
}

/// The name of an account: purpose, owner and asset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountId(String);

impl AccountId {
    /// An agent's wallet.
    pub fn wallet(owner: &AgentId, asset: Asset) -> AccountId {
        AccountId(format!("wallet:{owner}:{asset}"))
    }

    /// The money held for one deal.
    pub fn escrow(escrow: &DealId, asset: Asset) -> AccountId {
        AccountId(format!("escrow:{escrow}:{asset}"))
    }

    /// The stripe of the subsidy that serves what `seed` names.
    pub fn subsidy(seed: &[u8], asset: Asset) -> AccountId {
        let stripe = skep_base::hash::sha256(seed).as_bytes()[0] % SUBSIDY_STRIPES;
        AccountId(format!("subsidy:{stripe}:{asset}"))
    }

    /// All stripes of it.
    pub fn subsidies(asset: Asset) -> Vec<AccountId> {
        (0..SUBSIDY_STRIPES).map(|n| AccountId(format!("subsidy:{n}:{asset}"))).collect()
    }

    /// The pool that pays for audits.
    pub fn audit_pool(asset: Asset) -> AccountId {
        AccountId(format!("audit_pool:skep:{asset}"))
    }

    /// A limit below an agent's wallet. The name is of letters, digits, `-`, `_` and `.`.
    pub fn budget(owner: &AgentId, name: &str, asset: Asset) -> Option<AccountId> {
        budget_name_is_good(name).then(|| AccountId(format!("budget:{owner}/{name}:{asset}")))
    }

    /// The platform's income.
    pub fn fees(asset: Asset) -> AccountId {
        AccountId(format!("fees:skep:{asset}"))
    }

    /// The world outside, as one rail sees it.
    pub fn external(rail: &str, asset: Asset) -> AccountId {
        let rail: String = rail.chars().filter(char::is_ascii_alphanumeric).collect();
        AccountId(format!("external:{rail}:{asset}"))
    }

    /// What the account is for.
    pub fn purpose(&self) -> Purpose {
        let word = self.0.split(':').next().unwrap_or_default();
        Purpose::ALL
            .iter()
            .find(|(_, s)| *s == word)
            .map(|(p, _)| *p)
            .expect("an account's name begins with its purpose by construction")
    }

    /// Whose it is: an agent, a deal or the platform.
    pub fn owner(&self) -> &str {
        self.0.split(':').nth(1).unwrap_or_default()
    }

    /// The one asset it holds.
    pub fn asset(&self) -> Asset {
        self.0
            .rsplit(':')
            .next()
            .and_then(|code| code.parse().ok())
            .expect("an account's name ends in its asset by construction")
    }

    /// The wallet that a budget limits.
    pub fn budget_parent(&self) -> Option<AccountId> {
        let (agent, _) = self.owner().split_once('/')?;
        let agent: AgentId = agent.parse().ok()?;
        Some(AccountId::wallet(&agent, self.asset()))
    }

    /// The name as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn budget_name_is_good(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= BUDGET_NAME_LEN_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Accounts are in the order of their names.
impl Borrow<str> for AccountId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<AccountId> for String {
    fn from(id: AccountId) -> String {
        id.0
    }
}

/// The text is not an account's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an account: expected purpose:owner:asset")]
pub struct NotAnAccount(pub String);

impl FromStr for AccountId {
    type Err = NotAnAccount;

    fn from_str(text: &str) -> Result<AccountId, NotAnAccount> {
        let bad = || NotAnAccount(text.to_owned());
        let mut parts = text.split(':');
        let (Some(purpose), Some(owner), Some(asset), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let asset: Asset = asset.parse().map_err(|_| bad())?;
        let known = Purpose::ALL.iter().find(|(_, s)| *s == purpose).ok_or_else(bad)?.0;
        let owner_is_good = match known {
            Purpose::Wallet => owner.parse::<AgentId>().is_ok_and(|id| id.to_string() == owner),
            Purpose::Budget => owner.split_once('/').is_some_and(|(agent, name)| {
                agent.parse::<AgentId>().is_ok() && budget_name_is_good(name)
            }),
            Purpose::Escrow => owner.parse::<DealId>().is_ok(),
            _ => !owner.is_empty() && owner.chars().all(|c| c.is_ascii_alphanumeric()),
        };
        if !owner_is_good {
            return Err(bad());
        }
        Ok(AccountId(format!("{purpose}:{owner}:{asset}")))
    }
}

impl TryFrom<String> for AccountId {
    type Error = NotAnAccount;

    fn try_from(text: String) -> Result<AccountId, NotAnAccount> {
        text.parse()
    }
}

/// An account with a balance row, as loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Its name.
    pub id: AccountId,
    /// What came in less what went out.
    pub posted: Amount,
    /// The part of `posted` that open holds have set aside.
    pub held: Amount,
    /// Everything that ever went out; for a budget, what was spent in its name.
    pub debited: Amount,
    /// What its owner owes from it; the next credits pay that first.
    pub owed: Amount,
    /// The most that `debited + held` may reach, if there is a limit.
    pub debit_limit: Option<Amount>,
    /// Counts the changes of this row; 0 means that the row is not written yet.
    pub version: i64,
}

impl Account {
    /// An account that nobody has used yet.
    pub fn unopened(id: AccountId) -> Account {
        Account {
            id,
            posted: Amount::ZERO,
            held: Amount::ZERO,
            debited: Amount::ZERO,
            owed: Amount::ZERO,
            debit_limit: None,
            version: 0,
        }
    }

    /// What can still be spent or held.
    pub fn available(&self) -> Amount {
        self.posted.checked_sub(self.held).unwrap_or(Amount::ZERO)
    }
}
