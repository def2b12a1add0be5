//! Where a browser may not go, whoever sends it there.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::json;
use skep_probe::{
    Egress, Lookup, Policy,
    browser::{Browsers, Chromium, Limits},
    egress::LookingUp,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
};

use crate::{
    browser::{bad, browsers, go, good, html},
    fixture::{Server, dev, redirect, reply},
};

/// A server that nobody may reach: it counts who comes.
async fn forbidden() -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let came = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((_stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    (address, came)
}

fn page_that_tries(other: SocketAddr, stun: SocketAddr) -> String {
    format!(
        "<title>try</title><img src='http://{other}/img'>\
         <iframe src='http://{other}/frame'></iframe>\
         <link rel=stylesheet href='http://localhost:{port}/css'>\
         <link rel=dns-prefetch href='//{other}'><link rel=preconnect href='http://{other}'>\
         <script>
         const said = [];
         const tried = [
           ...['http://{other}/fetch', 'http://10.0.0.1/', '/inside'].map((url) =>
             fetch(url, {{mode: 'no-cors'}}).then(() => said.push(url), () => 0)),
           new Promise((done) => {{
             const socket = new WebSocket('ws://{other}/socket');
             socket.onopen = () => {{ said.push('socket'); done(); }};
             socket.onerror = done;
           }}),
           new Promise((done) => {{
             const source = `fetch('http://{other}/worker', {{mode: 'no-cors'}})
               .then(() => postMessage(1), () => postMessage(0))`;
             const worker = new Worker(URL.createObjectURL(new Blob([source])));
             worker.onmessage = (event) => {{ if (event.data) said.push('worker'); done(); }};
             worker.onerror = done;
           }}),
         ];
         navigator.sendBeacon('http://{other}/beacon', 'x');
         const rtc = new RTCPeerConnection({{iceServers: [{{urls: 'stun:{stun}'}}]}});
         rtc.createDataChannel('x');
         rtc.createOffer().then((offer) => rtc.setLocalDescription(offer));
         Promise.allSettled(tried).then(() => {{
           document.body.insertAdjacentHTML('beforeend', '<p id=end>' + said.join() + '</p>');
         }});
         </script>",
        port = other.port(),
    )
}

#[tokio::test]
async fn a_page_reaches_nothing_that_its_visitor_has_not_named() {
    let (other, came) = forbidden().await;
    let stun = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let page = page_that_tries(other, stun.local_addr().unwrap());
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/" => html(&page),
        "/plain" => html("<title>plain</title><a id=out href='/inside'>out</a>"),
        "/inside" => redirect(302, &format!("http://{other}/redirected")),
        "/metadata" => redirect(302, "http://169.254.169.254/latest/meta-data/"),
        "/private" => redirect(307, "http://192.168.0.1:8080/"),
        "/file" => redirect(302, "file:///etc/passwd"),
        "/script" => html("<title>s</title><script>location = '/metadata'</script>"),
        _ => reply(404, "text/plain", ""),
    })
    .await;
    let mut tab = browsers().open().await.unwrap();
    go(&mut tab, &server.url("/")).await;
    good(&mut tab, json!({"action": "WAIT_FOR", "selector": "#end"})).await;
    let done = good(&mut tab, json!({"action": "EXTRACT", "selector": "#end"})).await;
    assert_eq!(done.data["text"], "", "these went through");

    let done = good(&mut tab, json!({"action": "NETWORK_REQUESTS"})).await;
    let requests = done.data["requests"].as_array().unwrap();
    for path in ["/img", "/fetch", "/socket", "/frame"] {
        let found = requests
            .iter()
            .find(|request| request["url"].as_str().unwrap().ends_with(&format!("{other}{path}")));
        assert_eq!(found.unwrap_or_else(|| panic!("{path}: {requests:#?}"))["refused"], true);
    }
    assert!(requests.iter().any(|request| request["status"] == 200 && request["refused"] == false));

    let navigate = |path: &str| json!({"action": "NAVIGATE", "url": server.url(path)});
    for path in ["/inside", "/metadata", "/private"] {
        assert_eq!(bad(&mut tab, navigate(path)).await, "refused_address", "{path}");
    }
    assert_ne!(bad(&mut tab, navigate("/file")).await, "");
    go(&mut tab, &server.url("/plain")).await;
    let click = json!({"action": "CLICK", "selector": "#out"});
    assert_eq!(bad(&mut tab, click).await, "refused_address");
    go(&mut tab, &server.url("/plain")).await;
    let eval = json!({"action": "EVAL", "script": "location = '/private'; 1"});
    assert_eq!(bad(&mut tab, eval).await, "refused_address");
    for url in [
        "file:///etc/passwd",
        "chrome://version/",
        "view-source:http://example.com/",
        "javascript:alert(1)",
        "data:text/html,x",
        "http://user:secret@example.com/",
    ] {
        assert_eq!(bad(&mut tab, json!({"action": "NAVIGATE", "url": url})).await, "bad_url");
    }
    for url in ["http://10.0.0.1/", "http://169.254.169.254/", "http://[::ffff:127.0.0.1]/"] {
        let act = json!({"action": "NAVIGATE", "url": url});
        assert_eq!(bad(&mut tab, act).await, "refused_address");
    }
    assert_eq!(came.load(Ordering::Relaxed), 0, "the other server was reached");
    let mut packet = [0; 100];
    assert!(stun.try_recv(&mut packet).is_err(), "a packet went round the proxy");

    // Whoever names it may go there: nothing is answered, but it is reached.
    let act = json!({"action": "NAVIGATE", "url": format!("http://{other}/"), "ms": 2000});
    bad(&mut tab, act).await;
    assert!(came.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn outside_of_development_this_machine_is_out_of_reach() {
    let (other, came) = forbidden().await;
    let egress = Egress::new(Policy::default()).unwrap();
    let chromium = Chromium::find(None).unwrap();
    let mut tab = Browsers::new(chromium, &egress, Limits::default(), 1).open().await.unwrap();
    for url in [format!("http://{other}/"), format!("http://localhost:{}/", other.port())] {
        let act = json!({"action": "NAVIGATE", "url": url});
        assert_eq!(bad(&mut tab, act).await, "refused_address");
    }
    let script = format!("fetch('http://{other}/', {{mode: 'no-cors'}}).then(() => 1, () => 0)");
    let done = good(&mut tab, json!({"action": "EVAL", "script": script})).await;
    assert_eq!(done.data["value"], 0);
    assert_eq!(came.load(Ordering::Relaxed), 0);
}

/// Knows one address for every name, and remembers the names.
#[derive(Debug, Default)]
struct Here(Mutex<BTreeSet<String>>);

impl Lookup for Here {
    fn lookup(&self, host: &str) -> LookingUp {
        self.0.lock().unwrap().insert(host.to_owned());
        Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
    }
}

#[tokio::test]
async fn names_are_judged_by_their_addresses_and_the_browser_asks_for_no_others() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/" => html("<title>Shop</title><script>fetch('http://evil.example:8080/')</script>"),
        _ => reply(404, "text/plain", ""),
    })
    .await;
    let (tls_port, came) = (tls_server().await, Arc::new(Here::default()));
    let chromium = Chromium::find(None).unwrap();
    let egress = Egress::with_lookup(dev(), came.clone()).unwrap();
    let browsers = Browsers::new(chromium.clone(), &egress, Limits::default(), 1);
    let mut tab = browsers.open().await.unwrap();
    let shop = format!("http://shop.localhost:{}/", server.address.port());
    assert_eq!(go(&mut tab, &shop).await.data["title"], "Shop");
    good(&mut tab, json!({"action": "WAIT", "ms": 2000})).await;
    let done = good(&mut tab, json!({"action": "NETWORK_REQUESTS"})).await;
    let requests = done.data["requests"].as_array().unwrap();
    let evil = requests.iter().find(|it| it["url"] == "http://evil.example:8080/").unwrap();
    assert_eq!(evil["refused"], true);
    let names: Vec<String> = came.0.lock().unwrap().iter().cloned().collect();
    assert_eq!(names, ["evil.example", "shop.localhost"], "the browser talks to others");

    let secure = format!("https://shop.localhost:{tls_port}/");
    let act = json!({"action": "NAVIGATE", "url": secure});
    assert_eq!(bad(&mut tab, act.clone()).await, "tls");
    tab.raw("Security.setIgnoreCertificateErrors", json!({"ignore": true})).await.unwrap();
    assert_eq!(good(&mut tab, act).await.data["title"], "Secure");
    let act = json!({"action": "NAVIGATE", "url": "http://shop.localhost:9/"});
    assert_eq!(bad(&mut tab, act).await, "bad_url");
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let act = json!({"action": "NAVIGATE", "url": format!("http://shop.localhost:{free}/")});
    assert_eq!(bad(&mut tab, act).await, "unreachable");
    drop(tab);

    let egress = Egress::with_lookup(Policy::default(), came).unwrap();
    let mut tab = Browsers::new(chromium, &egress, Limits::default(), 1).open().await.unwrap();
    for url in [shop, secure] {
        let act = json!({"action": "NAVIGATE", "url": url});
        assert_eq!(bad(&mut tab, act).await, "refused_address");
    }
}

/// Says one page to everybody, over TLS that nobody vouches for.
async fn tls_server() -> u16 {
    let made = rcgen::generate_simple_self_signed(["shop.localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(Arc::new(
        tokio_rustls::rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![made.cert.der().clone()], key)
    .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let body = "<title>Secure</title>";
                let said =
                    format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(said.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}
