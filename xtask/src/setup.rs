//! Installs what the tests need and the machine has not: packages of the system by name, tools of
//! cargo from crates.io. Does nothing, quickly, when all is there.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, bail, ensure};

use crate::{
    interop,
    steps::{cargo_program, succeeds},
};

/// A program that the tests start, and the Debian package that brings it.
const PROGRAMS: &[(&str, &str)] = &[
    ("git", "git"),
    ("cc", "build-essential"),
    ("setpriv", "util-linux"),
    ("strace", "strace"),
    ("initdb", "postgresql"),
    ("psql", "postgresql"),
    ("pgbench", "postgresql-contrib"),
    ("chromium", "chromium"),
    ("python3", "python3-minimal"),
    ("node", "nodejs"),
    ("npm", "npm"),
];

/// Pinned, so that a gate changes only when we change it.
const CARGO_TOOLS: &[(&str, &[&str])] = &[
    ("cargo-deny", &["--version", "0.20.2", "--no-default-features"]),
    ("cargo-machete", &["--version", "0.9.2"]),
];

pub(crate) fn run(root: &Path) -> Result<()> {
    install_packages()?;
    install_cargo_tools()?;
    interop::install(root)
}

fn install_packages() -> Result<()> {
    let folders = folders();
    let mut missing =
        missing_packages(|program| folders.iter().any(|dir| dir.join(program).exists()));
    // Debian keeps this part of Python apart, and it has no program of its own.
    if missing.contains(&"python3-minimal") || !python_has("ensurepip") {
        missing.push("python3-venv");
    }
    if !has_library("libnss_wrapper.so") {
        missing.push("libnss-wrapper");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let wanted = missing.join(" ");
    let has = |program: &str| folders.iter().any(|dir| dir.join(program).exists());
    ensure!(has("apt-get"), "this is not Debian: install what it calls {wanted}, then try again");
    let prefix: &[&str] = if is_root() {
        &[]
    } else if has("sudo") {
        &["sudo", "-n"]
    } else {
        bail!("not root and no sudo: ask for `apt-get install {wanted}`, then try again");
    };
    println!("installing {wanted}");
    apt_get(prefix, &["update", "-q"])?;
    let install = [&["install", "-q", "-y", "--no-install-recommends"][..], &missing].concat();
    apt_get(prefix, &install)
}

/// Whether the linker finds it, in the folder that Debian has for each kind of machine.
fn has_library(name: &str) -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.map(|folder| folder.path().join(name)).any(|path| path.exists())
}

fn python_has(module: &str) -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

fn apt_get(prefix: &[&str], args: &[&str]) -> Result<()> {
    let line = [prefix, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], args].concat();
    let done = succeeds(Command::new(line[0]).args(&line[1..]))?;
    ensure!(done, "`{}` failed", line.join(" "));
    Ok(())
}

fn missing_packages(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    missing.dedup();
    missing
}

/// PATH, where root's programs are, and where Debian keeps those of each PostgreSQL.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    if let Ok(versions) = Path::new("/usr/lib/postgresql").read_dir() {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    folders
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn install_cargo_tools() -> Result<()> {
    for (tool, options) in CARGO_TOOLS {
        let there = Command::new(tool)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if there {
            continue;
        }
        println!("installing {tool}");
        let mut install = Command::new(cargo_program());
        install.args(["install", "--locked", tool]).args(*options);
        ensure!(succeeds(&mut install)?, "`cargo install {tool}` failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_what_is_missing_and_for_nothing_else() {
        assert!(missing_packages(|_| true).is_empty());
        assert_eq!(missing_packages(|program| program != "strace"), ["strace"]);
        let no_postgres = |program: &str| !["initdb", "psql", "pgbench"].contains(&program);
        assert_eq!(missing_packages(no_postgres), ["postgresql", "postgresql-contrib"]);
    }
}
