//! Many hires at once, one budget, and a node that goes away.

use std::time::Duration;

use serde_json::json;
use skep_agent::HireError;
use skep_base::{Amount, Timestamp};
use skep_wire::hire::BudgetToken;

use crate::{
    node::now,
    stall::{Manners, key},
    world::{World, double, open},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_hires_do_not_exceed_one_budget() {
    let world = World::open().await;
    let stall = world.direct(1, Manners::default()).await;
    let mut token: BudgetToken = serde_json::from_value(json!({
        "agent_id": world.buyer_id, "max_amount_usdc": "0.10", "max_duration_seconds": 3600,
        "issued_at": now().as_ms() / 1000, "issuer": key(50).address(), "nonce": "b1",
    }))
    .unwrap();
    token.sign_as_agent(&key(50)).unwrap();
    let mut config = world.config();
    config.budget = Some(token);
    let buyer = open(config.clone(), world.journal()).await;
    let mut hires = tokio::task::JoinSet::new();
    for n in 0..12 {
        let buyer = buyer.clone();
        hires.spawn(async move { buyer.hire(double(n)).await });
    }
    let ended = hires.join_all().await;
    let good = ended.iter().filter(|hired| hired.is_ok()).count();
    assert_eq!(good, 5);
    for error in ended.into_iter().filter_map(Result::err) {
        assert!(matches!(error, HireError::OverBudget { .. }), "{error}");
    }
    assert_eq!(world.lost(), 5 * stall.price());
    assert_eq!(buyer.budget_left(), Some(Amount::ZERO));
    world.agree(&buyer);
    drop(buyer);
    // The count survives a restart.
    let buyer = open(config, world.journal()).await;
    assert_eq!(buyer.budget_left(), Some(Amount::ZERO));
    assert_eq!(buyer.hire(double(1)).await.unwrap_err().code(), "budget_exceeded");
    assert_eq!(buyer.spent_since(Timestamp::EPOCH).0.minor(), 5 * stall.price());
    assert_eq!(buyer.spent_since(now().plus(Duration::from_secs(9))).0, Amount::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_node_would_not_take_is_shown_to_no_seller() {
    let world = World::open().await;
    let stall = world.direct(1, Manners::default()).await;
    world.node.ledger().wallets.clear();
    let buyer = world.buyer().await;
    let error = buyer.hire(double(1)).await.unwrap_err();
    let HireError::NotPayable { reason, .. } = &error else { panic!("{error}") };
    assert_eq!(reason, "insufficient_funds");
    assert_eq!(stall.paid.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert_eq!(buyer.open_hires(), 0);
}
