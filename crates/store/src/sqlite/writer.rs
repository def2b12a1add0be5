//! The one writer of a SQLite database.
//!
//! It takes whatever calls are waiting and commits them together: one fsync for many callers.
//! Nobody hears an answer, not even a refusal, before that commit.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use skep_base::{Clock, Hash32, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};

use super::{Settings, apply, connect, known::Known};
use crate::{
    error::StoreError,
    event::Head,
    group::{Commits, Group},
    turn::{Bug, Call, Outcome},
};

/// The most pieces of work in one commit.
const GROUP_MAX: usize = 512;
/// How long a group may grow before it is committed.
const GROUP_TIME_MAX: Duration = Duration::from_millis(20);
/// How long to wait before trying again to reopen a database that failed.
const REOPEN_PAUSE: Duration = Duration::from_millis(200);

/// What a piece of work works with.
pub(super) struct Desk<'a> {
    pub(super) conn: &'a Connection,
    pub(super) now: Timestamp,
}

/// Tells the caller how it ended, after the commit.
pub(super) type Deliver = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What a piece of work does.
pub(super) type Piece = Box<dyn FnOnce(&Desk<'_>) -> Result<(), WorkError> + Send>;

/// A piece of work that is not a call: runs in a savepoint; an error undoes it and it alone.
pub(super) struct Work {
    pub(super) run: Piece,
    pub(super) deliver: Deliver,
}

/// A call that waits for its group.
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) entropy: [u8; 16],
    pub(super) answer: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// Calls that have run, with what to answer once they are committed.
type CallsDone = Vec<(Waiting, Result<Outcome, StoreError>)>;
/// Pieces of work that have run, likewise.
type WorksDone = Vec<(Deliver, Result<(), StoreError>)>;

/// Why a piece of work is undone.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Bug(#[from] Bug),
}

impl From<WorkError> for StoreError {
    fn from(error: WorkError) -> StoreError {
        match error {
            WorkError::Bug(bug) => StoreError::Bug(bug),
            // A constraint is the last line of defence: the rules should have refused before.
            WorkError::Sqlite(e)
                if e.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) =>
            {
                StoreError::Bug(Bug(format!("the database refused what the rules allowed: {e}")))
            }
            WorkError::Sqlite(e) => StoreError::Unavailable(e.to_string()),
        }
    }
}

pub(super) enum Command {
    Call(Waiting),
    Work(Work),
    /// Starts the write-ahead log over, once the checkpointer has copied nearly all of it.
    RestartLog,
}

/// The writer's thread. It ends when every handle to the store is gone.
pub(super) struct Writer {
    settings: Settings,
    clock: Arc<dyn Clock>,
    commands: mpsc::Receiver<Command>,
    head_seen: watch::Sender<Head>,
    conn: Connection,
    head: Head,
    last_now: Timestamp,
    commits: Arc<Commits>,
    known: Known,
}

