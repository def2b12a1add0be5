//! Whoever cheats at a hire is refused by name, is not paid twice and gets nothing for nothing: a
//! real node, real sellers and, where it need not be one who cheats, a real buyer.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use skep_agent::{
    Buyer, BuyerConfig, HireOrder,
    buyer::{Checker, PaymentChoice, Taxonomy},
    seller::{Offer, Seller, SellerConfig, work_fn},
};
use skep_base::{Amount, Clock, Hash32, hash::keccak256};
use skep_probe::{Egress, Policy};
use skep_store::SystemClock;
use skep_wire::{
    hire::{
        BudgetIssuer, BudgetToken, Check, HireRequest, Judgement, PROTOCOL_CLARIFY, PaymentMode,
        Verification, WalletSigned,
    },
    settle::EscrowStatus,
    x402::{Authorization, Payment, reason},
};
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    hire_stage::{Agent, CAPABILITY, FUNDED_MINOR, PRICE, Sale, Shop, Town, mean, numbers, price},
    stage::until,
};

/// The order of secp256k1, from which a second signature follows from every first one.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41,
];
/// Hires at the same time under one budget.
const PARALLEL: usize = 50;
/// What the budget of them pays for.
const PAID_FOR: usize = 10;
/// How long beyond the work a payment is good, where a test waits for its end.
const GRACE: Duration = Duration::from_secs(1);
/// Longer than a buyer may take to check a result, in seconds.
const WINDOW_S: u64 = 31;

/// The other form of a signature that says the same.
fn malleate(payment: &Payment) -> Payment {
    let text = payment.payload.signature.strip_prefix("0x").unwrap();
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..65).map(byte).collect();
    let mut borrow = 0;
    for at in (0..32).rev() {
        let difference = i16::from(ORDER[at]) - i16::from(bytes[32 + at]) - borrow;
        borrow = i16::from(difference < 0);
        bytes[32 + at] = difference.rem_euclid(256) as u8;
    }
    bytes[64] = 55 - bytes[64];
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut raw = payment.raw.clone();
    raw["payload"]["signature"] = json!(format!("0x{hex}"));
    Payment::read(raw).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_in_order_is_refused_by_name_and_costs_nothing() {
    let town = Town::open();
    let (ann, eve) = (town.buyer(1).await, town.buyer(2).await);
    let (ben, cyd) = (town.agent(3).await, town.agent(4).await);
    let direct = Sale { modes: &["direct"], ..Sale::default() };
    let (shop, other) = (town.sell(&ben, &direct), town.sell(&cyd, &direct));
    let rail = ann.client.x402_rail().await.unwrap();
    let hire = ann.sign_hire(&shop, |_| {});
    let asked = ann.ask(&shop, &hire).await;
    assert_eq!((asked.status, asked.code()), (402, "payment_required"), "{asked:?}");
    let required = asked.required();
    let good = ann.payment(&rail, &hire, &required);
    let pay = |change: &dyn Fn(&mut Authorization)| {
        ann.payment_with(&rail, &hire, &required, |paid| change(paid))
    };
    let now_s = SystemClock.now().as_ms() / 1000;
    let at = |s: i64| (now_s + s).to_string();
    let mut elsewhere = good.raw.clone();
    elsewhere["resource"]["url"] = json!(format!("{}/hire", other.url()));
    for (code, payment) in [
        (reason::RESOURCE, Payment::read(elsewhere).unwrap()),
        (reason::VALUE, pay(&|paid| paid.value = (PRICE - 1).to_string())),
        (reason::VALUE, pay(&|paid| paid.value = (PRICE + 1).to_string())),
        (reason::RECIPIENT, pay(&|paid| paid.to = ann.id())),
        (reason::VALID_BEFORE, pay(&|paid| paid.valid_before = at(-1))),
        (reason::VALID_AFTER, pay(&|paid| paid.valid_after = at(30))),
        (reason::SIGNATURE, malleate(&good)),
        (reason::NOT_THE_BUYER, eve.payment(&rail, &hire, &required)),
        (reason::NOT_FOR_THIS_HIRE, pay(&|paid| paid.nonce = keccak256(b"x").to_prefixed())),
    ] {
        let answer = ann.pay(&shop, &hire, &payment).await;
        assert_eq!((answer.status, answer.code()), (402, code), "{answer:?}");
    }
    let forged = ann.sign_hire(&shop, |hire| {
        hire.protocol = PROTOCOL_CLARIFY.to_owned();
        hire.quote_token = Some("qt_0123456789abcdef".to_owned());
    });
    let mut changed = hire.clone();
    changed.params = json!({"data": [5, 7]});
    let mut posing = hire.clone();
    posing.buyer_id = eve.id();
    for (status, code, hire) in [
        (409, "quote_unknown", &forged),
        (401, "bad_hire_signature", &changed),
        (401, "bad_hire_signature", &posing),
    ] {
        let answer = eve.pay(&shop, hire, &good).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{answer:?}");
    }
    let answer = eve.pay(&other, &hire, &good).await;
    assert_eq!((answer.status, answer.code()), (403, "not_this_seller"), "{answer:?}");
    assert_eq!((shop.runs(), other.runs(), ann.free().await), (0, 0, FUNDED_MINOR));

    replays(&ann, &eve, &shop, (&hire, &good)).await;
    assert_eq!((ben.free().await, cyd.free().await), (PRICE, 0));
    assert_eq!((ann.free().await, eve.free().await), (FUNDED_MINOR - PRICE, FUNDED_MINOR));
    town.audit(2 * FUNDED_MINOR);
}

