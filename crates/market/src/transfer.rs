//! Money between agents: paid at once, or held and then posted or voided.

use std::time::Duration;

use serde::Serialize;
use skep_base::{AgentId, Amount, Asset, Money, Timestamp, hash::sha256, id::TransferId};
use skep_store::transfer::Kind;
use skep_store::{
    Account, AccountId, Applied, Load, Lock, Order, RecordKey, RouteKey, StoredTransfer, Turn,
};
use skep_wire::wallet::{Faucet, NewTransfer, PostTransfer, Transfer, TransferMode, TransferState};

use crate::{
    Answered, Failure, Market, Refusal, Signed,
    answer::Stop,
    identity::{AgentRecord, KeyRefusal, agent_key},
    notice,
};

/// The payer may take a hold back after so long; before, only the payee can let go.
pub const HOLD_VOIDABLE_BY_PAYER_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most that the faucet gives in one go: a million of an asset with six decimals.
pub const FAUCET_MINOR_MAX: i64 = 1_000_000_000_000;

/// What the event log says of a transfer.
#[derive(Debug, Serialize)]
struct TransferEvent<'a> {
    id: TransferId,
    from: &'a AccountId,
    to: &'a AccountId,
    money: Money,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<TransferId>,
}

impl Market {
    /// Pays another agent, or sets the money aside for it.
    pub async fn transfer_create(
        &self,
        signed: &Signed,
        request: NewTransfer,
    ) -> Result<Answered<Transfer>, Failure> {
        let asset = request.money.asset;
        let (from, to) = (signed.agent, request.to);
        let (debit, credit) = (AccountId::wallet(&from, asset), AccountId::wallet(&to, asset));
        let load = Load {
            records: vec![(agent_key(&to), Lock::None)],
            accounts: vec![debit.clone(), credit.clone()],
            transfers: vec![(RouteKey::of(request.id), request.id)],
            ..Load::default()
        };
        self.run_signed(signed, load, move |turn, payer| {
            let payee: Option<AgentRecord> = turn.record(&agent_key(&to))?;
            let Some(payee) = &payee else {
                return Err(Refusal::UnknownAgent { agent: to.to_string() }.into());
            };
            // A retry of what was paid is no new payment.
            if turn.book.find(&request.id).is_none() {
                may_spend(turn, payer, &debit, request.money.amount)?;
            }
            let order = order(request.id, &debit, &credit, request.money.amount);
            match request.mode {
                TransferMode::Posted => {
                    let applied = turn.book.transfer(order.clone())?;
                    tell(turn, &order, applied, "transfer.posted", &[payer, payee])
                }
                TransferMode::Pending => {
                    let applied = turn.book.hold(order.clone())?;
                    let held = tell(turn, &order, applied, "transfer.held", &[payer, payee])?;
                    Ok(match applied {
                        Applied::Now => Transfer { state: TransferState::Pending, ..held },
                        Applied::Before => held,
                    })
                }
            }
        })
        .await
    }

    /// The payer pays what was held, or a part of it.
    pub async fn transfer_post(
        &self,
        signed: &Signed,
        id: TransferId,
        request: PostTransfer,
    ) -> Result<Answered<Transfer>, Failure> {
        let caller = signed.clone();
        let (load, other) = self.load_hold(signed, id).await?;
        self.run_signed(signed, load, move |turn, payer| {
            let hold = hold_of(turn, &caller, id)?;
            let debit = &hold.transfer.debit;
            if *debit != AccountId::wallet(&caller.agent, debit.asset()) {
                return Err(not_yours("the payee", "only the payer posts a hold"));
            }
            not_frozen(turn, payer)?;
            let amount = part_of(&hold, request.money)?;
            let applied = turn.book.post(id, resolution_id(&caller, id), Some(amount))?;
            let resolved = Resolved { hold: &hold, kind: Kind::Post, amount, applied };
            finish(turn, &caller, &resolved, payer, other.as_ref())
        })
        .await
    }

    /// The payee lets go of a hold; after a week the payer may take it back.
    pub async fn transfer_void(
        &self,
        signed: &Signed,
        id: TransferId,
    ) -> Result<Answered<Transfer>, Failure> {
        let caller = signed.clone();
        let (load, other) = self.load_hold(signed, id).await?;
        self.run_signed(signed, load, move |turn, own| {
            let hold = hold_of(turn, &caller, id)?;
            let debit = &hold.transfer.debit;
            let is_payer = *debit == AccountId::wallet(&caller.agent, debit.asset());
            if is_payer && turn.now() < hold.at.plus(HOLD_VOIDABLE_BY_PAYER_AFTER) {
                let rule = "before a week has passed only the payee voids a hold";
                return Err(not_yours("the payer", rule));
            }
            let applied = turn.book.void(id, resolution_id(&caller, id))?;
            let amount = hold.transfer.amount;
            let resolved = Resolved { hold: &hold, kind: Kind::Void, amount, applied };
            finish(turn, &caller, &resolved, own, other.as_ref())
        })
        .await
    }

