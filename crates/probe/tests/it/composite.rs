//! The engine `composite`, over real parts.

use serde_json::{Value, json};
use skep_wire::settle::{ACTIONS_MAX, VerificationRequest};

use crate::fixture::{
    Server, asking, assert_error, assert_failed, assert_verified, engines, inline, names, reply,
};

fn composite(mode: &str, n: Option<usize>, of: &[Value]) -> VerificationRequest {
    let mut custom = json!({"mode": mode, "of": of});
    if let Some(n) = n {
        custom["n"] = json!(n);
    }
    let mut request = asking("composite", None, &json!({ "custom": custom }));
    request.artifacts = vec![inline("the moon")];
    request
}

fn says(text: &str) -> Value {
    json!({"type": "artifact", "expected_content": text})
}

/// A part that nobody can find anything out about.
fn unclear() -> Value {
    json!({"type": "artifact", "selector": "$["})
}

#[tokio::test]
async fn parts_count_as_the_mode_says() {
    let engines = engines();
    let (good, bad, unclear) = (says("moon"), says("sun"), unclear());
    let run = |mode: &'static str, n: Option<usize>, of: Vec<Value>| {
        let engines = engines.clone();
        async move { engines.examine(&composite(mode, n, &of)).await }
    };
    let all = run("all", None, vec![good.clone(), good.clone()]).await;
    assert_verified(&all);
    assert_eq!(all.artifact_hashes.len(), 1, "the same artifact, looked at twice");
    let part = |action: &skep_wire::settle::Action| action.input.as_ref().unwrap()["part"].clone();
    let parts: Vec<Value> = all.actions.iter().map(part).collect();
    assert_eq!(parts.len(), all.actions.len());
    assert_eq!((&parts[0], parts.last().unwrap()), (&json!("0"), &json!("1")));

    // An error leaves it open; a failure after it does not.
    let failed = run("all", None, vec![unclear.clone(), bad.clone(), good.clone()]).await;
    assert_failed(&failed, "part 1 (artifact): the content \"sun\" is not there");
    let open = run("all", None, vec![unclear.clone(), good.clone()]).await;
    assert_error(&open, "bad_selector");
    let any = run("any", None, vec![bad.clone(), unclear.clone(), good.clone()]).await;
    assert_eq!(any.outcome, skep_wire::settle::Outcome::Verified);
    assert_failed(&run("any", None, vec![bad.clone(), bad.clone()]).await, "part 1");
    assert_error(&run("any", None, vec![bad.clone(), unclear.clone()]).await, "bad_selector");
    let two = run("at_least", Some(2), vec![good.clone(), bad.clone(), good.clone()]).await;
    assert_eq!(two.outcome, skep_wire::settle::Outcome::Verified);
    let stopped = run("in_order", None, vec![good.clone(), bad, unclear]).await;
    assert_failed(&stopped, "part 1");
    assert_eq!(names(&stopped).iter().filter(|name| **name == "READ").count(), 2);
}

#[tokio::test]
async fn parts_may_be_composites_and_share_the_deals_page() {
    let site = Server::start(|asked| match asked.path.as_str() {
        "/page" => reply(200, "text/html", "<h1>Moon</h1>"),
        _ => reply(404, "text/plain", "no"),
    })
    .await;
    let inner = json!({"mode": "any", "of": [
        {"type": "http", "expected_content": "sun"},
        {"type": "url", "selector": "h1", "expected_content": "moon"},
    ]});
    let mut request =
        composite("all", None, &[says("moon"), json!({"type": "composite", "custom": inner})]);
    request.spec.url = Some(site.url("/page"));
    let examination = engines().examine(&request).await;
    assert_eq!(examination.outcome, skep_wire::settle::Outcome::Verified, "{examination:#?}");
    let last = examination.actions.last().unwrap();
    assert_eq!(last.input, Some(json!({"part": "1.1"})));
    assert!(examination.fingerprints.current.is_some());
    request.spec.url = Some(site.url("/other"));
    assert_failed(&engines().examine(&request).await, "HTTP status 404");
}

#[tokio::test]
async fn a_composite_that_makes_no_sense_is_an_error() {
    for custom in [json!({}), json!({"mode": "all", "of": []}), json!([1])] {
        let mut request = composite("all", None, &[says("moon")]);
        request.spec.custom = Some(custom);
        assert_error(&engines().examine(&request).await, "bad_custom");
    }
    let unknown = composite("all", None, &[json!({"type": "psychic", "custom": {"a": 1}})]);
    assert_error(&engines().examine(&unknown).await, "unsupported_engine");
    // A log has an end, and nothing is verified beyond it.
    let mut long = composite("all", None, &vec![says("moon"); 8]);
    long.artifacts = (0..32).map(|_| inline("the moon")).collect();
    let examination = engines().examine(&long).await;
    assert_error(&examination, "too_many_steps");
    assert_eq!(examination.actions.len(), ACTIONS_MAX);
}
