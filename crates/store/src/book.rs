//! The ledger's rules, pure: what a transfer does to the accounts that were loaded for it.
//!
//! A [`Book`] holds the locked accounts of one turn. Every change is checked here, in words that
//! a caller understands, and again by the database's own constraints when it is written.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use skep_base::{
    Amount,
    id::{DebtId, TransferId},
};

use crate::{
    account::{Account, AccountId, Purpose},
    transfer::{Debt, Kind, LedgerRefusal, Order, Resolution, StoredTransfer, Transfer},
    turn::RouteKey,
};

/// Payments of debts that one credit sets off: more wait for the next.
pub const DEBT_PAYMENTS_MAX: usize = 256;
/// How many debts of one account a single credit pays. The rest wait for the next credit.
pub const DEBTS_PAID_AT_ONCE_MAX: usize = 64;

/// Whether a call changed anything: a retry of what is in the journal does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Now,
    Before,
}

/// The accounts, pending transfers and debts of one turn, and what the turn adds to the journal.
#[derive(Clone, Debug, Default)]
pub struct Book {
    accounts: BTreeMap<AccountId, Account>,
    transfers: BTreeMap<TransferId, StoredTransfer>,
    debts: BTreeMap<AccountId, Vec<Debt>>,
    changed: BTreeSet<AccountId>,
    journal: Vec<Transfer>,
    new_debts: Vec<Debt>,
    paid_debts: BTreeMap<DebtId, (AccountId, Amount)>,
    spoiled: bool,
}

impl Book {
    /// Whether a call was refused halfway: such a page is never written.
    pub fn is_spoiled(&self) -> bool {
        self.spoiled
    }

    /// Puts a loaded account on the page.
    pub fn load_account(&mut self, account: Account) {
        self.accounts.insert(account.id.clone(), account);
    }

    /// Puts a loaded transfer on the page.
    pub fn load_transfer(&mut self, transfer: StoredTransfer) {
        self.transfers.insert(transfer.transfer.id, transfer);
    }

    /// Puts an account's open debts on the page, oldest first.
    pub fn load_debts(&mut self, debtor: AccountId, debts: Vec<Debt>) {
        self.debts.insert(debtor, debts);
    }

    /// An account as it stands now, changes of this turn included.
    pub fn account(&self, id: &AccountId) -> Option<&Account> {
        self.accounts.get(id)
    }

    /// A loaded transfer.
    pub fn find(&self, id: &TransferId) -> Option<&StoredTransfer> {
        self.transfers.get(id)
    }

    /// What the turn adds to the journal.
    pub fn journal(&self) -> &[Transfer] {
        &self.journal
    }

    /// Debts that the turn adds.
    pub fn new_debts(&self) -> &[Debt] {
        &self.new_debts
    }

    /// Debts that the turn pays: their debtor, and what is left open.
    pub fn paid_debts(&self) -> impl Iterator<Item = (&DebtId, &AccountId, Amount)> {
        self.paid_debts.iter().map(|(id, (debtor, open))| (id, debtor, *open))
    }

    /// The loaded debts as they stand now, by debtor.
    pub(crate) fn debts(&self) -> &BTreeMap<AccountId, Vec<Debt>> {
        &self.debts
    }

    /// The accounts that the turn changes, as they will be.
    pub fn changed_accounts(&self) -> impl Iterator<Item = &Account> {
        self.changed.iter().filter_map(|id| self.accounts.get(id))
    }

    /// Moves money at once.
    pub fn transfer(&mut self, order: Order) -> Result<Applied, LedgerRefusal> {
        let spender = order.debit.clone();
        self.transfer_for(&spender, order)
    }

    /// The same, in the name of `spender`: its budget is charged, whosever money it is.
    pub fn transfer_for(
        &mut self,
        spender: &AccountId,
        order: Order,
    ) -> Result<Applied, LedgerRefusal> {
        self.spoil_on_refusal(|book| book.try_transfer(spender, order))
    }

