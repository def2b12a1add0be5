//! A deal's legs, carried out on the ledger's page of a turn.

use std::collections::BTreeMap;

use skep_base::{AgentId, Amount, Asset, id::TransferId};
use skep_settle::{
    Deal,
    deal::{Contest, DepositEnd},
    escrow,
    money::{Fee, Leg, Place, Stake},
};
use skep_store::{AccountId, Bug, Debt, Lock, Order, RouteKey, Turn};
use skep_wire::{
    identity::Statement,
    settle::{
        EscrowSettlement, Evidence, FeeSplit, PlatformFee, RemainderPolicy, Role,
        SettlementReceipt, VCAP_VERSION,
    },
};

use super::{default, settlement_record_key, standing::standing};
use crate::{AgentRecord, Market, answer::Stop, identity::agent_key};

/// The requester's record changes when what it still owes beyond the escrow does.
pub(super) fn lock_of_requester(stake: &Stake) -> Lock {
    let counted = [remainder(stake, RemainderPolicy::OnRelease), stake.subsidy];
    if counted == [Amount::ZERO; 2] { Lock::None } else { Lock::Exclusive }
}

/// The provider's record changes when its advance is earned or owed.
pub(super) fn lock_of_provider(stake: &Stake) -> Lock {
    let counted = remainder(stake, RemainderPolicy::Advance);
    if counted.is_zero() { Lock::None } else { Lock::Exclusive }
}

/// The remainder, if it is carried in this way.
fn remainder(stake: &Stake, policy: RemainderPolicy) -> Amount {
    if stake.policy == policy { stake.remainder } else { Amount::ZERO }
}

/// Counts what a requester may come to owe by a deal.
pub(super) fn promise(requester: &mut AgentRecord, asset: Asset, stake: &Stake) {
    let remainder = remainder(stake, RemainderPolicy::OnRelease);
    add(&mut requester.open_remainders, asset, remainder);
    add(&mut requester.open_subsidies, asset, stake.subsidy);
}

/// Counts what a provider may come to owe by a deal, and gives all that it may by now.
pub(super) fn advance(provider: &mut AgentRecord, asset: Asset, stake: &Stake) -> Amount {
    let remainder = remainder(stake, RemainderPolicy::Advance);
    add(&mut provider.open_advances, asset, remainder)
}

fn add(open: &mut BTreeMap<Asset, Amount>, asset: Asset, more: Amount) -> Amount {
    let before = open.get(&asset).copied().unwrap_or_default();
    let sum = before.checked_add(more).unwrap_or(Amount::MAX);
    if !more.is_zero() {
        open.insert(asset, sum);
    }
    sum
}

fn take(open: &mut BTreeMap<Asset, Amount>, asset: Asset, less: Amount) {
    let before = open.remove(&asset).unwrap_or_default();
    if let Some(left) = before.checked_sub(less).filter(|left| !left.is_zero()) {
        open.insert(asset, left);
    }
}

/// The accounts that a settlement may touch.
pub(super) fn accounts(deal: &Deal) -> Vec<AccountId> {
    let asset = deal.terms.price.asset;
    let mut accounts = vec![
        AccountId::escrow(&deal.id, asset),
        AccountId::wallet(&deal.requester, asset),
        AccountId::wallet(&deal.provider, asset),
    ];
    if !deal.terms.stake.subsidy.is_zero() {
        accounts.push(AccountId::subsidy(deal.id.as_bytes(), asset));
    }
    if !deal.terms.stake.verifier_price.is_zero() {
        let asked = deal.attempts.iter().filter_map(|attempt| attempt.verifier);
        let verifiers = asked.chain(deal.verifier_due).filter(|v| *v != deal.requester);
        accounts.extend(verifiers.map(|verifier| AccountId::wallet(&verifier, asset)));
    }
    accounts
}

/// The transfer that was set aside for the remainder.
pub(super) fn reserved(deal: &Deal) -> Vec<(RouteKey, TransferId)> {
    let stake = &deal.terms.stake;
    match stake.policy == RemainderPolicy::Reserve && !stake.remainder.is_zero() {
        true => vec![(RouteKey::of(deal.id), deal.id.transfer("remainder"))],
        false => vec![],
    }
}

/// What is free in a wallet.
pub(super) fn free(turn: &Turn, wallet: &AccountId) -> Amount {
    turn.book.account(wallet).map_or(Amount::ZERO, |account| account.available())
}

/// At acceptance.
pub(super) fn open(turn: &mut Turn, deal: &Deal) -> Result<(), Stop> {
    for leg in deal.terms.stake.open() {
        carry_out(turn, deal, leg)?;
    }
    Ok(())
}

