//! `skep listing`: what an agent sells, without running the seller.

use std::io::Write;

use anyhow::Result;
use clap::{Args, Subcommand};
use skep_base::{AgentId, id::ListingId};
use skep_hire::capability::current_version;
use skep_wire::{
    hire::{Found, Listing, ListingRemoval, MAX_LATENCY_MS_MAX, PaymentMode, Usdc, WalletSigned},
    score::BenchmarkTier,
};

use crate::{
    client::{SignerArgs, connect, now},
    deal::words::{plain, print_json, told},
    settings::Settings,
};

/// Publish, list and remove listings; skep sell does it for programs
#[derive(Debug, Args)]
#[command(after_help = "A listing of a server that is already running:
  skep listing publish custom.acme.ocr --price 0.05 --endpoint https://ocr.acme.example
  skep listing list
  skep listing remove lst_…

The endpoint must answer GET /.well-known/swarmwage-verify?nonce=N with the agent's signature.")]
pub struct ListingArgs {
    #[command(subcommand)]
    command: ListingCommand,
}

#[derive(Debug, Subcommand)]
enum ListingCommand {
    Publish(Box<Publish>),
    List(List),
    Remove(Remove),
}

/// Sign a listing and put it into the registry, in the place of an older one
#[derive(Debug, Args)]
#[command(after_help = "Example: skep listing publish text.summarize.short --price 0.02 \\
    --endpoint https://seller.example --max-latency-ms 5000 --description 'short and honest'")]
struct Publish {
    #[command(flatten)]
    signer: SignerArgs,
    /// What is sold, such as chart.generate.from-data, or custom.YOU.WHAT
    capability: String,
    /// What a hire costs, in USDC
    #[arg(long, value_name = "USDC")]
    price: Usdc,
    /// Where /hire is
    #[arg(long, value_name = "URL")]
    endpoint: String,
    /// How long a hire may take
    #[arg(long, value_name = "MS", default_value_t = MAX_LATENCY_MS_MAX)]
    max_latency_ms: u64,
    /// direct, platform_escrow:NAME or custom_escrow:URL [default: direct]
    #[arg(long, value_name = "MODE")]
    payment_mode: Option<PaymentMode>,
    /// Who is paid, if not the agent's own wallet
    #[arg(long, value_name = "WALLET")]
    payee: Option<AgentId>,
    /// Every buyer's first call is free
    #[arg(long)]
    first_call_free: bool,
    /// Which of the capability's checks the results pass: v0 or v1; the newest if nothing is said
    #[arg(long, value_name = "VERSION")]
    verification_version: Option<String>,
    /// The seller gives quotes before hires; for custom capabilities
    #[arg(long)]
    clarify: bool,
    /// Results may be looked at again by auditors
    #[arg(long)]
    audit: bool,
    /// Show numbers in coarse steps only
    #[arg(long)]
    private_metrics: bool,
    /// For people and searches
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Show what an agent sells
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep listing list
  skep listing list 0x70997970c51812dc3a010c7d01b50e0d17dc79c8 --json")]
struct List {
    #[command(flatten)]
    signer: SignerArgs,
    /// Whose; the keyring's agent if it is left out
    agent: Option<AgentId>,
}

/// Take a listing out of the registry
#[derive(Debug, Args)]
#[command(after_help = "Example: skep listing remove lst_01kbn3r3d8e4q6zv1g5m8x2c7y")]
struct Remove {
    #[command(flatten)]
    signer: SignerArgs,
    /// The listing's id
    id: ListingId,
}

impl ListingArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        match &self.command {
            ListingCommand::Publish(publish) => publish.signer.flags(),
            ListingCommand::List(list) => list.signer.flags(),
            ListingCommand::Remove(remove) => remove.signer.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        match self.command {
            ListingCommand::Publish(publish) => publish.run(settings, json, out).await,
            ListingCommand::List(list) => list.run(settings, json, out).await,
            ListingCommand::Remove(remove) => remove.run(settings, json, out).await,
        }
    }
}

impl Publish {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let said = |on: bool| on.then_some(true);
        let mut listing = Listing {
            agent_id: keyring.agent_id(),
            payee: self.payee,
            verification_version: self
                .verification_version
                .or_else(|| current_version(&self.capability).map(str::to_owned)),
            capability: self.capability,
            price_usdc: self.price,
            currency: Some("USDC".to_owned()),
            chain: None,
            max_latency_ms: self.max_latency_ms,
            first_call_free: said(self.first_call_free),
            endpoint: self.endpoint,
            payment_mode: self.payment_mode,
            clarification_supported: said(self.clarify),
            audit_participating: said(self.audit),
            private_metrics: said(self.private_metrics),
            description: self.description,
            issued_at: Some(now()),
            signature: None,
            extra: Default::default(),
        };
        listing.sign(keyring.wallet())?;
        let accepted = client.publish_listing(&listing).await.map_err(told)?;
        if json {
            return print_json(out, &accepted);
        }
        let listing = &accepted.listing;
        let word = if accepted.changed { "published" } else { "stands already" };
        writeln!(
            out,
            "{word}: {} {} at {} for {} USDC",
            accepted.listing_id,
            plain(&listing.capability),
            plain(&listing.endpoint),
            listing.price_usdc
        )?;
        Ok(())
    }
}

impl List {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, agent) = match self.agent {
            Some(agent) => (connect(settings)?, agent),
            None => {
                let (client, keyring) = self.signer.client(settings)?;
                (client, keyring.agent_id())
            }
        };
        let page = client.listings_of(&agent).await.map_err(told)?;
        if json {
            return print_json(out, &page);
        }
        if page.items.is_empty() {
            writeln!(out, "{agent} sells nothing here")?;
        }
        for found in &page.items {
            show(found, out)?;
        }
        Ok(())
    }
}

/// One listing in a few lines.
pub fn show(found: &Found, out: &mut dyn Write) -> Result<()> {
    let listing = &found.listing;
    let alive = if found.alive { "" } else { ", does not answer" };
    let mode = listing.mode();
    writeln!(
        out,
        "{}  {}  {} USDC  {mode}  {} ms{alive}",
        found.listing_id,
        plain(&listing.capability),
        listing.price_usdc,
        listing.max_latency_ms
    )?;
    let about = plain(listing.description.as_deref().unwrap_or_default());
    let because = found.ranking.because.join(", ");
    writeln!(out, "    {} at {}  {about}", found.agent_id, plain(&listing.endpoint))?;
    if !found.signal.is_empty() {
        let score = found.score_at_least.map(|least| format!(", SwarmScore {least} or more"));
        let benchmark = match found.benchmark {
            BenchmarkTier::None => String::new(),
            held => format!(", benchmark {}", held.as_str()),
        };
        let (signal, score) = (plain(&found.signal), score.unwrap_or_default());
        writeln!(out, "    {signal}{score}{benchmark}")?;
    }
    writeln!(out, "    {because}")?;
    Ok(())
}

impl Remove {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let mut removal = ListingRemoval {
            agent_id: keyring.agent_id(),
            remove_listing: self.id,
            issued_at: now(),
            signature: None,
        };
        removal.sign(keyring.wallet())?;
        let answer = client.remove_listing(&removal).await.map_err(told)?;
        match json {
            true => print_json(out, &answer)?,
            false => writeln!(out, "{} is removed", self.id)?,
        }
        Ok(())
    }
}
