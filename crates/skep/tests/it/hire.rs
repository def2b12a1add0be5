//! Hires between real processes: a node, a seller with a program, a buyer. Any of them is killed
//! in the middle, and money and receipts agree on all three sides afterwards.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skep_base::{AgentId, Asset};
use skep_sdk::Client;
use skep_testkit::process::{self, free_port};
use skep_wire::hire::{Judgement, StoredReceipt};

/// The price of a hire, in minor units.
const PRICE: i64 = 20_000;
/// What the buyer begins with.
const START: i64 = 10_000_000;
const PARAMS: &str = r#"{"data":[1,2,3,6]}"#;
const MEAN: &str = "compute.statistics.mean";
/// How long something may take that happens by itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// A seller's process.
struct Seller {
    child: Child,
    endpoint: String,
}

impl Seller {
    fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Seller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct World {
    home: tempfile::TempDir,
    node: Option<process::Child>,
    url: String,
    /// The seller's and the buyer's.
    sam: AgentId,
    bea: AgentId,
}

impl World {
    fn new() -> World {
        let home = tempfile::tempdir().unwrap();
        let nobody = AgentId([0; 20]);
        let (node, url) = (None, format!("http://127.0.0.1:{}", free_port()));
        let mut world = World { home, node, url, sam: nobody, bea: nobody };
        let made = |world: &World, name| -> AgentId {
            let made = world.json(name, &["keys", "new"]);
            made["agent_id"].as_str().unwrap().parse().unwrap()
        };
        (world.sam, world.bea) = (made(&world, "sam"), made(&world, "bea"));
        world.start_node();
        for name in ["sam", "bea"] {
            world.json(name, &["agent", "register", "--name", name]);
        }
        world.json("bea", &["wallet", "fund", "10"]);
        world
    }

    fn start_node(&mut self) {
        let listen = self.url.strip_prefix("http://").unwrap().to_owned();
        let mut up = self.command("node");
        up.args(["up", "--dev", "--listen", &listen]);
        self.node = Some(process::Child::spawn(&mut up).unwrap());
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SKEP_PASSPHRASE", "correct horse")
            .env("SKEP_KEYS", self.home.path().join(format!("{name}.keys")))
            .env("SKEP_DATA_DIR", self.home.path().join(name))
            .env("SKEP_NODE", &self.url)
            .env("RUST_LOG", "error")
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, name: &str, args: &[&str]) -> Output {
        self.command(name).args(args).output().unwrap()
    }