    fn try_transfer(
        &mut self,
        spender: &AccountId,
        order: Order,
    ) -> Result<Applied, LedgerRefusal> {
        if self.is_in_journal(&order, Kind::Posted)? {
            return Ok(Applied::Before);
        }
        self.check_order(spender, &order)?;
        self.take(&order.debit, order.amount)?;
        self.charge(order.budget.as_ref(), order.amount, 0)?;
        self.write(order, Kind::Posted, 0, None, None)?;
        Ok(Applied::Now)
    }

    /// Sets money aside until it is posted or voided. Holds never expire by themselves.
    pub fn hold(&mut self, order: Order) -> Result<Applied, LedgerRefusal> {
        let spender = order.debit.clone();
        self.hold_for(&spender, order)
    }

    /// The same, in the name of `spender`: its budget is charged, whosever money it is.
    pub fn hold_for(
        &mut self,
        spender: &AccountId,
        order: Order,
    ) -> Result<Applied, LedgerRefusal> {
        self.spoil_on_refusal(|book| book.try_hold(spender, order))
    }

    fn try_hold(&mut self, spender: &AccountId, order: Order) -> Result<Applied, LedgerRefusal> {
        if self.is_in_journal(&order, Kind::Pending)? {
            return Ok(Applied::Before);
        }
        self.check_order(spender, &order)?;
        let minor = order.amount.minor();
        self.change_held(&order.debit, minor)?;
        self.charge(order.budget.as_ref(), Amount::ZERO, minor)?;
        self.write(order, Kind::Pending, minor, None, None)?;
        Ok(Applied::Now)
    }

    /// Moves what `pending` set aside, or only `amount` of it, and frees the rest.
    pub fn post(
        &mut self,
        pending: TransferId,
        id: TransferId,
        amount: Option<Amount>,
    ) -> Result<Applied, LedgerRefusal> {
        self.spoil_on_refusal(|book| book.try_post(pending, id, amount))
    }

    fn try_post(
        &mut self,
        pending: TransferId,
        id: TransferId,
        amount: Option<Amount>,
    ) -> Result<Applied, LedgerRefusal> {
        let hold = self.pending(pending, id, Kind::Post, amount)?;
        let Some(hold) = hold else {
            return Ok(Applied::Before);
        };
        let amount = amount.unwrap_or(hold.amount);
        if amount > hold.amount {
            return Err(LedgerRefusal::MoreThanPending { pending: hold.amount, asked: amount });
        }
        if amount == Amount::ZERO {
            return Err(LedgerRefusal::ZeroAmount);
        }
        let freed = -hold.amount.minor();
        self.change_held(&hold.debit, freed)?;
        self.take(&hold.debit, amount)?;
        self.charge(hold.budget.as_ref(), amount, freed)?;
        let order = resolve(&hold, id, amount);
        self.write(order, Kind::Post, freed, Some(pending), None)?;
        self.pay_debts(&hold.debit, &id)?;
        Ok(Applied::Now)
    }

    /// Frees all that `pending` set aside.
    pub fn void(&mut self, pending: TransferId, id: TransferId) -> Result<Applied, LedgerRefusal> {
        self.spoil_on_refusal(|book| book.try_void(pending, id))
    }

    fn try_void(&mut self, pending: TransferId, id: TransferId) -> Result<Applied, LedgerRefusal> {
        let hold = self.pending(pending, id, Kind::Void, None)?;
        let Some(hold) = hold else {
            return Ok(Applied::Before);
        };
        let freed = -hold.amount.minor();
        self.change_held(&hold.debit, freed)?;
        self.charge(hold.budget.as_ref(), Amount::ZERO, freed)?;
        let order = resolve(&hold, id, hold.amount);
        self.write(order, Kind::Void, freed, Some(pending), None)?;
        self.pay_debts(&hold.debit, &id)?;
        Ok(Applied::Now)
    }

