//! `skep hire`: call an agent like a function, paid.

use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, HireError, HireOrder, Hired, Keyring,
    buyer::{OpenError, PaymentChoice, Plan, Resumed},
    journal::JournalError,
    passphrase::{self, Ask},
    path::keys_path,
};
use skep_base::{AgentId, Amount, Asset, Money, id::ListingId, wallet::WalletKey};
use skep_store::SystemClock;
use skep_wire::hire::{BudgetToken, PaymentMode, Usdc};
use tokio::{sync::mpsc, time::Instant};

use crate::{check::checker, client::SignerArgs, settings::Settings};

/// What a hire costs at most if nothing else is said, in minor units: one USDC.
const MAX_PRICE_DEFAULT: i64 = 1_000_000;
/// How long another hire of the same agent is waited for.
const JOURNAL_WAIT: Duration = Duration::from_secs(30);
const JOURNAL_PAUSE: Duration = Duration::from_millis(50);
/// A name that never resolves (RFC 2606): the seller works on its own time, and is asked.
const NO_CALLBACK: &str = "https://callback.invalid/";

/// Who buys, and how far it goes.
#[derive(Debug, Args)]
pub struct BuyerArgs {
    #[command(flatten)]
    pub signer: SignerArgs,
    /// A budget token that this agent was given: its money is spent
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// Another node whose escrow is trusted; can be repeated
    #[arg(long, value_name = "URL")]
    trust_escrow: Vec<String>,
    /// Sellers may be on this machine, for tests
    #[arg(long)]
    dev: bool,
    /// Remembers what was signed [default: beside the keyring]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl BuyerArgs {
    /// Opens the buyer with its journal. Lines of progress go to whoever watches a terminal.
    /// `pay_with`: the wallet that pays, if it is not the agent's own.
    pub async fn open(&self, settings: &Settings, pay_with: Option<WalletKey>) -> Result<Buyer> {
        let (node, keyring) = self.signer.client(settings)?;
        let journal = match &self.journal {
            Some(path) => path.clone(),
            None => {
                let keys = keys_path(settings.path("keys").as_deref())?;
                let folder = keys.parent().context("the keyring has no folder")?;
                folder.join(format!("buyer-{}.journal", keyring.agent_id()))
            }
        };
        let wallet = keyring.wallet().clone();
        let (clock, checker) = (Arc::new(SystemClock), Arc::new(checker()?));
        let mut config = BuyerConfig::new(wallet, node, clock, checker);
        config.pay_with = pay_with;
        config.allow_loopback = self.dev;
        config.custom_escrows = self.trust_escrow.clone();
        config.budget = self.budget.as_deref().map(read_budget).transpose()?;
        config.progress = progress();
        let until = Instant::now() + JOURNAL_WAIT;
        loop {
            match Buyer::open(config.clone(), &journal) {
                Ok(buyer) => return Ok(buyer),
                // Another hire of this agent: one after the other, so that a budget is kept.
                Err(OpenError::Journal(JournalError::InUse { .. })) if Instant::now() < until => {
                    tokio::time::sleep(JOURNAL_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn read_budget(path: &Path) -> Result<BudgetToken> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let bad = || format!("{} is no budget token", path.display());
    serde_json::from_str(&text).with_context(bad)
}

/// Somewhere for lines of progress, if anybody can see them.
fn progress() -> Option<mpsc::UnboundedSender<String>> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let (sender, mut lines) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            eprintln!("{line}");
        }
    });
    Some(sender)
}

/// Find an agent, pay it, check what it gives: one call
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  skep hire compute.statistics.mean --params '{\"data\": [1, 2, 3, 6]}'
  skep hire image.generate.illustration.svg --params @prompt.json --max-price 0.50 --escrow
  skep hire text.summarize.short --params - --dry-run < article.json
  skep hire compute.statistics.mean --params @data.json --pay-with treasury.json
  skep hire --resume")]
pub struct HireArgs {
    #[command(flatten)]
    buyer: BuyerArgs,
    /// What is to be done
    #[arg(required_unless_present = "resume")]
    capability: Option<String>,
    /// JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    params: String,
    /// What it may cost, in USDC; 0: only a free first call [default: 1]
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
    /// Only by escrow: the money is released when the result has passed its check
    #[arg(long, conflicts_with = "payment_mode")]
    escrow: bool,
    /// Only this mode: direct, platform_escrow:NAME or custom_escrow:URL
    #[arg(long, value_name = "MODE")]
    payment_mode: Option<PaymentMode>,
    /// Sellers of this mode first, and the others after them
    #[arg(long, value_name = "MODE", conflicts_with_all = ["payment_mode", "escrow"])]
    prefer_mode: Option<PaymentMode>,
    /// Pay from the wallet of this keyring: it signs that it pays for this hire of the agent's
    #[arg(long, value_name = "PATH", conflicts_with = "resume")]
    pay_with: Option<PathBuf>,
    /// Read the passphrase of --pay-with from this file descriptor; else from $SKEP_PASSPHRASE, the
    /// file $SKEP_PASSPHRASE_FILE or the terminal
    #[arg(long, value_name = "N", requires = "pay_with")]
    pay_with_passphrase_fd: Option<u32>,
    /// Let the seller work on its own time, and ask for the result
    #[arg(long = "async")]
    is_async: bool,
    /// Where the seller may post the result as well
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// Take up an offer of `skep clarify`; its parameters are used
    #[arg(long, value_name = "TOKEN")]
    quote: Option<String>,
    /// Sellers that are tried
    #[arg(long, value_name = "N", default_value_t = 3)]
    sellers: usize,
    /// Hire by escrow, and release the money, for a result that nobody can check
    #[arg(long)]
    accept_unverifiable: bool,
    /// Write the result to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show whom it would hire and what it would pay
    #[arg(long)]
    dry_run: bool,
    /// Finish what an earlier run left open
    #[arg(long, conflicts_with_all = ["capability", "dry_run", "quote"])]
    resume: bool,
}

impl HireArgs {
    pub fn flags(&self) -> Vec<(&'static str, Option<String>)> {
        self.buyer.signer.flags()
    }

