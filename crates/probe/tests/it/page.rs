//! The engine `http`.

use serde_json::json;
use skep_base::hash::sha256;
use skep_probe::Policy;
use skep_wire::settle::EXTRACT_LEN_MAX;

use crate::fixture::{
    Server, asking, assert_error, assert_failed, assert_verified, engines, engines_with, names,
    now, page, redirect, reply, request,
};

const PAGE: &str = "<!doctype html><title>Shop</title><body><h1>Cafe\u{301}\n  Central</h1>\
    <p class=price>12 EUR</p><p class=price>14 EUR</p><script>var hidden = 'secret'</script>";

async fn site() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/page" => reply(200, "text/html; charset=utf-8", PAGE),
        "/moved" => redirect(302, "/page"),
        "/inside" => redirect(302, "http://169.254.169.254/latest/"),
        "/data" => {
            reply(200, "application/json", r#"{"items":[{"id":1,"name":"Ärger"},{"id":2}]}"#)
        }
        "/twice" => reply(200, "application/json", r#"{"a":1,"a":2}"#),
        "/text" => reply(200, "text/plain", "Plain  TEXT\n<b>here</b>"),
        "/image" => reply(200, "image/png", b"\x89PNG\r\n\x1a\n\0\0"),
        "/long" => reply(200, "text/plain", "ä".repeat(EXTRACT_LEN_MAX)),
        "/created" => reply(201, "text/plain", "made"),
        path => reply(path[1..].parse().unwrap_or(404), "text/html", "<p>sorry"),
    })
    .await
}

#[tokio::test]
async fn a_page_with_the_content_is_verified() {
    let server = site().await;
    let url = server.url("/page");
    let asked = json!({"selector": "h1", "expected_content": "CAFÉ central"});
    for kind in ["http", "url"] {
        let examination = engines().examine(&asking(kind, Some(url.clone()), &asked)).await;
        assert_verified(&examination);
        assert_eq!(names(&examination), ["NAVIGATE", "EXTRACT", "FINGERPRINT", "CHECK"]);
        assert_eq!(examination.extracted_content.as_deref(), Some("Cafe\u{301}\n  Central"));
        assert_eq!(examination.actions[0].url.as_deref(), Some(url.as_str()));
        assert_eq!(examination.actions[1].selector.as_deref(), Some("h1"));
        assert_eq!(examination.actions[1].timestamp, now());
        let snippet = examination.actions[0].data_snippet.as_deref().unwrap();
        assert!(snippet.starts_with("HTTP 200, text/html"), "{snippet}");
    }
}

#[tokio::test]
async fn content_that_is_not_there_fails() {
    let server = site().await;
    let engines = engines();
    for (path, asked, reason) in [
        ("/page", json!({"expected_content": "closed"}), "\"closed\" is not there"),
        ("/page", json!({"expected_content": "secret"}), "not there"),
        ("/page", json!({"expected_content": "CentralCafe"}), "not there"),
        ("/page", json!({"selector": "h2"}), "matches nothing"),
        ("/page", json!({"selector": "$.a"}), "not good JSON"),
        ("/data", json!({"selector": "h1"}), "not HTML"),
        ("/data", json!({"selector": "$.items[5]"}), "matches nothing"),
        ("/twice", json!({"selector": "$.a"}), "occurs twice"),
        ("/image", json!({"expected_content": "PNG"}), "not text"),
        ("/404", json!({}), "HTTP status 404"),
        ("/created", json!({"custom": {"status": 200}}), "HTTP status 201 instead of 200"),
    ] {
        let examination = engines.examine(&asking("http", Some(server.url(path)), &asked)).await;
        assert_failed(&examination, reason);
        assert!(!examination.actions.last().unwrap().success);
    }
}

#[tokio::test]
async fn every_kind_of_criterion_can_be_met() {
    let server = site().await;
    let engines = engines();
    for (path, asked) in [
        ("/page", json!({})),
        ("/page", json!({"expected_content": "12 eur 14 EUR"})),
        ("/page", json!({"selector": ".price", "expected_content": "12 EUR\n14 EUR"})),
        ("/page", json!({"selector": "title", "expected_content": "shop"})),
        ("/moved", json!({"expected_content": "central"})),
        ("/text", json!({"expected_content": "plain text <B>"})),
        ("/data", json!({"selector": "$.items[0].name", "expected_content": "ÄRGER"})),
        ("/data", json!({"selector": "$.items[*].id", "expected_content": "2"})),
        ("/data", json!({"custom": {"json_schema": {"required": ["items"]}}})),
        ("/data", json!({"selector": "$..id", "custom": {"json_schema": {"type": "integer"}}})),
        ("/404", json!({"custom": {"status": 404}})),
        ("/503", json!({"custom": {"status": 503}})),
        ("/created", json!({"custom": {"status": 201, "unknown_field": [1]}})),
        ("/image", json!({})),
    ] {
        let request = asking("http", Some(server.url(path)), &asked);
        assert_verified(&engines.examine(&request).await);
    }
}