    #[track_caller]
    fn json(&self, name: &str, args: &[&str]) -> Value {
        let output = self.run(name, &[args, &["--json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Sells means, each after a pause.
    fn sell(&self, listen: &str, pause: &str) -> Seller {
        let script = format!("sleep {pause}; exec {} work statistics", env!("CARGO_BIN_EXE_skep"));
        let mut command = self.command("sam");
        command.args(["sell", MEAN, "--price", "0.02", "--max-latency-ms", "5000", "--dev"]);
        command.args(["--payment-mode", "direct", "--payment-mode", "escrow"]);
        command.args(["--listen", listen, "--json", "--", "sh", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Seller { child, endpoint: first["endpoint"].as_str().unwrap().to_owned() }
    }

    fn hire(&self, more: &[&str]) -> Command {
        let mut command = self.command("bea");
        command.args(["hire", MEAN, "--params", PARAMS, "--dev", "--json"]).args(more);
        command
    }

    fn journal(&self) -> PathBuf {
        self.home.path().join(format!("buyer-{}.journal", self.bea))
    }

    fn balance(&self, name: &str) -> i64 {
        let wallet = self.json(name, &["wallet", "balance"]);
        let balances = wallet["balances"].as_array().unwrap();
        let of_usdc = |line: &&Value| line["available"]["asset"] == json!(Asset::USDC);
        let line = balances.iter().find(of_usdc);
        let minor = line.map_or("0", |line| line["available"]["amount_minor"].as_str().unwrap());
        minor.parse().unwrap()
    }

    async fn receipts(&self) -> Vec<StoredReceipt> {
        let client = Client::new(&self.url).unwrap();
        client.receipts_of(&self.sam, None).await.unwrap().items
    }

    /// What the buyer lost is what the seller got and what the receipts say, and the buyer has
    /// said of each what it found.
    async fn agree(&self, why: &str) {
        let (bea, sam) = (self.balance("bea"), self.balance("sam"));
        assert_eq!(bea + sam, START, "{why}: money is somewhere else");
        let receipts = self.receipts().await;
        let released = |stored: &&StoredReceipt| stored.escrow.as_deref() != Some("REFUNDED");
        let told = receipts.iter().filter(released);
        let told: i64 = told.map(|stored| stored.receipt.amount_usdc_atomic.minor()).sum();
        assert_eq!(sam, told, "{why}: the receipts say something else");
        for stored in receipts {
            assert_eq!(stored.judgement, Judgement::Passed, "{why}: {stored:?}");
        }
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().matches('\n').count()
}

#[track_caller]
fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_called_like_a_function() {
    let world = World::new();
    let none = world.run("bea", &["hire", MEAN, "--params", PARAMS, "--dev"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("nobody_found"), "{none:?}");
    let seller = world.sell("127.0.0.1:0", "0");
    let dry = world.json("bea", &["hire", MEAN, "--params", PARAMS, "--dev", "--dry-run"]);
    assert_eq!(dry["candidates"].as_array().unwrap().len(), 2, "{dry:#}");
    assert_eq!(dry["candidates"][0]["found"]["listing"]["endpoint"], json!(seller.endpoint));
    for candidate in dry["candidates"].as_array().unwrap() {
        let mode = candidate["payment_mode"].as_str().unwrap();
        let asked = ["hire", MEAN, "--params", PARAMS, "--dev", "--dry-run", "--prefer-mode", mode];
        let dry = world.json("bea", &asked);
        assert_eq!(dry["candidates"].as_array().unwrap().len(), 2, "{dry:#}");
        assert_eq!(dry["candidates"][0]["payment_mode"], mode, "{dry:#}");
        let both = world.run("bea", &[&asked[..], &["--escrow"]].concat());
        assert_eq!(both.status.code(), Some(2), "{both:?}");
    }
    assert_eq!(world.balance("bea"), START);

    let plain = ["hire", MEAN, "--params", PARAMS, "--dev", "--payment-mode", "direct"];
    let output = world.run("bea", &plain);
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result, json!({ "result": 3.0 }), "nothing else is on stdout");
    assert!(output.stderr.is_empty(), "{output:?}");

    let hired = world.hire(&["--escrow"]).output().unwrap();
    let hired: Value = serde_json::from_slice(&hired.stdout).unwrap();
    assert_eq!(hired["escrow"]["status"], "RELEASED", "{hired:#}");
    assert_eq!(hired["verification"]["all_passed"], true);
    assert!(hired["rating_token"].is_string());
    assert_eq!(world.balance("sam"), 2 * PRICE);
    world.agree("two hires").await;

    let job = world.hire(&["--async", "--payment-mode", "direct"]).output().unwrap();
    assert!(job.status.success(), "{job:?}");
    assert_eq!(world.balance("sam"), 3 * PRICE);
    let bad = world.run("bea", &["hire", MEAN, "--params", "{}", "--dev"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("bad_params"), "{bad:?}");
    let dear = world.run("bea", &["hire", MEAN, "--params", PARAMS, "--max-price", "0.01"]);
    assert!(String::from_utf8_lossy(&dear.stderr).contains("nobody_found"), "{dear:?}");
    world.agree("three hires").await;
    // Without --dev nobody is reached on this machine.
    let inwards = world.run("bea", &["hire", MEAN, "--params", PARAMS]);
    assert!(String::from_utf8_lossy(&inwards.stderr).contains("all_refused"), "{inwards:?}");
}

/// Kills the buyer when its journal has so many lines more, and lets it finish.
async fn kill_the_buyer(world: &World, mode: &[&str], at: usize) {
    let before = lines(&world.journal());
    let mut hire = world.hire(mode).stdout(Stdio::null()).spawn().unwrap();
    wait_for("a line of the journal", || {
        lines(&world.journal()) >= before + at || hire.try_wait().unwrap().is_some()
    });
    hire.kill().unwrap();
    hire.wait().unwrap();
    let resumed = world.json("bea", &["hire", "--resume", "--dev"]);
    world.agree(&format!("the buyer was killed at line {at}: {resumed:#}")).await;
    let again = world.json("bea", &["hire", "--resume", "--dev"]);
    assert_eq!(again, json!({ "resumed": [] }), "line {at}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_that_is_killed_at_any_line_pays_once() {
    let world = World::new();
    let _seller = world.sell("127.0.0.1:0", "0.1");
    for at in 1..=6 {
        kill_the_buyer(&world, &["--payment-mode", "direct"], at).await;
    }
    for at in 1..=7 {
        kill_the_buyer(&world, &["--escrow"], at).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_that_is_killed_at_work_goes_on_after_its_restart() {
    let world = World::new();
    let listen = format!("127.0.0.1:{}", free_port());
    for (number, pause_ms) in [(1, 150), (2, 400), (3, 700)] {
        let mut seller = world.sell(&listen, "0.5");
        let before = lines(&world.journal());
        let mode = ["--payment-mode", "direct"];
        let hire = world.hire(&mode).stdout(Stdio::piped()).spawn().unwrap();
        // The payment is on its way from the second line on.
        wait_for("a payment", || lines(&world.journal()) >= before + 2);
        std::thread::sleep(Duration::from_millis(pause_ms));
        seller.kill9();
        let seller = world.sell(&listen, "0.5");
        let output = hire.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        world.agree(&format!("the seller was killed, {number}")).await;
        assert_eq!(world.balance("sam"), number * PRICE);
        drop(seller);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_killed_meanwhile_changes_nothing() {
    let mut world = World::new();
    let _seller = world.sell("127.0.0.1:0", "0.3");
    for (number, mode, pause_ms) in [
        (1, ["--payment-mode", "direct"].as_slice(), 50),
        (2, ["--payment-mode", "direct"].as_slice(), 350),
        (3, ["--escrow"].as_slice(), 50),
        (4, ["--escrow"].as_slice(), 350),
    ] {
        let before = lines(&world.journal());
        let hire = world.hire(mode).stdout(Stdio::piped()).spawn().unwrap();
        wait_for("a payment", || lines(&world.journal()) >= before + 2);
        std::thread::sleep(Duration::from_millis(pause_ms));
        world.node.take().unwrap().kill9();
        world.start_node();
        let output = hire.wait_with_output().unwrap();
        let resumed = world.json("bea", &["hire", "--resume", "--dev"]);
        let why = format!("the node was killed, {number}: {output:?} {resumed:#}");
        world.agree(&why).await;
        assert_eq!(world.balance("sam"), number * PRICE, "{why}");
    }
}
