//! The engine `browser`: a real Chromium looks at pages that are served here.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use skep_probe::{Engines, browser::Limits};
use skep_wire::{conduit::CostCategory, settle::Hints};

use crate::{
    browser::{browsers_with, html},
    fixture::{
        Server, asking, assert_error, assert_failed, assert_verified, engines, inline, names, page,
        reply,
    },
};

/// What only a browser can see, since a script writes it.
const WRITTEN: &str = "<p id=old>old</p><script>
    setTimeout(() => { document.body.innerHTML += '<p id=new>Made by a script</p>' }, 100)
</script><button onclick=\"this.outerHTML = '<b>Pressed</b>'\">Go</button>";

async fn site() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/" => html(WRITTEN),
        "/data" => reply(200, "application/json", r#"{"state":"done"}"#),
        "/trouble" => reply(503, "text/html", "<p>later"),
        _ => reply(404, "text/html", "<p>nothing"),
    })
    .await
}

fn with_browser() -> Engines {
    // What never comes is waited for so long.
    let limits = Limits { action: Duration::from_secs(4), ..Limits::default() };
    engines().with_browsers(browsers_with(limits))
}

#[tokio::test]
async fn a_page_is_seen_as_a_person_sees_it() {
    let server = site().await;
    let engines = with_browser();
    let asked = json!({"expected_content": "made by a SCRIPT"});
    let fetched = engines.examine(&asking("http", Some(server.url("/")), &asked)).await;
    assert_failed(&fetched, "not there");

    let asked = json!({"expected_content": "made by a SCRIPT", "custom": {"wait_for": "#new"}});
    let seen = engines.examine(&asking("browser", Some(server.url("/")), &asked)).await;
    assert_verified(&seen);
    let steps = ["NAVIGATE", "WAIT_FOR", "EXTRACT", "SCREENSHOT", "FINGERPRINT", "CHECK"];
    assert_eq!(names(&seen), steps);
    assert_eq!(seen.actions[0].cost_category, Some(CostCategory::Billable));
    assert_eq!(seen.fingerprints.current, seen.actions[4].fingerprint);
    assert!(seen.extracted_content.as_ref().unwrap().contains("Made by a script"));
    let [picture] = &seen.attachments[..] else { panic!("{seen:?}") };
    assert_eq!(Some(picture.sha256), seen.actions[3].screenshot_sha256);
    assert_eq!(picture.media_type, "image/png");
    assert!(picture.bytes().unwrap().starts_with(b"\x89PNG"));
    let offer = engines.offers().into_iter().find(|offer| offer.kind == "browser").unwrap();
    assert!(steps.iter().all(|step| offer.actions.iter().any(|known| known == step)));

    // Steps that anybody could take.
    let press = json!({"action": "CLICK", "selector": "button", "screenshot": true});
    let asked = json!({
        "selector": "b", "expected_content": "pressed", "custom": {"steps": [press]},
    });
    let pressed = engines.examine(&asking("browser", Some(server.url("/")), &asked)).await;
    assert_verified(&pressed);
    assert_eq!(pressed.actions[1].action, "CLICK");
    assert!(pressed.actions[1].screenshot_sha256.is_some());

    let asked = json!({"selector": "$.state", "expected_content": "done"});
    let data = engines.examine(&asking("browser", Some(server.url("/data")), &asked)).await;
    assert_verified(&data);
}

#[tokio::test]
async fn a_page_that_was_seen_and_is_not_so_fails() {
    let server = site().await;
    let engines = with_browser();
    for (path, asked, reason) in [
        ("/", json!({"expected_content": "Made by hand"}), "not there"),
        ("/", json!({"selector": "h6"}), "matches nothing"),
        ("/", json!({"selector": "#old", "custom": {"wait_for": "#never"}}), "matches nothing"),
        ("/gone", json!({"selector": "p"}), "HTTP status 404"),
        ("/", json!({"selector": "p", "custom": {"status": 201}}), "HTTP status 200"),
    ] {
        let seen = engines.examine(&asking("browser", Some(server.url(path)), &asked)).await;
        assert_failed(&seen, reason);
    }
    let asked = json!({"selector": "p", "custom": {"status": 404}});
    assert_verified(&engines.examine(&asking("browser", Some(server.url("/no")), &asked)).await);
}

