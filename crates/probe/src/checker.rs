//! Checks results of strangers' work. What has to be taken apart (pictures, sound, code) is taken
//! apart in a process of its own, which can use little and is ended if it does not come back.
//!
//! The process is a program that calls [`child`]; it says [`READY`] as soon as it has taken its
//! own rights away. A result that kills, hangs or confuses it after that has failed. A process
//! that never says it has not looked at anything, and nobody is to blame.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    path::PathBuf,
    pin::pin,
    process::Stdio,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_hire::capability;
use skep_wire::hire::{Check, Verification};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::Semaphore,
    task::spawn_blocking,
    time::timeout,
};

/// How long one look may take, from start to end.
const WALL_MAX: Duration = Duration::from_secs(5);
/// How long a check waits for its turn.
const TURN_MAX: Duration = Duration::from_secs(30);
/// Checks at once for each core of the machine.
const AT_ONCE_PER_CORE: usize = 2;
/// What a process may say, in bytes.
const ANSWER_LEN_MAX: usize = 64 * 1024;
/// Params, in bytes: a picture of ten megabytes and something to say about it.
const PARAMS_LEN_MAX: usize = 16 * 1024 * 1024;
/// A result, in bytes: two pictures of ten megabytes.
const RESULT_LEN_MAX: usize = 32 * 1024 * 1024;
/// Capability and version, in bytes.
const HEAD_LEN_MAX: usize = 1024;
/// What the process may have of the address space, in bytes.
const SPACE_MAX: u64 = 1024 * 1024 * 1024;
/// What Rust's allocator takes of that in advance, in KiB. By itself it takes all, and leaves
/// nothing for what is written in C.
const RESERVED_KIB: &str = "65536";
/// Seconds of computing; one more and there is no mercy.
const CPU_SECONDS_MAX: u64 = 2;
/// Files that are open at once.
const FILES_MAX: u64 = 16;
/// The first line of a process that is fit to look.
pub const READY: &str = "skep-check 1";
/// The check that a result fails if nobody survives to look at it.
pub const SURVIVED: &str = "decoder_survived";

/// What is to be looked at.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    capability: String,
    version: Option<String>,
}

/// Runs verification functions. Clones share the places.
#[derive(Clone, Debug)]
pub struct Checker {
    program: PathBuf,
    args: Vec<String>,
    places: Arc<Semaphore>,
}

/// Why nobody has looked at a result. It may be good or bad.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody has looked at it: {0}")]
pub struct NotLooked(pub String);

/// Why there is no verification.
enum Lost {
    /// Nobody has looked.
    NotStarted(String),
    /// Somebody has, and did not come back.
    NotSurvived(String),
}

impl Checker {
    /// The program with its arguments must call [`child`] with its own stdin and stdout.
    pub fn new(program: PathBuf, args: Vec<String>) -> Checker {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Checker { program, args, places: Arc::new(Semaphore::new(cores * AT_ONCE_PER_CORE)) }
    }

    /// 8.1: what the capability's check finds in a result.
    pub async fn verify(
        &self,
        id: &str,
        version: Option<&str>,
        params: &Value,
        result: &Value,
    ) -> Verification {
        let looked = self.look(id, version, params, result).await;
        looked.unwrap_or_else(|NotLooked(why)| Verification::not_verifiable(&why))
    }

    /// The same, and says if nobody has looked: that is no word about the result, and another time
    /// somebody may.
    pub async fn look(
        &self,
        id: &str,
        version: Option<&str>,
        params: &Value,
        result: &Value,
    ) -> Result<Verification, NotLooked> {
        // A tower of values cannot even be copied; the check sees that without climbing it.
        if !capability::is_shallow(params) || !capability::is_shallow(result) {
            return Ok(capability::verify(id, version, params, result));
        }
        let turn = timeout(TURN_MAX, self.places.acquire()).await;
        let Ok(Ok(_place)) = turn else {
            return Err(NotLooked("too many results are being looked at".to_owned()));
        };
        let looked = match capability::needs_sandbox(id) {
            false => here(id, version, params, result).await,
            true => match request(id, version, params, result) {
                Ok(request) => self.outside(&request).await,
                Err(verdict) => return Ok(*verdict),
            },
        };
        match looked {
            Ok(verification) => Ok(verification),
            Err(Lost::NotStarted(why)) => {
                tracing::warn!(why, "a result cannot be checked");
                Err(NotLooked(format!("no checker could be started: {why}")))
            }
            Err(Lost::NotSurvived(why)) => Ok(not_survived(version, why)),
        }
    }

