//! Browser sessions end to end: a real node, a real Chromium, a page that the test serves, and a
//! gateway that is killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use skep_sdk::Client;
use skep_settle::session_proof;
use skep_testkit::process::{Child, free_port};
use skep_wire::{
    conduit::SessionProof,
    settle::{Standing, Tier},
};

use crate::proof_page::get;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// How long the node may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(30);

const PAGE: &str = "<!doctype html><title>Prices</title><h1 id=h>old</h1>
<form><input id=name name=name><input id=secret type=password></form>
<button id=b onclick=\"document.getElementById('h').textContent='clicked'\">go</button>";

/// Serves one page, for as long as the test runs.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}content-length: {}\r\n\r\n{PAGE}", PAGE.len());
            });
        }
    });
    address
}

struct World {
    home: tempfile::TempDir,
    node: Option<Child>,
    url: String,
    agent: String,
}

impl World {
    /// A node with test money, and one agent that has some.
    fn new(more: &[(&str, &str)]) -> World {
        let home = tempfile::tempdir().unwrap();
        let mut world = World { home, node: None, url: String::new(), agent: String::new() };
        let made = world.json(&["keys", "new"]);
        world.agent = made["agent_id"].as_str().unwrap().to_owned();
        let mut up = world.command("node");
        up.args(["up", "--dev", "--listen", "127.0.0.1:0"]).envs(more.iter().copied());
        let node = Child::spawn(&mut up).unwrap();
        world.url = node.url().to_owned();
        world.node = Some(node);
        world.json(&["agent", "register", "--name", "ann"]);
        world.json(&["wallet", "fund", "1"]);
        world
    }