    /// Notes that `debtor` owes `creditor`. What is free in the debtor's account pays at once.
    pub fn owe(&mut self, debt: Debt) -> Result<(), LedgerRefusal> {
        self.spoil_on_refusal(|book| book.try_owe(debt))
    }

    fn try_owe(&mut self, debt: Debt) -> Result<(), LedgerRefusal> {
        if debt.open == Amount::ZERO {
            return Err(LedgerRefusal::ZeroAmount);
        }
        if debt.debtor == debt.creditor {
            return Err(LedgerRefusal::SameAccount);
        }
        if debt.debtor.asset() != debt.creditor.asset() {
            let (debit, credit) = (debt.debtor, debt.creditor);
            return Err(LedgerRefusal::AssetMismatch { debit, credit });
        }
        let debtor = debt.debtor.clone();
        let account = self.entry(&debtor)?;
        account.owed = account.owed.checked_add(debt.open).ok_or_else(|| overflow(&debtor))?;
        self.debts.entry(debtor.clone()).or_default().push(debt.clone());
        self.new_debts.push(debt.clone());
        self.pay_debts(&debtor, &TransferId::from_bytes(*debt.id.as_bytes()))
    }

    /// Sets the limit of a budget, or of any account. It cannot go below what was spent already.
    pub fn set_limit(
        &mut self,
        id: &AccountId,
        limit: Option<Amount>,
    ) -> Result<(), LedgerRefusal> {
        self.spoil_on_refusal(|book| {
            let account = book.entry(id)?;
            account.debit_limit = limit;
            check_limit(account, Amount::ZERO)
        })
    }

    fn spoil_on_refusal<T>(
        &mut self,
        change: impl FnOnce(&mut Book) -> Result<T, LedgerRefusal>,
    ) -> Result<T, LedgerRefusal> {
        let result = change(self);
        self.spoiled |= result.is_err();
        result
    }

    fn is_in_journal(&self, order: &Order, kind: Kind) -> Result<bool, LedgerRefusal> {
        let in_turn = self.journal.iter().find(|t| t.id == order.id);
        let Some(known) = self.transfers.get(&order.id).map(|t| &t.transfer).or(in_turn) else {
            return Ok(false);
        };
        let same = known.kind == kind
            && known.debit == order.debit
            && known.credit == order.credit
            && known.amount == order.amount
            && known.budget == order.budget;
        if same { Ok(true) } else { Err(LedgerRefusal::IdTaken { id: order.id }) }
    }

    fn check_order(&self, spender: &AccountId, order: &Order) -> Result<(), LedgerRefusal> {
        let Order { debit, credit, amount, budget, .. } = order;
        if *amount == Amount::ZERO {
            return Err(LedgerRefusal::ZeroAmount);
        }
        if debit == credit {
            return Err(LedgerRefusal::SameAccount);
        }
        if debit.asset() != credit.asset() {
            let (debit, credit) = (debit.clone(), credit.clone());
            return Err(LedgerRefusal::AssetMismatch { debit, credit });
        }
        for account in [debit, credit] {
            if account.purpose() == Purpose::Budget {
                return Err(LedgerRefusal::BudgetIsNoWallet { account: account.clone() });
            }
        }
        if let Some(budget) = budget
            && budget.budget_parent().as_ref() != Some(spender)
        {
            let (budget, debit) = (budget.clone(), spender.clone());
            return Err(LedgerRefusal::NotItsBudget { budget, debit });
        }
        Ok(())
    }