    pub async fn run(self, settings: &Settings, json: bool, out: &mut dyn Write) -> Result<()> {
        let buyer = self.buyer.open(settings, self.purse()?).await?;
        if self.resume {
            return show_resumed(&buyer.resume().await.map_err(told)?, json, out);
        }
        let order = self.order()?;
        if self.dry_run {
            return show_plan(&buyer.plan(&order).await.map_err(told)?, json, out);
        }
        if buyer.open_hires() > 0 {
            let open = buyer.open_hires();
            eprintln!("{open} hires are not over: `skep hire --resume` finishes them");
        }
        let hired = buyer.hire(order).await.map_err(told)?;
        self.show(&hired, json, out)
    }

    /// The wallet that pays. A terminal may ask for two passphrases, and says which is which.
    fn purse(&self) -> Result<Option<WalletKey>> {
        let Some(path) = &self.pay_with else { return Ok(None) };
        if io::stderr().is_terminal() {
            eprintln!("the keyring that pays: {}", path.display());
        }
        let passphrase = passphrase::read(self.pay_with_passphrase_fd, Ask::Once)?;
        let keyring = Keyring::open(path, &passphrase);
        let keyring = keyring.with_context(|| path.display().to_string())?;
        Ok(Some(keyring.wallet().clone()))
    }

    fn order(&self) -> Result<HireOrder> {
        let capability = self.capability.clone().context("say what is to be done")?;
        let max_price = match &self.max_price {
            Some(price) => price.amount(),
            None => Amount::new(MAX_PRICE_DEFAULT).unwrap_or_default(),
        };
        let payment = match (&self.payment_mode, &self.prefer_mode) {
            (Some(mode), _) => PaymentChoice::Require(mode.clone()),
            (None, _) if self.escrow => PaymentChoice::Escrow,
            (None, Some(mode)) => PaymentChoice::Prefer(mode.clone()),
            (None, None) => PaymentChoice::Any,
        };
        let on_its_own_time = self.is_async.then(|| NO_CALLBACK.to_owned());
        Ok(HireOrder {
            max_latency_ms: self.max_latency_ms,
            payment,
            agent: self.agent,
            listing: self.listing,
            callback_url: self.callback.clone().or(on_its_own_time),
            quote_token: self.quote.clone(),
            sellers_max: self.sellers,
            accept_unverifiable: self.accept_unverifiable,
            ..HireOrder::new(capability, read_params(&self.params)?, max_price)
        })
    }

