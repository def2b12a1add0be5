//! A buyer that dies after any line of its journal finishes the hire, and pays for it once.

use std::{fs, sync::atomic::Ordering::SeqCst, time::Duration};

use skep_agent::{HireOrder, buyer::PaymentChoice};
use skep_base::Amount;
use skep_wire::settle::EscrowStatus;

use crate::{
    stall::{Manners, Stall},
    world::{World, double},
};

fn lines(path: &std::path::Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

async fn stall_of(world: &World, payment: &PaymentChoice) -> Stall {
    match payment {
        PaymentChoice::Escrow => world.escrow(1, Manners::default()).await,
        _ => world.direct(1, Manners::default()).await,
    }
}

/// All that a whole hire did has happened, and the journal ends early.
async fn cut_after_the_fact(world: World, payment: PaymentChoice, steps: usize) {
    let stall = stall_of(&world, &payment).await;
    let buyer = world.buyer().await;
    let hired = buyer.hire(HireOrder { payment: payment.clone(), ..double(3) }).await.unwrap();
    drop(buyer);
    let whole = lines(&world.journal());
    assert_eq!(whole.len(), steps, "{whole:?}");
    for kept in 0..=whole.len() {
        fs::write(world.journal(), whole[..kept].concat()).unwrap();
        let buyer = world.resumer().await;
        let resumed = buyer.resume().await.unwrap();
        assert_eq!(world.lost(), stall.price(), "{kept} lines");
        assert_eq!(buyer.open_hires(), 0, "{kept} lines: {resumed:?}");
        if kept == 1 {
            // Nothing was signed by then, as far as the journal knows.
            assert_eq!(resumed[0].outcome, "unpaid");
        } else if kept > 1 && kept < whole.len() {
            let again = resumed[0].hired.clone().unwrap();
            assert_eq!((&again.result, &again.receipt), (&hired.result, &hired.receipt));
            assert_eq!(again.paid, hired.paid, "{kept} lines");
            world.agree(&buyer);
        }
        assert_eq!(stall.runs.load(SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_is_cut_after_any_line_pays_nobody_twice() {
    cut_after_the_fact(World::open().await, PaymentChoice::Any, 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_one_of_an_escrow() {
    cut_after_the_fact(World::open().await, PaymentChoice::Escrow, 7).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_one_that_another_wallet_paid_for() {
    cut_after_the_fact(World::with_purse().await, PaymentChoice::Any, 6).await;
    cut_after_the_fact(World::with_purse().await, PaymentChoice::Escrow, 7).await;
}

/// The buyer is ended in the middle, as soon as a line is on the disk.
async fn ended_at_each_line(purse: bool, payment: PaymentChoice, steps: usize) {
    for at in 1..=steps {
        let world = if purse { World::with_purse().await } else { World::open().await };
        let stall = stall_of(&world, &payment).await;
        let buyer = world.buyer().await;
        let order = HireOrder { payment: payment.clone(), ..double(3) };
        let running = tokio::spawn(async move { buyer.hire(order).await });
        while lines(&world.journal()).len() < at {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        running.abort();
        let _ = running.await;
        let buyer = world.resumer().await;
        buyer.resume().await.unwrap();
        world.agree(&buyer);
        let ledger = world.node.ledger();
        assert_eq!(ledger.paid.len(), ledger.receipts.len(), "line {at}");
        assert!(ledger.escrows.values().all(|escrow| escrow.status == EscrowStatus::Released));
        assert!(ledger.receipts.values().all(|receipt| receipt.findings.buyer.is_some()));
        let count = i64::try_from(ledger.paid.len()).unwrap();
        drop(ledger);
        assert_eq!(world.lost(), count * stall.price());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_that_is_ended_at_any_line_finishes_later() {
    for purse in [false, true] {
        ended_at_each_line(purse, PaymentChoice::Any, 6).await;
        ended_at_each_line(purse, PaymentChoice::Escrow, 7).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_away_is_told_later() {
    let world = World::open().await;
    let stall = world.direct(1, Manners::default()).await;
    let buyer = world.buyer().await;
    let running = {
        let buyer = buyer.clone();
        tokio::spawn(async move { buyer.hire(double(3)).await })
    };
    while stall.runs.load(SeqCst) == 0 {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    while world.node.ledger().receipts.is_empty() {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    world.node.ledger().down = true;
    let ended = running.await.unwrap();
    world.node.ledger().down = false;
    // Whichever call it was that failed: nothing is lost by it.
    buyer.resume().await.unwrap();
    drop(ended);
    world.agree(&buyer);
    assert_eq!(world.lost(), stall.price());
    assert_eq!(buyer.budget_left(), None::<Amount>);
}
