//! What the interface says about itself.

use expect_test::expect_file;

use crate::world::{Node, Request, config};

/// `UPDATE_EXPECT=1 cargo test` writes it anew.
#[test]
fn the_description_is_the_one_in_the_repository() {
    expect_file!["../../openapi.json"].assert_eq(&skep_api::openapi());
}

#[tokio::test]
async fn pages_are_served() {
    let node = Node::start(config()).await;
    let openapi = node.send(&Request::get("/openapi.json")).await;
    assert_eq!(openapi.body, skep_api::openapi());
    let docs = node.send(&Request::get("/docs")).await;
    for path in openapi.json()["paths"].as_object().unwrap().keys() {
        assert!(docs.body.contains(path.as_str()), "{path}");
    }
    assert_eq!(docs.header("content-type"), "text/html; charset=utf-8");
    assert!(docs.header("content-security-policy").starts_with("default-src 'none'; style-src"));
    let problem = node.send(&Request::get("/problems/nonce_reused")).await;
    assert_eq!(problem.status, 200);
    let home = node.send(&Request::get("/")).await;
    assert_eq!((home.status, home.header("location")), (307, "/docs"));
}

#[tokio::test]
async fn operations() {
    let node = Node::start(config()).await;
    let alive = node.send(&Request::get("/healthz")).await;
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    assert_eq!(node.send(&Request::get("/readyz")).await.status, 200);
    node.send(&Request::get("/v1/agents/0x0000000000000000000000000000000000000007")).await;
    let metrics = node.send(&Request::get("/metrics")).await.body;
    let line = r#"http_requests_total{method="GET",route="/v1/agents/{id}",status="404"}"#;
    assert!(metrics.contains(line), "{metrics}");
    assert!(metrics.contains("http_request_duration_seconds_bucket"), "{metrics}");
    assert!(!metrics.contains("0x00"), "{metrics}");
    for gauge in [
        "reviews_waiting 0",
        "reviews_oldest_age_s 0",
        "score_qualification_rate 0",
        "score_qualification_over_limit 0",
    ] {
        assert!(metrics.contains(gauge), "{metrics}");
    }
}