#[tokio::test]
async fn what_finds_nothing_out_is_an_error() {
    let server = site().await;
    let engines = with_browser();
    let step = |step: Value| json!({"selector": "p", "custom": {"steps": [step]}});
    for (url, asked, code) in [
        (server.url("/trouble"), json!({"selector": "p"}), "server_error"),
        ("http://127.0.0.1:1/".to_owned(), json!({"selector": "p"}), "unreachable"),
        ("http://10.1.2.3/".to_owned(), json!({"selector": "p"}), "refused_address"),
        ("file:///etc/passwd".to_owned(), json!({"selector": "p"}), "bad_url"),
        (server.url("/"), json!({"selector": "p["}), "bad_selector"),
        (server.url("/"), step(json!({"action": "CLICK", "selector": "#no"})), "not_found"),
        (server.url("/"), step(json!({"action": "EVAL", "script": "1"})), "tier"),
        (server.url("/"), step(json!({"action": "FLY"})), "bad_custom"),
        (
            server.url("/"),
            step(json!({"action": "FILL", "selector": "input", "text": "x"})),
            "bad_custom",
        ),
        (server.url("/"), step(json!({"action": "EXPORT_PROOF"})), "not_here"),
    ] {
        assert_error(&engines.examine(&asking("browser", Some(url), &asked)).await, code);
    }
    let nobody = asking("browser", Some(server.url("/")), &json!({"selector": "p"}));
    let missing = self::engines().examine(&nobody).await;
    assert_error(&missing, "no_browser");
    assert!(missing.failure_reason.unwrap().contains("install Chromium"));
}

#[tokio::test]
async fn a_change_is_told_by_the_browsers_own_fingerprint() {
    let changed = Arc::new(AtomicBool::new(false));
    let is_changed = Arc::clone(&changed);
    let server = Server::start(move |_| {
        let word = if is_changed.load(Ordering::Relaxed) { "after" } else { "before" };
        html(&format!("<p id=a></p><script>a.textContent = '{word}'</script>"))
    })
    .await;
    let engines = with_browser();
    let criteria = page("browser", server.url("/"), Some("#a"));
    let baseline = engines.fingerprint(&criteria).await.unwrap();
    let fetched = engines.fingerprint(&Hints { kind: None, ..criteria.clone() }).await.unwrap();
    assert_ne!(baseline, fetched, "only a browser sees what the script writes");
    let mut request = asking("browser", criteria.url.clone(), &json!({"selector": "#a"}));
    request.spec.fingerprint_delta = true;
    request.spec.baseline_fingerprint = Some(baseline);
    let same = engines.examine(&request).await;
    assert_failed(&same, "has not changed");
    assert_eq!(same.fingerprints.current, Some(baseline));
    changed.store(true, Ordering::Relaxed);
    let other = engines.examine(&request).await;
    assert_verified(&other);
    assert_eq!(names(&other).last(), Some(&"CHECK_CHANGED"));
}

#[tokio::test]
async fn a_browser_is_one_part_of_a_composite() {
    let server = site().await;
    let custom = json!({"mode": "in_order", "of": [
        {"type": "artifact", "expected_content": "link"},
        {"type": "browser", "selector": "#new", "custom": {"wait_for": "#new"}},
    ]});
    let mut request = asking("composite", Some(server.url("/")), &json!({ "custom": custom }));
    request.artifacts = vec![inline("a link")];
    let seen = with_browser().examine(&request).await;
    assert_verified(&seen);
    assert_eq!(seen.attachments.len(), 1);
    let picture = seen.actions.iter().find(|step| step.action == "SCREENSHOT").unwrap();
    assert_eq!(picture.input.as_ref().unwrap()["part"], "1");
}
