//! A node, sellers and buyers as processes, and a buyer who signs and pays by hand.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use http::HeaderMap;
use serde_json::{Value, json};
use skep_agent::Passphrase;
use skep_base::{AgentId, Amount, Asset, Clock, Hash32};
use skep_probe::{Egress, Policy, Request};
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_testkit::process::{Child, Run, free_port, run_until};
use skep_wire::{
    hire::{EscrowTerms, HireRequest, PROTOCOL, StoredReceipt, Usdc, WalletSigned},
    wallet::HistoryLine,
    x402::{
        Authorization, ExactPayload, LEDGER_CHAIN_ID, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payment,
        PaymentRequired, Rail, Requirements, from_header, to_header,
    },
};

use crate::stage::{self, Actor, usdc};

/// What is sold unless a test says otherwise, and what for, in minor units.
pub const CAPABILITY: &str = "compute.statistics.mean";
pub const PRICE: i64 = 10_000;
pub const PRICE_USDC: &str = "0.01";
/// What a buyer begins with, in whole USDC and in minor units.
pub const FUNDED: i64 = 10;
pub const FUNDED_MINOR: i64 = FUNDED * 1_000_000;
const PASSPHRASE: &str = "correct horse";
/// How long one command may take before it counts as hung.
const COMMAND_WITHIN: Duration = Duration::from_secs(180);

pub fn numbers() -> Value {
    json!({"data": [1, 2, 3, 6]})
}

pub fn mean() -> Value {
    json!({"result": 3.0})
}

/// A node that can be started again at its address, and everybody's files.
pub struct Town {
    pub home: tempfile::TempDir,
    pub node: Child,
    listen: String,
    database: String,
}

impl Town {
    pub fn open() -> Town {
        Town::open_on(|home| format!("sqlite:{}", home.join("skep.db").display()))
    }

    /// A node on a database that stands in this place.
    pub fn open_on(database: impl FnOnce(&Path) -> String) -> Town {
        let home = tempfile::tempdir().unwrap();
        let database = database(home.path());
        let listen = format!("127.0.0.1:{}", free_port());
        let node = start_node(home.path(), &listen, &database);
        Town { home, node, listen, database }
    }

    pub fn url(&self) -> &str {
        self.node.url()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn kill_node(&mut self) {
        self.node.kill9();
    }

    pub fn start_node(&mut self) {
        self.node = start_node(self.home.path(), &self.listen, &self.database);
    }

    /// An agent with a keyring in a file, known to the node.
    pub async fn agent(&self, number: u8) -> Agent {
        let actor = Actor::new(number);
        let passphrase = Passphrase::new(PASSPHRASE.to_owned().into()).unwrap();
        actor.keyring.save_new(&self.path(&format!("{number}.keys")), &passphrase).unwrap();
        let client = actor.enter(self.url(), None).await;
        let egress = Egress::new(Policy { allow_loopback: true, ..Policy::default() }).unwrap();
        Agent { number, client, actor, egress }
    }

    /// The same with money.
    pub async fn buyer(&self, number: u8) -> Agent {
        let agent = self.agent(number).await;
        agent.client.faucet(usdc(FUNDED)).await.unwrap();
        agent
    }

    /// A command as this agent.
    pub fn command(&self, agent: &Agent) -> Command {
        let mut command = stage::skep(self.home.path());
        command
            .env("SKEP_NODE", self.url())
            .env("SKEP_PASSPHRASE", PASSPHRASE)
            .env("SKEP_KEYS", self.path(&format!("{}.keys", agent.number)));
        command
    }

    /// Nothing was made of nothing, and nothing was lost.
    #[track_caller]
    pub fn audit(&self, funded_minor: i64) {
        let mut audit = stage::skep(self.home.path());
        let report = stage::told(audit.args(["ledger", "audit", "--database", &self.database]));
        assert_eq!(report["problem_count"], 0, "{report:#}");
        assert_eq!(report["held_by_accounts"]["USDC"], funded_minor, "{report:#}");
    }
}

fn start_node(home: &Path, listen: &str, database: &str) -> Child {
    let flags = ["--listen", listen, "--database", database, "--no-verifier"];
    Child::spawn(&mut stage::up(home, &flags)).unwrap()
}

/// A seller's process and what it is told.
pub struct Shop {
    pub child: Child,
    pub agent: AgentId,
    runs: PathBuf,
}

/// What a seller sells, and how.
pub struct Sale<'a> {
    pub capability: &'a str,
    pub modes: &'a [&'a str],
    pub max_latency_ms: u64,
    /// A shell script; its runs are counted.
    pub script: &'a str,
    pub flags: &'a [&'a str],
    pub listen: String,
}

