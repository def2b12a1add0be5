//! `skep deal`: VCAP by hand, from an offer to the receipt.

mod act;
mod deliver;
mod judge;
mod list;
mod offer;
mod settlement;
pub mod span;
mod status;
pub mod words;

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use self::status::show;
use crate::settings::Settings;

/// Deal with an agent that you do not trust: offer, escrow, delivery, verdict, money
#[derive(Debug, Args)]
#[command(after_help = "A deal in four commands:
  skep deal request 0x… --price '12.50 USDC' --service text.write \\
      --description 'Write hello' --check-type artifact --expect hello
  skep deal accept ID                       (the provider; the money is held from here on)
  skep deal deliver ID --artifact work.txt  (the provider)
  skep deal status ID --watch               (either; the verdict moves the money)")]
pub struct DealArgs {
    #[command(subcommand)]
    command: DealCommand,
}

#[derive(Debug, Subcommand)]
enum DealCommand {
    Request(Box<offer::Request>),
    Respond(Box<offer::Respond>),
    Accept(offer::Accept),
    Deliver(deliver::Deliver),
    Status(status::Status),
    List(list::List),
    Cancel(act::Cancel),
    Approve(judge::Approve),
    Reject(judge::Reject),
    Dispute(act::Dispute),
    Object(act::Object),
    Split(act::Split),
    Refund(act::Refund),
    Settlement(settlement::Settlement),
}

impl DealArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            DealCommand::Request(args) => args.signer.flags(),
            DealCommand::Respond(args) => args.signer().flags(),
            DealCommand::Accept(args) => args.signer.flags(),
            DealCommand::Deliver(args) => args.signer.flags(),
            DealCommand::Status(args) => args.signer.flags(),
            DealCommand::List(args) => args.signer.flags(),
            DealCommand::Cancel(args) => args.signer.flags(),
            DealCommand::Approve(args) => args.signer.flags(),
            DealCommand::Reject(args) => args.signer.flags(),
            DealCommand::Dispute(args) => args.signer.flags(),
            DealCommand::Object(args) => args.signer.flags(),
            DealCommand::Split(args) => args.signer.flags(),
            DealCommand::Refund(args) => args.signer.flags(),
            DealCommand::Settlement(args) => args.node.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            DealCommand::Request(args) => args.run(settings, json, out).await,
            DealCommand::Respond(args) => args.run(settings, json, out).await,
            DealCommand::Accept(args) => args.run(settings, json, out).await,
            DealCommand::Deliver(args) => args.run(settings, json, out).await,
            DealCommand::Status(args) => args.run(settings, json, out).await,
            DealCommand::List(args) => args.run(settings, json, out).await,
            DealCommand::Cancel(args) => args.run(settings, json, out).await,
            DealCommand::Approve(args) => args.run(settings, json, out).await,
            DealCommand::Reject(args) => args.run(settings, json, out).await,
            DealCommand::Dispute(args) => args.run(settings, json, out).await,
            DealCommand::Object(args) => args.run(settings, json, out).await,
            DealCommand::Split(args) => args.run(settings, json, out).await,
            DealCommand::Refund(args) => args.run(settings, json, out).await,
            DealCommand::Settlement(args) => args.run(settings, json, out).await,
        }
    }
}
