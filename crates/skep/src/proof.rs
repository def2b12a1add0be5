//! `skep proof`: take a verdict out of a marketplace, and check one without asking any.

mod export;

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use skep_base::ed25519::PublicKey;
use skep_settle::proof::file::{Mark, NOT_COVERED, Pins, Report, verify_file};

use crate::{
    deal::words::{print_json, word},
    settings::Settings,
};

/// The largest file that is read.
const FILE_LEN_MAX: usize = 4 * 1024 * 1024;

/// Proofs of verdicts: export one as a file, and check a file offline
#[derive(Debug, Args)]
pub struct ProofArgs {
    #[command(subcommand)]
    command: ProofCommand,
}

#[derive(Debug, Subcommand)]
enum ProofCommand {
    Export(export::Export),
    /// Check a proof file: needs no server, no keyring and no trust in whoever sent it
    #[command(after_help = verify_help())]
    Verify(Box<Verify>),
}

#[derive(Debug, Args)]
struct Verify {
    /// The file; - reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The verifier's key that must have signed
    #[arg(long, value_name = "BASE64URL")]
    key: Option<PublicKey>,
    /// The marketplace's key that must have signed the receipt
    #[arg(long, value_name = "BASE64URL")]
    marketplace_key: Option<PublicKey>,
}

fn verify_help() -> String {
    let list: Vec<String> = NOT_COVERED.iter().map(|line| format!("  - {line}")).collect();
    format!(
        "Examples:
  skep proof verify proof.json
  skep proof verify proof.json --key BASE64URL --marketplace-key BASE64URL --json

Exits 1 if anything does not hold. Without --key and --marketplace-key the keys come from the file
itself: that shows that nothing was changed since they signed, not whose keys they are. A verifier's
keys are at GET /vcap/v1/verifiers/ADDRESS, a marketplace's at GET /.well-known/skep-keys; note them
when you meet it.

Not covered, so that a change there is not noticed:
{}
White space and the order of keys mean nothing in JSON. Of the work the file holds what the verifier
extracted; the SHA-256 of each piece that it looked at is in the bundle's artifact_hashes.",
        list.join("\n")
    )
}

impl ProofArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            ProofCommand::Export(export) => export.signer.flags(),
            ProofCommand::Verify(_) => vec![],
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            ProofCommand::Export(export) => export.run(settings, json, out).await,
            ProofCommand::Verify(verify) => verify.run(json, out),
        }
    }
}

impl Verify {
    fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let bytes = read(&self.file)?;
        let pins = Pins { verifier: self.key, marketplace: self.marketplace_key };
        let report = verify_file(&bytes, &pins);
        match json {
            true => print_json(out, &report)?,
            false => print(&report, &pins, out)?,
        }
        refuse(&report, &self.file)
    }
}

/// An error that names what does not hold.
fn refuse(report: &Report, path: &Path) -> Result<()> {
    if report.ok {
        return Ok(());
    }
    let failed = report.checks.iter().filter(|check| check.mark == Mark::Fail);
    let failed: Vec<&str> = failed.map(|check| check.name).collect();
    bail!("{} does not hold: {}", path.display(), failed.join(", "))
}

fn print(report: &Report, pins: &Pins, out: &mut dyn Write) -> Result<()> {
    for check in &report.checks {
        let mark = match check.mark {
            Mark::Ok => "ok",
            Mark::Fail => "FAIL",
            Mark::Absent => "-",
        };
        writeln!(out, "{mark:<4}  {:<17}  {}", check.name, check.detail)?;
    }
    let Some(claim) = report.claim.as_ref().filter(|_| report.ok) else { return Ok(()) };
    let escrow = match &claim.escrow {
        Some(status) => format!("; the escrow was {}", word(status)),
        None => "; nothing is said about the escrow".to_owned(),
    };
    let (outcome, at) = (word(&claim.outcome), claim.completed_at);
    writeln!(out, "holds: {outcome} at {at} for deal {}{escrow}", claim.negotiation_id)?;
    let open = [
        (pins.verifier.is_none(), "--key"),
        (pins.marketplace.is_none() && claim.escrow.is_some(), "--marketplace-key"),
    ];
    let open: Vec<&str> = open.iter().filter(|(open, _)| *open).map(|(_, flag)| *flag).collect();
    if !open.is_empty() {
        let flags = open.join(" and ");
        writeln!(
            out,
            "keys were taken from the file: to know whose they are, pin them with {flags}"
        )?;
    }
    Ok(())
}

/// A file, or stdin for `-`.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = FILE_LEN_MAX as u64 + 1;
    let read = match path == Path::new("-") {
        true => io::stdin().take(limit).read_to_end(&mut bytes),
        false => fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("{} cannot be read", path.display()))?;
    if bytes.len() > FILE_LEN_MAX {
        bail!("{} is longer than {} MiB", path.display(), FILE_LEN_MAX >> 20);
    }
    Ok(bytes)
}
