//! The passphrase of a keyring, and where it comes from.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

#[cfg(test)]
mod tests;

/// No passphrase and no phrase is longer, in bytes.
const LINE_LEN_MAX: usize = 4096;

/// What opens a keyring. It is wiped when dropped and never printed.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Refuses the empty one, which most often is a variable that was not set.
    pub fn new(text: Zeroizing<String>) -> Result<Self, PassphraseError> {
        if text.is_empty() {
            return Err(PassphraseError::Empty);
        }
        Ok(Passphrase(text))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(redacted)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    #[error(
        "there is no terminal to ask for the passphrase: give --passphrase-fd N, \
         or set SKEP_PASSPHRASE or SKEP_PASSPHRASE_FILE"
    )]
    NoWay,
    #[error("the passphrase is empty: choose one")]
    Empty,
    #[error("the two passphrases differ: try again")]
    Differ,
    #[error("the passphrase in SKEP_PASSPHRASE is not UTF-8")]
    NotUtf8,
    #[error("the passphrase could not be read")]
    Read(#[from] ReadLineError),
    #[error("the terminal could not be read")]
    Terminal(#[source] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum ReadLineError {
    #[error("{path} could not be read")]
    Io { path: PathBuf, source: io::Error },
    #[error("the first line of {path} is longer than {LINE_LEN_MAX} bytes")]
    TooLong { path: PathBuf },
    #[error("the first line of {path} is not UTF-8")]
    NotUtf8 { path: PathBuf },
}

/// Whether a typed passphrase is typed once or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// For a keyring that exists: a slip of the finger shows at once.
    Once,
    /// For a new keyring: a slip of the finger would lock it for ever.
    Twice,
}

/// Reads the passphrase from `--passphrase-fd`, `SKEP_PASSPHRASE`, `SKEP_PASSPHRASE_FILE` or the
/// terminal, whichever comes first.
pub fn read(fd: Option<u32>, ask: Ask) -> Result<Passphrase, PassphraseError> {
    read_from(fd, &|name| std::env::var_os(name), &mut prompt, ask)
}

/// Asks one question; `None` where there is nobody to ask.
type Prompt<'a> = &'a mut dyn FnMut(&str) -> io::Result<Option<Zeroizing<String>>>;

fn read_from(
    fd: Option<u32>,
    env: &dyn Fn(&str) -> Option<OsString>,
    prompt: Prompt<'_>,
    ask: Ask,
) -> Result<Passphrase, PassphraseError> {
    if let Some(fd) = fd {
        return Passphrase::new(read_fd(fd)?);
    }
    if let Some(value) = env("SKEP_PASSPHRASE") {
        let text = into_text(value.into_vec()).ok_or(PassphraseError::NotUtf8)?;
        return Passphrase::new(text);
    }
    if let Some(path) = env("SKEP_PASSPHRASE_FILE") {
        return Passphrase::new(read_line(Path::new(&path))?);
    }
    let mut answer = |question: &str| match prompt(question) {
        Ok(answer) => answer.ok_or(PassphraseError::NoWay),
        Err(error) => Err(PassphraseError::Terminal(error)),
    };
    let text = answer("Passphrase of the keyring: ")?;
    if ask == Ask::Twice && *answer("The same passphrase again: ")? != *text {
        return Err(PassphraseError::Differ);
    }
    Passphrase::new(text)
}

/// Asks on the terminal, without echo; `None` where there is no terminal.
pub(crate) fn prompt(question: &str) -> io::Result<Option<Zeroizing<String>>> {
    if File::options().read(true).write(true).open("/dev/tty").is_err() {
        return Ok(None);
    }
    rpassword::prompt_password(question).map(|text| Some(Zeroizing::new(text)))
}

/// The next line of a file descriptor that the parent process left open.
pub(crate) fn read_fd(fd: u32) -> Result<Zeroizing<String>, ReadLineError> {
    read_line(Path::new(&format!("/dev/fd/{fd}")))
}

fn read_line(path: &Path) -> Result<Zeroizing<String>, ReadLineError> {
    let path_buf = || path.to_owned();
    let io = |source| ReadLineError::Io { path: path_buf(), source };
    let mut file = File::open(path).map_err(io)?;
    // All the space at once: growing would leave copies in freed memory.
    let mut line = Zeroizing::new(Vec::with_capacity(LINE_LEN_MAX));
    let mut byte = Zeroizing::new([0]);
    // Byte by byte, so that the next line of a pipe is left for whoever reads next.
    while file.read(&mut *byte).map_err(io)? == 1 && byte[0] != b'\n' {
        if line.len() == LINE_LEN_MAX {
            return Err(ReadLineError::TooLong { path: path_buf() });
        }
        line.push(byte[0]);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    into_text(std::mem::take(&mut *line)).ok_or_else(|| ReadLineError::NotUtf8 { path: path_buf() })
}

/// The error of `String::from_utf8` would carry the bytes along; this forgets them.
fn into_text(bytes: Vec<u8>) -> Option<Zeroizing<String>> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(Zeroizing::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            None
        }
    }
}
