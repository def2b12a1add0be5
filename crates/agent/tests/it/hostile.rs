//! Sellers that cheat, fail and vanish: each is refused by its name, and nobody is paid twice.

use std::{pin::Pin, sync::atomic::Ordering::SeqCst, time::Duration};

use serde_json::{Value, json};
use skep_agent::{
    HireError, HireOrder,
    buyer::{Checker, ClarifyOrder, PaymentChoice},
};
use skep_base::{Amount, Hash32, Timestamp};
use skep_probe::NotLooked;
use skep_wire::{
    hire::{Clarified, Counter, Listing, PaymentMode, Quote, Verification, WalletSigned},
    x402::PaymentRequired,
};

use crate::{
    node::Node,
    stall::{Manners, Thief, key},
    world::{Doubles, World, double},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_honest_seller_is_paid_once_and_counter_signed() {
    let world = World::open().await;
    let stall = world.direct(1, Manners::default()).await;
    let buyer = world.buyer().await;
    let hired = buyer.hire(double(21)).await.unwrap();
    assert_eq!(hired.result, json!({ "double": 42 }));
    assert!(hired.verification.all_passed && !hired.dispute && hired.unfinished.is_none());
    assert_eq!(hired.rating_token, Some(format!("rtt-buyer-{}", hired.hire_id)));
    assert_eq!(hired.paid.minor(), stall.price());
    assert_eq!(world.node.balance(stall.key.address()), stall.price());
    let stored = world.node.ledger().receipts[&hired.hire_id].clone();
    assert!(stored.findings.buyer.unwrap().verification.all_passed);
    assert_eq!(stored.receipt, hired.receipt);
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sellers_of_version_one_and_free_calls_and_jobs_are_understood() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let old = world.direct(1, Manners { v1_only: true, ..Manners::default() }).await;
    let hired = buyer.hire(double(1)).await.unwrap();
    assert_eq!((hired.seller, hired.paid.minor()), (old.key.address(), old.price()));
    world.node.ledger().listings.clear();
    let free = world.direct(2, Manners { free: true, ..Manners::default() }).await;
    let hired = buyer.hire(HireOrder { max_price: Amount::ZERO, ..double(2) }).await.unwrap();
    assert_eq!((hired.seller, hired.paid), (free.key.address(), Amount::ZERO));
    assert!(hired.rating_token.is_some());
    world.node.ledger().listings.clear();
    let job = world.direct(3, Manners { job: true, ..Manners::default() }).await;
    let callback_url = Some("https://callback.invalid/".to_owned());
    // Another question than the first: that one's answer is remembered for a moment.
    let agent = Some(job.key.address());
    let hired = buyer.hire(HireOrder { callback_url, agent, ..double(3) }).await.unwrap();
    assert_eq!(hired.result, json!({ "double": 6 }));
    assert!(job.asked.load(SeqCst) >= 1);
    assert_eq!(world.lost(), old.price() + job.price());
    world.agree(&buyer);
}

/// A 402 that is not what the listing says, and what it is called.
type Tampered = (&'static str, fn(&mut PaymentRequired));

const DEMANDS: &[Tampered] = &[
    ("wrong_payee", |asked| asked.accepts[0].pay_to = key(99).address()),
    ("wrong_amount", |asked| asked.accepts[0].amount = Amount::new(20_001).unwrap()),
    ("wrong_amount", |asked| asked.accepts[0].amount = Amount::new(1).unwrap()),
    ("wrong_network", |asked| asked.accepts[0].network = "eip155:8453".to_owned()),
    ("wrong_asset", |asked| {
        // The real USDC on Base.
        asked.accepts[0].asset = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913".parse().unwrap();
    }),
    ("wrong_asset", |asked| {
        asked.accepts[0].extra.insert("name".to_owned(), json!("USD Coin"));
    }),
    ("wrong_scheme", |asked| asked.accepts[0].scheme = "upto".to_owned()),
    ("wrong_timeout", |asked| asked.accepts[0].max_timeout_seconds = 1_000_000),
    ("wrong_timeout", |asked| asked.accepts[0].max_timeout_seconds = 0),
    ("no_terms", |asked| asked.accepts.clear()),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_signed_for_a_demand_that_is_not_the_listing() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    for (code, ask) in DEMANDS {
        world.node.ledger().listings.clear();
        let bad = world.direct(1, Manners { ask: Some(*ask), ..Manners::default() }).await;
        let error = buyer.hire(double(1)).await.unwrap_err();
        let HireError::AllRefused { tried } = error else { panic!("{code}: {error}") };
        assert_eq!((tried.len(), tried[0].code.as_str()), (1, *code), "{}", tried[0].detail);
        assert_eq!(bad.paid.load(SeqCst), 0, "{code}");
    }
    assert_eq!(world.node.ledger().verified, 0, "a payment was signed");
    // The next seller is hired, and what was tried before is told.
    let good = world.direct(2, Manners::default()).await;
    let hired = buyer.hire(double(1)).await.unwrap();
    assert_eq!((hired.seller, hired.tried.len()), (good.key.address(), 1));
    world.agree(&buyer);
}

fn terms(asked: &mut PaymentRequired, field: &str, value: Value) {
    asked.accepts[0].extra["escrow"][field] = value;
}

const ESCROW_DEMANDS: &[Tampered] = &[
    ("wrong_payee", |asked| asked.accepts[0].pay_to = key(1).address()),
    ("wrong_escrow_terms", |asked| drop(asked.accepts[0].extra.remove("escrow"))),
    ("wrong_escrow_terms", |asked| terms(asked, "payee", json!(key(99).address()))),
    ("wrong_escrow_terms", |asked| terms(asked, "seller", json!(key(99).address()))),
    ("wrong_escrow_terms", |asked| terms(asked, "buyer", json!(key(99).address()))),
    ("wrong_escrow_terms", |asked| terms(asked, "amount", json!("1"))),
    ("wrong_escrow_terms", |asked| terms(asked, "capability", json!("custom.a.b"))),
    ("wrong_escrow_terms", |asked| terms(asked, "verification_version", json!("v1"))),
    ("wrong_escrow_terms", |asked| terms(asked, "hire_hash", json!(Hash32::from([7; 32])))),
    ("wrong_escrow_terms", |asked| terms(asked, "verification_window_ms", json!(10))),
    ("wrong_escrow_terms", |asked| terms(asked, "deliver_within_ms", json!(86_400_000))),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_signed_for_an_escrow_on_other_terms() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    for (code, ask) in ESCROW_DEMANDS {
        world.node.ledger().listings.clear();
        let bad = world.escrow(1, Manners { ask: Some(*ask), ..Manners::default() }).await;
        let error = buyer.hire(double(1)).await.unwrap_err();
        let HireError::AllRefused { tried } = error else { panic!("{code}: {error}") };
        assert_eq!(tried[0].code, *code, "{}", tried[0].detail);
        assert_eq!(bad.paid.load(SeqCst), 0);
    }
    // Who promised the stricter check is not judged by the first one.
    world.node.ledger().listings.clear();
    let strict = world.escrow(1, Manners::default()).await;
    let mut listing = strict.listing.clone();
    listing.verification_version = Some("v1".to_owned());
    listing.sign(&key(1)).unwrap();
    world.node.ledger().listings = vec![listing];
    let error = buyer.hire(double(1)).await.unwrap_err();
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    assert_eq!(tried[0].code, "wrong_escrow_terms", "{}", tried[0].detail);
    assert_eq!(world.node.ledger().verified, 0, "a payment was signed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_that_are_forged_or_not_asked_for_are_left_alone() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let stall = world.direct(1, Manners::default()).await;
    type Forged = (&'static str, fn(&mut Listing));
    let forgeries: [Forged; 6] = [
        ("forged_listing", |listing| listing.price_usdc = "0.01".parse().unwrap()),
        ("forged_listing", |listing| listing.payee = Some(key(9).address())),
        ("forged_listing", |listing| listing.endpoint = "http://127.0.0.1:1".to_owned()),
        ("forged_listing", |listing| listing.signature = None),
        ("over_price", |listing| {
            listing.price_usdc = "0.06".parse().unwrap();
            listing.sign(&key(1)).unwrap();
        }),
        ("unknown_escrow", |listing| {
            listing.payment_mode = Some(PaymentMode::PlatformEscrow("elsewhere".to_owned()));
            listing.sign(&key(1)).unwrap();
        }),
    ];
    for (code, forge) in forgeries {
        let mut listing = stall.listing.clone();
        forge(&mut listing);
        world.node.ledger().listings = vec![listing];
        let error = buyer.hire(double(1)).await.unwrap_err();
        let HireError::AllRefused { tried } = error else { panic!("{code}: {error}") };
        assert_eq!(tried[0].code, code);
    }
    assert_eq!(stall.unpaid.load(SeqCst), 0);
    let error = buyer.hire(HireOrder { params: json!({}), ..double(1) }).await.unwrap_err();
    assert_eq!(error.code(), "bad_params");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_road_leads_inwards() {
    let world = World::open().await;
    let redirect = Some("http://169.254.169.254/latest/meta-data");
    world.direct(1, Manners { redirect, ..Manners::default() }).await;
    let metadata = |listing: &mut Listing| listing.endpoint = "http://169.254.169.254".to_owned();
    world.listed(2, Manners::default(), metadata).await;
    let buyer = world.buyer().await;
    let error = buyer.hire(double(1)).await.unwrap_err();
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    let codes: Vec<&str> = tried.iter().map(|attempt| attempt.code.as_str()).collect();
    assert_eq!(codes, ["redirected", "refused_address"]);
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_disputed_in_direct_mode_and_refunded_in_escrow() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let garbage = Manners { result: Some(|| json!({ "double": 0 })), ..Manners::default() };
    let direct = world.direct(1, garbage).await;
    let hired = buyer.hire(double(5)).await.unwrap();
    assert!(hired.dispute && hired.verification.failed());
    assert_eq!(hired.paid.minor(), direct.price());
    assert!(world.node.ledger().receipts[&hired.hire_id].dispute);
    world.escrow(2, garbage).await;
    let hired =
        buyer.hire(HireOrder { payment: PaymentChoice::Escrow, ..double(5) }).await.unwrap();
    assert!(hired.dispute);
    assert_eq!((hired.paid, hired.escrow.unwrap().status.as_str()), (Amount::ZERO, "REFUNDED"));
    assert_eq!(world.lost(), direct.price());
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_work_is_released_and_what_nobody_can_check_only_by_choice() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let good = world.escrow(1, Manners::default()).await;
    let hired = buyer.hire(double(4)).await.unwrap();
    assert_eq!(hired.escrow.unwrap().status, "RELEASED");
    assert_eq!(world.node.balance(good.key.address()), good.price());
    let mode = good.listing.mode();
    let custom = |listing: &mut Listing| {
        listing.capability = "custom.a.b".to_owned();
        listing.payment_mode = Some(mode.clone());
    };
    let unchecked = world.listed(2, Manners::default(), custom).await;
    let order = HireOrder { capability: "custom.a.b".to_owned(), ..double(4) };
    let error = buyer.hire(order.clone()).await.unwrap_err();
    assert!(error.advice().contains("--accept-unverifiable"), "{}", error.advice());
    assert!(error.advice().contains("--payment-mode direct"), "{}", error.advice());
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    assert_eq!((tried[0].code.as_str(), tried[0].authorized), ("unverifiable", false));
    assert_eq!((unchecked.unpaid.load(SeqCst), unchecked.runs.load(SeqCst)), (0, 0));
    let accepted = HireOrder { accept_unverifiable: true, ..order.clone() };
    let hired = buyer.hire(accepted).await.unwrap();
    assert!(!hired.verification.verifiable && !hired.dispute);
    assert_eq!(hired.escrow.unwrap().status, "RELEASED");
    // Whoever is paid directly is hired all the same.
    let direct = |listing: &mut Listing| listing.capability = "custom.a.b".to_owned();
    let direct = world.listed(3, Manners::default(), direct).await;
    let hired = buyer.hire(order).await.unwrap();
    assert_eq!((hired.seller, hired.paid.minor()), (direct.key.address(), direct.price()));
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_late_and_torn_answers_are_fetched_again_with_the_same_payment() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let slow = Some(Duration::from_secs(8));
    for (number, manners) in [
        (1, Manners { lost: 2, ..Manners::default() }),
        (2, Manners { torn: true, ..Manners::default() }),
        // Later than the seller's time and the payment's: it is asked once more all the same.
        (3, Manners { slow, ..Manners::default() }),
    ] {
        world.node.ledger().listings.clear();
        let before = world.lost();
        let stall = world.direct(number, manners).await;
        let agent = Some(stall.key.address());
        let hired = buyer.hire(HireOrder { agent, ..double(8) }).await.unwrap();
        assert_eq!(hired.result, json!({ "double": 16 }));
        assert!(stall.paid.load(SeqCst) > 1);
        assert_eq!((stall.runs.load(SeqCst), world.lost() - before), (1, stall.price()));
    }
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thief_is_disputed_and_nobody_else_is_paid_for_it() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    for (thief, disputed) in [(Thief::WithReceipt, true), (Thief::Silent, false)] {
        world.node.ledger().listings.clear();
        let before = world.lost();
        let bad = world.direct(1, Manners { thief: Some(thief), ..Manners::default() }).await;
        let other = world.direct(2, Manners::default()).await;
        let error = buyer.hire(double(1)).await.unwrap_err();
        let HireError::PaidWithoutAnswer { seller, disputed: was, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((seller, was), (bad.key.address(), disputed));
        assert_eq!((world.lost() - before, other.unpaid.load(SeqCst)), (bad.price(), 0));
    }
    assert_eq!(world.node.ledger().receipts.values().filter(|r| r.dispute).count(), 1);
    // The silent one may still come round: its hire stays open, and its money counts.
    let (spent, open) = buyer.spent_since(Timestamp::EPOCH);
    assert_eq!((spent.minor(), open.minor()), (20_000, 20_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_payment_expires_before_anybody_else_is_paid() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let bad = world.direct(1, Manners { refuses: true, ..Manners::default() }).await;
    let good = world.direct(2, Manners::default()).await;
    let begun = crate::node::now();
    let hired = buyer.hire(double(1)).await.unwrap();
    assert_eq!(hired.seller, good.key.address());
    assert!(hired.tried[0].authorized && hired.tried[0].code == "declined");
    // It had a payment that was good for a second at the least; it cannot be taken now.
    assert!(hired.receipt.completed_at.since(begun) >= Duration::from_secs(1));
    assert_eq!(world.node.balance(bad.key.address()), 0);
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_in_escrow_comes_back_from_those_who_do_not_deliver() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let holds = Manners { thief: Some(Thief::Holds), ..Manners::default() };
    let bad = world.escrow(1, Manners { deliver_within_ms: Some(1000), ..holds }).await;
    // Delivered to the node, never to the buyer.
    let hides = Manners { huge: true, ..Manners::default() };
    world.escrow(2, hides).await;
    let good = world.escrow(3, Manners::default()).await;
    let hired = buyer.hire(double(1)).await.unwrap();
    assert_eq!(hired.seller, good.key.address());
    assert_eq!(hired.tried.len(), 2, "{:?}", hired.tried);
    assert_eq!(hired.tried[1].code, "too_large");
    assert_eq!(world.node.balance(bad.key.address()), 0);
    assert_eq!(world.lost(), good.price());
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_too_large_or_of_another_hire_are_not_taken() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    let cheats: [(&str, Manners); 4] = [
        ("longer than", Manners { huge: true, ..Manners::default() }),
        (
            "another result",
            Manners {
                answer: Some(|answer| answer.result = json!({ "double": 3 })),
                ..Manners::default()
            },
        ),
        (
            "another hire",
            Manners {
                receipt: Some(|receipt| receipt.hire_hash = Some(Hash32::from([1; 32]))),
                ..Manners::default()
            },
        ),
        (
            "another amount",
            Manners {
                receipt: Some(|receipt| receipt.amount_usdc_atomic = Amount::new(1).unwrap()),
                ..Manners::default()
            },
        ),
    ];
    for (word, manners) in cheats {
        world.node.ledger().listings.clear();
        world.direct(1, manners).await;
        let error = buyer.hire(double(1)).await.unwrap_err();
        let told = error.to_string();
        let HireError::PaidWithoutAnswer { disputed, .. } = error else { panic!("{told}") };
        assert!(disputed && told.contains(word), "{word}: {told}");
    }
    assert_eq!(world.node.ledger().receipts.values().filter(|r| r.dispute).count(), 4);
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_nodes_escrow_is_used_only_if_it_is_trusted() {
    let world = World::open().await;
    let other = Node::open_with(0xbb, 0xdd).await;
    other.fund(world.buyer_id, 100_000);
    let mode = PaymentMode::CustomEscrow(other.url.clone());
    let stall = crate::stall::Stall::open(1, &other, mode, Manners::default(), |_| {}).await;
    world.node.publish(stall.listing.clone());
    let buyer = world.buyer().await;
    let error = buyer.hire(double(1)).await.unwrap_err();
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    assert_eq!(tried[0].code, "unknown_escrow");
    drop(buyer);
    let mut config = world.config();
    config.custom_escrows = vec![other.url.clone()];
    let buyer = crate::world::open(config, world.journal()).await;
    let hired = buyer.hire(double(1)).await.unwrap();
    assert_eq!(hired.escrow.unwrap().status, "RELEASED");
    assert_eq!(other.balance(stall.key.address()), stall.price());
    assert_eq!(world.lost(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trusted_escrow_cannot_draw_on_the_ledger_at_home() {
    let world = World::open().await;
    // It says that the home ledger's asset is its own, and a wallet there is its escrow.
    let thief = Node::open_with(0xaa, 0x66).await;
    let mode = PaymentMode::CustomEscrow(thief.url.clone());
    let stall = crate::stall::Stall::open(1, &thief, mode, Manners::default(), |_| {}).await;
    world.node.publish(stall.listing.clone());
    // Nor is a word about money taken over an open line.
    let open_line = "http://escrow.example".to_owned();
    let mut listing = stall.listing.clone();
    listing.payment_mode = Some(PaymentMode::CustomEscrow(open_line.clone()));
    listing.sign(&stall.key).unwrap();
    world.node.publish(listing);
    let mut config = world.config();
    config.custom_escrows = vec![thief.url.clone(), open_line];
    let buyer = crate::world::open(config, world.journal()).await;
    let error = buyer.hire(double(1)).await.unwrap_err();
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    let codes: Vec<&str> = tried.iter().map(|attempt| attempt.code.as_str()).collect();
    assert_eq!(codes, ["wrong_escrow", "wrong_escrow"], "{tried:?}");
    assert_eq!((thief.ledger().verified, stall.unpaid.load(SeqCst)), (0, 0));
}

/// Has no time at first.
#[derive(Debug)]
struct Overloaded(std::sync::atomic::AtomicUsize);

impl Checker for Overloaded {
    fn check_params(&self, _: &str, _: Option<&str>, _: &Value) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn can_check(&self, capability: &str, version: Option<&str>) -> bool {
        Doubles.can_check(capability, version)
    }

    fn verify<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        Doubles.verify(capability, version, params, result)
    }

    fn look<'a>(
        &'a self,
        capability: &'a str,
        version: Option<&'a str>,
        params: &'a Value,
        result: &'a Value,
    ) -> Pin<Box<dyn Future<Output = Result<Verification, NotLooked>> + Send + 'a>> {
        Box::pin(async move {
            match self.0.fetch_add(1, SeqCst) < 3 {
                true => Err(NotLooked("no time".to_owned())),
                false => Ok(self.verify(capability, version, params, result).await),
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checker_without_time_decides_nothing() {
    let world = World::open().await;
    world.escrow(1, Manners::default()).await;
    let mut config = world.config();
    config.checker = std::sync::Arc::new(Overloaded(Default::default()));
    let buyer = crate::world::open(config, world.journal()).await;
    let hired = buyer.hire(double(4)).await.unwrap();
    assert!(hired.verification.all_passed, "{:?}", hired.verification);
    assert_eq!(hired.escrow.unwrap().status, "RELEASED");
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preferred_mode_comes_first_wherever_it_is_listed() {
    let world = World::open().await;
    let direct = world.direct(1, Manners::default()).await;
    let escrow = world.escrow(2, Manners::default()).await;
    // More pages of others than anybody reads.
    let mut listings = Vec::new();
    for n in 0..150 {
        let mut listing = direct.listing.clone();
        listing.description = Some(format!("offer {n}"));
        listing.sign(&direct.key).unwrap();
        listings.push(listing);
    }
    listings.push(escrow.listing.clone());
    world.node.ledger().listings = listings;
    let buyer = world.buyer().await;
    let prefer = |mode| HireOrder { payment: PaymentChoice::Prefer(mode), ..double(3) };
    let plan = buyer.plan(&prefer(escrow.listing.mode())).await.unwrap();
    let sellers: Vec<_> = plan.candidates.iter().map(|it| it.found.agent_id).collect();
    let (one, other) = (direct.key.address(), escrow.key.address());
    assert_eq!(sellers, [other, one, one], "the others come after it");
    let hired = buyer.hire(prefer(escrow.listing.mode())).await.unwrap();
    assert_eq!(hired.seller, other);
    // Nobody has it: then the others will do, and each of them is there once.
    world.node.ledger().listings = vec![direct.listing.clone(), escrow.listing.clone()];
    let nowhere = PaymentMode::CustomEscrow("https://escrow.example".to_owned());
    let plan = buyer.plan(&prefer(nowhere.clone())).await.unwrap();
    assert_eq!((plan.candidates.len(), plan.refused.len()), (2, 0), "{plan:?}");
    let plan = buyer.plan(&prefer(PaymentMode::Direct)).await.unwrap();
    let sellers: Vec<_> = plan.candidates.iter().map(|it| it.found.agent_id).collect();
    assert_eq!(sellers, [one, other], "each is there once");
    world.node.ledger().listings.clear();
    let error = buyer.plan(&prefer(nowhere)).await.unwrap_err();
    assert_eq!(error.code(), "nobody_found");
    world.agree(&buyer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_full_of_forgeries_hides_nobody() {
    let world = World::open().await;
    let good = world.direct(1, Manners::default()).await;
    let mut forged = good.listing.clone();
    forged.price_usdc = "0.01".parse().unwrap();
    world.node.ledger().listings = vec![forged; 45];
    world.node.publish(good.listing.clone());
    let hired = world.buyer().await.hire(double(2)).await.unwrap();
    assert_eq!((hired.seller, hired.tried.len()), (good.key.address(), 45));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_nested_too_deep_is_not_kept() {
    let world = World::open().await;
    fn tower() -> Value {
        (0..100).fold(json!(1), |inner, _| json!([inner]))
    }
    world.direct(1, Manners { result: Some(tower), ..Manners::default() }).await;
    let buyer = world.buyer().await;
    let error = buyer.hire(double(1)).await.unwrap_err();
    assert!(error.to_string().contains("nested too deep"), "{error}");
    drop(buyer);
    world.buyer().await;
}

fn quote(token: &str, price: &str) -> Quote {
    Quote {
        quote_token: token.to_owned(),
        price_usdc: price.parse().unwrap(),
        estimated_latency_ms: 100,
        expires_at: None,
        params: json!({ "n": 7 }),
        notes: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_offer_is_taken_up_or_left_alone() {
    let world = World::open().await;
    let buyer = world.buyer().await;
    fn two() -> Clarified {
        Clarified::Counter {
            protocol: "swarmwage/v0.4".to_owned(),
            counter: Counter {
                reason: "too much".to_owned(),
                options: vec![quote("qt_a", "0.02"), quote("qt_b", "0.04")],
            },
        }
    }
    fn four() -> Clarified {
        Clarified::Counter {
            protocol: "swarmwage/v0.4".to_owned(),
            counter: Counter {
                reason: "chat".to_owned(),
                options: ["a", "b", "c", "d"].map(|token| quote(token, "0.02")).to_vec(),
            },
        }
    }
    let stall = world.direct(1, Manners { clarify: Some(four), ..Manners::default() }).await;
    let ask = ClarifyOrder {
        capability: "test.double".to_owned(),
        brief: "double something".to_owned(),
        params: json!({}),
        max_price: None,
        max_latency_ms: None,
        agent: None,
        listing: None,
    };
    let error = buyer.clarify(ask.clone()).await.unwrap_err();
    assert!(error.to_string().contains("more than 3"), "{error}");
    stall.behave(Manners { clarify: Some(two), ..Manners::default() });
    let said = buyer.clarify(ask.clone()).await.unwrap();
    assert_eq!(said.clarified, two());
    assert_eq!(buyer.clarify(ask.clone()).await.unwrap_err().code(), "asked_too_soon");
    drop(buyer);
    // A restart does not make it forget.
    let buyer = world.buyer().await;
    assert_eq!(buyer.clarify(ask).await.unwrap_err().code(), "asked_too_soon");
    assert_eq!(stall.asked.load(SeqCst), 2);
    let order = |token: &str| HireOrder { quote_token: Some(token.to_owned()), ..double(0) };
    // The quoted parameters, not those of the order.
    let hired = buyer.hire(order("qt_a")).await.unwrap();
    assert_eq!(hired.result, json!({ "double": 14 }));
    let error = buyer.hire(order("qt_b")).await.unwrap_err();
    let HireError::AllRefused { tried } = error else { panic!("{error}") };
    assert_eq!(tried[0].code, "wrong_amount");
    assert_eq!(buyer.hire(order("qt_x")).await.unwrap_err().code(), "bad_quote");
    world.agree(&buyer);
}
