//! `skep search`: who sells something.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use skep_base::AgentId;
use skep_wire::{
    hire::{Match, Search, Usdc},
    score::BenchmarkTier,
};

use crate::{
    client::{NodeArgs, connect},
    deal::words::{plain, print_json, told},
    listing::show,
    settings::Settings,
};

/// Find sellers, best first; each listing's signature is checked before it is shown
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep search text.summarize.short --max-price 0.05
  skep search text.translate --prefix --payment-mode 'platform_escrow:*'
  skep search --query 'handwriting ocr' --first-call-free --json")]
pub struct SearchArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// What is wanted, such as chart.generate.from-data
    capability: Option<String>,
    /// The capability's first words are enough
    #[arg(long, requires = "capability")]
    prefix: bool,
    /// Words of the description or the capability, all of them
    #[arg(long, value_name = "WORDS")]
    query: Option<String>,
    /// In USDC
    #[arg(long, value_name = "USDC")]
    max_price: Option<Usdc>,
    #[arg(long, value_name = "MS")]
    max_latency_ms: Option<u64>,
    /// 0 to 1; sellers that nobody has judged pass no minimum
    #[arg(long, value_name = "PART")]
    min_success_rate: Option<f64>,
    /// 1 to 5
    #[arg(long, value_name = "STARS")]
    min_avg_stars: Option<f64>,
    #[arg(long, value_name = "TIER")]
    min_trust_tier: Option<u8>,
    /// direct, platform_escrow:NAME, platform_escrow:* or custom_escrow:URL
    #[arg(long, value_name = "MODE")]
    payment_mode: Option<String>,
    /// Only sellers that give quotes
    #[arg(long)]
    clarify: bool,
    /// v0 or v1
    #[arg(long, value_name = "VERSION")]
    min_verification_version: Option<String>,
    /// Only listings whose results may be audited
    #[arg(long)]
    audited: bool,
    /// Only sellers whose first call is free
    #[arg(long)]
    first_call_free: bool,
    /// Only sellers that hold this benchmark, or a higher one: standard or elite
    #[arg(long, value_name = "LEVEL", value_parser = benchmark)]
    benchmark: Option<BenchmarkTier>,
    /// Only this agent's
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentId>,
    /// 1 to 100
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Where an earlier page ended
    #[arg(long, allow_hyphen_values = true)]
    cursor: Option<String>,
}

fn benchmark(word: &str) -> Result<BenchmarkTier, String> {
    match word.to_ascii_lowercase().as_str() {
        "standard" => Ok(BenchmarkTier::Standard),
        "elite" => Ok(BenchmarkTier::Elite),
        _ => Err("say standard or elite".to_owned()),
    }
}

impl SearchArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        self.node.flags()
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let client = connect(settings)?;
        let only = |on: bool| on.then_some(true);
        let search = Search {
            capability: self.capability,
            matching: if self.prefix { Match::Prefix } else { Match::Exact },
            query: self.query,
            max_price_usdc: self.max_price,
            max_latency_ms: self.max_latency_ms,
            min_success_rate: self.min_success_rate,
            min_avg_stars: self.min_avg_stars,
            min_trust_tier: self.min_trust_tier,
            payment_mode: self.payment_mode,
            clarification_supported: only(self.clarify),
            min_verification_version: self.min_verification_version,
            audit_participating: only(self.audited),
            first_call_free: only(self.first_call_free),
            benchmark: self.benchmark,
            agent_id: self.agent,
            limit: self.limit,
            cursor: self.cursor,
        };
        let mut answer = client.search(&search).await.map_err(told)?;
        // A registry could say what it likes; what a seller signed, it could not make up.
        answer.agents.retain(|found| {
            let holds = found.listing.check().is_ok() && found.listing.agent_id == found.agent_id;
            if !holds {
                let id = found.listing_id;
                eprintln!("left out: {id}, whose signature does not hold");
            }
            holds
        });
        if json {
            return print_json(out, &answer);
        }
        for found in &answer.agents {
            show(found, out)?;
        }
        if answer.agents.is_empty() {
            writeln!(out, "nobody was found")?;
        }
        if let Some(offered) = answer.available_capabilities.filter(|some| !some.is_empty()) {
            let names: Vec<String> = offered.iter().map(|name| plain(name)).collect();
            writeln!(out, "there is: {}", names.join(", "))?;
        }
        if let Some(cursor) = answer.next_cursor {
            writeln!(out, "more: --cursor {cursor}")?;
        }
        Ok(())
    }
}
