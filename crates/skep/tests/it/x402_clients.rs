//! Clients of x402 as others publish them pay a seller of Skep, without knowing what Skep is.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};
use skep_base::{Clock, hash::sha256};
use skep_store::SystemClock;
use skep_testkit::process::run_until;
use skep_wire::{
    hire::{Judgement, WalletSigned},
    x402::{
        Authorization, ExactPayload, LEDGER_CHAIN_ID, PAYMENT_SIGNATURE, Payment, V1_CHAIN_ID,
        V1_NETWORK, X_PAYMENT, ledger_network, to_header,
    },
};

use crate::hire_stage::{Agent, CAPABILITY, FUNDED_MINOR, PRICE, Sale, Shop, Town, mean, numbers};

/// Long for one payment; Python takes a while to start.
const WITHIN: Duration = Duration::from_secs(120);

/// Where `cargo run -p xtask -- setup` has put the clients.
fn installed(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop");
    let path = root.join(name);
    assert!(path.exists(), "{} is missing: cargo run -p xtask -- setup", path.display());
    path
}

/// A script that runs a client, in a folder from which it finds what was installed.
fn client(folder: &Path, script: &str) -> Command {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script);
    let copy = folder.join(script);
    fs::copy(source, &copy).unwrap();
    let mut command = match script.ends_with(".py") {
        true => Command::new(installed("python/bin/python")),
        false => {
            // Two runs share the folder.
            let _ = symlink(installed("node_modules"), folder.join("node_modules"));
            Command::new("node")
        }
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("HOME", folder).current_dir(folder).arg(copy);
    command
}

fn plain_hire() -> Value {
    json!({"capability": CAPABILITY, "params": numbers()})
}

/// Whether a client's owner has allowed the ledger's asset.
#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Allows,
    SaysNothing,
}

/// One payment by a published client: what it printed, or why it did not pay.
async fn run(
    town: &Town,
    (ann, owner): (&Agent, Owner),
    shop: &Shop,
    script: &str,
) -> Result<Value, String> {
    run_named(town, (ann, owner), shop, script, None, &plain_hire()).await
}

/// The same, with a name for the payment and a body of its own.
async fn run_named(
    town: &Town,
    (ann, owner): (&Agent, Owner),
    shop: &Shop,
    script: &str,
    name: Option<&str>,
    body: &Value,
) -> Result<Value, String> {
    let key = ann.actor.keyring.wallet().to_bytes();
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = client(town.home.path(), script);
    command.env("PRIVATE_KEY", format!("0x{key}"));
    if owner == Owner::Allows {
        let asset = ann.client.x402_rail().await.unwrap().asset;
        let max = PRICE.to_string();
        let allow = json!({"network": ledger_network(), "asset": asset, "max": max});
        command.env("ALLOW", allow.to_string());
    }
    command.envs(name.map(|name| ("PAYMENT_ID", name)));
    command.args([format!("{}/hire", shop.url()), body.to_string()]);
    let run = tokio::task::spawn_blocking(move || run_until(&mut command, WITHIN));
    let run = run.await.unwrap().unwrap();
    match run.status.success() {
        true => Ok(serde_json::from_str(&run.stdout).unwrap()),
        false => Err(run.stderr),
    }
}

