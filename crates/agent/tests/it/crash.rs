//! A seller that is killed between any two lines of its journal: afterwards the buyer, the ledger
//! and the receipts agree.

use std::fs;

use serde_json::{Value, json};
use skep_wire::{hire::HireRequest, x402::Payment};

use crate::{
    bank::Books,
    stage::{Buyer, PRICE, World, escrow, seller_wallet, until},
};

/// What the ledger had seen when the seller died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Payment,
    PaymentAndReceipt,
}

struct Recorded {
    hire: HireRequest,
    payment: Option<Payment>,
    lines: Vec<String>,
    before: Books,
    after: Books,
    answer: Value,
}

/// One whole hire, and what it left.
async fn record(world: &World, buyer: &Buyer, mode_is_escrow: bool, free: bool) -> Recorded {
    let shop = world.open(offer(world, mode_is_escrow, free)).await;
    let before = world.bank.with(|books| books.clone());
    let hire = buyer.hire(json!({ "a": 0.1 }));
    let (payment, answer) = match free {
        true => (None, shop.hire(&hire).await),
        false => {
            let payment = buyer.payment(&hire, &shop.hire(&hire).await);
            let answer = shop.pay(&hire, &payment).await;
            (Some(payment), answer)
        }
    };
    assert_eq!(answer.status, 200, "{answer:?}");
    shop.close().await;
    let text = fs::read_to_string(world.journal()).unwrap();
    let lines = text.split_inclusive('\n').map(str::to_owned).collect();
    let after = world.bank.with(|books| books.clone());
    Recorded { hire, payment, lines, before, after, answer: answer.body }
}

fn offer(world: &World, mode_is_escrow: bool, free: bool) -> skep_agent::seller::Offer {
    let mut offer = world.offer();
    offer.first_call_free = free;
    if mode_is_escrow {
        offer.modes = vec![escrow()];
    }
    offer
}

