//! A recorded browser session: what may follow what, who may do what in it, and what that costs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skep_base::Amount;
use skep_wire::{
    conduit::{ActionType, CostCategory, SESSION_ACTIONS_MAX, SessionStatus as Status},
    settle::Tier,
};

/// What a billable action costs unless the operator says otherwise: 0.001 USDC.
pub const BILLABLE_MINOR: Amount = match Amount::new(1000) {
    Some(amount) => amount,
    None => Amount::ZERO,
};
/// Billable actions that a session without a limit of its own can pay.
pub const DEFAULT_ACTIONS: i64 = 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// An action is added.
    Act,
    /// The owner is done.
    Complete,
    /// The owner gives up, the browser is lost, or time has run out.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    #[error("the session is over: it is {}", word(*status))]
    Over { status: Status },
    #[error("nothing was done in this session yet: act first, or close it as failed")]
    NothingDone,
    #[error("{action} needs the tier {}, and yours is {}", tier_word(*required), tier_word(*tier))]
    TierTooLow { action: String, required: Tier, tier: Tier },
    #[error("{action} costs {price_minor} minor units, and {left_minor} are left of the maximum")]
    BudgetSpent { action: String, price_minor: i64, left_minor: i64 },
    #[error("a session has at most {max} actions: close this one and open another")]
    TooManyActions { max: u32 },
}

/// Advances a session. IDLE → RUNNING → COMPLETED or FAILED; one in which nothing was done can
/// only fail.
pub fn step(status: Status, input: Input) -> Result<Status, Refusal> {
    match (status, input) {
        (Status::Idle | Status::Running, Input::Act) => Ok(Status::Running),
        (Status::Running, Input::Complete) => Ok(Status::Completed),
        (Status::Idle, Input::Complete) => Err(Refusal::NothingDone),
        (Status::Idle | Status::Running, Input::Fail) => Ok(Status::Failed),
        (Status::Completed | Status::Failed, _) => Err(Refusal::Over { status }),
    }
}

/// What counts when an action is to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    pub status: Status,
    pub actions: u32,
    pub cost: Amount,
    pub max_cost: Amount,
}

/// Decision 40 and the budget. What is refused here changes nothing and costs nothing.
pub fn gate(
    account: &Account,
    tier: Tier,
    action: ActionType,
    price: Amount,
) -> Result<(), Refusal> {
    step(account.status, Input::Act)?;
    let name = || action.as_str().to_owned();
    if tier < action.tier() {
        return Err(Refusal::TierTooLow { action: name(), required: action.tier(), tier });
    }
    if account.actions >= SESSION_ACTIONS_MAX {
        return Err(Refusal::TooManyActions { max: SESSION_ACTIONS_MAX });
    }
    let left = account.max_cost.checked_sub(account.cost).unwrap_or(Amount::ZERO);
    if price > left {
        let (price_minor, left_minor) = (price.minor(), left.minor());
        return Err(Refusal::BudgetSpent { action: name(), price_minor, left_minor });
    }
    Ok(())
}

/// What actions cost, in minor units of USDC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    pub billable: Amount,
    /// Actions with a price of their own, free ones too.
    pub special: BTreeMap<ActionType, Amount>,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices { billable: BILLABLE_MINOR, special: BTreeMap::new() }
    }
}

impl Prices {
    pub fn of(&self, action: ActionType) -> Amount {
        match (self.special.get(&action), action.cost_category()) {
            (Some(price), _) => *price,
            (None, CostCategory::Billable) => self.billable,
            (None, CostCategory::Free) => Amount::ZERO,
        }
    }

    /// What is held where the owner names no maximum.
    pub fn default_max(&self) -> Amount {
        let minor = self.billable.minor().saturating_mul(DEFAULT_ACTIONS);
        Amount::new(minor).unwrap_or(Amount::ZERO)
    }
}

pub fn tier_word(tier: Tier) -> &'static str {
    match tier {
        Tier::Unverified => "UNVERIFIED",
        Tier::Basic => "BASIC",
        Tier::Verified => "VERIFIED",
        Tier::Trusted => "TRUSTED",
    }
}

pub fn word(status: Status) -> &'static str {
    match status {
        Status::Idle => "IDLE",
        Status::Running => "RUNNING",
        Status::Completed => "COMPLETED",
        Status::Failed => "FAILED",
    }
}

#[cfg(test)]
mod tests;
