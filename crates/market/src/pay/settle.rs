use std::sync::{Arc, atomic::Ordering};

use serde::Serialize;
use skep_base::{AgentId, Amount, Asset, Did, Hash32, Timestamp};
use skep_store::{AccountId, Load, Lock, Order, RecordKey, RouteKey, StoreError, Turn};
use skep_wire::{
    hire::Receipt,
    x402::{FacilitatorRequest, SettleResponse, reason},
};

use super::{
    budget::settled,
    check::{PaymentUse, Standing, accounts, check, identifier_key, keys, use_key},
    claim::{Claim, Unclaimed},
    escrow,
    facts::Facts,
    record::{PaymentRecord, payment_key},
    refusal::PayRefusal,
};
use crate::{
    AgentRecord, Failure, Market, Refusal, answer::Stop, hire::Submission, identity::agent_key,
    notice,
};

/// What the log says of a payment.
#[derive(Debug, Serialize)]
struct PaymentEvent<'a> {
    tx_hash: &'a str,
    payer: AgentId,
    /// For whom, where that is not the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    buyer: Option<AgentId>,
    pay_to: AgentId,
    amount_minor: Amount,
    asset: Asset,
    #[serde(skip_serializing_if = "Option::is_none")]
    hire_hash: Option<Hash32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seller: Option<AgentId>,
}