impl Default for Sale<'_> {
    fn default() -> Self {
        Sale {
            capability: CAPABILITY,
            modes: &["direct", "escrow"],
            max_latency_ms: 5_000,
            script: concat!("exec ", env!("CARGO_BIN_EXE_skep"), " work statistics"),
            flags: &[],
            listen: "127.0.0.1:0".to_owned(),
        }
    }
}

impl Town {
    pub fn sell(&self, agent: &Agent, sale: &Sale<'_>) -> Shop {
        let runs = self.path(&format!("{}.runs", agent.number));
        let script = format!("echo x >> {}\n{}", runs.display(), sale.script);
        let mut command = self.command(agent);
        command.args(["sell", sale.capability, "--price", PRICE_USDC, "--dev"]);
        command.args(["--listen", &sale.listen, "--journal"]).arg(self.seller_journal(agent));
        command.args(["--max-latency-ms", &sale.max_latency_ms.to_string()]);
        command.args(sale.modes.iter().flat_map(|mode| ["--payment-mode", mode]));
        command.args(sale.flags).args(["--", "sh", "-c", &script]);
        // "selling CAPABILITY at ADDRESS for PRICE"
        let child = Child::spawn_when(&mut command, |line| {
            line.strip_prefix("selling ")?.split(' ').nth(2)
        });
        Shop { child: child.unwrap(), agent: agent.id(), runs }
    }

    pub fn seller_journal(&self, agent: &Agent) -> PathBuf {
        self.path(&format!("{}.seller", agent.number))
    }

    pub fn buyer_journal(&self, agent: &Agent) -> PathBuf {
        self.path(&format!("{}.buyer", agent.number))
    }

    /// `skep hire` with these arguments.
    pub fn hire_command(&self, agent: &Agent, args: &[&str]) -> Command {
        let mut command = self.command(agent);
        command.args(["hire", "--dev", "--json", "--journal"]).arg(self.buyer_journal(agent));
        command.args(args);
        command
    }

    /// Hires, and says how that ended.
    pub async fn hire(&self, agent: &Agent, args: &[&str]) -> Hiring {
        let params = numbers().to_string();
        let mut command = self.hire_command(agent, &[CAPABILITY, "--params", &params]);
        command.args(args);
        let run = tokio::task::spawn_blocking(move || run_until(&mut command, COMMAND_WITHIN));
        let run = run.await.unwrap().unwrap();
        assert!(!run.killed, "it hangs: {}", run.stderr);
        Hiring { told: serde_json::from_str(&run.stdout).unwrap_or_default(), run }
    }
}

impl Shop {
    pub fn url(&self) -> &str {
        self.child.url()
    }

    /// How often the program ran.
    pub fn runs(&self) -> usize {
        fs::read_to_string(&self.runs).unwrap_or_default().lines().count()
    }
}

/// How `skep hire` ended.
#[derive(Debug)]
pub struct Hiring {
    /// What it printed, if that was JSON.
    pub told: Value,
    pub run: Run,
}

impl Hiring {
    /// It failed with this word.
    #[track_caller]
    pub fn failed(&self, code: &str) {
        let said = &self.run.stderr;
        assert!(!self.run.status.success() && said.contains(code), "not {code}: {self:#?}");
    }
}

/// An agent of a test.
pub struct Agent {
    pub number: u8,
    pub actor: Actor,
    pub client: Client,
    egress: Egress,
}

/// What somebody answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// What version 2 of x402 was told.
    pub fn required(&self) -> PaymentRequired {
        from_header(self.headers[PAYMENT_REQUIRED].to_str().unwrap()).unwrap()
    }
}

impl Agent {
    pub fn id(&self) -> AgentId {
        self.actor.id()
    }

    pub async fn free(&self) -> i64 {
        stage::free(&self.client).await
    }

    /// What open holds have set aside.
    pub async fn held(&self) -> i64 {
        let wallet = self.client.wallet().await.unwrap();
        wallet.balances.iter().map(|balance| balance.held.amount.minor()).sum()
    }

