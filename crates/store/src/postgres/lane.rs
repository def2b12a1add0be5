//! A lane: one connection that carries groups of calls.

use std::{collections::VecDeque, sync::Arc};

use deadpool_postgres::{Object, Pool};
use skep_base::{Clock, Timestamp};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_postgres::error::SqlState;

use super::{
    describe, flush,
    held::Marks,
    known::Known,
    load::{self, Around, Wanted},
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
    pub(super) known: Known,
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
    /// What callers are told who wait no longer.
    fn answer(self) -> StoreError {
        match self {
            GroupError::Lost(text) => StoreError::Unknown(text),
            GroupError::Failed(text) | GroupError::Raced(text) => StoreError::Unavailable(text),
            GroupError::Refused(text) => {
                StoreError::Bug(Bug(format!("the database refused what the rules allowed: {text}")))
            }
        }
    }

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

fn refuse(calls: Vec<Waiting>, answer: &StoreError) {
    tracing::error!(error = %answer, "a group was not committed");
    for waiting in calls {
        let _ = waiting.answer.send(Err(answer.clone()));
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
    async fn serve(&mut self, calls: Vec<Waiting>) {
        let mut groups = VecDeque::from([calls]);
        while let Some(mut calls) = groups.pop_front() {
            let error = match self.commit(&mut calls).await {
                Ok(outcomes) => {
                    self.written.notify_one();
                    self.commits.count(calls.len());
                    for (waiting, outcome) in calls.into_iter().zip(outcomes) {
                        // A caller that no longer listens has lost the answer, not the write.
                        let _ = waiting.answer.send(outcome.map_err(StoreError::from));
                    }
                    continue;
                }
                Err(error) => error,
            };
            match error {
                GroupError::Raced(text) | GroupError::Refused(text) if calls.len() > 1 => {
                    tracing::debug!(reason = text, calls = calls.len(), "run call by call");
                    groups.extend(calls.into_iter().map(|waiting| vec![waiting]));
                }
                GroupError::Raced(text) if calls[0].tries < TRIES_MAX => {
                    tracing::debug!(reason = text, "a call runs again");
                    calls[0].tries += 1;
                    groups.push_front(calls);
                }
                error => refuse(calls, &error.answer()),
            }
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
        let around = Around { clock, least, known: &mut self.known };
        let loaded = load::load(client, &mut wanted, &mut group, around).await?;
        self.last_now = loaded.now;
        let outcomes =
            calls.iter_mut().map(|w| group.run(&mut w.call, loaded.now, w.entropy)).collect();
        let marks = Marks::of(&group, &wanted.facts, &loaded.held)?;
        flush::flush(client, &group, &marks, loaded.now).await?;
        marks.remember(&mut self.known.tracks);
        Ok(outcomes)
    }
}
