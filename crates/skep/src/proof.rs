//! `skep proof`: take a verdict out of a marketplace, and check one without asking any.

pub mod aivs_file;
mod archive;
pub mod export;

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use skep_base::ed25519::PublicKey;
use skep_settle::{
    aivs,
    evidence::Evidence,
    proof::file::{Check, Mark, NOT_COVERED, Pins, Report},
    session_proof,
};

use crate::{
    deal::words::{print_json, word},
    settings::Settings,
};

/// The largest file that is read.
const FILE_LEN_MAX: usize = 16 * 1024 * 1024;

/// Proofs of verdicts and sessions: export one as a file, and check a file offline
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
    /// The file, or the folder of an unpacked AIVS bundle; - reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The key that must have signed: the verifier's, the gateway's for a session, or the
    /// exporter's for an AIVS bundle that holds no proof
    #[arg(long, value_name = "BASE64URL", allow_hyphen_values = true)]
    key: Option<PublicKey>,
    /// The marketplace's key that must have signed the receipt
    #[arg(long, value_name = "BASE64URL", allow_hyphen_values = true)]
    marketplace_key: Option<PublicKey>,
}

fn verify_help() -> String {
    let list =
        |lines: &[&str]| lines.iter().map(|line| format!("  - {line}\n")).collect::<String>();
    format!(
        "Examples:
  skep proof verify proof.json
  skep proof verify proof.json --key BASE64URL --marketplace-key BASE64URL --json
  skep proof verify aivs_proof_01921f3a_1794733200.tar.gz

Reads proof files of verdicts, proofs of sessions, and AIVS bundles as archives or folders, those of
other programs too. Exits 1 if anything does not hold. Without --key and --marketplace-key the keys
come from the file itself: that shows that nothing was changed since they signed, not whose keys
they are. A verifier's keys are at GET /vcap/v1/verifiers/ADDRESS, a marketplace's at
GET /.well-known/skep-keys; note them when you meet it.

Not covered, so that a change there is not noticed:
{}In a session's proof:
{}In an AIVS bundle:
{}
White space and the order of keys mean nothing in JSON. Of the work the file holds what the verifier
extracted; the SHA-256 of each piece that it looked at is in the bundle's artifact_hashes.",
        list(&NOT_COVERED),
        list(&session_proof::NOT_COVERED),
        list(&aivs::check::NOT_COVERED),
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
        let pins = Pins { verifier: self.key, marketplace: self.marketplace_key };
        let files = match self.file.is_dir() {
            true => Ok(archive::read_folder(&self.file)?),
            false => Err(read(&self.file)?),
        };
        match files {
            Ok(files) => self.bundle(&files, &pins, json, out),
            Err(bytes) if archive::is_gzip(&bytes) => {
                let files = archive::unpack(&bytes);
                let files = files.with_context(|| format!("{}", self.file.display()))?;
                self.bundle(&files, &pins, json, out)
            }
            Err(bytes) => {
                let evidence = Evidence::verify(&bytes, &pins);
                match json {
                    true => print_json(out, &evidence)?,
                    false => print(&evidence, &pins, out)?,
                }
                refuse(evidence.checks(), &self.file)
            }
        }
    }

    fn bundle(
        &self,
        files: &aivs::Files,
        pins: &Pins,
        json: bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        let report = aivs::check::check(files, pins);
        if json {
            print_json(out, &report)?;
            return refuse(&report.checks, &self.file);
        }
        print_checks(&report.checks, out)?;
        if let Some(claim) = report.claim.as_ref().filter(|_| report.ok) {
            let (actions, id, at) = (claim.actions, &claim.session_id, claim.exported_at);
            writeln!(out, "holds: {actions} actions of {id:?}, exported at {at}")?;
            if !claim.evidence_covered {
                writeln!(out, "its hashes cover what was done and when, not what was found")?;
            }
        }
        if let Some(proof) = &report.proof {
            writeln!(out, "\nthe proof inside:")?;
            print(proof, pins, out)?;
        }
        refuse(&report.checks, &self.file)
    }
}

/// An error that names what does not hold.
pub fn refuse(checks: &[Check], path: &Path) -> Result<()> {
    let failed: Vec<&str> = checks.iter().filter(|check| !check.holds()).map(|c| c.name).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} does not hold: {}", path.display(), failed.join(", "))
}

fn print(evidence: &Evidence, pins: &Pins, out: &mut dyn Write) -> Result<()> {
    print_checks(evidence.checks(), out)?;
    match evidence {
        Evidence::Verdict(report) => print_verdict(report, pins, out),
        Evidence::Session(report) => {
            let Some(claim) = report.claim.as_ref().filter(|_| report.ok) else { return Ok(()) };
            let (id, status) = (claim.session_id, word(&claim.status));
            let (actions, at) = (claim.actions, claim.closed_at);
            writeln!(out, "holds: session {id}, {actions} actions, {status} at {at}")?;
            print_open(&[(pins.verifier.is_none(), "--key")], out)
        }
    }
}

fn print_checks(checks: &[Check], out: &mut dyn Write) -> Result<()> {
    for check in checks {
        let mark = match check.mark {
            Mark::Ok => "ok",
            Mark::Fail => "FAIL",
            Mark::Absent => "-",
        };
        writeln!(out, "{mark:<4}  {:<17}  {}", check.name, check.detail)?;
    }
    Ok(())
}

fn print_verdict(report: &Report, pins: &Pins, out: &mut dyn Write) -> Result<()> {
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
    print_open(&open, out)
}

/// Which keys nobody has pinned.
fn print_open(open: &[(bool, &str)], out: &mut dyn Write) -> Result<()> {
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
