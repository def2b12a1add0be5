//! Money that comes, goes and is lost beside the deals.

use skep_base::{
    Amount, Asset,
    id::{DealId, TransferId},
};
use skep_market::Failure;
use skep_store::{AccountId, Bug, Call, Decision, Load, Order, RouteKey, Turn};
use skep_wire::wallet::{Faucet, NewTransfer, TransferMode};

use super::{Town, moves::Done};
use crate::fixture::*;

impl Town {
    /// Mostly one who owes something, if there is one.
    pub(super) async fn somebody_poor(&mut self) -> usize {
        let n = self.below(6);
        if self.rng.percent(30) {
            return n;
        }
        for poor in 0..6 {
            let wallet = AccountId::wallet(&self.people[poor].id(), Asset::USDC);
            let found = self.market().store().accounts(wallet.as_str(), 1).await.unwrap();
            if found.first().is_some_and(|account| !account.owed.is_zero()) {
                return poor;
            }
        }
        n
    }

    pub(super) async fn pay(&mut self) -> Done {
        let (from, to) = (self.below(6), self.below(6));
        let minor = self.one(&[1, 50, 10_000, 90_000]);
        self.transfers += 1;
        let transfer = NewTransfer {
            id: id(self.transfers),
            to: self.people[to].id(),
            money: usdc(minor),
            mode: TransferMode::Posted,
        };
        let signed = self.people[from].signed("pay");
        let said = self.market().transfer_create(&signed, transfer).await;
        if self.tell(format!("{from} pays {to} {minor}"), said)?.is_some() {
            self.book.gain(self.people[from].id(), -minor);
            self.book.gain(self.people[to].id(), minor);
        }
        Ok(())
    }

    pub(super) async fn fund(&mut self, n: usize, minor: i64) -> Done {
        self.transfers += 1;
        let faucet = Faucet { id: id(self.transfers), money: usdc(minor), to: None };
        let signed = self.people[n].signed("faucet");
        let said = self.market().faucet(&signed, faucet).await;
        self.tell(format!("{n} gets {minor}"), said)?;
        self.book.gain(self.people[n].id(), minor);
        Ok(())
    }

    /// Somebody loses all that is free in its wallet, promised or not.
    pub(super) async fn drain(&mut self) -> Done {
        // Mostly one who may have promised something.
        let n = if self.rng.percent(70) { self.below(3) } else { self.below(6) };
        let who = self.people[n].id();
        let wallet = AccountId::wallet(&who, Asset::USDC);
        let found = self.market().store().accounts(wallet.as_str(), 1).await.unwrap();
        let free = found.first().map_or(Amount::ZERO, |account| account.available());
        if free.is_zero() {
            return Ok(());
        }
        let bank = AccountId::external("bank", Asset::USDC);
        let moved = self.move_outside(wallet, bank, free).await;
        self.tell(format!("{who} loses {free}"), moved)?;
        self.book.gain(who, -free.minor());
        Ok(())
    }

    pub(super) async fn fill_the_pot_of(&mut self, id: DealId) -> Done {
        let pot = AccountId::subsidy(id.as_bytes(), Asset::USDC);
        let bank = AccountId::external("bank", Asset::USDC);
        let moved = self.move_outside(bank, pot, Amount::new(5_000).unwrap()).await;
        self.tell("a pot is filled".to_owned(), moved)?;
        self.book.pots += 5_000;
        Ok(())
    }

    async fn move_outside(
        &mut self,
        debit: AccountId,
        credit: AccountId,
        amount: Amount,
    ) -> Result<(), Failure> {
        self.transfers += 1;
        let id: TransferId = id(self.transfers);
        let accounts = [&debit, &credit].into_iter().cloned();
        let accounts = accounts.filter(|a| a.purpose().has_balance_row()).collect();
        let order = Order { id, route: RouteKey::of(id), debit, credit, amount, budget: None };
        let step = move |turn: &mut Turn| {
            turn.book.transfer(order.clone()).map_err(|e| Bug(e.to_string()))?;
            Ok(Decision::Commit("null".to_owned()))
        };
        let load = Load { accounts, ..Load::default() };
        let call = Call { load, guards: vec![], step: Box::new(step) };
        self.market().store().call(call).await.map(drop).map_err(Failure::from)
    }
}
