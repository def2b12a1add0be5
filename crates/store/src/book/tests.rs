use std::collections::BTreeMap;

use expect_test::expect_file;
use proptest::prelude::*;
use skep_base::{AgentId, Asset, Timestamp};

use super::*;

fn wallet(n: u8) -> AccountId {
    AccountId::wallet(&AgentId([n; 20]), Asset::USDC)
}

fn outside() -> AccountId {
    AccountId::external("test", Asset::USDC)
}

fn id(n: u64) -> TransferId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    TransferId::from_bytes(bytes)
}

fn amount(minor: i64) -> Amount {
    Amount::new(minor).unwrap()
}

fn order(n: u64, debit: AccountId, credit: AccountId, minor: i64) -> Order {
    Order {
        id: id(n),
        route: RouteKey::of(id(n)),
        debit,
        credit,
        amount: amount(minor),
        budget: None,
    }
}

/// A whole ledger in memory: what the database would be, without its checks.
#[derive(Default)]
struct World {
    accounts: BTreeMap<AccountId, Account>,
    transfers: BTreeMap<TransferId, StoredTransfer>,
    debts: BTreeMap<AccountId, Vec<Debt>>,
    journal: Vec<Transfer>,
}

impl World {
    /// Runs one turn; what is refused leaves no trace.
    fn turn<T>(
        &mut self,
        change: impl FnOnce(&mut Book) -> Result<T, LedgerRefusal>,
    ) -> Result<T, LedgerRefusal> {
        let mut book = Book::default();
        for n in 0..4 {
            let known = self.accounts.get(&wallet(n)).cloned();
            book.load_account(known.unwrap_or_else(|| Account::unopened(wallet(n))));
        }
        self.transfers.values().for_each(|t| book.load_transfer(t.clone()));
        for (debtor, debts) in &self.debts {
            let open = debts.iter().filter(|d| d.open > Amount::ZERO).cloned().collect();
            book.load_debts(debtor.clone(), open);
        }
        let done = change(&mut book);
        assert_eq!(done.is_err(), book.is_spoiled());
        let done = done?;
        for account in book.changed_accounts() {
            let written = Account { version: account.version + 1, ..account.clone() };
            self.accounts.insert(account.id.clone(), written);
        }
        for row in book.journal() {
            let at = Timestamp::from_ms(0);
            let stored = StoredTransfer { transfer: row.clone(), at, resolution: None };
            self.transfers.insert(row.id, stored);
            if let Some(hold) = row.pending.and_then(|p| self.transfers.get_mut(&p)) {
                assert_eq!(hold.resolution, None, "a hold is resolved once");
                let Transfer { id, kind, amount, .. } = *row;
                hold.resolution = Some(Resolution { id, kind, amount });
            }
            self.journal.push(row.clone());
        }
        for (debtor, debts) in book.debts() {
            self.debts.insert(debtor.clone(), debts.clone());
        }
        Ok(done)
    }

    /// Balances are the sums of the journal, holds are what is open, debts what is owed.
    fn check(&self) {
        for (id, account) in &self.accounts {
            let sum = |rows: &dyn Fn(&Transfer) -> i64| self.journal.iter().map(rows).sum::<i64>();
            let moved = |t: &Transfer| if t.kind.moves_money() { t.amount.minor() } else { 0 };
            let credited = sum(&|t| if t.credit == *id { moved(t) } else { 0 });
            let debited = sum(&|t| if t.debit == *id { moved(t) } else { 0 });
            let held = sum(&|t| if t.debit == *id { t.held_change } else { 0 });
            let open = self.transfers.values().filter(|t| {
                t.transfer.kind == Kind::Pending
                    && t.resolution.is_none()
                    && t.transfer.debit == *id
            });
            assert_eq!(account.posted.minor(), credited - debited);
            assert_eq!(account.debited.minor(), debited);
            assert_eq!(account.held.minor(), held);
            assert_eq!(held, open.map(|t| t.transfer.amount.minor()).sum::<i64>());
            assert!(account.held <= account.posted);
            let owed =
                self.debts.get(id).into_iter().flatten().map(|d| d.open.minor()).sum::<i64>();
            assert_eq!(account.owed.minor(), owed);
            // Whoever owes has nothing free: every credit went to its creditors. Only debts that go
            // round in a circle may wait for the next one.
            let paid_up = owed == 0 || account.available() == Amount::ZERO;
            assert!(paid_up || self.owes_itself(id), "{id} owes and has money");
        }
    }
}

