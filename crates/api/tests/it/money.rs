//! Money through the SDK and by hand: paid once, however often it is asked for.

use std::net::SocketAddr;

use http::Method;
use skep_api::Config;
use skep_base::{Asset, Timestamp};
use skep_sdk::Retries;
use skep_wire::{
    identity::Statement,
    wallet::{NewTransfer, TransferMode, TransferState},
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use crate::world::{Agent, Node, Request, config, now, transfer_id, usdc};

fn new_transfer(seed: u8, to: &Agent, amount: &str) -> NewTransfer {
    NewTransfer {
        id: transfer_id(seed),
        to: to.wallet.address(),
        money: usdc(amount),
        mode: TransferMode::Posted,
    }
}

#[tokio::test]
async fn the_sdk_pays_holds_and_reads() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.rich(1).await, node.register(2).await);
    let (payer, payee) = (node.client(&ada), node.client(&bob));

    let paid = payer.pay(bob.wallet.address(), usdc("1.5")).await.unwrap();
    assert_eq!(paid.state, TransferState::Posted);
    assert_eq!(payee.transfer(paid.id).await.unwrap(), paid);
    let hold = NewTransfer { mode: TransferMode::Pending, ..new_transfer(1, &bob, "10") };
    let held = payer.create_transfer(&hold).await.unwrap();
    assert_eq!(held.value.state, TransferState::Pending);
    let balance = &payer.wallet().await.unwrap().balances[0];
    assert_eq!((balance.available, balance.held), (usdc("88.5"), usdc("10")));
    let posted = payer.post_transfer(hold.id, Some(usdc("4"))).await.unwrap();
    assert_eq!(posted.value.posted, Some(usdc("4")));
    let voided = payee.void_transfer(hold.id).await.unwrap_err();
    assert_eq!((voided.code(), voided.is_retryable()), ("already_posted", false));
    assert_eq!(payee.wallet().await.unwrap().balances[0].available, usdc("5.5"));

    let mut lines = Vec::new();
    let mut cursor = None;
    loop {
        let page = payer.transfers(Asset::USDC, cursor.as_deref(), Some(1)).await.unwrap();
        lines.extend(page.items.iter().map(|line| line.kind.clone()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(lines.len(), 4, "{lines:?}");
    let inbox = payee.inbox(None, None).await.unwrap();
    assert!(inbox.items.iter().any(|event| event.id == inbox.items[0].id));
    let next = payee.inbox(inbox.next_cursor.as_deref(), None).await.unwrap();
    assert!(next.items.is_empty() && next.next_cursor == inbox.next_cursor);
    let events = payer.events(None, Some(100)).await.unwrap();
    assert_eq!(events.items.last().unwrap().seq, node.head());
    let head = payer.log_head().await.unwrap();
    head.head.verify(&head.key, &head.signature).unwrap();
    assert_eq!(head.head.seq, node.head());

    let agent = payer.agent(&ada.wallet.address()).await.unwrap();
    assert_eq!(payer.agent_by_did(&agent.did).await.unwrap(), agent);
    let by_did = Request::get(&format!("/v1/agents/{}/wallet", agent.did)).signed(&node, &ada);
    assert_eq!(node.send(&by_did).await.status, 200);
    let others = bob.key.public().did();
    let by_did = Request::get(&format!("/v1/agents/{others}/wallet")).signed(&node, &ada);
    assert_eq!(node.send(&by_did).await.code(), "not_yours");
}

#[tokio::test]
async fn a_repeated_request_is_one_request() {
    let node = Node::start(config()).await;
    let (ada, bob) = (node.rich(1).await, node.register(2).await);
    let request = new_transfer(1, &bob, "5");
    let payer = node.client(&ada);
    let first = payer.create_transfer_keyed(&request, "order-1").await.unwrap();
    let again = payer.create_transfer_keyed(&request, "order-1").await.unwrap();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.value, again.value);
    let head = node.head();
    let other = new_transfer(2, &bob, "6");
    let error = payer.create_transfer_keyed(&other, "order-1").await.unwrap_err();
    assert_eq!(error.code(), "idempotency_key_reused");

    // The same bytes again, as after a lost answer; then the nonce with another body.
    let body = serde_json::to_string(&other).unwrap();
    let nonce = "a-nonce-for-one-request";
    let lifetime = std::time::Duration::from_secs(60);
    let sign = |body: &str| {
        let request = Request::post("/v1/transfers", body);
        request.signed_at(&node, &ada, nonce, now(), lifetime)
    };
    let signed = sign(&body);
    let first = node.send(&signed).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (201, ""));
    let again = node.send(&signed).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
    assert_eq!(first.body, again.body);
    let another = serde_json::to_string(&new_transfer(3, &bob, "7")).unwrap();
    let conflict = node.send(&sign(&another)).await;
    assert_eq!((conflict.status, conflict.code().as_str()), (409, "nonce_reused"));
    assert_eq!(node.head(), head + 1);
}