    /// All that moved in the wallet, newest first.
    pub async fn history(&self) -> Vec<HistoryLine> {
        let (mut lines, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.client.transfers(Asset::USDC, cursor.as_deref(), Some(100)).await;
            let page = page.unwrap();
            lines.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return lines;
            }
        }
    }

    /// The payments that left the wallet.
    pub async fn paid(&self) -> Vec<i64> {
        let own = format!("wallet:{}:", self.id());
        let lines = self.history().await;
        let left = lines.iter().filter(|line| line.from.starts_with(&own));
        let left = left.filter(|line| matches!(line.kind.as_str(), "posted" | "post"));
        left.map(|line| line.money.amount.minor()).collect()
    }

    pub async fn receipts(&self) -> Vec<StoredReceipt> {
        let (mut receipts, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.client.receipts_of(&self.id(), cursor.as_deref()).await.unwrap();
            receipts.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return receipts;
            }
        }
    }

    /// Sends bytes as JSON to a seller, with headers.
    pub async fn post(&self, url: &str, body: &Value, headers: &[(&str, String)]) -> Answer {
        let mut request = Request::post(url, body.to_string().into_bytes());
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
        request.headers.extend(headers);
        let fetched = self.egress.send(request).await.unwrap();
        let body = serde_json::from_slice(&fetched.body).unwrap_or_default();
        Answer { status: fetched.status, headers: fetched.headers, body }
    }

    /// A signed hire.
    pub fn sign_hire(&self, shop: &Shop, change: impl FnOnce(&mut HireRequest)) -> HireRequest {
        let nonce: [u8; 16] = *Client::new_id::<skep_base::id::Request>().unwrap().as_bytes();
        let mut hire: HireRequest = serde_json::from_value(json!({
            "protocol": PROTOCOL, "buyer_id": self.id(), "capability": CAPABILITY,
            "params": numbers(), "seller_id": shop.agent, "issued_at": SystemClock.now(),
            "nonce": nonce.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        }))
        .unwrap();
        change(&mut hire);
        hire.sign(self.actor.keyring.wallet()).unwrap();
        hire
    }

    pub async fn ask(&self, shop: &Shop, hire: &HireRequest) -> Answer {
        self.post(&format!("{}/hire", shop.url()), &json!(hire), &[]).await
    }

    pub async fn pay(&self, shop: &Shop, hire: &HireRequest, payment: &Payment) -> Answer {
        let header = (PAYMENT_SIGNATURE, to_header(&payment.raw));
        self.post(&format!("{}/hire", shop.url()), &json!(hire), &[header]).await
    }

    /// A payment for a signed hire, as it should be: of the first way that is asked for.
    pub fn payment(&self, rail: &Rail, hire: &HireRequest, asked: &PaymentRequired) -> Payment {
        self.payment_with(rail, hire, asked, |_| {})
    }

    /// The same with something changed before it is signed.
    pub fn payment_with(
        &self,
        rail: &Rail,
        hire: &HireRequest,
        asked: &PaymentRequired,
        change: impl FnOnce(&mut Authorization),
    ) -> Payment {
        let accepted = asked.accepts[0].clone();
        let mut authorization = self.authorization(&accepted, &nonce_of(hire, &accepted));
        change(&mut authorization);
        let domain = rail.domain(LEDGER_CHAIN_ID);
        let signature = authorization.sign(&domain, self.actor.keyring.wallet()).unwrap();
        let payload = ExactPayload { authorization, signature: signature.to_string() };
        Payment::new(accepted, asked.resource.clone(), payload)
    }

    fn authorization(&self, accepted: &Requirements, nonce: &Hash32) -> Authorization {
        let until = SystemClock.now().as_ms() / 1000 + 60;
        Authorization::new((self.id(), accepted.pay_to), accepted.amount, (0, until), nonce)
    }
}

/// The nonce that binds a payment to its hire.
fn nonce_of(hire: &HireRequest, accepted: &Requirements) -> Hash32 {
    let terms = accepted.extra.get("escrow").cloned();
    match terms.and_then(|terms| serde_json::from_value::<EscrowTerms>(terms).ok()) {
        Some(terms) => terms.payment_nonce().unwrap(),
        None => hire.payment_nonce().unwrap(),
    }
}

pub fn price() -> Usdc {
    Usdc::from(Amount::new(PRICE).unwrap())
}
