//! What the journal says, in memory: hires that are open, money that is spent or spoken for.

use std::collections::{BTreeMap, BTreeSet};

use skep_base::{AgentId, Amount, Hash32, Timestamp, id::ListingId};

use super::entry::{Entry, Open, Quoted};

/// Quotes that are remembered; the oldest are forgotten.
const QUOTES_MAX: usize = 1000;

/// Money that is spoken for, and under which budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reserved {
    at: Timestamp,
    amount: Amount,
    budget: Option<Hash32>,
}

/// Money that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spent {
    at: Timestamp,
    paid: Amount,
    budget: Option<Hash32>,
}

#[derive(Debug, Default)]
pub struct Book {
    open: BTreeMap<Hash32, Open>,
    /// Those that somebody in this process is busy with.
    in_hand: BTreeSet<Hash32>,
    reserved: BTreeMap<Hash32, Reserved>,
    /// Hires that are over.
    spent: Vec<Spent>,
    spent_by_budget: BTreeMap<Hash32, Amount>,
    countered: BTreeMap<ListingId, Timestamp>,
    quotes: Vec<Quoted>,
}

impl Book {
    pub fn of(entries: Vec<Entry>) -> Book {
        let mut book = Book::default();
        for entry in entries {
            book.apply(entry);
        }
        book
    }

    /// Takes in a line that is on the disk.
    pub fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Intent(intent) => drop(self.open.insert(intent.id, Open::new(*intent))),
            Entry::Authorized(authorized) => {
                let authorized = *authorized;
                let (at, amount) = (authorized.at, authorized.amount);
                let reserved = Reserved { at, amount, budget: authorized.budget };
                self.reserved.insert(authorized.id, reserved);
                self.change(authorized.id, |open| open.authorized = Some(authorized));
            }
            Entry::Accepted { id, job_id } => self.change(id, |open| open.job_id = Some(job_id)),
            Entry::Answered(answered) => {
                self.change(answered.id, |open| open.answered = Some(*answered));
            }
            Entry::Unanswered(unanswered) => {
                self.change(unanswered.id, |open| open.unanswered = Some(*unanswered));
            }
            Entry::Verified { id, verification } => {
                self.change(id, |open| open.verification = Some(verification));
            }
            Entry::EscrowOrdered { id, order } => {
                self.change(id, |open| open.order = Some(*order));
            }
            Entry::Countersigned { id, signature } => {
                self.change(id, |open| open.counter_signature = Some(*signature));
            }
            Entry::Done { id, at, paid } => {
                self.close(&id);
                let budget = self.reserved.remove(&id).and_then(|reserved| reserved.budget);
                self.spend(Spent { at, paid, budget });
            }
            Entry::Spent { at, paid, budget } => self.spend(Spent { at, paid, budget }),
            Entry::Abandoned { id, .. } => {
                self.close(&id);
                self.reserved.remove(&id);
            }
            Entry::Countered { listing_id, at } => drop(self.countered.insert(listing_id, at)),
            Entry::Quoted(quoted) => {
                if self.quotes.len() >= QUOTES_MAX {
                    self.quotes.remove(0);
                }
                self.quotes.push(*quoted);
            }
        }
    }

    /// All that has to be known, without the results of hires that are over.
    pub fn entries(&self) -> Vec<Entry> {
        let spent =
            self.spent.iter().map(|&Spent { at, paid, budget }| Entry::Spent { at, paid, budget });
        let countered = self.countered.iter();
        let countered = countered.map(|(id, at)| Entry::Countered { listing_id: *id, at: *at });
        let quotes = self.quotes.iter().map(|quoted| Entry::Quoted(Box::new(quoted.clone())));
        let open = self.open.values().flat_map(Open::entries);
        spent.chain(countered).chain(quotes).chain(open).collect()
    }

    fn spend(&mut self, spent: Spent) {
        if let Some(budget) = spent.budget {
            let sum = self.spent_by_budget.entry(budget).or_insert(Amount::ZERO);
            *sum = sum.checked_add(spent.paid).unwrap_or(Amount::MAX);
        }
        self.spent.push(spent);
    }

    fn change(&mut self, id: Hash32, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.open.get_mut(&id) {
            change(open);
        }
    }

    fn close(&mut self, id: &Hash32) {
        self.open.remove(id);
        self.in_hand.remove(id);
    }

    pub fn get(&self, id: &Hash32) -> Option<&Open> {
        self.open.get(id)
    }

    /// Whether a hire waits for this job of this seller. One that was sent and has no number yet
    /// may be meant as well.
    pub fn awaits(&self, seller: AgentId, job_id: &str) -> bool {
        let mut theirs = self.open.values().filter(|open| open.intent.listing.agent_id == seller);
        theirs.any(|open| match &open.job_id {
            Some(known) => known == job_id,
            None => open.intent.hire.callback_url.is_some(),
        })
    }

    pub fn open_ids(&self) -> Vec<Hash32> {
        self.open.keys().copied().collect()
    }

    /// Whether the caller may be busy with it now; one at a time is.
    pub fn take_in_hand(&mut self, id: Hash32) -> bool {
        self.in_hand.insert(id)
    }

    pub fn put_down(&mut self, id: &Hash32) {
        self.in_hand.remove(id);
    }

    /// What is left of a budget.
    pub fn left(&self, budget: &Hash32, limit: Amount) -> Amount {
        let open = self.reserved.values().filter(|r| r.budget.as_ref() == Some(budget));
        let spoken_for = open.map(|reserved| reserved.amount);
        let spent = self.spent_by_budget.get(budget).copied();
        let used = spoken_for.chain(spent).try_fold(Amount::ZERO, Amount::checked_add);
        used.and_then(|used| limit.checked_sub(used)).unwrap_or(Amount::ZERO)
    }

    /// Speaks for money, or says how much is left.
    pub fn reserve(
        &mut self,
        id: Hash32,
        amount: Amount,
        at: Timestamp,
        budget: Option<(Hash32, Amount)>,
    ) -> Result<(), Amount> {
        if let Some((budget, limit)) = budget {
            let left = self.left(&budget, limit);
            if amount > left {
                return Err(left);
            }
        }
        let budget = budget.map(|(budget, _)| budget);
        self.reserved.insert(id, Reserved { at, amount, budget });
        Ok(())
    }

    pub fn unreserve(&mut self, id: &Hash32) {
        self.reserved.remove(id);
    }

    /// What was paid since then, and what is signed and not over.
    pub fn spent_since(&self, since: Timestamp) -> (Amount, Amount) {
        let spent = self.spent.iter().filter(|spent| spent.at >= since);
        let open = self.reserved.values().filter(|reserved| reserved.at >= since);
        (sum(spent.map(|spent| spent.paid)), sum(open.map(|reserved| reserved.amount)))
    }

    pub fn countered_at(&self, listing: &ListingId) -> Option<Timestamp> {
        self.countered.get(listing).copied()
    }

    pub fn quote(&self, token: &str) -> Option<&Quoted> {
        self.quotes.iter().rev().find(|quoted| quoted.quote.quote_token == token)
    }
}

fn sum(mut amounts: impl Iterator<Item = Amount>) -> Amount {
    amounts.try_fold(Amount::ZERO, Amount::checked_add).unwrap_or(Amount::MAX)
}
