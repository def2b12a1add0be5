//! The one binary: the node, its tools and its benchmarks.

mod admin;
mod agent;
mod bench;
mod budget;
mod check;
mod clarify;
mod client;
mod conformance;
mod deal;
mod demo;
mod egress;
mod engines;
mod gateway;
mod hire;
mod keys;
mod ledger;
mod listing;
mod node_key;
mod programs;
mod proof;
mod review;
mod score;
mod search;
mod sell;
mod session;
mod settings;
mod stage;
mod swarm;
mod up;
mod verifier;
mod wallet;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use skep_api::telemetry::{self, LogFormat};

use self::{ledger::LedgerCommand, settings::Settings};

/// A node makes and drops many small pieces on many threads; this one is made for that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// AI agents find, hire, pay, check and rate one another.
#[derive(Debug, Parser)]
#[command(name = "skep", version, after_help = "Start here:\n  skep demo\n  skep up --dev")]
struct Cli {
    /// One JSON document, or JSON lines, on stdout and nothing else there
    #[arg(long, global = true)]
    json: bool,
    /// Settings [default: $SKEP_CONFIG, ./skep.toml, else skep/skep.toml where settings are kept]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
    Demo(demo::Demo),
    Keys(keys::KeysArgs),
    Agent(agent::AgentArgs),
    Operator(agent::OperatorArgs),
    Wallet(wallet::WalletArgs),
    Budget(budget::BudgetArgs),
    Deal(deal::DealArgs),
    Review(review::ReviewArgs),
    Listing(listing::ListingArgs),
    Search(search::SearchArgs),
    Score(score::ScoreArgs),
    Session(session::SessionArgs),
    Gateway(gateway::GatewayArgs),
    Proof(proof::ProofArgs),
    Check(check::CheckArgs),
    Verifier(verifier::VerifierArgs),
    Sell(sell::SellArgs),
    Hire(Box<hire::HireArgs>),
    Clarify(clarify::ClarifyArgs),
    Swarm(swarm::SwarmArgs),
    Work(programs::WorkArgs),
    Ledger(ledger::Ledger),
    Admin(admin::AdminArgs),
    Conformance(conformance::ConformanceArgs),
    Bench(bench::Bench),
    /// Settings and where they come from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print shell completions
    #[command(after_help = "Example: skep completions bash > /etc/bash_completion.d/skep")]
    Completions {
        shell: Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example: skep man | man -l -\n         skep man --out ./man")]
    Man {
        /// Write a page for every command into this folder instead
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every setting with where it came from
    #[command(after_help = "Example: SKEP_LISTEN=127.0.0.1:5000 skep config show")]
    Show,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // What strangers' files are taken apart in has no threads and no rights.
    if let Command::Check(args) = &cli.command
        && args.is_child()
    {
        return check::child();
    }
    start(cli)
}

#[tokio::main]
async fn start(cli: Cli) -> ExitCode {
    let mut out = io::stdout();
    match run(cli, &mut out).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

async fn run(cli: Cli, out: &mut dyn Write) -> Result<()> {
    let (json, config) = (cli.json, cli.config.as_deref());
    macro_rules! with_settings {
        ($args:expr) => {{
            let settings = Settings::load(config, &$args.flags())?;
            $args.run(&settings, json, out).await
        }};
    }
    match cli.command {
        Command::Up(args) => {
            let settings = Settings::load(config, &args.flags())?;
            let _telemetry = telemetry::init(log_format(&settings)?)?;
            up::run(&settings, json, out).await
        }
        Command::Demo(args) => args.run(json, out).await,
        Command::Keys(args) => {
            let settings = Settings::load(config, &[])?;
            let connect = |node: Option<&str>| {
                let node = ("node", node.map(str::to_owned));
                Ok(client::Registry(client::connect(&Settings::load(config, &[node])?)?))
            };
            keys::run(args, json, settings.path("keys"), connect, out).await
        }
        Command::Agent(args) => with_settings!(args),
        Command::Operator(args) => with_settings!(args),
        Command::Wallet(args) => with_settings!(args),
        Command::Budget(args) => with_settings!(args),
        Command::Deal(args) => with_settings!(args),
        Command::Review(args) => with_settings!(args),
        Command::Listing(args) => with_settings!(args),
        Command::Search(args) => with_settings!(args),
        Command::Score(args) => with_settings!(args),
        Command::Session(args) => with_settings!(args),
        Command::Gateway(args) => {
            let settings = Settings::load(config, &args.flags())?;
            let _telemetry = telemetry::init(log_format(&settings)?)?;
            args.run(&settings, json, out).await
        }
        Command::Proof(args) => with_settings!(args),
        Command::Check(args) => args.run(json, out).await,
        Command::Verifier(args) => {
            let settings = Settings::load(config, &args.flags())?;
            let _telemetry = telemetry::init(log_format(&settings)?)?;
            args.run(&settings, json, out).await
        }
        Command::Hire(args) => with_settings!(args),
        Command::Clarify(args) => with_settings!(args),
        Command::Sell(args) => {
            let settings = Settings::load(config, &args.flags())?;
            let _telemetry = telemetry::init(log_format(&settings)?)?;
            args.run(&settings, json, out).await
        }
        Command::Swarm(args) => args.run(json, out),
        Command::Work(args) => args.run(out),
        Command::Ledger(args) => {
            let LedgerCommand::Audit(args) = args.command;
            ledger::audit(&Settings::load(config, &args.flags())?, json, out).await
        }
        Command::Admin(args) => with_settings!(args),
        Command::Conformance(args) => args.run(json, out).await,
        Command::Bench(args) => args.run(json, out).await,
        Command::Config(ConfigCommand::Show) => show_settings(config, json, out),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "skep", &mut Plain(out));
            Ok(())
        }
        Command::Man { out: folder } => manual(folder, out),
    }
}

fn manual(folder: Option<PathBuf>, out: &mut dyn Write) -> Result<()> {
    let Some(folder) = folder else {
        return Ok(clap_mangen::Man::new(Cli::command()).render(&mut Plain(out))?);
    };
    std::fs::create_dir_all(&folder)?;
    Ok(clap_mangen::generate_to(Cli::command(), folder)?)
}

/// A writer of known size, which some libraries ask for.
struct Plain<'a>(&'a mut dyn Write);

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn log_format(settings: &Settings) -> Result<LogFormat> {
    Ok(match settings.text("log_format").context("log_format is not set")? {
        "auto" => LogFormat::Auto,
        "text" => LogFormat::Text,
        "json" => LogFormat::Json,
        other => anyhow::bail!("log_format is {other:?}: say auto, text or json"),
    })
}

fn show_settings(config: Option<&Path>, json: bool, out: &mut dyn Write) -> Result<()> {
    let settings = Settings::load(config, &[])?;
    if json {
        writeln!(out, "{}", serde_json::to_string(&settings.shown())?)?;
        return Ok(());
    }
    for (name, meaning) in settings::KNOWN {
        let (value, origin) = match settings.shown().remove(name) {
            Some(set) => (set.value, set.origin.to_string()),
            None => (String::new(), "not set".to_owned()),
        };
        writeln!(out, "{name:<13} {value:<32} {origin:<24} {meaning}")?;
    }
    Ok(())
}
