//! Verifiers: the one inside a node, and `skep verifier`.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use skep_agent::verifier::{Desk, Identity, Verifier};
use skep_base::{
    AgentId, Clock, Hash32, Money,
    ed25519::{PublicKey, SecretKey},
    hash::sha256,
    id::{DealId, VerificationId},
    wallet::WalletKey,
};
use skep_market::{Failure, Market, Signed};
use skep_probe::{Engines, known_offers};
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_wire::{
    Page,
    identity::{Binding, RegisterAgent, Statement},
    settle::{
        Agreement, BaselineReport, EngineOffer, NewVerifierKey, RegisterVerifier, Verification,
        VerificationCallback, engine,
    },
    wallet::EventLine,
};

use crate::{
    client::{NodeArgs, SignerArgs, connect, now},
    engines::engines,
    node_key,
    settings::Settings,
};

/// A key that ends sooner than this is replaced.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How often the built-in verifier looks whether its key is still good for long.
const RENEWAL_PAUSE: Duration = Duration::from_secs(30);
/// How long it waits after the database has failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(2);
const PURPOSE: &str = "verifier";

/// How a key is called among those of its verifier.
pub fn kid(key: &PublicKey) -> String {
    key.fingerprint().to_string()[..16].to_owned()
}

/// The verifier that a node has by itself: an agent with keys in the node's folder.
pub struct BuiltIn {
    folder: PathBuf,
    wallet: WalletKey,
    agent_key: SecretKey,
    engines: Engines,
}

impl BuiltIn {
    pub fn open(folder: &Path, engines: Engines) -> Result<BuiltIn> {
        let wallet = WalletKey::from_bytes(node_key::seed(folder, "verifier-wallet")?)
            .map_err(|_| anyhow::anyhow!("the verifier's wallet key is none"))?;
        let agent_key = node_key::key(folder, "verifier-agent")?;
        Ok(BuiltIn { folder: folder.to_owned(), wallet, agent_key, engines })
    }

    pub fn agent(&self) -> AgentId {
        self.wallet.address()
    }