#[tokio::test]
async fn an_outage_or_a_bad_criterion_is_an_error() {
    let server = site().await;
    let engines = engines();
    for (path, asked, code) in [
        ("/500", json!({}), "server_error"),
        ("/503", json!({"custom": {"status": 200}}), "server_error"),
        ("/429", json!({}), "server_error"),
        ("/inside", json!({}), "refused_address"),
        ("/page", json!({"selector": "h1["}), "bad_selector"),
        ("/page", json!({"selector": ""}), "bad_selector"),
        ("/data", json!({"selector": "$.items["}), "bad_selector"),
        ("/page", json!({"selector": "h".repeat(2000)}), "bad_selector"),
        // The criterion is bad whatever the page is like.
        ("/404", json!({"selector": "$["}), "bad_selector"),
        ("/404", json!({"custom": {"json_schema": {"type": 7}}}), "bad_schema"),
        ("/404", json!({"custom": {"json_schema": {"$ref": "http://x/"}}}), "bad_schema"),
        ("/page", json!({"custom": {"status": "two hundred"}}), "bad_custom"),
        ("/page", json!({"custom": [1]}), "bad_custom"),
    ] {
        let examination = engines.examine(&asking("http", Some(server.url(path)), &asked)).await;
        assert_error(&examination, code);
    }
    assert_error(&engines.examine(&request("http")).await, "no_url");
    let request = asking("http", Some("ftp://example.com".to_owned()), &json!({}));
    assert_error(&engines.examine(&request).await, "bad_url");
    assert_error(&engines.examine(&self::request("llm_eval")).await, "unsupported_engine");
}

#[tokio::test]
async fn this_machine_is_not_examined_for_strangers() {
    let server = site().await;
    let strict = engines_with(Policy::default());
    let examination = strict.examine(&asking("http", Some(server.url("/page")), &json!({}))).await;
    assert_error(&examination, "refused_address");
    assert_eq!(server.asked().len(), 0);
}

#[tokio::test]
async fn a_change_is_told_from_its_baseline() {
    let server = site().await;
    let engines = engines();
    let baseline =
        engines.fingerprint(&page("http", server.url("/page"), Some("h1"))).await.unwrap();
    // Folded as a content check folds it.
    assert_eq!(baseline, sha256("café central".as_bytes()));

    let mut request = asking("http", Some(server.url("/page")), &json!({"selector": "h1"}));
    request.spec.fingerprint_delta = true;
    assert_error(&engines.examine(&request).await, "no_baseline");

    request.spec.baseline_fingerprint = Some(baseline);
    let examination = engines.examine(&request).await;
    assert_failed(&examination, "has not changed");
    assert_eq!(names(&examination), ["NAVIGATE", "EXTRACT", "FINGERPRINT", "CHECK_CHANGED"]);
    assert_eq!(examination.fingerprints.baseline, Some(baseline));
    assert_eq!(examination.fingerprints.current, Some(baseline));

    request.spec.baseline_fingerprint = Some(sha256(b"before"));
    assert_verified(&engines.examine(&request).await);
}

#[tokio::test]
async fn a_baseline_can_be_taken_of_what_is_not_there_yet() {
    let server = site().await;
    let engines = engines();
    let nothing = Ok(sha256(b""));
    assert_eq!(
        engines.fingerprint(&page("http", server.url("/page"), Some("#new"))).await,
        nothing
    );
    assert_eq!(engines.fingerprint(&page("http", server.url("/404"), None)).await, nothing);
    let whole = engines.fingerprint(&page("http", server.url("/page"), None)).await.unwrap();
    assert_eq!(whole, sha256("café central 12 eur 14 eur".as_bytes()));
    let image = engines.fingerprint(&page("http", server.url("/image"), None)).await.unwrap();
    assert_eq!(image, sha256(b"\x89PNG\r\n\x1a\n\0\0"));
    for (path, selector, code) in [
        ("/page", Some("h1["), "bad_selector"),
        ("/500", None, "http_status"),
        ("/inside", None, "refused_address"),
        ("/text", Some("$.a"), "bad_content"),
    ] {
        let report =
            engines.fingerprint(&page("http", server.url(path), selector)).await.unwrap_err();
        assert_eq!(report.code, code);
    }
}

#[tokio::test]
async fn a_long_extract_is_cut_and_still_judged_in_full() {
    let server = site().await;
    let asked = json!({"expected_content": "Ä".repeat(EXTRACT_LEN_MAX)});
    let examination = engines().examine(&asking("http", Some(server.url("/long")), &asked)).await;
    assert_verified(&examination);
    assert_eq!(examination.extracted_content.unwrap().len(), EXTRACT_LEN_MAX);
    let snippet = examination.actions[1].data_snippet.as_ref().unwrap();
    assert_eq!(snippet.chars().count(), 200);
}

#[tokio::test]
async fn the_engines_offer_what_their_logs_can_hold() {
    let offers = engines().offers();
    let kinds: Vec<&str> = offers.iter().map(|offer| offer.kind.as_str()).collect();
    assert_eq!(kinds, ["http", "api", "artifact", "composite"]);
    let server = site().await;
    let mut request = asking("http", Some(server.url("/page")), &json!({"expected_content": "c"}));
    request.spec.fingerprint_delta = true;
    request.spec.baseline_fingerprint = Some(sha256(b"before"));
    let examination = engines().examine(&request).await;
    assert_verified(&examination);
    assert_eq!(names(&examination), offers[0].actions);
}
