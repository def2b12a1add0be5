//! Reads the output of `strace -f -y -xx`: one call per line, all strings and paths in hex, calls
//! that another thread interrupted in two halves.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::{Change, File, FileId, Moment, NEVER, Naming, Op, PowercutError, Trace};

const UNFINISHED: &str = "<unfinished ...>";

/// Whether the process that was started has ended, so that no line can follow.
pub(super) fn is_whole(text: &str) -> bool {
    let Some(pid) = text.split_whitespace().next() else {
        return false;
    };
    text.lines().rev().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(pid) && words.next() == Some("+++") && line.ends_with("+++")
    })
}

pub(super) fn parse(
    text: &str,
    dir: &Path,
    before: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<Trace, PowercutError> {
    let mut reader = Reader::new(dir, before);
    let mut halves: HashMap<&str, (Moment, String)> = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let now = index + 1;
        let at_line = |fault: Fault| fault.at(now, line);
        let (pid, rest) = line.split_once(' ').ok_or_else(|| at_line(Fault::Syntax))?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(half) = rest.strip_suffix(UNFINISHED) {
            halves.insert(pid, (now, half.to_owned()));
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, tail) =
                resumed.split_once(" resumed>").ok_or_else(|| at_line(Fault::Syntax))?;
            let (began, half) = halves.remove(pid).ok_or_else(|| at_line(Fault::Syntax))?;
            reader.call(began, now, &format!("{half}{tail}")).map_err(at_line)?;
        } else {
            reader.call(now, now, rest).map_err(at_line)?;
        }
    }
    // Cut short by the end of the process; what they were to write may have reached the disk.
    let mut cut_short: Vec<_> = halves.into_values().collect();
    cut_short.sort_unstable();
    for (began, half) in cut_short {
        let call = format!("{}) = ?", half.trim_end());
        reader.call(began, NEVER, &call).map_err(|fault| fault.at(began, &half))?;
    }
    Ok(reader.trace)
}

enum Fault {
    Syntax,
    Unmodelled,
}

impl Fault {
    fn at(self, line: usize, text: &str) -> PowercutError {
        let text = text.chars().take(300).collect();
        match self {
            Self::Syntax => PowercutError::Syntax { line, text },
            Self::Unmodelled => PowercutError::Unmodelled { line, text },
        }
    }
}

/// Where the next plain `write` of an open file goes.
enum Position {
    At(u64),
    End,
}

struct Reader<'a> {
    dir: &'a Path,
    /// What the processes themselves see: the latest name and length of every file.
    names: BTreeMap<PathBuf, FileId>,
    lens: Vec<u64>,
    /// By descriptor and file. Two processes that write the same file through the same number
    /// would be confused; threads share their descriptors and are not.
    positions: HashMap<(i64, FileId), Position>,
    cwd: PathBuf,
    stdout: Vec<u8>,
    trace: Trace,
}

/// One call with its arguments, outside any quotes and brackets apart by commas.
struct Call<'a> {
    began: Moment,
    ended: Moment,
    args: Vec<&'a str>,
    result: &'a str,
}

impl Call<'_> {
    fn arg(&self, index: usize) -> Result<&str, Fault> {
        self.args.get(index).copied().ok_or(Fault::Syntax)
    }

    fn number(&self, index: usize) -> Result<u64, Fault> {
        self.arg(index)?.parse().map_err(|_| Fault::Syntax)
    }

    fn fd(&self, index: usize) -> Result<Fd, Fault> {
        Fd::parse(self.arg(index)?)
    }

    /// What the call transferred; all that was asked for when nobody was there to be told.
    fn transferred(&self, asked: usize) -> usize {
        self.result.parse().map_or(asked, |done: usize| done.min(asked))
    }
}

/// `6</path>`, `6</path>(deleted)` or `6`.
struct Fd {
    number: i64,
    path: Option<PathBuf>,
}

impl Fd {
    fn parse(text: &str) -> Result<Self, Fault> {
        let (number, rest) = text.split_once('<').unwrap_or((text, ""));
        let number = match number {
            "AT_FDCWD" => -100,
            number => number.parse().map_err(|_| Fault::Syntax)?,
        };
        let path = match rest.strip_suffix('>') {
            Some(hex) => Some(PathBuf::from(text_of(hex)?)),
            // None, or deleted: what is written there cannot be found after the cut.
            None => None,
        };
        Ok(Self { number, path })
    }
}