/// The opener of a dispute puts something down.
pub(super) fn take_deposit(turn: &mut Turn, deal: &Deal, contest: Contest) -> Result<(), Stop> {
    let from = side(contest.by);
    let (label, to, amount) = ("deposit", Place::Escrow, contest.deposit);
    carry_out(turn, deal, Leg::Move { label, from, to, amount })
}

fn side(role: Role) -> Place {
    match role {
        Role::Requester => Place::Requester,
        Role::Provider => Place::Provider,
    }
}

/// What becomes of it.
fn end_deposit(deal: &Deal, contest: Contest, end: DepositEnd) -> Vec<Leg> {
    let Contest { by, deposit: amount } = contest;
    if amount.is_zero() {
        return vec![];
    }
    let (opener, other) = (side(by), side(by.other()));
    let back = Leg::Move { label: "deposit_back", from: Place::Escrow, to: opener, amount };
    match end {
        DepositEnd::Returned => vec![back],
        DepositEnd::Lost => {
            let (label, from, to) = ("deposit_lost", Place::Escrow, Place::Fees);
            vec![Leg::Move { label, from, to, amount }]
        }
        DepositEnd::PaidByOther => {
            debug_assert_ne!(deal.requester, deal.provider);
            let (label, to) = ("deposit_owed", Place::Fees);
            vec![back, Leg::Pay { label, from: other, to, amount }]
        }
    }
}

impl Market {
    /// Closes the escrow's account and signs the receipt.
    pub(super) fn settle(
        &self,
        turn: &mut Turn,
        deal: &Deal,
        released: Amount,
        deposit: Option<(Contest, DepositEnd)>,
    ) -> Result<(), Stop> {
        let stake = deal.terms.stake;
        let rate_bps = match stake.fee_cap_bps {
            0 => 0,
            cap => self.policy.rate(&standing(turn, &deal.provider)?, cap),
        };
        let due = deal.verifier_due.is_some();
        let (mut legs, fee) = stake
            .close(released, rate_bps, due)
            .ok_or_else(|| Bug(format!("deal {} cannot be closed", deal.id)))?;
        if let Some((contest, end)) = deposit {
            legs.extend(end_deposit(deal, contest, end));
        }
        // Debts are paid from what the settlement itself brings.
        legs.sort_by_key(|leg| matches!(leg, Leg::Pay { .. }));
        for leg in legs {
            carry_out(turn, deal, leg)?;
        }
        let escrow = AccountId::escrow(&deal.id, deal.terms.price.asset);
        let left = turn.book.account(&escrow).map_or(Amount::ZERO, |account| account.posted);
        if !left.is_zero() {
            return Err(Bug(format!("{left} minor units are left in {escrow}")).into());
        }
        uncount(turn, deal)?;
        let paid = if due { stake.verifier_price } else { Amount::ZERO };
        let settlement = settlement(deal, released, fee, paid);
        let signature = settlement.sign(&self.settlement_key).map_err(|e| Bug(e.to_string()))?;
        let key = self.settlement_key.public();
        let receipt = SettlementReceipt { settlement, key, signature };
        Ok(turn.put(&settlement_record_key(&deal.id), &receipt)?)
    }
}

/// What was open beyond the escrow is decided now.
fn uncount(turn: &mut Turn, deal: &Deal) -> Result<(), Stop> {
    let (asset, stake) = (deal.terms.price.asset, deal.terms.stake);
    if lock_of_requester(&stake) == Lock::Exclusive {
        let remainder = remainder(&stake, RemainderPolicy::OnRelease);
        change(turn, &deal.requester, |requester| {
            take(&mut requester.open_remainders, asset, remainder);
            take(&mut requester.open_subsidies, asset, stake.subsidy);
        })?;
    }
    if lock_of_provider(&stake) == Lock::Exclusive {
        let remainder = remainder(&stake, RemainderPolicy::Advance);
        change(turn, &deal.provider, |p| take(&mut p.open_advances, asset, remainder))?;
    }
    Ok(())
}

fn change(
    turn: &mut Turn,
    agent: &AgentId,
    change: impl FnOnce(&mut AgentRecord),
) -> Result<(), Stop> {
    let key = agent_key(agent);
    let mut record = turn.record(&key)?.ok_or_else(|| Bug(format!("{agent} is gone")))?;
    change(&mut record);
    Ok(turn.put(&key, &record)?)
}

fn place(deal: &Deal, place: Place) -> Result<AccountId, Bug> {
    let asset = deal.terms.price.asset;
    let wallet = |agent: &AgentId| AccountId::wallet(agent, asset);
    Ok(match place {
        Place::Requester => wallet(&deal.requester),
        Place::Provider => wallet(&deal.provider),
        Place::Escrow => AccountId::escrow(&deal.id, asset),
        Place::Subsidy => AccountId::subsidy(deal.id.as_bytes(), asset),
        Place::Fees => AccountId::fees(asset),
        Place::Verifier => {
            let due = deal.verifier_due.as_ref();
            wallet(due.ok_or_else(|| Bug("no verifier is due".to_owned()))?)
        }
    })
}