impl Market {
    /// Takes a payment, once. The same payment again gives the same answer.
    pub async fn x402_settle(
        &self,
        request: &FacilitatorRequest,
    ) -> Result<SettleResponse, Failure> {
        let network = request.payment_requirements.get("network");
        let network = network.and_then(|network| network.as_str()).unwrap_or_default();
        let network: String = network.chars().take(64).collect();
        let claim = match self.claim(request) {
            Ok(claim) => claim,
            Err(unclaimed) => return Ok(refused(unclaimed, network)),
        };
        let (payer, tx_hash) = (claim.payer, claim.tx_hash.clone());
        let receipt = request.skep.as_ref().and_then(|terms| terms.receipt.as_deref());
        match self.take(claim, receipt).await {
            Ok((record, receipt_entered)) => {
                Ok(SettleResponse { receipt_entered, ..taken(&record, network) })
            }
            Err(Failure::Refused(refusal)) => match PayRefusal::of(refusal) {
                reused if reused.reason == reason::IDENTIFIER_REUSED => {
                    Err(Refusal::from(reused).into())
                }
                refusal => Ok(refused((refusal, Some(payer)), network)),
            },
            // Whether it was written will be known when the same payment comes again.
            Err(Failure::Store(StoreError::Unknown(reason))) => {
                tracing::warn!(reason, tx_hash, "it is not known whether a payment was taken");
                let message = "it is not known yet whether this was settled: ask again";
                let refusal = PayRefusal::new(reason::SETTLEMENT_PENDING, message);
                let pending = refused((refusal, Some(payer)), network);
                Ok(SettleResponse { transaction: tx_hash, ..pending })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Says also whether the receipt is entered that came along.
    async fn take(
        &self,
        claim: Arc<Claim>,
        receipt: Option<&Receipt>,
    ) -> Result<(PaymentRecord, bool), Failure> {
        let outside = self.outside();
        // A stranger's payment that cannot be taken locks nothing. One that was looked at a moment
        // ago is not looked at twice; the turn looks in any case.
        let was_payable = claim.payable.swap(false, Ordering::Relaxed);
        let budget = match &claim.budget {
            None if was_payable => None,
            _ => {
                let seen = accounts(&claim).map_err(StoreError::from)?;
                let glance = self.glance(keys(&claim), seen).await?;
                let standing = settled(check(&glance, outside(glance.now()), &claim))?;
                if let Standing::Taken(known) = standing {
                    let entered = match receipt {
                        Some(receipt) => self.submit_receipt(receipt.clone(), None).await.is_ok(),
                        None => false,
                    };
                    return Ok((*known, entered));
                }
                let budget = claim.budget.as_ref().map(|named| named.load_to_spend(&glance));
                budget.transpose().map_err(StoreError::from)?
            }
        };
        let load = load(&claim, budget);
        if let Some(submission) = receipt.and_then(|receipt| self.fitting(&claim, receipt)) {
            match self.take_with_receipt(claim.clone(), load.clone(), submission).await {
                Ok(record) => return Ok((record, true)),
                // A receipt that does not hold keeps no payment from being taken.
                Err(Failure::Refused(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let step = move |turn: &mut Turn| settle(turn, outside(turn.now()), &claim);
        Ok((self.run(load, vec![], step).await?.value, false))
    }

    /// The receipt, if it can be entered together with the payment.
    fn fitting(&self, claim: &Claim, receipt: &Receipt) -> Option<Submission> {
        let (hire, _) = claim.hire.as_ref().filter(|_| claim.escrow.is_none())?;
        let submission = self.submission(receipt.clone()).ok()?;
        submission.is_for(hire, &claim.tx_hash).then_some(submission)
    }

    /// Payment and receipt in one turn: both, or neither.
    async fn take_with_receipt(
        &self,
        claim: Arc<Claim>,
        mut load: Load,
        submission: Submission,
    ) -> Result<PaymentRecord, Failure> {
        for (key, lock) in &submission.load.records {
            add(&mut load, key.clone(), *lock);
        }
        load.names.extend(submission.load.names.iter().cloned());
        let (receipt_id, about) = (submission.receipt_id(), submission.about());
        let (market, outside) = (self.clone(), self.outside());
        let step = move |turn: &mut Turn| {
            let record = settle(turn, outside(turn.now()), &claim)?;
            market.enter(turn, &submission, true, Some(&record))?;
            Ok(record)
        };
        let record = self.run(load, vec![], step).await?.value;
        self.receipts.remember(receipt_id, about);
        Ok(record)
    }
}

/// All that taking a payment reads and writes.
fn load(claim: &Claim, budget: Option<Load>) -> Load {
    let mut records = vec![
        (payment_key(&claim.tx_hash), Lock::Exclusive),
        (use_key(claim), Lock::Exclusive),
        (agent_key(&claim.payer), Lock::Shared),
    ];
    records.extend(claim.absent_buyer().map(|buyer| (agent_key(&buyer), Lock::Shared)));
    records.extend(identifier_key(claim).map(|key| (key, Lock::Exclusive)));
    let mut accounts = vec![claim.wallet(), AccountId::wallet(&claim.payee(), Asset::USDC)];
    accounts.extend(claim.absent_buyer().map(|_| claim.spender()));
    if let Some(load) = budget {
        records.extend(load.records);
        accounts.extend(load.accounts);
    }
    for side in sides(claim) {
        records.push((agent_key(&side), Lock::None));
    }
    let mut load = Load { accounts, ..Load::default() };
    for (key, lock) in records {
        add(&mut load, key, lock);
    }
    load.transfers.push((RouteKey::of(&claim.tx_hash), claim.transfer_id()));
    escrow::load_hold(claim, &mut load);
    load
}

/// Each key once, by its strongest lock.
fn add(load: &mut Load, key: RecordKey, lock: Lock) {
    match load.records.iter_mut().find(|(known, _)| *known == key) {
        None => load.records.push((key, lock)),
        Some((_, Lock::Exclusive)) => {}
        Some((_, known)) if lock != Lock::None => *known = lock,
        Some(_) => {}
    }
}

/// Those who are told: the payer, the buyer, who gets it, and the seller.
fn sides(claim: &Claim) -> Vec<AgentId> {
    let mut sides = vec![claim.payer];
    for side in [Some(claim.buyer), Some(claim.payee()), claim.seller()].into_iter().flatten() {
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    sides
}

fn settle(turn: &mut Turn, outside: Timestamp, claim: &Claim) -> Result<PaymentRecord, Stop> {
    if let Standing::Taken(known) = check(turn, outside, claim)? {
        return Ok(*known);
    }
    let budget = match &claim.budget {
        Some(named) => {
            named.open(turn, outside)?;
            Some(named.account()?)
        }
        None => None,
    };
    match &claim.escrow {
        Some(terms) => escrow::hold(turn, claim, terms, budget)?,
        None => pay(turn, claim, budget)?,
    }
    let record = PaymentRecord {
        payer: claim.payer,
        buyer: claim.absent_buyer(),
        payer_operator: payer_operator(turn, claim)?,
        pay_to: claim.payee(),
        amount: claim.amount,
        nonce: claim.nonce,
        tx_hash: claim.tx_hash.clone(),
        hire_hash: claim.hire.as_ref().map(|(digest, _)| *digest),
        escrow_id: claim.escrow_id(),
        seller: claim.seller(),
        budget: claim.budget.as_ref().map(|named| named.id),
        at: turn.now(),
    };
    let used = PaymentUse { fingerprint: claim.fingerprint };
    turn.put(&payment_key(&claim.tx_hash), &record)?;
    turn.put(&use_key(claim), &used)?;
    if let Some(key) = identifier_key(claim) {
        turn.put(&key, &used)?;
    }
    // Of a payment into escrow, the escrow tells.
    if claim.escrow.is_none() {
        tell(turn, claim, &record)?;
    }
    Ok(record)
}

/// Whose the wallet is that pays for somebody else: a seller that pays itself is found out by it.
fn payer_operator(turn: &Turn, claim: &Claim) -> Result<Option<Did>, Stop> {
    if claim.absent_buyer().is_none() {
        return Ok(None);
    }
    let payer: Option<AgentRecord> = turn.record(&agent_key(&claim.payer))?;
    Ok(payer.map(|payer| payer.agent.operator))
}

fn pay(turn: &mut Turn, claim: &Claim, budget: Option<AccountId>) -> Result<(), Stop> {
    let order = Order {
        id: claim.transfer_id(),
        route: RouteKey::of(&claim.tx_hash),
        debit: claim.wallet(),
        credit: AccountId::wallet(&claim.to, Asset::USDC),
        amount: claim.amount,
        budget,
    };
    turn.book.transfer_for(&claim.spender(), order)?;
    Ok(())
}

fn tell(turn: &mut Turn, claim: &Claim, record: &PaymentRecord) -> Result<(), Stop> {
    let told = PaymentEvent {
        tx_hash: &record.tx_hash,
        payer: record.payer,
        buyer: record.buyer,
        pay_to: record.pay_to,
        amount_minor: record.amount,
        asset: Asset::USDC,
        hire_hash: record.hire_hash,
        seller: record.seller,
    };
    let (route, kind, sides) = (RouteKey::of(&record.tx_hash), "payment.settled", sides(claim));
    let event = turn.event(&route, kind, &told, &sides)?;
    Ok(notice::tell_loaded(turn, event, kind, &route, &sides, &told)?)
}

fn taken(record: &PaymentRecord, network: String) -> SettleResponse {
    SettleResponse {
        success: true,
        payer: Some(record.payer),
        transaction: record.tx_hash.clone(),
        network,
        amount: Some(record.amount.minor().to_string()),
        escrow_id: record.escrow_id.map(|id| id.to_string()),
        ..SettleResponse::default()
    }
}

fn refused((refusal, payer): Unclaimed, network: String) -> SettleResponse {
    SettleResponse {
        success: false,
        error_reason: Some(refusal.reason),
        error_message: Some(refusal.message),
        payer,
        network,
        ..SettleResponse::default()
    }
}