    /// A hold, with where the record of the other side is. Who that is never changes, so it may be
    /// read beforehand.
    async fn load_hold(
        &self,
        caller: &Signed,
        id: TransferId,
    ) -> Result<(Load, Option<RecordKey>), Failure> {
        let hold = self.store.transfer(RouteKey::of(id), id).await?;
        let sides = hold.iter().flat_map(|h| [&h.transfer.debit, &h.transfer.credit]);
        let other = sides.clone().filter_map(owner).find(|side| *side != caller.agent);
        let budget = hold.iter().filter_map(|h| h.transfer.budget.as_ref());
        let accounts = sides.chain(budget).cloned().collect();
        let other = other.map(|agent| agent_key(&agent));
        let records = other.iter().map(|key| (key.clone(), Lock::None)).collect();
        let transfers = vec![(RouteKey::of(id), id)];
        Ok((Load { records, accounts, transfers, ..Load::default() }, other))
    }

    /// Test money, on a node that was made for it.
    pub async fn faucet(
        &self,
        signed: &Signed,
        request: Faucet,
    ) -> Result<Answered<Transfer>, Failure> {
        if !self.is_dev() {
            return Err(Refusal::NotDev.into());
        }
        if request.money.amount.minor() > FAUCET_MINOR_MAX {
            return Err(Refusal::FaucetLimit { max_minor: FAUCET_MINOR_MAX }.into());
        }
        let to = request.to.unwrap_or(signed.agent);
        let asset: Asset = request.money.asset;
        let (debit, credit) = (AccountId::external("faucet", asset), AccountId::wallet(&to, asset));
        let load = Load {
            accounts: vec![credit.clone()],
            transfers: vec![(RouteKey::of(request.id), request.id)],
            ..Load::default()
        };
        self.run_signed(signed, load, move |turn, owner| {
            let order = order(request.id, &debit, &credit, request.money.amount);
            let applied = turn.book.transfer(order.clone())?;
            tell(turn, &order, applied, "wallet.funded", &[owner])
        })
        .await
    }
}

/// A transfer that has its route to itself.
fn order(id: TransferId, debit: &AccountId, credit: &AccountId, amount: Amount) -> Order {
    let (debit, credit) = (debit.clone(), credit.clone());
    Order { id, route: RouteKey::of(id), debit, credit, amount, budget: None }
}

/// Tells the log and both sides of a new transfer, and shows it; one that was there before is shown
/// as it stands.
fn tell(
    turn: &mut Turn,
    order: &Order,
    applied: Applied,
    kind: &'static str,
    sides: &[&AgentRecord],
) -> Result<Transfer, Stop> {
    if let (Applied::Before, Some(known)) = (applied, turn.book.find(&order.id)) {
        return Ok(view(known));
    }
    let Order { id, debit, credit, amount, .. } = order;
    let money = Money { amount: *amount, asset: debit.asset() };
    let told = TransferEvent { id: *id, from: debit, to: credit, money, pending: None };
    let notify: Vec<AgentId> = sides.iter().map(|record| record.agent.agent_id).collect();
    let event = turn.event(&order.route, kind, &told, &notify)?;
    notice::tell(turn, event, kind, &order.route, sides, &told)?;
    Ok(Transfer {
        id: *id,
        from: debit.to_string(),
        to: credit.to_string(),
        money,
        state: TransferState::Posted,
        posted: None,
    })
}

/// Decision 9: a debtor spends nothing, and nobody spends what is promised. Decision 1: nor does
/// anyone just after a rotation.
pub(crate) fn may_spend(
    turn: &Turn,
    payer: &AgentRecord,
    wallet: &AccountId,
    amount: Amount,
) -> Result<(), Stop> {
    let unopened = Account::unopened(wallet.clone());
    let account = turn.book.account(wallet).unwrap_or(&unopened);
    Ok(spendable(turn.now(), payer, account, amount)?)
}

/// The same of an account that was seen outside a turn.
pub(crate) fn spendable(
    now: Timestamp,
    payer: &AgentRecord,
    wallet: &Account,
    amount: Amount,
) -> Result<(), Refusal> {
    unfrozen(now, payer)?;
    if !wallet.owed.is_zero() {
        return Err(Refusal::InDebt { owed_minor: wallet.owed.minor() });
    }
    let promised = payer.promised(wallet.id.asset());
    if promised.is_zero() {
        return Ok(());
    }
    match wallet.available().checked_sub(promised).is_some_and(|left| left >= amount) {
        true => Ok(()),
        false => Err(Refusal::Promised { promised_minor: promised.minor() }),
    }
}

/// Decision 9: every credit pays a debt first, and until then nothing new is begun.
pub(crate) fn not_in_debt(turn: &Turn, wallet: &AccountId) -> Result<(), Stop> {
    let owed = turn.book.account(wallet).map_or(Amount::ZERO, |a: &Account| a.owed);
    match owed == Amount::ZERO {
        true => Ok(()),
        false => Err(Refusal::InDebt { owed_minor: owed.minor() }.into()),
    }
}

