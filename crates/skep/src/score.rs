//! `skep score`: what an agent's record is worth, how it is checked, and how it travels.

mod compute;
mod show;
mod verify;

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use skep_sdk::Client;
use skep_wire::score::{BenchmarkEvent, Export, ImportAnswer, ImportRequest};

use crate::{
    client::{SignerArgs, connect},
    deal::words::{Told, print_json, word},
    settings::Settings,
};

/// The largest file that is read.
const FILE_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Scores and passports: show, compute, check, take elsewhere and bring
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep score show 0x70997970c51812dc3a010c7d01b50e0d17dc79c8
  skep score certificate 0x7099… --out certificate.json
  skep score verify certificate.json --keys https://market.example
  skep score export 0x7099… --out mine.json
  skep score import mine.json --node https://other.example

Agents go by their address, their DID or the id of their passport.")]
pub struct ScoreArgs {
    #[command(subcommand)]
    command: ScoreCommand,
}

#[derive(Debug, Subcommand)]
enum ScoreCommand {
    Show(Show),
    Compute(compute::Compute),
    Verify(verify::Verify),
    Certificate(Certificate),
    Export(Exporting),
    Import(Import),
    Passport(Passport),
    History(History),
}

/// Show what is known of an agent
///
/// An agent with fewer than ten sessions sees its own score only: add --sign then.
#[derive(Debug, Args)]
#[command(after_help = "Example: skep score show 0x70997970c51812dc3a010c7d01b50e0d17dc79c8")]
struct Show {
    #[command(flatten)]
    who: Asked,
}

/// Whom it is about, and who asks.
#[derive(Debug, Args)]
struct Asked {
    #[command(flatten)]
    signer: SignerArgs,
    /// Address, DID or passport id
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Sign the request with the keyring: some things only the agent itself is shown
    #[arg(long)]
    sign: bool,
}

impl Asked {
    fn client(&self, settings: &Settings) -> Result<Client> {
        match self.sign {
            true => Ok(self.signer.client(settings)?.0),
            false => connect(settings),
        }
    }
}

/// Fetch the evidence of a score, which anybody can check with skep score verify
#[derive(Debug, Args)]
#[command(after_help = "Example: skep score certificate 0x7099… --settlements 100 --out cert.json")]
struct Certificate {
    #[command(flatten)]
    who: Asked,
    /// How many receipts of settlements at most, 10 to 100
    #[arg(long, value_name = "N")]
    settlements: Option<usize>,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Take the keyring's agent's record elsewhere: publication and passport, signed by the node
#[derive(Debug, Args)]
#[command(after_help = "Example: skep score export 0x7099… --out mine.json")]
struct Exporting {
    #[command(flatten)]
    signer: SignerArgs,
    /// Address, DID or passport id of the keyring's agent
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Bring a record that another platform has signed
#[derive(Debug, Args)]
#[command(after_help = "Example: skep score import mine.json --node https://other.example")]
struct Import {
    #[command(flatten)]
    signer: SignerArgs,
    /// What skep score export wrote; - reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Show an agent's passport: the public one, or with --sign the agent's own
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep score passport 0x7099…
  skep score passport 0x7099… --vc")]
struct Passport {
    #[command(flatten)]
    who: Asked,
    /// As a W3C Verifiable Credential
    #[arg(long, conflicts_with = "sign")]
    vc: bool,
}

/// List what became of an agent's benchmark, newest first
#[derive(Debug, Args)]
#[command(after_help = "Example: skep score history 0x7099… --limit 20")]
struct History {
    #[command(flatten)]
    who: Asked,
    /// 1 to 100
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

impl ScoreArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            ScoreCommand::Show(show) => show.who.signer.flags(),
            ScoreCommand::Certificate(certificate) => certificate.who.signer.flags(),
            ScoreCommand::Export(export) => export.signer.flags(),
            ScoreCommand::Import(import) => import.signer.flags(),
            ScoreCommand::Passport(passport) => passport.who.signer.flags(),
            ScoreCommand::History(history) => history.who.signer.flags(),
            ScoreCommand::Compute(_) | ScoreCommand::Verify(_) => vec![],
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            ScoreCommand::Compute(compute) => compute.run(out),
            ScoreCommand::Verify(verify) => verify.run(json, out).await,
            ScoreCommand::Show(Show { who }) => {
                let view = who.client(settings)?.score(&who.agent).await.told()?;
                match json {
                    true => print_json(out, &view),
                    false => show::page(&view, out),
                }
            }
            ScoreCommand::Certificate(asked) => {
                let client = asked.who.client(settings)?;
                let fetched = client.certificate(&asked.who.agent, asked.settlements);
                write_document(&fetched.await.told()?, asked.out.as_deref(), out)
            }
            ScoreCommand::Export(export) => {
                let (client, _) = export.signer.client(settings)?;
                let exported = client.export_score(&export.agent).await.told()?;
                write_document(&exported, export.out.as_deref(), out)
            }
            ScoreCommand::Import(import) => import.run(settings, json, out).await,
            ScoreCommand::Passport(passport) => passport.run(settings, out).await,
            ScoreCommand::History(history) => history.run(settings, json, out).await,
        }
    }
}

impl Passport {
    async fn run(self, settings: &Settings, out: &mut dyn Write) -> Result<()> {
        let (client, agent) = (self.who.client(settings)?, &self.who.agent);
        match (self.vc, self.who.sign) {
            (true, _) => print_json(out, &client.passport_credential(agent).await.told()?),
            (false, true) => print_json(out, &client.passport(agent).await.told()?),
            (false, false) => print_json(out, &client.public_passport(agent).await.told()?),
        }
    }
}

impl Import {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let export: Export = read_document(&self.file)?;
        let (client, _) = self.signer.client(settings)?;
        let answer = client.import_score(&ImportRequest::from(export)).await.told()?.value;
        if json {
            print_json(out, &answer)?;
        } else {
            tell(&answer, out)?;
        }
        match answer.accepted {
            true => Ok(()),
            false => bail!(
                "nothing counts: the node has no agreement with {}; its operator makes one with \
                 skep admin issuer add",
                answer.platform
            ),
        }
    }
}

