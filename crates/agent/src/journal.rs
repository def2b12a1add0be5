//! A journal that survives a crash: lines of JSON, each on the disk before anybody acts on it.
//!
//! A line is its SHA-256's first 16 hex digits, a space, and JSON. What a crash left half-written
//! at the end was never acknowledged, and is cut off when the journal is opened; a broken line
//! before the end is damage, and opening fails. Lines that come while others are being synced go to
//! the disk together.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Serialize, de::DeserializeOwned};
use skep_base::hash::sha256;
use tokio::sync::{mpsc, oneshot};

#[cfg(test)]
mod tests;

/// The longest line, in bytes: a hire has its parameters in it up to three times.
pub const LINE_LEN_MAX: usize = 64 * 1024 * 1024;
/// Lines that may wait for the disk.
const WAITING_MAX: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal {path} cannot be used")]
    Io { path: PathBuf, source: io::Error },
    #[error("the journal {path} is damaged at line {line}; restore it from a copy")]
    Damaged { path: PathBuf, line: usize },
    #[error("another process uses the journal {path}")]
    InUse { path: PathBuf },
    #[error("an entry is longer than {LINE_LEN_MAX} bytes or could not be read again")]
    BadEntry,
    #[error("the journal could not be written; it takes no more entries until it is reopened")]
    Closed,
}

type Waiting = (Vec<u8>, oneshot::Sender<bool>);

/// An open journal. Cheap to clone; one process at a time.
#[derive(Clone, Debug)]
pub struct Journal {
    lines: mpsc::Sender<Waiting>,
    /// Keeps the lock for as long as there is a clone.
    _lock: Arc<Mutex<File>>,
}

impl Journal {
    /// Opens or makes the journal and reads what it holds, oldest first.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<(Journal, Vec<T>), JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // What was asked for and what was answered is nobody else's business.
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        if file.try_lock().is_err() || !is_at(&file, path) {
            return Err(JournalError::InUse { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let (entries, good) = read(path, &bytes)?;
        file.set_len(good as u64).map_err(io)?;
        file.seek(SeekFrom::Start(good as u64)).map_err(io)?;
        file.sync_all().map_err(io)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // The name must be on the disk as well.
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        }
        let writer = file.try_clone().map_err(io)?;
        let (lines, waiting) = mpsc::channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(writer, waiting))
            .map_err(io)?;
        Ok((Journal { lines, _lock: Arc::new(Mutex::new(file)) }, entries))
    }

    /// Writes an entry. When this returns, it is on the disk.
    pub async fn append<T: Serialize + DeserializeOwned>(
        &self,
        entry: &T,
    ) -> Result<(), JournalError> {
        self.append_line(Line::of(entry)?).await
    }

    /// The same, with a line that was made before.
    pub async fn append_line(&self, Line(line): Line) -> Result<(), JournalError> {
        let (done, written) = oneshot::channel();
        self.lines.send((line, done)).await.map_err(|_| JournalError::Closed)?;
        match written.await {
            Ok(true) => Ok(()),
            _ => Err(JournalError::Closed),
        }
    }

    /// Puts these entries in the place of all that the journal holds, at once or not at all.
    /// Whoever has it open must open it again.
    pub fn rewrite<T: Serialize + DeserializeOwned>(
        path: &Path,
        entries: &[T],
    ) -> Result<(), JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        for entry in entries {
            file.write_all(&Line::of(entry)?.0).map_err(io)?;
        }
        file.as_file().sync_all().map_err(io)?;
        file.persist(path).map_err(|error| io(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
    }

    /// Reads, beside whoever writes, the entries whose text holds a word.
    pub fn find<T: DeserializeOwned>(path: &Path, word: &str) -> Result<Vec<T>, JournalError> {
        let io = |source| JournalError::Io { path: path.to_owned(), source };
        let mut reader = BufReader::new(File::open(path).map_err(io)?);
        let (mut entries, mut line) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line).map_err(io)? > 0 {
            let json = entry_of(&line).and_then(|json| std::str::from_utf8(json).ok());
            // What is being written at the end just now is not there yet.
            if let Some(json) = json.filter(|json| json.contains(word)) {
                entries.extend(entry_in::<T>(json.as_bytes()).ok());
            }
            line.clear();
        }
        Ok(entries)
    }

    /// How long the file is, in bytes.
    pub fn len(&self) -> io::Result<u64> {
        let file = self._lock.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(file.metadata()?.len())
    }

    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Whether the path still leads to this file: a rewritten journal has another one in its place.
fn is_at(file: &File, path: &Path) -> bool {
    let name = |metadata: io::Result<Metadata>| metadata.map(|it| (it.dev(), it.ino())).ok();
    name(file.metadata()) == name(std::fs::metadata(path))
}

/// An entry as it is written.
#[derive(Debug)]
pub struct Line(Vec<u8>);

impl Line {
    /// An entry that the next start could not read would take all others with it: it is refused.
    pub fn of<T: Serialize + DeserializeOwned>(entry: &T) -> Result<Line, JournalError> {
        let json = serde_json::to_vec(entry).map_err(|_| JournalError::BadEntry)?;
        if json.len() > LINE_LEN_MAX || entry_in::<T>(&json).is_err() {
            return Err(JournalError::BadEntry);
        }
        let mark = mark_of(&json);
        let mut line = Vec::with_capacity(mark.len() + json.len() + 2);
        line.extend_from_slice(mark.as_bytes());
        line.push(b' ');
        line.extend_from_slice(&json);
        line.push(b'\n');
        Ok(Line(line))
    }
}

/// Reads an entry. What this process wrote itself may nest deeper than serde_json's own limit.
fn entry_in<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    deserializer.disable_recursion_limit();
    let entry = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(entry)
}

fn mark_of(json: &[u8]) -> String {
    let mut hash = sha256(json).to_string();
    hash.truncate(16);
    hash
}

/// The JSON of a whole line.
fn entry_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let (mark, json) = (line.get(..16)?, line.get(17..)?);
    (mark_of(json).as_bytes() == mark).then_some(json)
}

/// The entries, and how many bytes of the file they take.
fn read<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<(Vec<T>, usize), JournalError> {
    let mut entries = Vec::new();
    let mut at = 0;
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_last = at + line.len() == bytes.len();
        match entry_of(line).map(entry_in) {
            Some(Ok(entry)) => entries.push(entry),
            None if is_last => return Ok((entries, at)),
            _ => return Err(JournalError::Damaged { path: path.to_owned(), line: number + 1 }),
        }
        at += line.len();
    }
    Ok((entries, at))
}

/// Takes all that waits, writes it, syncs once, and tells those who wait.
fn write_all(mut file: File, mut waiting: mpsc::Receiver<Waiting>) {
    while let Some((mut bytes, done)) = waiting.blocking_recv() {
        let mut told = vec![done];
        while let Ok((more, done)) = waiting.try_recv() {
            bytes.extend_from_slice(&more);
            told.push(done);
        }
        let written = file.write_all(&bytes).and_then(|()| file.sync_data()).is_ok();
        for done in told {
            let _ = done.send(written);
        }
        if !written {
            // What is on the disk is not known any more: nothing may follow it.
            return;
        }
    }
}
