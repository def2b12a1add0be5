//! `skep verifier` as a process of its own: it looks, it dies, it comes back, its keys change.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use skep_agent::Passphrase;
use skep_base::{Hash32, ed25519::SecretKey, id::DealId};
use skep_sdk::Client;
use skep_testkit::process::{Child, free_port};
use skep_wire::settle::{EscrowStatus, Outcome, VerificationStatus};

use crate::{
    site::{Page, Site},
    stage::{self, Actor, Hand, PRICE, agree, deliver, free, moves, seen, settled, until, usdc},
};

/// The number of the verifier's keys.
const VERA: u8 = 9;
const PASSPHRASE: &str = "correct horse";

/// A node without a verifier of its own, and the keys of one that it picks.
struct World {
    home: tempfile::TempDir,
    ann: Client,
    ben: Client,
    node: Child,
    flags: [String; 5],
}

impl World {
    async fn open() -> World {
        let home = tempfile::tempdir().unwrap();
        let vera = Actor::new(VERA);
        let passphrase = Passphrase::new(PASSPHRASE.to_owned().into()).unwrap();
        vera.keyring.save_new(&home.path().join("vera.keys"), &passphrase).unwrap();
        let address = vera.id().to_string();
        // Always the same address, which is what requests are signed for.
        let listen = format!("127.0.0.1:{}", free_port());
        let flags = ["--listen", &listen, "--no-verifier", "--accredit", &address];
        let flags = flags.map(str::to_owned);
        let node = start(&home, &flags);
        let (ann, ben) = (Actor::new(1), Actor::new(2));
        let (ann, ben) = (ann.enter(node.url(), None).await, ben.enter(node.url(), None).await);
        ann.faucet(usdc(100)).await.unwrap();
        let world = World { home, ann, ben, node, flags };
        world.told(&["agent", "register", "--name", "Vera"]);
        world
    }

    fn command(&self) -> Command {
        let mut command = stage::skep(self.home.path());
        command
            .env("SKEP_NODE", self.node.url())
            .env("SKEP_PASSPHRASE", PASSPHRASE)
            .env("SKEP_KEYS", self.home.path().join("vera.keys"))
            .env("SKEP_DATA_DIR", self.home.path().join("vera"));
        command
    }

    #[track_caller]
    fn told(&self, args: &[&str]) -> Value {
        stage::told(self.command().args(args))
    }

    /// Registered, and at work.
    fn run(&self, log: &str) -> Child {
        let mut command = self.command();
        Child::spawn(command.args(["verifier", "run", "--dev"]).env("RUST_LOG", log)).unwrap()
    }

    fn key_file(&self) -> PathBuf {
        self.home.path().join("vera/verifier.key")
    }

    async fn released(&self, id: DealId) {
        assert_eq!(settled(&self.ann, id).await.escrow_status, EscrowStatus::Released);
        assert_eq!(moves(&self.ann, id).await, ["escrow.released"]);
    }
}

fn start(home: &tempfile::TempDir, flags: &[String]) -> Child {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Child::spawn(&mut stage::up(home.path(), &flags)).unwrap()
}

fn text() -> Value {
    json!({"type": "artifact", "expected_content": "hello"})
}

