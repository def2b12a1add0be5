//! The keyring's file: one, private, and replaced as a whole.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use skep_base::AgentId;

use super::{
    Keyring, PublicInfo,
    seal::{Envelope, Fresh, UnsealError},
};
use crate::Passphrase;

/// No keyring comes near this size.
const FILE_LEN_MAX: u64 = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no keyring at {path}: make one with `skep keys new`")]
    Missing { path: PathBuf },
    #[error("others can read {path}: run `chmod 600 {path}`")]
    Exposed { path: PathBuf },
    #[error("{path} is too long or no regular file")]
    NotAFile { path: PathBuf },
    #[error("{path} could not be read")]
    Io { path: PathBuf, source: io::Error },
    #[error("the keyring {path} could not be opened")]
    Unseal { path: PathBuf, source: UnsealError },
}

#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error("{path} exists and is not overwritten: move it away or give another --keys PATH")]
    Exists { path: PathBuf },
    #[error("the keyring at {path} is of another agent, {found}, and is not overwritten")]
    OtherAgent { path: PathBuf, found: AgentId },
    #[error("the keyring that is to be replaced cannot be read")]
    Replaced(#[source] OpenError),
    #[error("the keyring could not be encrypted: there is not enough memory")]
    Seal,
    #[error("{path} could not be written")]
    Io { path: PathBuf, source: io::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another skep changes a keyring in {folder} right now: try again when it is done")]
    Busy { folder: PathBuf },
    #[error("{folder} could not be locked")]
    Io { folder: PathBuf, source: io::Error },
}

/// While it lives, no other process that asks for it changes keyrings in this folder.
#[derive(Debug)]
pub struct KeyringLock(#[expect(dead_code, reason = "closing the file ends the lock")] File);

impl Keyring {
    /// Opens a keyring file.
    pub fn open(path: &Path, passphrase: &Passphrase) -> Result<Keyring, OpenError> {
        read(path)?.open(passphrase).map_err(|source| unseal(path, source))
    }

    /// What the file says without a passphrase.
    pub fn read_public_info(path: &Path) -> Result<PublicInfo, OpenError> {
        Ok(read(path)?.info())
    }

    /// Writes a file that is not there yet, with the folders above it.
    pub fn save_new(&self, path: &Path, passphrase: &Passphrase) -> Result<(), SaveError> {
        let folder = folder_of(path);
        let exists = || SaveError::Exists { path: path.to_owned() };
        if path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| io_error(folder, source))?;
        let temp = self.write_beside(path, passphrase)?;
        temp.persist_noclobber(path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => io_error(path, error.error),
        })?;
        sync(folder)
    }

    /// Replaces the file of the same agent. After a crash either the old one or the new one is
    /// there, whole.
    pub fn save(&self, path: &Path, passphrase: &Passphrase) -> Result<(), SaveError> {
        let found = Keyring::read_public_info(path).map_err(SaveError::Replaced)?.agent_id;
        if found != self.agent_id() {
            return Err(SaveError::OtherAgent { path: path.to_owned(), found });
        }
        // A link stays a link: what it points at is replaced.
        let path = fs::canonicalize(path).map_err(|source| io_error(path, source))?;
        let temp = self.write_beside(&path, passphrase)?;
        temp.persist(&path).map_err(|error| io_error(&path, error.error))?;
        sync(folder_of(&path))
    }

    /// Takes the lock for a change that reads, asks a node and writes again: two at once could
    /// each throw away the key that the other has staged.
    pub fn lock(path: &Path) -> Result<KeyringLock, LockError> {
        let folder = folder_of(path);
        let io = |source| LockError::Io { folder: folder.to_owned(), source };
        // The file itself is replaced by every save; the folder stays.
        let file = File::open(folder).map_err(io)?;
        match file.try_lock() {
            Ok(()) => Ok(KeyringLock(file)),
            Err(TryLockError::WouldBlock) => Err(LockError::Busy { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }

    fn write_beside(
        &self,
        path: &Path,
        passphrase: &Passphrase,
    ) -> Result<tempfile::NamedTempFile, SaveError> {
        let io = |source| io_error(path, source);
        let mut fresh = Fresh { salt: [0; 16], nonce: [0; 24] };
        getrandom::fill(&mut fresh.salt).map_err(|error| io(io::Error::other(error)))?;
        getrandom::fill(&mut fresh.nonce).map_err(|error| io(io::Error::other(error)))?;
        let envelope = Envelope::seal(self, passphrase, &fresh).ok_or(SaveError::Seal)?;
        let mut text = serde_json::to_string_pretty(&envelope).map_err(|error| io(error.into()))?;
        text.push('\n');
        let mut temp = tempfile::Builder::new()
            .prefix(".keys-")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(folder_of(path))
            .map_err(io)?;
        temp.write_all(text.as_bytes()).map_err(io)?;
        temp.as_file().sync_all().map_err(io)?;
        Ok(temp)
    }
}

fn read(path: &Path) -> Result<Envelope, OpenError> {
    let path_buf = || path.to_owned();
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing { path: path_buf() },
        _ => OpenError::Io { path: path_buf(), source },
    };
    let file = File::open(path).map_err(io)?;
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() || metadata.len() > FILE_LEN_MAX {
        return Err(OpenError::NotAFile { path: path_buf() });
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(OpenError::Exposed { path: path_buf() });
    }
    let mut bytes = Vec::new();
    file.take(FILE_LEN_MAX).read_to_end(&mut bytes).map_err(io)?;
    Envelope::read(&bytes).map_err(|source| unseal(path, source))
}

fn unseal(path: &Path, source: UnsealError) -> OpenError {
    OpenError::Unseal { path: path.to_owned(), source }
}

fn io_error(path: &Path, source: io::Error) -> SaveError {
    SaveError::Io { path: path.to_owned(), source }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// A rename is on disk only when its folder is.
fn sync(folder: &Path) -> Result<(), SaveError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|source| io_error(folder, source))
}
