//! A real Chromium against pages that are served here.

use std::path::Path;

use serde_json::{Value, json};
use skep_probe::{
    Egress,
    browser::{Browsers, Chromium, Done, Limits, Tab},
};
use skep_wire::{conduit::Act, settle::Tier};

use crate::fixture::{Reply, Server, dev, engines, reply};

pub fn browsers_with(limits: Limits) -> Browsers {
    let chromium = Chromium::find(None).expect("the tests of the browser need Chromium");
    Browsers::new(chromium, &Egress::new(dev()).unwrap(), limits, 2)
}

pub fn browsers() -> Browsers {
    browsers_with(Limits::default())
}

pub fn action(act: Value) -> Act {
    serde_json::from_value(act).unwrap()
}

/// Does something that must go well.
pub async fn good(tab: &mut Tab, act: Value) -> Done {
    let done = tab.act(&action(act.clone()), Tier::Trusted).await;
    assert!(done.error.is_none() && !done.fatal, "{act} gave {done:?}");
    done
}

/// Does something that must not go well, and gives the code.
pub async fn bad(tab: &mut Tab, act: Value) -> String {
    let done = tab.act(&action(act.clone()), Tier::Trusted).await;
    let error = done.error.unwrap_or_else(|| panic!("{act} went well: {:?}", done.data));
    assert!(!error.detail.is_empty());
    error.code
}

pub async fn go(tab: &mut Tab, url: &str) -> Done {
    good(tab, json!({"action": "NAVIGATE", "url": url})).await
}

pub fn html(body: &str) -> Reply {
    reply(200, "text/html; charset=utf-8", format!("<!doctype html>{body}"))
}

#[test]
fn without_a_browser_there_is_one_clear_sentence() {
    let error = Chromium::find(Some(Path::new("/nowhere/chromium"))).unwrap_err();
    assert_eq!(error.code(), "no_browser");
    assert!(error.to_string().contains("install Chromium"), "{error}");
}

const STATIC: &str = "<title>Shop</title><h1>Café  Central</h1><p class=price>12 EUR</p>\
    <p class=price>14 EUR</p><noscript>no script</noscript><p hidden>secret</p>";

#[tokio::test]
async fn a_page_is_read_pictured_and_fingerprinted() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/" => html(STATIC),
        "/js" => html("<title>x</title><div id=a></div><script>a.textContent='made '+6*7</script>"),
        "/late" => html(
            "<p>now</p><script>setTimeout(()=>document.body.insertAdjacentHTML('beforeend',\
             '<p id=late>later</p>'),400)</script>",
        ),
        "/data" => reply(200, "application/json", r#"{"items":[{"id":1},{"id":2}]}"#),
        "/text" => reply(200, "text/plain", "Plain  TEXT"),
        _ => reply(404, "text/html", "<title>none</title>sorry"),
    })
    .await;
    let mut tab = browsers().open().await.unwrap();
    let done = go(&mut tab, &server.url("/")).await;
    assert_eq!(done.data["status"], 200);
    assert_eq!(done.data["title"], "Shop");
    assert_eq!(done.url.as_deref(), Some(server.url("/").as_str()));
    for (path, selector) in [("/", None), ("/", Some(".price")), ("/data", None), ("/text", None)] {
        go(&mut tab, &server.url(path)).await;
        let mut act = json!({"action": "FINGERPRINT"});
        if let Some(selector) = selector {
            act["selector"] = selector.into();
        }
        let by_browser = good(&mut tab, act).await.fingerprint.unwrap();
        let by_http = engines().fingerprint(&server.url(path), selector).await.unwrap();
        assert_eq!(by_browser, by_http, "{path} {selector:?}");
    }
    go(&mut tab, &server.url("/")).await;
    let done = good(&mut tab, json!({"action": "EXTRACT", "selector": ".price"})).await;
    assert_eq!(done.data["text"], "12 EUR\n14 EUR");
    assert_eq!((&done.data["found"], done.snippet.as_deref()), (&json!(2), Some("12 EUR 14 EUR")));
    assert_eq!(bad(&mut tab, json!({"action": "EXTRACT", "selector": "#no"})).await, "not_found");
    assert_eq!(bad(&mut tab, json!({"action": "EXTRACT", "selector": "p["})).await, "bad_selector");
    let done = good(&mut tab, json!({"action": "SCREENSHOT", "full_page": true})).await;
    assert!(done.screenshot.unwrap().starts_with(b"\x89PNG"));
    let done = good(&mut tab, json!({"action": "WAIT", "ms": 1, "screenshot": true})).await;
    assert!(done.screenshot.unwrap().starts_with(b"\x89PNG"));

    go(&mut tab, &server.url("/js")).await;
    let done = good(&mut tab, json!({"action": "EXTRACT"})).await;
    assert_eq!(done.data["text"], "made 42");
    go(&mut tab, &server.url("/late")).await;
    assert_eq!(bad(&mut tab, json!({"action": "EXTRACT", "selector": "#late"})).await, "not_found");
    good(&mut tab, json!({"action": "WAIT_FOR", "selector": "#late"})).await;
    assert_eq!(
        bad(&mut tab, json!({"action": "WAIT_FOR", "selector": "#never", "ms": 300})).await,
        "timeout"
    );
    go(&mut tab, &server.url("/data")).await;
    let done = good(&mut tab, json!({"action": "EXTRACT", "selector": "$.items[*].id"})).await;
    assert_eq!((&done.data["text"], &done.data["found"]), (&json!("1\n2"), &json!(2)));
    let done = go(&mut tab, &server.url("/none")).await;
    assert_eq!(done.data["status"], 404);
    let done = good(&mut tab, json!({"action": "NAVIGATE_BACK"})).await;
    assert_eq!(done.url.as_deref(), Some(server.url("/data").as_str()));
    assert!(tab.memory_bytes() > 10 << 20);
}
