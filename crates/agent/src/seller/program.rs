//! A program as work: parameters as JSON on its stdin, the result as JSON from its stdout.
//!
//! It gets a folder of its own that is gone afterwards, and nothing of this process's environment.
//! It runs in a process group of its own, which is killed as a whole: when its time is over, when
//! it says too much, when it has ended and left others behind.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};

use super::work::{Boxed, Brief, JobContext, Scoped, Work, WorkError};

/// The longest result of a program, in bytes.
pub const STDOUT_LEN_MAX: usize = 16 * 1024 * 1024;
/// What is kept of a program's complaints, in bytes.
pub const STDERR_KEPT: usize = 64 * 1024;
/// What a buyer is told of them, in characters.
const LAST_WORDS_MAX: usize = 300;
/// Where programs are looked for when this process has no PATH itself.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct ProgramWork {
    program: PathBuf,
    args: Vec<OsString>,
}

impl ProgramWork {
    /// A path with a slash is taken from here; runs have another working folder.
    pub fn new(program: impl Into<PathBuf>, args: Vec<OsString>) -> ProgramWork {
        let program = program.into();
        let named = program.components().count() > 1;
        let program = match std::path::absolute(&program) {
            Ok(absolute) if named => absolute,
            _ => program,
        };
        ProgramWork { program, args }
    }

    async fn run_once(
        &self,
        input: Vec<u8>,
        capability: &str,
        limit: Duration,
    ) -> Result<Value, WorkError> {
        let not_started = |e: std::io::Error| WorkError::NotStarted(e.to_string());
        let folder = tempfile::Builder::new().prefix("skep-run-").tempdir().map_err(not_started)?;
        let path = std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into());
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .env("PATH", path)
            .env("LANG", "C.UTF-8")
            .env("SKEP_CAPABILITY", capability)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(not_started)?;
        // Also when this future is dropped half-way.
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let spoken = tokio::time::timeout(limit, talk(&mut child, &mut group, input)).await;
        drop(group);
        let _ = child.wait().await;
        // Removing many files takes time that others should not wait for.
        let _ = tokio::task::spawn_blocking(move || drop(folder)).await;
        let (status, stdout, stderr) = match spoken {
            Err(_) => return Err(WorkError::TimedOut(limit)),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(spoken)) => spoken,
        };
        if !stderr.is_empty() {
            tracing::debug!(stderr = %String::from_utf8_lossy(&stderr), "the program's stderr");
        }
        if !status.success() {
            return Err(WorkError::Failed(last_words(status, &stderr)));
        }
        skep_base::json::parse(&stdout).map_err(|error| WorkError::NotJson(error.to_string()))
    }
}

/// Kills a whole process group when dropped.
struct Group(Option<Pid>);

impl Group {
    /// Once only: afterwards the number may be another group's.
    fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // It may have ended by itself, with all that it started.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

type Spoken = (ExitStatus, Vec<u8>, Vec<u8>);

/// Writes, reads and waits at the same time, so that no pipe runs full.
async fn talk(child: &mut Child, group: &mut Group, input: Vec<u8>) -> Result<Spoken, WorkError> {
    let lost = |what: &str| WorkError::NotStarted(format!("its {what} is not there"));
    let mut stdin = child.stdin.take().ok_or_else(|| lost("stdin"))?;
    let mut stdout = child.stdout.take().ok_or_else(|| lost("stdout"))?;
    let mut stderr = child.stderr.take().ok_or_else(|| lost("stderr"))?;
    let writing = async move {
        // A program that does not want to know its parameters may close its stdin.
        let _ = stdin.write_all(&input).await;
        let _ = stdin.shutdown().await;
    };
    let reading = async {
        let mut result = Vec::new();
        let read = (&mut stdout).take(STDOUT_LEN_MAX as u64 + 1).read_to_end(&mut result).await;
        read.map_err(|error| WorkError::Failed(error.to_string()))?;
        match result.len() > STDOUT_LEN_MAX {
            true => Err(WorkError::TooLong { max: STDOUT_LEN_MAX }),
            false => Ok(result),
        }
    };
    let listening = async { Ok::<_, WorkError>(tail(&mut stderr).await) };
    let ending = async {
        let status = child.wait().await;
        // What it left behind would hold its pipes open.
        group.kill();
        status.map_err(|error| WorkError::Failed(error.to_string()))
    };
    let writing = async {
        writing.await;
        Ok::<(), WorkError>(())
    };
    let (status, result, complaints, ()) = tokio::try_join!(ending, reading, listening, writing)?;
    Ok((status, result, complaints))
}

/// The end of what somebody says.
async fn tail(from: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(STDERR_KEPT);
        kept.drain(..surplus);
    }
    kept
}

/// The last line of the complaints, or how the program ended.
fn last_words(status: ExitStatus, stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let plain = |line: &str| {
        let chars = line.chars().filter(|c| !c.is_control());
        chars.take(LAST_WORDS_MAX).collect::<String>()
    };
    line.map_or_else(|| status.to_string(), plain)
}

impl Work for ProgramWork {
    fn run(&self, params: Value, context: JobContext) -> Boxed<'_, Result<Value, WorkError>> {
        Box::pin(async move {
            let input = params.to_string().into_bytes();
            self.run_once(input, &context.capability, context.time_limit).await
        })
    }

    fn scope(&self, brief: Brief, limit: Duration) -> Boxed<'_, Result<Scoped, WorkError>> {
        Box::pin(async move {
            let capability = brief.capability.clone();
            let input = json!({ "clarify": brief }).to_string().into_bytes();
            let said = self.run_once(input, &capability, limit).await?;
            serde_json::from_value(said).map_err(|error| WorkError::NotJson(error.to_string()))
        })
    }
}
