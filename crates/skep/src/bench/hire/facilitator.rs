//! Payments that are verified and settled, against the reference facilitator from npm.

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use skep_agent::Keyring;
use skep_api::{Config, Server};
use skep_base::{
    AgentId, Amount, Asset, Hash32, Money, Timestamp, ed25519::SecretKey, hash::keccak256,
    wallet::WalletKey,
};
use skep_market::Market;
use skep_sdk::Client;
use skep_store::{Options, Store};
use skep_testkit::process::run_until;
use skep_wire::x402::{
    Authorization, ExactPayload, FacilitatorRequest, LEDGER_CHAIN_ID, Payment, Rail, Resource,
};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::oneshot};

use super::{Figure, Report, bare::read_body, cpu, place::Place, progress};
use crate::client::now;

/// The reference, as the tests of interoperability have it.
const SCRIPT: &str = include_str!("../../../tests/interop/facilitator.mjs");
/// Where `cargo xtask setup` puts what the script needs.
const INSTALLED: &str = "target/interop";
/// How many times as fast as the reference verifying is to be.
const TIMES_REFERENCE: f64 = 10.0;
/// Payments that are made beforehand, so that the clock sees only the facilitator's work.
const PAYMENTS: u64 = 4_000;
/// Payments that are settled, each of them once.
const SETTLED: u64 = 20_000;
/// Connections that ask at the same time.
const CONNECTIONS: usize = 16;
/// In minor units; the purse lasts for all of them.
const AMOUNT_MINOR: i64 = 10;

/// What the script prints.
#[derive(Debug, Deserialize)]
struct Reference {
    verified: f64,
    seconds: f64,
    cpu_seconds: f64,
}

/// Verifying for one core, without HTTP on either side.
pub(super) async fn in_process(time: Duration, report: Report<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("skep.db").display());
    let store = Store::open(&url, Options::default()).await?;
    let market = Market::new(store, SecretKey::from_seed([1; 32]), true);
    let keyring = fund(&market).await?;
    let bills = bills(&market.rail(), keyring.wallet(), 0..PAYMENTS)?;
    progress("payments verified in process");
    let (used, started) = (cpu("self")?, Instant::now());
    let mut verified = 0_usize;
    while started.elapsed() < time {
        let answer = market.x402_verify(&bills[verified % bills.len()]).await?;
        ensure!(answer.is_valid, "a payment was refused: {answer:?}");
        verified += 1;
    }
    let ours = verified as f64 / (cpu("self")? - used);
    let Some(peer) = reference(time)? else { return Ok(()) };
    report(Figure::new(
        "payments verified in process (peer: @x402/core and @x402/evm from npm)",
        ours,
        peer.verified / peer.cpu_seconds,
        "verified for each second of one core",
        Some(TIMES_REFERENCE),
    ))
}

/// An agent with money, who came over HTTP like everybody.
async fn fund(market: &Market) -> Result<Keyring> {
    let mut config = Config::new("127.0.0.1:0".parse()?);
    config.dev = true;
    let server = Server::bind(config, market.clone()).await?;
    let url = format!("http://{}", server.local_addr());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        // Dropping the sender is as good as sending.
        let _ = stopped.await;
    }));
    let (keyring, _) = Keyring::create([7; 32]);
    market.register_agent(keyring.registration(now(), None, None, None)).await?;
    let key = SecretKey::from_seed(*keyring.secret().seed());
    let client = Client::new(&url)?.with_key(keyring.agent_id(), key);
    client.faucet(Money::parse_decimal("1000", Asset::USDC)?).await?;
    drop(client);
    drop(stop);
    serving.await.context("the server ended in a panic")?;
    Ok(keyring)
}

/// Verifying and settling at a node that is a process of its own.
pub(super) async fn over_http(
    engine: &str,
    place: &Place,
    time: Duration,
    report: Report<'_>,
) -> Result<()> {
    let (client, wallet) = &place.payer;
    let rail = client.x402_rail().await?;
    let host = place.node.url().strip_prefix("http://").context("the node's address")?;
    progress(&format!("payments verified over HTTP on {engine}"));
    let verified = requests(host, "verify", &bills(&rail, wallet, 0..PAYMENTS)?)?;
    let node = place.node_cpu()?;
    let (rate, count) = ask(host, verified, true, time).await?;
    let node_us = (place.node_cpu()? - node) / count * 1e6;
    if let Some(peer) = reference(time)? {
        report(Figure::new(
            &format!("payments verified over HTTP on {engine} (peer: npm's, without HTTP)"),
            rate,
            peer.verified / peer.seconds,
            "verified/s",
            Some(TIMES_REFERENCE),
        ))?;
    }
    progress(&format!("payments settled over HTTP on {engine}"));
    let settled = requests(host, "settle", &bills(&rail, wallet, PAYMENTS..PAYMENTS + SETTLED)?)?;
    let node = place.node_cpu()?;
    let (settles, count) = ask(host, settled, false, time).await?;
    let settle_us = (place.node_cpu()? - node) / count * 1e6;
    let name = format!("payments settled over HTTP on {engine} (peer: verified)");
    report(Figure::new(&name, settles, rate, "/s", None))?;
    let name = format!("  {engine}, the node's CPU of settling (peer: of verifying)");
    report(Figure::new(&name, settle_us, node_us, "µs", None))
}

