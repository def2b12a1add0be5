//! The shared engine: PostgreSQL, with any number of nodes on one database.
//!
//! Calls travel in groups, as on SQLite: a lane (one connection) takes what is waiting, loads and
//! locks by keys in sorted order, runs the steps, and sends one write set with its commit. Two
//! round trips, however many calls.

pub(crate) mod audit;
mod connect;
mod flush;
mod held;
mod jobs;
mod known;
mod lane;
mod listings;
mod load;
mod read;
pub(crate) mod score_facts;
mod sequencer;

use std::sync::Arc;

use deadpool_postgres::Pool;
use skep_base::{Clock, Timestamp};
use tokio::{
    sync::{Mutex, Notify, mpsc, oneshot, watch},
    task::AbortHandle,
};

use self::{
    known::Known,
    lane::{Lane, Waiting},
};
use crate::{
    error::{OpenError, StoreError},
    event::Head,
    group::Commits,
    store::Options,
    turn::{Call, Outcome},
};

/// Calls that wait for a lane. Past that, callers wait to be let in.
const QUEUE_MAX: usize = 4096;

/// Connections beside the lanes': for reads, jobs and the sequencer.
const READERS: usize = 8;

/// A PostgreSQL database with this node's lanes and its sequencer.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Pool,
    queue: mpsc::Sender<Waiting>,
    head: watch::Receiver<Head>,
    clock: Option<Arc<dyn Clock>>,
    commits: Arc<Commits>,
    tasks: Vec<AbortHandle>,
}

impl Postgres {
    pub(crate) async fn open(url: &str, options: Options) -> Result<Postgres, OpenError> {
        let config = connect::prepare(url).await?;
        let pool = connect::pool(config.clone(), READERS)?;
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let written = Arc::new(Notify::new());
        let (head_seen, head) = watch::channel(sequencer::head(&pool).await?);
        let commits = Arc::new(Commits::default());
        let mut tasks = Vec::new();
        for _ in 0..options.lanes.max(1) {
            let lane = Lane {
                pool: connect::pool(config.clone(), 1)?,
                queue: waiting.clone(),
                written: written.clone(),
                clock: options.clock.clone(),
                commits: commits.clone(),
                last_now: Timestamp::from_ms(0),
                known: Known::default(),
            };
            lane.start()?;
        }
        let sequencer = sequencer::run(pool.clone(), written, head_seen);
        tasks.push(tokio::spawn(sequencer).abort_handle());
        Ok(Postgres { pool, queue, head, clock: options.clock, commits, tasks })
    }

    /// A database that is read beside the nodes that write it.
    pub(crate) async fn beside(url: &str) -> Result<Postgres, OpenError> {
        let pool = connect::pool(connect::known(url).await?, READERS)?;
        let (queue, _) = mpsc::channel(1);
        let (_, head) = watch::channel(Head::START);
        let commits = Arc::new(Commits::default());
        Ok(Postgres { pool, queue, head, clock: None, commits, tasks: Vec::new() })
    }

    pub(crate) fn head(&self) -> watch::Receiver<Head> {
        self.head.clone()
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    pub(crate) async fn call(&self, call: Call) -> Result<Outcome, StoreError> {
        let mut entropy = [0; 16];
        getrandom::fill(&mut entropy).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { call, entropy, answer, tries: 0 };
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        self.queue.send(waiting).await.map_err(|_| closed())?;
        answered.await.map_err(|_| StoreError::Unknown("the lane ended".to_owned()))?
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, StoreError> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now());
        }
        let client = self.client().await?;
        let row = client.query_one(load::NOW, &[]).await.map_err(unavailable)?;
        Ok(Timestamp::from_ms(row.get(0)))
    }

    async fn client(&self) -> Result<deadpool_postgres::Object, StoreError> {
        self.pool.get().await.map_err(|e| StoreError::Unavailable(e.to_string()))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn unavailable(error: tokio_postgres::Error) -> StoreError {
    StoreError::Unavailable(describe(&error))
}

/// The database's own words; the driver's Display hides them.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}