impl Writer {
    pub(super) fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        commands: mpsc::Receiver<Command>,
        head_seen: watch::Sender<Head>,
        conn: Connection,
        commits: Arc<Commits>,
    ) -> rusqlite::Result<Writer> {
        let head = read_head(&conn)?;
        let last_now = last_time(&conn)?;
        head_seen.send_replace(head);
        let known = Known::default();
        Ok(Writer { settings, clock, commands, head_seen, conn, head, last_now, commits, known })
    }

    pub(super) fn run(mut self) {
        while let Some(command) = self.commands.blocking_recv() {
            match command {
                Command::RestartLog => self.restart_log(),
                first => self.group(first, GROUP_MAX),
            }
        }
        // Leaves one file behind instead of three; the data is safe either way.
        if let Err(error) = self.conn.execute_batch("pragma wal_checkpoint(truncate)") {
            tracing::debug!(%error, "the log was not emptied at the end");
        }
    }

    /// Takes what is waiting and commits it together.
    fn group(&mut self, first: Command, size_max: usize) {
        let mut calls = CallsDone::new();
        let mut works = WorksDone::new();
        let mut restart_log = false;
        let result = self.fill_group(first, size_max, &mut calls, &mut works, &mut restart_log);
        match result {
            Ok(()) => {
                self.commits.count(calls.len());
                self.head_seen.send_if_modified(|seen| {
                    let moved = *seen != self.head;
                    *seen = self.head;
                    moved
                });
                for (waiting, outcome) in calls {
                    // A caller that no longer listens has lost the answer, not the write.
                    let _ = waiting.answer.send(outcome);
                }
                for (deliver, result) in works {
                    deliver(result);
                }
            }
            Err(GroupError::Refused(error)) if calls.len() > 1 => {
                tracing::error!(%error, "the database refused a group; its calls run alone now");
                self.undo();
                for (deliver, _) in works {
                    deliver(Err(StoreError::Unavailable(error.to_string())));
                }
                for (waiting, _) in calls {
                    self.group(Command::Call(waiting), 1);
                }
            }
            Err(error) => self.group_failed(error, calls, works),
        }
        if restart_log {
            self.restart_log();
        }
    }

    fn group_failed(&mut self, error: GroupError, calls: CallsDone, works: WorksDone) {
        tracing::error!(%error, calls = calls.len(), "a group was not committed");
        let answer = || match &error {
            GroupError::Refused(WorkError::Bug(bug)) => StoreError::Bug(bug.clone()),
            GroupError::Refused(e) => StoreError::Bug(Bug(format!("the database refused: {e}"))),
            GroupError::Failed(e) => StoreError::Unavailable(e.to_string()),
            GroupError::Lost(e) => StoreError::Unknown(e.to_string()),
        };
        for (waiting, _) in calls {
            let _ = waiting.answer.send(Err(answer()));
        }
        for (deliver, _) in works {
            deliver(Err(answer()));
        }
        match &error {
            GroupError::Refused(_) => self.undo(),
            GroupError::Failed(_) | GroupError::Lost(_) => self.reopen(),
        }
    }

    fn fill_group(
        &mut self,
        first: Command,
        size_max: usize,
        calls: &mut CallsDone,
        works: &mut WorksDone,
        restart_log: &mut bool,
    ) -> Result<(), GroupError> {
        self.last_now = self.last_now.max(self.clock.now());
        let (now, started) = (self.last_now, Instant::now());
        let mut group = Group::default();
        let mut begun = run(&self.conn, "begin immediate");
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                Command::Call(mut waiting) => {
                    let loaded = match &begun {
                        Ok(()) => {
                            let known = &mut self.known;
                            apply::load(&self.conn, &waiting.call, &mut group, now, known)
                        }
                        Err(_) => Ok(()),
                    };
                    let outcome = match (&begun, &loaded) {
                        (Ok(()), Ok(())) => group
                            .run(&mut waiting.call, now, waiting.entropy)
                            .map_err(StoreError::from),
                        _ => Err(StoreError::Unavailable("nothing could be loaded".to_owned())),
                    };
                    calls.push((waiting, outcome));
                    loaded.map_err(GroupError::from)?;
                }
                Command::Work(work) => {
                    let result = self.one(work.run, &begun);
                    works.push((work.deliver, result.map_err(StoreError::from)));
                }
                Command::RestartLog => *restart_log = true,
            }
            std::mem::replace(&mut begun, Ok(())).map_err(|e| GroupError::Failed(e.into()))?;
            let size = calls.len() + works.len();
            if size < size_max && started.elapsed() < GROUP_TIME_MAX {
                next = self.commands.try_recv().ok();
            }
        }
        self.finish_group(&group, now)
    }

    fn finish_group(&mut self, group: &Group, now: Timestamp) -> Result<(), GroupError> {
        let (head, ends) = apply::flush(&self.conn, group, self.head, now, &self.known)?;
        if head != self.head {
            self.conn
                .prepare_cached("update log_head set seq = ?1, hash = ?2 where one = 1")
                .and_then(|mut s| s.execute((head.seq, head.hash.as_bytes())))
                .map_err(WorkError::from)?;
        }
        run(&self.conn, "commit").map_err(|e| GroupError::Lost(e.into()))?;
        self.head = head;
        self.known.add(group, &ends);
        Ok(())
    }

    fn one(&self, piece: Piece, begun: &rusqlite::Result<()>) -> Result<(), WorkError> {
        if begun.is_err() {
            return Ok(());
        }
        run(&self.conn, "savepoint piece")?;
        let desk = Desk { conn: &self.conn, now: self.last_now };
        let result = catch_unwind(AssertUnwindSafe(|| piece(&desk)))
            .unwrap_or_else(|_| Err(Bug("a piece of work panicked".to_owned()).into()));
        if result.is_err() {
            run(&self.conn, "rollback to piece")?;
        }
        run(&self.conn, "release piece")?;
        result
    }

    fn undo(&mut self) {
        self.known.forget();
        if !self.conn.is_autocommit()
            && let Err(error) = run(&self.conn, "rollback")
        {
            tracing::error!(%error, "a group could not be undone");
            self.reopen();
        }
    }

    /// After a failed commit nothing in memory can be trusted, and what the operating system has
    /// cached of the log may never reach the disk. Copying the log into the database and syncing
    /// that makes sure of everything that is visible, before anything is acknowledged on top.
    fn reopen(&mut self) {
        self.known.forget();
        // A transaction that some errors leave open would keep the log busy for ever.
        if !self.conn.is_autocommit()
            && let Err(error) = run(&self.conn, "rollback")
        {
            tracing::warn!(%error, "the failed group could not be undone");
        }
        loop {
            let fresh = connect(&self.settings).and_then(|conn| {
                let busy: i64 =
                    conn.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0))?;
                let head = read_head(&conn)?;
                Ok((conn, head, busy))
            });
            match fresh {
                Ok((conn, head, 0)) => {
                    self.conn = conn;
                    self.head = head;
                    self.head_seen.send_replace(head);
                    tracing::info!(seq = head.seq, "the database is open again");
                    return;
                }
                Ok(_) => tracing::warn!("readers keep the log busy; trying again"),
                Err(error) => tracing::error!(%error, "the database cannot be reopened yet"),
            }
            self.refuse_waiting();
            if self.commands.is_closed() {
                return;
            }
            std::thread::sleep(REOPEN_PAUSE);
        }
    }

    /// Nobody waits for a disk that may stay full for hours.
    fn refuse_waiting(&mut self) {
        let error = || StoreError::Unavailable("the disk failed and is not back yet".to_owned());
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Call(waiting) => {
                    let _ = waiting.answer.send(Err(error()));
                }
                Command::Work(work) => (work.deliver)(Err(error())),
                Command::RestartLog => {}
            }
        }
    }

    fn restart_log(&mut self) {
        if let Err(error) = self.conn.execute_batch("pragma wal_checkpoint(restart)") {
            tracing::warn!(%error, "the log could not be started over");
        }
    }
}