pub(crate) fn not_frozen(turn: &Turn, payer: &AgentRecord) -> Result<(), Stop> {
    Ok(unfrozen(turn.now(), payer)?)
}

pub(crate) fn unfrozen(now: Timestamp, payer: &AgentRecord) -> Result<(), Refusal> {
    // Whoever has no key cannot want it.
    if payer.current_key().is_none() {
        return Err(KeyRefusal::KeyRevoked.into());
    }
    match payer.agent.money_frozen_until {
        Some(until) if now < until => Err(Refusal::MoneyFrozen { until }),
        _ => Ok(()),
    }
}

/// The hold, if the caller is one of its two sides: a stranger cannot tell it from none.
fn hold_of(turn: &Turn, caller: &Signed, id: TransferId) -> Result<StoredTransfer, Stop> {
    let unknown = Refusal::UnknownTransfer { id };
    let hold = turn.book.find(&id).ok_or(unknown.clone())?;
    let wallet = AccountId::wallet(&caller.agent, hold.transfer.asset());
    if hold.transfer.debit != wallet && hold.transfer.credit != wallet {
        return Err(unknown.into());
    }
    Ok(hold.clone())
}

fn part_of(hold: &StoredTransfer, money: Option<Money>) -> Result<Amount, Stop> {
    let Some(money) = money else { return Ok(hold.transfer.amount) };
    if money.asset != hold.transfer.asset() {
        let what = format!("the hold is in {}, not in {}", hold.transfer.asset(), money.asset);
        return Err(Refusal::BadStatement { what }.into());
    }
    Ok(money.amount)
}

/// Each request resolves under an id of its own, so that of many exactly one wins; a retry of the
/// same request has the same.
fn resolution_id(caller: &Signed, pending: TransferId) -> TransferId {
    let key = caller.idempotency_key.as_ref().unwrap_or(&caller.nonce);
    let unique = sha256(format!("{}:{key}", caller.agent).as_bytes());
    pending.derive(&unique.to_string())
}

/// The agent whose account it is.
fn owner(account: &AccountId) -> Option<AgentId> {
    account.owner().parse().ok()
}

/// How a hold ended.
struct Resolved<'a> {
    hold: &'a StoredTransfer,
    kind: Kind,
    amount: Amount,
    applied: Applied,
}

fn finish(
    turn: &mut Turn,
    caller: &Signed,
    resolved: &Resolved<'_>,
    own: &AgentRecord,
    other: Option<&RecordKey>,
) -> Result<Transfer, Stop> {
    let Resolved { hold: StoredTransfer { transfer: hold, .. }, kind, amount, applied } = *resolved;
    let (event, state) = match kind {
        Kind::Void => ("transfer.voided", TransferState::Voided),
        _ => ("transfer.posted", TransferState::Posted),
    };
    let paid = Money { amount, asset: hold.asset() };
    let told = TransferEvent {
        id: resolution_id(caller, hold.id),
        from: &hold.debit,
        to: &hold.credit,
        money: paid,
        pending: Some(hold.id),
    };
    let both: Vec<AgentId> = [&hold.debit, &hold.credit].into_iter().filter_map(owner).collect();
    if applied == Applied::Now {
        let id = turn.event(&hold.route, event, &told, &both)?;
        let other: Option<AgentRecord> = other.map(|key| turn.record(key)).transpose()?.flatten();
        let sides: Vec<_> = [Some(own), other.as_ref()].into_iter().flatten().collect();
        notice::tell(turn, id, event, &hold.route, &sides, &told)?;
    }
    Ok(Transfer {
        id: hold.id,
        from: hold.debit.to_string(),
        to: hold.credit.to_string(),
        money: Money { amount: hold.amount, asset: hold.asset() },
        state,
        posted: (kind != Kind::Void).then_some(paid),
    })
}

fn not_yours(who: &str, rule: &str) -> Stop {
    Refusal::NotYours { who: who.to_owned(), rule: rule.to_owned() }.into()
}

/// A transfer of the journal as its two sides see it.
pub(crate) fn view(stored: &StoredTransfer) -> Transfer {
    let StoredTransfer { transfer, resolution, .. } = stored;
    let asset = transfer.asset();
    let (state, posted) = match (transfer.kind, resolution) {
        (Kind::Pending, None) => (TransferState::Pending, None),
        (Kind::Pending, Some(r)) if r.kind == Kind::Void => (TransferState::Voided, None),
        (Kind::Pending, Some(r)) => {
            (TransferState::Posted, Some(Money { amount: r.amount, asset }))
        }
        _ => (TransferState::Posted, None),
    };
    Transfer {
        id: transfer.id,
        from: transfer.debit.to_string(),
        to: transfer.credit.to_string(),
        money: Money { amount: transfer.amount, asset },
        state,
        posted,
    }
}