    /// The open hold behind `pending`; `None` if this very resolution is in the journal already.
    fn pending(
        &self,
        pending: TransferId,
        id: TransferId,
        kind: Kind,
        amount: Option<Amount>,
    ) -> Result<Option<Transfer>, LedgerRefusal> {
        let stored =
            self.transfers.get(&pending).ok_or(LedgerRefusal::UnknownTransfer { id: pending })?;
        if stored.transfer.kind != Kind::Pending {
            return Err(LedgerRefusal::NotPending { id: pending });
        }
        match &stored.resolution {
            None => Ok(Some(stored.transfer.clone())),
            Some(r) if r.id == id && r.kind == kind => {
                let asked = amount.unwrap_or(stored.transfer.amount);
                if asked == r.amount { Ok(None) } else { Err(LedgerRefusal::IdTaken { id }) }
            }
            Some(r) if r.kind == Kind::Post => Err(LedgerRefusal::AlreadyPosted { id: pending }),
            Some(_) => Err(LedgerRefusal::AlreadyVoided { id: pending }),
        }
    }

    fn entry(&mut self, id: &AccountId) -> Result<&mut Account, LedgerRefusal> {
        let Some(account) = self.accounts.get_mut(id) else {
            return Err(LedgerRefusal::NotLoaded { account: id.clone() });
        };
        if !self.changed.contains(id) {
            self.changed.insert(id.clone());
        }
        Ok(account)
    }

    /// Takes money out of an account.
    fn take(&mut self, id: &AccountId, amount: Amount) -> Result<(), LedgerRefusal> {
        if !id.purpose().has_balance_row() {
            return Ok(());
        }
        let account = self.entry(id)?;
        if account.available() < amount {
            let available = account.available();
            return Err(LedgerRefusal::InsufficientFunds {
                account: id.clone(),
                available,
                needed: amount,
            });
        }
        account.posted = account.posted.checked_sub(amount).ok_or_else(|| overflow(id))?;
        spend(account, amount)
    }

    /// Sets money of an account aside (above zero) or frees it (below zero).
    fn change_held(&mut self, id: &AccountId, change: i64) -> Result<(), LedgerRefusal> {
        if !id.purpose().has_balance_row() {
            return Ok(());
        }
        let account = self.entry(id)?;
        if change > 0 && account.available().minor() < change {
            return Err(LedgerRefusal::InsufficientFunds {
                account: id.clone(),
                available: account.available(),
                needed: Amount::new(change).unwrap_or(Amount::ZERO),
            });
        }
        set_aside(account, change)
    }

    /// Counts against a budget what its wallet spends and sets aside in its name.
    fn charge(
        &mut self,
        budget: Option<&AccountId>,
        amount: Amount,
        held_change: i64,
    ) -> Result<(), LedgerRefusal> {
        let Some(budget) = budget else { return Ok(()) };
        if self.accounts.get(budget).is_none_or(|b| b.version == 0 && b.debit_limit.is_none()) {
            return Err(LedgerRefusal::UnknownBudget { budget: budget.clone() });
        }
        let account = self.entry(budget)?;
        set_aside(account, held_change)?;
        spend(account, amount)
    }

    /// Writes the row and, if it moves money, credits the receiver.
    fn write(
        &mut self,
        order: Order,
        kind: Kind,
        held_change: i64,
        pending: Option<TransferId>,
        debt: Option<DebtId>,
    ) -> Result<(), LedgerRefusal> {
        let Order { id, route, debit, credit, amount, budget } = order;
        let row = Transfer {
            id,
            route,
            kind,
            debit,
            credit: credit.clone(),
            amount,
            held_change,
            pending,
            debt,
            budget,
        };
        if let Some(pending) = pending
            && let Some(stored) = self.transfers.get_mut(&pending)
        {
            stored.resolution = Some(Resolution { id, kind, amount });
        }
        self.journal.push(row);
        if kind.moves_money() && credit.purpose().has_balance_row() {
            let account = self.entry(&credit)?;
            account.posted = account.posted.checked_add(amount).ok_or_else(|| overflow(&credit))?;
            // A payment of a debt is followed up by whoever makes it.
            if debt.is_none() {
                self.pay_debts(&credit, &id)?;
            }
        }
        Ok(())
    }