/// Starts again with the first lines only, and gives what the buyer is answered then.
async fn restarted(
    world: &World,
    recorded: &Recorded,
    lines: usize,
    seen: Seen,
    (mode_is_escrow, free): (bool, bool),
) -> (u16, Value) {
    let mut books = match seen {
        Seen::Nothing => recorded.before.clone(),
        Seen::Payment | Seen::PaymentAndReceipt => recorded.after.clone(),
    };
    if seen == Seen::Payment {
        books.receipts.clear();
        books.payloads.clear();
    }
    world.bank.with(|now| *now = books);
    fs::remove_file(world.folder.path().join("runs")).ok();
    // A crash in the middle of a line, too.
    let mut text: String = recorded.lines[..lines].concat();
    let next = recorded.lines.get(lines).map(|line| &line[..line.len() / 2]);
    text.push_str(next.unwrap_or_default());
    fs::write(world.journal(), text).unwrap();
    let shop = world.open(offer(world, mode_is_escrow, free)).await;
    let answer = match &recorded.payment {
        Some(payment) => shop.pay(&recorded.hire, payment).await,
        None => shop.hire(&recorded.hire).await,
    };
    shop.close().await;
    (answer.status, answer.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_hire_survives_a_crash_between_any_two_lines() {
    let kinds = ["started", "produced", "settled", "receipted"];
    let cases = [
        (0, Seen::Nothing, 1),
        (1, Seen::Nothing, 1),
        (2, Seen::Nothing, 0),
        (2, Seen::Payment, 0),
        (3, Seen::Payment, 0),
        (3, Seen::PaymentAndReceipt, 0),
        (4, Seen::PaymentAndReceipt, 0),
    ];
    direct_hires_survive(false, &kinds, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hire_whose_receipt_goes_along_survives_a_crash_as_well() {
    let cases = [
        (0, Seen::Nothing, 1),
        (1, Seen::Nothing, 1),
        (2, Seen::Nothing, 0),
        (2, Seen::Payment, 0),
        (2, Seen::PaymentAndReceipt, 0),
        (3, Seen::PaymentAndReceipt, 0),
    ];
    direct_hires_survive(true, &["started", "produced", "settled"], &cases).await;
}

async fn direct_hires_survive(
    enters_receipts: bool,
    expected: &[&str],
    cases: &[(usize, Seen, usize)],
) {
    let world = World::new().await;
    world.bank.with(|books| books.enters_receipts = enters_receipts);
    let buyer = world.buyer(1);
    let recorded = record(&world, &buyer, false, false).await;
    assert_eq!(kinds(&recorded), expected);
    for (lines, seen, runs) in cases.iter().copied() {
        let (status, answer) = restarted(&world, &recorded, lines, seen, (false, false)).await;
        assert_eq!(status, 200, "after {lines} lines: {answer}");
        assert_eq!(answer["result"], recorded.answer["result"]);
        if lines >= 2 {
            assert_eq!(answer, recorded.answer, "what was done once is the same for ever");
        }
        assert_eq!(world.runs(), runs, "after {lines} lines");
        assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE, "{lines} {seen:?}");
        assert_eq!(world.bank.balance(seller_wallet().address()), PRICE);
        let receipts = world.bank.with(|books| books.receipts.clone());
        let stored: Vec<Value> = receipts.values().map(|receipt| json!(receipt)).collect();
        assert_eq!(stored, [answer["signed_receipt"].clone()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hire_in_escrow_is_delivered_or_refunded_after_a_crash() {
    let world = World::new().await;
    let buyer = world.buyer(2);
    let recorded = record(&world, &buyer, true, false).await;
    assert_eq!(kinds(&recorded), ["started", "held", "produced", "receipted"]);
    let cases = [
        (0, Seen::Nothing, true),
        (1, Seen::Nothing, true),
        (1, Seen::Payment, true),
        // Held and not done: the buyer does not wait for a seller that may never come back.
        (2, Seen::Payment, false),
        (3, Seen::Payment, true),
        (3, Seen::PaymentAndReceipt, true),
        (4, Seen::PaymentAndReceipt, true),
    ];
    for (lines, seen, delivered) in cases {
        let (status, answer) = restarted(&world, &recorded, lines, seen, (true, false)).await;
        let refunds = world.bank.with(|books| books.refunds.len());
        let receipts = world.bank.with(|books| books.receipts.len());
        if delivered {
            assert_eq!((status, refunds, receipts), (200, 0, 1), "{lines} {seen:?}: {answer}");
            assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
        } else {
            assert_eq!((status, refunds, receipts), (502, 1, 0), "{lines} {seen:?}: {answer}");
            assert_eq!(answer["code"], "interrupted");
            assert_eq!(world.bank.balance(buyer.id()), 1_000_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_call_is_used_up_once_it_is_in_the_journal() {
    let world = World::new().await;
    let buyer = world.buyer(3);
    let recorded = record(&world, &buyer, false, true).await;
    assert_eq!(kinds(&recorded), ["started", "produced", "receipted"]);
    for lines in 1..=3 {
        let (status, answer) =
            restarted(&world, &recorded, lines, Seen::Nothing, (false, true)).await;
        assert_eq!((status, &answer["result"]), (200, &recorded.answer["result"]));
        let shop = world.open(offer(&world, false, true)).await;
        assert_eq!(shop.hire(&buyer.hire(json!({}))).await.status, 402, "after {lines} lines");
        shop.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_ended_while_the_seller_was_away_takes_no_work() {
    let world = World::new().await;
    let buyer = world.buyer(4);
    let recorded = record(&world, &buyer, false, false).await;
    world.clock.advance(std::time::Duration::from_secs(3600));
    let (status, answer) = restarted(&world, &recorded, 1, Seen::Nothing, (false, false)).await;
    assert_eq!(status, 402, "{answer}");
    assert_eq!((world.runs(), world.bank.balance(buyer.id())), (0, 1_000_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_running_hires_end() {
    let world = World::new().await;
    let text = "sleep 1; cat";
    let work = crate::stage::script(world.folder.path(), text);
    let mut offer = world.offer();
    offer.work = std::sync::Arc::new(skep_agent::seller::ProgramWork::new(work, vec![]));
    let shop = world.open(offer).await;
    let buyer = world.buyer(5);
    let hire = buyer.hire(json!({ "a": 1 }));
    let payment = buyer.payment(&hire, &shop.hire(&hire).await);
    let url = shop.url.clone();
    let paying = tokio::spawn(async move {
        let header = skep_wire::x402::to_header(&payment.raw);
        let request = reqwest::Client::new().post(format!("{url}/hire")).json(&hire);
        request.header("payment-signature", header).send().await.unwrap().status()
    });
    let journal = world.journal();
    until("the start", async || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("started")).then_some(())
    })
    .await;
    shop.close().await;
    assert_eq!(paying.await.unwrap(), 200);
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
}

fn kinds(recorded: &Recorded) -> Vec<String> {
    let entry = |line: &String| {
        let json: Value = serde_json::from_str(&line[17..]).unwrap();
        json["entry"].as_str().unwrap().to_owned()
    };
    recorded.lines.iter().map(entry).collect()
}
