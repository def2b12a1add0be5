//! What an operator sets and pays: fees by subscription, and newcomers' subsidies.

use std::path::Path;

use serde_json::{Value, json};
use skep_sdk::Client;
use skep_testkit::process::Child;
use skep_wire::settle::EscrowStatus;

use crate::stage::{self, Actor, PRICE, agree, deliver, free, furnish, settled, usdc};

const HELLO: &str = "Hello";

fn admin(folder: &Path, args: &[&str]) -> Value {
    let mut skep = stage::skep(folder);
    skep.args(["admin", "--data-dir"]).arg(folder).args(args).args(["--reason", "a test"]);
    stage::told(&mut skep)["now"].clone()
}

/// A deal that ends well. What Ann had free meanwhile, and what Ben got.
async fn dealt(ann: &Client, ben: &Client) -> (i64, i64) {
    let (before, had) = (free(ann).await, free(ben).await);
    let hints = json!({"type": "artifact", "expected_content": "hello"});
    let id = agree(ann, ben, hints, json!({})).await;
    let held = before - free(ann).await;
    deliver(ben, id, HELLO).await.unwrap();
    assert_eq!(settled(ann, id).await.escrow_status, EscrowStatus::Released);
    (held, free(ben).await - had)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sets_fees_and_pays_for_newcomers() {
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path(), 1);
    let mut up = stage::up(folder.path(), &[]);
    up.env("SKEP_FEE_BPS", "400").env("SKEP_FEE_TIERS", "pro=200, free = 0");
    up.env("SKEP_FEE_BUYER_SHARE_BPS", "0").env("SKEP_SUBSIDY_DEALS", "3");
    let node = Child::spawn(&mut up).unwrap();
    let (ann, ben) = (Actor::new(1), Actor::new(2));
    let id = ben.id().to_string();
    let (ann, ben) = (ann.enter(node.url(), None).await, ben.enter(node.url(), None).await);
    ann.faucet(usdc(100)).await.unwrap();

    assert_eq!(dealt(&ann, &ben).await, (PRICE, PRICE * 96 / 100));
    admin(folder.path(), &["subscribe", &id, "--to", "pro"]);
    assert_eq!(dealt(&ann, &ben).await, (PRICE, PRICE * 98 / 100));
    admin(folder.path(), &["subscribe", &id, "--to", "free"]);
    let filled = admin(folder.path(), &["fund-subsidies", "160 USDC"]);
    assert_eq!(filled["subsidies"]["amount_minor"], "160000000", "{filled}");
    // Its third deal is the last that the platform fronts a fifth of, and it gets that back.
    assert_eq!(dealt(&ann, &ben).await, (PRICE * 80 / 100, PRICE));
    assert_eq!(dealt(&ann, &ben).await, (PRICE, PRICE));
    let filled = admin(folder.path(), &["fund-subsidies", "0.50 USDC"]);
    assert_eq!(filled["subsidies"]["amount_minor"], "160500000", "{filled}");

    for (name, bad) in [("FEE_TIERS", "pro"), ("FEE_TIERS", "pro=2001"), ("SUBSIDY_DEALS", "-1")] {
        let other = tempfile::tempdir().unwrap();
        let mut up = stage::up(other.path(), &[]);
        let output = up.env(format!("SKEP_{name}"), bad).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains(&name.to_lowercase()) && said.contains(bad.trim_start_matches("pro=")),
            "{name}: {said}"
        );
    }
}
