//! The engine `api`.

use serde_json::json;

use crate::fixture::{
    Server, asking, assert_error, assert_failed, assert_verified, engines, names, redirect, reply,
};

async fn service() -> Server {
    Server::start(|asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/health") => {
            reply(200, "application/json", r#"{"status":"ok","load":1.0,"peers":[],"last":null}"#)
        }
        ("POST", "/sum") => {
            let numbers: Vec<i64> = serde_json::from_str(&asked.body).unwrap();
            let sum: i64 = numbers.iter().sum();
            reply(201, "application/json", json!({"sum": sum}).to_string())
        }
        ("POST", "/moved") => redirect(302, "/health"),
        ("GET", "/moved") => redirect(302, "/health"),
        ("GET", "/html") => reply(200, "text/html", "<p>no"),
        _ => reply(405, "application/json", "{}"),
    })
    .await
}

#[tokio::test]
async fn an_answer_as_it_should_be_is_verified() {
    let server = service().await;
    let engines = engines();
    for (path, asked) in [
        ("/health", json!({})),
        ("/health", json!({"selector": "$.status", "custom": {"equals": "ok"}})),
        ("/health", json!({"selector": "$.load", "custom": {"equals": 1}})),
        ("/health", json!({"selector": "$.last", "custom": {"equals": null}})),
        ("/health", json!({"selector": "$.status", "expected_content": "OK"})),
        (
            "/health",
            json!({"custom": {"json_schema": {
                "type": "object", "required": ["status"],
                "properties": {"status": {"enum": ["ok", "busy"]}},
            }}}),
        ),
        (
            "/sum",
            json!({"selector": "$.sum", "custom": {
                "method": "post", "body": [1, 2, 3], "status": 201, "equals": 6,
            }}),
        ),
        ("/moved", json!({"selector": "$.status", "custom": {"equals": "ok"}})),
    ] {
        let request = asking("api", Some(server.url(path)), &asked);
        assert_verified(&engines.examine(&request).await);
    }
}

#[tokio::test]
async fn a_request_is_sent_as_it_is_described() {
    let server = service().await;
    let asked = json!({"selector": "$.sum", "custom": {
        "method": "POST", "body": [4, 5], "status": 201, "equals": 9,
        "headers": {"X-Trace": "abc", "Accept": "application/problem+json"},
    }});
    let examination = engines().examine(&asking("api", Some(server.url("/sum")), &asked)).await;
    assert_verified(&examination);
    assert_eq!(names(&examination), ["REQUEST", "EXTRACT", "FINGERPRINT", "CHECK"]);
    assert_eq!(examination.extracted_content.as_deref(), Some("9"));
    let asked = &server.asked()[0];
    assert_eq!((asked.method.as_str(), asked.body.as_str()), ("POST", "[4,5]"));
    assert_eq!(asked.header("x-trace"), Some("abc"));
    assert_eq!(asked.header("accept"), Some("application/problem+json"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn an_answer_that_is_not_as_it_should_be_fails() {
    let server = service().await;
    let engines = engines();
    for (path, asked, reason) in [
        ("/health", json!({"selector": "$.status", "custom": {"equals": "busy"}}), "not equal"),
        ("/health", json!({"selector": "$.*", "custom": {"equals": "ok"}}), "4 values"),
        ("/health", json!({"selector": "$.none", "custom": {"equals": null}}), "matches nothing"),
        (
            "/health",
            json!({"custom": {"json_schema": {"type": "array"}}}),
            "json_schema: at the top",
        ),
        ("/health", json!({"custom": {"status": 201}}), "HTTP status 200 instead of 201"),
        ("/html", json!({"custom": {"json_schema": {}}}), "not good JSON"),
        ("/sum", json!({}), "HTTP status 405"),
        // A POST is meant for one address.
        ("/moved", json!({"custom": {"method": "POST", "body": {}}}), "HTTP status 302"),
    ] {
        let examination = engines.examine(&asking("api", Some(server.url(path)), &asked)).await;
        assert_failed(&examination, reason);
    }
}

#[tokio::test]
async fn a_request_that_must_not_be_sent_is_an_error() {
    let server = service().await;
    let engines = engines();
    for custom in [
        json!({"method": "DELETE"}),
        json!({"body": {"a": 1}}),
        json!({"headers": {"Authorization": "Bearer x"}}),
        json!({"headers": {"Host": "internal"}}),
        json!({"headers": {"Cookie": "a=b"}}),
        json!({"headers": {"X-A": 7}}),
    ] {
        let asked = json!({"custom": custom});
        let examination =
            engines.examine(&asking("api", Some(server.url("/health")), &asked)).await;
        assert_error(&examination, "bad_custom");
    }
    let asked = json!({"custom": {"headers": {"x-split": "a\r\nb: c"}}});
    let examination = engines.examine(&asking("api", Some(server.url("/health")), &asked)).await;
    assert_error(&examination, "bad_header");
    assert_eq!(server.asked().len(), 0);
}
