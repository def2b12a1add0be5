//! Random payments, escrows and budgets against a model that only adds and subtracts.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use skep_base::{AgentId, Asset, Hash32, Timestamp, id::DealId};
use skep_store::AccountId;
use skep_testkit::rng::{Rng, seeds_or};
use skep_wire::{
    hire::{BudgetToken, EscrowVerb, HireEscrow, WalletBinding},
    x402::{FacilitatorRequest, reason},
};

use crate::{fixture::*, pay_world::*};

const PEOPLE: u8 = 4;
const STEPS: usize = 40;
/// What everybody has at first.
const PURSE: i64 = 500;
const RESULT: Hash32 = Hash32([7; 32]);

/// What a wallet should hold, and what a budget should show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    free: i64,
    held: i64,
}

#[derive(Clone, Debug)]
struct Held {
    id: DealId,
    from: usize,
    /// Whose wallet pays for it.
    purse: usize,
    to: usize,
    minor: i64,
    budget: Option<usize>,
    delivered: bool,
}

struct World {
    f: Fixture,
    rng: Rng,
    people: Vec<Person>,
    wallets: Vec<Sums>,
    budgets: Vec<BudgetToken>,
    /// Left and held, for each budget.
    left: Vec<Sums>,
    open: Vec<Held>,
    /// Payments that were taken, with the answer.
    taken: Vec<(FacilitatorRequest, String)>,
    count: u64,
}

impl World {
    async fn new(f: Fixture, seed: u64) -> World {
        let people: Vec<Person> = (1..=PEOPLE).map(Person::new).collect();
        for (n, who) in people.iter().enumerate() {
            f.register(who).await;
            f.fund(who, 900 + n as u64, PURSE).await;
        }
        let wallets = vec![Sums { free: PURSE, held: 0 }; people.len()];
        let whole = budget(&people[0], "0.0003", 1);
        let parts = [
            part(&whole, &people[0], &people[1], "0.0001", 2),
            part(&whole, &people[0], &people[0], "0.00005", 3),
        ];
        let budgets: Vec<BudgetToken> = [whole].into_iter().chain(parts).collect();
        for token in &budgets {
            f.market.budget_open(token.clone()).await.unwrap();
        }
        let left = [150, 100, 50].map(|free| Sums { free, held: 0 }).into();
        let (open, taken) = (Vec::new(), Vec::new());
        World { f, rng: Rng::new(seed), people, wallets, budgets, left, open, taken, count: 0 }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.rng.below(below as u64) as usize
    }

    async fn pay(&mut self) {
        let (from, to) = (self.pick(self.people.len()), self.pick(self.people.len()));
        // Now and then somebody else's wallet pays.
        let purse = if self.rng.percent(30) { self.pick(self.people.len()) } else { from };
        let minor = 1 + self.pick(120) as i64;
        let escrow = self.rng.percent(50);
        let budget = self.rng.percent(60).then(|| self.pick(self.budgets.len()));
        self.count += 1;
        let token = budget.map(|at| &self.budgets[at]);
        let (buyer, payer, payee) = (&self.people[from], &self.people[purse], &self.people[to]);
        let span = (START_MS / 1000, START_MS / 1000 + 24 * 3600);
        let bound = WalletBinding::signed_by(&payer.wallet, buyer.id(), span).unwrap();
        let bound = Some(bound).filter(|_| purse != from);
        let more = json!({ "budget_token": token, "payer": bound });
        let wanted = hire(buyer, payee.id(), self.count, more);
        let rail = self.f.market.rail();
        let terms = escrow_terms(&wanted, payee.id(), minor);
        let mut bill = match escrow {
            true => Bill::for_escrow(&rail, payer, &terms, &wanted),
            false => Bill::for_hire(&rail, payer, payee.id(), minor, &wanted),
        };
        bill.window.1 += 24 * 3600;
        let theirs = token.is_none_or(|token| token.agent_id == buyer.id());
        let within = budget.is_none_or(|at| self.left[at].free >= minor);
        let expected = match () {
            () if [from, purse].contains(&to) && escrow => Some(reason::ESCROW_TERMS),
            () if [from, purse].contains(&to) => Some(reason::RECIPIENT),
            () if self.wallets[purse].free < minor => Some(reason::INSUFFICIENT_FUNDS),
            () if !theirs => Some(reason::BUDGET),
            () if !within => Some(reason::BUDGET_EXCEEDED),
            () => None,
        };
        let request = bill.request();
        let said = self.f.market.x402_settle(&request).await.unwrap();
        assert_eq!(said.error_reason.as_deref(), expected, "{said:?}");
        if expected.is_some() {
            return;
        }
        self.taken.push((request, said.transaction));
        self.wallets[purse].free -= minor;
        if let Some(at) = budget {
            self.left[at].free -= minor;
        }
        if !escrow {
            self.wallets[to].free += minor;
            return;
        }
        self.wallets[purse].held += minor;
        if let Some(at) = budget {
            self.left[at].held += minor;
        }
        let id = said.escrow_id.unwrap().parse().unwrap();
        self.open.push(Held { id, from, purse, to, minor, budget, delivered: false });
    }

