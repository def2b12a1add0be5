//! Sites as a whole, and what else a page can be asked.

use serde_json::{Value, json};
use skep_probe::browser::Limits;

use crate::{
    browser::{bad, browsers, browsers_with, go, good, html},
    fixture::{Server, redirect, reply},
};

async fn site() -> Server {
    Server::start(|asked| match asked.path.as_str() {
        "/robots.txt" => reply(
            200,
            "text/plain",
            "User-agent: *\nDisallow: /\n\nUser-agent: skep\nDisallow: /hidden\n",
        ),
        "/" => html(
            "<title>Start</title><main><h1>Start</h1><a href='/a'>a</a><a href='/b#x'>b</a>\
             <a href='/hidden/x'>h</a><a href='http://127.0.0.1:9/else'>else</a></main>",
        ),
        "/a" => html("<title>A</title>Text of A<a href='/deep'>d</a><a href='/'>back</a>"),
        "/b" => {
            html("<title>B</title><p>x</p><script>document.body.innerHTML = '<a href=/made>m</a>'</script>")
        }
        "/deep" => html("<title>Deep</title><a href='/deeper'>d</a>"),
        "/made" => html("<title>Made</title><script>alert('x')</script>"),
        "/deeper" => redirect(302, "/a"),
        "/news" => html(
            "<title>News</title><nav><a href='/'>Home of everything</a></nav><div><div>\
             <p>The long story begins here and goes on.</p><p>It ends here.</p></div>\
             <footer>imprint</footer></div><button aria-label='Press'>p</button>\
             <input aria-label=City value=Graz><script>console.log('said', 7); null.x</script>\
             <div style='height: 5000px'></div><p id=low>low</p>",
        ),
        "/clock" => html("<title>Clock</title><p id=time>one</p><p id=name>same</p>"),
        _ => reply(404, "text/plain", ""),
    })
    .await
}

fn listed(data: &Value, field: &str) -> Vec<String> {
    let pages = data["pages"].as_array().unwrap();
    pages.iter().map(|page| page[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_site_is_mapped_and_crawled_politely() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/news")).await;
    let url = server.url("/");
    let done = good(&mut tab, json!({"action": "MAP", "url": url, "depth": 2})).await;
    assert_eq!(listed(&done.data, "title"), ["Start", "A", "B", "Deep", "Made"]);
    assert_eq!(done.data["skipped"]["robots"], 1);
    assert_eq!(done.url.as_deref(), Some(server.url("/news").as_str()), "the tab has moved");
    let done = good(&mut tab, json!({"action": "CRAWL", "url": url, "pages": 2})).await;
    assert_eq!(listed(&done.data, "url"), [server.url("/"), server.url("/a")]);
    let text = done.data["pages"][1]["text"].as_str().unwrap();
    assert!(text.contains("Text of A"), "{text}");
    assert_eq!(done.data["pages"][1]["fingerprint"].as_str().unwrap().len(), 64);
    let asked = server.asked();
    assert!(asked.iter().all(|asked| !asked.path.starts_with("/hidden")));
    assert!(asked.iter().any(|asked| asked.path == "/robots.txt"));
    let visitor = asked.iter().find(|asked| asked.path == "/a").unwrap();
    assert!(
        visitor.header("user-agent").or(visitor.header("User-Agent")).unwrap().contains("skep/")
    );
    assert_eq!(bad(&mut tab, json!({"action": "MAP", "depth": 9})).await, "bad_action");

    let short = Limits { crawl: std::time::Duration::from_millis(3600), ..Limits::default() };
    let mut tab = browsers_with(short).open().await.unwrap();
    let done = good(&mut tab, json!({"action": "MAP", "url": url})).await;
    let found = done.data["pages"].as_array().unwrap().len();
    assert!((1..5).contains(&found), "{found}");
}

#[tokio::test]
async fn a_page_says_what_it_is_and_does() {
    let server = site().await;
    let mut tab = browsers().open().await.unwrap();
    let navigate = json!({"action": "NAVIGATE", "url": server.url("/news")});
    good(&mut tab, navigate).await;
    let done = good(&mut tab, json!({"action": "EXTRACT_MAIN"})).await;
    let text = done.data["text"].as_str().unwrap();
    assert!(text.starts_with("The long story") && !text.contains("imprint"), "{text}");
    let done = good(&mut tab, json!({"action": "CONSOLE_MESSAGES"})).await;
    let messages = done.data["messages"].to_string();
    assert!(messages.contains("said 7") && messages.contains("TypeError"), "{messages}");
    let done = good(&mut tab, json!({"action": "ACCESSIBILITY_SNAPSHOT"})).await;
    let nodes = done.data["nodes"].as_array().unwrap();
    let node = |role: &str| nodes.iter().find(|node| node["role"] == role).unwrap();
    assert_eq!(node("button")["name"], "Press");
    assert_eq!(
        (&node("textbox")["name"], &node("textbox")["value"]),
        (&json!("City"), &json!("Graz"))
    );
    let done = good(&mut tab, json!({"action": "SCROLL", "pixels": 300})).await;
    assert_eq!(done.data["y"], 300);
    let done = good(&mut tab, json!({"action": "SCROLL", "selector": "#low"})).await;
    assert!(done.data["y"].as_u64().unwrap() > 3000, "{:?}", done.data);
    good(&mut tab, json!({"action": "SCROLL"})).await;
    let done =
        good(&mut tab, json!({"action": "EVAL", "script": "await Promise.resolve({a: [1]})"}));
    assert_eq!(done.await.data["value"], json!({"a": [1]}));
    let long = json!({"action": "EVAL", "script": "'\"'.repeat(400000)"});
    let done = good(&mut tab, long).await;
    assert_eq!(done.data["cut"], true);
    assert!(done.data.to_string().len() <= skep_wire::conduit::DATA_LEN_MAX);
    let act = json!({"action": "OUTPUT_TO_FILE", "name": "found.txt", "text": "it"});
    let done = good(&mut tab, act).await;
    assert_eq!(done.file, Some(("found.txt".to_owned(), b"it".to_vec())));

    go(&mut tab, &server.url("/clock")).await;
    let before = good(&mut tab, json!({"action": "FINGERPRINT", "selector": "#time"})).await;
    let check = json!({"action": "CHECK_CHANGED", "selector": "#time"});
    assert_eq!(good(&mut tab, check.clone()).await.data["changed"], false);
    let tick = json!({"action": "EVAL", "script": "time.textContent = 'two'"});
    good(&mut tab, tick).await;
    let done = good(&mut tab, check.clone()).await;
    assert_eq!(done.data["changed"], true);
    assert_eq!(done.data["baseline"], json!(before.fingerprint));
    assert_eq!(done.data["current"], json!(done.fingerprint));
    let named = json!({"action": "CHECK_CHANGED", "selector": "#time",
        "baseline": done.fingerprint});
    assert_eq!(good(&mut tab, named).await.data["changed"], false);
    let png = good(&mut tab, json!({"action": "SCREENSHOT"})).await.screenshot.unwrap();
    assert!(png.len() < skep_wire::conduit::SCREENSHOT_LEN_MAX);
}