    /// Decision 9: every credit, and whatever a hold frees, pays the account's debts first, oldest
    /// first; and those who are paid pay theirs. Where debts go round in a circle, what is left
    /// after [`DEBT_PAYMENTS_MAX`] waits for the next credit.
    fn pay_debts(&mut self, debtor: &AccountId, cause: &TransferId) -> Result<(), LedgerRefusal> {
        let mut waiting = VecDeque::from([debtor.clone()]);
        let mut payments = 0;
        while let Some(debtor) = waiting.pop_front() {
            let count = self.debts.get(&debtor).map_or(0, Vec::len);
            for index in 0..count {
                if payments == DEBT_PAYMENTS_MAX {
                    return Ok(());
                }
                if let Some(creditor) = self.pay_debt(&debtor, index, cause, payments)? {
                    payments += 1;
                    waiting.push_back(creditor);
                }
            }
        }
        Ok(())
    }

    /// Pays what it can of one debt. Says who got it.
    fn pay_debt(
        &mut self,
        debtor: &AccountId,
        index: usize,
        cause: &TransferId,
        nth: usize,
    ) -> Result<Option<AccountId>, LedgerRefusal> {
        let free = self.accounts.get(debtor).map_or(Amount::ZERO, Account::available);
        let Some(debt) = self.debts.get_mut(debtor).and_then(|debts| debts.get_mut(index)) else {
            return Ok(None);
        };
        let amount = debt.open.min(free);
        if amount == Amount::ZERO {
            return Ok(None);
        }
        debt.open = debt.open.checked_sub(amount).ok_or_else(|| overflow(debtor))?;
        let Debt { id: debt_id, creditor, open, .. } = debt.clone();
        self.paid_debts.insert(debt_id, (debtor.clone(), open));
        let account = self.entry(debtor)?;
        account.owed = account.owed.checked_sub(amount).ok_or_else(|| overflow(debtor))?;
        let id: TransferId = cause.derive(&format!("debt:{debt_id}:{nth}"));
        let order = Order {
            id,
            route: RouteKey::of(id),
            debit: debtor.clone(),
            credit: creditor.clone(),
            amount,
            budget: None,
        };
        self.take(debtor, amount)?;
        self.write(order, Kind::Posted, 0, None, Some(debt_id))?;
        Ok(Some(creditor))
    }
}

fn resolve(hold: &Transfer, id: TransferId, amount: Amount) -> Order {
    Order {
        id,
        route: hold.route.clone(),
        debit: hold.debit.clone(),
        credit: hold.credit.clone(),
        amount,
        budget: hold.budget.clone(),
    }
}

fn overflow(account: &AccountId) -> LedgerRefusal {
    LedgerRefusal::Overflow { account: account.clone() }
}

fn spend(account: &mut Account, amount: Amount) -> Result<(), LedgerRefusal> {
    let id = account.id.clone();
    account.debited = account.debited.checked_add(amount).ok_or_else(|| overflow(&id))?;
    check_limit(account, amount)
}

fn set_aside(account: &mut Account, change: i64) -> Result<(), LedgerRefusal> {
    let held = account.held.minor().checked_add(change).and_then(Amount::new);
    account.held = held.ok_or_else(|| overflow(&account.id))?;
    if change <= 0 {
        return Ok(());
    }
    check_limit(account, Amount::new(change).unwrap_or(Amount::ZERO))
}

fn check_limit(account: &Account, needed: Amount) -> Result<(), LedgerRefusal> {
    let Some(limit) = account.debit_limit else {
        return Ok(());
    };
    let used = account.debited.checked_add(account.held).ok_or_else(|| overflow(&account.id))?;
    if used <= limit {
        return Ok(());
    }
    let before = used.checked_sub(needed).unwrap_or(Amount::ZERO);
    let left = limit.checked_sub(before).unwrap_or(Amount::ZERO);
    Err(LedgerRefusal::LimitReached { account: account.id.clone(), left, needed })
}

#[cfg(test)]
mod tests;