    async fn outside(&self, request: &[u8]) -> Result<Verification, Lost> {
        let child = Command::new(&self.program)
            .args(&self.args)
            // What is in our environment (keys, passwords) is not a decoder's business.
            .env_clear()
            .env("MIMALLOC_ARENA_RESERVE", RESERVED_KIB)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Lost::NotStarted(error.to_string()))?;
        let mut said = Vec::new();
        // If the time is up, the process goes with the future that owns it.
        let ended = timeout(WALL_MAX, converse(child, request, &mut said)).await;
        let text = String::from_utf8_lossy(&said);
        let Some((READY, answer)) = text.split_once('\n') else {
            return Err(Lost::NotStarted("the program is no checker".to_owned()));
        };
        match ended {
            Err(_) => {
                let seconds = WALL_MAX.as_secs();
                Err(Lost::NotSurvived(format!("the decoder took longer than {seconds} seconds")))
            }
            Ok(Err(why)) => Err(Lost::NotSurvived(why)),
            Ok(Ok(())) => serde_json::from_str(answer)
                .map_err(|_| Lost::NotSurvived("the decoder babbled".to_owned())),
        }
    }
}

/// What needs no process of its own needs a thread of its own: others wait behind this one.
async fn here(
    id: &str,
    version: Option<&str>,
    params: &Value,
    result: &Value,
) -> Result<Verification, Lost> {
    let (id, version) = (id.to_owned(), version.map(str::to_owned));
    let (params, result) = (params.clone(), result.clone());
    let looked =
        spawn_blocking(move || capability::verify(&id, version.as_deref(), &params, &result));
    looked.await.map_err(|error| Lost::NotSurvived(error.to_string()))
}

/// Three lines: what, params, result. Each is read by itself, so that none is nested deeper for
/// the process than it was for us.
fn request(
    id: &str,
    version: Option<&str>,
    params: &Value,
    result: &Value,
) -> Result<Vec<u8>, Box<Verification>> {
    let too_long = |what: &str| Box::new(Verification::not_verifiable(&format!("{what} too long")));
    let head = Head { capability: id.to_owned(), version: version.map(str::to_owned) };
    let mut request = line(&head, HEAD_LEN_MAX).ok_or_else(|| too_long("the name is"))?;
    request.extend(line(params, PARAMS_LEN_MAX).ok_or_else(|| too_long("the params are"))?);
    let result = line(result, RESULT_LEN_MAX).ok_or_else(|| {
        let why = format!("it is longer than {RESULT_LEN_MAX} bytes");
        Box::new(failed(version, "result_size", why))
    })?;
    request.extend(result);
    Ok(request)
}

fn line(value: &impl Serialize, most: usize) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(value).ok()?;
    line.push(b'\n');
    (line.len() <= most).then_some(line)
}

/// Hands the request over and listens, both at once.
async fn converse(mut child: Child, request: &[u8], said: &mut Vec<u8>) -> Result<(), String> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no ears".to_owned());
    };
    let hand_over = async move {
        // A process that has heard enough closes its ear; what it says then decides.
        let _ = stdin.write_all(request).await;
        let _ = stdin.shutdown().await;
    };
    let mut stdout = stdout.take(ANSWER_LEN_MAX as u64 + 1);
    // Whoever has said all it may say need not listen to the end.
    let heard = {
        let mut listen = pin!(stdout.read_to_end(said));
        tokio::select! {
            heard = &mut listen => heard,
            () = hand_over => listen.await,
        }
    };
    heard.map_err(|error| format!("the decoder cannot be heard: {error}"))?;
    if said.len() > ANSWER_LEN_MAX {
        return Err("the decoder babbled".to_owned());
    }
    drop(stdout);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the decoder died: {status}")) }
}

fn not_survived(version: Option<&str>, why: String) -> Verification {
    failed(version, SURVIVED, why)
}

fn failed(version: Option<&str>, name: &str, why: String) -> Verification {
    let check = Check { name: name.to_owned(), passed: false, detail: Some(why) };
    Verification::of(version.unwrap_or("v0"), vec![check])
}

/// The other side of a [`Checker`]: takes its own rights away, reads a request, and answers. To be
/// called before any thread is started.
pub fn child(input: impl Read, mut output: impl Write) -> io::Result<()> {
    restrict()?;
    writeln!(output, "{READY}")?;
    output.flush()?;
    let mut input = BufReader::new(input);
    let head: Head = read(&mut input, HEAD_LEN_MAX)?;
    let params: Value = read(&mut input, PARAMS_LEN_MAX)?;
    let result: Value = read(&mut input, RESULT_LEN_MAX)?;
    let verification =
        capability::verify(&head.capability, head.version.as_deref(), &params, &result);
    serde_json::to_writer(&mut output, &verification)?;
    output.flush()
}

fn read<T: for<'de> Deserialize<'de>>(input: &mut impl BufRead, most: usize) -> io::Result<T> {
    let mut line = Vec::new();
    input.take(most as u64).read_until(b'\n', &mut line)?;
    Ok(serde_json::from_slice(&line)?)
}

/// What a decoder does not need it does not get.
fn restrict() -> io::Result<()> {
    let limits = [
        (Resource::As, SPACE_MAX, SPACE_MAX),
        (Resource::Cpu, CPU_SECONDS_MAX, CPU_SECONDS_MAX + 1),
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, FILES_MAX, FILES_MAX),
        (Resource::Nproc, 0, 0),
        (Resource::Core, 0, 0),
    ];
    for (resource, soft, hard) in limits {
        setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })?;
    }
    Ok(())
}
