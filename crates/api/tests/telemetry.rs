//! Traces arrive at a collector: a process of its own, since logs are set up once in each.

#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

use std::time::Duration;

use skep_api::telemetry::{self, LogFormat};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[tokio::test(flavor = "multi_thread")]
async fn spans_are_sent_to_the_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        // Reads until the name of the span has come.
        while !request.windows(9).any(|part| part == b"test-span") {
            let mut buffer = [0; 4096];
            let len = stream.read(&mut buffer).await.unwrap();
            assert!(len > 0);
            request.extend_from_slice(&buffer[..len]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&request).into_owned()
    });
    let guard = telemetry::init_with(LogFormat::Json, Some(&endpoint)).unwrap();
    assert!(guard.exports_traces());
    tracing::info_span!("test-span").in_scope(|| tracing::info!("inside"));
    assert!(telemetry::init_with(LogFormat::Text, None).is_err());
    // As at the end of an async main.
    drop(guard);
    let request = tokio::time::timeout(Duration::from_secs(20), received).await.unwrap().unwrap();
    assert!(request.starts_with("POST /v1/traces HTTP/1.1"), "{request}");
    assert!(request.contains("service.name"), "{request}");
}
