//! Clients of others that the tests run: from npm and PyPI, by their lock files, into
//! `target/interop`. Does nothing when what is there came from the same lock files.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::steps::succeeds;

const SOURCE: &str = "crates/skep/tests/interop";
const TARGET: &str = "target/interop";
/// What decides whether an installation is still good.
const LOCKS: &[&str] = &["package.json", "package-lock.json", "requirements.txt"];
const STAMP: &str = "installed-from";

pub(crate) fn install(root: &Path) -> Result<()> {
    let (source, target) = (root.join(SOURCE), root.join(TARGET));
    let mut wanted = String::new();
    for lock in LOCKS {
        wanted += &fs::read_to_string(source.join(lock)).with_context(|| lock.to_string())?;
    }
    let stamp = target.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("installing x402 clients from npm and PyPI");
    fs::create_dir_all(&target)?;
    for lock in LOCKS {
        fs::copy(source.join(lock), target.join(lock))?;
    }
    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    ensure!(succeeds(Command::new("npm").args(npm).current_dir(&target))?, "`npm ci` failed");
    let venv = ["-m", "venv", "--clear", "python"];
    let made = succeeds(Command::new("python3").args(venv).current_dir(&target))?;
    ensure!(made, "`python3 -m venv` failed");
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-r"];
    let python = target.join("python/bin/python");
    let mut install = Command::new(python);
    install.args(pip).arg("requirements.txt").current_dir(&target);
    ensure!(succeeds(&mut install)?, "`pip install` failed");
    fs::write(stamp, wanted)?;
    Ok(())
}