/// A hire and a payment that are in order, and what else can be had for them: nothing.
async fn replays(ann: &Agent, eve: &Agent, shop: &Shop, (hire, good): (&HireRequest, &Payment)) {
    let first = ann.pay(shop, hire, good).await;
    assert_eq!((first.status, &first.body["result"]), (200, &mean()), "{first:?}");
    // The same again gets the same, whoever sends it.
    for agent in [ann, eve] {
        let again = agent.pay(shop, hire, good).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
    }
    // Under the same nonce nothing else is done.
    let reused = ann.sign_hire(shop, |new| {
        (new.nonce, new.params) = (hire.nonce.clone(), json!({"data": [5, 7]}));
    });
    let answer = ann.pay(shop, &reused, good).await;
    assert_eq!((answer.status, answer.code()), (409, "nonce_reused"), "{answer:?}");
    // A payment that was taken pays for no other hire, not even its payer's own.
    for (code, agent) in [(reason::NOT_FOR_THIS_HIRE, ann), (reason::NOT_THE_BUYER, eve)] {
        let next = agent.sign_hire(shop, |_| {});
        let answer = agent.pay(shop, &next, good).await;
        assert_eq!((answer.status, answer.code()), (402, code), "{answer:?}");
    }
    assert_eq!((shop.runs(), ann.paid().await), (1, vec![PRICE]));
    assert_eq!(ann.receipts().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_listing_is_not_published() {
    let town = Town::open();
    let (ben, eve) = (town.agent(1).await, town.agent(2).await);
    let shop = town.sell(&ben, &Sale { modes: &["direct"], ..Sale::default() });
    let found = ben.client.listings_of(&ben.id()).await.unwrap().items.pop().unwrap();
    let mut dearer = found.listing.clone();
    dearer.price_usdc = "9".parse().unwrap();
    let mut mine = found.listing.clone();
    mine.payee = Some(eve.id());
    let mut posing = found.listing.clone();
    // Signed well, for a door that is somebody else's.
    (posing.agent_id, posing.issued_at) = (eve.id(), Some(SystemClock.now()));
    posing.sign(eve.actor.keyring.wallet()).unwrap();
    for (code, listing) in [
        ("bad_wallet_signature", dearer),
        ("bad_wallet_signature", mine),
        ("endpoint_not_proven", posing),
    ] {
        let refused = eve.client.publish_listing(&listing).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    let still = ben.client.listing(found.listing_id).await.unwrap();
    assert_eq!((still.listing.price_usdc.amount(), still.listing.payee), (price().amount(), None));
    assert!(eve.client.listings_of(&eve.id()).await.unwrap().items.is_empty());
    assert_eq!(shop.runs(), 0);
}

fn egress() -> Egress {
    Egress::new(Policy { allow_loopback: true, ..Policy::default() }).unwrap()
}

/// A buyer inside the test, whose payments end soon.
fn short(agent: &Agent, budget: Option<BudgetToken>) -> BuyerConfig {
    let wallet = agent.actor.keyring.wallet().clone();
    let (node, clock) = (agent.client.clone(), Arc::new(SystemClock));
    let mut config = BuyerConfig::new(wallet, node, clock, Arc::new(Taxonomy));
    (config.allow_loopback, config.grace, config.budget) = (true, GRACE, budget);
    config
}

fn order() -> HireOrder {
    let mut order = HireOrder::new(CAPABILITY, numbers(), Amount::new(PRICE).unwrap());
    order.sellers_max = 1;
    order
}

/// A budget that an operator gives its agent.
fn budget(giver: &Agent, agent: &Agent, usdc: &str, parent: Option<Hash32>) -> BudgetToken {
    let mut token: BudgetToken = serde_json::from_value(json!({
        "agent_id": agent.id(), "max_amount_usdc": usdc, "issuer": giver.actor.keyring.did(),
        "max_duration_seconds": if parent.is_some() { 600 } else { 3600 },
        "issued_at": SystemClock.now().as_ms() / 1000, "nonce": format!("{usdc} {parent:?}"),
    }))
    .unwrap();
    assert!(matches!(token.issuer, BudgetIssuer::Operator(_)));
    token.parent = parent;
    match parent {
        Some(_) => token.sign_as_agent(giver.actor.keyring.wallet()).unwrap(),
        None => token.sign_as_operator(giver.actor.keyring.secret()).unwrap(),
    }
    token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_hires_at_three_sellers_do_not_exceed_one_budget() {
    let town = Town::open();
    let ann = town.buyer(1).await;
    // The shell is enough, and fast.
    let script = r#"cat > /dev/null; echo '{"result": 3}'"#;
    let sale = Sale { script, modes: &["direct"], flags: &["--seats", "64"], ..Sale::default() };
    let mut shops = Vec::new();
    for number in 2..5 {
        shops.push(town.sell(&town.agent(number).await, &sale));
    }
    let token = budget(&ann, &ann, "0.10", None);
    let mut hires = JoinSet::new();
    for n in 0..PARALLEL {
        // A journal for each, so that none knows what the others spend.
        let journal = town.path(&format!("buyer-{n}"));
        let buyer = Buyer::open(short(&ann, Some(token.clone())), &journal).unwrap();
        let order = HireOrder { agent: Some(shops[n % 3].agent), ..order() };
        hires.spawn(async move { buyer.hire(order).await });
    }
    let (mut paid, mut refused) = (0, 0);
    for ended in hires.join_all().await {
        match ended {
            Ok(hired) => {
                assert_eq!(hired.result["result"], 3);
                paid += 1;
            }
            Err(error) => {
                let told = error.to_string();
                assert!(told.contains(reason::BUDGET_EXCEEDED), "{told}");
                refused += 1;
            }
        }
    }
    assert_eq!((paid, refused), (PAID_FOR, PARALLEL - PAID_FOR));
    let known = ann.client.budget(&token.id().unwrap()).await.unwrap();
    let paid = PRICE * i64::try_from(PAID_FOR).unwrap();
    assert_eq!((known.spent_minor.minor(), known.left_minor.minor()), (paid, 0));
    assert_eq!((ann.free().await, ann.held().await), (FUNDED_MINOR - paid, 0));
    assert_eq!(ann.receipts().await.len(), PAID_FOR);
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_a_budget_is_not_exceeded_nor_spent_twice() {
    let town = Town::open();
    let (ann, cyd) = (town.buyer(1).await, town.buyer(2).await);
    let shop = town.sell(&town.agent(3).await, &Sale { modes: &["direct"], ..Sale::default() });
    let whole = budget(&ann, &ann, "0.03", None);
    let id = ann.client.register_budget(&whole).await.unwrap().budget_id;
    let larger = budget(&ann, &cyd, "0.04", Some(id));
    let refused = ann.client.register_budget(&larger).await.unwrap_err();
    assert_eq!(refused.code(), "budget_exceeded", "{refused}");
    let part = budget(&ann, &cyd, "0.02", Some(id));
    ann.client.register_budget(&part).await.unwrap();
    // Three tries with two and one to spend, each with an empty memory.
    for (agent, token, most) in [(&cyd, &part, 2), (&ann, &whole, 1)] {
        for n in 0..3 {
            let journal = town.path(&format!("{}-{n}", agent.number));
            let buyer = Buyer::open(short(agent, Some(token.clone())), &journal).unwrap();
            match buyer.hire(order()).await {
                Ok(_) => assert!(n < most, "more than the budget was spent"),
                Err(error) => {
                    let told = error.to_string();
                    assert!(n >= most && told.contains(reason::BUDGET_EXCEEDED), "{told}");
                }
            }
        }
    }
    // The part is its agent's: nobody else spends it.
    let journal = town.path("stolen");
    assert!(Buyer::open(short(&ann, Some(part.clone())), &journal).is_err());
    let stolen = ann.sign_hire(&shop, |hire| hire.budget_token = Some(part.clone()));
    let answer = ann.ask(&shop, &stolen).await;
    assert_eq!((answer.status, answer.code()), (422, "invalid_budget"), "{answer:?}");
    let left = [FUNDED_MINOR - PRICE, FUNDED_MINOR - 2 * PRICE];
    assert_eq!([ann.free().await, cyd.free().await], left);
    town.audit(2 * FUNDED_MINOR);
}

/// Says that everything is fine.
#[derive(Debug)]
struct Liar;

impl Checker for Liar {
    fn check_params(&self, _: &str, _: Option<&str>, _: &Value) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn verify<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a str>,
        _: &'a Value,
        _: &'a Value,
    ) -> std::pin::Pin<Box<dyn Future<Output = Verification> + Send + 'a>> {
        let passed = Check { name: "all".to_owned(), passed: true, detail: None };
        Box::pin(std::future::ready(Verification::of("v0", vec![passed])))
    }
}

/// A seller that sells garbage and says that it is none. Sells until the answer is dropped.
async fn crook(agent: &Agent, journal: &Path) -> oneshot::Sender<()> {
    let provider = agent.client.x402_rail().await.unwrap().escrow_provider;
    let garbage = work_fn(async |_, _| Ok(json!({"result": 4711})));
    let mut offer = Offer::new(CAPABILITY, price(), garbage);
    offer.modes = vec![PaymentMode::Direct, PaymentMode::PlatformEscrow(provider)];
    let seller = Seller::open(SellerConfig {
        wallet: agent.actor.keyring.wallet().clone(),
        node: agent.client.clone(),
        offers: vec![offer],
        listen: "127.0.0.1:0".parse().unwrap(),
        endpoint: None,
        behind_proxy: false,
        journal: journal.to_owned(),
        egress: egress(),
        checker: Arc::new(Liar),
        clock: Arc::new(SystemClock),
        clarify_signed_only: false,
    });
    let seller = seller.await.unwrap();
    let handle = seller.handle();
    let (open, closed) = oneshot::channel();
    tokio::spawn(seller.serve(async {
        let _ = closed.await;
    }));
    handle.publish().await.unwrap();
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_disputed_or_refunded() {
    let town = Town::open();
    let (ann, eve) = (town.buyer(1).await, town.agent(2).await);
    let _open = crook(&eve, &town.path("crook")).await;

    // Paid directly: the money is gone, and everybody can see for what.
    let hiring = town.hire(&ann, &["--payment-mode", "direct"]).await;
    hiring.failed("the receipt is disputed");
    assert_eq!((&hiring.told["dispute"], &hiring.told["paid"]), (&json!(true), &json!("10000")));
    assert!(hiring.told["rating_token"].as_str().is_some_and(|token| !token.is_empty()));
    let stored = ann.client.receipt(hiring.told["hire_id"].as_str().unwrap()).await.unwrap();
    assert_eq!((stored.judgement, stored.dispute), (Judgement::Failed, true));
    assert!(stored.findings.seller.all_passed, "the seller lied");
    let rating = ann.client.listings_of(&eve.id()).await.unwrap().items;
    let rates: Vec<_> = rating.iter().filter_map(|found| found.reputation.success_rate).collect();
    assert_eq!(rates, [0.0]);

    // In escrow it comes back.
    let hiring = town.hire(&ann, &["--escrow"]).await;
    hiring.failed("the money came back");
    assert_eq!(hiring.told["escrow"]["status"], "REFUNDED");
    let id = hiring.told["hire_id"].as_str().unwrap();
    let stored = ann.client.receipt(id).await.unwrap();
    assert_eq!((stored.judgement, stored.dispute), (Judgement::Failed, true));
    // The platform has looked as well, and found the same.
    let platform = until("the platform's own look", async || {
        ann.client.receipt(id).await.unwrap().findings.platform
    })
    .await;
    assert!(platform.verifiable && !platform.all_passed, "{platform:?}");
    assert_eq!((ann.free().await, eve.free().await), (FUNDED_MINOR - PRICE, PRICE));
    assert_eq!(ann.held().await, 0);
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_work_and_no_work_cost_nothing() {
    let town = Town::open();
    let ann = town.buyer(1).await;
    for (number, script, code) in [
        (2, "sleep 60", "work_timeout"),
        (3, "cat > /dev/null", "bad_output"),
        (4, "exit 7", "work_failed"),
        (5, r#"echo '{"result": 4711}'"#, "bad_output"),
    ] {
        let agent = town.agent(number).await;
        let sale = Sale { script, max_latency_ms: 1_000, ..Sale::default() };
        let mut shop = town.sell(&agent, &sale);
        comes_to_nothing(&town, &ann, &shop, code).await;
        assert_eq!((shop.runs(), agent.free().await), (2, 0));
        shop.child.kill9();
    }
    town.audit(FUNDED_MINOR);
}

/// Hires directly and in escrow, with payments that end soon: neither is paid.
async fn comes_to_nothing(town: &Town, ann: &Agent, shop: &Shop, code: &str) {
    let provider = ann.client.x402_rail().await.unwrap().escrow_provider;
    for mode in [PaymentMode::Direct, PaymentMode::PlatformEscrow(provider)] {
        let name = format!("{mode}-{}", shop.agent).replace(':', "-");
        let buyer = Buyer::open(short(ann, None), &town.path(&name)).unwrap();
        let payment = PaymentChoice::Require(mode);
        let order = HireOrder { payment, agent: Some(shop.agent), ..order() };
        let error = buyer.hire(order).await.unwrap_err();
        assert!(error.code() == "all_refused" && error.to_string().contains(code), "{error}");
        assert_eq!(buyer.open_hires(), 0);
    }
    assert_eq!((ann.free().await, ann.held().await), (FUNDED_MINOR, 0));
    assert!(ann.receipts().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_that_dies_for_good_keeps_nothing() {
    let town = Town::open();
    let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
    let sale = Sale { script: "sleep 60", max_latency_ms: 2_000, ..Sale::default() };
    let mut shop = town.sell(&ben, &sale);
    let provider = ann.client.x402_rail().await.unwrap().escrow_provider;
    let mut hires = JoinSet::new();
    for mode in [PaymentMode::Direct, PaymentMode::PlatformEscrow(provider)] {
        let buyer = Buyer::open(short(&ann, None), &town.path(&mode.to_string())).unwrap();
        let order = HireOrder { payment: PaymentChoice::Require(mode), ..order() };
        hires.spawn(async move { (buyer.hire(order).await, buyer) });
    }
    // Both have begun, and one has its money set aside.
    until("both programs", async || (shop.runs() == 2).then_some(())).await;
    assert_eq!((ann.free().await, ann.held().await), (FUNDED_MINOR - PRICE, PRICE));
    shop.child.kill9();
    let mut codes = Vec::new();
    for (ended, buyer) in hires.join_all().await {
        codes.push(ended.unwrap_err().code().to_owned());
        if buyer.open_hires() == 0 {
            continue;
        }
        // The time to deliver passes.
        ann.client.advance_clock(120).await.unwrap();
        until("the refund", async || (ann.held().await == 0).then_some(())).await;
        let resumed = buyer.resume().await.unwrap();
        assert_eq!((resumed.len(), resumed[0].outcome.as_str()), (1, "unpaid"), "{resumed:?}");
        assert_eq!(buyer.open_hires(), 0);
    }
    codes.sort();
    assert_eq!(codes, ["all_refused", "uncertain"]);
    assert_eq!((ann.free().await, ben.free().await), (FUNDED_MINOR, 0));
    assert!(ann.receipts().await.is_empty());
    town.audit(FUNDED_MINOR);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_that_vanishes_has_paid_or_gets_its_money_back() {
    let town = Town::open();
    let (ann, ben) = (town.buyer(1).await, town.agent(2).await);
    let shop = town.sell(&ben, &Sale::default());
    let rail = ann.client.x402_rail().await.unwrap();
    let mut ids = Vec::new();
    let escrow = PaymentMode::PlatformEscrow(rail.escrow_provider.clone());
    for mode in [PaymentMode::Direct, escrow] {
        let hire = ann.sign_hire(&shop, |hire| hire.preferred_payment_mode = Some(mode));
        let asked = ann.ask(&shop, &hire).await.required();
        let answer = ann.pay(&shop, &hire, &ann.payment(&rail, &hire, &asked)).await;
        assert_eq!((answer.status, &answer.body["result"]), (200, &mean()), "{answer:?}");
        ids.push(answer.body["receipt"]["receipt_id"].as_str().unwrap().to_owned());
    }
    // Nobody says anything any more.
    assert_eq!((ann.free().await, ann.held().await), (FUNDED_MINOR - 2 * PRICE, PRICE));
    let held = ann.client.receipt(&ids[1]).await.unwrap();
    let escrow_id = held.receipt.escrow_id.unwrap();
    let early = ben.client.timeout_refund(escrow_id).await.unwrap_err();
    assert_eq!(early.code(), "refund_too_early", "{early}");
    ann.client.advance_clock(WINDOW_S).await.unwrap();
    let end = until("the end of the window", async || {
        let escrow = ben.client.hire_escrow(escrow_id).await.unwrap();
        (escrow.status != EscrowStatus::Held).then_some(escrow)
    })
    .await;
    assert_eq!(
        (end.status, end.reason.as_deref()),
        (EscrowStatus::Refunded, Some("window_passed"))
    );
    assert_eq!((ann.free().await, ben.free().await), (FUNDED_MINOR - PRICE, PRICE));
    // The work was good, and it is seen who has refused to pay for it.
    let platform = until("the platform's own look", async || {
        ann.client.receipt(&ids[1]).await.unwrap().findings.platform
    })
    .await;
    assert!(platform.all_passed, "{platform:?}");
    let known = ann.client.agent(&ann.id()).await.unwrap();
    assert_eq!(json!(known)["refunds_despite_pass"], 1);
    let paid = ann.client.receipt(&ids[0]).await.unwrap();
    assert_eq!((paid.judgement, paid.dispute), (Judgement::NotVerifiedByBuyer, false));
    town.audit(FUNDED_MINOR);
}
