//! `skep sell` as a process beside a real node: hired, paid, killed, started again.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, HireOrder, Passphrase,
    buyer::{PaymentChoice, Taxonomy},
};
use skep_base::{Amount, Asset, Clock, Money, json};
use skep_probe::{Egress, Policy, Request};
use skep_sdk::Client;
use skep_store::SystemClock;
use skep_testkit::{
    process::{Child, run_until},
    rng::{Rng, seed_or},
};
use skep_wire::{
    hire::{HireRequest, HireResponse, Judgement, PROTOCOL, WalletSigned},
    x402::{
        Authorization, ExactPayload, LEDGER_CHAIN_ID, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payment,
        PaymentRequired, Rail, from_header, to_header,
    },
};

use crate::stage::{self, Actor, until};

const PRICE: i64 = 20_000;
const START: i64 = 10_000_000;
const SECRET: &str = "a secret for tests";
const MEAN: &str = "compute.statistics.mean";
/// How often the seller is killed.
const KILLS: usize = 12;
/// The longest time under load before a kill.
const LOAD_MS_MAX: u64 = 500;
/// How often a buyer asks again, and how long it waits before.
const TRIES: usize = 1500;
const PAUSE: Duration = Duration::from_millis(40);
/// Buyers at the same time, each with hires of its own.
const BUYERS: u8 = 3;

struct World {
    folder: tempfile::TempDir,
    node: Child,
    money: Client,
}

impl World {
    async fn open() -> World {
        let folder = tempfile::tempdir().unwrap();
        let node = Child::spawn(&mut stage::up(folder.path(), &[])).unwrap();
        let seller = Actor::new(1);
        let money = seller.enter(node.url(), None).await;
        let passphrase = Passphrase::new(SECRET.to_owned().into()).unwrap();
        seller.keyring.save_new(&keys(folder.path()), &passphrase).unwrap();
        World { folder, node, money }
    }

    fn sell(&self, args: &[&str], program: &[&str]) -> Command {
        let mut command = stage::skep(self.folder.path());
        command.env("SKEP_PASSPHRASE", SECRET).args(["sell", "--dev", "--node", self.node.url()]);
        command.arg("--keys").arg(keys(self.folder.path())).args(args);
        command.arg("--").args(program);
        command
    }

    /// Somebody with money.
    async fn buyer(&self, number: u8) -> (Actor, Client) {
        let buyer = Actor::new(number);
        let client = buyer.enter(self.node.url(), None).await;
        client.faucet(usdc(START)).await.unwrap();
        (buyer, client)
    }
}

fn keys(folder: &Path) -> PathBuf {
    folder.join("keyring/keys.json")
}

fn usdc(minor: i64) -> Money {
    Money::new(Amount::new(minor).unwrap(), Asset::USDC)
}

async fn free(client: &Client) -> i64 {
    let wallet = client.wallet().await.unwrap();
    let found = wallet.balances.iter().find(|balance| balance.available.asset == Asset::USDC);
    found.map_or(0, |balance| balance.available.amount.minor())
}

