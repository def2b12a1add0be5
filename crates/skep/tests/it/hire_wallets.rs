//! `skep hire --pay-with`: an agent hires, and another wallet pays.

use std::{
    fs::{self, File},
    process::Stdio,
};

use serde_json::{Value, json};
use skep_agent::Passphrase;
use skep_wire::hire::Judgement;

use crate::{
    hire_stage::{Agent, CAPABILITY, FUNDED_MINOR, PRICE, Sale, Town, mean, numbers},
    stage::until,
};

/// A keyring of the purse's with a passphrase of its own, and a file with that.
fn purse_files(town: &Town, purse: &Agent) -> (String, File) {
    let (keys, words) = (town.path("purse.keys"), town.path("purse.words"));
    let passphrase = Passphrase::new("battery staple".to_owned().into()).unwrap();
    purse.actor.keyring.save_new(&keys, &passphrase).unwrap();
    fs::write(&words, "battery staple\n").unwrap();
    (keys.display().to_string(), File::open(words).unwrap())
}

/// What is free of the buyer, the wallet that pays and the seller.
async fn free(town: [&Agent; 3]) -> [i64; 3] {
    let [buyer, purse, seller] = town;
    [buyer.free().await, purse.free().await, seller.free().await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_without_money_hires_with_another_wallets() {
    let town = Town::open();
    let (ann, purse, ben) = (town.agent(1).await, town.buyer(2).await, town.agent(3).await);
    let shop = town.sell(&ben, &Sale::default());
    let everyone = [&ann, &purse, &ben];
    let poor = town.hire(&ann, &["--payment-mode", "direct"]).await;
    poor.failed("insufficient_funds");
    let keys = town.path("2.keys").display().to_string();

    let hired = town.hire(&ann, &["--payment-mode", "direct", "--pay-with", &keys]).await.told;
    assert_eq!((&hired["result"], &hired["payer"]), (&mean(), &json!(purse.id())), "{hired:#}");
    assert_eq!(hired["receipt"]["buyer"], json!(ann.id()));
    assert_eq!(free(everyone).await, [0, FUNDED_MINOR - PRICE, PRICE]);
    assert_eq!((purse.paid().await, ann.paid().await), (vec![PRICE], vec![]));

    let hired = town.hire(&ann, &["--escrow", "--pay-with", &keys]).await.told;
    assert_eq!(hired["escrow"]["status"], "RELEASED", "{hired:#}");
    let escrow = hired["escrow"]["escrow_id"].as_str().unwrap().parse().unwrap();
    let shown = ann.client.hire_escrow(escrow).await.unwrap();
    assert_eq!((shown.payer, shown.terms.buyer), (Some(purse.id()), ann.id()));
    assert_eq!(free(everyone).await, [0, FUNDED_MINOR - 2 * PRICE, 2 * PRICE]);
    // The receipts are the buyer's, counter-signed by it; the wallet has none.
    let receipts = ann.receipts().await;
    assert_eq!(receipts.len(), 2);
    let good = receipts.iter().all(|it| it.judgement == Judgement::Passed && !it.linked);
    assert!(good, "{receipts:#?}");
    assert!(purse.receipts().await.is_empty());
    assert_eq!(shop.runs(), 2);

    // A keyring with a passphrase of its own; without that it pays nothing.
    let (keys, words) = purse_files(&town, &purse);
    town.hire(&ann, &["--pay-with", &keys]).await.failed("purse.keys");
    let params = numbers().to_string();
    let mut command = town.hire_command(&ann, &[CAPABILITY, "--params", &params]);
    command.args(["--payment-mode", "direct", "--pay-with", &keys]);
    command.args(["--pay-with-passphrase-fd", "0"]).stdin(Stdio::from(words));
    let output = command.output().unwrap();
    let hired: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(hired["payer"], json!(purse.id()), "{output:?}");
    assert_eq!(free(everyone).await, [0, FUNDED_MINOR - 3 * PRICE, 3 * PRICE]);
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_for_bad_work_goes_back_to_the_wallet_that_paid() {
    let town = Town::open();
    let (ann, purse, ben) = (town.agent(1).await, town.buyer(2).await, town.agent(3).await);
    let script = r#"cat > /dev/null; echo '{"result": 4.0}'"#;
    let shop = town.sell(&ben, &Sale { modes: &["escrow"], script, ..Sale::default() });
    let keys = town.path("2.keys").display().to_string();
    let hiring = town.hire(&ann, &["--escrow", "--pay-with", &keys]).await;
    // The seller finds out itself, and gives back what was held before the work.
    hiring.failed("nothing was paid");
    assert_eq!(free([&ann, &purse, &ben]).await, [0, FUNDED_MINOR, 0]);
    assert_eq!((purse.held().await, shop.runs()), (0, 1));
    let kinds: Vec<String> = purse.history().await.into_iter().map(|line| line.kind).collect();
    assert!(kinds.contains(&"void".to_owned()), "{kinds:?}");
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hire_is_finished_without_the_wallets_key() {
    let town = Town::open();
    let (ann, purse, ben) = (town.agent(1).await, town.buyer(2).await, town.agent(3).await);
    let script = concat!("sleep 1; exec ", env!("CARGO_BIN_EXE_skep"), " work statistics");
    let shop = town.sell(&ben, &Sale { script, ..Sale::default() });
    let keys = town.path("2.keys").display().to_string();
    let (params, journal) = (numbers().to_string(), town.buyer_journal(&ann));
    for (n, mode) in [(1, "--payment-mode=direct"), (2, "--escrow")] {
        let args = [CAPABILITY, "--params", &params, mode, "--pay-with", &keys];
        let mut command = town.hire_command(&ann, &args);
        let mut hire = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // It is killed while the seller works: the payment is signed.
        until("the seller works", async || (shop.runs() == n).then_some(())).await;
        hire.kill().unwrap();
        hire.wait().unwrap();
        assert!(fs::read_to_string(&journal).unwrap().contains("authorized"));
        let mut resume = town.hire_command(&ann, &["--resume"]);
        let output = resume.output().unwrap();
        let resumed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let hired = &resumed["resumed"][0]["hired"];
        assert_eq!((&hired["result"], &hired["payer"]), (&mean(), &json!(purse.id())));
        let paid = PRICE * i64::try_from(n).unwrap();
        assert_eq!(free([&ann, &purse, &ben]).await, [0, FUNDED_MINOR - paid, paid], "{output:?}");
    }
    assert_eq!((shop.runs(), ann.receipts().await.len()), (2, 2));
    town.audit(FUNDED_MINOR);
}