    /// The result goes out even if it failed its check; the exit says which.
    fn show(&self, hired: &Hired, json: bool, out: &mut dyn Write) -> Result<()> {
        let result = serde_json::to_string(&hired.result)?;
        if let Some(path) = &self.out {
            fs::write(path, format!("{result}\n")).with_context(|| path.display().to_string())?;
        }
        match (json, &self.out) {
            (true, _) => writeln!(out, "{}", serde_json::to_string(hired)?)?,
            (false, Some(_)) => {}
            (false, None) => writeln!(out, "{result}")?,
        }
        out.flush()?;
        if io::stderr().is_terminal() {
            let (paid, seller) = (usdc(hired.paid), hired.seller);
            eprintln!("{seller} was paid {paid} ({})", hired.hire_id);
        }
        if let Some(left) = &hired.unfinished {
            eprintln!("the node was not told everything ({left}): skep hire --resume");
        }
        if hired.verification.failed() {
            let money = match (hired.paid == Amount::ZERO, &hired.countersign_refused) {
                (true, _) => "the money came back".to_owned(),
                (false, None) => "the receipt is disputed".to_owned(),
                (false, Some(why)) => format!("the node takes no dispute of its receipt ({why})"),
            };
            let failed = hired.verification.checks.iter().filter(|check| !check.passed);
            let names: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
            bail!("the result did not pass {}; {money}", names.join(", "));
        }
        Ok(())
    }
}

/// Why it failed, and what to do.
pub fn told(error: HireError) -> anyhow::Error {
    let (code, advice) = (error.code().to_owned(), error.advice());
    anyhow!("{code}: {error}; {advice}")
}

/// Parameters from the command line, a file or stdin.
pub fn read_params(text: &str) -> Result<Value> {
    let bytes = match text {
        "-" | "@-" => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes)?;
            bytes
        }
        text => match text.strip_prefix('@') {
            Some(path) => fs::read(path).with_context(|| path.to_owned())?,
            None => text.as_bytes().to_vec(),
        },
    };
    skep_base::json::parse(&bytes).context("the parameters are no JSON")
}

pub fn usdc(amount: Amount) -> String {
    Money::new(amount, Asset::USDC).to_string()
}

fn show_plan(plan: &Plan, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(plan)?)?;
        return Ok(());
    }
    for candidate in &plan.candidates {
        let (price, mode) = (usdc(candidate.price), candidate.payment_mode.to_string());
        let (seller, endpoint) = (candidate.found.agent_id, &candidate.found.listing.endpoint);
        writeln!(out, "{price:>16}  {mode:<24} {seller}  {endpoint}")?;
    }
    for refused in &plan.refused {
        writeln!(out, "not {}: {}", refused.seller, refused.detail)?;
    }
    if plan.candidates.is_empty() {
        writeln!(out, "nobody would be hired")?;
    }
    Ok(())
}

fn show_resumed(resumed: &[Resumed], json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", json!({ "resumed": resumed }))?;
        return Ok(());
    }
    if resumed.is_empty() {
        writeln!(out, "nothing was left open")?;
    }
    for hire in resumed {
        let Resumed { hire_id, capability, outcome, detail, hired, .. } = hire;
        let paid = hired.as_ref().map(|hired| usdc(hired.paid)).unwrap_or_default();
        writeln!(out, "{hire_id}  {capability}  {outcome}  {paid}{detail}")?;
        if let Some(hired) = hired {
            writeln!(out, "{}", serde_json::to_string(&hired.result)?)?;
        }
    }
    Ok(())
}
