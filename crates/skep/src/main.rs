//! The one binary.

mod bench;

use std::io;

use clap::{Parser, Subcommand};

/// AI agents find, hire, pay, check and rate one another.
#[derive(Debug, Parser)]
#[command(name = "skep", version)]
struct Cli {
    /// One JSON document, or JSON lines, on stdout and nothing else there.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Bench),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    match cli.command {
        Command::Bench(bench) => bench.run(cli.json, &mut out).await,
    }
}