/// Why a group was not committed.
#[derive(Debug, thiserror::Error)]
enum GroupError {
    /// The database, or an invariant, says no to what was written: certainly nothing is.
    #[error("{0}")]
    Refused(WorkError),
    /// The disk failed before the commit: certainly nothing is written.
    #[error("{0}")]
    Failed(WorkError),
    /// The commit itself failed: nobody knows.
    #[error("{0}")]
    Lost(WorkError),
}

impl From<WorkError> for GroupError {
    fn from(error: WorkError) -> GroupError {
        match &error {
            WorkError::Sqlite(e)
                if e.sqlite_error_code() != Some(rusqlite::ErrorCode::ConstraintViolation) =>
            {
                GroupError::Failed(error)
            }
            _ => GroupError::Refused(error),
        }
    }
}

fn run(conn: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn read_head(conn: &Connection) -> rusqlite::Result<Head> {
    conn.query_row("select seq, hash from log_head where one = 1", [], |row| {
        let hash: [u8; 32] = row.get(1)?;
        Ok(Head { seq: row.get(0)?, hash: Hash32(hash) })
    })
}

/// Time never goes back, not even over a restart with a wrong clock.
fn last_time(conn: &Connection) -> rusqlite::Result<Timestamp> {
    let sql = "select coalesce((select at from events order by seq desc limit 1), 0)";
    conn.query_row(sql, [], |row| row.get(0)).map(Timestamp::from_ms)
}