fn skep_work() -> Vec<&'static str> {
    vec![env!("CARGO_BIN_EXE_skep"), "work", "statistics"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_listed_hired_paid_checked_and_receipted() {
    let world = World::open().await;
    let args = [MEAN, "--price", "0.02", "--payment-mode", "direct", "--payment-mode", "escrow"];
    let mut selling = Child::spawn(&mut world.sell(&args, &skep_work())).unwrap();
    let (actor, client) = world.buyer(2).await;
    let config = BuyerConfig {
        allow_loopback: true,
        ..BuyerConfig::new(
            actor.keyring.wallet().clone(),
            client.clone(),
            Arc::new(SystemClock),
            Arc::new(Taxonomy),
        )
    };
    let buyer = Buyer::open(config, &world.folder.path().join("buyer.journal")).unwrap();
    let mut paid = 0;
    let direct = PaymentChoice::Require(skep_wire::hire::PaymentMode::Direct);
    for payment in [direct, PaymentChoice::Escrow] {
        let most = Amount::new(PRICE).unwrap();
        let mut order = HireOrder::new(MEAN, json!({ "data": [1.5, 2, 4] }), most);
        order.payment = payment;
        let hired = buyer.hire(order).await.unwrap();
        assert_eq!(hired.result["result"], json!(2.5));
        assert!(hired.verification.all_passed && !hired.dispute, "{hired:?}");
        let stored = client.receipt(&hired.hire_id).await.unwrap();
        assert_eq!((stored.receipt, stored.judgement), (hired.receipt, Judgement::Passed));
        paid += PRICE;
        assert_eq!((free(&world.money).await, free(&client).await), (paid, START - paid));
    }
    assert!(selling.terminate().unwrap().success());
    let told = selling.stdout();
    assert!(told[1].starts_with(&format!("selling {MEAN} at {} for 0.02", selling.url())));
    assert_eq!(told[2..].len(), 2, "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_numbers_stay_so_when_a_listing_is_published_again() {
    let world = World::open().await;
    let seller = Actor::new(1).id();
    for (flags, private) in [
        (&["--private-metrics"][..], Some(true)),
        (&["--private-metrics"], Some(true)),
        (&[], None),
    ] {
        let args = [&[MEAN, "--price", "0.02"], flags].concat();
        let mut selling = Child::spawn(&mut world.sell(&args, &skep_work())).unwrap();
        let listed = world.money.listings_of(&seller).await.unwrap().items;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].listing.private_metrics, private, "{flags:?}");
        assert!(selling.terminate().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_sell_is_told_why() {
    let world = World::open().await;
    let limit = Duration::from_secs(60);
    let refused = |command: &mut Command| {
        let run = run_until(command, limit).unwrap();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        run.stderr
    };
    let other = world.folder.path().join("other/keys.json");
    let passphrase = Passphrase::new(SECRET.to_owned().into()).unwrap();
    Actor::new(9).keyring.save_new(&other, &passphrase).unwrap();
    let mut unknown = stage::skep(world.folder.path());
    unknown.env("SKEP_PASSPHRASE", SECRET).args(["sell", MEAN, "--price", "0.02"]);
    unknown.args(["--node", world.node.url(), "--keys"]).arg(&other).args(["--", "cat"]);
    let unknown = refused(&mut unknown);
    assert!(unknown.contains("skep agent register"), "{unknown}");
    let nothing = refused(&mut world.sell(&["image.of.nothing", "--price", "1"], &["cat"]));
    assert!(nothing.contains("custom."), "{nothing}");
    let url = world.node.url().to_owned();
    let mut away = world.sell(&[MEAN, "--price", "0.02"], &["cat"]);
    drop(world.node);
    let away = refused(&mut away);
    assert!(away.contains("cannot be reached") && away.contains(&url), "{away}");
}

/// What one buyer saw of one hire.
struct Bought {
    hire: HireRequest,
    payment: Payment,
    answer: Option<HireResponse>,
}

struct Hand {
    actor: Actor,
    rail: Rail,
    egress: Egress,
    url: String,
}

impl Hand {
    async fn post(
        &self,
        hire: &HireRequest,
        payment: Option<&Payment>,
    ) -> Option<(u16, Value, Option<String>)> {
        let body = serde_json::to_vec(hire).unwrap();
        let mut request = Request::post(format!("{}/hire", self.url), body);
        request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
        if let Some(payment) = payment {
            request.headers.push((PAYMENT_SIGNATURE.to_owned(), to_header(&payment.raw)));
        }
        let answer = self.egress.send(request).await.ok()?;
        let header = answer.headers.get(PAYMENT_REQUIRED).map(|h| h.to_str().unwrap().to_owned());
        Some((answer.status, json::parse(&answer.body).unwrap_or_default(), header))
    }

    fn hire(&self, number: usize, seller: &Actor) -> HireRequest {
        let mut hire: HireRequest = serde_json::from_value(json!({
            "protocol": PROTOCOL, "buyer_id": self.actor.id(), "capability": MEAN,
            "params": { "data": [number, 1] }, "nonce": format!("n-{number}"),
            "seller_id": seller.id(), "issued_at": SystemClock.now(),
        }))
        .unwrap();
        hire.sign(self.actor.keyring.wallet()).unwrap();
        hire
    }

    /// Asks until somebody is there who says what it costs.
    async fn begin(&self, number: usize, seller: &Actor) -> Bought {
        let hire = self.hire(number, seller);
        let mut required = None;
        for _ in 0..TRIES {
            match self.post(&hire, None).await {
                Some((402, _, Some(header))) => {
                    required = from_header::<PaymentRequired>(&header).ok();
                    break;
                }
                Some((status, body, _)) => panic!("{status}: {body}"),
                None => tokio::time::sleep(PAUSE).await,
            }
        }
        let required = required.expect("a seller that says what it costs");
        let accepted = required.accepts[0].clone();
        let nonce = hire.payment_nonce().unwrap();
        let until_s = SystemClock.now().as_ms() / 1000 + accepted.max_timeout_seconds as i64;
        let ends = (self.actor.id(), accepted.pay_to);
        let authorization = Authorization::new(ends, accepted.amount, (0, until_s), &nonce);
        let domain = self.rail.domain(LEDGER_CHAIN_ID);
        let wallet = self.actor.keyring.wallet();
        let signature = authorization.sign(&domain, wallet).unwrap().to_string();
        let payload = ExactPayload { authorization, signature };
        let payment = Payment::new(accepted, required.resource, payload);
        Bought { hire, payment, answer: None }
    }

    /// Sends it until it is answered for good.
    async fn finish(&self, bought: &mut Bought) {
        for _ in 0..TRIES {
            match self.post(&bought.hire, Some(&bought.payment)).await {
                Some((200, body, _)) => {
                    bought.answer = Some(serde_json::from_value(body).unwrap());
                    return;
                }
                Some((409 | 429 | 503, ..)) | None => tokio::time::sleep(PAUSE).await,
                Some((status, body, _)) => panic!("{status}: {body}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_killed_at_any_moment_is_paid_for_what_it_gave_and_for_nothing_else() {
    let world = World::open().await;
    let mut rng = Rng::new(seed_or(1));
    // Where it is found again after each kill.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let args = [MEAN, "--price", "0.02", "--listen", &address, "--seats", "2", "--unlisted"];
    let first = &args[..args.len() - 1];
    let rail = world.money.x402_rail().await.unwrap();
    let policy = Policy { allow_loopback: true, ..Policy::default() };
    let egress = Egress::new(policy).unwrap();
    // A node takes receipts for what is listed.
    let mut selling = Child::spawn(&mut world.sell(first, &skep_work())).unwrap();
    let mut buyers = tokio::task::JoinSet::new();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut clients = Vec::new();
    for number in 2..2 + BUYERS {
        let (actor, client) = world.buyer(number).await;
        clients.push(client);
        let hand = Hand {
            actor,
            rail: rail.clone(),
            egress: egress.clone(),
            url: format!("http://{address}"),
        };
        let (seller, stopped) = (Actor::new(1), stopped.clone());
        buyers.spawn(async move {
            let mut all = Vec::new();
            while !*stopped.borrow() {
                let mut bought = hand.begin(all.len(), &seller).await;
                hand.finish(&mut bought).await;
                all.push(bought);
            }
            all
        });
    }
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(rng.below(LOAD_MS_MAX))).await;
        selling.kill9();
        selling = Child::spawn(&mut world.sell(&args, &skep_work())).unwrap();
    }
    stop.send_replace(true);
    let mut sold = 0;
    for (at, all) in buyers.join_all().await.into_iter().enumerate() {
        assert!(!all.is_empty(), "buyer {at} bought nothing");
        for bought in &all {
            let answer = bought.answer.as_ref().unwrap();
            let receipt = answer.signed_receipt.as_ref().unwrap();
            receipt.check_signature().unwrap();
            assert_eq!(receipt.hire_hash, Some(bought.hire.digest().unwrap()));
            let stored =
                until("the receipt", async || world.money.receipt(&receipt.hire_id).await.ok())
                    .await;
            assert_eq!(stored.receipt, *receipt, "seller, buyer and node have the same");
        }
        sold += all.len();
    }
    let earned = i64::try_from(sold).unwrap() * PRICE;
    assert_eq!(free(&world.money).await, earned);
    let mut left = 0;
    for client in &clients {
        left += free(client).await;
    }
    assert_eq!(left, START * i64::from(BUYERS) - earned, "money is paid once for each answer");
    assert!(selling.terminate().unwrap().success());
}
