//! `skep keys`: the wallet and the identity key of an agent, encrypted at rest.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use clap::{Args, Subcommand};
use skep_agent::{
    command::{self, Bind, Keys, New, Rotate, RotateStep, Submit},
    path::keys_path,
};
use skep_base::{Timestamp, ed25519::PublicKey};

/// Make, show and change an agent's keys
#[derive(Args, Debug)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand, Debug)]
enum KeysCommand {
    /// Make a keyring: a wallet, an identity key and the phrase that recovers both
    #[command(after_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Show the agent's id, DID and public key; takes no passphrase
    #[command(after_help = "Example:\n  skep keys show --json")]
    Show(PathArgs),
    /// Replace the identity key, or go on with a replacement that was cut short
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate(RotateArgs),
    /// Print the registration that wallet and identity key have both signed, or check one
    #[command(after_help = BIND_EXAMPLES)]
    Bind(BindArgs),
}

const NEW_EXAMPLES: &str = "Examples:
  skep keys new
  SKEP_PASSPHRASE_FILE=pass.txt skep keys new --keys agent.json --json
  skep keys new --from-phrase --phrase-fd 3 3<words.txt";

const ROTATE_EXAMPLES: &str = "Examples:
  skep keys rotate --node http://127.0.0.1:4020
  skep keys rotate --offline > change.json
  skep keys rotate --recover";

const BIND_EXAMPLES: &str = "Examples:
  skep keys bind --name Ada > registration.json
  skep keys bind --verify registration.json";

#[derive(Args, Debug)]
struct PathArgs {
    /// The keyring's file [default: $SKEP_KEYS, else skep/keys.json where settings are kept]
    #[arg(long, value_name = "PATH")]
    keys: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct SecretArgs {
    #[command(flatten)]
    path: PathArgs,
    /// Read the passphrase from this file descriptor; else from $SKEP_PASSPHRASE, the file
    /// $SKEP_PASSPHRASE_FILE or the terminal
    #[arg(long, value_name = "N")]
    passphrase_fd: Option<u32>,
}

#[derive(Args, Debug)]
struct NewArgs {
    #[command(flatten)]
    secret: SecretArgs,
    /// Make the keyring again from a recovery phrase
    #[arg(long)]
    from_phrase: bool,
    /// Read the recovery phrase from this file descriptor instead of the terminal
    #[arg(long, value_name = "N", requires = "from_phrase")]
    phrase_fd: Option<u32>,
    /// Which identity key of the phrase: 0, or higher after recoveries
    #[arg(long, value_name = "N", default_value_t = 0, requires = "from_phrase")]
    key_number: u32,
    /// Add an operator key, which counter-signs for this agent
    #[arg(long)]
    operator: bool,
}

#[derive(Args, Debug)]
struct RotateArgs {
    #[command(flatten)]
    secret: SecretArgs,
    /// The node that is told
    #[arg(long, value_name = "URL", conflicts_with_all = ["offline", "accepted"])]
    node: Option<String>,
    /// Stage a new key and print the signed change instead of sending it
    #[arg(long)]
    offline: bool,
    /// Replace a lost key with the recovery phrase; the node waits before it takes the new one
    #[arg(long, group = "step")]
    recover: bool,
    /// Read the recovery phrase from this file descriptor instead of the terminal
    #[arg(long, value_name = "N", requires = "recover")]
    phrase_fd: Option<u32>,
    /// The lost key [default: the one the node knows]
    #[arg(long, value_name = "KEY", requires = "recover", allow_hyphen_values = true)]
    old_key: Option<PublicKey>,
    /// Use the staged key from now on: a node took the change that --offline printed
    #[arg(long, group = "step", conflicts_with = "offline")]
    accepted: bool,
    /// Forget the staged key, unless the node has it; with --offline without asking
    #[arg(long, group = "step")]
    drop: bool,
}

#[derive(Args, Debug)]
struct BindArgs {
    #[command(flatten)]
    secret: SecretArgs,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Where notices go
    #[arg(long, value_name = "URL")]
    webhook_url: Option<String>,
    /// Check the registration in this file instead of printing one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "webhook_url"])]
    verify: Option<PathBuf>,
    /// The operator's first key, to check its signature too
    #[arg(long, value_name = "KEY", requires = "verify", allow_hyphen_values = true)]
    operator_key: Option<PublicKey>,
}

/// Runs a subcommand. `connect` makes the way to a node of what `--node` says, and is called only
/// where a node is needed.
pub(crate) async fn run<S: Submit>(
    args: KeysArgs,
    json: bool,
    default_path: Option<PathBuf>,
    connect: impl FnOnce(Option<&str>) -> Result<S>,
    out: &mut dyn Write,
) -> Result<()> {
    match args.command {
        KeysCommand::New(args) => {
            let options = New {
                from_phrase: args.from_phrase,
                phrase_fd: args.phrase_fd,
                key_number: args.key_number,
                operator: args.operator,
            };
            command::new(&args.secret.keys(json, default_path.as_deref())?, &options, out)?;
        }
        KeysCommand::Show(path) => {
            command::show(
                &SecretArgs { path, passphrase_fd: None }.keys(json, default_path.as_deref())?,
                out,
            )?;
        }
        KeysCommand::Rotate(args) => {
            let options =
                Rotate { step: args.step(), old_key: args.old_key, offline: args.offline };
            let alone = args.offline || args.accepted;
            let node = if alone { None } else { Some(connect(args.node.as_deref())?) };
            command::rotate(
                &args.secret.keys(json, default_path.as_deref())?,
                &options,
                node.as_ref(),
                out,
            )
            .await?;
        }
        KeysCommand::Bind(BindArgs { verify: Some(file), operator_key, .. }) => {
            command::verify(json, &file, operator_key.as_ref(), out)?;
        }
        KeysCommand::Bind(args) => {
            let options = Bind { name: args.name, webhook_url: args.webhook_url };
            command::bind(&args.secret.keys(json, default_path.as_deref())?, &options, out)?;
        }
    }
    Ok(())
}

impl SecretArgs {
    fn keys(&self, json: bool, default_path: Option<&Path>) -> Result<Keys> {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Keys {
            path: keys_path(self.path.keys.as_deref().or(default_path))?,
            passphrase_fd: self.passphrase_fd,
            json,
            now: Timestamp::EPOCH.plus(since_epoch),
        })
    }
}

impl RotateArgs {
    fn step(&self) -> RotateStep {
        if self.recover {
            RotateStep::Recover { phrase_fd: self.phrase_fd }
        } else if self.accepted {
            RotateStep::Accepted
        } else if self.drop {
            RotateStep::Drop
        } else {
            RotateStep::Rotate
        }
    }
}
