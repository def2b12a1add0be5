//! Whether a payment can be taken now: the same rules for those who only ask and for those who
//! take it.

use serde::{Deserialize, Serialize};
use skep_base::{Hash32, Timestamp};
use skep_store::{AccountId, Bug, RecordKey, RouteKey};
use skep_wire::x402::reason;

use super::{
    claim::Claim,
    facts::Facts,
    record::{PaymentRecord, payment_key},
    refusal::PayRefusal,
};
use crate::{
    AgentRecord, Refusal,
    answer::Stop,
    identity::agent_key,
    transfer::{spendable, unfrozen},
};

/// What a payment was taken for, beside its record: a nonce is good for that and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PaymentUse {
    pub(super) fingerprint: Hash32,
}

/// Where a payment stands.
#[derive(Debug)]
pub(super) enum Standing {
    New,
    /// This very payment was taken before.
    Taken(Box<PaymentRecord>),
}

pub(super) fn use_key(claim: &Claim) -> RecordKey {
    let id = claim.tx_hash.clone();
    RecordKey { route: RouteKey::of(&id), kind: "payment_use", id }
}

/// Where the id that a client gave a payment is kept.
pub(super) fn identifier_key(claim: &Claim) -> Option<RecordKey> {
    let id = claim.identifier.as_ref()?;
    Some(RecordKey::own("payment_id", format_args!("{}/{id}", claim.payer)))
}

/// What [`check`] looks at.
pub(super) fn keys(claim: &Claim) -> Vec<RecordKey> {
    let mut keys = vec![payment_key(&claim.tx_hash), use_key(claim), agent_key(&claim.payer)];
    keys.extend(identifier_key(claim));
    keys.extend(claim.absent_buyer().as_ref().map(agent_key));
    keys.extend(claim.budget.iter().flat_map(|named| named.keys()));
    keys
}

pub(super) fn accounts(claim: &Claim) -> Result<Vec<AccountId>, Bug> {
    let mut accounts = vec![claim.wallet()];
    accounts.extend(claim.absent_buyer().map(|_| claim.spender()));
    if let Some(named) = &claim.budget {
        accounts.extend(named.accounts()?);
    }
    Ok(accounts)
}

/// `outside`: what time it is where payments are signed.
pub(super) fn check(
    facts: &impl Facts,
    outside: Timestamp,
    claim: &Claim,
) -> Result<Standing, Stop> {
    if let Some(key) = identifier_key(claim)
        && let Some(known) = facts.record::<PaymentUse>(&key)?
        && known.fingerprint != claim.fingerprint
    {
        let message = "this payment-identifier was used for another payment";
        return Err(PayRefusal::new(reason::IDENTIFIER_REUSED, message).into());
    }
    if let Some(taken) = facts.record::<PaymentRecord>(&payment_key(&claim.tx_hash))? {
        let known: Option<PaymentUse> = facts.record(&use_key(claim))?;
        return match known.is_some_and(|known| known.fingerprint == claim.fingerprint) {
            true => Ok(Standing::Taken(Box::new(taken))),
            false => Err(nonce_used().into()),
        };
    }
    claim.check_time(outside)?;
    claim.check_payer_time(outside)?;
    if claim.payer == claim.payee() {
        let message = "nobody pays to the wallet that the money comes from";
        return Err(PayRefusal::new(reason::RECIPIENT, message).into());
    }
    if claim.absent_buyer().is_some() {
        check_absent_buyer(facts, claim)?;
    }
    let wallet = facts.account(&claim.wallet())?;
    match facts.record::<AgentRecord>(&agent_key(&claim.payer))? {
        Some(payer) => spendable(facts.now(), &payer, wallet, claim.amount)?,
        // An address that no agent has registered has no key that could be frozen.
        None if wallet.owed.is_zero() => {}
        None => return Err(Refusal::InDebt { owed_minor: wallet.owed.minor() }.into()),
    }
    if wallet.available() < claim.amount {
        let message = format!("{} minor units are free in the wallet", wallet.available().minor());
        return Err(PayRefusal::new(reason::INSUFFICIENT_FUNDS, message).into());
    }
    if let Some(named) = &claim.budget {
        named.check(facts, outside, &claim.buyer, claim.amount)?;
    }
    Ok(Standing::New)
}

/// A buyer that may not spend may not have another wallet spend for it either.
fn check_absent_buyer(facts: &impl Facts, claim: &Claim) -> Result<(), Stop> {
    if let Some(buyer) = facts.record::<AgentRecord>(&agent_key(&claim.buyer))? {
        unfrozen(facts.now(), &buyer)?;
    }
    let owed = facts.account(&claim.spender())?.owed;
    match owed.is_zero() {
        true => Ok(()),
        false => Err(Refusal::InDebt { owed_minor: owed.minor() }.into()),
    }
}

pub(super) fn nonce_used() -> PayRefusal {
    PayRefusal::new(reason::NONCE_USED, "this payment was taken before")
}
