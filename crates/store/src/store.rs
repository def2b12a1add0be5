//! One store over two engines.

use std::{path::PathBuf, sync::Arc, time::Duration};

use skep_base::{
    AgentId, Clock, Timestamp,
    id::{DebtId, TransferId},
};
use tokio::sync::watch;

use crate::{
    SystemClock,
    account::{Account, AccountId},
    audit::Report,
    error::{OpenError, StoreError},
    event::{Head, LoggedEvent},
    job::{Job, Room},
    list::Listed,
    listing::{ListingFilter, ListingPage, ListingPlace, PAYLOADS_DROPPED},
    postgres::{self, Postgres},
    score_fact::{Counted, ScoreFact},
    sqlite::{self, Sqlite, Synchronous},
    transfer::{DebtState, StoredTransfer, Transfer},
    turn::{Call, Outcome, RecordKey, RouteKey, StoredRecord},
};

/// Told how far a long piece of work is: done, and of how many.
pub type Progress = Box<dyn FnMut(u64, u64) + Send>;

/// A row of an account's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the next page goes on.
    pub cursor: String,
    pub at: Timestamp,
    pub transfer: Transfer,
}

/// What one look at the database found, each in the order in which it was asked for.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The database's time.
    pub now: Timestamp,
    pub records: Vec<Option<StoredRecord>>,
    /// One that nobody has used yet is empty.
    pub accounts: Vec<Account>,
}

/// How to open a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// Overrides the database's clock, for tests.
    pub clock: Option<Arc<dyn Clock>>,
    pub synchronous: Synchronous,
    /// Connections to PostgreSQL that carry groups of calls.
    pub lanes: usize,
}

impl Default for Options {
    fn default() -> Options {
        // A lane more makes groups smaller, which pays only where cores are free for it.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Options { clock: None, synchronous: Synchronous::Full, lanes: (cores / 2).clamp(1, 8) }
    }
}

/// The database. Cheap to clone; the last clone closes it.
#[derive(Clone, Debug)]
pub struct Store {
    engine: Engine,
}

