//! Hires that a wallet pays for which is not the buyer's: at a seller's door, and by a buyer.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::json;
use skep_agent::{HireError, HireOrder, buyer::PaymentChoice};
use skep_base::Amount;
use skep_wire::{
    hire::{HireRequest, HireResponse, WalletBinding, WalletSigned},
    x402::{PAYMENT_IDENTIFIER, PAYMENT_RESPONSE, Payment, SettleResponse, from_header, reason},
};

use crate::{
    bank::Fault,
    stage::{self, Buyer, PRICE, escrow, seller_wallet},
    stall::{Manners, key},
    world::{self, double, open},
};

/// The wallet's word that it pays for the buyer, from now on for so many seconds.
fn bound(wallet: &Buyer, buyer: &Buyer, seconds: i64) -> WalletBinding {
    let now = buyer.now_s();
    WalletBinding::signed_by(&wallet.wallet, buyer.id(), (now, now + seconds)).unwrap()
}

fn hire(buyer: &Buyer, binding: WalletBinding) -> HireRequest {
    buyer.hire_with(json!({ "a": 1 }), |hire| hire.payer = Some(binding))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_is_paid_by_the_wallet_that_the_buyer_names() {
    let world = stage::World::new().await;
    let (buyer, purse) = (world.buyer(1), world.buyer(2));
    for (n, mode) in [None, Some(escrow())].into_iter().enumerate() {
        let mut offer = world.offer();
        if let Some(mode) = mode {
            offer.modes = vec![mode];
        }
        let shop = world.open(offer).await;
        let hire = hire(&buyer, bound(&purse, &buyer, 3600));
        let answer = shop.pay(&hire, &purse.payment(&hire, &shop.hire(&hire).await)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let told: SettleResponse =
            from_header(answer.headers[PAYMENT_RESPONSE].to_str().unwrap()).unwrap();
        let response: HireResponse = serde_json::from_value(answer.body).unwrap();
        let receipt = response.signed_receipt.unwrap();
        assert_eq!((receipt.buyer, &receipt.tx_hash), (buyer.id(), &told.transaction));
        let spent = 1_000_000 - world.bank.balance(purse.id());
        assert_eq!(spent, PRICE * (n as i64 + 1));
        assert_eq!(world.bank.balance(buyer.id()), 1_000_000);
        shop.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receipt_goes_along_with_a_wallets_payment() {
    let world = stage::World::new().await;
    world.bank.with(|books| books.enters_receipts = true);
    let shop = world.open(world.offer()).await;
    let (buyer, purse) = (world.buyer(1), world.buyer(2));
    let hire = hire(&buyer, bound(&purse, &buyer, 3600));
    let answer = shop.pay(&hire, &purse.payment(&hire, &shop.hire(&hire).await)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let told: SettleResponse =
        from_header(answer.headers[PAYMENT_RESPONSE].to_str().unwrap()).unwrap();
    assert!(told.receipt_entered, "{told:?}");
    assert_eq!(world.bank.with(|books| books.receipts.len()), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_takes_no_other_wallets_money_for_a_signed_hire() {
    let world = stage::World::new().await;
    let shop = world.open(world.offer()).await;
    let (buyer, purse, eve) = (world.buyer(1), world.buyer(2), world.buyer(3));
    let good = hire(&buyer, bound(&purse, &buyer, 3600));
    let asked = shop.hire(&good).await;
    let mut forged = bound(&purse, &buyer, 3600);
    forged.sign(&buyer.wallet).unwrap();
    let now = buyer.now_s();
    let early = (now + 60, now + 3600);
    let early = WalletBinding::signed_by(&purse.wallet, buyer.id(), early).unwrap();
    let eves = hire(&eve, bound(&purse, &buyer, 3600));
    let plain = buyer.hire(json!({ "a": 1 }));
    let bad = |binding: WalletBinding| (reason::WALLET_BINDING, hire(&buyer, binding), &purse);
    let attempts: Vec<(&str, HireRequest, &Buyer)> = vec![
        (reason::NOT_THE_BUYER, plain, &purse),
        (reason::NOT_THE_BUYER, good.clone(), &buyer),
        (reason::NOT_THE_BUYER, good.clone(), &eve),
        (reason::WALLET_BINDING, eves, &purse),
        bad(forged),
        bad(early),
        // It ends before the work would be done.
        bad(bound(&purse, &buyer, 0)),
        bad(bound(&purse, &buyer, 1)),
        bad(bound(&purse, &buyer, 32 * 24 * 3600)),
    ];
    for (at, (code, hire, payer)) in attempts.into_iter().enumerate() {
        let answer = shop.pay(&hire, &payer.payment(&hire, &shop.hire(&hire).await)).await;
        assert_eq!((answer.status, answer.code()), (402, code), "case {at}");
    }
    // Somebody who saw the payment cannot have a hire of its own for it, nor may the seller pay.
    let payment = purse.payment(&good, &asked);
    for (code, stolen) in [
        (reason::NOT_THE_BUYER, eve.hire(json!({ "mine": 1 }))),
        (reason::NOT_FOR_THIS_HIRE, hire(&eve, bound(&purse, &eve, 3600))),
    ] {
        let answer = shop.pay(&stolen, &payment).await;
        assert_eq!((answer.status, answer.code()), (402, code));
    }
    let seller = Buyer { wallet: seller_wallet(), clock: buyer.clock.clone() };
    let own = hire(&buyer, bound(&seller, &buyer, 3600));
    let answer = shop.pay(&own, &seller.payment(&own, &shop.hire(&own).await)).await;
    assert_eq!((answer.status, answer.code()), (403, "self_hire"));
    assert_eq!(world.runs(), 0);
    for who in [&buyer, &purse, &eve] {
        assert_eq!(world.bank.balance(who.id()), 1_000_000);
    }
    assert_eq!(shop.pay(&good, &payment).await.status, 200, "the good one still counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_fails_names_the_wallet_and_its_name_is_the_wallets() {
    let world = stage::World::new().await;
    let shop = world.open(world.offer()).await;
    let (ann, ben, purse) = (world.buyer(1), world.buyer(2), world.buyer(3));
    world.bank.with(|books| books.settle_faults.push_back(Fault::Refused));
    let first = hire(&ann, bound(&purse, &ann, 3600));
    let asked = shop.hire(&first).await;
    let answer = shop.pay(&first, &purse.payment(&first, &asked)).await;
    let told: SettleResponse =
        from_header(answer.headers[PAYMENT_RESPONSE].to_str().unwrap()).unwrap();
    assert_eq!((answer.status, told.payer), (402, Some(purse.id())));
    // One wallet pays for two buyers and gives both payments the same name: the second is no
    // repetition of the first, and gets nothing of it.
    let named = |buyer: &Buyer| {
        let hire = hire(buyer, bound(&purse, buyer, 3600));
        let mut raw = purse.payment(&hire, &asked).raw;
        raw["extensions"][PAYMENT_IDENTIFIER]["info"]["id"] = json!("pay_7d5d747be160e280504c");
        (hire, Payment::read(raw).unwrap())
    };
    let (anns, payment) = named(&ann);
    assert_eq!(shop.pay(&anns, &payment).await.status, 200);
    let (bens, payment) = named(&ben);
    let answer = shop.pay(&bens, &payment).await;
    assert_eq!((answer.status, answer.code()), (409, "payment_identifier_reused"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_pays_from_another_wallet() {
    for payment in [PaymentChoice::Any, PaymentChoice::Escrow] {
        let world = world::World::with_purse().await;
        let stall = match payment {
            PaymentChoice::Escrow => world.escrow(1, Manners::default()).await,
            _ => world.direct(1, Manners::default()).await,
        };
        let buyer = world.buyer().await;
        assert_eq!((buyer.agent_id(), buyer.payer()), (world.buyer_id, world.payer_id));
        let hired = buyer.hire(HireOrder { payment, ..double(3) }).await.unwrap();
        assert_eq!(hired.payer, Some(world.payer_id));
        assert_eq!((hired.receipt.buyer, hired.paid.minor()), (world.buyer_id, stall.price()));
        assert_eq!((world.lost(), world.node.balance(world.buyer_id)), (stall.price(), 0));
        world.agree(&buyer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_is_the_wallets() {
    let world = world::World::with_purse().await;
    let bad = Manners { result: Some(|| json!({ "double": 7 })), ..Manners::default() };
    world.escrow(1, bad).await;
    let buyer = world.buyer().await;
    let order = HireOrder { payment: PaymentChoice::Escrow, ..double(3) };
    let hired = buyer.hire(order).await.unwrap();
    assert!(hired.verification.failed());
    assert_eq!((hired.paid, world.lost()), (Amount::ZERO, 0));
    assert_eq!(world.node.balance(world.buyer_id), 0);
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_buyers_own_wallet_takes_no_binding_and_the_sellers_is_not_taken() {
    let world = world::World::open().await;
    let stall = world.direct(1, Manners::default()).await;
    let mut config = world.config();
    config.pay_with = Some(config.wallet.clone());
    let buyer = open(config.clone(), world.journal()).await;
    let hired = buyer.hire(double(3)).await.unwrap();
    assert_eq!((hired.payer, world.lost()), (None, stall.price()));
    drop(buyer);
    config.pay_with = Some(key(1));
    let buyer = open(config, world.journal()).await;
    let error = buyer.hire(double(4)).await.unwrap_err();
    let HireError::AllRefused { tried } = &error else { panic!("{error}") };
    assert_eq!(tried[0].code, "wrong_listing");
    assert_eq!(stall.runs.load(SeqCst), 1);
}
