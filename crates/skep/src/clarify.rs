//! `skep clarify`: one question before a hire.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use skep_agent::buyer::{Clarification, ClarifyOrder};
use skep_base::{AgentId, id::ListingId};
use skep_wire::hire::{Clarified, Quote, Usdc};

use crate::{
    hire::{BuyerArgs, read_params, told, usdc},
    settings::Settings,
};

/// Ask a seller what a piece of work would cost
#[derive(Debug, Args)]
#[command(after_help = "Example:
  skep clarify custom.acme.research --brief 'Compare EIP-3009 and ERC-2612, 500 words'
  skep hire custom.acme.research --quote TOKEN")]
pub struct ClarifyArgs {
    #[command(flatten)]
    buyer: BuyerArgs,
    capability: String,
    /// What is wanted, in words
    #[arg(long, value_name = "TEXT")]
    brief: String,
    /// What is known already: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    params: String,
    /// What it may cost, in USDC
    #[arg(long, value_name = "USDC")]
    max_price: Option<Usdc>,
    /// How long it may take
    #[arg(long, value_name = "MS")]
    max_latency_ms: Option<u64>,
    /// Only this seller
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Only this listing
    #[arg(long, value_name = "ID")]
    listing: Option<ListingId>,
}

impl ClarifyArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        self.buyer.signer.flags()
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let buyer = self.buyer.open(settings, None).await?;
        let order = ClarifyOrder {
            capability: self.capability,
            brief: self.brief,
            params: read_params(&self.params)?,
            max_price: self.max_price.map(|price| price.amount()),
            max_latency_ms: self.max_latency_ms,
            agent: self.agent,
            listing: self.listing,
        };
        let said = buyer.clarify(order).await.map_err(told)?;
        match json {
            true => writeln!(out, "{}", serde_json::to_string(&said)?)?,
            false => show(&said, out)?,
        }
        Ok(())
    }
}

fn show(said: &Clarification, out: &mut dyn Write) -> Result<()> {
    let seller = said.seller;
    match &said.clarified {
        Clarified::Quote { quote, .. } => {
            writeln!(out, "{seller} would do it:")?;
            show_quote(quote, out)
        }
        Clarified::Counter { counter, .. } => {
            writeln!(out, "{seller} offers something else: {}", printable(&counter.reason))?;
            counter.options.iter().try_for_each(|option| show_quote(option, out))
        }
        Clarified::Decline { reason, .. } => {
            Ok(writeln!(out, "{seller} would not: {}", printable(reason))?)
        }
    }
}

fn show_quote(quote: &Quote, out: &mut dyn Write) -> Result<()> {
    let price = usdc(quote.price_usdc.amount());
    let params = serde_json::to_string(&quote.params)?;
    let token = printable(&quote.quote_token);
    Ok(writeln!(out, "{token}  {price}  {} ms  {params}", quote.estimated_latency_ms)?)
}

/// A stranger's words, without what would steer a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
