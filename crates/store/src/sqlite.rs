//! The embedded engine: SQLite with one writer, group commit and readers that never wait for it.

pub(crate) mod apply;
pub(crate) mod audit;
mod checkpoint;
mod jobs;
mod known;
pub(crate) mod listings;
mod read;
pub(crate) mod score_facts;
mod writer;

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig};
use skep_base::Clock;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub(crate) use self::writer::WorkError;
use self::writer::{Command, Desk, Waiting, Work, Writer};
use crate::{
    error::{OpenError, StoreError},
    event::Head,
    group::Commits,
    migrate,
    turn::{Call, Outcome},
};

/// Calls that wait for the writer. Past that, callers wait to be let in.
const QUEUE_MAX: usize = 4096;
/// Readers at the same time.
const READERS_MAX: usize = 4;
/// What is kept of the log's file when it starts over: writing over what is there costs less than
/// growing it anew. More than the checkpointer lets it grow to, as a rule.
const LOG_BYTES_KEPT: u64 = 64 << 20;
/// How long one read may last: a reader that stays keeps the log from starting over.
const READ_AGE_MAX: Duration = Duration::from_secs(5);
/// Checks of the whole database may take longer.
const AUDIT_AGE_MAX: Duration = Duration::from_secs(3600);

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// When it is on the disk. The only choice for money.
    Full,
    /// When the operating system has it. Loses acknowledged commits in a power cut: it is here to
    /// prove that the power-cut test can fail, and as a figure to compare with.
    Normal,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) path: PathBuf,
    pub(crate) synchronous: Synchronous,
}

/// A database in one file, with its threads.
#[derive(Debug)]
pub(crate) struct Sqlite {
    settings: Settings,
    commands: mpsc::Sender<Command>,
    head: watch::Receiver<Head>,
    readers: Mutex<Vec<Connection>>,
    reader_places: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    commits: Arc<Commits>,
    _checkpointer: Option<checkpoint::Checkpointer>,
    writer_thread: Option<std::thread::JoinHandle<()>>,
    /// Keeps a second process out; freed by the operating system whatever happens to us.
    _lock: Option<File>,
}

impl Sqlite {
    pub(crate) fn open(
        path: &Path,
        synchronous: Synchronous,
        clock: Arc<dyn Clock>,
    ) -> Result<Sqlite, OpenError> {
        let lock = lock(path)?;
        make_private(path)?;
        let settings = Settings { path: path.to_owned(), synchronous };
        let mut conn = connect(&settings).map_err(failed)?;
        migrate(&mut conn)?;
        let (commands, queue) = mpsc::channel(QUEUE_MAX);
        let (head_seen, head) = watch::channel(Head::START);
        let commits = Arc::new(Commits::default());
        let counted = commits.clone();
        let writer = Writer::new(settings.clone(), clock.clone(), queue, head_seen, conn, counted)
            .map_err(failed)?;
        let writer_thread = std::thread::Builder::new()
            .name("skep-writer".into())
            .spawn(move || writer.run())
            .map_err(|e| OpenError::Failed(e.to_string()))?;
        let checkpointer = checkpoint::start(settings.clone(), commands.downgrade())
            .map_err(|e| OpenError::Failed(e.to_string()))?;
        Ok(Sqlite {
            settings,
            commands,
            head,
            readers: Mutex::default(),
            reader_places: Arc::new(Semaphore::new(READERS_MAX)),
            clock,
            commits,
            _checkpointer: Some(checkpointer),
            writer_thread: Some(writer_thread),
            _lock: Some(lock),
        })
    }

    /// A database that is read beside whoever writes it: without its lock, and without a writer.
    pub(crate) fn beside(path: &Path, clock: Arc<dyn Clock>) -> Result<Sqlite, OpenError> {
        let settings = Settings { path: path.to_owned(), synchronous: Synchronous::Full };
        let reader = audit::reader(&settings)?;
        let (commands, _) = mpsc::channel(1);
        let (_, head) = watch::channel(Head::START);
        Ok(Sqlite {
            settings,
            commands,
            head,
            readers: Mutex::new(vec![reader]),
            reader_places: Arc::new(Semaphore::new(READERS_MAX)),
            clock,
            commits: Arc::default(),
            _checkpointer: None,
            writer_thread: None,
            _lock: None,
        })
    }

    pub(crate) fn head(&self) -> watch::Receiver<Head> {
        self.head.clone()
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Runs a call in the next group.
    pub(crate) async fn call(&self, call: Call) -> Result<Outcome, StoreError> {
        let mut entropy = [0; 16];
        getrandom::fill(&mut entropy).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { call, entropy, answer };
        self.commands.send(Command::Call(waiting)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| StoreError::Unknown("the writer ended".to_owned()))?
    }

    /// Runs a piece of work in the next group and answers after its commit.
    async fn submit<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Desk<'_>) -> Result<T, WorkError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let slot = Arc::new(Mutex::new(None));
        let filled = slot.clone();
        let work = Work {
            run: Box::new(move |desk| {
                let value = run(desk)?;
                *filled.lock().unwrap_or_else(|e| e.into_inner()) = Some(value);
                Ok(())
            }),
            deliver: Box::new(move |result| {
                // A caller that no longer listens has lost the answer, not the write.
                let _ = answer.send(result);
            }),
        };
        self.commands.send(Command::Work(work)).await.map_err(|_| closed())?;
        answered.await.map_err(|_| StoreError::Unknown("the writer ended".to_owned()))??;
        let value = slot.lock().unwrap_or_else(|e| e.into_inner()).take();
        value.ok_or_else(|| StoreError::Unavailable("the writer gave no answer".to_owned()))
    }