impl<'a> Reader<'a> {
    fn new(dir: &'a Path, before: &BTreeMap<PathBuf, Vec<u8>>) -> Self {
        let names: BTreeMap<PathBuf, FileId> = before.keys().cloned().zip(0..).collect();
        let file = |bytes: &Vec<u8>| File { before: bytes.clone(), ops: Vec::new() };
        Self {
            dir,
            names: names.clone(),
            lens: before.values().map(|bytes| bytes.len() as u64).collect(),
            positions: HashMap::new(),
            cwd: PathBuf::from("/"),
            stdout: Vec::new(),
            trace: Trace {
                files: before.values().map(file).collect(),
                names_before: names,
                namings: Vec::new(),
                acks: Vec::new(),
                sent: Vec::new(),
            },
        }
    }

    fn call(&mut self, began: Moment, ended: Moment, text: &str) -> Result<(), Fault> {
        let (call, result) = text.rsplit_once(" = ").ok_or(Fault::Syntax)?;
        let call = call.trim_end();
        let (name, args) = call.split_once('(').ok_or(Fault::Syntax)?;
        let args = split_args(args.strip_suffix(')').ok_or(Fault::Syntax)?);
        let result = result.trim();
        if result.starts_with('-') {
            return Ok(());
        }
        let ended = if result.starts_with('?') { NEVER } else { ended };
        let call = Call { began, ended, args, result };
        if let Some(cwd) = call.args.first().and_then(|arg| arg.strip_prefix("AT_FDCWD<"))
            && let Some(cwd) = cwd.strip_suffix('>')
        {
            self.cwd = PathBuf::from(text_of(cwd)?);
        }
        match name {
            "open" | "openat" | "creat" => self.open(name, &call),
            "read" | "readv" => self.read(&call),
            "lseek" => self.seek(&call),
            "close" => self.close(&call),
            "write" | "writev" => self.write(&call, None),
            "pwrite64" | "pwritev" | "pwritev2" => {
                let offset = call.number(3)?;
                self.write(&call, Some(offset))
            }
            "sendto" | "sendmsg" => self.send(&call),
            "fsync" | "fdatasync" => self.sync(&call),
            "ftruncate" | "truncate" => self.truncate(name, &call),
            "fallocate" => self.allocate(&call),
            "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                self.rename(name, &call)
            }
            "mmap" => self.map(&call),
            "copy_file_range" | "splice" => self.refuse_on(call.fd(2)?),
            "sendfile" => self.refuse_on(call.fd(0)?),
            "io_uring_setup" => Err(Fault::Unmodelled),
            _ => Ok(()),
        }
    }

    fn open(&mut self, name: &str, call: &Call<'_>) -> Result<(), Fault> {
        // Who never learnt the descriptor wrote nothing through it.
        if call.ended == NEVER {
            return Ok(());
        }
        let fd = Fd::parse(call.result)?;
        let Some(path) = self.below(fd.path) else {
            return Ok(());
        };
        let flags = match name {
            "openat" => call.arg(2)?,
            "open" => call.arg(1)?,
            _ => "O_WRONLY|O_CREAT|O_TRUNC",
        };
        let has = |flag| flags.split('|').any(|one| one == flag);
        if has("O_DIRECTORY") {
            return Ok(());
        }
        if !self.names.contains_key(&path) && !has("O_CREAT") {
            // A directory that was opened without saying so.
            return Ok(());
        }
        let file = self.file(call, &path);
        if has("O_TRUNC") && self.lens[file] > 0 {
            self.set_len(call, file, 0);
        }
        let position = if has("O_APPEND") { Position::End } else { Position::At(0) };
        self.positions.insert((fd.number, file), position);
        Ok(())
    }

    fn read(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let fd = call.fd(0)?;
        if let Some(file) = self.known(fd.path)
            && let Some(Position::At(at)) = self.positions.get_mut(&(fd.number, file))
        {
            *at += call.result.parse::<u64>().unwrap_or(0);
        }
        Ok(())
    }

    fn seek(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let fd = call.fd(0)?;
        if let Some(file) = self.known(fd.path)
            && let Some(Position::At(at)) = self.positions.get_mut(&(fd.number, file))
        {
            *at = call.result.parse().map_err(|_| Fault::Syntax)?;
        }
        Ok(())
    }

    fn close(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let fd = call.fd(0)?;
        if let Some(file) = self.known(fd.path) {
            self.positions.remove(&(fd.number, file));
        }
        Ok(())
    }

    fn write(&mut self, call: &Call<'_>, offset: Option<u64>) -> Result<(), Fault> {
        let fd = call.fd(0)?;
        let number = fd.number;
        let is_socket = fd.path.as_ref().is_some_and(|path| is_socket(path));
        let path = self.below(fd.path);
        if path.is_none() && number != 1 && !is_socket {
            return Ok(());
        }
        let mut bytes = bytes_of(call.arg(1)?)?;
        bytes.truncate(call.transferred(bytes.len()));
        let Some(path) = path else {
            if number == 1 {
                self.print(call.began, &bytes);
            } else {
                self.trace.sent.push((call.began, bytes));
            }
            return Ok(());
        };
        let file = self.file(call, &path);
        let at = match (offset, self.positions.get_mut(&(number, file))) {
            (Some(at), _) => at,
            (None, Some(Position::At(position))) => {
                let at = *position;
                *position += bytes.len() as u64;
                at
            }
            // Without a position it came from outside, as a redirected stdout does.
            (None, Some(Position::End) | None) => self.lens[file],
        };
        self.lens[file] = self.lens[file].max(at + bytes.len() as u64);
        self.push(call, file, Change::Write { at, bytes });
        Ok(())
    }

    fn send(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let mut bytes = bytes_of(call.arg(1)?)?;
        bytes.truncate(call.transferred(bytes.len()));
        self.trace.sent.push((call.began, bytes));
        Ok(())
    }

    fn print(&mut self, now: Moment, bytes: &[u8]) {
        self.stdout.extend_from_slice(bytes);
        while let Some(end) = self.stdout.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.stdout.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            if let Some(text) = line.strip_prefix("ACK ") {
                self.trace.acks.push((now, text.to_owned()));
            }
        }
    }

    fn sync(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        if let Some(file) = self.known(call.fd(0)?.path) {
            self.push(call, file, Change::Sync);
        }
        Ok(())
    }

    fn truncate(&mut self, name: &str, call: &Call<'_>) -> Result<(), Fault> {
        let path = match name {
            "ftruncate" => call.fd(0)?.path,
            _ => Some(self.path_at(None, call.arg(0)?)?),
        };
        if let Some(path) = self.below(path) {
            let file = self.file(call, &path);
            self.set_len(call, file, call.number(1)?);
        }
        Ok(())
    }

    fn allocate(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let Some(path) = self.below(call.fd(0)?.path) else {
            return Ok(());
        };
        match call.arg(1)? {
            "0" => {
                let file = self.file(call, &path);
                let len = call.number(2)? + call.number(3)?;
                if len > self.lens[file] {
                    self.set_len(call, file, len);
                }
                Ok(())
            }
            "FALLOC_FL_KEEP_SIZE" => Ok(()),
            _ => Err(Fault::Unmodelled),
        }
    }

    fn rename(&mut self, name: &str, call: &Call<'_>) -> Result<(), Fault> {
        let path = |reader: &Self, index: usize| {
            let at = call.arg(index)?;
            let path = if name.contains("at") {
                reader.path_at(Some(at), call.arg(index + 1)?)?
            } else {
                reader.path_at(None, at)?
            };
            Ok(reader.below(Some(path)))
        };
        let second = if name.contains("at") { 2 } else { 1 };
        let from = path(self, 0)?;
        let naming = if name.starts_with("unlink") {
            from.map(|path| Naming::Remove { path })
        } else {
            match (from, path(self, second)?) {
                (Some(from), Some(to)) if name.starts_with("rename") => {
                    Some(Naming::Rename { from, to })
                }
                (Some(from), Some(to)) => {
                    self.names.get(&from).map(|&file| Naming::Create { path: to, file })
                }
                (None, Some(_)) => return Err(Fault::Unmodelled),
                (Some(path), None) if name.starts_with("rename") => Some(Naming::Remove { path }),
                (_, None) => None,
            }
        };
        if let Some(naming) = naming {
            naming.apply(&mut self.names);
            self.trace.namings.push((call.ended.min(NEVER - 1), naming));
        }
        Ok(())
    }

    /// Writes through a shared mapping leave no trace, so a file must not have one. SQLite's
    /// shared memory has, and is not kept.
    fn map(&self, call: &Call<'_>) -> Result<(), Fault> {
        let (protection, flags) = (call.arg(2)?, call.arg(3)?);
        if !protection.contains("PROT_WRITE") || !flags.contains("MAP_SHARED") {
            return Ok(());
        }
        let fd = call.fd(4)?;
        if fd.path.as_ref().is_some_and(|path| path.to_string_lossy().ends_with("-shm")) {
            return Ok(());
        }
        self.refuse_on(fd)
    }

    fn refuse_on(&self, fd: Fd) -> Result<(), Fault> {
        match self.below(fd.path) {
            Some(_) => Err(Fault::Unmodelled),
            None => Ok(()),
        }
    }

    fn set_len(&mut self, call: &Call<'_>, file: FileId, len: u64) {
        self.lens[file] = len;
        self.push(call, file, Change::SetLen(len));
    }

    fn push(&mut self, call: &Call<'_>, file: FileId, change: Change) {
        self.trace.files[file].ops.push(Op { began: call.began, ended: call.ended, change });
    }

    /// The file of that name, new when there is none.
    fn file(&mut self, call: &Call<'_>, path: &Path) -> FileId {
        if let Some(&file) = self.names.get(path) {
            return file;
        }
        let file = self.trace.files.len();
        self.trace.files.push(File::default());
        self.lens.push(0);
        let naming = Naming::Create { path: path.to_owned(), file };
        naming.apply(&mut self.names);
        self.trace.namings.push((call.began, naming));
        file
    }

    fn known(&self, path: Option<PathBuf>) -> Option<FileId> {
        self.names.get(&self.below(path)?).copied()
    }

    fn below(&self, path: Option<PathBuf>) -> Option<PathBuf> {
        path?.strip_prefix(self.dir).ok().map(Path::to_owned)
    }

    /// A path argument, made absolute by the directory it is relative to.
    fn path_at(&self, directory: Option<&str>, arg: &str) -> Result<PathBuf, Fault> {
        let path = PathBuf::from(String::from_utf8_lossy(&bytes_of(arg)?).into_owned());
        if path.is_absolute() {
            // The trace has the real paths of descriptors; a name may have come through a link.
            let real = path.parent().and_then(|parent| parent.canonicalize().ok());
            return Ok(match (real, path.file_name()) {
                (Some(parent), Some(name)) => parent.join(name),
                _ => path,
            });
        }
        let directory = match directory {
            Some(fd) => Fd::parse(fd)?.path.unwrap_or_else(|| self.cwd.clone()),
            None => self.cwd.clone(),
        };
        Ok(directory.join(path))
    }
}

