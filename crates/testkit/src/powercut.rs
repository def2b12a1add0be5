//! Power loss, replayed: what a disk may hold when the current goes at any moment of a real run.
//!
//! A child runs under `strace`. From the trace we know every write, every sync and every line
//! `ACK text` that the child told the world. For a moment of that run a directory is rebuilt as
//! a disk might have kept it: what was synced is there; of what was not, each write is there,
//! missing, or torn between 512-byte sectors. The test then opens that directory and asks whether
//! all that was acknowledged is still true.
//!
//! Names are kinder than on a real disk: a created, renamed or removed file is so at once.
//!
//! ```no_run
//! # use std::process::Command;
//! # fn check(dir: &std::path::Path, acknowledged: &[String]) {}
//! use skep_testkit::powercut;
//!
//! let data = tempfile::tempdir().unwrap();
//! let trace = powercut::record(Command::new("my-writer").arg(data.path()), data.path()).unwrap();
//! for cut in trace.cuts(1, 500) {
//!     let disk = tempfile::tempdir().unwrap();
//!     let acknowledged = cut.rebuild(disk.path()).unwrap();
//!     check(disk.path(), &acknowledged);
//! }
//! ```

mod parse;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::rng::Rng;

/// Disks write a sector wholly or not at all.
const SECTOR_BYTES: u64 = 512;

/// How long `strace` may take to write its last line after the child has ended.
const LAST_LINE_WITHIN: Duration = Duration::from_secs(60);

/// What changes a file or its name, what makes it durable, what acknowledges, and what we must
/// refuse because we could not replay it. `?` marks calls that some processors do not have.
const TRACED: &str = "trace=openat,?open,?creat,read,readv,lseek,close,write,writev,pwrite64,\
    pwritev,pwritev2,fsync,fdatasync,truncate,ftruncate,fallocate,?unlink,unlinkat,?rename,\
    ?renameat,renameat2,?link,linkat,sendto,sendmsg,mmap,copy_file_range,sendfile,splice,\
    io_uring_setup";

#[derive(Debug, thiserror::Error)]
pub enum PowercutError {
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error("the child failed with {status}; its stderr:\n{stderr}")]
    Child { status: std::process::ExitStatus, stderr: String },
    #[error("the trace did not end within {LAST_LINE_WITHIN:?} of the child")]
    Unended,
    #[error("line {line} of the trace cannot be read: {text}")]
    Syntax { line: usize, text: String },
    #[error("line {line} of the trace changes a file in a way that cannot be replayed: {text}")]
    Unmodelled { line: usize, text: String },
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> PowercutError {
    move |source| PowercutError::Io { what, source }
}

/// Runs a child to its successful end and returns what it did below `dir`.
pub fn record(command: &Command, dir: &Path) -> Result<Trace, PowercutError> {
    let recorder = Recorder::new(dir)?;
    let output = recorder
        .command(command)
        .stdin(Stdio::null())
        .output()
        .map_err(io_error("strace did not start"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(PowercutError::Child { status: output.status, stderr });
    }
    recorder.finish()
}

/// Records a child that the test starts, drives and ends by itself.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
    trace: tempfile::TempDir,
}

impl Recorder {
    /// What is in `dir` now counts as durable.
    pub fn new(dir: &Path) -> Result<Self, PowercutError> {
        let dir = dir.canonicalize().map_err(io_error("the directory to watch is not there"))?;
        let mut before = BTreeMap::new();
        read_files(&dir, &mut before).map_err(io_error("the directory cannot be read"))?;
        let trace = tempfile::tempdir().map_err(io_error("no folder for the trace"))?;
        Ok(Self { dir, before, trace })
    }

