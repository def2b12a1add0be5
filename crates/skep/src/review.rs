//! `skep review`: the queue of what only a person can decide (VCAP 7.3).

mod show;

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use skep_agent::verifier::{Identity, Judgement, seal_judgement};
use skep_base::{Money, ed25519::SecretKey, id::DealId};
use skep_wire::settle::{Outcome, Review, SplitVerdict};

use crate::{
    client::{SignerArgs, now},
    deal::words::{Told, in_asset, plain, print_json, word},
    settings::Settings,
    verifier::{kid, proof_key},
};

/// Entries of the queue that are shown when nothing else is asked for.
const SHOWN: usize = 50;
/// Entries that are asked for at once.
const PAGE_LEN: usize = 100;

/// Decide what no engine could, for reviewers that the marketplace has named
#[derive(Debug, Args)]
#[command(after_help = "A reviewer registers once, and the node's operator accredits it:
  skep verifier register --engine human
  skep up --accredit 0x…")]
pub struct ReviewArgs {
    #[command(subcommand)]
    command: ReviewCommand,
}

#[derive(Debug, Subcommand)]
enum ReviewCommand {
    /// List what waits for a reviewer, oldest first
    #[command(after_help = "Example: skep review list --json")]
    List(List),
    /// Show everything about one of them: terms, delivery, findings so far, escrow
    #[command(after_help = "Example: skep review show ID")]
    Show(Show),
    /// Decide it: the verdict is a proof signed with your verifier's key, and moves the money
    #[command(after_help = "Examples:
  skep review decide ID --release --reason 'the text is what was asked for'
  skep review decide ID --refund --reason 'the page never existed'
  skep review decide ID --split '5.00 USDC' --reason 'half of it was delivered'")]
    Decide(Decide),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    signer: SignerArgs,
    /// How many at the most
    #[arg(long, default_value_t = SHOWN)]
    limit: usize,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    signer: SignerArgs,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
}

#[derive(Debug, Args)]
struct Decide {
    #[command(flatten)]
    signer: SignerArgs,
    /// Where the key for proofs is kept [default: data_dir]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// The deal's id
    #[arg(value_name = "ID")]
    id: DealId,
    #[command(flatten)]
    choice: Choice,
    /// Why, in words that stay in the proof
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Choice {
    /// The work is good: the whole price goes to the provider
    #[arg(long)]
    release: bool,
    /// The work is not good: the whole price goes back
    #[arg(long)]
    refund: bool,
    /// The provider gets this part of the price, and the rest goes back
    #[arg(long, value_name = "MONEY")]
    split: Option<Money>,
}

impl ReviewArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            ReviewCommand::List(list) => list.signer.flags(),
            ReviewCommand::Show(show) => show.signer.flags(),
            ReviewCommand::Decide(decide) => {
                let folder = decide.data_dir.as_ref().map(|path| path.display().to_string());
                let mut flags = decide.signer.flags();
                flags.push(("data_dir", folder));
                flags
            }
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            ReviewCommand::List(list) => list.run(settings, json, out).await,
            ReviewCommand::Show(show) => {
                let (client, _) = show.signer.client(settings)?;
                let file = client.review(show.id).await.told()?;
                match json {
                    true => print_json(out, &file),
                    false => show::file(&file, out),
                }
            }
            ReviewCommand::Decide(decide) => decide.run(settings, json, out).await,
        }
    }
}

impl List {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, _) = self.signer.client(settings)?;
        let mut reviews: Vec<Review> = Vec::new();
        let mut cursor: Option<String> = None;
        while reviews.len() < self.limit {
            let len = (self.limit - reviews.len()).min(PAGE_LEN);
            let page = client.reviews(cursor.as_deref(), Some(len)).await.told()?;
            reviews.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if json {
            return print_json(out, &reviews);
        }
        if reviews.is_empty() {
            writeln!(out, "nothing waits for a reviewer")?;
        }
        for review in &reviews {
            let Review { negotiation_id, cause, opened_at, .. } = review;
            let price = review.price.to_string();
            let until = review.deadline.map(|at| format!(" until {at}")).unwrap_or_default();
            let what = plain(&review.description);
            let when = format!("since {opened_at}{until}");
            writeln!(out, "{negotiation_id}  {cause:<11}  {price:>16}  {when}  {what}")?;
        }
        Ok(())
    }
}

impl Decide {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let file = client.review(self.id).await.told()?;
        let price = file.agreement.price;
        let split = match self.choice.split {
            None => None,
            Some(part) => {
                let released_minor = in_asset(part, price.asset, "--split")?;
                let left = price.amount.checked_sub(released_minor);
                let refunded_minor =
                    left.with_context(|| format!("--split is more than the price, {price}"))?;
                Some(SplitVerdict { released_minor, refunded_minor })
            }
        };
        let outcome = if self.choice.refund { Outcome::Rejected } else { Outcome::Verified };
        let key = proof_key(settings)?;
        let identity = Identity {
            agent: keyring.agent_id(),
            agent_key: SecretKey::from_seed(*keyring.secret().seed()),
            kid: kid(&key.public()),
            key,
        };
        let (action, reason, supersedes) = ("REVIEW", self.reason, file.supersedes);
        let judgement = Judgement { outcome, action, reason, split, supersedes };
        let callback = seal_judgement(&file.request, &identity, judgement, now())?;
        let taken = client.decide_review(&callback).await.told()?;
        if json {
            return print_json(out, &taken);
        }
        let (status, escrow) = (word(&taken.status), word(&taken.escrow));
        writeln!(out, "decided deal {}: {status}, escrow {escrow}", self.id)?;
        writeln!(out, "proof {}", callback.proof_hash)?;
        Ok(())
    }
}