/// Payments of one wallet, each with a nonce of its own.
fn bills(
    rail: &Rail,
    wallet: &WalletKey,
    numbers: std::ops::Range<u64>,
) -> Result<Vec<FacilitatorRequest>> {
    let shop = AgentId::from_bytes([0x55; 20]);
    let amount = Amount::new(AMOUNT_MINOR).unwrap_or_default();
    let window = (0, now().as_ms() / 1000 + 3600);
    let domain = rail.domain(LEDGER_CHAIN_ID);
    let resource = Resource { url: "http://127.0.0.1/".to_owned(), ..Resource::default() };
    let salt = salt(now());
    numbers
        .map(|n| {
            let nonce: Hash32 = keccak256(&[salt.as_slice(), &n.to_be_bytes()].concat());
            let requirements = rail.requirements(amount, shop, 600);
            let authorization =
                Authorization::new((wallet.address(), shop), amount, window, &nonce);
            let signature = authorization.sign(&domain, wallet)?.to_string();
            let payload = ExactPayload { authorization, signature };
            let payment = Payment::new(requirements.clone(), resource.clone(), payload);
            Ok(FacilitatorRequest {
                x402_version: 2,
                payment_payload: payment.raw,
                payment_requirements: serde_json::to_value(requirements)?,
                skep: None,
            })
        })
        .collect()
}

/// Tells the nonces of one measurement from those of the next.
fn salt(at: Timestamp) -> [u8; 8] {
    at.as_ms().to_be_bytes()
}

fn requests(host: &str, path: &str, bills: &[FacilitatorRequest]) -> Result<Vec<Vec<u8>>> {
    bills
        .iter()
        .map(|bill| {
            let body = serde_json::to_string(bill)?;
            let length = body.len();
            Ok(format!(
                "POST /x402/{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{body}"
            )
            .into_bytes())
        })
        .collect()
}

/// Asks over plain sockets: again and again, or each once. Says how many a second and in all.
async fn ask(
    host: &str,
    requests: Vec<Vec<u8>>,
    again: bool,
    time: Duration,
) -> Result<(f64, f64)> {
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let answered = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (host, requests, next) = (host.to_owned(), requests.clone(), next.clone());
            let answered = answered.clone();
            tokio::spawn(async move {
                let mut socket = TcpStream::connect(host).await?;
                socket.set_nodelay(true)?;
                while started.elapsed() < time {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= requests.len() && !again {
                        break;
                    }
                    socket.write_all(&requests[place % requests.len()]).await?;
                    let body = String::from_utf8(read_body(&mut socket).await?)?;
                    let taken = ["\"isValid\":true", "\"success\":true"];
                    ensure!(taken.iter().any(|word| body.contains(word)), "refused: {body}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let count = answered.load(Ordering::Relaxed) as f64;
    Ok((count / started.elapsed().as_secs_f64(), count))
}

/// Lets the facilitator from npm verify its own payments, if it is installed.
fn reference(time: Duration) -> Result<Option<Reference>> {
    let Some(folder) = installed() else {
        eprintln!("npm's facilitator is not installed, so there is no peer: cargo xtask setup");
        return Ok(None);
    };
    progress("payments verified by npm's facilitator");
    // Beside what it imports, since that is how it finds it.
    let script = tempfile::Builder::new().suffix(".mjs").tempfile_in(&folder)?;
    std::fs::write(script.path(), SCRIPT)?;
    let mut command = Command::new("node");
    command.arg(script.path()).arg(time.as_secs().to_string()).current_dir(&folder);
    let run = run_until(&mut command, 2 * time + Duration::from_secs(60))?;
    if run.killed || !run.status.success() {
        bail!("npm's facilitator failed: {}", run.stderr);
    }
    Ok(Some(serde_json::from_str(run.stdout.trim())?))
}

/// The folder of the installed packages: below here, or below any folder above.
fn installed() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let places = here.ancestors().map(|folder| folder.join(INSTALLED));
    places.into_iter().find(|folder| folder.join("node_modules/@x402/evm").is_dir())
}