fn tell(answer: &ImportAnswer, out: &mut dyn Write) -> Result<()> {
    let (platform, tier) = (&answer.platform, word(&answer.source_tier));
    writeln!(out, "from       {platform}, where the tier is {tier}")?;
    if !answer.accepted {
        let noted = match answer.noted {
            true => "shown here as unverified",
            false => "not shown: its keys could not be had, so nobody knows who says so",
        };
        writeln!(out, "noted      {noted}")?;
        return Ok(());
    }
    let counts = &answer.imported;
    writeln!(
        out,
        "brought    {} of {} sessions and {} of {} escrows that succeeded there",
        counts.conduit_successful,
        counts.conduit_sessions,
        counts.ap2_successful,
        counts.ap2_sessions
    )?;
    if let Some(haircut) = answer.import_haircut {
        writeln!(out, "counted    {:.0} % of them", (1.0 - haircut.to_f64()) * 100.0)?;
    }
    if let Some(probation) = answer.probation {
        let (done, needed) = (probation.local_sessions, probation.sessions_needed);
        writeln!(out, "probation  {done} of {needed} sessions here")?;
    }
    if let Some(ends) = answer.ends_at {
        writeln!(out, "until      {ends}")?;
    }
    writeln!(out, "phase      {}", word(&answer.phase))?;
    Ok(())
}

impl History {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let client = self.who.client(settings)?;
        let events = client.benchmark_history(&self.who.agent, self.limit).await.told()?;
        if json {
            return print_json(out, &events);
        }
        if events.is_empty() {
            writeln!(out, "there was never a benchmark")?;
        }
        for event in &events {
            writeln!(out, "{}", show::line(event))?;
        }
        Ok(())
    }
}

/// One document on a line, to a file or to stdout.
fn write_document(
    document: &impl serde::Serialize,
    path: Option<&Path>,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(path) = path else { return print_json(out, document) };
    let mut text = serde_json::to_vec(document)?;
    text.push(b'\n');
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// A JSON document from a file or, for `-`, from stdin.
fn read_document<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let mut bytes = Vec::new();
    let name = path.display();
    let read = match path == Path::new("-") {
        true => io::stdin().take(FILE_LEN_MAX + 1).read_to_end(&mut bytes),
        false => fs::File::open(path)
            .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("{name} cannot be read"))?;
    if bytes.len() as u64 > FILE_LEN_MAX {
        bail!("{name} is longer than {} MiB", FILE_LEN_MAX >> 20);
    }
    skep_base::json::from_slice(&bytes).with_context(|| format!("{name} is not what is expected"))
}

/// An event, for [`History`] and the page of `show` alike.
pub(crate) fn event_words(event: &BenchmarkEvent) -> [String; 3] {
    [
        event.timestamp.to_string(),
        word(&event.benchmark_event_type),
        format!("{} at {}", event.tier.as_str(), event.swarm_score_at_event),
    ]
}
