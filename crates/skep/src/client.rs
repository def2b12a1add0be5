//! What commands need to talk to a node: its address and the keyring that signs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use skep_agent::{
    Keyring,
    command::Submit,
    passphrase::{self, Ask},
    path::keys_path,
};
use skep_base::{AgentId, Clock, Timestamp};
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_wire::identity::{Agent, KeyChange};

use crate::settings::Settings;

/// The node alone.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The node [default: http://127.0.0.1:4020]
    #[arg(long, value_name = "URL")]
    pub node: Option<String>,
}

/// The node and who talks to it.
#[derive(Debug, Args)]
pub struct SignerArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// The keyring's file [default: $SKEP_KEYS, else skep/keys.json where settings are kept]
    #[arg(long, value_name = "PATH")]
    pub keys: Option<PathBuf>,
    /// Read the passphrase from this file descriptor; else from $SKEP_PASSPHRASE, the file
    /// $SKEP_PASSPHRASE_FILE or the terminal
    #[arg(long, value_name = "N")]
    pub passphrase_fd: Option<u32>,
}

impl NodeArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        vec![("node", self.node.clone())]
    }
}

impl SignerArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let keys = self.keys.as_ref().map(|k| k.display().to_string());
        vec![("node", self.node.node.clone()), ("keys", keys)]
    }

    /// Opens the keyring.
    pub fn keyring(&self, settings: &Settings) -> Result<Keyring> {
        let path = keys_path(settings.path("keys").as_deref())?;
        let passphrase = passphrase::read(self.passphrase_fd, Ask::Once)?;
        Ok(Keyring::open(&path, &passphrase)?)
    }

    /// A client that signs with the keyring.
    pub fn client(&self, settings: &Settings) -> Result<(Client, Keyring)> {
        let keyring = self.keyring(settings)?;
        let key = skep_base::ed25519::SecretKey::from_seed(*keyring.secret().seed());
        Ok((connect(settings)?.with_key(keyring.agent_id(), key), keyring))
    }
}

/// A client that does not sign.
pub fn connect(settings: &Settings) -> Result<Client> {
    Ok(Client::new(settings.text("node").context("say which node: --node URL")?)?)
}

pub fn now() -> Timestamp {
    SystemClock.now()
}

/// The way of `skep keys` to a node.
pub struct Registry(pub Client);

impl Submit for Registry {
    async fn change_keys(&self, agent: AgentId, change: KeyChange) -> Result<Agent, String> {
        self.0.change_keys(&agent, &change).await.map_err(|e| e.to_string())
    }

    async fn agent(&self, agent: AgentId) -> Result<Agent, String> {
        self.0.agent(&agent).await.map_err(|e| e.to_string())
    }
}