#[derive(Clone, Debug)]
enum Engine {
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

/// The same question to whichever engine there is.
macro_rules! ask {
    ($self:ident, $engine:ident => $question:expr) => {
        match &$self.engine {
            Engine::Sqlite($engine) => $question.await,
            Engine::Postgres($engine) => $question.await,
        }
    };
}

impl Store {
    /// Opens `sqlite:PATH` or `postgres://…`, and brings the schema up to date.
    pub async fn open(url: &str, options: Options) -> Result<Store, OpenError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let clock = options.clock.unwrap_or_else(|| Arc::new(SystemClock));
            let path = PathBuf::from(path);
            let opened = tokio::task::spawn_blocking(move || {
                Sqlite::open(&path, options.synchronous, clock)
            });
            let engine = opened.await.map_err(|e| OpenError::Failed(e.to_string()))??;
            return Ok(Store { engine: Engine::Sqlite(Arc::new(engine)) });
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let engine = Postgres::open(url, options).await?;
            return Ok(Store { engine: Engine::Postgres(Arc::new(engine)) });
        }
        let reason = "expected sqlite:PATH or postgres://USER@HOST/NAME".to_owned();
        Err(OpenError::BadUrl { url: url.to_owned(), reason })
    }

    /// Opens a database beside whoever uses it, to be read only: whatever writes is refused.
    pub async fn open_beside(url: &str) -> Result<Store, OpenError> {
        let Some(path) = url.strip_prefix("sqlite:") else {
            let engine = Postgres::beside(url).await?;
            return Ok(Store { engine: Engine::Postgres(Arc::new(engine)) });
        };
        let engine = Sqlite::beside(&PathBuf::from(path), Arc::new(SystemClock))?;
        Ok(Store { engine: Engine::Sqlite(Arc::new(engine)) })
    }

    /// Audits a database beside whoever uses it, changing nothing and taking no lock.
    pub async fn audit_beside(url: &str, progress: Progress) -> Result<Report, OpenError> {
        let Some(path) = url.strip_prefix("sqlite:") else {
            return postgres::audit::audit_url(url, progress).await;
        };
        let path = PathBuf::from(path);
        tokio::task::spawn_blocking(move || sqlite::audit::audit_file(&path, progress))
            .await
            .map_err(|e| OpenError::Failed(e.to_string()))?
    }

    /// Which engine it is, for people.
    pub fn engine_name(&self) -> &'static str {
        match self.engine {
            Engine::Sqlite(_) => "SQLite",
            Engine::Postgres(_) => "PostgreSQL",
        }
    }

    /// Runs a use case: load, step and one write set. The answer is on the disk when it comes.
    pub async fn call(&self, call: Call) -> Result<Outcome, StoreError> {
        ask!(self, e => e.call(call))
    }

    /// Commits of this node so far, and the calls that they carried.
    pub fn commits(&self) -> (u64, u64) {
        match &self.engine {
            Engine::Sqlite(e) => e.commits().so_far(),
            Engine::Postgres(e) => e.commits().so_far(),
        }
    }

    /// The database's time.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        match &self.engine {
            Engine::Sqlite(e) => Ok(e.clock().now()),
            Engine::Postgres(e) => e.now().await,
        }
    }

    /// A record outside any turn.
    pub async fn record(&self, key: RecordKey) -> Result<Option<StoredRecord>, StoreError> {
        ask!(self, e => e.record(key))
    }

    /// Several records at once, in the order of their keys.
    pub async fn records(
        &self,
        keys: Vec<RecordKey>,
    ) -> Result<Vec<Option<StoredRecord>>, StoreError> {
        ask!(self, e => e.records(keys))
    }

    /// Records, accounts and the time with one question, outside any turn and without a lock.
    pub async fn look(
        &self,
        records: Vec<RecordKey>,
        accounts: Vec<AccountId>,
    ) -> Result<Seen, StoreError> {
        ask!(self, e => e.look(records, accounts))
    }

    /// Whom a unique name belongs to.
    pub async fn name_owner(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<String>, StoreError> {
        ask!(self, e => e.name_owner(kind, name.to_owned()))
    }

    /// The accounts whose names begin with `prefix`.
    pub async fn accounts(&self, prefix: &str, limit: usize) -> Result<Vec<Account>, StoreError> {
        ask!(self, e => e.accounts(prefix.to_owned(), limit))
    }

    /// A row of the journal with how it ended.
    pub async fn transfer(
        &self,
        route: RouteKey,
        id: TransferId,
    ) -> Result<Option<StoredTransfer>, StoreError> {
        ask!(self, e => e.transfer(route, id))
    }

    /// An account's journal, newest first, before the cursor of an earlier page; `None` if that is
    /// no cursor of ours.
    pub async fn history(
        &self,
        of: AccountId,
        before: Option<String>,
        limit: usize,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        ask!(self, e => e.history(of, before, limit))
    }

    /// The event log after a number.
    pub async fn events(&self, after: i64, limit: usize) -> Result<Vec<LoggedEvent>, StoreError> {
        ask!(self, e => e.events(after, limit))
    }

    /// When the last numbered event happened.
    pub async fn last_event_at(&self) -> Result<Option<Timestamp>, StoreError> {
        ask!(self, e => e.last_event_at())
    }

    /// The events that an agent is told of, after a number.
    pub async fn inbox(
        &self,
        agent: AgentId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LoggedEvent>, StoreError> {
        ask!(self, e => e.inbox(agent, after, limit))
    }

    /// The balance of an account without a row: what came in less what went out.
    pub async fn journal_balance(&self, id: AccountId) -> Result<i64, StoreError> {
        ask!(self, e => e.journal_balance(id))
    }

    /// A debt of an account, whether it is paid or not.
    pub async fn debt(
        &self,
        debtor: &AccountId,
        id: DebtId,
    ) -> Result<Option<DebtState>, StoreError> {
        ask!(self, e => e.debt(debtor.clone(), id))
    }

    /// What escrows have paid to an account since then, in minor units.
    pub async fn earned(&self, account: AccountId, since: Timestamp) -> Result<i64, StoreError> {
        ask!(self, e => e.earned(account, since))
    }

    /// The members of a list, oldest first, after the time (in ms) and name of an earlier page's
    /// last one.
    pub async fn listed(
        &self,
        list: &str,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        ask!(self, e => e.listed(list.to_owned(), after, limit))
    }

    /// The members of a list, newest first, before the time (in ms) and name of an earlier page's
    /// last one.
    pub async fn listed_latest(
        &self,
        list: &str,
        before: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        ask!(self, e => e.listed_latest(list.to_owned(), before, limit))
    }

    /// Listings that have all of these terms and pass the filter, best first, after the place of
    /// an earlier page. A bounded part of the rarest term's listings is looked at, however many
    /// there are.
    pub async fn search_listings(
        &self,
        terms: Vec<String>,
        filter: ListingFilter,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<ListingPage, StoreError> {
        ask!(self, e => e.search_listings(terms, filter, after, limit))
    }

    /// Where the listings are that have one term, best first: no row of theirs is read.
    pub async fn listing_places(
        &self,
        term: String,
        after: Option<ListingPlace>,
        limit: usize,
    ) -> Result<Vec<ListingPlace>, StoreError> {
        ask!(self, e => e.listing_places(term, after, limit))
    }

    /// The different terms that begin with `prefix`, in order, at most so many.
    pub async fn listing_terms(
        &self,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        ask!(self, e => e.listing_terms(prefix.to_owned(), limit))
    }

    /// The first and the last of the agents whose listings pay to this address.
    pub async fn agents_paid_at(
        &self,
        payee: AgentId,
    ) -> Result<Option<(String, String)>, StoreError> {
        ask!(self, e => e.agents_paid_at(payee))
    }

    /// Sealed bytes, until they expire.
    pub async fn payload(&self, receipt_id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        ask!(self, e => e.payload(receipt_id.to_owned()))
    }

    /// An agent's record with what was counted of it, as both are at the same moment.
    pub async fn counted(
        &self,
        agent: AgentId,
        key: RecordKey,
        now: Timestamp,
    ) -> Result<(Option<StoredRecord>, Counted), StoreError> {
        ask!(self, e => e.counted(agent, key, now))
    }

    /// An agent's facts, oldest first, after the time and number of an earlier page's last one.
    pub async fn score_facts(
        &self,
        agent: AgentId,
        after: Option<(Timestamp, i64)>,
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        let after = after.map_or((i64::MIN, 0), |(at, n)| (at.as_ms(), n));
        ask!(self, e => e.score_facts(agent, after, limit))
    }

    /// An agent's facts, newest first, before the time and number of an earlier page's last one.
    pub async fn score_facts_latest(
        &self,
        agent: AgentId,
        before: Option<(Timestamp, i64)>,
        limit: usize,
    ) -> Result<Vec<ScoreFact>, StoreError> {
        let before = before.map_or((i64::MAX, i64::MAX), |(at, n)| (at.as_ms(), n));
        ask!(self, e => e.score_facts_latest(agent, before, limit))
    }

    /// The records of a kind that have their route to themselves, by route, after one of them.
    /// It reads past all others: for audits and jobs.
    pub async fn records_of_kind(
        &self,
        kind: &'static str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        ask!(self, e => e.records_of_kind(kind, after.to_owned(), limit))
    }

    /// How many members a list has, and since when the oldest waits.
    pub async fn list_len(&self, list: &str) -> Result<(u64, Option<Timestamp>), StoreError> {
        ask!(self, e => e.list_len(list.to_owned()))
    }

    /// The end of the event log, as it moves.
    pub fn head(&self) -> watch::Receiver<Head> {
        match &self.engine {
            Engine::Sqlite(e) => e.head(),
            Engine::Postgres(e) => e.head(),
        }
    }

    /// A fact about the database.
    pub async fn meta(&self, key: &'static str) -> Result<Option<String>, StoreError> {
        ask!(self, e => e.meta(key))
    }

    /// Sets a fact about the database unless it is set, and says what it is.
    pub async fn meta_once(&self, key: &'static str, value: &str) -> Result<String, StoreError> {
        ask!(self, e => e.meta_once(key, value.to_owned()))
    }

    /// Takes due jobs; nobody else gets them before the lease runs out.
    pub async fn lease_jobs(&self, room: Room, lease: Duration) -> Result<Vec<Job>, StoreError> {
        ask!(self, e => e.lease_jobs(room, lease))
    }

    /// Ends a leased job. `false`: the lease had run out and another has it.
    pub async fn finish_job(&self, job: Job) -> Result<bool, StoreError> {
        ask!(self, e => e.finish_job(job))
    }

    /// Notes a failed attempt: again at `retry_at`, or never.
    pub async fn fail_job(
        &self,
        job: Job,
        error: String,
        retry_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        ask!(self, e => e.fail_job(job, error, retry_at))
    }

    /// Forgets a batch of expired nonces and idempotency keys. Says how many.
    pub async fn drop_expired(&self) -> Result<usize, StoreError> {
        ask!(self, e => e.drop_expired())
    }

    /// Forgets a batch of payloads whose time is over. Says whether there may be more.
    pub async fn drop_payloads(&self) -> Result<bool, StoreError> {
        let dropped = ask!(self, e => e.drop_payloads())?;
        Ok(dropped >= PAYLOADS_DROPPED)
    }

    /// Sums up the accounts without a balance row, so that reading them stays cheap.
    pub async fn roll_up(&self) -> Result<(), StoreError> {
        ask!(self, e => e.roll_up())
    }

    /// Checks every invariant in one snapshot.
    pub async fn audit(&self, progress: Progress) -> Result<Report, StoreError> {
        ask!(self, e => e.audit(progress))
    }
}