async fn pays(script: &str, owner: Owner) {
    let town = Town::open();
    let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
    let shop = town.sell(&ben, &Sale::default());
    if owner == Owner::Allows {
        // As it comes it pays in well-known assets only, and the ledger's is none of them.
        let refused = run(&town, (&ann, Owner::SaysNothing), &shop, script).await.unwrap_err();
        assert!(refused.contains("only default assets"), "{refused}");
        assert_eq!((ann.free().await, shop.runs()), (FUNDED_MINOR, 0));
    }
    let mut seen = Vec::new();
    for count in 1..=2 {
        let told = run(&town, (&ann, owner), &shop, script).await;
        let told = told.unwrap_or_else(|error| panic!("{script}: {error}"));
        let result = told["body"]["result"]["result"].as_f64();
        assert_eq!((&told["status"], result), (&json!(200), Some(3.0)), "{told:#}");
        let settled = &told["settled"];
        assert_eq!(settled["success"], true, "{told:#}");
        // What the client was told is what the seller has signed and the ledger has done.
        let id = told["body"]["receipt"]["receipt_id"].as_str().unwrap();
        let stored = ann.client.receipt(id).await.unwrap();
        stored.receipt.check_signature().unwrap();
        assert_eq!(settled["transaction"], json!(stored.receipt.tx_hash));
        assert_eq!(told["body"]["receipt"]["tx_hash"], settled["transaction"]);
        let receipt = &stored.receipt;
        assert_eq!((receipt.agent_id, receipt.buyer), (ben.id(), ann.id()));
        assert_eq!(receipt.amount_usdc_atomic.minor(), PRICE);
        assert_eq!((receipt.hire_hash, stored.dispute), (None, false));
        assert_eq!(stored.judgement, Judgement::NotVerifiedByBuyer);
        // Once for each run, and exactly the price.
        assert_eq!(ann.paid().await, vec![PRICE; count]);
        let paid = PRICE * i64::try_from(count).unwrap();
        assert_eq!((ann.free().await, ben.free().await), (FUNDED_MINOR - paid, paid));
        assert_eq!(shop.runs(), count);
        assert!(!seen.contains(&receipt.tx_hash), "a second run is a second payment");
        seen.push(receipt.tx_hash.clone());
    }
    assert_eq!(ann.receipts().await.len(), 2);
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x402_fetch_of_version_2_pays() {
    pays("pay_v2.mjs", Owner::Allows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x402_fetch_names_its_payment_and_pays_once() {
    let town = Town::open();
    let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
    let mut shop = town.sell(&ben, &Sale::default());
    let name = Some("pay_7d5d747be160e280504c099d984bcfe0");
    let script = "pay_v2.mjs";
    let owner = (&ann, Owner::Allows);
    let first = run_named(&town, owner, &shop, script, name, &plain_hire()).await.unwrap();
    assert_eq!(first["status"], 200, "{first:#}");
    // Each run signs a payment of its own. The seller was killed and started again in between.
    shop.child.kill9();
    shop = town.sell(&ben, &Sale { listen: listen(&shop), ..Sale::default() });
    let again = run_named(&town, owner, &shop, script, name, &plain_hire()).await.unwrap();
    assert_eq!(again, first, "the same answer, about the same payment");
    let other = json!({"capability": CAPABILITY, "params": {"data": [5, 7]}});
    let refused = run_named(&town, owner, &shop, script, name, &other).await.unwrap();
    let code = &refused["body"]["code"];
    assert_eq!((&refused["status"], code), (&json!(409), &json!("payment_identifier_reused")));
    assert_eq!((ann.paid().await, shop.runs()), (vec![PRICE], 1));
    town.audit(FUNDED_MINOR);
}

/// Where a seller listens.
fn listen(shop: &Shop) -> String {
    shop.url().trim_start_matches("http://").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x402_fetch_of_version_1_pays() {
    pays("pay_v1.mjs", Owner::SaysNothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x402_of_python_pays() {
    pays("pay.py", Owner::Allows).await;
}

/// The header of a payment as plain clients of either version make it.
async fn header(ann: &Agent, shop: &Shop, version: u8) -> (&'static str, String) {
    let rail = ann.client.x402_rail().await.unwrap();
    let asked = ann.post(&format!("{}/hire", shop.url()), &plain_hire(), &[]).await;
    assert_eq!(asked.status, 402, "{asked:?}");
    let required = asked.required();
    let accepted = required.accepts[0].clone();
    let until =
        i64::try_from(accepted.max_timeout_seconds).unwrap() + SystemClock.now().as_ms() / 1000;
    let nonce = sha256(&[version]);
    let parties = (ann.id(), accepted.pay_to);
    let authorization = Authorization::new(parties, accepted.amount, (0, until), &nonce);
    let chain = if version == 1 { V1_CHAIN_ID } else { LEDGER_CHAIN_ID };
    let signature = authorization.sign(&rail.domain(chain), ann.actor.keyring.wallet()).unwrap();
    let payload = ExactPayload { authorization, signature: signature.to_string() };
    match version {
        1 => {
            let payment = json!({
                "x402Version": 1, "scheme": "exact", "network": V1_NETWORK, "payload": payload,
            });
            (X_PAYMENT, to_header(&payment))
        }
        _ => {
            let payment = Payment::new(accepted, required.resource, payload);
            (PAYMENT_SIGNATURE, to_header(&payment.raw))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_captured_payment_gets_its_answer_again_and_nothing_else() {
    let town = Town::open();
    let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
    let (eve, cyd) = (town.agent(3).await, town.agent(4).await);
    let shop = town.sell(&ben, &Sale::default());
    let other = town.sell(&cyd, &Sale::default());
    let url = format!("{}/hire", shop.url());
    for (count, version) in [(1, 2), (2, 1)] {
        let header = [header(&ann, &shop, version).await];
        let first = ann.post(&url, &plain_hire(), &header).await;
        assert_eq!((first.status, &first.body["result"]), (200, &mean()), "{first:?}");
        // Whoever has seen it gets what was answered before, and no more.
        let again = eve.post(&url, &plain_hire(), &header).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
        let body = json!({"capability": CAPABILITY, "params": {"data": [5, 7]}});
        let changed = eve.post(&url, &body, &header).await;
        assert_eq!((changed.status, changed.code()), (409, "nonce_reused"), "{changed:?}");
        let elsewhere = eve.post(&format!("{}/hire", other.url()), &plain_hire(), &header).await;
        let code = "invalid_exact_evm_payload_recipient_mismatch";
        assert_eq!((elsewhere.status, elsewhere.code()), (402, code), "{elsewhere:?}");
        assert_eq!(ann.paid().await, vec![PRICE; count]);
        assert_eq!((shop.runs(), other.runs()), (count, 0));
    }
    assert_eq!(ben.free().await, 2 * PRICE);
    assert_eq!((eve.free().await, cyd.free().await), (0, 0));
    town.audit(FUNDED_MINOR);
}
