//! A real PostgreSQL of the tests' own, in a folder that goes away.
//!
//! The server is the child of a small shell script, the keeper, which listens on a pipe. Whatever
//! ends the test process, a kill included, closes that pipe; the keeper then stops the server and
//! removes the folder. This is why a `static` may hold a server although statics are not dropped.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{free_port, wait_until_end};

const KEEPER: &str = include_str!("postgres/keeper.sh");

/// How long the server may take to start, recovery after a crash included.
const START_WITHIN: Duration = Duration::from_secs(60);

/// How often another port is tried when someone else took the one that was free.
const PORT_ATTEMPTS: u32 = 10;

#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("PostgreSQL is not installed: no initdb and postgres in PATH or /usr/lib/postgresql")]
    NotInstalled,
    #[error("PostgreSQL does not run as root, and there is no user named postgres to run it as")]
    NoUser,
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("{program} failed: {stderr}")]
    Failed { program: &'static str, stderr: String },
    #[error("the server did not start on port {port}: {log}")]
    Server { port: u16, log: String },
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> PostgresError {
    move |source| PostgresError::Io { what, source }
}

/// A running server. It trusts every connection from 127.0.0.1 and keeps `fsync` on.
#[derive(Debug)]
pub struct TempPostgres {
    bin_dir: PathBuf,
    dir: PathBuf,
    port: AtomicU16,
    databases: AtomicU64,
    keeper: Mutex<Keeper>,
}

/// The shell script that owns the server, and the two pipes to it.
#[derive(Debug)]
struct Keeper {
    script: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl TempPostgres {
    pub fn start() -> Result<Self, PostgresError> {
        Self::start_with(&[])
    }

    /// Starts a server with settings as in `postgresql.conf`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self, PostgresError> {
        let bin_dir = find_bin_dir().ok_or(PostgresError::NotInstalled)?;
        let user = User::to_run_as()?;
        let dir = create_dir(&user)?;
        let data = dir.join("data");

        let initdb = user
            .command(&bin_dir.join("initdb"))
            .args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"])
            // Only speeds up the birth of the folder: the server itself syncs as always.
            .arg("--no-sync")
            .arg("-D")
            .arg(&data)
            .current_dir(&dir)
            .output()
            .map_err(io_error("initdb did not start"))?;
        if !initdb.status.success() {
            let _ = std::fs::remove_dir_all(&dir);
            let stderr = String::from_utf8_lossy(&initdb.stderr).into_owned();
            return Err(PostgresError::Failed { program: "initdb", stderr });
        }

        let keeper = Keeper::spawn(&user, &bin_dir, &dir, settings)?;
        let this = Self {
            bin_dir,
            dir,
            port: AtomicU16::new(0),
            databases: AtomicU64::new(0),
            keeper: Mutex::new(keeper),
        };
        this.start_on_a_free_port()?;
        Ok(this)
    }

    /// The server that all tests of this process share; each takes a database of its own from it.
    ///
    /// # Panics
    /// When it cannot be started: no test that asks for it could go on.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TempPostgres> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start() {
            Ok(server) => server,
            Err(error) => panic!("no PostgreSQL for the tests: {error}"),
        })
    }

    /// The database that every server has.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.port.load(Ordering::Relaxed)
    }

    /// Where `pgbench`, `pg_dump` and the others of the same version are.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.dir.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The ids of the server's processes that live now.
    pub fn processes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.join("data/postmaster.pid"));
        let Some(server) = text.ok().and_then(|text| text.lines().next().map(str::to_owned)) else {
            return Vec::new();
        };
        let parent = |pid: &str| -> Option<String> {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in brackets may hold anything; the state and the parent come after it.
            stat.rsplit(')').next()?.split_whitespace().nth(1).map(str::to_owned)
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| entry.file_name().into_string().ok());
        let own = |pid: &String| *pid == server || parent(pid).as_ref() == Some(&server);
        all.filter(own).collect()
    }

    /// Creates an empty database and returns its URL. Of the prefix only letters, digits and
    /// `_` are kept.
    pub fn create_database(&self, prefix: &str) -> Result<String, PostgresError> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let prefix: String = prefix
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            // The server cuts names at 63 bytes, which would make two of them equal.
            .take(40)
            .collect();
        let name = format!("t_{prefix}_{number}");
        self.psql("postgres", &format!("create database {name}"))?;
        Ok(self.url_of(&name))
    }

    /// Runs a script through `psql` and returns the rows, one per line, columns apart by `|`.
    pub fn psql(&self, database: &str, script: &str) -> Result<String, PostgresError> {
        let own = self.bin_dir.join("psql");
        let program = if own.exists() { own } else { PathBuf::from("psql") };
        let output = Command::new(program)
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.url_of(database))
            .args(["-c", script])
            .stdin(Stdio::null())
            .output()
            .map_err(io_error("psql did not start"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
        } else {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(PostgresError::Failed { program: "psql", stderr })
        }
    }

    /// Stops the server at once, without a checkpoint and without a word to its clients, as a
    /// crash would. Not on the shared server: the other tests use it.
    pub fn crash(&self) -> Result<(), PostgresError> {
        self.keeper().order("crash").map(drop)
    }

    /// Stops the server in order, or finds it stopped, and starts it again on the same port.
    pub fn restart(&self) -> Result<(), PostgresError> {
        let mut keeper = self.keeper();
        keeper.order("stop")?;
        self.start_on(&mut keeper, self.port())
    }

    fn start_on_a_free_port(&self) -> Result<(), PostgresError> {
        let mut keeper = self.keeper();
        let mut attempt = 1;
        loop {
            let port = free_port();
            self.port.store(port, Ordering::Relaxed);
            match self.start_on(&mut keeper, port) {
                Err(PostgresError::Server { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("could not bind") =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn start_on(&self, keeper: &mut Keeper, port: u16) -> Result<(), PostgresError> {
        let logged = self.log().len();
        let pid = keeper.order(&format!("start {port}"))?;
        let began = Instant::now();
        while !self.is_ready() {
            if !is_alive(&pid) || began.elapsed() > START_WITHIN {
                keeper.order("crash")?;
                let log = self.log().get(logged..).unwrap_or_default().to_owned();
                return Err(PostgresError::Server { port, log });
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The eighth line of this file is how `pg_ctl` sees that connections are accepted.
    fn is_ready(&self) -> bool {
        let Ok(text) = std::fs::read_to_string(self.dir.join("data/postmaster.pid")) else {
            return false;
        };
        text.lines().nth(7).is_some_and(|status| status.trim() == "ready")
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    fn spawn(
        user: &User,
        bin_dir: &Path,
        dir: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, PostgresError> {
        let mut script = user
            .command(Path::new("sh"))
            .args(["-c", KEEPER, "keeper"])
            .arg(bin_dir)
            .arg(dir)
            .args(settings.iter().flat_map(|(name, value)| {
                [OsString::from("-c"), OsString::from(format!("{name}={value}"))]
            }))
            .current_dir("/")
            // Ctrl-C at the terminal reaches the test alone; the keeper lives on to tidy up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io_error("the keeper of the server did not start"))?;
        let orders = script.stdin.take();
        let answers = BufReader::new(script.stdout.take().expect("stdout was piped above"));
        Ok(Self { script, orders, answers })
    }

    fn order(&mut self, order: &str) -> Result<String, PostgresError> {
        let mut exchange = || {
            let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            writeln!(orders, "{order}")?;
            let mut answer = String::new();
            match self.answers.read_line(&mut answer)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(answer.trim().to_owned()),
            }
        };
        exchange().map_err(io_error("the keeper of the server is gone"))
    }
}

impl Drop for TempPostgres {
    fn drop(&mut self) {
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(keeper.orders.take());
        // The server itself waits at most five seconds for its children.
        if !matches!(wait_until_end(&mut keeper.script, Duration::from_secs(20)), Ok(Some(_))) {
            let _ = keeper.script.kill();
            let _ = keeper.script.wait();
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Who owns the server: PostgreSQL refuses to run as root.
enum User {
    Ourselves,
    Postgres { uid: u32, gid: u32 },
}

impl User {
    fn to_run_as() -> Result<Self, PostgresError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        let id = |flag| {
            let output = Command::new("id").args([flag, "postgres"]).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse().ok()
        };
        match (id("-u"), id("-g")) {
            (Some(uid), Some(gid)) => Ok(Self::Postgres { uid, gid }),
            _ => Err(PostgresError::NoUser),
        }
    }

    fn command(&self, program: &Path) -> Command {
        match self {
            Self::Ourselves => Command::new(program),
            Self::Postgres { uid, gid } => {
                let mut command = Command::new("setpriv");
                command
                    .args([format!("--reuid={uid}"), format!("--regid={gid}")])
                    .args(["--init-groups", "--"])
                    .arg(program);
                command
            }
        }
    }
}

fn create_dir(user: &User) -> Result<PathBuf, PostgresError> {
    let mut parent = std::env::temp_dir();
    // Root's own temporary folder may be closed to the user that owns the server.
    if matches!(user, User::Postgres { .. }) && !parent.ancestors().all(is_open_to_all) {
        parent = PathBuf::from("/tmp");
    }
    let dir = tempfile::Builder::new()
        .prefix("skep-pg-")
        .tempdir_in(parent)
        .map_err(io_error("no temporary folder for the server"))?;
    if let User::Postgres { uid, gid } = *user {
        chown(dir.path(), Some(uid), Some(gid))
            .map_err(io_error("the folder cannot be given to the server's user"))?;
    }
    Ok(dir.keep())
}

fn is_open_to_all(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0)
}

/// PATH first, because who puts a version there means it; then the newest that Debian installed.
fn find_bin_dir() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A link leads to the folder where the other programs of that version are.
    let in_path = std::env::split_paths(&path)
        .filter_map(|dir| dir.join("initdb").canonicalize().ok()?.parent().map(Path::to_owned));
    let mut installed: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    installed.sort_unstable_by(|a, b| b.cmp(a));
    in_path
        .chain(installed.into_iter().map(|(_, dir)| dir))
        .find(|dir| dir.join("initdb").exists() && dir.join("postgres").exists())
}

/// A child that ended stays in `/proc` as a zombie until the keeper waits for it.
fn is_alive(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests;
