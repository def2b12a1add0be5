//! The node's way to a browser: in this process, or `skep gateway run` in another.

use std::{
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use skep_api::{Config, GATEWAY_SECRET_LEN_MIN, GatewayDoor, Server};
use skep_base::{Amount, ed25519::PublicKey, id::SessionId};
use skep_market::{Calling, Conduit, Gateway};
use skep_probe::{
    Egress,
    browser::{Browsers, Limits},
    gateway as probe,
};
use skep_sdk::GatewayClient;
use skep_store::SystemClock;
use skep_wire::conduit::{
    Acted, GatewayAct, GatewayClose, GatewayError, GatewayOpen, SESSION_LIFE_MAX, SessionProof,
};

use crate::{egress, engines, node_key, settings::Settings, up};

/// Browsers of one gateway at the same time, unless the operator says otherwise.
const BROWSERS: usize = 8;
const BROWSERS_MAX: usize = 256;
/// A little longer than a session lives.
const BROWSER_LIFE: std::time::Duration =
    SESSION_LIFE_MAX.saturating_add(std::time::Duration::from_secs(60));
/// The key's file in the data folder.
const PURPOSE: &str = "gateway";

/// Run browsers for a node's sessions as a process of its own
#[derive(Debug, Args)]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    Run(Run),
}

/// Serve the node that knows the secret
#[derive(Debug, Args)]
#[command(after_help = "Example:
  export SKEP_GATEWAY_SECRET=$(head -c 24 /dev/urandom | base64)
  skep gateway run --listen 127.0.0.1:4021 --data-dir ./gateway
  skep up --dev                  (with SKEP_GATEWAY_URL=http://127.0.0.1:4021 and the same secret)

It signs what it records with a key of its own, which it prints. A node that is told this key as
gateway_key takes proofs of no other.")]
struct Run {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where the gateway's key is kept
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Allow loopback addresses; for tests
    #[arg(long)]
    dev: bool,
}

impl GatewayArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let GatewayCommand::Run(run) = &self.command;
        vec![
            ("listen", run.listen.map(|listen| listen.to_string())),
            ("data_dir", run.data_dir.as_ref().map(|path| path.display().to_string())),
            ("dev", run.dev.then(|| "true".to_owned())),
        ]
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let dev = settings.is_on("dev")?;
        let data_dir = settings.data_dir()?;
        up::private_folder(&data_dir)?;
        let secret = secret(settings)?.context(
            "a gateway needs a secret that its node knows: set SKEP_GATEWAY_SECRET, or \
             gateway_secret_file",
        )?;
        let gateway = in_process(settings, &data_dir, dev)?;
        let info = gateway.info();
        let door = GatewayDoor { gateway: Arc::new(Local(gateway)), info: info.clone(), secret };
        let config = Config { rates: None, ..up::config(settings, dev)? };
        let server = Server::bind_gateway(config, door).await?;
        let stopped = up::stop_signal()?;
        let url = server.url();
        match json {
            true => {
                let ready = serde_json::json!({ "ready": url, "public_key": info.public_key });
                writeln!(out, "{ready}")?;
            }
            false => writeln!(out, "ready {url}\nkey {}", info.public_key)?,
        }
        out.flush()?;
        server.serve(stopped).await;
        Ok(())
    }
}

/// The gateway that the settings name, or one inside this process.
pub async fn for_node(settings: &Settings, data_dir: &Path, dev: bool) -> Result<Arc<dyn Gateway>> {
    let Some(url) = settings.text("gateway_url") else {
        return Ok(Arc::new(Local(in_process(settings, data_dir, dev)?)));
    };
    let secret = secret(settings)?.context("gateway_url needs a gateway_secret too")?;
    let client = GatewayClient::new(url, &secret)?;
    let trusted = OnceLock::new();
    match settings.text("gateway_key") {
        Some(text) => {
            let key: PublicKey =
                text.parse().map_err(|e| anyhow::anyhow!("gateway_key is no key: {e}"))?;
            let _ = trusted.set(key);
        }
        None => match client.info().await {
            Ok(info) => {
                tracing::info!(key = %info.public_key, "the gateway's key is trusted from now on");
                let _ = trusted.set(info.public_key);
            }
            Err(error) => tracing::warn!(%error, "the gateway does not answer yet"),
        },
    }
    Ok(Arc::new(Remote { client, trusted }))
}