    /// Nothing of the machine's own settings gets in.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skep"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SKEP_PASSPHRASE", "correct horse")
            .env("SKEP_KEYS", self.home.path().join("ann.keys"))
            .env("SKEP_DATA_DIR", self.home.path().join(name))
            .env("RUST_LOG", "error")
            .current_dir(self.home.path())
            .stdin(Stdio::null());
        if !self.url.is_empty() {
            command.env("SKEP_NODE", &self.url);
        }
        command
    }

    fn gateway(&self, port: u16) -> Child {
        let mut run = self.command("gateway");
        run.args(["gateway", "run", "--dev", "--listen", &format!("127.0.0.1:{port}")]);
        Child::spawn(run.env("SKEP_GATEWAY_SECRET", SECRET)).unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command("ann").args(args).output().unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        text(&output.stderr)
    }

    #[track_caller]
    fn open(&self) -> String {
        let opened = self.json(&["session", "open", "--max-cost", "0.05"]);
        assert_eq!(opened["status"], "IDLE");
        opened["session_id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn act(&self, id: &str, args: &[&str]) -> Value {
        let done = self.json(&[&["session", "do", id], args].concat());
        assert!(done["error"].is_null(), "{args:?}: {done}");
        done
    }

    fn show(&self, id: &str) -> Value {
        self.json(&["session", "show", id])["session"].clone()
    }

    /// What is free and what is held, in minor units.
    fn balance(&self) -> (String, String) {
        let wallet = self.json(&["wallet", "balance"]);
        let usdc = &wallet["balances"][0];
        let amount = |name: &str| usdc[name]["amount_minor"].as_str().unwrap_or("0").to_owned();
        (amount("available"), amount("held"))
    }

    /// The agent's tier, as an operator of a test node sets it.
    fn set_tier(&self, tier: Tier) {
        let standing = Standing { tier, ..Standing::default() };
        let (client, agent) = (Client::new(&self.url).unwrap(), self.agent.parse().unwrap());
        block_on(async { client.set_standing(&agent, &standing).await.unwrap() });
    }

    fn advance(&self, seconds: u64) {
        let client = Client::new(&self.url).unwrap();
        block_on(async { client.advance_clock(seconds).await.unwrap() });
    }

    #[track_caller]
    fn wait_for(&self, id: &str, status: &str) -> Value {
        let started = Instant::now();
        loop {
            let session = self.show(id);
            if session["status"] == status {
                return session;
            }
            assert!(started.elapsed() < PATIENCE, "{session}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn proof(path: &Path) -> SessionProof {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The page, to whoever has its link, and the AIVS bundle.
fn people_can_look_and_others_can_check(world: &World, id: &str) {
    let link = world.show(id)["proof_page"].as_str().unwrap().to_owned();
    let page = get(&world.url, &link);
    assert!(page.head.starts_with("http/1.1 200") && page.head.contains("content-security-policy"));
    assert!(page.text().contains("NAVIGATE") && page.text().contains(id), "{}", page.text());
    let from = page.text().find("/attachments/").unwrap() - format!("/sessions/{id}").len();
    let picture = page.text()[from..].split('"').next().unwrap().replace("&amp;", "&");
    let picture = get(&world.url, &picture);
    assert!(picture.head.contains("image/png") && picture.body.starts_with(b"\x89PNG"));
    let token = link.split_once("token=").unwrap().1;
    let other = link.replace(token, &"0".repeat(token.len()));
    assert!(get(&world.url, &other).head.starts_with("http/1.1 404"));
    let bundle = world.home.path().join("session.tar.gz");
    let bundle = bundle.to_str().unwrap();
    world.json(&["proof", "export", id, "--aivs", "--out", bundle]);
    world.json(&["proof", "verify", bundle]);
}

#[test]
fn an_agent_uses_a_browser_and_keeps_the_proof() {
    let world = World::new(&[]);
    let page = format!("http://{}/", serve());
    let id = world.open();
    let (free, held) = world.balance();
    assert_eq!((free.as_str(), held.as_str()), ("950000", "50000"));
    let picture = world.home.path().join("page.png");
    let shot = picture.to_str().unwrap();
    world.act(&id, &["navigate", "--url", &page, "--screenshot", "--out", shot]);
    assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    let read = world.act(&id, &["extract", "--selector", "#h"]);
    assert!(read["data"].to_string().contains("old"), "{read}");
    // The tier decides, and so does the field.
    let refused = world.refused(&["session", "do", &id, "click", "--selector", "#b"]);
    assert!(refused.contains("tier_too_low") && refused.contains("BASIC"), "{refused}");
    world.set_tier(Tier::Basic);
    world.act(&id, &["click", "--selector", "#b"]);
    let read = world.act(&id, &["extract", "--selector", "#h"]);
    assert!(read["data"].to_string().contains("clicked"), "{read}");
    let secret = ["session", "do", &id, "fill", "--selector", "#secret", "--text", "hush"];
    let refused = world.refused(&secret);
    assert!(refused.contains("tier_too_low") && refused.contains("VERIFIED"), "{refused}");
    let nonsense = world.refused(&["session", "do", &id, "extract", "--key", "Enter"]);
    assert!(nonsense.contains("bad_action"), "{nonsense}");
    // What fails on the page is recorded.
    let missing = world.json(&["session", "do", &id, "click", "--selector", "#none"]);
    assert!(missing["error"].is_object() && missing["event"]["success"] == false, "{missing}");
    let so_far = world.act(&id, &["export-proof"]);
    let so_far: SessionProof = serde_json::from_value(so_far["data"].clone()).unwrap();
    assert_eq!(session_proof::check(&so_far, None).unwrap().action_log.len(), 5);
    let early = world.refused(&["session", "proof", &id]);
    assert!(early.contains("session_open"), "{early}");
    let closed = world.json(&["session", "close", &id]);
    assert_eq!((&closed["status"], &closed["actions"]), (&"COMPLETED".into(), &6.into()));
    people_can_look_and_others_can_check(&world, &id);
    // Five were billable.
    assert_eq!(closed["cost_minor"], "5000");
    assert_eq!(world.balance().0, "995000");
    let file = world.home.path().join("proof.json");
    world.json(&["session", "proof", &id, "--out", file.to_str().unwrap()]);
    let proof = proof(&file);
    let bundle = session_proof::check(&proof, None).unwrap();
    assert_eq!((bundle.action_log.len(), proof.attachments.len()), (6, 1));
    assert!(session_proof::check(&so_far, Some(&bundle.gateway.public_key)).is_ok());
    assert!(!serde_json::to_string(&proof).unwrap().contains("hush"));
    let over = world.refused(&["session", "do", &id, "extract"]);
    assert!(over.contains("session_over"), "{over}");
}

#[test]
fn a_gateway_beside_the_node_may_die() {
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let more = [("SKEP_GATEWAY_URL", url.as_str()), ("SKEP_GATEWAY_SECRET", SECRET)];
    let world = World::new(&more);
    let page = format!("http://{}/", serve());
    // It is not there yet.
    let refused = world.refused(&["session", "open"]);
    assert!(refused.contains("gateway_unavailable"), "{refused}");
    let mut gateway = world.gateway(port);
    let lost = world.open();
    world.act(&lost, &["navigate", "--url", &page]);
    gateway.kill9();
    let refused = world.refused(&["session", "do", &lost, "extract"]);
    assert!(refused.contains("gateway_unavailable"), "{refused}");
    assert_eq!(world.balance().1, "50000");
    // Nobody brings it back: time ends the session, and the money is there again.
    world.advance(16 * 60);
    let failed = world.wait_for(&lost, "FAILED");
    assert_eq!(failed["cost_minor"], "0");
    assert_eq!(world.balance(), ("1000000".to_owned(), "0".to_owned()));
    let none = world.refused(&["session", "proof", &lost]);
    assert!(none.contains("no_session_proof"), "{none}");
    // It comes back with the same key, and knows no session from before.
    let mut gateway = world.gateway(port);
    let id = world.open();
    world.act(&id, &["navigate", "--url", &page]);
    gateway.kill9();
    let gateway = world.gateway(port);
    let over = world.refused(&["session", "do", &id, "extract"]);
    assert!(over.contains("session_over"), "{over}");
    assert_eq!(world.show(&id)["status"], "FAILED");
    assert_eq!(world.balance().0, "1000000");
    let next = world.open();
    world.act(&next, &["navigate", "--url", &page]);
    assert_eq!(world.json(&["session", "close", &next])["status"], "COMPLETED");
    assert_eq!(world.balance().0, "999000");
    drop(gateway);
}

#[test]
fn without_a_browser_there_is_one_clear_sentence_and_no_money_is_held() {
    let world = World::new(&[("SKEP_CHROMIUM", "/nowhere/chromium")]);
    let refused = world.refused(&["session", "open"]);
    assert!(refused.contains("no_browser") && refused.contains("install Chromium"), "{refused}");
    assert_eq!(refused.trim().lines().count(), 1, "{refused}");
    assert_eq!(world.balance().1, "0");
    let unknown = world.refused(&["session", "do", "sess_00000000000000000000000000", "jump"]);
    assert!(unknown.contains("no action") && unknown.contains("navigate"), "{unknown}");
}

#[test]
fn a_gateway_serves_only_who_knows_its_secret() {
    let world = World::new(&[("SKEP_CHROMIUM", "/nowhere/chromium")]);
    let short =
        world.command("g").args(["gateway", "run"]).env("SKEP_GATEWAY_SECRET", "x").output();
    assert!(text(&short.unwrap().stderr).contains("at least 32"));
    let gateway = world.gateway(0);
    let info = |secret: &str| {
        let client = skep_sdk::GatewayClient::new(gateway.url(), secret).unwrap();
        block_on(async { client.info().await })
    };
    assert!(info(SECRET).is_ok());
    for wrong in ["", "0123456789abcdef0123456789abcdeg", &SECRET[1..]] {
        let refused = info(wrong).unwrap_err().to_string();
        assert!(refused.contains("401"), "{refused}");
    }
}