    /// Reads from a snapshot, beside the writer.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        age_max: Duration,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let this = self.clone();
        let unavailable = |e: &dyn std::fmt::Display| StoreError::Unavailable(e.to_string());
        let places = self.reader_places.clone();
        let place = places.acquire_owned().await.map_err(|e| unavailable(&e))?;
        tokio::task::spawn_blocking(move || {
            // The place is taken until the read ends, even if nobody waits for it any more.
            let _place = place;
            this.read_now(age_max, run)
        })
        .await
        .map_err(|e| unavailable(&e))?
        .map_err(|e| unavailable(&e))
    }

    fn read_now<T>(
        &self,
        age_max: Duration,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let pooled = self.readers.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let mut conn = match pooled {
            Some(conn) => conn,
            None => connect_reader(&self.settings)?,
        };
        let deadline = Instant::now() + age_max;
        conn.progress_handler(10_000, Some(move || Instant::now() > deadline))?;
        conn.prepare_cached("begin")?.execute([])?;
        let result = run(&conn);
        conn.prepare_cached("commit")?.execute([])?;
        self.readers.lock().unwrap_or_else(|e| e.into_inner()).push(conn);
        result
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // The writer finishes what it has accepted, then ends as its last sender is gone.
        let (nobody, _) = mpsc::channel(1);
        self.commands = nobody;
        // A call that is dropped by the writer itself may hold the last of the store.
        if let Some(thread) = self.writer_thread.take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the writer ended in a panic");
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

fn failed(error: rusqlite::Error) -> OpenError {
    OpenError::Failed(error.to_string())
}

/// A second process with its own writer would break the group commit and the event chain.
fn lock(path: &Path) -> Result<File, OpenError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let io_failed = |e: io::Error| OpenError::Failed(format!("{}: {e}", folder.display()));
    fs::create_dir_all(folder).map_err(io_failed)?;
    let lock_path = path.with_extension("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(io_failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::Locked { path: path.display().to_string() })
        }
        Err(TryLockError::Error(e)) => Err(io_failed(e)),
    }
}

/// Everybody's balances are nobody else's business: SQLite gives its log the database's mode.
fn make_private(path: &Path) -> Result<(), OpenError> {
    let made = File::options().create(true).append(true).mode(0o600).open(path);
    made.map(drop).map_err(|e| OpenError::Failed(format!("{}: {e}", path.display())))
}

/// A connection that may write.
pub(crate) fn connect(settings: &Settings) -> rusqlite::Result<Connection> {
    let conn = Connection::open(&settings.path)?;
    conn.set_prepared_statement_cache_capacity(128);
    conn.busy_timeout(Duration::from_millis(100))?;
    let synchronous = match settings.synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    // Checkpoints belong to the checkpointer, off the writer's path.
    conn.execute_batch(&format!(
        "pragma journal_mode = wal; pragma synchronous = {synchronous};
         pragma wal_autocheckpoint = 0; pragma temp_store = memory;
         pragma cache_size = -65536; pragma trusted_schema = off;
         pragma journal_size_limit = {LOG_BYTES_KEPT};"
    ))?;
    keep_plans(&conn)?;
    Ok(conn)
}

/// Plans do not depend on what is bound: otherwise every `limit ?` is compiled anew each time.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// A connection that only reads.
fn connect_reader(settings: &Settings) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(&settings.path, flags)?;
    conn.set_prepared_statement_cache_capacity(64);
    conn.busy_timeout(Duration::from_millis(1000))?;
    conn.execute_batch("pragma query_only = on; pragma temp_store = memory;")?;
    keep_plans(&conn)?;
    Ok(conn)
}

pub(crate) fn migrate(conn: &mut Connection) -> Result<(), OpenError> {
    let tx =
        conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    tx.execute_batch(
        "create table if not exists schema_migrations (
             number integer primary key, name text not null, fingerprint text not null
         ) strict",
    )
    .map_err(failed)?;
    let applied: Vec<(i64, String)> = tx
        .prepare("select number, fingerprint from schema_migrations order by number")
        .and_then(|mut s| s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)?;
    for step in migrate::pending(migrate::SQLITE, &applied)? {
        tx.execute_batch(step.sql).map_err(failed)?;
        tx.execute(
            "insert into schema_migrations (number, name, fingerprint) values (?1, ?2, ?3)",
            (step.number, step.name, step.fingerprint().to_string()),
        )
        .map_err(failed)?;
        tracing::info!(number = step.number, name = step.name, "the schema was moved on");
    }
    // One transaction for all: an unknown newer schema or a crash leaves everything as it was.
    tx.commit().map_err(failed)
}