    /// The same command under `strace`. The process that is started is still the child itself, so
    /// that it can be killed, measured and waited for.
    pub fn command(&self, command: &Command) -> Command {
        let mut traced = Command::new("strace");
        traced
            .args(["-D", "-f", "-y", "-xx", "-s", "67108864", "-e", "signal=none", "-e", TRACED])
            .arg("-o")
            .arg(self.trace_file())
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(cwd) = command.get_current_dir() {
            traced.current_dir(cwd);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => traced.env(name, value),
                None => traced.env_remove(name),
            };
        }
        traced
    }

    /// Reads the trace once the child has ended.
    pub fn finish(self) -> Result<Trace, PowercutError> {
        let start = Instant::now();
        loop {
            let bytes = fs::read(self.trace_file()).map_err(io_error("no trace was written"))?;
            let text = String::from_utf8_lossy(&bytes);
            if parse::is_whole(&text) {
                return Trace::parse(&text, &self.dir, &self.before);
            }
            if start.elapsed() > LAST_LINE_WITHIN {
                return Err(PowercutError::Unended);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn trace_file(&self) -> PathBuf {
        self.trace.path().join("trace")
    }
}

/// A moment of the run. Calls take time: they have a moment when they begin and one when they end.
type Moment = usize;

/// The end of a call that never returned.
const NEVER: Moment = usize::MAX;

type FileId = usize;

#[derive(Debug)]
struct Op {
    began: Moment,
    ended: Moment,
    change: Change,
}

#[derive(Debug)]
enum Change {
    Write { at: u64, bytes: Vec<u8> },
    SetLen(u64),
    Sync,
}

#[derive(Debug)]
enum Naming {
    Create { path: PathBuf, file: FileId },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
}

/// One file by identity, whatever it is called.
#[derive(Debug, Default)]
struct File {
    before: Vec<u8>,
    ops: Vec<Op>,
}

/// All that a run did to the files below one directory, and what it acknowledged.
#[derive(Debug)]
pub struct Trace {
    files: Vec<File>,
    names_before: BTreeMap<PathBuf, FileId>,
    namings: Vec<(Moment, Naming)>,
    acks: Vec<(Moment, String)>,
    /// What was sent over sockets, and when it may have been seen at the other end.
    sent: Vec<(Moment, Vec<u8>)>,
}

impl Trace {
    /// Reads the output of `strace -f -y -xx`. `before` holds the files of `dir` at the start, by
    /// their paths below it.
    fn parse(
        text: &str,
        dir: &Path,
        before: &BTreeMap<PathBuf, Vec<u8>>,
    ) -> Result<Self, PowercutError> {
        let mut trace = parse::parse(text, dir, before)?;
        for file in &mut trace.files {
            file.ops.sort_by_key(|op| op.began);
        }
        trace.acks.sort_by_key(|(moment, _)| *moment);
        Ok(trace)
    }

    /// All that the whole run acknowledged, in order.
    pub fn acks(&self) -> Vec<String> {
        self.acks_before(NEVER)
    }

    /// Also counts as acknowledged what `read` finds in the bytes sent over sockets, one call per
    /// send: for servers whose answers are their acknowledgements.
    pub fn acknowledge_sent(&mut self, read: impl Fn(&[u8]) -> Vec<String>) {
        for (moment, bytes) in &self.sent {
            self.acks.extend(read(bytes).into_iter().map(|text| (*moment, text)));
        }
        self.acks.sort_by_key(|(moment, _)| *moment);
    }

    /// `n` power cuts at random moments. The same trace and seed give the same cuts.
    pub fn cuts(&self, seed: u64, n: usize) -> impl Iterator<Item = Cut<'_>> {
        let moments = self.moments();
        let mut seeds = Rng::new(seed);
        (0..n).map(move |_| {
            let seed = seeds.u64();
            let at = moments[Rng::new(seed).below(moments.len() as u64) as usize];
            Cut { trace: self, at, seed }
        })
    }

    /// Every moment at which something differs from the moment before.
    fn moments(&self) -> Vec<Moment> {
        let ops = self.files.iter().flat_map(|file| &file.ops);
        let mut moments: BTreeSet<Moment> = ops.flat_map(|op| [op.began, op.ended]).collect();
        moments.extend(self.namings.iter().map(|(moment, _)| *moment));
        moments.extend(self.acks.iter().map(|(moment, _)| *moment));
        moments.remove(&NEVER);
        // A cut is between two moments: before the first, after each.
        std::iter::once(0).chain(moments.into_iter().map(|moment| moment + 1)).collect()
    }

    fn acks_before(&self, at: Moment) -> Vec<String> {
        let acks = self.acks.iter().take_while(|(moment, _)| *moment < at);
        acks.map(|(_, text)| text.clone()).collect()
    }

    fn names_at(&self, at: Moment) -> BTreeMap<PathBuf, FileId> {
        let mut names = self.names_before.clone();
        for (_, naming) in self.namings.iter().filter(|(moment, _)| *moment < at) {
            naming.apply(&mut names);
        }
        names
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, FileId>) {
        match self {
            Self::Create { path, file } => {
                names.insert(path.clone(), *file);
            }
            Self::Remove { path } => {
                names.remove(path);
            }
            Self::Rename { from, to } => {
                // More than one when a directory is renamed.
                let moved: Vec<PathBuf> =
                    names.keys().filter(|path| path.starts_with(from)).cloned().collect();
                for path in moved {
                    let file = names.remove(&path).expect("it was among the keys");
                    let rest = path.strip_prefix(from).expect("it starts with it");
                    let path = if rest == Path::new("") { to.clone() } else { to.join(rest) };
                    names.insert(path, file);
                }
            }
        }
    }
}

/// One power cut.
#[derive(Debug)]
pub struct Cut<'a> {
    trace: &'a Trace,
    at: Moment,
    seed: u64,
}

