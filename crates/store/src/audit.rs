//! Re-derives everything that can be derived and says where it differs from what is stored.
//!
//! The database sums the journal account by account, the program compares: memory stays bounded
//! however long the journal is.

use std::collections::BTreeMap;

use serde::Serialize;
use skep_base::Hash32;

use crate::{
    event::{Head, LoggedEvent},
    score_fact,
};

/// Problems that a report lists; more are only counted.
pub const PROBLEMS_LISTED_MAX: usize = 100;
/// Accounts, and events, that are compared in one go.
pub(crate) const PAGE: i64 = 1000;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub accounts: u64,
    pub transfers: u64,
    pub events: u64,
    /// Written, but without a number yet: on PostgreSQL that is given a moment later.
    pub events_unnumbered: u64,
    pub open_holds: u64,
    pub open_debts: u64,
    /// What all accounts with a balance row hold, by asset, in minor units.
    pub held_by_accounts: BTreeMap<String, i64>,
    pub head_seq: i64,
    pub head_hash: Hash32,
    pub problem_count: u64,
    /// The first [`PROBLEMS_LISTED_MAX`] of them.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(text);
        }
    }

    /// Compares an account's row with the sums of its journal.
    pub(crate) fn account(&mut self, line: &AccountLine) {
        self.accounts += 1;
        let AccountLine { account, asset, stored, derived, .. } = line;
        if stored != derived {
            self.problem(format!("{account}: stored {stored}, the journal says {derived}"));
        }
        if stored.posted < stored.held && !line.is_budget {
            self.problem(format!("{account} is overdrawn: {stored}"));
        }
        if let Some(limit) = line.debit_limit
            && stored.debited.saturating_add(stored.held) > limit
        {
            self.problem(format!("{account} is past its limit of {limit}: {stored}"));
        }
        *self.held_by_accounts.entry(asset.clone()).or_default() += stored.posted;
    }

    /// Checks that a page of events continues the chain.
    pub(crate) fn events(&mut self, head: &mut Head, page: &[LoggedEvent]) {
        for logged in page {
            self.events += 1;
            let next = head.next(&logged.event);
            if logged.seq != next.seq {
                self.problem(format!("event {} follows event {}", logged.seq, head.seq));
            } else if logged.hash != next.hash {
                self.problem(format!("event {} breaks the hash chain", logged.seq));
            }
            *head = Head { seq: logged.seq, hash: logged.hash };
        }
    }

    pub(crate) fn head(&mut self, last: Head, stored: Head) {
        if last != stored {
            self.problem(format!(
                "the log ends at event {} but its head says {}",
                last.seq, stored.seq
            ));
        }
        self.head_seq = stored.seq;
        self.head_hash = stored.hash;
    }
}

/// The four sums of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) posted: i64,
    pub(crate) held: i64,
    pub(crate) debited: i64,
    pub(crate) owed: i64,
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sums { posted, held, debited, owed } = self;
        write!(f, "posted {posted}, held {held}, debited {debited}, owed {owed}")
    }
}

/// An account as stored and as its journal derives it.
#[derive(Clone, Debug)]
pub(crate) struct AccountLine {
    pub(crate) account: String,
    pub(crate) asset: String,
    pub(crate) is_budget: bool,
    pub(crate) debit_limit: Option<i64>,
    pub(crate) stored: Sums,
    pub(crate) derived: Sums,
}

/// The accounts after `$cursor` with the sums of their journal. `{after}` and `{limit}` are the
/// dialect's placeholders; the rest is the same in both.
pub(crate) fn account_lines_sql(after: &str, limit: &str) -> String {
    format!(
        "select a.account, a.asset, a.purpose = 'budget', a.debit_limit,
                a.posted, a.held, a.debited, a.owed,
                case when a.purpose = 'budget' then 0 else
                    (select cast(coalesce(sum(amount), 0) as bigint) from transfers
                     where credit_account = a.account and kind in ('posted', 'post'))
                  - (select cast(coalesce(sum(amount), 0) as bigint) from transfers
                     where debit_account = a.account and kind in ('posted', 'post')) end,
                case when a.purpose = 'budget' then
                    (select cast(coalesce(sum(held_change), 0) as bigint) from transfers
                     where budget_account = a.account)
                else
                    (select cast(coalesce(sum(held_change), 0) as bigint) from transfers
                     where debit_account = a.account) end,
                case when a.purpose = 'budget' then
                    (select cast(coalesce(sum(amount), 0) as bigint) from transfers
                     where budget_account = a.account and kind in ('posted', 'post'))
                else
                    (select cast(coalesce(sum(amount), 0) as bigint) from transfers
                     where debit_account = a.account and kind in ('posted', 'post')) end,
                (select cast(coalesce(sum(amount), 0) as bigint) from debts
                 where debtor_account = a.account)
              - (select cast(coalesce(sum(t.amount), 0) as bigint)
                 from debts d join transfers t on t.debt_id = d.id
                 where d.debtor_account = a.account)
         from accounts a where a.account > {after} order by a.account limit {limit}"
    )
}

/// Questions whose answer must be zero rows: (what it means, the query).
pub(crate) const NOTHING_MAY_MATCH: [(&str, &str); 9] = [
    ("a fact that does not follow from the one before it", score_fact::BROKEN),
    (
        "an account whose name says something else",
        "select account from accounts
         where substr(account, 1, length(purpose) + 1) <> purpose || ':'
            or substr(account, length(account) - length(asset)) <> ':' || asset",
    ),
    (
        "a transfer charged to a budget that does not exist",
        "select t.id from transfers t left join accounts a on a.account = t.budget_account
         where t.budget_account is not null and a.account is null",
    ),
    (
        "a post or void without its pending transfer, or unlike it",
        "select r.id from transfers r
         left join transfers p on p.route_key = r.route_key and p.id = r.pending_id
         where r.pending_id is not null
           and (p.id is null or p.kind <> 'pending' or p.debit_account <> r.debit_account
                or p.credit_account <> r.credit_account or r.held_change <> -p.held_change
                or coalesce(p.budget_account, '') <> coalesce(r.budget_account, ''))",
    ),
    (
        "a transfer between two assets",
        "select id from transfers
         where substr(debit_account, length(debit_account) - length(asset)) <> ':' || asset
            or substr(credit_account, length(credit_account) - length(asset)) <> ':' || asset",
    ),
    (
        "a transfer that takes from an account without its row",
        "select t.id from transfers t left join accounts a on a.account = t.debit_account
         where a.account is null
           and t.debit_account not like 'external:%' and t.debit_account not like 'fees:%'",
    ),
    (
        "a transfer that gives to an account without its row",
        "select t.id from transfers t left join accounts a on a.account = t.credit_account
         where a.account is null and t.kind in ('posted', 'post')
           and t.credit_account not like 'external:%' and t.credit_account not like 'fees:%'",
    ),
    (
        "a debt whose open part is not what its payments left",
        "select d.id from debts d
         where d.open <> d.amount - (select coalesce(sum(t.amount), 0) from transfers t
                                     where t.debt_id = d.id)",
    ),
    (
        "a payment of a debt that does not exist",
        "select t.id from transfers t left join debts d
             on d.id = t.debt_id and d.debtor_account = t.debit_account
                and d.creditor_account = t.credit_account
         where t.debt_id is not null and d.id is null",
    ),
];

/// Holds that are neither posted nor voided.
pub(crate) const OPEN_HOLDS: &str = "
    select count(*) from transfers p where p.kind = 'pending' and not exists (
        select 1 from transfers r where r.route_key = p.route_key and r.pending_id = p.id)";
