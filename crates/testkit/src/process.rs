//! Real server processes: started, waited for, measured, killed.

use std::io::{self, BufRead, BufReader, Read, Seek};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::rng::Rng;

/// How long a server may take to say that it serves, on a machine that is busy with other tests.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// How long a server may take to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(30);

/// What is kept of a server's stderr, so that a chatty server does not fill the memory.
const KEPT_STDERR_BYTES: usize = 256 * 1024;

/// Where free ports are looked for: below the range from which Linux takes the ports of outgoing
/// connections, so that none of those can take the port while a server restarts.
const PORTS: std::ops::Range<u16> = 20_000..32_768;

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("{program} did not start")]
    Spawn { program: String, source: io::Error },
    #[error("{program} ended before it was ready; its stderr:\n{stderr}")]
    EndedEarly { program: String, stderr: String },
    #[error("{program} was not ready within {within:?}; its stderr:\n{stderr}")]
    NotReady { program: String, within: Duration, stderr: String },
    #[error("process {pid} did not end within {within:?} of SIGTERM; its stderr:\n{stderr}")]
    DidNotEnd { pid: u32, within: Duration, stderr: String },
    #[error("process {pid} could not be watched")]
    Watch { pid: u32, source: io::Error },
}

/// A server that has printed `ready URL`. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    url: String,
    stdout: Arc<Mutex<Vec<String>>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Child {
    /// Starts the command and waits until it prints a line that begins with `ready `.
    pub fn spawn(command: &mut Command) -> Result<Self, ProcessError> {
        Self::spawn_when(command, |line| line.strip_prefix("ready "))
    }

    /// Starts the command and waits until it prints a line in which `find` sees its address.
    pub fn spawn_when(
        command: &mut Command,
        find: fn(&str) -> Option<&str>,
    ) -> Result<Self, ProcessError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| ProcessError::Spawn { program: program.clone(), source })?;
        let out = child.stdout.take().expect("stdout was piped above");
        let err = child.stderr.take().expect("stderr was piped above");

        let stdout = Arc::new(Mutex::new(Vec::new()));
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let (ready, is_ready) = mpsc::channel();
        let keep_lines = Arc::clone(&stdout);
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if let Some(url) = find(&line) {
                    // Nobody listens after the first one.
                    let _ = ready.send(url.trim().to_owned());
                }
                locked(&keep_lines).push(line);
            }
        });
        let keep_bytes = Arc::clone(&stderr);
        thread::spawn(move || keep_tail(err, &keep_bytes));

        // The guard exists before the wait, so that a server that is never ready is ended too.
        let mut this = Self { child, url: String::new(), stdout, stderr };
        match is_ready.recv_timeout(READY_WITHIN) {
            Ok(url) => {
                this.url = url;
                Ok(this)
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                Err(ProcessError::NotReady { program, within: READY_WITHIN, stderr: this.stderr() })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                // A moment for the other reader to see what the server said last.
                this.kill9();
                thread::sleep(Duration::from_millis(50));
                Err(ProcessError::EndedEarly { program, stderr: this.stderr() })
            }
        }
    }

    /// The address that the server printed.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The lines of stdout so far.
    pub fn stdout(&self) -> Vec<String> {
        locked(&self.stdout).clone()
    }

    /// The end of stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&locked(&self.stderr)).into_owned()
    }

    /// SIGKILL, and waits for the end. A process that has ended already is left as it is.
    pub fn kill9(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, and waits for the end.
    pub fn terminate(&mut self) -> Result<ExitStatus, ProcessError> {
        let pid = self.pid();
        let watch = |source| ProcessError::Watch { pid, source };
        if let Some(status) = self.child.try_wait().map_err(watch)? {
            return Ok(status);
        }
        rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|errno| watch(errno.into()))?;
        match wait_until_end(&mut self.child, END_WITHIN).map_err(watch)? {
            Some(status) => Ok(status),
            None => {
                self.kill9();
                Err(ProcessError::DidNotEnd { pid, within: END_WITHIN, stderr: self.stderr() })
            }
        }
    }

    /// Waits for the server to end by itself; `None` when it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, ProcessError> {
        let pid = self.pid();
        wait_until_end(&mut self.child, limit).map_err(|source| ProcessError::Watch { pid, source })
    }

    /// The memory that the process holds now.
    pub fn rss_kib(&self) -> Result<u64, ProcessError> {
        self.memory_kib("VmRSS:")
    }

    /// Without the pages of the program's file, of which a build for tests has many.
    pub fn own_kib(&self) -> Result<u64, ProcessError> {
        self.memory_kib("RssAnon:")
    }

    fn memory_kib(&self, name: &str) -> Result<u64, ProcessError> {
        let pid = self.pid();
        memory_kib(pid, name).map_err(|source| ProcessError::Watch { pid, source })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Run {
    pub status: ExitStatus,
    /// Whether it was killed because its time was over.
    pub killed: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command, and kills it and all that it started when it still runs after `limit`.
pub fn run_until(command: &mut Command, limit: Duration) -> io::Result<Run> {
    // Files, not pipes: nobody has to read while it runs, and a kill leaves them as they are.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()?;
    let ended = wait_until_end(&mut child, limit)?;
    let status = match ended {
        Some(status) => status,
        None => {
            rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?
        }
    };
    let text = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (stdout, stderr) = (text(&mut stdout)?, text(&mut stderr)?);
    Ok(Run { status, killed: ended.is_none(), stdout, stderr })
}

/// A kind of resident memory of any process, from `/proc`.
fn memory_kib(pid: u32, name: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("process {pid} holds no memory: it has ended")))
}

