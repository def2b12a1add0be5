//! What never ends is given up in time.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use serde_json::json;
use skep_probe::{Egress, Policy, Request};

use crate::fixture::{
    Reply, Server, asking, assert_error, assert_verified, dev, engines, engines_with, names, reply,
};

const ENDLESS: &str = "HTTP/1.1 200 X\r\ncontent-type: text/plain\r\n\r\n";
const HUGE: &str = "HTTP/1.1 200 X\r\ncontent-length: 1073741824\r\n\r\n";

#[tokio::test]
async fn a_body_without_end_is_given_up_soon() {
    for head in [ENDLESS, HUGE] {
        let server = Server::start(|_| Reply::Endless(head.to_owned())).await;
        let egress = Egress::new(dev()).unwrap();
        assert_eq!(egress.get(&server.url("/")).await.unwrap_err().code(), "too_large");
        // Beyond the limit there is only what the two sockets hold.
        let sent = server.sent.load(Ordering::Relaxed);
        assert!(sent < 32 << 20, "{sent} bytes were taken");
    }
}

#[tokio::test]
async fn the_last_byte_that_fits_is_taken() {
    let server = Server::start(|_| reply(200, "text/plain", [b'x'; 1000])).await;
    let egress = Egress::new(dev()).unwrap();
    let fits = Request { body_max: Some(1000), ..Request::get(server.url("/")) };
    assert_eq!(egress.send(fits).await.unwrap().body.len(), 1000);
    let over = Request { body_max: Some(999), ..Request::get(server.url("/")) };
    assert_eq!(egress.send(over).await.unwrap_err().code(), "too_large");
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_in_time() {
    let server = Server::start(|_| Reply::Drip(ENDLESS.to_owned())).await;
    let policy = Policy { timeout: Duration::from_millis(300), ..dev() };
    let since = Instant::now();
    let error = Egress::new(policy).unwrap().get(&server.url("/")).await.unwrap_err();
    assert_eq!(error.code(), "timeout");
    assert!(since.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn headers_that_drip_are_given_up_in_time() {
    let server = Server::start(|_| Reply::Drip("HTTP/1.1 200 X\r\nx: ".to_owned())).await;
    let policy = Policy { timeout: Duration::from_millis(300), ..dev() };
    let error = Egress::new(policy).unwrap().get(&server.url("/")).await.unwrap_err();
    assert_eq!(error.code(), "timeout");
}

#[tokio::test]
async fn an_examination_ends_when_the_request_says() {
    let server = Server::start(|_| Reply::Drip(ENDLESS.to_owned())).await;
    let mut request = asking("http", Some(server.url("/")), &json!({}));
    request.spec.timeout_seconds = 1;
    let since = Instant::now();
    let examination = engines().examine(&request).await;
    assert_error(&examination, "timeout");
    assert!(since.elapsed() < Duration::from_secs(5));
    // What was cut off is in the log, as a step that did not succeed.
    assert_eq!(names(&examination), ["NAVIGATE"]);
    assert!(!examination.actions[0].success);

    let policy = Policy { timeout: Duration::from_millis(200), ..dev() };
    request.spec.timeout_seconds = 60;
    assert_error(&engines_with(policy).examine(&request).await, "timeout");
}

#[tokio::test]
async fn a_search_made_to_take_long_is_given_up_in_time() {
    let wide = "<li>".repeat(100_000);
    let server = Server::start(move |_| reply(200, "text/html", &wide)).await;
    let asked = json!({"selector": "li:nth-last-child(3)"});
    let mut request = asking("http", Some(server.url("/")), &asked);
    request.spec.timeout_seconds = 2;
    let since = Instant::now();
    assert_error(&engines().examine(&request).await, "timeout");
    assert!(since.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn many_are_examined_at_once() {
    let server = Server::start(|_| reply(200, "text/html", "<h1>x")).await;
    let engines = engines();
    let request = asking("http", Some(server.url("/")), &json!({"selector": "h1"}));
    let mut running = Vec::new();
    for _ in 0..20 {
        let (engines, request) = (engines.clone(), request.clone());
        running.push(tokio::spawn(async move { engines.examine(&request).await }));
    }
    for examination in running {
        assert_verified(&examination.await.unwrap());
    }
}
