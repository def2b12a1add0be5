//! Money between agents: paid at once, or held and then posted or voided.

use std::time::Duration;

use serde::Serialize;
use skep_base::{AgentId, Amount, Asset, Money, hash::sha256, id::TransferId};
use skep_store::transfer::Kind;
use skep_store::{Account, AccountId, Applied, Load, Lock, Order, RouteKey, StoredTransfer, Turn};
use skep_wire::wallet::{Faucet, NewTransfer, PostTransfer, Transfer, TransferMode, TransferState};

use crate::{
    Answered, Failure, Market, Refusal, Signed,
    answer::Stop,
    identity::{AgentRecord, agent_key},
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
            if turn.record::<AgentRecord>(&agent_key(&to))?.is_none() {
                return Err(Refusal::UnknownAgent { agent: to.to_string() }.into());
            }
            // A retry of what was paid is no new payment.
            if turn.book.find(&request.id).is_none() {
                may_spend(turn, payer, &debit)?;
            }
            let order = order(request.id, &debit, &credit, request.money.amount);
            match request.mode {
                TransferMode::Posted => {
                    let applied = turn.book.transfer(order.clone())?;
                    tell(turn, &order, applied, "transfer.posted", &[from, to])
                }
                TransferMode::Pending => {
                    let applied = turn.book.hold(order.clone())?;
                    let held = tell(turn, &order, applied, "transfer.held", &[from, to])?;
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
        self.run_signed(signed, load_hold(id), move |turn, payer| {
            let hold = hold_of(turn, &caller, id)?;
            let debit = &hold.transfer.debit;
            if *debit != AccountId::wallet(&caller.agent, debit.asset()) {
                return Err(not_yours("the payee", "only the payer posts a hold"));
            }
            not_frozen(turn, payer)?;
            let amount = part_of(&hold, request.money)?;
            let applied = turn.book.post(id, resolution_id(&caller, id), Some(amount))?;
            finish(turn, &caller, &hold, (Kind::Post, amount), applied)
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
        self.run_signed(signed, load_hold(id), move |turn, _| {
            let hold = hold_of(turn, &caller, id)?;
            let debit = &hold.transfer.debit;
            let is_payer = *debit == AccountId::wallet(&caller.agent, debit.asset());
            if is_payer && turn.now() < hold.at.plus(HOLD_VOIDABLE_BY_PAYER_AFTER) {
                let rule = "before a week has passed only the payee voids a hold";
                return Err(not_yours("the payer", rule));
            }
            let applied = turn.book.void(id, resolution_id(&caller, id))?;
            finish(turn, &caller, &hold, (Kind::Void, hold.transfer.amount), applied)
        })
        .await
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
        let agent = signed.agent;
        let asset: Asset = request.money.asset;
        let (debit, credit) =
            (AccountId::external("faucet", asset), AccountId::wallet(&agent, asset));
        let load = Load {
            accounts: vec![credit.clone()],
            transfers: vec![(RouteKey::of(request.id), request.id)],
            ..Load::default()
        };
        self.run_signed(signed, load, move |turn, _| {
            let order = order(request.id, &debit, &credit, request.money.amount);
            let applied = turn.book.transfer(order.clone())?;
            tell(turn, &order, applied, "wallet.funded", &[agent])
        })
        .await
    }
}

/// A transfer that has its route to itself.
fn order(id: TransferId, debit: &AccountId, credit: &AccountId, amount: Amount) -> Order {
    let (debit, credit) = (debit.clone(), credit.clone());
    Order { id, route: RouteKey::of(id), debit, credit, amount, budget: None }
}

/// Tells the log of a new transfer, and shows it; one that was there before is shown as it stands.
fn tell(
    turn: &mut Turn,
    order: &Order,
    applied: Applied,
    event: &'static str,
    notify: &[AgentId],
) -> Result<Transfer, Stop> {
    if let (Applied::Before, Some(known)) = (applied, turn.book.find(&order.id)) {
        return Ok(view(known));
    }
    let Order { id, debit, credit, amount, .. } = order;
    let money = Money { amount: *amount, asset: debit.asset() };
    let told = TransferEvent { id: *id, from: debit, to: credit, money, pending: None };
    turn.event(&order.route, event, &told, notify)?;
    Ok(Transfer {
        id: *id,
        from: debit.to_string(),
        to: credit.to_string(),
        money,
        state: TransferState::Posted,
        posted: None,
    })
}

/// Decision 9: a debtor spends nothing. Decision 1: nor does anyone just after a rotation.
fn may_spend(turn: &Turn, payer: &AgentRecord, wallet: &AccountId) -> Result<(), Stop> {
    not_frozen(turn, payer)?;
    let owed = turn.book.account(wallet).map_or(Amount::ZERO, |a: &Account| a.owed);
    match owed == Amount::ZERO {
        true => Ok(()),
        false => Err(Refusal::InDebt { owed_minor: owed.minor() }.into()),
    }
}

fn not_frozen(turn: &Turn, payer: &AgentRecord) -> Result<(), Stop> {
    match payer.agent.money_frozen_until {
        Some(until) if turn.now() < until => Err(Refusal::MoneyFrozen { until }.into()),
        _ => Ok(()),
    }
}

fn load_hold(id: TransferId) -> Load {
    Load { transfers: vec![(RouteKey::of(id), id)], ..Load::default() }
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

fn finish(
    turn: &mut Turn,
    caller: &Signed,
    hold: &StoredTransfer,
    (kind, amount): (Kind, Amount),
    applied: Applied,
) -> Result<Transfer, Stop> {
    let StoredTransfer { transfer: hold, .. } = hold;
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
    let both: Vec<_> =
        [&hold.debit, &hold.credit].iter().filter_map(|a| a.owner().parse().ok()).collect();
    if applied == Applied::Now {
        turn.event(&hold.route, event, &told, &both)?;
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