    async fn pay_again(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let at = self.pick(self.taken.len());
        let (request, transaction) = &self.taken[at];
        let said = self.f.market.x402_settle(request).await.unwrap();
        assert_eq!((said.success, &said.transaction), (true, transaction));
    }

    async fn step_escrow(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.pick(self.open.len());
        let Held { id, from, to, delivered, .. } = self.open[at].clone();
        let (buyer, seller) = (&self.people[from], &self.people[to]);
        let market = &self.f.market;
        let order =
            |verb, by, result| market.escrow_order(id, verb, escrow_order(id, verb, by, result));
        let ended = match self.rng.below(5) {
            0 if !delivered => {
                deliver(&self.f, id, RESULT).await;
                self.open[at].delivered = true;
                return;
            }
            0 | 1 => order(EscrowVerb::Release, buyer, Some(RESULT)).await,
            2 => order(EscrowVerb::Refund, buyer, None).await,
            3 => order(EscrowVerb::Refund, seller, None).await,
            _ => market.escrow_timeout(id).await,
        };
        let known = market.hire_escrow(id).await.unwrap();
        match ended {
            Ok(escrow) => {
                assert_eq!(escrow, known);
                self.end(at, &known);
            }
            Err(_) => assert!(known.settlement.is_none(), "{known:?}"),
        }
    }

    /// Books the end of an escrow in the model.
    fn end(&mut self, at: usize, escrow: &HireEscrow) {
        let Held { purse, to, minor, budget, .. } = self.open.remove(at);
        let released = escrow.settlement.as_ref().unwrap().settlement.released_minor.minor();
        assert!(released == 0 || released == minor);
        self.wallets[purse].held -= minor;
        self.wallets[to].free += released;
        self.wallets[purse].free += minor - released;
        if let Some(at) = budget {
            self.left[at].held -= minor;
            self.left[at].free += minor - released;
        }
    }

    async fn wait(&mut self) {
        self.f.clock.advance(Duration::from_secs(1 + self.rng.below(40)));
        while self.f.market.do_due_jobs().await.unwrap() > 0 {}
        for at in (0..self.open.len()).rev() {
            let escrow = self.f.market.hire_escrow(self.open[at].id).await.unwrap();
            if escrow.settlement.is_some() {
                self.end(at, &escrow);
            }
        }
    }

    async fn check(&self) {
        let store = self.f.market.store();
        let mut shown: BTreeMap<AgentId, Sums> = BTreeMap::new();
        for who in &self.people {
            let name = AccountId::wallet(&who.id(), Asset::USDC);
            let account = store.accounts(name.as_str(), 1).await.unwrap().remove(0);
            let (free, held) = (account.available().minor(), account.held.minor());
            shown.insert(who.id(), Sums { free, held });
        }
        for (who, expected) in self.people.iter().zip(&self.wallets) {
            assert_eq!(shown[&who.id()], *expected);
        }
        for (token, expected) in self.budgets.iter().zip(&self.left) {
            let budget = self.f.market.budget(&token.id().unwrap()).await.unwrap();
            let (free, held) = (budget.left_minor.minor(), budget.held_minor.minor());
            assert_eq!(Sums { free, held }, *expected, "{budget:?}");
        }
    }
}

async fn run(f: Fixture, seed: u64) {
    f.clock.set(Timestamp::from_ms(START_MS));
    let mut world = World::new(f, seed).await;
    for _ in 0..STEPS {
        match world.rng.below(10) {
            0..=3 => world.pay().await,
            4 => world.pay_again().await,
            5..=8 => world.step_escrow().await,
            _ => world.wait().await,
        }
        world.check().await;
    }
    world.f.audit_is_clean().await;
}

/// `SEED=n` replays one, `SEEDS=a-b` runs others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_those_of_the_model_on_sqlite() {
    for seed in seeds_or(1..=12) {
        println!("SEED={seed}");
        run(Fixture::sqlite().await, seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_are_those_of_the_model_on_postgres() {
    for seed in seeds_or(101..=103) {
        println!("SEED={seed}");
        run(Fixture::postgres().await, seed).await;
    }
}
