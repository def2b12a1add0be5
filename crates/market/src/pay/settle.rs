use serde::Serialize;
use skep_base::{AgentId, Amount, Asset, Hash32, Timestamp};
use skep_store::{AccountId, Bug, Load, Lock, Order, RouteKey, StoreError, Turn};
use skep_wire::x402::{FacilitatorRequest, SettleResponse, reason};

use super::{
    budget::settled,
    check::{PaymentUse, Standing, accounts, check, identifier_key, keys, use_key},
    claim::{Claim, Unclaimed},
    escrow,
    facts::{Facts, Glance},
    record::{PaymentRecord, payment_key},
    refusal::PayRefusal,
};
use crate::{
    AgentRecord, Answered, Failure, Market, Refusal, answer::Stop, identity::agent_key, notice,
};

/// What the log says of a payment.
#[derive(Debug, Serialize)]
struct PaymentEvent<'a> {
    tx_hash: &'a str,
    payer: AgentId,
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
        let claim = match Claim::read(&self.rail(), request) {
            Ok(claim) => claim,
            Err(unclaimed) => return Ok(refused(unclaimed, network)),
        };
        let (payer, tx_hash) = (claim.payer, claim.tx_hash.clone());
        match self.take(claim).await {
            Ok(record) => Ok(taken(&record, network)),
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

    async fn take(&self, claim: Claim) -> Result<PaymentRecord, Failure> {
        let seen = accounts(&claim).map_err(StoreError::from)?;
        // A stranger's payment that cannot be taken locks nothing.
        let glance = self.glance(keys(&claim), seen).await?;
        let outside = self.outside();
        if let Standing::Taken(known) = settled(check(&glance, outside(glance.now()), &claim))? {
            return Ok(*known);
        }
        let load = load(&claim, &glance).map_err(StoreError::from)?;
        let Answered { value, .. } =
            self.run(load, vec![], move |turn| settle(turn, outside(turn.now()), &claim)).await?;
        Ok(value)
    }
}

/// All that taking a payment reads and writes.
fn load(claim: &Claim, glance: &Glance) -> Result<Load, Bug> {
    let mut records = vec![
        (payment_key(&claim.tx_hash), Lock::Exclusive),
        (use_key(claim), Lock::Exclusive),
        (agent_key(&claim.payer), Lock::Shared),
    ];
    records.extend(identifier_key(claim).map(|key| (key, Lock::Exclusive)));
    let mut accounts = vec![claim.wallet(), AccountId::wallet(&claim.payee(), Asset::USDC)];
    if let Some(named) = &claim.budget {
        let load = named.load_to_spend(glance)?;
        records.extend(load.records);
        accounts.extend(load.accounts);
    }
    for side in sides(claim) {
        records.push((agent_key(&side), Lock::None));
    }
    let mut load = Load { accounts, ..Load::default() };
    // Each key once, by its strongest lock.
    for (key, lock) in records {
        match load.records.iter_mut().find(|(known, _)| *known == key) {
            None => load.records.push((key, lock)),
            Some((_, Lock::Exclusive)) => {}
            Some((_, known)) if lock != Lock::None => *known = lock,
            Some(_) => {}
        }
    }
    load.transfers.push((RouteKey::of(&claim.tx_hash), claim.transfer_id()));
    escrow::load_hold(claim, &mut load);
    Ok(load)
}

/// Those who are told: the payer, who gets it, and the seller.
fn sides(claim: &Claim) -> Vec<AgentId> {
    let mut sides = vec![claim.payer];
    for side in [Some(claim.payee()), claim.seller()].into_iter().flatten() {
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

fn pay(turn: &mut Turn, claim: &Claim, budget: Option<AccountId>) -> Result<(), Stop> {
    turn.book.transfer(Order {
        id: claim.transfer_id(),
        route: RouteKey::of(&claim.tx_hash),
        debit: claim.wallet(),
        credit: AccountId::wallet(&claim.to, Asset::USDC),
        amount: claim.amount,
        budget,
    })?;
    Ok(())
}

fn tell(turn: &mut Turn, claim: &Claim, record: &PaymentRecord) -> Result<(), Stop> {
    let told = PaymentEvent {
        tx_hash: &record.tx_hash,
        payer: record.payer,
        pay_to: record.pay_to,
        amount_minor: record.amount,
        asset: Asset::USDC,
        hire_hash: record.hire_hash,
        seller: record.seller,
    };
    let (route, kind, sides) = (RouteKey::of(&record.tx_hash), "payment.settled", sides(claim));
    let event = turn.event(&route, kind, &told, &sides)?;
    let mut agents: Vec<AgentRecord> = Vec::new();
    for side in &sides {
        agents.extend(turn.record(&agent_key(side))?);
    }
    let agents: Vec<&AgentRecord> = agents.iter().collect();
    Ok(notice::tell(turn, event, kind, &route, &agents, &told)?)
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