impl World {
    /// Whether the account's debts lead back to it.
    fn owes_itself(&self, id: &AccountId) -> bool {
        let mut reached = std::collections::BTreeSet::new();
        let mut waiting = vec![id.clone()];
        while let Some(next) = waiting.pop() {
            for debt in self.debts.get(&next).into_iter().flatten() {
                if debt.open > Amount::ZERO && reached.insert(debt.creditor.clone()) {
                    waiting.push(debt.creditor.clone());
                }
            }
        }
        reached.contains(id)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Fund(u8, i64),
    Pay(u8, u8, i64),
    Hold(u8, u8, i64),
    Post(usize, Option<i64>),
    Void(usize),
    Owe(u8, u8, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        (0..4_u8, 1..100_i64).prop_map(|(a, m)| Step::Fund(a, m)),
        (0..4_u8, 0..4_u8, 1..100_i64).prop_map(|(a, b, m)| Step::Pay(a, b, m)),
        (0..4_u8, 0..4_u8, 1..100_i64).prop_map(|(a, b, m)| Step::Hold(a, b, m)),
        (0..40_usize, proptest::option::of(1..100_i64)).prop_map(|(n, m)| Step::Post(n, m)),
        (0..40_usize).prop_map(Step::Void),
        (0..4_u8, 0..4_u8, 1..50_i64).prop_map(|(a, b, m)| Step::Owe(a, b, m)),
    ];
    proptest::collection::vec(one, 1..60)
}

fn apply(world: &mut World, n: u64, step: &Step) -> Result<(), LedgerRefusal> {
    match *step {
        Step::Fund(a, m) => {
            world.turn(|b| b.transfer(order(n, outside(), wallet(a), m)).map(|_| ()))
        }
        Step::Pay(a, c, m) => {
            world.turn(|b| b.transfer(order(n, wallet(a), wallet(c), m)).map(|_| ()))
        }
        Step::Hold(a, c, m) => {
            world.turn(|b| b.hold(order(n, wallet(a), wallet(c), m)).map(|_| ()))
        }
        Step::Post(hold, part) => {
            world.turn(|b| b.post(id(hold as u64), id(n), part.map(amount)).map(|_| ()))
        }
        Step::Void(hold) => world.turn(|b| b.void(id(hold as u64), id(n)).map(|_| ())),
        Step::Owe(a, c, m) => {
            let debt = Debt {
                id: DebtId::from_bytes(*id(n).as_bytes()),
                debtor: wallet(a),
                creditor: wallet(c),
                open: amount(m),
            };
            world.turn(|b| b.owe(debt))
        }
    }
}

proptest! {
    #[test]
    fn money_is_conserved_whatever_happens(steps in steps()) {
        let mut world = World::default();
        for (n, step) in steps.iter().enumerate() {
            // A refusal is fine, but for one that says that the sums do not add up.
            let refusal = apply(&mut world, n as u64, step).err();
            let is_fault = matches!(
                refusal,
                Some(LedgerRefusal::Overflow { .. } | LedgerRefusal::NotLoaded { .. })
            );
            prop_assert!(!is_fault, "{:?}", refusal);
            world.check();
        }
    }

    #[test]
    fn every_step_again_changes_nothing(steps in steps()) {
        let mut world = World::default();
        for (n, step) in steps.iter().enumerate() {
            if apply(&mut world, n as u64, step).is_ok() && !matches!(step, Step::Owe(..)) {
                let (before, rows) = (world.accounts.clone(), world.journal.len());
                prop_assert_eq!(apply(&mut world, n as u64, step), Ok(()));
                prop_assert_eq!(rows, world.journal.len());
                prop_assert_eq!(&before, &world.accounts);
            }
        }
    }
}

/// Two who owe each other much, and a small credit: it ends, and nothing is paid twice.
#[test]
fn debts_in_a_circle_come_to_an_end() {
    let mut world = World::default();
    for (n, from, to, open) in [(1, 0, 1, 1_000_000), (2, 0, 1, 5), (3, 1, 0, 1_000_000)] {
        let id = DebtId::from_bytes(*id(n).as_bytes());
        let debt = Debt { id, debtor: wallet(from), creditor: wallet(to), open: amount(open) };
        world.turn(|b| b.owe(debt)).unwrap();
    }
    for n in 10..20 {
        world.turn(|b| b.transfer(order(n, outside(), wallet(0), 1))).unwrap();
        world.check();
    }
    world.turn(|b| b.transfer(order(30, outside(), wallet(0), 2_000_000))).unwrap();
    world.check();
    assert_eq!(world.accounts[&wallet(0)].owed, Amount::ZERO);
    assert_eq!(world.accounts[&wallet(1)].owed, Amount::ZERO);
}

/// A hold, in every state that it can be in.
fn world_with(state: &str) -> World {
    let mut world = World::default();
    let fund = order(1, outside(), wallet(0), 100);
    world.turn(|b| b.transfer(fund)).unwrap();
    let hold = order(2, wallet(0), wallet(1), 60);
    match state {
        "unknown" => {}
        "not a hold" => drop(world.turn(|b| b.transfer(hold)).unwrap()),
        _ => drop(world.turn(|b| b.hold(hold)).unwrap()),
    }
    match state {
        "posted" => drop(world.turn(|b| b.post(id(2), id(3), None)).unwrap()),
        "partly posted" => drop(world.turn(|b| b.post(id(2), id(3), Some(amount(20)))).unwrap()),
        "voided" => drop(world.turn(|b| b.void(id(2), id(3))).unwrap()),
        _ => {}
    }
    world
}

/// The whole machine of a hold on one page: review reads the diff of this table.
#[test]
fn every_state_of_a_hold_meets_every_input() {
    type Input = fn(&mut Book) -> Result<Applied, LedgerRefusal>;
    let inputs: [(&str, Input); 15] = [
        ("hold again", |b| b.hold(order(2, wallet(0), wallet(1), 60))),
        ("hold, other amount", |b| b.hold(order(2, wallet(0), wallet(1), 59))),
        ("hold, other payee", |b| b.hold(order(2, wallet(0), wallet(2), 60))),
        ("pay under its id", |b| b.transfer(order(2, wallet(0), wallet(1), 60))),
        ("post all", |b| b.post(id(2), id(3), None)),
        ("post 20", |b| b.post(id(2), id(3), Some(amount(20)))),
        ("post 0", |b| b.post(id(2), id(3), Some(Amount::ZERO))),
        ("post 60", |b| b.post(id(2), id(3), Some(amount(60)))),
        ("post 61", |b| b.post(id(2), id(3), Some(amount(61)))),
        ("post by another id", |b| b.post(id(2), id(4), None)),
        ("void", |b| b.void(id(2), id(3))),
        ("void by another id", |b| b.void(id(2), id(4))),
        ("pay what is free", |b| b.transfer(order(5, wallet(0), wallet(2), 40))),
        ("pay one more", |b| b.transfer(order(5, wallet(0), wallet(2), 41))),
        ("pay itself", |b| b.transfer(order(5, wallet(0), wallet(0), 1))),
    ];
    let mut table = String::new();
    for state in ["unknown", "not a hold", "open", "posted", "partly posted", "voided"] {
        for (name, input) in inputs {
            let mut world = world_with(state);
            let result = match world.turn(input) {
                Ok(applied) => format!("{applied:?}"),
                Err(refusal) => format!("refused: {refusal}"),
            };
            world.check();
            let balance = |n| {
                let account = world.accounts.get(&wallet(n));
                account
                    .map_or("-".to_owned(), |a| format!("{}/{}", a.posted.minor(), a.held.minor()))
            };
            let balances = [balance(0), balance(1), balance(2)].join(" ");
            table.push_str(&format!("{state} | {name} => {result} [{balances}]\n"));
        }
    }
    let table = table.replace(&wallet(0).to_string(), "payer").replace(&id(2).to_string(), "it");
    expect_file!["tests/hold_table.txt"].assert_eq(&table);
}

#[test]
fn a_budget_is_charged_for_what_another_wallet_pays_in_its_owners_name() {
    let budget = AccountId::budget(&AgentId([1; 20]), "trip", Asset::USDC).unwrap();
    let mut book = Book::default();
    for n in 0..3 {
        book.load_account(Account::unopened(wallet(n)));
    }
    book.load_account(Account::unopened(budget.clone()));
    book.set_limit(&budget, Some(amount(50))).unwrap();
    book.transfer(order(1, outside(), wallet(0), 100)).unwrap();
    let charged = |n, minor| {
        let order = order(n, wallet(0), wallet(2), minor);
        Order { budget: Some(budget.clone()), ..order }
    };
    book.transfer_for(&wallet(1), charged(2, 20)).unwrap();
    book.hold_for(&wallet(1), charged(3, 30)).unwrap();
    let counted = book.account(&budget).unwrap();
    assert_eq!((counted.debited, counted.held), (amount(20), amount(30)));
    let [payer, owner] = [wallet(0), wallet(1)].map(|id| book.account(&id).unwrap().clone());
    assert_eq!((payer.posted, payer.held), (amount(80), amount(30)));
    assert!(owner.posted.is_zero() && owner.held.is_zero());
    let over = book.transfer_for(&wallet(1), charged(4, 1));
    assert!(matches!(over, Err(LedgerRefusal::LimitReached { .. })), "{over:?}");
    // Without saying in whose name, it is the wallet's own, and this budget is not.
    for strange in [
        book.transfer(charged(5, 1)),
        book.hold(charged(6, 1)),
        book.transfer_for(&wallet(2), charged(7, 1)),
    ] {
        assert!(matches!(strange, Err(LedgerRefusal::NotItsBudget { .. })), "{strange:?}");
    }
}
