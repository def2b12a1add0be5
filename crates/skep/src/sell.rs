//! `skep sell`: any program, or a server of one's own, as an agent that is hired and paid.

use std::{ffi::OsString, fs, io::Write, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use skep_agent::{
    path::keys_path,
    seller::{
        FREE_PER_DAY_DEFAULT, ForwardWork, MAX_LATENCY_MS_DEFAULT, Offer, ProgramWork, REPUBLISH,
        SEATS_DEFAULT, Sale, Seller, SellerConfig, SellerHandle, Work, params_len_max,
    },
};
use skep_base::AgentId;
use skep_hire::capability::current_version;
use skep_probe::Egress;
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_wire::hire::{PaymentMode, Usdc};
use tokio::sync::broadcast::error::RecvError;

use crate::{check, client::SignerArgs, egress, settings::Settings, up};

/// A listing that could not be published again is tried again after this.
const REPUBLISH_PAUSE: std::time::Duration = std::time::Duration::from_secs(60);
/// Short for the escrow that the node itself keeps.
const OWN_ESCROW: &str = "escrow";

/// Sell what a program does: parameters as JSON on its stdin, the result as JSON from its stdout
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep sell compute.statistics.mean --price 0.01 -- skep work statistics
  skep sell custom.acme.ocr --price 0.05 --payment-mode direct --payment-mode escrow -- ./ocr.py
  skep sell text.summarize.short --price 0.02 --forward http://127.0.0.1:8000/summarize")]
pub struct SellArgs {
    #[command(flatten)]
    signer: SignerArgs,
    /// What is sold, such as chart.generate.from-data, or custom.YOU.WHAT
    capability: String,
    /// What a hire costs, in USDC
    #[arg(long, value_name = "USDC")]
    price: Usdc,
    /// direct, escrow (the node's own), platform_escrow:NAME or custom_escrow:URL; can be repeated
    #[arg(long, value_name = "MODE")]
    payment_mode: Vec<String>,
    /// Where the seller listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where buyers find it [default: where it listens]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// A proxy in front ends TLS
    #[arg(long)]
    behind_proxy: bool,
    /// How long a hire may take; then it is stopped and costs nothing
    #[arg(long, value_name = "MS", default_value_t = MAX_LATENCY_MS_DEFAULT)]
    max_latency_ms: u64,
    /// Every buyer's first call is free
    #[arg(long)]
    first_call_free: bool,
    /// Free calls in a day, of all buyers together
    #[arg(long, value_name = "N", default_value_t = FREE_PER_DAY_DEFAULT)]
    free_per_day: u32,
    /// Hires that run at the same time
    #[arg(long, value_name = "N", default_value_t = SEATS_DEFAULT)]
    seats: usize,
    /// The longest parameters that are taken, in bytes [default: 1 MiB; image.* and audio.* 16 MiB]
    #[arg(long, value_name = "BYTES")]
    max_params: Option<usize>,
    /// Who is paid, if not the agent's own wallet
    #[arg(long, value_name = "WALLET")]
    payee: Option<AgentId>,
    /// Which of the capability's checks the results pass: v0 or v1; the newest if nothing is said
    #[arg(long, value_name = "VERSION")]
    verification_version: Option<String>,
    /// Give quotes before hires; for custom capabilities. The program gets {"clarify": {…}}
    #[arg(long)]
    clarify: bool,
    /// Give quotes only to those who sign their question
    #[arg(long, requires = "clarify")]
    clarify_signed_only: bool,
    /// Results may be looked at again by auditors
    #[arg(long)]
    audit: bool,
    /// Show numbers in coarse steps only
    #[arg(long)]
    private_metrics: bool,
    /// For people and searches
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Of a custom capability: {"input": …, "output": …} as JSON Schema; what does not fit is
    /// neither taken nor sold
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Do not put the listing into the registry
    #[arg(long)]
    unlisted: bool,
    /// Callbacks may go to this machine, for tests
    #[arg(long)]
    dev: bool,
    /// Remembers hires [default: beside the keyring]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Send parameters to this address instead of a program
    #[arg(long, value_name = "URL", conflicts_with = "program")]
    forward: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "forward")]
    program: Vec<OsString>,
}

