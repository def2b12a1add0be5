//! A lane: one connection that carries groups of calls.

use std::sync::Arc;

use deadpool_postgres::{Object, Pool};
use skep_base::{Clock, Timestamp};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_postgres::error::SqlState;

use super::{
    bases::Bases,
    describe, flush,
    load::{self, Time, Wanted},
};
use crate::{
    error::{OpenError, StoreError},
    group::{Commits, Group},
    turn::{Bug, Call, Outcome},
};

/// The most calls in one commit.
const GROUP_MAX: usize = 256;
/// How often a call is run again because somebody else was faster.
const TRIES_MAX: u32 = 20;

/// A call that waits for its group.
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) entropy: [u8; 16],
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
    pub(super) tries: u32,
}

pub(super) struct Lane {
    pub(super) pool: Pool,
    pub(super) queue: Arc<Mutex<mpsc::Receiver<Waiting>>>,
    /// Wakes the sequencer.
    pub(super) written: Arc<Notify>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) commits: Arc<Commits>,
    pub(super) last_now: Timestamp,
    pub(super) bases: Bases,
}

/// Why a group was not committed.
pub(super) enum GroupError {
    /// Somebody else was faster: certainly nothing is written, and a fresh look may help.
    Raced(String),
    /// The database says no to what the rules allowed: certainly nothing is written.
    Refused(String),
    /// The database could not be asked: certainly nothing is written.
    Failed(String),
    /// The connection was lost while the commit was under way: nobody knows.
    Lost(String),
}

impl GroupError {
    /// What an error before the commit was sent means.
    pub(super) fn before_commit(error: &tokio_postgres::Error) -> GroupError {
        let text = describe(error);
        let Some(code) = error.code() else {
            return GroupError::Failed(text);
        };
        let raced = [
            SqlState::UNIQUE_VIOLATION,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            // The table of locks by name is full: call by call, few of them are held.
            SqlState::OUT_OF_MEMORY,
        ];
        if raced.contains(code) || code.code() == "SK001" {
            return GroupError::Raced(text);
        }
        // 23: integrity constraints. 42: something we wrote wrongly.
        match code.code().get(..2) {
            Some("23" | "42" | "22") => GroupError::Refused(text),
            _ => GroupError::Failed(text),
        }
    }
}

impl Lane {
    /// Runs the lane on a thread of its own, its connection too: everybody waits for it, so it
    /// waits behind nobody's request. It ends when the store is closed and the queue is empty.
    pub(super) fn start(self) -> Result<(), OpenError> {
        let failed = |e: std::io::Error| OpenError::Failed(e.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let named = std::thread::Builder::new().name("skep-lane".to_owned());
        named.spawn(move || runtime.block_on(self.run())).map(drop).map_err(failed)
    }

    async fn run(mut self) {
        while let Some(group) = self.next_group().await {
            self.serve(group).await;
        }
    }

    async fn next_group(&self) -> Option<Vec<Waiting>> {
        let mut queue = self.queue.lock().await;
        let mut calls = vec![queue.recv().await?];
        while calls.len() < GROUP_MAX
            && let Ok(waiting) = queue.try_recv()
        {
            calls.push(waiting);
        }
        Some(calls)
    }

    /// Commits the calls together; if that cannot be, each alone.
    async fn serve(&mut self, mut calls: Vec<Waiting>) {
        let error = match self.commit(&mut calls).await {
            Ok(outcomes) => {
                self.written.notify_one();
                self.commits.count(calls.len());
                for (waiting, outcome) in calls.into_iter().zip(outcomes) {
                    // A caller that no longer listens has lost the answer, not the write.
                    let _ = waiting.answer.send(outcome.map_err(StoreError::from));
                }
                return;
            }
            Err(error) => error,
        };
        let answer = match error {
            GroupError::Lost(text) => StoreError::Unknown(text),
            GroupError::Failed(text) => StoreError::Unavailable(text),
            GroupError::Raced(text) | GroupError::Refused(text) if calls.len() > 1 => {
                tracing::debug!(reason = text, calls = calls.len(), "a group runs call by call");
                for waiting in calls {
                    Box::pin(self.serve(vec![waiting])).await;
                }
                return;
            }
            GroupError::Raced(text) if calls[0].tries < TRIES_MAX => {
                tracing::debug!(reason = text, "a call runs again");
                calls[0].tries += 1;
                Box::pin(self.serve(calls)).await;
                return;
            }
            GroupError::Raced(text) => StoreError::Unavailable(text),
            GroupError::Refused(text) => {
                StoreError::Bug(Bug(format!("the database refused what the rules allowed: {text}")))
            }
        };
        tracing::error!(error = %answer, "a group was not committed");
        for waiting in calls {
            let _ = waiting.answer.send(Err(match &answer {
                StoreError::Unknown(text) => StoreError::Unknown(text.clone()),
                StoreError::Unavailable(text) => StoreError::Unavailable(text.clone()),
                StoreError::Bug(bug) => StoreError::Bug(bug.clone()),
            }));
        }
    }

    async fn commit(
        &mut self,
        calls: &mut [Waiting],
    ) -> Result<Vec<Result<Outcome, Bug>>, GroupError> {
        let client = self.pool.get().await.map_err(|e| GroupError::Failed(e.to_string()))?;
        let result = self.commit_on(&client, calls).await;
        if !matches!(result, Ok(_) | Err(GroupError::Lost(_)))
            && client.batch_execute("rollback").await.is_err()
        {
            // A connection in an unknown state is not used again.
            drop(Object::take(client));
        }
        result
    }

    async fn commit_on(
        &mut self,
        client: &Object,
        calls: &mut [Waiting],
    ) -> Result<Vec<Result<Outcome, Bug>>, GroupError> {
        let mut group = Group::default();
        let mut wanted = Wanted::of(calls.iter().map(|w| &w.call));
        let (clock, least) = (self.clock.as_deref(), self.last_now);
        let time = Time { clock, least, bases: &mut self.bases };
        self.last_now = load::load(client, &mut wanted, &mut group, time).await?;
        let outcomes =
            calls.iter_mut().map(|w| group.run(&mut w.call, self.last_now, w.entropy)).collect();
        flush::flush(client, &group, self.last_now).await?;
        Ok(outcomes)
    }
}
