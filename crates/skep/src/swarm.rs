//! `skep swarm`: swarms that decide together, simulated and checked.

pub mod simulate;
pub mod verify;

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};
use skep_base::Did;

/// Swarms: simulate one from a seed, check a transcript offline
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep swarm simulate --seed 7 --svg run.svg
  skep swarm simulate --nodes 31 --byzantine 10 --transcript run.json
  skep swarm verify run.json")]
pub struct SwarmArgs {
    #[command(subcommand)]
    command: SwarmCommand,
}

#[derive(Debug, Subcommand)]
enum SwarmCommand {
    Simulate(Box<simulate::Simulate>),
    Verify(verify::Verify),
}

impl SwarmArgs {
    pub fn run(self, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            SwarmCommand::Simulate(args) => args.run(json, out),
            SwarmCommand::Verify(args) => args.run(json, out),
        }
    }
}

/// Enough of a DID to tell members apart on a screen; `--json` has all of it.
pub fn short(did: &Did) -> String {
    /// Sixteen hexadecimal digits, as many as a key's name has elsewhere.
    const DIGITS: usize = 16;
    let text = did.to_string();
    let name = text.rsplit(':').next().unwrap_or_default();
    name.chars().take(DIGITS).collect()
}

fn short_list(dids: &[Did]) -> String {
    dids.iter().map(short).collect::<Vec<_>>().join(", ")
}
