//! `skep up`: the node.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use skep_api::{AdminDoor, Config, Server, TlsFiles};
use skep_base::{AgentId, Clock};
use skep_market::{Challenge, Market, TestClock};
use skep_settle::{
    Policy,
    money::{FEE_BPS_MAX, WHOLE_E4},
};
use skep_store::{Options, Store};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    check::Sandboxed, egress::Guarded, engines::engines, gateway, node_key, settings::Settings,
    verifier::BuiltIn,
};

/// The most that the operator's own terms may say: remainders per free balance, subsidised deals,
/// and whole units of an asset.
const REMAINDER_MULTIPLE_MAX: u64 = 100;
const SUBSIDY_DEALS_MAX: u64 = 1_000;
const UNITS_MAX: u64 = 1_000_000_000;

/// Run the node: API, ledger and everything that works behind them
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep up
  skep up --dev --data-dir ./node --listen 127.0.0.1:0
  skep up --database 'postgres://skep@db/skep?sslmode=disable' --listen 0.0.0.0:443 \\
      --tls-cert cert.pem --tls-key key.pem --public-name market.example")]
pub struct Up {
    /// Where the database and the node's keys are kept
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// sqlite:PATH or postgres://USER@HOST/NAME
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Test money and loopback addresses; for a new database, and on loopback only
    #[arg(long)]
    dev: bool,
    /// The certificate, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key, as a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A proxy in front of the node ends TLS
    #[arg(long)]
    behind_proxy: bool,
    /// An agent that the marketplace picks as a verifier, and that may review
    #[arg(long, value_name = "ADDRESS")]
    accredit: Vec<AgentId>,
    /// Run no verifier inside the node
    #[arg(long)]
    no_verifier: bool,
    /// A host that others know the node by; requests are signed for it
    #[arg(long, value_name = "HOST")]
    public_name: Vec<String>,
}

impl Up {
    /// The flags that were given, by the names of their settings.
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
        let switch = |on: bool| on.then(|| "true".to_owned());
        let names = self.public_name.join(",");
        let accredited: Vec<String> = self.accredit.iter().map(AgentId::to_string).collect();
        let accredited = accredited.join(",");
        vec![
            ("data_dir", path(&self.data_dir)),
            ("listen", self.listen.map(|l| l.to_string())),
            ("database", self.database.clone()),
            ("dev", switch(self.dev)),
            ("tls_cert", path(&self.tls_cert)),
            ("tls_key", path(&self.tls_key)),
            ("behind_proxy", switch(self.behind_proxy)),
            ("public_names", (!names.is_empty()).then_some(names)),
            ("accredited", (!accredited.is_empty()).then_some(accredited)),
            ("verifier", self.no_verifier.then(|| "off".to_owned())),
        ]
    }
}

/// Runs until it is told to stop, then finishes what was accepted.
pub async fn run(settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
    let dev = settings.is_on("dev")?;
    let data_dir = settings.data_dir()?;
    private_folder(&data_dir)?;
    let clock = dev.then(|| Arc::new(TestClock::default()));
    let mut options =
        Options { clock: clock.clone().map(|clock| clock as Arc<dyn Clock>), ..Options::default() };
    if let Some(lanes) = settings.text("lanes") {
        let number = lanes.parse().ok().filter(|lanes| (1..=64).contains(lanes));
        options.lanes = number.with_context(|| format!("lanes is {lanes:?}: say 1 to 64"))?;
    }
    let store = Store::open(&settings.database()?, options).await?;
    check_dev(&store, dev).await?;
    let built_in = match settings.text("verifier") {
        Some("off" | "false" | "no") => None,
        _ => Some(BuiltIn::open(&data_dir, engines(settings, dev)?)?),
    };
    let accredited = accredited(settings)?.into_iter().chain(built_in.as_ref().map(BuiltIn::agent));
    let mut market = Market::new(store, node_key::key(&data_dir, "log")?, dev)
        .with_settlement_key(node_key::key(&data_dir, "settlement")?)
        .with_webhook_key(node_key::key(&data_dir, "webhook")?)
        .with_score_key(node_key::key(&data_dir, "score")?)
        .with_egress(Arc::new(Guarded::new(dev)?))
        .with_checks(Arc::new(Sandboxed::new()?))
        .with_policy(policy(settings)?)
        .with_gateway(gateway::for_node(settings, &data_dir, dev).await?)
        .with_conduit(gateway::conduit(settings)?)
        .with_accredited(accredited)
        .with_own_verifier(built_in.as_ref().map(BuiltIn::agent))
        .with_listing_challenge(challenge(settings)?)
        .with_name(settings.list("public_names").first().map_or("skep", String::as_str));
    if let Some(clock) = clock {
        market = market.with_test_clock(clock).await?;
    }
    let server = Server::bind(config(settings, dev)?, market.clone()).await?;
    market.set_platform_url(&platform_url(settings, dev, &server));
    market.announce_score_keys().await?;
    // Before `ready`, so that whoever reads it may send the signal at once.
    let stopped = stop_signal()?;
    let (stop, stopping) = watch::channel(false);
    let worker = tokio::spawn(market.clone().work(stopping));
    let admin = admin_door(&data_dir, &market, stop.subscribe());
    let verifier = built_in.map(|built_in| tokio::spawn(built_in.run(market)));
    let url = server.url();
    match json {
        true => writeln!(out, "{}", serde_json::json!({ "ready": url }))?,
        false => writeln!(out, "ready {url}")?,
    }
    out.flush()?;
    let drained = server.serve(stopped).await;
    stop.send_replace(true);
    // What it leaves undone it finds again in its inbox.
    if let Some(verifier) = verifier {
        verifier.abort();
    }
    worker.await.context("the node's own work ended in a panic")?;
    if let Some(admin) = admin {
        admin.await.context("the operator's socket ended in a panic")?;
    }
    tracing::info!(?drained, "stopped");
    Ok(())
}

