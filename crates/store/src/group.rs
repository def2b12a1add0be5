//! Calls that are committed together.
//!
//! The engine loads what the calls of a group name, once; each call's step then sees what the
//! calls before it in the group did; and what all of them wrote goes to the database as one write
//! set. A row that many calls change is read and written once, and a call that is refused, or
//! whose step fails, leaves no trace on the others.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use skep_base::{
    AgentId, Amount, Timestamp,
    id::{DebtId, TransferId},
};

use crate::{
    account::{Account, AccountId},
    book::Book,
    event::Event,
    list::ListChanges,
    listing::{ListingChanges, Payload},
    score_fact::{Counted, ScoreFact, WantedFacts},
    transfer::{Debt, Kind, Resolution, StoredTransfer, Transfer},
    turn::{
        Answer, Bug, Call, Decision, Guard, JobEnd, JobWrite, Outcome, RecordKey, RouteKey,
        StoredRecord, Turn,
    },
};

/// The shortest time that a guard is kept; a signature lives five minutes and a half at the most.
const GUARD_KEPT_MIN: Duration = Duration::from_secs(900);

/// How many commits there were, and how many calls they carried.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    groups: AtomicU64,
    calls: AtomicU64,
}

impl Commits {
    pub(crate) fn count(&self, calls: usize) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.calls.fetch_add(calls as u64, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> (u64, u64) {
        (self.groups.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed))
    }
}

/// A guard with what was answered under it.
#[derive(Clone, Debug)]
pub(crate) struct KeptAnswer {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) answer: Answer,
}

/// A guard to write, with when it may be forgotten.
#[derive(Clone, Debug)]
pub(crate) struct NewGuard {
    pub(crate) guard: Guard,
    pub(crate) answer: Answer,
    pub(crate) expires_at: Timestamp,
}

/// A record of the group: the version that the database has, and what it is now.
#[derive(Clone, Debug)]
pub(crate) struct RecordSlot {
    pub(crate) stored_version: i64,
    pub(crate) now: Option<StoredRecord>,
}

impl RecordSlot {
    /// As the database has it.
    pub(crate) fn of(stored: Option<StoredRecord>) -> RecordSlot {
        RecordSlot { stored_version: stored.as_ref().map_or(0, |r| r.version), now: stored }
    }
}

/// What a group has loaded, and what it will write.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) guards: BTreeMap<(String, String), Option<KeptAnswer>>,
    pub(crate) records: BTreeMap<RecordKey, RecordSlot>,
    pub(crate) names: BTreeMap<(&'static str, String), Option<String>>,
    pub(crate) accounts: BTreeMap<AccountId, Account>,
    /// By route and id: the same id on another route is another transfer.
    pub(crate) transfers: BTreeMap<(RouteKey, TransferId), Option<StoredTransfer>>,
    pub(crate) debts: BTreeMap<AccountId, Vec<Debt>>,
    pub(crate) counted: BTreeMap<AgentId, Counted>,

    pub(crate) new_guards: Vec<NewGuard>,
    pub(crate) new_names: Vec<(&'static str, String, String)>,
    pub(crate) changed_records: BTreeSet<RecordKey>,
    pub(crate) changed_accounts: BTreeSet<AccountId>,
    pub(crate) journal: Vec<Transfer>,
    pub(crate) new_debts: Vec<Debt>,
    pub(crate) paid_debts: BTreeMap<DebtId, (AccountId, Amount)>,
    pub(crate) events: Vec<Event>,
    pub(crate) jobs: Vec<JobWrite>,
    pub(crate) ended_jobs: Vec<JobEnd>,
    pub(crate) reached: BTreeSet<String>,
    pub(crate) lists: ListChanges,
    pub(crate) listings: ListingChanges,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) new_facts: Vec<ScoreFact>,
}

impl Group {
    /// Runs one call on what is loaded. Everything that it names must be.
    pub(crate) fn run(
        &mut self,
        call: &mut Call,
        now: Timestamp,
        entropy: [u8; 16],
    ) -> Result<Outcome, Bug> {
        if let Some(outcome) = self.replayed(&call.guards) {
            // A fresh nonce under a known idempotency key is used up all the same.
            if let Outcome::Replayed(answer) = &outcome {
                self.keep(&call.guards, answer, now);
            }
            return Ok(outcome);
        }
        let mut turn = self.turn(call, now, entropy);
        let decision = catch_unwind(AssertUnwindSafe(|| (call.step)(&mut turn)))
            .unwrap_or_else(|_| Err(Bug("a step panicked".to_owned())))?;
        let answer = match decision {
            Decision::Ignore(body) => return Ok(Outcome::Done(Answer { refused: true, body })),
            Decision::Refuse(body) => Answer { refused: true, body },
            Decision::Commit(body) => {
                if turn.book.is_spoiled() {
                    return Err(Bug("a refused ledger page was to be committed".to_owned()));
                }
                self.take(turn, now);
                Answer { refused: false, body }
            }
        };
        self.keep(&call.guards, &answer, now);
        Ok(Outcome::Done(answer))
    }

    /// Keeps the answer under the guards that are new. They are kept by this database's clock for
    /// longer than any signature lives, whatever the signer's clock said. The last guard has the
    /// answer's text, the others only say that there is one.
    fn keep(&mut self, guards: &[Guard], answer: &Answer, now: Timestamp) {
        for (index, guard) in guards.iter().enumerate() {
            let key = (guard.scope.clone(), guard.key.clone());
            if self.guards.get(&key).is_some_and(Option::is_some) {
                continue;
            }
            let fingerprint = *guard.fingerprint.as_bytes();
            let body = match index + 1 == guards.len() {
                true => answer.body.clone(),
                false => String::new(),
            };
            let answer = Answer { refused: answer.refused, body };
            self.guards.insert(key, Some(KeptAnswer { fingerprint, answer: answer.clone() }));
            let expires_at = guard.kept.until(now).max(now.plus(GUARD_KEPT_MIN));
            let guard = guard.clone();
            self.new_guards.push(NewGuard { guard, answer, expires_at });
        }
    }

