//! Keys that a node or a verifier makes for itself and keeps in a folder of its own.

use std::{
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use skep_base::{Hash32, ed25519::SecretKey};

/// The 32 bytes behind a key, made at the first use. Each purpose has its own (decision 6).
pub fn seed(folder: &Path, purpose: &str) -> Result<[u8; 32]> {
    let path = path(folder, purpose);
    let told = || format!("the key {}", path.display());
    if !path.exists() {
        write(folder, purpose)?;
    }
    let mode = fs::metadata(&path).with_context(told)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 it", path.display());
    }
    let text = fs::read_to_string(&path).with_context(told)?;
    let seed: Hash32 =
        text.trim().parse().map_err(|_| anyhow::anyhow!("{} holds no key", path.display()))?;
    Ok(*seed.as_bytes())
}

/// An Ed25519 key of the node's own.
pub fn key(folder: &Path, purpose: &str) -> Result<SecretKey> {
    Ok(SecretKey::from_seed(seed(folder, purpose)?))
}

fn path(folder: &Path, purpose: &str) -> PathBuf {
    folder.join(format!("{purpose}.key"))
}

/// Makes a fresh key in the place of the old one, if there was one.
pub fn write(folder: &Path, purpose: &str) -> Result<()> {
    let path = path(folder, purpose);
    let told = || format!("the key {}", path.display());
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    let fresh = path.with_extension("new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .with_context(told)?;
    file.write_all(Hash32(seed).to_string().as_bytes()).with_context(told)?;
    file.sync_all().with_context(told)?;
    fs::rename(&fresh, &path).with_context(told)?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).with_context(told)?;
    Ok(())
}