impl Cut<'_> {
    /// Where in the trace the current goes.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What chooses the fate of the writes that were not synced.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Writes the disk as it is after this cut into an empty directory, and returns what had been
    /// acknowledged before it.
    pub fn rebuild(&self, into: &Path) -> io::Result<Vec<String>> {
        let mut fate = Fate::new(self.seed);
        for (name, file) in self.trace.names_at(self.at) {
            // SQLite's shared memory has no content that outlives its processes.
            if name.to_string_lossy().ends_with("-shm") {
                continue;
            }
            let path = into.join(&name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, self.trace.files[file].content_at(self.at, &mut fate))?;
        }
        Ok(self.trace.acks_before(self.at))
    }
}

impl File {
    fn content_at(&self, at: Moment, fate: &mut Fate) -> Vec<u8> {
        let begun = || self.ops.iter().take_while(|op| op.began < at);
        // A sync makes durable what had returned when the sync began, once it has returned itself.
        let synced_until = begun()
            .filter(|op| matches!(op.change, Change::Sync) && op.ended < at)
            .map(|op| op.began)
            .max()
            .unwrap_or(0);
        let mut content = self.before.clone();
        for op in begun() {
            let durable = op.ended < synced_until;
            match &op.change {
                Change::Sync => {}
                Change::SetLen(len) => {
                    if durable || fate.keeps() {
                        content.resize(*len as usize, 0);
                    }
                }
                Change::Write { at, bytes } => {
                    if durable {
                        write(&mut content, *at, bytes);
                    } else if fate.keeps() {
                        let torn = fate.tears();
                        for (at, sector) in sectors(*at, bytes) {
                            if !torn || fate.keeps_sector() {
                                write(&mut content, at, sector);
                            }
                        }
                    }
                }
            }
        }
        content
    }
}

/// What becomes of the writes that were not synced.
struct Fate {
    rng: Rng,
    keep_percent: u64,
    tear_percent: u64,
}

impl Fate {
    /// Cuts that lose everything or nothing find other faults than those that lose every second
    /// write, so each cut has a temper of its own.
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x70_6f_77_65_72);
        let keep_percent = [0, 20, 50, 80, 100][rng.below(5) as usize];
        let tear_percent = [0, 30, 100][rng.below(3) as usize];
        Self { rng, keep_percent, tear_percent }
    }

    fn keeps(&mut self) -> bool {
        self.rng.percent(self.keep_percent)
    }

    fn tears(&mut self) -> bool {
        self.rng.percent(self.tear_percent)
    }

    fn keeps_sector(&mut self) -> bool {
        self.rng.percent(50)
    }
}

fn write(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
}

/// Cuts a write where the sectors of the disk end.
fn sectors(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let (mut at, mut rest) = (at, bytes);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let room = (SECTOR_BYTES - at % SECTOR_BYTES) as usize;
        let (sector, after) = rest.split_at(room.min(rest.len()));
        let start = at;
        at += sector.len() as u64;
        rest = after;
        Some((start, sector))
    })
}

/// The regular files below `dir`, by their paths below it.
fn read_files(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    let mut unread = vec![dir.to_owned()];
    while let Some(next) = unread.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                unread.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let below = path.strip_prefix(dir).expect("it was found below").to_owned();
                files.insert(below, fs::read(path)?);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
