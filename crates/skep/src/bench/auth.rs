//! Signed requests against bare signature checks, and against a handler without any of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use skep_agent::Keyring;
use skep_api::{Config, Server};
use skep_base::ed25519::SecretKey;
use skep_market::Market;
use skep_store::{Options, Store};
use skep_wire::http_signature::{self, KeyId, Message, Signer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::{Figure, progress};
use crate::client::now;

/// Connections that ask at the same time.
const CONNECTIONS: usize = 32;
/// Signed requests made beforehand, so that the clock sees only the server's work.
const REQUESTS: usize = 4000;

pub(super) async fn measure(time: Duration) -> Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("skep.db").display());
    let store = Store::open(&url, Options::default()).await?;
    let market = Market::new(store, SecretKey::from_seed([1; 32]), true);
    let (keyring, _) = Keyring::create([7; 32]);
    market.register_agent(keyring.registration(now(), None, None, None)).await?;
    let mut config = Config::new("127.0.0.1:0".parse()?);
    config.dev = true;
    config.rates = None;
    let server = Server::bind(config, market).await?;
    let address = server.local_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        // Dropping the sender is as good as sending.
        let _ = stopped.await;
    }));
    progress("bare Ed25519 checks on one core");
    let bare = bare_checks(&keyring, time)?;
    progress("unsigned requests");
    let host = address.to_string();
    let plain = vec![format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes()];
    let unsigned = ask(&host, Arc::new(plain), time).await?;
    progress("signed requests");
    let requests = Arc::new(signed_requests(&keyring, &host)?);
    let signed = ask(&host, requests, time).await?;
    drop(stop);
    serving.await.context("the server ended in a panic")?;
    Ok(vec![
        Figure::new(
            "signed requests (peer: bare Ed25519 checks on one core)",
            signed,
            bare,
            "requests/s to checks/s",
            None,
        ),
        Figure::new(
            "signed requests (peer: an unsigned handler on the same server)",
            signed,
            unsigned,
            "requests/s",
            None,
        ),
    ])
}

fn bare_checks(keyring: &Keyring, time: Duration) -> Result<f64> {
    let message = [0x5a; 256];
    let (key, signature) = (keyring.public_key(), keyring.sign(&message));
    let started = Instant::now();
    let mut checks = 0_u64;
    while started.elapsed() < time {
        for _ in 0..100 {
            key.verify(std::hint::black_box(&message), &signature)?;
        }
        checks += 100;
    }
    Ok(checks as f64 / started.elapsed().as_secs_f64())
}

/// Signed reads of the agent's inbox: the whole way, and an answer that is nearly empty.
fn signed_requests(keyring: &Keyring, host: &str) -> Result<Vec<Vec<u8>>> {
    let path = format!("/v1/agents/{}/inbox", keyring.agent_id());
    let query = "limit=1&cursor=1000000";
    (0..REQUESTS)
        .map(|n| {
            let headers = http::HeaderMap::new();
            let message = Message {
                method: "GET",
                authority: host,
                path: &path,
                query: Some(query),
                headers: &headers,
                body: b"",
            };
            let signer = Signer {
                key: keyring.secret(),
                key_id: KeyId::Agent(keyring.agent_id()),
                created: now(),
                lifetime: Duration::from_secs(300),
                nonce: &format!("bench-nonce-{n:016}"),
            };
            let mut text = format!("GET {path}?{query} HTTP/1.1\r\nhost: {host}\r\n");
            for (name, value) in http_signature::sign(&message, &signer)? {
                text.push_str(&format!("{name}: {}\r\n", value.to_str()?));
            }
            text.push_str("\r\n");
            Ok(text.into_bytes())
        })
        .collect()
}

/// Asks over plain sockets, so that a client's own work is as small as can be.
async fn ask(host: &str, requests: Arc<Vec<Vec<u8>>>, time: Duration) -> Result<f64> {
    let answered = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let (host, requests) = (host.to_owned(), requests.clone());
            let answered = answered.clone();
            tokio::spawn(async move {
                let mut socket = TcpStream::connect(host).await?;
                socket.set_nodelay(true)?;
                let mut buffer = vec![0; 16 * 1024];
                let mut place = n * requests.len() / CONNECTIONS;
                while started.elapsed() < time {
                    socket.write_all(&requests[place % requests.len()]).await?;
                    let read = socket.read(&mut buffer).await?;
                    anyhow::ensure!(
                        buffer[..read].starts_with(b"HTTP/1.1 200"),
                        "an unexpected answer: {}",
                        String::from_utf8_lossy(&buffer[..read.min(400)])
                    );
                    answered.fetch_add(1, Ordering::Relaxed);
                    place += 1;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(answered.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64())
}