impl SellArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        self.signer.flags()
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        known(&client, keyring.agent_id()).await?;
        let journal = match &self.journal {
            Some(path) => path.clone(),
            None => {
                let keys = keys_path(settings.path("keys").as_deref())?;
                let folder = keys.parent().context("the keyring has no folder")?;
                let name = format!("seller-{}-{}.journal", keyring.agent_id(), self.capability);
                folder.join(name)
            }
        };
        let config = SellerConfig {
            wallet: keyring.wallet().clone(),
            offers: vec![self.offer(&client).await?],
            node: client,
            listen: self.listen,
            endpoint: self.endpoint.clone(),
            behind_proxy: self.behind_proxy,
            journal,
            egress: Egress::new(egress::policy(self.dev))?,
            checker: Arc::new(check::checker()?),
            clock: Arc::new(SystemClock),
            clarify_signed_only: self.clarify_signed_only,
        };
        let seller = Seller::open(config).await?;
        let (endpoint, handle) = (seller.endpoint().to_owned(), seller.handle());
        let mut sales = handle.sales();
        let stop = up::stop_signal()?;
        let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(seller.serve(async {
            // A sender that is gone means the same.
            let _ = stopped.await;
        }));
        if !self.unlisted {
            handle.publish().await.context("the listing was not published")?;
        }
        self.tell_start(&endpoint, json, out)?;
        let upkeep = tokio::spawn(republish(handle, self.unlisted));
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                sale = sales.recv() => match sale {
                    Ok(sale) => tell(&sale, json, out)?,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break,
                },
            }
        }
        upkeep.abort();
        drop(stopping);
        serving.await.context("the seller ended badly")?;
        while let Ok(sale) = sales.try_recv() {
            tell(&sale, json, out)?;
        }
        Ok(())
    }

    async fn offer(&self, client: &Client) -> Result<Offer> {
        let work: Arc<dyn Work> = match (&self.forward, self.program.split_first()) {
            (Some(url), _) => Arc::new(ForwardWork::new(url)?),
            (None, Some((program, args))) => Arc::new(ProgramWork::new(program, args.to_vec())),
            (None, None) => bail!("say which program: -- PROGRAM ARGS…"),
        };
        let mut modes = Vec::new();
        for mode in &self.payment_mode {
            modes.push(match mode.as_str() {
                OWN_ESCROW => {
                    PaymentMode::PlatformEscrow(client.x402_rail().await?.escrow_provider)
                }
                other => other.parse()?,
            });
        }
        if modes.is_empty() {
            modes.push(PaymentMode::Direct);
        }
        let schema: Option<Value> = match &self.schema {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
                let bad = || format!("{} is no JSON", path.display());
                Some(serde_json::from_str(&text).with_context(bad)?)
            }
            None => None,
        };
        Ok(Offer {
            capability: self.capability.clone(),
            price: self.price.clone(),
            modes,
            payee: self.payee,
            max_latency_ms: self.max_latency_ms,
            first_call_free: self.first_call_free,
            free_per_day: self.free_per_day,
            verification_version: self
                .verification_version
                .clone()
                .or_else(|| current_version(&self.capability).map(str::to_owned)),
            clarification_supported: self.clarify,
            audit_participating: self.audit,
            private_metrics: self.private_metrics,
            description: self.description.clone(),
            schema,
            seats: self.seats,
            params_len_max: self.max_params.unwrap_or(params_len_max(&self.capability)),
            work,
        })
    }

    fn tell_start(&self, endpoint: &str, json: bool, out: &mut dyn Write) -> Result<()> {
        let (capability, price) = (&self.capability, &self.price);
        match json {
            true => {
                let line = json!({
                    "event": "selling", "capability": capability, "endpoint": endpoint,
                    "price_usdc": price,
                });
                writeln!(out, "{line}")?;
            }
            false => {
                writeln!(out, "ready {endpoint}")?;
                writeln!(out, "selling {capability} at {endpoint} for {price} USDC")?;
            }
        }
        Ok(out.flush()?)
    }
}

/// A registry takes listings of agents that it knows.
async fn known(client: &Client, agent: AgentId) -> Result<()> {
    match client.agent(&agent).await {
        Ok(_) => Ok(()),
        Err(skep_sdk::Error::Problem { problem, .. }) if problem.status == 404 => {
            bail!("this node does not know the agent {agent} yet: skep agent register")
        }
        Err(error) => Err(error.into()),
    }
}

/// Keeps the listings young.
async fn republish(handle: SellerHandle, unlisted: bool) {
    if unlisted {
        return;
    }
    loop {
        tokio::time::sleep(REPUBLISH).await;
        while let Err(error) = handle.publish().await {
            tracing::warn!(%error, "the listings were not published again");
            tokio::time::sleep(REPUBLISH_PAUSE).await;
        }
    }
}

fn tell(sale: &Sale, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        let mut line = serde_json::to_value(sale)?;
        line["event"] = json!("hire");
        writeln!(out, "{line}")?;
        return Ok(out.flush()?);
    }
    let Sale { hire_id, buyer, paid_usdc, .. } = sale;
    match &sale.error {
        Some(code) => writeln!(out, "{hire_id} for {buyer} failed: {code}")?,
        None => writeln!(out, "{hire_id} for {buyer} paid {paid_usdc} USDC")?,
    }
    Ok(out.flush()?)
}
