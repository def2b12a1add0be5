//! Pages that never end, weigh too much, or take their browser with them.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use serde_json::json;
use skep_probe::browser::Limits;
use skep_wire::settle::Tier;

use crate::{
    browser::{action, bad, browsers_with, go, good, html},
    fixture::{Reply, Server, reply},
};

fn limits() -> Limits {
    Limits {
        navigation: Duration::from_secs(2),
        action: Duration::from_secs(2),
        page_bytes: 8 << 20,
        ..Limits::default()
    }
}

async fn site() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/" => html(
            "<title>Fine</title><button id=loop onclick='while(true){}'>x</button>\
             <button id=open onclick=\"window.open('/popup'); window.open('/popup', '_blank', \
             'noopener')\">y</button><a id=blank href='/popup' target=_blank>w</a>\
             <a id=file href='/file' download>z</a>",
        ),
        "/endless" => Reply::Drip("HTTP/1.1 200 X\r\ncontent-type: text/html\r\n\r\n<p>".into()),
        "/loop" => html("<title>Loop</title><script>while(true){}</script>"),
        "/huge" => Reply::Endless(
            "HTTP/1.1 200 X\r\ncontent-type: text/html\r\ncontent-length: 1073741824\r\n\r\n"
                .into(),
        ),
        "/part" => html("<title>Part</title><script src='/huge'></script>"),
        "/file" => reply(200, "application/octet-stream", "binary"),
        "/hungry" => html(
            "<title>Hungry</title><script>const all = []; setInterval(() => {
               const more = new Uint8Array(48 << 20).fill(7); all.push(more); }, 50)</script>",
        ),
        "/popup" => html("<title>Popup</title>"),
        "/noise" => html("<script>for (;;) console.log('x'.repeat(1e6))</script>"),
        _ => reply(404, "text/plain", ""),
    })
    .await
}

#[tokio::test]
async fn a_page_without_end_is_given_up_and_the_tab_goes_on() {
    let server = site().await;
    let mut tab = browsers_with(limits()).open().await.unwrap();
    let navigate = |path: &str| json!({"action": "NAVIGATE", "url": server.url(path)});
    for path in ["/endless", "/loop"] {
        let since = Instant::now();
        assert_eq!(bad(&mut tab, navigate(path)).await, "timeout", "{path}");
        assert!(since.elapsed() < Duration::from_secs(7), "{path}: {:?}", since.elapsed());
        let done = go(&mut tab, &server.url("/")).await;
        assert_eq!(done.data["title"], "Fine", "after {path}");
    }
    assert_eq!(bad(&mut tab, json!({"action": "CLICK", "selector": "#loop"})).await, "timeout");
    let eval = json!({"action": "EVAL", "script": "while (true) {}"});
    assert_eq!(bad(&mut tab, eval).await, "timeout");
    let done = go(&mut tab, &server.url("/")).await;
    assert_eq!(done.data["title"], "Fine");

    for path in ["/huge", "/part"] {
        let before = server.sent.load(Ordering::Relaxed);
        assert_eq!(bad(&mut tab, navigate(path)).await, "too_large", "{path}");
        // Some of it waits in the buffers of the connections.
        let sent = server.sent.load(Ordering::Relaxed) - before;
        assert!(sent < 32 << 20, "{path}: {sent} bytes");
    }
    assert_eq!(bad(&mut tab, navigate("/file")).await, "not_a_page");
    go(&mut tab, &server.url("/")).await;
    good(&mut tab, json!({"action": "CLICK", "selector": "#file"})).await;
    let done = good(&mut tab, json!({"action": "CLICK", "selector": "#open"})).await;
    assert_eq!(done.url.as_deref(), Some(server.url("/").as_str()));
    good(&mut tab, json!({"action": "CLICK", "selector": "#file"})).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pages = tab.raw("Target.getTargets", json!({})).await.unwrap();
    let pages = pages["targetInfos"].as_array().unwrap();
    assert_eq!(pages.iter().filter(|it| it["type"] == "page").count(), 1, "{pages:#?}");
    // A link that asks for a new tab is followed in the only one.
    let done = good(&mut tab, json!({"action": "CLICK", "selector": "#blank"})).await;
    assert_eq!(done.url.as_deref(), Some(server.url("/popup").as_str()));
}

#[tokio::test]
async fn a_browser_that_is_lost_is_said_to_be_and_replaced() {
    let server = site().await;
    let memory_bytes = 500 << 20;
    let browsers =
        browsers_with(Limits { memory_bytes, session: Duration::from_secs(30), ..limits() });
    let extract = action(json!({"action": "EXTRACT"}));

    let mut tab = browsers.open().await.unwrap();
    go(&mut tab, &server.url("/hungry")).await;
    let deadline = Instant::now() + Duration::from_secs(10);
    let done = loop {
        let done = tab.act(&extract, Tier::Trusted).await;
        if done.fatal {
            break done;
        }
        assert!(Instant::now() < deadline, "{} bytes", tab.memory_bytes());
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(done.error.unwrap().code, "memory_limit");
    drop(tab);

    let mut tab = browsers.open().await.unwrap();
    go(&mut tab, &server.url("/")).await;
    kill(&tab.process_id().to_string());
    let done = tab.act(&extract, Tier::Trusted).await;
    assert!(done.fatal, "{done:?}");
    assert_eq!(done.error.unwrap().code, "browser_crashed");
    assert!(tab.act(&extract, Tier::Trusted).await.fatal);
    drop(tab);

    let mut tab = browsers.open().await.unwrap();
    go(&mut tab, &server.url("/")).await;
    for renderer in children(tab.process_id(), "--type=renderer") {
        kill(&renderer);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let done = tab.act(&extract, Tier::Trusted).await;
    assert!(done.fatal, "{done:?}");
    assert_eq!(done.error.unwrap().code, "browser_crashed");
    drop(tab);

    let mut tab = browsers.open().await.unwrap();
    assert_eq!(go(&mut tab, &server.url("/")).await.data["title"], "Fine");
    let noise = json!({"action": "NAVIGATE", "url": server.url("/noise")});
    let done = tab.act(&action(noise), Tier::Trusted).await;
    assert!(done.error.is_some(), "{done:?}");
    let group = tab.process_id();
    drop(tab);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(children(group, "").is_empty(), "a process is left");
}

#[tokio::test]
async fn there_are_only_so_many_browsers_and_no_session_lasts_for_ever() {
    let server = site().await;
    let browsers = browsers_with(Limits { session: Duration::from_secs(6), ..limits() });
    let (first, second) = (browsers.open().await.unwrap(), browsers.open().await.unwrap());
    let third = browsers.clone();
    let waiting = tokio::spawn(async move { third.open().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_finished());
    drop(first);
    let mut tab = waiting.await.unwrap().unwrap();
    go(&mut tab, &server.url("/")).await;
    tokio::time::sleep(Duration::from_millis(6300)).await;
    let done = tab.act(&action(json!({"action": "EXTRACT"})), Tier::Trusted).await;
    assert_eq!((done.error.unwrap().code.as_str(), done.fatal), ("session_expired", true));
    drop(second);
}

fn kill(id: &str) {
    assert!(std::process::Command::new("kill").args(["-9", id]).status().unwrap().success());
}

/// The processes of a group with this word in their command line.
fn children(group: i32, word: &str) -> Vec<String> {
    let output =
        std::process::Command::new("ps").args(["-eo", "pid=,pgid=,stat=,args="]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let dead = words[2].starts_with('Z');
        if words[1] == group.to_string() && line.contains(word) && !dead {
            found.push(words[0].to_owned());
        }
    }
    found
}
