//! `skep check`: looks at a result as buyers, sellers and the market do.

use std::{
    fs::File,
    io::{self, Read, Write},
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use skep_hire::{Verification, capability};
use skep_market::{Checking, Checks};
use skep_probe::{Checker, checker};

use crate::deal::words::{plain, print_json};

/// The longest params or result that is read, in bytes: two pictures of ten megabytes.
const DOCUMENT_LEN_MAX: u64 = 32 * 1024 * 1024;

/// Check a result against a capability's verification function
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep check compute.statistics.mean --params '{\"data\": [1, 2, 3]}' --result '{\"result\": 2}'
  skep check image.upscale.2x --params @params.json --result @result.json --capability-version v1

Exits 0 if every check passed, 1 otherwise. Without --capability-version the first version counts,
as it does for a listing that names none. Pictures, sound and code are taken apart in a process that
may use little. A capability outside the taxonomy cannot be verified, which is not the same as
failed: --json tells the two apart.")]
pub struct CheckArgs {
    /// Such as text.translate.en.it.business
    #[arg(value_name = "CAPABILITY", required_unless_present = "stdin")]
    capability: Option<String>,
    /// What was asked for: JSON, @FILE, or @- for stdin
    #[arg(long, value_name = "JSON|@FILE", required_unless_present = "stdin")]
    params: Option<String>,
    /// What came back
    #[arg(long, value_name = "JSON|@FILE", required_unless_present = "stdin")]
    result: Option<String>,
    /// v0 or v1
    #[arg(long, value_name = "VERSION")]
    capability_version: Option<String>,
    /// Be the process that takes files apart
    #[arg(long, hide = true, conflicts_with_all = ["capability", "params", "result"])]
    stdin: bool,
}

impl CheckArgs {
    pub fn is_child(&self) -> bool {
        self.stdin
    }

    pub async fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let id = self.capability.context("a capability is missing")?;
        capability::is_valid_id(&id)?;
        let params = document("--params", self.params.as_deref())?;
        let result = document("--result", self.result.as_deref())?;
        let version = self.capability_version.as_deref();
        let seen = checker()?.verify(&id, version, &params, &result).await;
        match json {
            true => print_json(out, &seen)?,
            false => print(&seen, out)?,
        }
        if seen.all_passed {
            return Ok(());
        }
        ensure!(seen.verifiable, "{id} cannot be verified");
        let failed = seen.checks.iter().filter(|check| !check.passed);
        let failed: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
        bail!("the result does not pass: {}", failed.join(", "))
    }
}

/// This program, as the process that takes files apart.
pub fn checker() -> Result<Checker> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    Ok(Checker::new(program, vec!["check".to_owned(), "--stdin".to_owned()]))
}

/// The checker as the market looks at results.
#[derive(Debug)]
pub struct Sandboxed(Checker);

impl Sandboxed {
    pub fn new() -> Result<Sandboxed> {
        Ok(Sandboxed(checker()?))
    }
}

impl Checks for Sandboxed {
    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Checking<'a> {
        Box::pin(self.0.verify(capability, version, params, result))
    }
}

/// The process that takes files apart: before anything else was started.
pub fn child() -> ExitCode {
    match checker::child(io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn document(flag: &str, given: Option<&str>) -> Result<Value> {
    let given = given.with_context(|| format!("{flag} is missing"))?;
    let bytes = match given.strip_prefix('@') {
        None => given.as_bytes().to_vec(),
        Some("-") => read(io::stdin().lock()).context("stdin cannot be read")?,
        Some(path) => {
            let file = File::open(path).with_context(|| format!("{path} cannot be read"))?;
            read(file).with_context(|| format!("{path} cannot be read"))?
        }
    };
    serde_json::from_slice(&bytes).with_context(|| format!("{flag} is not JSON"))
}

fn read(from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(DOCUMENT_LEN_MAX + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= DOCUMENT_LEN_MAX, "longer than {} MiB", DOCUMENT_LEN_MAX >> 20);
    Ok(bytes)
}

fn print(seen: &Verification, out: &mut dyn Write) -> Result<()> {
    for check in &seen.checks {
        let mark = match (check.passed, seen.verifiable) {
            (true, _) => "ok",
            (false, true) => "FAIL",
            (false, false) => "-",
        };
        let detail = plain(check.detail.as_deref().unwrap_or(""));
        writeln!(out, "{}", format!("{mark:<4}  {:<26}  {detail}", check.name).trim_end())?;
    }
    if let (true, Some(version)) = (seen.all_passed, &seen.version) {
        writeln!(out, "passed, by the checks of {version}")?;
    }
    Ok(())
}
