//! 4.4 and decision 22a: what an agent may spend for somebody else. Pure: who asks brings what it
//! knows.

use serde::{Deserialize, Serialize};
use skep_base::{AgentId, Amount, Did, Hash32, Timestamp, ed25519::PublicKey};
use skep_wire::hire::{
    BUDGET_DEPTH_MAX, BUDGET_SECONDS_MAX, BudgetIssuer, BudgetToken, SignedError,
};

#[cfg(test)]
mod tests;

/// The longest nonce of a token, in bytes.
pub const NONCE_LEN_MAX: usize = 128;

/// Why a budget cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum BudgetRefusal {
    #[error("the budget cannot be that: {what}")]
    Malformed { what: String },
    #[error("the budget is good from {from} on")]
    NotYetValid { from: Timestamp },
    #[error("the budget ended at {at}")]
    Expired { at: Timestamp },
    #[error("the budget is {agent}'s")]
    WrongAgent { agent: AgentId },
    #[error("a budget is given by the agent's operator, or by the owner of the one it is part of")]
    WrongIssuer,
    #[error("the budget's signature does not hold: {what}")]
    Signature { what: String },
    #[error("there is no budget {parent} that this one could be a part of")]
    UnknownParent { parent: Hash32 },
    #[error("there is no budget {budget}")]
    Unknown { budget: Hash32 },
    #[error("budgets are passed on at most {BUDGET_DEPTH_MAX} times")]
    TooDeep,
    #[error("a part of a budget ends no later than the budget, at {at}")]
    OutlivesParent { at: Timestamp },
    #[error("{left} minor units are left in the budget, {needed} are needed")]
    Exceeded { left: Amount, needed: Amount },
}

/// The agent that may spend, as the market knows it.
#[derive(Clone, Copy, Debug)]
pub struct Spender<'a> {
    pub operator: &'a Did,
    /// The operator's key; of an agent that is its own operator, the agent's current one.
    pub operator_key: Option<&'a PublicKey>,
}

/// The budget that another is a part of.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    pub token: &'a BudgetToken,
    /// 0 for one that an operator gave.
    pub depth: usize,
    /// What may still be spent or passed on.
    pub left: Amount,
}

/// Whether a budget may be used at `now`.
pub fn check_time(token: &BudgetToken, now: Timestamp) -> Result<(), BudgetRefusal> {
    if now < token.starts_at() {
        return Err(BudgetRefusal::NotYetValid { from: token.starts_at() });
    }
    match now < token.expires_at() {
        true => Ok(()),
        false => Err(BudgetRefusal::Expired { at: token.expires_at() }),
    }
}

/// Whether a token that was not seen before makes a budget. Says how deep it is.
pub fn check_new(
    token: &BudgetToken,
    now: Timestamp,
    spender: Option<Spender<'_>>,
    parent: Option<Parent<'_>>,
) -> Result<usize, BudgetRefusal> {
    check_shape(token)?;
    check_time(token, now)?;
    match (&token.issuer, token.parent) {
        (BudgetIssuer::Operator(issuer), None) => {
            let spender = spender.ok_or(BudgetRefusal::WrongIssuer)?;
            if spender.operator != issuer {
                return Err(BudgetRefusal::WrongIssuer);
            }
            token.check(spender.operator_key).map_err(bad_signature)?;
            Ok(0)
        }
        (BudgetIssuer::Agent(issuer), Some(id)) => {
            let parent = parent.ok_or(BudgetRefusal::UnknownParent { parent: id })?;
            if parent.token.agent_id != *issuer {
                return Err(BudgetRefusal::WrongIssuer);
            }
            token.check(None).map_err(bad_signature)?;
            check_part(token, now, parent)
        }
        _ => Err(BudgetRefusal::WrongIssuer),
    }
}

fn check_part(
    token: &BudgetToken,
    now: Timestamp,
    parent: Parent<'_>,
) -> Result<usize, BudgetRefusal> {
    let depth = parent.depth + 1;
    if depth > BUDGET_DEPTH_MAX {
        return Err(BudgetRefusal::TooDeep);
    }
    check_time(parent.token, now)?;
    let at = parent.token.expires_at();
    if token.expires_at() > at {
        return Err(BudgetRefusal::OutlivesParent { at });
    }
    let needed = token.limit();
    match needed <= parent.left {
        true => Ok(depth),
        false => Err(BudgetRefusal::Exceeded { left: parent.left, needed }),
    }
}

fn check_shape(token: &BudgetToken) -> Result<(), BudgetRefusal> {
    let bad = |what: &str| Err(BudgetRefusal::Malformed { what: what.to_owned() });
    if token.limit().is_zero() {
        return bad("max_amount_usdc is zero");
    }
    if !(1..=BUDGET_SECONDS_MAX).contains(&token.max_duration_seconds) {
        return bad("max_duration_seconds is 1 to a year");
    }
    if !(1..=NONCE_LEN_MAX).contains(&token.nonce.len()) {
        return bad("the nonce has 1 to 128 bytes");
    }
    Ok(())
}

fn bad_signature(error: SignedError) -> BudgetRefusal {
    BudgetRefusal::Signature { what: error.to_string() }
}
