use std::time::Duration;

use serde_json::json;
use skep_base::{Amount, hash::json_sha256};
use skep_wire::{
    hire::{HireResponse, PaymentMode, WalletSigned},
    x402::{
        PAYMENT_RESPONSE, PAYMENT_SIGNATURE, SettleResponse, X_PAYMENT, from_header, to_header,
    },
};

use crate::{
    bank::Fault,
    stage::{PRICE, World, escrow, seller_wallet, until},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hire_is_priced_paid_done_once_and_receipted() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(1);
    let hire = buyer.hire(json!({ "n": 0.1, "t": "é" }));
    let asked = shop.hire(&hire).await;
    assert_eq!((asked.status, asked.body["error"].as_str()), (402, Some("payment_required")));
    assert_eq!(asked.body["accepts"][0]["network"], "base-sepolia");
    assert_eq!(asked.headers["x-402-amount"], PRICE.to_string());
    assert_eq!(asked.required().accepts[0].pay_to, seller_wallet().address());
    let payment = buyer.payment(&hire, &asked);
    let first = shop.pay(&hire, &payment).await;
    assert_eq!(first.status, 200, "{first:?}");
    let told: SettleResponse =
        from_header(first.headers[PAYMENT_RESPONSE].to_str().unwrap()).unwrap();
    assert!(told.success);
    let response: HireResponse = serde_json::from_value(first.body.clone()).unwrap();
    assert_eq!(response.result, json!({ "echo": { "n": 0.1, "t": "é" } }));
    let receipt = response.signed_receipt.unwrap();
    receipt.check_signature().unwrap();
    assert_eq!(receipt.amount_usdc_atomic, Amount::new(PRICE).unwrap());
    assert_eq!(receipt.result_hash, Some(json_sha256(&response.result).unwrap()));
    assert_eq!(receipt.params_hash, Some(json_sha256(&hire.params).unwrap()));
    assert_eq!(receipt.hire_hash, Some(hire.digest().unwrap()));
    assert_eq!(receipt.tx_hash, told.transaction);

    // The same again: with and without its payment, also from a seller that was closed meanwhile.
    let again = shop.pay(&hire, &payment).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    shop.close().await;
    world.clock.advance(Duration::from_secs(3600));
    let shop = world.open(world.offer()).await;
    let again = shop.hire(&hire).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = buyer.hire_with(json!({}), |other| other.nonce = hire.nonce.clone());
    let refused = shop.pay(&other, &payment).await;
    assert_eq!((refused.status, refused.code()), (409, "nonce_reused"));
    assert_eq!(world.runs(), 1);
    assert_eq!(world.bank.balance(seller_wallet().address()), PRICE);
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
    let stored = world.bank.with(|books| books.receipts.clone());
    assert_eq!(stored.into_values().collect::<Vec<_>>(), [receipt]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_clients_of_both_versions_pay_and_are_known_by_their_payment() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(2);
    let body = json!({ "params": { "a": 1 } });
    let asked = shop.post("/hire", &body, None).await;
    assert_eq!(asked.status, 402);
    let required = asked.required();
    let nonce = skep_base::hash::keccak256(b"any");
    let payment = buyer.payment_with(&required.accepts[0], &required, &nonce, |_| {});
    let header = || Some((PAYMENT_SIGNATURE, to_header(&payment.raw)));
    let first = shop.post("/hire", &body, header()).await;
    assert_eq!(first.status, 200, "{first:?}");
    let response: HireResponse = serde_json::from_value(first.body.clone()).unwrap();
    let receipt = response.signed_receipt.unwrap();
    assert_eq!((receipt.buyer, receipt.hire_hash), (buyer.id(), None));
    let again = shop.post("/hire", &body, header()).await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = shop.post("/hire", &json!({ "params": { "a": 2 } }), header()).await;
    assert_eq!((other.status, other.code()), (409, "nonce_reused"));

    // Version 1: another network's name and another domain.
    let mut accepted = required.accepts[0].clone();
    accepted.network = asked.body["accepts"][0]["network"].as_str().unwrap().to_owned();
    let nonce = skep_base::hash::keccak256(b"another");
    let signed = buyer.payment_with(&accepted, &required, &nonce, |_| {});
    let v1 = json!({
        "x402Version": 1, "scheme": "exact", "network": "base-sepolia",
        "payload": signed.raw["payload"],
    });
    let paid = shop.post("/hire", &body, Some((X_PAYMENT, to_header(&v1)))).await;
    assert_eq!(paid.status, 200, "{paid:?}");
    assert!(paid.headers.contains_key("x-payment-response"));
    assert_eq!((world.runs(), world.bank.balance(buyer.id())), (2, 1_000_000 - 2 * PRICE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_does_not_say_for_what_buys_from_one_seller_only() {
    let world = World::new().await;
    let one = world.open(world.offer()).await;
    let journal = world.folder.path().join("other.journal");
    let two = world
        .open_with(vec![world.offer()], |config| {
            config.endpoint = Some("http://other.test".to_owned());
            config.journal = journal;
        })
        .await;
    let buyer = world.buyer(12);
    let body = json!({ "params": { "a": 1 } });
    let required = one.post("/hire", &body, None).await.required();
    let nonce = skep_base::hash::keccak256(b"one for two");
    let mut raw = buyer.payment_with(&required.accepts[0], &required, &nonce, |_| {}).raw;
    raw.as_object_mut().unwrap().remove("resource");
    let header = || Some((PAYMENT_SIGNATURE, to_header(&raw)));
    let (first, second) =
        tokio::join!(one.post("/hire", &body, header()), two.post("/hire", &body, header()));
    let mut statuses = [first.status, second.status];
    statuses.sort();
    assert_eq!(statuses, [200, 402], "{first:?} {second:?}");
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_call_on_an_escrow_listing_is_receipted_at_home() {
    let world = World::new().await;
    let elsewhere = crate::bank::Bank::open().await;
    let mut offer = world.offer();
    offer.modes = vec![PaymentMode::CustomEscrow(elsewhere.url.clone())];
    offer.first_call_free = true;
    let shop = world.open(offer).await;
    let done = shop.hire(&world.buyer(13).hire(json!({ "a": 1 }))).await;
    assert_eq!(done.status, 200, "{done:?}");
    let id = done.body["receipt"]["receipt_id"].as_str().unwrap();
    assert!(world.bank.with(|books| books.receipts.contains_key(id) && books.payloads.is_empty()));
    assert!(elsewhere.with(|books| books.receipts.is_empty() && books.payloads.is_empty()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_in_escrow_is_held_before_the_work_and_goes_back_if_it_fails() {
    let world = World::new().await;
    let mut offer = world.offer();
    offer.modes = vec![escrow()];
    let shop = world.open(offer.clone()).await;
    let buyer = world.buyer(3);
    let plain = shop.post("/hire", &json!({ "params": {} }), None).await;
    assert_eq!((plain.status, plain.code()), (422, "signed_hire_needed"));
    let done = shop.bought(&buyer, &buyer.hire(json!({ "a": 1 }))).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(done.body["receipt"]["payment_mode"], "platform_escrow:test");
    let id = done.body["receipt"]["receipt_id"].as_str().unwrap();
    let payload = world.bank.with(|books| books.payloads[id].clone());
    assert_eq!(payload.result, done.body["result"]);
    assert!(world.bank.with(|books| books.receipts[id].escrow_id.is_some()));
    shop.close().await;

    let broken = crate::stage::script(world.folder.path(), "echo no luck >&2; exit 3");
    offer.work = std::sync::Arc::new(skep_agent::seller::ProgramWork::new(broken, vec![]));
    let shop = world.open(offer).await;
    let failed = shop.bought(&buyer, &buyer.hire(json!({ "a": 2 }))).await;
    assert_eq!((failed.status, failed.code()), (502, "work_failed"));
    assert!(failed.body["detail"].as_str().unwrap().contains("no luck"));
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE, "only the good one is held");
    let refunds = world.bank.with(|books| books.refunds.clone());
    assert_eq!(refunds.into_values().collect::<Vec<_>>(), [seller_wallet().address()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_escrow_of_both_sides_choice_holds_the_money_and_takes_the_delivery() {
    let world = World::new().await;
    let elsewhere = crate::bank::Bank::open().await;
    let custom = PaymentMode::CustomEscrow(elsewhere.url.clone());
    let mut dearer = world.offer();
    (dearer.modes, dearer.price) = (vec![escrow(), custom.clone()], "0.03".parse().unwrap());
    let shop = world.open_with(vec![world.offer(), dearer], |_| {}).await;
    assert_eq!(shop.handle.listings().len(), 3);
    let buyer = world.buyer(10);
    elsewhere.fund(buyer.id(), 1_000_000);
    let asked = shop.hire(&buyer.hire(json!({}))).await.required();
    assert_eq!(asked.accepts.len(), 3, "every mode is offered");
    let cheap = buyer.hire_with(json!({}), |hire| hire.max_price_usdc = "0.02".parse().ok());
    assert_eq!(shop.hire(&cheap).await.required().accepts.len(), 1);
    let hire = buyer.hire_with(json!({}), |hire| hire.preferred_payment_mode = Some(custom));
    let done = shop.bought(&buyer, &hire).await;
    assert_eq!(done.status, 200, "{done:?}");
    // Both ledgers of this test have the same asset: the first way that fits is taken.
    let held = elsewhere.balance(buyer.id()) + world.bank.balance(buyer.id());
    assert_eq!(held, 2_000_000 - 30_000);
    assert_eq!(elsewhere.with(|books| (books.receipts.len(), books.payloads.len())), (1, 1));
    assert_eq!(elsewhere.balance(buyer.id()), 1_000_000 - 30_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_call_is_once_for_each_buyer_and_outlives_a_restart() {
    let world = World::new().await;
    let mut offer = world.offer();
    (offer.first_call_free, offer.free_per_day) = (true, 2);
    let shop = world.open(offer.clone()).await;
    let (ann, ben, eve) = (world.buyer(4), world.buyer(5), world.buyer(6));
    let hire = ann.hire_with(json!({}), |hire| hire.max_price_usdc = "0".parse().ok());
    let free = shop.hire(&hire).await;
    assert_eq!((free.status, &free.body["receipt"]["price_paid_usdc"]), (200, &json!("0.000000")));
    let unsigned = shop.post("/hire", &json!({ "params": {} }), None).await;
    assert_eq!(unsigned.status, 402, "who does not sign has no free call");
    // Many at once: one of them is free.
    let hires: Vec<_> = (0..8).map(|n| ben.hire(json!({ "n": n }))).collect();
    let answers = futures(hires.iter().map(|hire| shop.hire(hire))).await;
    let free = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(free, 1, "{answers:?}");
    shop.crash().await;

    let shop = world.open(offer).await;
    assert_eq!(shop.hire(&ann.hire(json!({ "again": 1 }))).await.status, 402);
    assert_eq!(shop.hire(&eve.hire(json!({}))).await.status, 402, "the day's free calls are used");
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(shop.hire(&eve.hire(json!({}))).await.status, 200);
    assert_eq!(shop.hire(&ann.hire(json!({ "later": 1 }))).await.status, 402);
    assert_eq!(world.runs(), 3);
    let zero = world.bank.with(|books| books.receipts.values().all(|r| r.tx_hash.ends_with("000")));
    assert!(zero && world.bank.balance(seller_wallet().address()) == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_and_absences_are_asked_after_and_nothing_is_paid_twice() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(7);
    world.bank.with(|books| {
        books.settle_faults.extend([Fault::Away, Fault::Pending, Fault::LostAnswer, Fault::Away]);
        books.receipt_faults.extend([Fault::Away, Fault::Away]);
    });
    let done = shop.bought(&buyer, &buyer.hire(json!({}))).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(world.bank.with(|books| books.settles), 5);
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - PRICE);
    // The answer did not wait for the receipt, which comes nevertheless.
    until("the receipt", async || world.bank.with(|books| books.receipts.pop_first())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_cannot_be_paid_is_withheld_until_it_is() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(8);
    world.bank.with(|books| books.settle_faults.push_back(Fault::Refused));
    let hire = buyer.hire(json!({ "secret": 1 }));
    let asked = shop.hire(&hire).await;
    let payment = buyer.payment(&hire, &asked);
    let withheld = shop.pay(&hire, &payment).await;
    assert_eq!((withheld.status, withheld.code()), (402, "insufficient_funds"));
    assert!(!withheld.body.to_string().contains("secret"));
    let without = shop.hire(&hire).await;
    assert_eq!(without.status, 402, "asking alone gives nothing");
    // A node that never knows why is not asked for ever.
    world.bank.with(|books| books.settle_faults.extend([Fault::Unexpected; 5]));
    let unclear = shop.pay(&hire, &payment).await;
    assert_eq!((unclear.status, unclear.code()), (402, "unexpected_settle_error"));
    let paid = shop.pay(&hire, &payment).await;
    assert_eq!((paid.status, world.runs()), (200, 1), "it is paid for and not done again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_withheld_is_tried_again_with_its_own_payment_while_that_is_good() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(14);
    let settles = || world.bank.with(|books| books.settles);
    // A signed hire, and one that is known by its payment.
    world.bank.with(|books| books.settle_faults.extend([Fault::Refused; 2]));
    let hire = buyer.hire(json!({ "a": 1 }));
    let asked = shop.hire(&hire).await;
    let (payment, required) = (buyer.payment(&hire, &asked), asked.required());
    assert_eq!(shop.pay(&hire, &payment).await.code(), "insufficient_funds");
    let plain = json!({ "params": { "a": 2 } });
    let nonce = skep_base::hash::keccak256(b"plain");
    let of_plain = buyer.payment_with(&required.accepts[0], &required, &nonce, |_| {});
    let header = || Some((PAYMENT_SIGNATURE, to_header(&of_plain.raw)));
    assert_eq!(shop.post("/hire", &plain, header()).await.code(), "insufficient_funds");
    assert_eq!(settles(), 2);
    // Another hire's payment, and another wallet's for this one.
    let others = world.buyer(15).payment(&hire, &asked);
    for foreign in [&of_plain, &others] {
        let refused = shop.pay(&hire, foreign).await;
        assert_eq!((refused.status, refused.code()), (402, "insufficient_funds"));
    }
    assert_eq!(settles(), 2, "nobody asks the node for it");
    assert_eq!(shop.post("/hire", &plain, header()).await.status, 200);
    assert_eq!((settles(), world.runs()), (3, 2));
    // The payment has ended: its hire is over.
    world.clock.advance(Duration::from_secs(3600));
    let over = shop.pay(&hire, &payment).await;
    assert_eq!((over.status, over.code()), (402, "insufficient_funds"));
    assert_eq!((settles(), world.runs()), (3, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_run_than_there_are_seats_and_all_are_served_in_the_end() {
    let world = World::new().await;
    let now = std::sync::Arc::new(std::sync::Mutex::new((0_usize, 0_usize)));
    let counted = now.clone();
    let work = skep_agent::seller::work_fn(move |params, _| {
        let counted = counted.clone();
        async move {
            {
                let mut now = counted.lock().unwrap();
                now.0 += 1;
                now.1 = now.1.max(now.0);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
            counted.lock().unwrap().0 -= 1;
            Ok(params)
        }
    });
    let mut offer = world.offer();
    offer.work = std::sync::Arc::new(work);
    let shop = world.open(offer).await;
    let buyer = world.buyer(9);
    world.bank.fund(buyer.id(), 64 * PRICE);
    let before = world.bank.balance(buyer.id());
    let hires: Vec<_> = (0..64).map(|n| buyer.hire(json!({ "n": n }))).collect();
    let (shop, buyer, world) = (&shop, &buyer, &world);
    let busy = futures(hires.iter().map(|hire| async move {
        let asked = shop.hire(hire).await;
        let payment = buyer.payment(hire, &asked);
        let mut busy = 0;
        loop {
            let answer = shop.pay(hire, &payment).await;
            match (answer.status, answer.code()) {
                (200, _) => return busy,
                (503, "busy") => {
                    assert!(answer.headers.contains_key("retry-after"));
                    busy += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                _ => panic!("{answer:?}"),
            }
        }
    }))
    .await;
    assert!(busy.iter().sum::<usize>() > 0, "somebody had to wait");
    assert!(now.lock().unwrap().1 <= 8, "{now:?}");
    assert_eq!(world.bank.balance(buyer.id()), before - 64 * PRICE);
    assert_eq!(world.bank.with(|books| books.receipts.len()), 64);
}

/// All at the same time.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(move |cx| {
        for (future, done) in open.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(cx) {
                *done = Some(output);
            }
        }
        match open.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(open.iter_mut().filter_map(|o| o.1.take()).collect()),
            false => std::task::Poll::Pending,
        }
    })
    .await
}