/// The operator's socket. Without it the node serves all the same.
fn admin_door(
    folder: &Path,
    market: &Market,
    mut stopping: watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    let door = match AdminDoor::bind(folder) {
        Ok(door) => door,
        Err(error) => {
            tracing::warn!(%error, "there is no socket for `skep admin`");
            return None;
        }
    };
    let market = market.clone();
    Some(tokio::spawn(async move {
        let stopped = async move {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        if let Err(error) = door.serve(market, stopped).await {
            tracing::error!(%error, "the socket for `skep admin` failed");
        }
    }))
}

/// Where others find what this node publishes.
fn platform_url(settings: &Settings, dev: bool, server: &Server) -> String {
    match settings.list("public_names").first() {
        Some(name) if !dev => format!("https://{name}"),
        _ => server.url(),
    }
}

pub fn config(settings: &Settings, dev: bool) -> Result<Config> {
    let listen = settings.text("listen").context("listen is not set")?;
    let listen: SocketAddr = listen
        .parse()
        .with_context(|| format!("{listen:?} is no address such as 127.0.0.1:4020"))?;
    let mut config = Config::new(listen);
    config.dev = dev;
    config.behind_proxy = settings.is_on("behind_proxy")?;
    config.public_names = settings.list("public_names");
    config.cors_origins = settings.list("cors_origins");
    config.tls = match (settings.path("tls_cert"), settings.path("tls_key")) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        _ => bail!("tls_cert and tls_key come together"),
    };
    let limited = match settings.text("rate_limits") {
        None => !dev,
        Some(_) => settings.is_on("rate_limits")?,
    };
    if !limited {
        config.rates = None;
    }
    Ok(config)
}

/// Those whom the operator trusts to verify for anybody, and to review.
fn accredited(settings: &Settings) -> Result<Vec<AgentId>> {
    let parse = |word: &String| {
        word.parse().map_err(|_| anyhow::anyhow!("accredited: {word:?} is no address (0x…)"))
    };
    settings.list("accredited").iter().map(parse).collect()
}

/// The marketplace's terms of business.
fn policy(settings: &Settings) -> Result<Policy> {
    let number = |name: &str, most: u64| match settings.text(name) {
        None => Ok(None),
        Some(text) => in_range(name, text, most).map(Some),
    };
    let bps = |name: &str, most: u32| -> Result<Option<u32>> {
        Ok(number(name, u64::from(most))?.map(u32::try_from).transpose()?)
    };
    let mut policy = Policy::default();
    policy.fee_bps = bps("fee_bps", FEE_BPS_MAX)?.unwrap_or(policy.fee_bps);
    for pair in settings.list("fee_tiers") {
        let (name, text) = pair
            .split_once('=')
            .with_context(|| format!("fee_tiers: {pair:?} is no SUBSCRIPTION=FEE"))?;
        let fee = in_range("fee_tiers", text.trim(), u64::from(FEE_BPS_MAX))?;
        policy.fee_tiers.insert(name.trim().to_owned(), u32::try_from(fee)?);
    }
    let share = bps("fee_buyer_share_bps", WHOLE_E4)?;
    policy.buyer_share_bps = share.unwrap_or(policy.buyer_share_bps);
    policy.deposit_bps = bps("dispute_deposit_bps", WHOLE_E4)?.unwrap_or(policy.deposit_bps);
    if let Some(multiple) = number("remainder_multiple", REMAINDER_MULTIPLE_MAX)? {
        policy.remainder_multiple = i64::try_from(multiple)?;
    }
    if let Some(units) = number("auto_approve_max", UNITS_MAX)? {
        policy.auto_approve_units_max = i64::try_from(units)?;
    }
    if let Some(deals) = number("subsidy_deals", SUBSIDY_DEALS_MAX)? {
        policy.subsidy.deals = u32::try_from(deals)?;
    }
    if let Some(units) = number("subsidy_price_max", UNITS_MAX)? {
        policy.subsidy.price_units_max = i64::try_from(units)?;
    }
    policy.review_deadline_s = number("review_deadline_s", u64::MAX)?.filter(|s| *s > 0);
    Ok(policy)
}

fn in_range(name: &str, text: &str, most: u64) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number <= most);
    number.with_context(|| format!("{name} is {text:?}: say a whole number, at most {most}"))
}

fn challenge(settings: &Settings) -> Result<Challenge> {
    Ok(match settings.text("listing_challenge") {
        Some("off") => Challenge::Off,
        Some("soft") => Challenge::Soft,
        None | Some("enforce") => Challenge::Enforce,
        Some(other) => bail!("listing_challenge is {other:?}: say off, soft or enforce"),
    })
}

/// Decision 35a: a database is for test money from its first day, or never.
async fn check_dev(store: &Store, dev: bool) -> Result<()> {
    let stamped = store.meta_once("dev", if dev { "true" } else { "false" }).await?;
    match (stamped.as_str(), dev) {
        ("true", false) => bail!("this database was made with --dev: say --dev, or use another"),
        ("false", true) => bail!("this database was made without --dev: use another for tests"),
        _ => Ok(()),
    }
}

pub fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

pub fn private_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("{} cannot be made", path.display()))
}
