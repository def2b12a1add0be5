//! Connections, limits and the end of a node.

use std::time::Duration;

use http::Method;
use hyper_util::rt::{TokioExecutor, TokioIo};
use skep_api::{Config, Rate, Rates, Server, StartError, TlsFiles};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{Agent, Answer, Node, Request, config, usdc};

#[tokio::test]
async fn every_answer_is_framed() {
    let node = Node::start(config()).await;
    let answer = node.send(&Request::get("/healthz").header("x-request-id", "my-id.1")).await;
    assert_eq!(answer.header("x-request-id"), "my-id.1");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cache-control"), "no-store");
    for insane in ["a b", "<script>", &"x".repeat(65)] {
        let request = Request::get("/nothing").header("x-request-id", insane);
        let answer = node.send(&request).await;
        assert!(answer.header("x-request-id").starts_with("req_"), "{answer:?}");
        assert_eq!(answer.json()["request_id"], answer.header("x-request-id"));
    }
}

#[tokio::test]
async fn web_pages_of_others_may_not_call() {
    let node = Node::start(config()).await;
    let call = |node: &Node, method| {
        let mut request = Request::new(method, "/v1/log/head", b"");
        request = request.header("origin", "https://app.example");
        request.header("access-control-request-method", "GET").bytes(node.address)
    };
    for method in [Method::GET, Method::OPTIONS] {
        let answer = node.send_bytes(&call(&node, method)).await;
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    let mut open = config();
    open.cors_origins = vec!["https://app.example".to_owned()];
    let node = Node::start(open).await;
    let answer = node.send_bytes(&call(&node, Method::OPTIONS)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), "https://app.example");
    let other = Request::get("/v1/log/head").header("origin", "https://other.example");
    assert_eq!(node.send(&other).await.header("access-control-allow-origin"), "");
}

#[tokio::test]
async fn too_many_requests_have_to_wait() {
    let rates = Rates {
        address_write: Rate { burst: 4, per_second: 1 },
        signer_read: Rate { burst: 2, per_second: 1 },
        ..Rates::default()
    };
    let node = Node::start(Config { rates: Some(rates), ..config() }).await;
    let ada = node.register(1).await;
    let path = format!("/v1/agents/{}/wallet", ada.wallet.address());
    for left in [1, 0] {
        let answer = node.send(&Request::get(&path).signed(&node, &ada)).await;
        assert_eq!(answer.status, 200);
        let limits = answer.header("ratelimit");
        assert!(limits.contains(&format!("\"signer-read\";r={left};")), "{limits}");
        assert!(answer.header("ratelimit-policy").contains("\"signer-read\";q=2;w=2"));
    }
    let answer = node.send(&Request::get(&path).signed(&node, &ada)).await;
    assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
    assert_eq!(answer.header("retry-after"), "1");
    // A stranger who only claims to be Ada spends nothing of hers, but of the address.
    for status in [400, 400, 400, 429] {
        assert_eq!(node.send(&Request::post("/v1/agents", "{}")).await.status, status);
    }
    assert_eq!(node.send(&Request::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn an_accepted_request_is_finished() {
    let mut config = config();
    config.limits.body_idle = Duration::from_secs(5);
    config.limits.body_total = Duration::from_secs(5);
    let node = Node::start(config).await;
    let ada = Agent::new(1);
    let body = serde_json::to_vec(&ada.registration()).unwrap();
    let bytes = Request::new(Method::POST, "/v1/agents", &body).bytes(node.address);
    let (first, rest) = bytes.split_at(bytes.len() - 10);
    let mut busy = TcpStream::connect(node.address).await.unwrap();
    busy.write_all(first).await.unwrap();
    let mut idle = TcpStream::connect(node.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;

    let (address, market) = (node.address, node.market.clone());
    let stopping = tokio::spawn(node.stop());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!stopping.is_finished());
    assert!(TcpStream::connect(address).await.is_err());
    busy.write_all(rest).await.unwrap();
    assert_eq!(Answer::read(&mut busy).await.status, 201);
    let (drained, _dir) = stopping.await.unwrap();
    assert_eq!(drained.cut, 0);
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(market.agent(&ada.wallet.address().to_string()).await.is_ok());
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut() {
    let mut config = config();
    config.limits.body_idle = Duration::from_secs(60);
    config.limits.body_total = Duration::from_secs(60);
    config.limits.drain = Duration::from_millis(300);
    let node = Node::start(config).await;
    let mut busy = TcpStream::connect(node.address).await.unwrap();
    let head = b"POST /v1/agents HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\
        content-type: application/json\r\n\r\n{";
    busy.write_all(head).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = std::time::Instant::now();
    let (drained, _dir) = node.stop().await;
    assert_eq!(drained.cut, 1);
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let mut config = config();
    config.limits.connections = 2;
    config.limits.header_read = Duration::from_millis(700);
    let node = Node::start(config).await;
    let _first = TcpStream::connect(node.address).await.unwrap();
    let _second = TcpStream::connect(node.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = std::time::Instant::now();
    // Served once the silent two have been ended.
    assert_eq!(node.send(&Request::get("/healthz")).await.status, 200);
    assert!(started.elapsed() > Duration::from_millis(300));
}

#[tokio::test]
async fn tls() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = Some(TlsFiles { cert: cert.clone(), key: key.clone() });
    let node = Node::start(Config { tls, ..config() }).await;
    let url = format!("https://localhost:{}", node.address.port());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([trusted]).build().unwrap();
    let ada = Agent::new(1);
    let client = skep_sdk::Client::new(&url)
        .unwrap()
        .with_http(http.clone())
        .with_key(ada.wallet.address(), ada.key.clone());
    client.register_agent(&ada.registration()).await.unwrap();
    client.faucet(usdc("1")).await.unwrap();
    let answer = http.get(format!("{url}/healthz")).send().await.unwrap();
    assert!(answer.headers().contains_key("strict-transport-security"));

    let swapped = Some(TlsFiles { cert: key, key: cert });
    let market = node.market.clone();
    let error = Server::bind(Config { tls: swapped, ..config() }, market).await.unwrap_err();
    assert!(matches!(error, StartError::Tls(_)), "{error}");
}

/// Where the authority is in the URI and there is no `Host`.
#[tokio::test]
async fn http_2_is_signed_alike() {
    let node = Node::start(config()).await;
    let ada = node.rich(1).await;
    let stream = TokioIo::new(TcpStream::connect(node.address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let path = format!("/v1/agents/{}/wallet", ada.wallet.address());
    let mut request = http::Request::new(http_body_util::Empty::<bytes::Bytes>::new());
    *request.uri_mut() = format!("{}{path}", node.url).parse().unwrap();
    *request.headers_mut() = Request::get(&path).signed(&node, &ada).headers;
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
}

#[tokio::test]
async fn nothing_is_exposed_by_accident() {
    let node = Node::start(config()).await;
    let everywhere = ([0, 0, 0, 0], 0).into();
    let bind = async |config| Server::bind(config, node.market.clone()).await.unwrap_err();
    let bare = Config { listen: everywhere, dev: false, ..config() };
    assert!(matches!(bind(bare.clone()).await, StartError::NotEncrypted { .. }));
    let dev = Config { dev: true, behind_proxy: true, ..bare.clone() };
    assert!(matches!(bind(dev).await, StartError::DevBeyondLoopback { .. }));
    let nameless = Config { behind_proxy: true, ..bare };
    assert!(matches!(bind(nameless).await, StartError::NoName { .. }));
}