/// A port on 127.0.0.1 that nobody listens on now. Another process may still take it first, so
/// who starts a server on it tries again with another.
pub fn free_port() -> u16 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // Test binaries that run at the same time begin at different places.
    let mut rng = Rng::new(u64::from(std::process::id()) << 32 | call);
    let count = u64::from(PORTS.end - PORTS.start);
    loop {
        let port = PORTS.start + rng.below(count) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

pub(crate) fn wait_until_end(
    child: &mut std::process::Child,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn keep_tail(mut from: impl Read, tail: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 8192];
    while let Ok(n) = from.read(&mut buffer) {
        if n == 0 {
            return;
        }
        let mut tail = locked(tail);
        tail.extend_from_slice(&buffer[..n]);
        let surplus = tail.len().saturating_sub(KEPT_STDERR_BYTES);
        tail.drain(..surplus);
    }
}

/// A panic in one test must not hide what the others have to say.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn waits_for_the_ready_line() {
        let mut server =
            Child::spawn(&mut sh("echo hello; echo ready http://127.0.0.1:1; exec sleep 100"))
                .unwrap();
        assert_eq!(server.url(), "http://127.0.0.1:1");
        assert!(server.rss_kib().unwrap() > 0);
        assert!(!server.terminate().unwrap().success());
        assert_eq!(server.stdout()[0], "hello");
    }

    #[test]
    fn tells_what_a_server_said_that_ended_early() {
        let error = Child::spawn(&mut sh("echo no disk >&2; exit 3")).unwrap_err();
        assert!(error.to_string().contains("no disk"), "{error}");
    }

    #[test]
    fn a_dropped_server_is_gone() {
        let server = Child::spawn(&mut sh("echo ready now; exec sleep 100")).unwrap();
        let pid = server.pid();
        drop(server);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_all_that_it_started() {
        let run = run_until(&mut sh("echo one; echo two >&2"), Duration::from_secs(60)).unwrap();
        assert!(run.status.success() && !run.killed);
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("one\n", "two\n"));
        let run = run_until(&mut sh("sleep 1000 & echo $!; wait"), Duration::from_secs(2));
        let run = run.unwrap();
        assert!(run.killed && !run.status.success());
        let pid: u32 = run.stdout.trim().parse().unwrap();
        // It dies a moment after the signal, and nobody may be there to wait for it.
        let start = Instant::now();
        let lives = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
        while lives().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(start.elapsed() < END_WITHIN, "{pid} still runs");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_free_port_can_be_bound() {
        let port = free_port();
        assert!(PORTS.contains(&port));
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
