//! Runs other programs, tells what runs and how long it took.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The cargo that runs us, so that the toolchain is the same.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether `cargo ARGS` succeeded.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Result<bool> {
    cargo_with(root, args, &[])
}

pub(crate) fn cargo_with(root: &Path, args: &[&str], envs: &[(&str, &str)]) -> Result<bool> {
    let mut command = Command::new(cargo_program());
    // What cargo told us about ourselves is not true of what we start, and some tools believe it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    succeeds(command.args(args).envs(envs.iter().copied()).current_dir(root))
}

pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command
        .status()
        .with_context(|| format!("{} did not start", command.get_program().display()))?;
    Ok(status.success())
}

/// Steps that all run, whatever became of those before, so that one run shows every fault.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, bool, Duration)>,
}

impl Steps {
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<bool>) {
        println!("\n==> {name}");
        let start = Instant::now();
        let passed = step().unwrap_or_else(|error| {
            eprintln!("{error:#}");
            false
        });
        let took = start.elapsed();
        println!("<== {name}: {} in {:.1} s", word(passed), took.as_secs_f64());
        self.done.push((name.to_owned(), passed, took));
    }

    /// Prints how each step ended; whether all passed.
    pub(crate) fn summary(&self) -> bool {
        println!();
        for (name, passed, took) in &self.done {
            println!("{:>8.1} s  {:<6}  {name}", took.as_secs_f64(), word(*passed));
        }
        let total: Duration = self.done.iter().map(|(_, _, took)| *took).sum();
        let passed = self.done.iter().all(|(_, passed, _)| *passed);
        println!("{:>8.1} s  {:<6}  all", total.as_secs_f64(), word(passed));
        passed
    }
}

fn word(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_all_and_stops_nothing() {
        let mut steps = Steps::default();
        steps.run("a", || Ok(true));
        assert!(steps.summary());
        steps.run("b", || anyhow::bail!("planted"));
        let mut reached = false;
        steps.run("c", || {
            reached = true;
            Ok(true)
        });
        assert!(reached);
        assert!(!steps.summary());
    }
}
