use std::time::Duration;

use axum::routing::get;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::config::{Rate, Rates};

/// A server with routes that misbehave.
async fn start(change: impl FnOnce(&mut Config)) -> SocketAddr {
    let mut config = Config::new(([127, 0, 0, 1], 0).into());
    change(&mut config);
    let server = Server::bind_with(config, |_, _| {
        let slow = async || tokio::time::sleep(Duration::from_secs(60)).await;
        let broken = async || {
            if true {
                panic!("a planted bug");
            }
        };
        Router::new()
            .route("/slow", get(slow))
            .route("/panic", get(broken))
            .route("/", get(async || "fine"))
    });
    let server = server.await.unwrap();
    let local = server.local_addr();
    tokio::spawn(server.serve(std::future::pending()));
    local
}

async fn ask(address: SocketAddr, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn whatever_happens_there_is_an_answer() {
    let address = start(|config| config.limits.request = Duration::from_millis(200)).await;
    let answer = ask(address, "/panic", "").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(answer.contains("\"code\":\"internal\"") && answer.contains("\"request_id\":\"req_"));
    assert!(!answer.contains("planted"), "{answer}");
    let answer = ask(address, "/slow", "").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"request_timeout\""), "{answer}");
    assert!(ask(address, "/", "").await.ends_with("fine"));
}

/// What a client writes into the header itself does not count; what the proxy appends does.
#[tokio::test]
async fn behind_a_proxy_callers_are_told_apart() {
    let one = Rate { burst: 1, per_second: 1 };
    let rates = Rates { address_read: one, ..Rates::default() };
    let address = start(|config| {
        config.behind_proxy = true;
        config.rates = Some(rates);
    });
    let address = address.await;
    let from = async |forwarded: &str| {
        let answer = ask(address, "/", &format!("x-forwarded-for: {forwarded}\r\n")).await;
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(from("192.0.2.1").await, "200");
    assert_eq!(from("198.51.100.9, 192.0.2.1").await, "429");
    assert_eq!(from("192.0.2.1, 192.0.2.2").await, "200");
    // Without a word of the proxy it is the proxy's own address.
    assert_eq!([from("").await, from("unknown").await], ["200", "429"]);
}

#[tokio::test]
async fn an_idle_connection_is_ended() {
    let address = start(|config| {
        config.limits.header_read = Duration::from_millis(300);
        config.limits.keep_alive_idle = Duration::from_millis(300);
    });
    let mut stream = TcpStream::connect(address.await).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    tokio::time::timeout(Duration::from_secs(5), read).await.unwrap().unwrap();
    assert!(answer.contains("fine"), "{answer}");
}