/// Passes requests on and loses the first answer.
async fn forget_once(listener: TcpListener, behind: SocketAddr) {
    for nth in 0.. {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(behind).await.unwrap();
        tokio::spawn(async move {
            if nth > 0 {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                return;
            }
            let (mut from, _to) = client.split();
            let (mut answer, mut request) = server.split();
            tokio::select! {
                _ = tokio::io::copy(&mut from, &mut request) => {}
                _ = answer.readable() => {
                    // The answer is there: the request was carried out.
                    let _ = answer.read(&mut [0; 1]).await;
                }
            }
        });
    }
}

#[tokio::test]
async fn a_lost_answer_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let node = Node::start(Config { public_names: vec![proxy.to_string()], ..config() }).await;
    let (ada, bob) = (node.rich(1).await, node.register(2).await);
    tokio::spawn(forget_once(listener, node.address));
    let through = skep_sdk::Client::new(&format!("http://{proxy}")).unwrap();
    let through = through.with_key(ada.wallet.address(), ada.key.clone());
    let answer = through.create_transfer(&new_transfer(1, &bob, "5")).await.unwrap();
    assert!(answer.replayed);
    let balances = node.client(&ada).wallet().await.unwrap().balances;
    assert_eq!(balances[0].available, usdc("95"));
}

#[tokio::test]
async fn keys_change_and_the_old_one_stops() {
    use skep_wire::identity::{KeyChange, Rotation};
    let node = Node::start(config()).await;
    let (ada, bob) = (node.rich(1).await, node.register(2).await);
    node.client(&ada).wallet().await.unwrap();
    let new = Agent { key: Agent::new(7).key, ..ada.clone() };
    let statement = Rotation {
        agent_id: ada.wallet.address(),
        old_key: ada.key.public(),
        new_key: new.key.public(),
        issued_at: now(),
    };
    let change = KeyChange::Rotate {
        wallet_signature: statement.sign_with_wallet(&ada.wallet).unwrap(),
        old_key_signature: statement.sign(&ada.key).unwrap(),
        new_key_signature: statement.sign(&new.key).unwrap(),
        statement,
    };
    let client = node.client(&ada).with_retries(Retries::NONE);
    client.change_keys(&ada.wallet.address(), &change).await.unwrap();
    // The new key is taken at once, though the old one is still remembered.
    node.client(&new).wallet().await.unwrap();
    let error = client.pay(bob.wallet.address(), usdc("1")).await.unwrap_err();
    assert_eq!(error.code(), "bad_signature");
    let error = node.client(&new).pay(bob.wallet.address(), usdc("1")).await.unwrap_err();
    assert_eq!(error.code(), "money_frozen");
}

#[tokio::test]
async fn there_is_no_test_money_without_dev() {
    let mut config = config();
    config.dev = false;
    let node = Node::start(config).await;
    let ada = node.register(1).await;
    let error = node.client(&ada).faucet(usdc("1")).await.unwrap_err();
    assert_eq!(error.code(), "not_dev");
    let empty = Request::new(Method::POST, "/v1/dev/faucet", b"");
    assert_eq!(node.send(&empty).await.status, 401);
}

#[tokio::test]
async fn the_sdk_says_what_is_wrong_with_a_url() {
    for url in ["skep", "ftp://x", "http://x/path", "http://x?q"] {
        assert_eq!(skep_sdk::Client::new(url).unwrap_err().code(), "bad_url", "{url}");
    }
    let nobody = skep_sdk::Client::new("http://127.0.0.1:9").unwrap();
    let error = nobody.with_retries(Retries::NONE).log_head().await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), ("connection", true));
}

#[tokio::test]
async fn the_agent_headers_of_vcap_open_reads_and_nothing_else() {
    let node = Node::start(config()).await;
    let ada = node.rich(1).await;
    let id = ada.wallet.address().to_string();
    let signed = |at: Timestamp, by: &Agent| {
        let signature = by.key.sign(format!("{id}{at}").as_bytes());
        format!("{at}.{signature}")
    };
    let path = format!("/v1/agents/{id}/wallet");
    let read = |signature: &str| {
        let request = Request::get(&path).header("x-agent-id", &id);
        request.header("x-agent-platform", "skep").header("x-agent-signature", signature)
    };
    let answer = node.send(&read(&signed(now(), &ada))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let old = Timestamp::from_ms(now().as_ms() - 61_000);
    for (signature, code) in [
        (signed(old, &ada), "signature_expired"),
        (signed(now(), &Agent::new(2)), "bad_signature"),
        ("yesterday".to_owned(), "signature_malformed"),
    ] {
        let answer = node.send(&read(&signature)).await;
        assert_eq!(answer.json()["code"], code, "{signature}");
    }
    // They bind neither path nor body: nothing changes by them.
    let write = Request::post("/v1/dev/faucet", "{}").header("x-agent-id", &id);
    let answer = node.send(&write.header("x-agent-signature", &signed(now(), &ada))).await;
    assert_eq!(answer.json()["code"], "signature_missing");
}
