//! `skep up`: the node.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use skep_api::{Config, Server, TlsFiles};
use skep_base::{Clock, ed25519::SecretKey};
use skep_market::{Market, TestClock};
use skep_store::{Options, Store};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::settings::Settings;

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
        vec![
            ("data_dir", path(&self.data_dir)),
            ("listen", self.listen.map(|l| l.to_string())),
            ("database", self.database.clone()),
            ("dev", switch(self.dev)),
            ("tls_cert", path(&self.tls_cert)),
            ("tls_key", path(&self.tls_key)),
            ("behind_proxy", switch(self.behind_proxy)),
            ("public_names", (!names.is_empty()).then_some(names)),
        ]
    }
}

/// Runs until it is told to stop, then finishes what was accepted.
pub async fn run(settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
    let dev = settings.is_on("dev")?;
    let data_dir = settings.data_dir()?;
    private_folder(&data_dir)?;
    let clock = dev.then(|| Arc::new(TestClock::default()));
    let options =
        Options { clock: clock.clone().map(|clock| clock as Arc<dyn Clock>), ..Options::default() };
    let store = Store::open(&settings.database()?, options).await?;
    check_dev(&store, dev).await?;
    let log_key = node_key(&data_dir, "log")?;
    let mut market = Market::new(store, log_key, dev);
    if let Some(clock) = clock {
        market = market.with_test_clock(clock).await?;
    }
    let server = Server::bind(config(settings, dev)?, market.clone()).await?;
    // Before `ready`, so that whoever reads it may send the signal at once.
    let stopped = stop_signal()?;
    let (stop, stopping) = watch::channel(false);
    let worker = tokio::spawn(market.work(stopping));
    let url = server.url();
    match json {
        true => writeln!(out, "{}", serde_json::json!({ "ready": url }))?,
        false => writeln!(out, "ready {url}")?,
    }
    out.flush()?;
    let drained = server.serve(stopped).await;
    stop.send_replace(true);
    worker.await.context("the node's own work ended in a panic")?;
    tracing::info!(?drained, "stopped");
    Ok(())
}

fn config(settings: &Settings, dev: bool) -> Result<Config> {
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

/// Decision 35a: a database is for test money from its first day, or never.
async fn check_dev(store: &Store, dev: bool) -> Result<()> {
    let stamped = store.meta_once("dev", if dev { "true" } else { "false" }).await?;
    match (stamped.as_str(), dev) {
        ("true", false) => bail!("this database was made with --dev: say --dev, or use another"),
        ("false", true) => bail!("this database was made without --dev: use another for tests"),
        _ => Ok(()),
    }
}

fn stop_signal() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn private_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("{} cannot be made", path.display()))
}

/// A key of the node's own, made at its first start. Each use has its own (decision 6).
fn node_key(data_dir: &Path, purpose: &str) -> Result<SecretKey> {
    let path = data_dir.join(format!("{purpose}.key"));
    let told = || format!("the node's key {}", path.display());
    if !path.exists() {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        let fresh = path.with_extension("new");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .with_context(told)?;
        file.write_all(hex(&seed).as_bytes()).with_context(told)?;
        file.sync_all().with_context(told)?;
        fs::rename(&fresh, &path).with_context(told)?;
        fs::File::open(data_dir).and_then(|folder| folder.sync_all()).with_context(told)?;
    }
    let mode = fs::metadata(&path).with_context(told)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 it", path.display());
    }
    let text = fs::read_to_string(&path).with_context(told)?;
    let seed: skep_base::Hash32 =
        text.trim().parse().map_err(|_| anyhow::anyhow!("{} holds no key", path.display()))?;
    Ok(SecretKey::from_seed(*seed.as_bytes()))
}

fn hex(bytes: &[u8; 32]) -> String {
    skep_base::Hash32(*bytes).to_string()
}
