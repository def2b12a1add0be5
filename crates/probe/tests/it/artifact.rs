//! The engine `artifact`.

use serde_json::{Value, json};
use skep_base::hash::sha256;
use skep_probe::Examination;
use skep_wire::settle::Artifact;

use crate::fixture::{
    Server, asking, assert_error, assert_failed, assert_verified, at, engines, inline, names, reply,
};

const REPORT: &str = r#"{"title":"Report","rows":[1,2,3]}"#;

async fn examine(artifacts: Vec<Artifact>, asked: &Value) -> Examination {
    let mut request = asking("artifact", None, asked);
    request.artifacts = artifacts;
    engines().examine(&request).await
}

#[tokio::test]
async fn an_artifact_that_meets_every_check_is_verified() {
    let hash = sha256(REPORT.as_bytes());
    let artifact = Artifact { hash: Some(hash), ..inline(REPORT) };
    let asked = json!({
        "selector": "$.rows", "expected_content": "2,3",
        "custom": {
            "sha256": hash, "size_min": 10, "size_max": REPORT.len(), "media_type": "json",
            "json_schema": {"type": "array", "items": {"type": "integer"}, "minItems": 3},
            "equals": [1, 2, 3],
        },
    });
    let examination = examine(vec![artifact], &asked).await;
    assert_verified(&examination);
    assert_eq!(names(&examination), ["READ", "HASH", "CHECK", "EXTRACT", "CHECK"]);
    assert_eq!(examination.extracted_content.as_deref(), Some("[1,2,3]"));
    assert_eq!(examination.artifact_hashes, [hash]);
}

#[tokio::test]
async fn artifacts_are_fetched_where_they_are_not_inline() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/page" => reply(200, "text/html", "<ul><li>one<li>two"),
        "/image" => reply(200, "image/png", b"\x89PNG\r\n\x1a\n\0"),
        path => reply(path[1..].parse().unwrap(), "text/plain", ""),
    })
    .await;
    let page = at(&server.url("/page"));
    let image = at(&server.url("/image"));
    let asked = json!({"selector": "li:last-child", "expected_content": "TWO"});
    let examination = examine(vec![page.clone(), image.clone()], &asked).await;
    assert_verified(&examination);
    let steps = ["FETCH", "HASH", "FETCH", "HASH", "EXTRACT", "CHECK"];
    assert_eq!(names(&examination), steps);
    assert_eq!(examination.artifact_hashes[1], sha256(b"\x89PNG\r\n\x1a\n\0"));

    let asked = json!({"custom": {"index": 1, "media_type": "image/png", "size_max": 9}});
    let examination = examine(vec![page.clone(), image], &asked).await;
    assert_verified(&examination);
    assert_eq!(examination.extracted_content, None);

    let wrong = Artifact { hash: Some(sha256(b"other")), ..page };
    assert_failed(&examine(vec![wrong], &json!({})).await, "artifact_hash_mismatch");
    assert_failed(&examine(vec![at(&server.url("/404"))], &json!({})).await, "HTTP status 404");
    assert_error(&examine(vec![at(&server.url("/503"))], &json!({})).await, "server_error");
    let inside = at("http://169.254.169.254/latest/");
    assert_error(&examine(vec![inside], &json!({})).await, "refused_address");
}

#[tokio::test]
async fn each_check_can_fail() {
    let html = "<!doctype html><h1>Title</h1>";
    for (content, asked, reason) in [
        (REPORT, json!({"custom": {"sha256": sha256(b"x")}}), "the SHA-256 is"),
        (REPORT, json!({"custom": {"size_min": 1000}}), "less than 1000"),
        (REPORT, json!({"custom": {"size_max": 10}}), "more than 10"),
        (REPORT, json!({"custom": {"media_type": "image/png"}}), "application/json instead of"),
        (html, json!({"custom": {"media_type": "json"}}), "media type text/html"),
        (REPORT, json!({"custom": {"json_schema": {"required": ["name"]}}}), "json_schema"),
        ("{", json!({"custom": {"json_schema": {}}}), "not good JSON"),
        (REPORT, json!({"custom": {"equals": {}}}), "not equal"),
        (REPORT, json!({"selector": "$.name"}), "matches nothing"),
        (html, json!({"selector": "h2"}), "matches nothing"),
        (REPORT, json!({"selector": "h1"}), "not HTML"),
        (REPORT, json!({"expected_content": "summary"}), "not there"),
        (REPORT, json!({"custom": {"index": 1}}), "no artifact 1"),
    ] {
        assert_failed(&examine(vec![inline(content)], &asked).await, reason);
    }
}

#[tokio::test]
async fn every_artifact_is_held_to_its_declared_hash() {
    let good = Artifact { hash: Some(sha256(b"one")), ..inline("one") };
    let bad = Artifact { hash: Some(sha256(b"two")), ..inline("2") };
    let examination = examine(vec![good, bad], &json!({"expected_content": "one"})).await;
    assert_failed(&examination, "artifact_hash_mismatch: artifact 1");
    assert_eq!(names(&examination), ["READ", "HASH", "READ", "HASH"]);
    assert_eq!(examination.artifact_hashes, [sha256(b"one"), sha256(b"2")]);
}

#[tokio::test]
async fn nothing_delivered_is_a_failure() {
    assert_failed(&examine(vec![], &json!({})).await, "no artifact");
    let empty = Artifact { content: None, ..inline("") };
    assert_failed(&examine(vec![empty], &json!({})).await, "neither content nor an address");
}

#[tokio::test]
async fn a_bad_criterion_is_an_error() {
    for (asked, code) in [
        (json!({"selector": "$["}), "bad_selector"),
        (json!({"custom": {"json_schema": "x"}}), "bad_schema"),
        (json!({"custom": {"sha256": "xyz"}}), "bad_custom"),
        (json!({"custom": {"media_type": "video/mp4"}}), "bad_custom"),
    ] {
        assert_error(&examine(vec![inline(REPORT)], &asked).await, code);
    }
    let mut request = asking("artifact", None, &json!({}));
    request.artifacts = vec![inline(REPORT)];
    request.spec.fingerprint_delta = true;
    assert_error(&engines().examine(&request).await, "no_baseline");
}