    /// A guard that was used for another request is a conflict; for this one, a replay.
    fn replayed(&self, guards: &[Guard]) -> Option<Outcome> {
        let (mut replay, mut used) = (None, None);
        for (index, guard) in guards.iter().enumerate() {
            let key = (guard.scope.clone(), guard.key.clone());
            let Some(Some(kept)) = self.guards.get(&key) else {
                continue;
            };
            if kept.fingerprint != *guard.fingerprint.as_bytes() {
                return Some(Outcome::Conflict { guard: index });
            }
            used.get_or_insert(index);
            if !kept.answer.body.is_empty() {
                replay = Some(Outcome::Replayed(kept.answer.clone()));
            }
        }
        // Used, and its answer is not kept any more.
        replay.or(used.map(|guard| Outcome::Conflict { guard }))
    }

    fn turn(&self, call: &Call, now: Timestamp, entropy: [u8; 16]) -> Turn {
        let mut turn = Turn::new(now, entropy);
        for (key, _) in &call.load.records {
            if let Some(slot) = self.records.get(key) {
                turn.records.insert(key.clone(), slot.now.clone());
            }
        }
        for (kind, name) in &call.load.names {
            let owner = self.names.get(&(*kind, name.clone())).cloned().flatten();
            turn.names.insert((kind, name.clone()), owner);
        }
        for WantedFacts { agent, track, .. } in &call.load.facts {
            if let Some(counted) = self.counted.get(agent) {
                turn.counted.insert(*agent, *counted);
            }
            if let Some(slot) = self.records.get(track) {
                turn.records.insert((**track).clone(), slot.now.clone());
            }
        }
        let mut wanted = call.load.accounts.clone();
        for key in &call.load.transfers {
            if let Some(Some(stored)) = self.transfers.get(key) {
                wanted.extend(accounts_of(&stored.transfer));
                turn.book.load_transfer(stored.clone());
            }
        }
        self.lend_accounts(wanted, &mut turn.book);
        turn
    }

    /// Accounts, and those that they owe: a credit pays debts at once.
    fn lend_accounts(&self, mut wanted: Vec<AccountId>, book: &mut Book) {
        while let Some(id) = wanted.pop() {
            if book.account(&id).is_some() {
                continue;
            }
            let Some(account) = self.accounts.get(&id) else {
                continue;
            };
            if let Some(debts) = self.debts.get(&id) {
                wanted.extend(debts.iter().map(|debt| debt.creditor.clone()));
                book.load_debts(id.clone(), debts.clone());
            }
            book.load_account(account.clone());
        }
    }

    /// Takes over what a turn wrote, so that the next call sees it.
    fn take(&mut self, turn: Turn, now: Timestamp) {
        let Turn { writes, book, .. } = turn;
        for write in writes.records {
            let next = StoredRecord { version: write.old_version + 1, body: write.body };
            self.changed_records.insert(write.key.clone());
            if let Some(slot) = self.records.get_mut(&write.key) {
                slot.now = Some(next);
            }
        }
        for (kind, name, owner) in writes.names {
            self.names.insert((kind, name.clone()), Some(owner.clone()));
            self.new_names.push((kind, name, owner));
        }
        self.events.extend(writes.events);
        self.jobs.extend(writes.jobs);
        self.ended_jobs.extend(writes.ended_jobs);
        self.reached.extend(writes.reached);
        self.lists.extend(writes.lists);
        self.listings.extend(writes.listings);
        self.payloads.extend(writes.payloads);
        for fact in writes.facts {
            if let Some(counted) = self.counted.get_mut(&fact.agent) {
                counted.last = Some(fact.mark());
            }
            self.new_facts.push(fact);
        }
        for account in book.changed_accounts() {
            self.changed_accounts.insert(account.id.clone());
            self.accounts.insert(account.id.clone(), account.clone());
        }
        for row in book.journal() {
            self.note_transfer(row, now);
        }
        self.journal.extend_from_slice(book.journal());
        self.new_debts.extend_from_slice(book.new_debts());
        for (id, debtor, open) in book.paid_debts() {
            self.paid_debts.insert(*id, (debtor.clone(), open));
        }
        for (debtor, debts) in book.debts() {
            self.debts.insert(debtor.clone(), debts.clone());
        }
    }

    fn note_transfer(&mut self, row: &Transfer, at: Timestamp) {
        let stored = StoredTransfer { transfer: row.clone(), at, resolution: None };
        self.transfers.insert((row.route.clone(), row.id), Some(stored));
        if let Some(pending) = row.pending
            && matches!(row.kind, Kind::Post | Kind::Void)
            && let Some(Some(hold)) = self.transfers.get_mut(&(row.route.clone(), pending))
        {
            hold.resolution = Some(Resolution { id: row.id, kind: row.kind, amount: row.amount });
        }
    }
}

/// The accounts that a transfer touches and that have a row.
pub(crate) fn accounts_of(row: &Transfer) -> impl Iterator<Item = AccountId> {
    [Some(&row.debit), Some(&row.credit), row.budget.as_ref()]
        .into_iter()
        .flatten()
        .filter(|id| id.purpose().has_balance_row())
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
}
