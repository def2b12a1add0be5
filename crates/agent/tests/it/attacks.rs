use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{AgentId, Amount, Clock, Timestamp, ed25519::SecretKey, hash::keccak256};
use skep_wire::{
    hire::{BudgetIssuer, BudgetToken, HireRequest, WalletSigned},
    x402::{
        PAYABLE, PAYABLE_FRESH, PAYMENT_SIGNATURE, Payable, PayableFacts, Payment, reason,
        to_header,
    },
};

use crate::{
    bank::{self, rail},
    stage::{Answer, Buyer, PRICE, World},
};

/// Callers that do not wait for their answer.
const HANG_UPS: u64 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hire_that_is_not_in_order_is_refused_by_name_before_anybody_pays() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let buyer = world.buyer(1);
    let old = Timestamp::from_ms(buyer.clock.now_ms() - 10 * 60 * 1000);
    let refused = [
        (400, "unknown_protocol", change(&buyer, |h| h.protocol = "swarmwage/v1.0".to_owned())),
        (400, "unknown_protocol", change(&buyer, |h| h.protocol = "swarmwage/v0.4".to_owned())),
        (404, "capability_not_sold", change(&buyer, |h| h.capability = "custom.x.y".to_owned())),
        (401, "stale_request", change(&buyer, |h| h.issued_at = Some(old))),
        (401, "stale_request", change(&buyer, |h| h.issued_at = None)),
        (403, "not_this_seller", change(&buyer, |h| h.seller_id = Some(AgentId([1; 20])))),
        (403, "not_this_seller", change(&buyer, |h| h.seller_id = None)),
        (400, "bad_nonce", change(&buyer, |h| h.nonce = None)),
        (400, "bad_nonce", change(&buyer, |h| h.nonce = Some("n".repeat(129)))),
        (400, "bad_params", change(&buyer, |h| h.params = json!([1]))),
        (422, "price_above_max", change(&buyer, |h| h.max_price_usdc = "0.01".parse().ok())),
        (422, "latency_above_max", change(&buyer, |h| h.max_latency_ms = Some(50))),
        (400, "bad_callback_url", change(&buyer, |h| h.callback_url = Some("file:///".to_owned()))),
        (422, "invalid_budget", change(&buyer, |h| h.budget_token = Some(budget(&buyer, 1)))),
        (400, "nested_too_deep", change(&buyer, |h| h.params = tower(70))),
        (409, "quote_unknown", change(&buyer, |h| h.quote_token = Some("qt_1".to_owned()))),
    ];
    for (status, code, hire) in refused {
        let answer = shop.hire(&hire).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{hire:?}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    let mut forged = json!(buyer.hire(json!({ "a": 1 })));
    forged["params"] = json!({ "a": 2 });
    let answer = shop.post("/hire", &forged, None).await;
    assert_eq!((answer.status, answer.code()), (401, "bad_hire_signature"));
    let twice = reqwest::Client::new().post(format!("{}/hire", shop.url));
    let twice = twice.header("content-type", "application/json").body(r#"{"params":1,"params":2}"#);
    assert_eq!(twice.send().await.unwrap().status(), 400);
    let long = reqwest::Client::new().post(format!("{}/hire", shop.url));
    let long = long.header("content-type", "application/json").body(vec![b' '; 17 << 20]);
    // Whether the answer arrives while the body is still being sent is chance.
    assert!(long.send().await.map_or(true, |answer| answer.status() == 413));
    // Short as it comes, long as it is kept.
    let grows = format!("[{}1e15]", "1e15,".repeat(150_000));
    let grows = json!({ "params": { "a": serde_json::from_str::<Value>(&grows).unwrap() } });
    let answer = shop.post("/hire", &grows, None).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(world.runs(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_is_not_for_this_hire_is_refused_by_name_and_nothing_runs() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let (buyer, eve) = (world.buyer(2), world.buyer(3));
    let hire = buyer.hire(json!({ "a": 1 }));
    let asked = shop.hire(&hire).await;
    let required = asked.required();
    let accepted = &required.accepts[0];
    let nonce = hire.payment_nonce().unwrap();
    let good = buyer.payment(&hire, &asked);
    let pay = |change: &dyn Fn(&mut skep_wire::x402::Authorization)| {
        buyer.payment_with(accepted, &required, &nonce, |paid| change(paid))
    };
    let raw = |change: &dyn Fn(&mut Value)| {
        let mut raw = good.raw.clone();
        change(&mut raw);
        Payment::read(raw).unwrap()
    };
    let mut cheap = accepted.clone();
    cheap.amount = Amount::new(1).unwrap();
    let soon = (buyer.now_s() + 3).to_string();
    let elsewhere = AgentId([9; 20]);
    let attempts = [
        (reason::VALUE, pay(&|paid| paid.value = (PRICE - 1).to_string())),
        (reason::VALUE, pay(&|paid| paid.value = (PRICE + 1).to_string())),
        (reason::VALUE, buyer.payment_with(&cheap, &required, &nonce, |_| {})),
        (reason::RECIPIENT, pay(&|paid| paid.to = elsewhere)),
        (reason::VALID_BEFORE, pay(&|paid| paid.valid_before = soon.clone())),
        (reason::SIGNATURE, raw(&|raw| raw["payload"]["authorization"]["validAfter"] = json!("1"))),
        (reason::INVALID_NETWORK, raw(&|raw| raw["accepted"]["network"] = json!("eip155:8453"))),
        (reason::TOKEN, raw(&|raw| raw["accepted"]["asset"] = json!(elsewhere))),
        (reason::UNSUPPORTED_SCHEME, raw(&|raw| raw["accepted"]["scheme"] = json!("upto"))),
        (reason::RESOURCE, raw(&|raw| raw["resource"]["url"] = json!("http://x/hire"))),
        (
            reason::NOT_FOR_THIS_HIRE,
            buyer.payment_with(accepted, &required, &keccak256(b"other"), |_| {}),
        ),
        (reason::NOT_THE_BUYER, eve.payment_with(accepted, &required, &nonce, |_| {})),
    ];
    for (code, payment) in attempts {
        let answer = shop.pay(&hire, &payment).await;
        assert_eq!((answer.status, answer.code()), (402, code), "{:?}", payment.raw);
        assert_eq!(answer.required().error.as_deref(), Some(code));
    }
    let junk = shop.post("/hire", &json!(hire), Some((PAYMENT_SIGNATURE, "%%".to_owned()))).await;
    assert_eq!((junk.status, junk.code()), (400, reason::INVALID_PAYLOAD));
    // Somebody who saw the payment cannot have another hire for it.
    let stolen = eve.hire(json!({ "mine": 1 }));
    let answer = shop.pay(&stolen, &good).await;
    assert_eq!((answer.status, answer.code()), (402, reason::NOT_THE_BUYER));
    assert_eq!((world.runs(), world.bank.balance(buyer.id())), (0, 1_000_000));
    assert_eq!(shop.pay(&hire, &good).await.status, 200, "the good one still counts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_hire_sent_many_times_at_once_runs_and_is_paid_once() {
    let world = World::new().await;
    let shop = std::sync::Arc::new(world.open(world.offer()).await);
    let buyer = world.buyer(4);
    let hire = buyer.hire(json!({ "a": 1 }));
    let payment = buyer.payment(&hire, &shop.hire(&hire).await);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (shop, hire, payment) = (shop.clone(), hire.clone(), payment.clone());
        all.spawn(async move { shop.pay(&hire, &payment).await });
    }
    let answers = all.join_all().await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
    }
    assert_eq!((world.runs(), world.bank.balance(buyer.id())), (1, 1_000_000 - PRICE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_hangs_up_finds_its_hire_done() {
    let world = World::new().await;
    let shop = std::sync::Arc::new(world.open(world.offer()).await);
    let buyer = world.buyer(5);
    for n in 0..HANG_UPS {
        let hire = buyer.hire(json!({ "n": n }));
        let payment = buyer.payment(&hire, &shop.hire(&hire).await);
        let call = {
            let (shop, hire, payment) = (shop.clone(), hire.clone(), payment.clone());
            tokio::spawn(async move { shop.pay(&hire, &payment).await })
        };
        // Sooner or later, so that some hang up while the hire is written down.
        tokio::time::sleep(Duration::from_micros(200 * n)).await;
        call.abort();
        let again = tokio::time::timeout(Duration::from_secs(20), shop.pay(&hire, &payment)).await;
        assert_eq!(again.expect("the hire is stuck").status, 200);
    }
    assert_eq!(world.runs(), HANG_UPS as usize);
    let paid = PRICE * HANG_UPS as i64;
    assert_eq!(world.bank.balance(buyer.id()), 1_000_000 - paid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_asks_too_often_waits_and_the_door_proves_whose_it_is() {
    let world = World::new().await;
    let shop = world
        .open_with(vec![world.offer()], |config| {
            config.endpoint = Some("http://seller.test/deep/{path}/".to_owned());
        })
        .await;
    let proof = shop.get("/.well-known/swarmwage-verify?nonce=12345678").await;
    let proof: skep_wire::hire::EndpointProof = serde_json::from_value(proof.body).unwrap();
    proof.check_signature().unwrap();
    assert_eq!(
        (proof.nonce.as_str(), proof.agent_id),
        ("12345678", shop.handle.listings()[0].agent_id)
    );
    let short = shop.get("/.well-known/swarmwage-verify?nonce=1").await;
    assert_eq!((short.status, short.code()), (400, "bad_nonce"));
    let root = shop.url.split("/deep").next().unwrap();
    let healthy = reqwest::get(format!("{root}/healthz")).await.unwrap();
    assert_eq!(healthy.status(), 200, "a proxy may have taken the path away");
    let mut limited = None;
    for _ in 0..2000 {
        let answer = shop.get("/healthz").await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("nobody asks two thousand times in a second");
    assert_eq!(limited.code(), "rate_limited");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(shop.get("/healthz").await.status, 200);
}

/// Arrays in an object.
fn tower(levels: usize) -> Value {
    json!({ "a": (0..levels).fold(json!(1), |inner, _| json!([inner])) })
}

fn change(buyer: &Buyer, change: impl FnOnce(&mut HireRequest)) -> HireRequest {
    buyer.hire_with(json!({ "a": 1 }), change)
}

/// A budget that is over.
fn budget(buyer: &Buyer, seconds: u64) -> BudgetToken {
    let mut token = BudgetToken {
        agent_id: buyer.id(),
        max_amount_usdc: "1".parse().unwrap(),
        max_duration_seconds: seconds,
        issued_at: buyer.now_s() - 60,
        issuer: BudgetIssuer::Agent(buyer.id()),
        nonce: "b".to_owned(),
        parent: None,
        signature: None,
    };
    token.sign_as_agent(&buyer.wallet).unwrap();
    token
}

/// With its node's word on a payment, a seller works without asking the node itself. Any other
/// word is none, and the node is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seller_goes_by_the_fresh_word_of_its_own_node_only() {
    let world = World::new().await;
    let shop = world.open(world.offer()).await;
    let (rich, poor) = (world.buyer(41), world.buyer(42));
    world.bank.with(|books| books.balances.insert(poor.id(), 0));
    let paid = |buyer: &Buyer, hire: &HireRequest, asked: &Answer| {
        let payment = buyer.payment(hire, asked);
        let nonce = payment.payload.authorization.nonce().unwrap();
        let tx_hash = rail().tx_hash(&buyer.id(), &nonce);
        (payment, tx_hash)
    };
    let bring = async |hire: &HireRequest, payment: &Payment, word: &Payable| {
        let request = shop.http.post(format!("{}/hire", shop.url)).json(hire);
        let request = request.header(PAYMENT_SIGNATURE, to_header(&payment.raw));
        let sent = request.header(PAYABLE, to_header(word)).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    let word = |payment: &Payment, tx_hash: &str, change: &dyn Fn(&mut Said)| {
        let paid = &payment.payload.authorization;
        let (key, at, amount) = (bank::key(), world.clock.now(), paid.amount().unwrap());
        let (tx_hash, network) = (tx_hash.to_owned(), payment.network.clone());
        let window = paid.window().unwrap();
        let mut said = Said { key, at, tx_hash, to: paid.to, amount, window, network };
        change(&mut said);
        let Said { key, at, tx_hash, to, amount, window, network } = &said;
        let (to, amount, window) = (*to, *amount, *window);
        Payable::sign(key, &PayableFacts { tx_hash, to, amount, window, network }, *at)
    };

    let hire = rich.hire(json!({ "n": 1 }));
    let (payment, tx_hash) = paid(&rich, &hire, &shop.hire(&hire).await);
    let (status, body) = bring(&hire, &payment, &word(&payment, &tx_hash, &|_| {})).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!((world.runs(), world.bank.with(|books| books.verifies)), (1, 0));

    let late = PAYABLE_FRESH + Duration::from_millis(200);
    let changes: [&dyn Fn(&mut Said); 8] = [
        &|said| said.key = SecretKey::from_seed([1; 32]),
        &|said| said.at = said.at.minus(late),
        &|said| said.at = said.at.plus(late + Duration::from_secs(60)),
        &|said| said.tx_hash = tx_hash.clone(),
        &|said| said.to = rich.id(),
        &|said| said.amount = Amount::new(1).unwrap(),
        &|said| said.window.1 += 1,
        &|said| said.network = "base-sepolia".to_owned(),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let hire = poor.hire(json!({ "n": n }));
        let (payment, tx_hash) = paid(&poor, &hire, &shop.hire(&hire).await);
        let (status, body) = bring(&hire, &payment, &word(&payment, &tx_hash, change)).await;
        assert_eq!(status, 402, "{n}: {body}");
        assert!(body.contains(reason::INSUFFICIENT_FUNDS), "{n}: {body}");
        assert_eq!(world.bank.with(|books| books.verifies), n + 1);
    }
    assert_eq!(world.runs(), 1);
}

/// What a bank says of a payment.
struct Said {
    key: SecretKey,
    at: Timestamp,
    tx_hash: String,
    to: AgentId,
    amount: Amount,
    window: (u128, u128),
    network: String,
}
