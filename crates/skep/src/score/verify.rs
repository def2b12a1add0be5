//! `skep score verify`: L1, L2 and L3 without asking anybody who could lie.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use skep_base::Timestamp;
use skep_market::{Known, check_score};
use skep_score::verify::Source;
use skep_sdk::Client;
use skep_wire::score::{Certificate, KeySet, VerifyAnswer, VerifyLevel};

use super::read_document;
use crate::{
    client::now,
    deal::words::{Told, plain, print_json},
};

const LEVELS: [(VerifyLevel, &str); 3] = [
    (VerifyLevel::L1, "signed by its issuer"),
    (VerifyLevel::L2, "the numbers follow from what is stated"),
    (VerifyLevel::L3, "what is stated is backed by evidence"),
];

/// Check a score offline: signature, arithmetic and, with a certificate, the evidence
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep score verify certificate.json --keys https://market.example
  skep score verify publication.json --keys keys.json --certificate certificate.json

Exits 1 if anything does not hold, and says at which level. Keys are what the issuer serves at
/.well-known/swarmscore-keys. Without --keys those in the certificate are used: that shows that
nothing was changed since they signed, not whose keys they are.")]
pub struct Verify {
    /// A publication, an export or a certificate; - reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The issuer's keys: a file, or the issuer's URL, which is the only thing that is asked
    #[arg(long, value_name = "FILE|URL")]
    keys: Option<String>,
    /// The keys of the platform that something was imported from
    #[arg(long, value_name = "FILE|URL")]
    import_keys: Option<String>,
    /// The certificate of a publication, for L3
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// The time to check it at, such as 2026-03-17T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
}

/// What is checked.
struct Said {
    publication: Value,
    certificate: Option<Certificate>,
}

impl Verify {
    pub async fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        let mut said = read(&self.file)?;
        if let Some(path) = &self.certificate {
            let read: Certificate = read_document(path)?;
            said.certificate = Some(read);
        }
        let given = match &self.keys {
            None => None,
            Some(place) => Some(keys(place).await?),
        };
        let own = said.certificate.as_ref().map(|certificate| certificate.keys.clone());
        let pinned = given.is_some();
        let host = given.as_ref().and_then(|(_, host)| host.clone());
        let known = given.map(|(keys, _)| keys).or(own);
        let source = known.as_ref().map(|keys| Source { keys, host: host.as_deref() });
        let origin = match &self.import_keys {
            None => None,
            Some(place) => Some(keys(place).await?),
        };
        let origin = origin.as_ref().map(|(keys, host)| Source { keys, host: host.as_deref() });
        let known = Known { issuer: source.as_ref(), origin: origin.as_ref() };
        let at = self.at.unwrap_or_else(now);
        let certificate = said.certificate.as_ref();
        let answer = check_score(&said.publication, certificate, known, at);
        match json {
            true => print_json(out, &answer)?,
            false => print(&answer, certificate.is_some(), pinned, out)?,
        }
        match answer.verified {
            true => Ok(()),
            false => bail!("{} does not hold: {}", self.file.display(), names(&answer)),
        }
    }
}

fn names(answer: &VerifyAnswer) -> String {
    let name = |failed: &skep_wire::score::FailedCheck| {
        format!("{:?} {}", failed.level, plain(&failed.check))
    };
    answer.failed_checks.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// A certificate has facts, an export has a passport; what has neither is a publication.
fn read(path: &Path) -> Result<Said> {
    let mut document: Value = read_document(path)?;
    if document.get("facts").is_some() {
        let certificate: Certificate = serde_json::from_value(document)
            .with_context(|| format!("{} is no certificate", path.display()))?;
        let publication = certificate.publication.clone();
        return Ok(Said { publication, certificate: Some(certificate) });
    }
    let publication = match document.get_mut("publication") {
        Some(inner) => inner.take(),
        None => document,
    };
    Ok(Said { publication, certificate: None })
}

/// The keys, and the host that they were asked of.
async fn keys(place: &str) -> Result<(KeySet, Option<String>)> {
    if !place.starts_with("http://") && !place.starts_with("https://") {
        return Ok((read_document(Path::new(place))?, None));
    }
    let origin: Vec<&str> = place.splitn(4, '/').take(3).collect();
    let host = origin.last().map(|host| (*host).to_owned());
    let client = Client::new(&origin.join("/"))?;
    Ok((client.score_keys().await.told()?, host))
}

fn print(
    answer: &VerifyAnswer,
    with_certificate: bool,
    pinned: bool,
    out: &mut dyn Write,
) -> Result<()> {
    for (level, what) in LEVELS {
        let failed = answer.failed_checks.iter().filter(|failed| failed.level == level);
        let mark = match failed.clone().next() {
            Some(_) => "FAIL",
            None if level == VerifyLevel::L3 && !with_certificate => "-",
            None => "ok",
        };
        writeln!(out, "{mark:<4}  {level:?}  {what}")?;
        for failed in failed {
            writeln!(out, "          {}: {}", plain(&failed.check), plain(&failed.detail))?;
        }
    }
    if let Some(coverage) = answer.coverage {
        writeln!(
            out,
            "evidence: {} of {} facts chained, {} sessions and {} settlements proven, {} of these \
             by the signature of another verifier or of the buyer",
            coverage.facts_shown,
            coverage.facts_stated,
            coverage.sessions_proven,
            coverage.settlements_proven,
            coverage.settlements_independent
        )?;
    }
    if answer.verified {
        let score = answer.recomputed_score.map_or_else(String::new, |score| score.to_string());
        let level = answer.level.map_or_else(String::new, |level| format!("{level:?}"));
        writeln!(out, "holds: {score} of 1000, checked to {level}")?;
        if !pinned {
            writeln!(out, "the keys came with it: to know whose they are, give --keys")?;
        }
        if answer.coverage.is_some_and(|coverage| coverage.imports_pinned == Some(false)) {
            writeln!(
                out,
                "the keys of what was imported came with it: to know whose they are, give \
                 --import-keys"
            )?;
        }
    }
    Ok(())
}