fn is_socket(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.starts_with("socket:") || path.starts_with("TCP:") || path.starts_with("TCPv6:")
}

/// Splits at commas outside of quotes and brackets.
fn split_args(text: &str) -> Vec<&str> {
    let mut args = Vec::new();
    let (mut depth, mut quoted, mut start) = (0, false, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'[' | b'{' | b'(' if !quoted => depth += 1,
            b']' | b'}' | b')' if !quoted => depth -= 1,
            b',' if !quoted && depth == 0 => {
                args.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    args.push(text[start..].trim());
    args
}

/// The bytes of every quoted string in an argument, one after the other: one string for `write`,
/// several for `writev`.
fn bytes_of(arg: &str) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let mut parts = arg.split('"');
    parts.next();
    while let Some(quoted) = parts.next() {
        unescape(quoted, &mut bytes)?;
        match parts.next() {
            // Dots after a string say that `strace` left out the rest.
            Some(between) if between.starts_with("...") => return Err(Fault::Syntax),
            Some(_) => {}
            None => return Err(Fault::Syntax),
        }
    }
    Ok(bytes)
}

fn text_of(hex: &str) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    unescape(hex, &mut bytes)?;
    String::from_utf8(bytes).map_err(|_| Fault::Syntax)
}

/// `\x41\x42` and plain characters.
fn unescape(text: &str, into: &mut Vec<u8>) -> Result<(), Fault> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            into.push(byte);
            continue;
        }
        let mut hex = || match bytes.next() {
            Some(b'x') => Some(digit(bytes.next()?)? << 4 | digit(bytes.next()?)?),
            _ => None,
        };
        into.push(hex().ok_or(Fault::Syntax)?);
    }
    Ok(())
}