fn carry_out(turn: &mut Turn, deal: &Deal, leg: Leg) -> Result<(), Stop> {
    let route = RouteKey::of(deal.id);
    let order = |label: &str, from, to, amount| -> Result<Order, Bug> {
        let id = deal.id.transfer(label);
        let (debit, credit) = (place(deal, from)?, place(deal, to)?);
        Ok(Order { id, route: route.clone(), debit, credit, amount, budget: None })
    };
    let reserved = deal.id.transfer("remainder");
    match leg {
        Leg::Move { label, from, to, amount } => {
            turn.book.transfer(order(label, from, to, amount)?)?;
        }
        Leg::Pay { label, from, to, amount } => {
            let order = order(label, from, to, amount)?;
            let payer = turn.book.account(&order.debit);
            let can = payer.is_some_and(|p| p.available() >= amount && p.owed.is_zero());
            if can {
                turn.book.transfer(order)?;
            } else {
                let Order { debit: debtor, credit: creditor, amount: open, .. } = order;
                let id = deal.id.debt(label);
                default::watch(turn, deal.id, id, &debtor);
                turn.book.owe(Debt { id, debtor, creditor, open })?;
            }
        }
        Leg::Reserve { amount } => {
            let (from, to) = (Place::Requester, Place::Provider);
            turn.book.hold(Order { id: reserved, ..order("remainder", from, to, amount)? })?;
        }
        Leg::Capture { amount } => {
            turn.book.post(reserved, deal.id.transfer("remainder_paid"), Some(amount))?;
        }
        Leg::Free => {
            turn.book.void(reserved, deal.id.transfer("remainder_freed"))?;
        }
    }
    Ok(())
}

/// The debts that a settlement can leave, as (label, debtor, creditor).
pub(crate) fn possible_debts(deal: &Deal) -> Result<Vec<(&'static str, AccountId)>, Bug> {
    let labels = [
        ("remainder", Place::Requester),
        ("subsidy_repaid", Place::Requester),
        ("advance_back", Place::Provider),
        ("fee_owed", Place::Provider),
    ];
    let contest = deal.contest.map(|contest| ("deposit_owed", side(contest.by.other())));
    labels.into_iter().chain(contest).map(|(label, at)| Ok((label, place(deal, at)?))).collect()
}

/// 3.7.
fn settlement(deal: &Deal, released: Amount, fee: Fee, verifier_paid: Amount) -> EscrowSettlement {
    let asset = deal.terms.price.asset;
    let closed = deal.closed.as_ref();
    let attempt = closed.and_then(|closed| closed.attempt).and_then(|n| deal.attempt(n));
    let proof = attempt.and_then(|attempt| attempt.proof.as_ref());
    let reason = match deal.escrow {
        escrow::State::Refunded(reason) => Some(reason),
        _ => None,
    };
    let refunded = deal.terms.price.amount.checked_sub(released).unwrap_or(Amount::ZERO);
    let platform_fee = (!fee.total().is_zero()).then(|| PlatformFee {
        rate: rate_text(fee.rate_bps),
        rate_type: "percentage".to_owned(),
        amount: skep_base::Money { amount: fee.total(), asset }.into(),
        amount_minor: fee.total(),
        currency: asset,
        split: FeeSplit { buyer_minor: fee.buyer, seller_minor: fee.seller },
    });
    EscrowSettlement {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "escrow_settlement".to_owned(),
        escrow_id: deal.id,
        negotiation_id: deal.id,
        status: deal.escrow.status(),
        reason,
        verification_id: attempt.map(|attempt| deal.id.verification(attempt.number)),
        proof_hash: proof.map(|proof| proof.hash),
        proof_signature: proof.map(|proof| proof.signature),
        evidence: proof.map(|proof| Evidence {
            proof_hash: proof.hash,
            proof_signature: proof.signature,
            extracted_content: None,
            action_log: None,
        }),
        platform_fee,
        settled_at: closed.map_or(deal.accepted_at, |closed| closed.at),
        requester: deal.requester,
        provider: deal.provider,
        currency: asset,
        released_minor: released,
        refunded_minor: refunded,
        verifier_paid_minor: verifier_paid,
        method: closed.map_or("none", |closed| closed.method.as_str()).to_owned(),
        terms_hash: deal.terms_hash,
    }
}

/// 500 basis points are the fraction 0.05.
fn rate_text(bps: u32) -> skep_base::money::DecimalText {
    let text = format!("{}.{:04}", bps / 10_000, bps % 10_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    serde_json::from_str(text)
        .unwrap_or_else(|_| skep_base::Money::zero(skep_base::Asset::USDC).into())
}