fn page(url: &str) -> Value {
    json!({"type": "http", "url": url, "expected_content": "hello"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_killed_at_work_settles_once_when_it_is_back() {
    let (world, site) = (World::open().await, Site::open());
    let (ann, ben) = (&world.ann, &world.ben);
    let mut vera = world.run("warn");
    let id = agree(ann, ben, text(), json!({})).await;
    deliver(ben, id, "Hello").await.unwrap();
    world.released(id).await;

    // Killed while it waits for the page: it has said that it looks, and not yet what it saw.
    let url = site.put("/slow", Page::text("hello").held());
    let slow = agree(ann, ben, page(&url), json!({})).await;
    let verification = deliver(ben, slow, "It is online").await.unwrap();
    until("a visit", async || site.visits("/slow").pop()).await;
    seen(ann, verification, |v| v.status == VerificationStatus::Running).await;
    // A page that takes its time keeps nobody else waiting, and is asked for once.
    let other = agree(ann, ben, text(), json!({})).await;
    deliver(ben, other, "Hello").await.unwrap();
    world.released(other).await;
    assert_eq!(site.visits("/slow").len(), 1);
    vera.kill9();
    site.put("/slow", Page::text("hello"));
    // Delivered while nobody is there to look.
    let missed = agree(ann, ben, text(), json!({})).await;
    deliver(ben, missed, "Hello").await.unwrap();
    let bad = agree(ann, ben, text(), json!({})).await;
    deliver(ben, bad, "Goodbye").await.unwrap();
    assert_eq!(ann.escrow(slow).await.unwrap().status, EscrowStatus::Held);
    let vera = world.run("warn");
    world.released(slow).await;
    world.released(missed).await;
    assert_eq!(settled(ann, bad).await.escrow_status, EscrowStatus::Refunded);
    assert_eq!(site.visits("/slow").len(), 2);
    assert_eq!(ann.agreement(slow).await.unwrap().verifications.len(), 1);
    drop(vera);

    // Whatever of its inbox it reads again is settled already.
    fs::write(world.home.path().join("vera/verifier.cursor"), "").unwrap();
    let vera = world.run("warn");
    let last = agree(ann, ben, text(), json!({})).await;
    deliver(ben, last, "Hello").await.unwrap();
    world.released(last).await;
    assert_eq!(moves(ann, slow).await, ["escrow.released"]);
    assert_eq!(vera.stderr(), "");
    assert_eq!(free(ben).await, 5 * PRICE);
    assert_eq!(free(ann).await, 100_000_000 - 5 * PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verdict_is_not_lost_when_the_node_is_away() {
    let (mut world, site) = (World::open().await, Site::open());
    let vera = world.run("warn");
    let url = site.put("/slow", Page::text("hello").held());
    let id = agree(&world.ann, &world.ben, page(&url), json!({})).await;
    let verification = deliver(&world.ben, id, "It is online").await.unwrap();
    until("a visit", async || site.visits("/slow").pop()).await;
    seen(&world.ann, verification, |v| v.status == VerificationStatus::Running).await;
    world.node.kill9();
    site.put("/slow", Page::text("hello"));
    // The client has given up by now; the verifier must not.
    until("a failure", async || vera.stderr().contains("could not answer").then_some(())).await;
    world.node = start(&world.home, &world.flags);
    world.released(id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_signs_nothing_more() {
    let (world, site) = (World::open().await, Site::open());
    let (ann, ben) = (&world.ann, &world.ben);
    let made = world.told(&["verifier", "register", "--engine", "artifact", "--engine", "http"]);
    let old_kid = made["keys"][0]["kid"].as_str().unwrap().to_owned();
    let seed: Hash32 = fs::read_to_string(world.key_file()).unwrap().trim().parse().unwrap();
    let old_key = SecretKey::from_seed(*seed.as_bytes());

    // Revoked while the process that has it is at work.
    let mut vera = world.run("info");
    let url = site.put("/slow", Page::text("hello").held());
    let slow = agree(ann, ben, page(&url), json!({})).await;
    let asked = deliver(ben, slow, "It is online").await.unwrap();
    until("a visit", async || site.visits("/slow").pop()).await;
    let shown = world.told(&["verifier", "revoke", &old_kid]);
    assert_ne!(shown["keys"][0]["revoked_at"], Value::Null);
    site.put("/slow", Page::text("hello"));
    until("the refusal", async || vera.stderr().contains("revoked").then_some(())).await;
    assert_eq!(ann.verification(asked).await.unwrap().status, VerificationStatus::Running);
    vera.kill9();
    let again = world.command().args(["verifier", "run", "--dev"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{again:?}");

    // A fresh key takes over; the old one is not believed, whoever has it.
    let rotate = ["verifier", "register", "--engine", "artifact", "--rotate"];
    let keys = world.told(&rotate)["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    let id = agree(ann, ben, text(), json!({})).await;
    let verification = deliver(ben, id, "Hello").await.unwrap();
    let request = ann.verification(verification).await.unwrap().request;
    let thief = Hand { key: old_key, kid: old_kid, actor: Actor::new(VERA) };
    let forged = thief.verdict(&request, Outcome::Verified);
    let refused = ann.callback(&forged).await.unwrap_err();
    assert_eq!(refused.code(), "verifier_key_revoked", "{refused:?}");
    assert_eq!(ann.escrow(id).await.unwrap().status, EscrowStatus::Held);
    let _vera = world.run("warn");
    world.released(id).await;
}