    /// Registers it like any other verifier, then works until the future is dropped. What goes
    /// wrong with the database is tried again.
    pub async fn run(self, market: Market) {
        let desk = Inside {
            market,
            agent: self.agent(),
            key: Arc::new(SecretKey::from_seed(*self.agent_key.seed())),
        };
        loop {
            if let Err(error) = self.serve(&desk).await {
                let error = format!("{error:#}");
                tracing::warn!(error, "the built-in verifier begins again");
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
    }

    /// Works until its key has to be renewed.
    async fn serve(&self, desk: &Inside) -> Result<()> {
        if desk.market.agent(&desk.agent.to_string()).await.is_err() {
            desk.market.register_agent(self.registration()?).await?;
        }
        let key = self.good_key(desk).await?;
        // Nobody is to take its word for somebody else's.
        desk.market.announce_score_keys().await?;
        let verifier = Arc::new(self.verifier(SecretKey::from_seed(*key.seed()))?);
        let file = self.folder.join("verifier.cursor");
        let head = desk.market.store().head().borrow().seq;
        let cursor = fs::read_to_string(&file).ok();
        // Of another database, or of one that was put back: it would skip what is new.
        let cursor = cursor.filter(|text| text.parse().is_ok_and(|seq: i64| seq <= head));
        let keep = move |cursor: &str| {
            // Only a hint where to go on: without it, work is looked at twice and done once.
            let _ = fs::write(&file, cursor);
        };
        let working = verifier.run(desk.clone(), cursor, keep);
        let renewing = async {
            loop {
                tokio::time::sleep(RENEWAL_PAUSE).await;
                if !self.is_good_for_long(desk, &key.public()).await? {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::select! {
            () = working => Ok(()),
            renewed = renewing => renewed,
        }
    }

    async fn is_good_for_long(&self, desk: &Inside, key: &PublicKey) -> Result<bool> {
        let soon = desk.market.store().now().await?.plus(RENEWED_BEFORE);
        let known = desk.market.verifier(&desk.agent).await?;
        Ok(known.keys.iter().any(|known| known.public_key == *key && known.is_good_at(soon)))
    }

    fn registration(&self) -> Result<RegisterAgent> {
        let binding = Binding {
            agent_id: self.agent(),
            public_key: self.agent_key.public(),
            recovery_key: None,
            operator: None,
            name: Some("built-in verifier".to_owned()),
            webhook_hash: None,
            issued_at: now(),
        };
        Ok(RegisterAgent {
            wallet_signature: binding
                .sign_with_wallet(&self.wallet)
                .context("the verifier's wallet does not sign")?,
            key_signature: binding.sign(&self.agent_key)?,
            operator_signature: None,
            webhook_url: None,
            binding,
        })
    }

    fn verifier(&self, key: SecretKey) -> Result<Verifier> {
        let identity = Identity {
            agent: self.agent(),
            agent_key: SecretKey::from_seed(*self.agent_key.seed()),
            kid: kid(&key.public()),
            key,
        };
        Ok(Verifier::new(identity, self.engines.clone(), Arc::new(SystemClock)))
    }

    /// A key that is registered and good for a while, with the engines that there are now.
    async fn good_key(&self, desk: &Inside) -> Result<SecretKey> {
        let mut key = node_key::key(&self.folder, PURPOSE)?;
        let soon = desk.market.store().now().await?.plus(RENEWED_BEFORE);
        let (known, engines) = match desk.market.verifier(&desk.agent).await {
            Ok(known) => (known.keys, known.engines),
            Err(Failure::Refused(_)) => (vec![], vec![]),
            Err(failure) => return Err(failure.into()),
        };
        let is_known = known.iter().find(|known| known.public_key == key.public());
        if is_known.is_some_and(|known| !known.is_good_at(soon)) {
            node_key::write(&self.folder, PURPOSE)?;
            key = node_key::key(&self.folder, PURPOSE)?;
        }
        let is_new = !known.iter().any(|known| known.public_key == key.public());
        if is_new || engines != self.engines.offers() {
            let request = registration(self.engines.offers(), &key.public(), vec![]);
            desk.market.register_verifier(&desk.signed("register")?, request).await?;
        }
        Ok(key)
    }
}

fn registration(
    engines: Vec<EngineOffer>,
    key: &PublicKey,
    prices: Vec<Money>,
) -> RegisterVerifier {
    let key = NewVerifierKey { kid: kid(key), public_key: *key, not_before: None, not_after: None };
    RegisterVerifier { engines, key, prices, bundle_less: false }
}

/// A desk in the same process as its market.
#[derive(Clone, Debug)]
struct Inside {
    market: Market,
    agent: AgentId,
    key: Arc<SecretKey>,
}

impl Inside {
    fn signed(&self, words: &str) -> Result<Signed, Failure> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| {
            Failure::Store(skep_store::StoreError::Unavailable(error.to_string()))
        })?;
        Ok(Signed {
            agent: self.agent,
            key: self.key.public(),
            nonce: sha256(&nonce).to_string(),
            expires_at: now().plus(Duration::from_secs(60)),
            fingerprint: sha256(words.as_bytes()),
            idempotency_key: None,
        })
    }
}

impl Desk for Inside {
    type Error = Failure;

    fn is_final(error: &Failure) -> bool {
        !matches!(error, Failure::Store(_))
    }

    async fn inbox(&self, cursor: Option<String>) -> Result<Page<EventLine>, Failure> {
        let after = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
        self.market.inbox(&self.agent, after, 100).await
    }

    async fn verification(&self, id: VerificationId) -> Result<Verification, Failure> {
        self.market.verification(&self.agent, id).await
    }

    async fn agreement(&self, id: DealId) -> Result<Agreement, Failure> {
        self.market.agreement(&self.agent, id).await
    }

    async fn acknowledge(&self, id: VerificationId) -> Result<(), Failure> {
        let signed = self.signed(&id.to_string())?;
        self.market.acknowledge(&signed, id).await.map(|_| ())
    }

    async fn callback(&self, callback: VerificationCallback) -> Result<(), Failure> {
        let raw = serde_json::to_value(&callback).unwrap_or_default();
        self.market.callback(callback.verification_id, callback, raw).await.map(|_| ())
    }

    async fn baseline(&self, id: DealId, fingerprint: Hash32) -> Result<(), Failure> {
        let signed = self.signed(&format!("{id} {fingerprint}"))?;
        let report = BaselineReport { fingerprint };
        self.market.deal_baseline(&signed, id, report).await.map(|_| ())
    }
}

/// Look at other agents' work for money, or for nothing
#[derive(Debug, Args)]
pub struct VerifierArgs {
    #[command(subcommand)]
    command: VerifierCommand,
}

#[derive(Debug, Subcommand)]
enum VerifierCommand {
    /// Register, then verify until Ctrl-C
    #[command(after_help = "Example: skep verifier run --node https://market.example")]
    Run(Run),
    /// Register the keyring's agent as a verifier, or change what it offers
    #[command(after_help = "Examples:
  skep verifier register --engine human
  skep verifier register --engine http --engine api --price '0.10 USDC'")]
    Register(Register),
    /// Take a key out of use, at once
    #[command(after_help = "Example: skep verifier revoke 4f1c…")]
    Revoke(Revoke),
    /// Show a verifier and its keys
    #[command(after_help = "Example: skep verifier show 0x… --json")]
    Show(Show),
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    signer: SignerArgs,
    /// Where the key for proofs is kept [default: data_dir]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Loopback addresses may be looked at, for tests
    #[arg(long)]
    dev: bool,
    /// What a verdict costs, such as '0.10 USDC'
    #[arg(long, value_name = "MONEY")]
    price: Vec<Money>,
}

#[derive(Debug, Args)]
struct Register {
    #[command(flatten)]
    signer: SignerArgs,
    /// Where the key for proofs is kept [default: data_dir]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// An engine: human, http, api, artifact, browser, llm, composite or one of your own
    #[arg(long, value_name = "NAME", required = true)]
    engine: Vec<String>,
    /// What a verdict costs, such as '0.10 USDC'
    #[arg(long, value_name = "MONEY")]
    price: Vec<Money>,
    /// Make a fresh key in the place of the one there is
    #[arg(long)]
    rotate: bool,
}

#[derive(Debug, Args)]
struct Revoke {
    #[command(flatten)]
    signer: SignerArgs,
    /// The key's id
    kid: String,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    node: NodeArgs,
    /// The verifier's address
    verifier: AgentId,
}

impl VerifierArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        let folder = |path: &Option<PathBuf>| {
            ("data_dir", path.as_ref().map(|path| path.display().to_string()))
        };
        match &self.command {
            VerifierCommand::Run(run) => {
                let mut flags = run.signer.flags();
                flags.push(folder(&run.data_dir));
                flags
            }
            VerifierCommand::Register(register) => {
                let mut flags = register.signer.flags();
                flags.push(folder(&register.data_dir));
                flags
            }
            VerifierCommand::Revoke(revoke) => revoke.signer.flags(),
            VerifierCommand::Show(show) => show.node.flags(),
        }
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let verifier = match self.command {
            VerifierCommand::Run(run) => return run.run(settings, json, out).await,
            VerifierCommand::Register(register) => {
                let (client, _) = register.signer.client(settings)?;
                let folder = folder(settings)?;
                if register.rotate {
                    node_key::write(&folder, PURPOSE)?;
                }
                let key = node_key::key(&folder, PURPOSE)?.public();
                let offers = register.engine.iter().map(|kind| offer(kind)).collect();
                client.register_verifier(&registration(offers, &key, register.price)).await?
            }
            VerifierCommand::Revoke(revoke) => {
                let (client, _) = revoke.signer.client(settings)?;
                client.revoke_verifier_key(&revoke.kid).await?
            }
            VerifierCommand::Show(show) => connect(settings)?.verifier(&show.verifier).await?,
        };
        if json {
            writeln!(out, "{}", serde_json::to_string(&verifier)?)?;
            return Ok(());
        }
        writeln!(out, "verifier  {}", verifier.agent_id)?;
        writeln!(out, "operator  {}", verifier.operator)?;
        let engines: Vec<&str> = verifier.engines.iter().map(|e| e.kind.as_str()).collect();
        writeln!(out, "engines   {}", engines.join(", "))?;
        for price in &verifier.prices {
            writeln!(out, "price     {price}")?;
        }
        let word = if verifier.accredited { "yes" } else { "no: only where terms name it" };
        writeln!(out, "picked by the marketplace: {word}")?;
        for key in &verifier.keys {
            let state = match key.revoked_at {
                Some(at) => format!("revoked {at}"),
                None => format!("until {}", key.not_after),
            };
            writeln!(out, "key       {} {} {state}", key.kid, key.public_key)?;
        }
        Ok(())
    }
}

/// What an engine of this program understands; a foreign one is named only.
fn offer(kind: &str) -> EngineOffer {
    let own = known_offers().into_iter().find(|offer| offer.kind == kind);
    let actions = match kind {
        engine::HUMAN => vec!["REVIEW".to_owned()],
        _ => vec![],
    };
    own.unwrap_or_else(|| EngineOffer {
        kind: kind.to_owned(),
        hint_fields: vec![],
        actions,
        proof_fields: vec![],
    })
}

/// The folder with the key for proofs.
pub fn folder(settings: &Settings) -> Result<PathBuf> {
    let folder = settings.data_dir()?;
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    Ok(folder)
}

/// The key for proofs, as it was registered.
pub fn proof_key(settings: &Settings) -> Result<SecretKey> {
    node_key::key(&folder(settings)?, PURPOSE)
}

impl Run {
    async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let (client, keyring) = self.signer.client(settings)?;
        let folder = folder(settings)?;
        let key = node_key::key(&folder, PURPOSE)?;
        let engines = engines(settings, self.dev)?;
        let request = registration(engines.offers(), &key.public(), self.price);
        let known = client.register_verifier(&request).await?;
        let kid = kid(&key.public());
        match json {
            true => {
                let ready = serde_json::json!({ "ready": known.agent_id, "kid": kid });
                writeln!(out, "{ready}")?;
            }
            false => writeln!(out, "ready {} with key {kid}", known.agent_id)?,
        }
        out.flush()?;
        let identity = Identity {
            agent: keyring.agent_id(),
            agent_key: SecretKey::from_seed(*keyring.secret().seed()),
            kid,
            key,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let verifier = Arc::new(Verifier::new(identity, engines, clock));
        let file = folder.join("verifier.cursor");
        let cursor = fs::read_to_string(&file).ok().filter(|text| !text.is_empty());
        let keep = move |cursor: &str| {
            let _ = fs::write(&file, cursor);
        };
        let working = verifier.run::<Client>(client, cursor, keep);
        tokio::select! {
            () = working => Ok(()),
            stopped = tokio::signal::ctrl_c() => Ok(stopped?),
        }
    }
}