/// What the operator has set about sessions.
pub fn conduit(settings: &Settings) -> Result<Conduit> {
    let mut conduit = Conduit::default();
    let number = |name: &str| -> Result<Option<i64>> {
        let Some(text) = settings.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number >= 0);
        Ok(Some(number.with_context(|| format!("{name} is {text:?}, which is no number"))?))
    };
    if let Some(minor) = number("session_price_minor")? {
        conduit.prices.billable = Amount::new(minor).context("session_price_minor is negative")?;
    }
    if let Some(max) = number("sessions_max")? {
        conduit.sessions_max = usize::try_from(max)?;
    }
    for pair in settings.list("session_prices") {
        let (action, minor) = pair
            .split_once('=')
            .with_context(|| format!("session_prices: {pair:?} is no ACTION=MINOR_UNITS"))?;
        let price = minor.trim().parse().ok().and_then(Amount::new);
        let price = price.with_context(|| format!("session_prices: {minor:?} is no amount"))?;
        conduit.prices.special.insert(crate::session::action(action.trim())?, price);
    }
    Ok(conduit)
}

fn in_process(settings: &Settings, data_dir: &Path, dev: bool) -> Result<probe::Gateway> {
    let at_once = match settings.text("browsers") {
        None => BROWSERS,
        Some(text) => {
            let number = text.parse().ok().filter(|number| (1..=BROWSERS_MAX).contains(number));
            number.with_context(|| format!("browsers is {text:?}: say 1 to {BROWSERS_MAX}"))?
        }
    };
    let egress = Egress::new(egress::policy(dev))?;
    let limits = Limits { session: BROWSER_LIFE, ..Limits::default() };
    let chromium = engines::chromium(settings, dev);
    let browsers = chromium.map(|found| Browsers::new(found, &egress, limits, at_once));
    if let Err(error) = &browsers {
        tracing::info!(%error, "there will be no browser sessions");
    }
    let key = node_key::key(data_dir, PURPOSE)?;
    Ok(probe::Gateway::new(browsers, key, Arc::new(SystemClock)))
}

/// What node and gateway both know, from the settings or from a file.
fn secret(settings: &Settings) -> Result<Option<String>> {
    let secret = match (settings.text("gateway_secret"), settings.path("gateway_secret_file")) {
        (Some(secret), _) => secret.to_owned(),
        (None, Some(path)) => {
            let told = || format!("the gateway's secret {}", path.display());
            std::fs::read_to_string(&path).with_context(told)?.trim().to_owned()
        }
        (None, None) => return Ok(None),
    };
    if secret.len() < GATEWAY_SECRET_LEN_MIN {
        bail!("gateway_secret has at least {GATEWAY_SECRET_LEN_MIN} characters");
    }
    Ok(Some(secret))
}

/// In this process.
#[derive(Debug)]
struct Local(probe::Gateway);

impl Gateway for Local {
    fn key(&self) -> Option<PublicKey> {
        Some(self.0.info().public_key)
    }

    fn open(&self, session: SessionId, request: GatewayOpen) -> Calling<'_, PublicKey> {
        Box::pin(self.0.open(session, request))
    }

    fn act(&self, session: SessionId, request: GatewayAct) -> Calling<'_, Acted> {
        Box::pin(self.0.act(session, request))
    }

    fn close(&self, session: SessionId, request: GatewayClose) -> Calling<'_, SessionProof> {
        Box::pin(self.0.close(session, request))
    }
}

/// In another. Its key is the one that was set, or the first that it gave.
#[derive(Debug)]
struct Remote {
    client: GatewayClient,
    trusted: OnceLock<PublicKey>,
}

impl Gateway for Remote {
    fn key(&self) -> Option<PublicKey> {
        self.trusted.get().copied()
    }

    fn open(&self, session: SessionId, request: GatewayOpen) -> Calling<'_, PublicKey> {
        Box::pin(async move {
            let key = self.client.open(session, &request).await?;
            let trusted = *self.trusted.get_or_init(|| key);
            match trusted == key {
                true => Ok(key),
                false => Err(GatewayError::Unreachable {
                    detail: "it has another key than the one that is trusted".to_owned(),
                }),
            }
        })
    }

    fn act(&self, session: SessionId, request: GatewayAct) -> Calling<'_, Acted> {
        Box::pin(async move { self.client.act(session, &request).await })
    }

    fn close(&self, session: SessionId, request: GatewayClose) -> Calling<'_, SessionProof> {
        Box::pin(async move { self.client.close(session, &request).await })
    }
}
