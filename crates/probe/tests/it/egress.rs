//! Where the client goes, and where it does not.

use std::sync::Arc;

use skep_probe::{Egress, Policy, Request};
use tokio::{io::AsyncWriteExt, net::TcpListener};

use crate::fixture::{Reply, Server, dev, redirect, reply};

async fn code(egress: &Egress, url: &str) -> String {
    match egress.get(url).await {
        Ok(fetched) => fetched.status.to_string(),
        Err(error) => error.code().to_owned(),
    }
}

#[tokio::test]
async fn a_document_is_fetched_with_its_headers() {
    let server = Server::start(|_| reply(404, "text/plain", "hello")).await;
    let egress = Egress::new(dev()).unwrap();
    let fetched = egress.get(&server.url("/a?b=c#d")).await.unwrap();
    assert_eq!((fetched.status, fetched.content_type()), (404, Some("text/plain")));
    assert_eq!((fetched.body.as_slice(), fetched.hops.len()), (&b"hello"[..], 0));
    assert_eq!(fetched.final_url, server.url("/a?b=c"));
    let asked = &server.asked()[0];
    assert_eq!(asked.path, "/a?b=c");
    assert!(asked.header("user-agent").unwrap().starts_with("skep/"));
    assert_eq!(asked.header("accept-encoding"), Some("identity"));
    assert_eq!(asked.header("cookie"), None);
}

#[tokio::test]
async fn this_machine_is_out_of_reach_unless_it_is_allowed() {
    let server = Server::start(|_| reply(200, "text/plain", "secret")).await;
    let port = server.address.port();
    let strict = Egress::new(Policy::default()).unwrap();
    let allowed = Egress::new(dev()).unwrap();
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost"] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(code(&strict, &url).await, "refused_address", "{url}");
        assert_eq!(code(&allowed, &url).await, "200", "{url}");
    }
    for host in ["0", "[::ffff:127.0.0.1]", "[::127.0.0.1]"] {
        let url = format!("http://{host}:{port}/");
        assert_eq!(code(&strict, &url).await, "refused_address", "{url}");
        assert_eq!(code(&allowed, &url).await, "refused_address", "{url}");
    }
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn only_the_web_is_fetched() {
    let egress = Egress::new(dev()).unwrap();
    for url in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "http://user:secret@127.0.0.1/",
        "http://127.0.0.1:22/",
        "nonsense",
    ] {
        assert_eq!(code(&egress, url).await, "bad_url", "{url}");
    }
}

#[tokio::test]
async fn redirects_are_followed_and_remembered() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/a" => redirect(301, "/b"),
        "/b" => redirect(308, "c?d"),
        _ => reply(200, "text/plain", "there"),
    })
    .await;
    let egress = Egress::new(dev()).unwrap();
    let fetched = egress.get(&server.url("/a")).await.unwrap();
    assert_eq!(fetched.final_url, server.url("/c?d"));
    assert_eq!(fetched.hops, [server.url("/a"), server.url("/b")]);

    let request = Request { follow_redirects: false, ..Request::get(server.url("/a")) };
    let fetched = egress.send(request).await.unwrap();
    assert_eq!((fetched.status, fetched.final_url), (301, server.url("/a")));
}

#[tokio::test]
async fn each_hop_of_a_redirect_is_judged_again() {
    let server = Server::start(|asked| redirect(302, &asked.path[1..])).await;
    let egress = Egress::new(dev()).unwrap();
    for (to, wanted) in [
        ("http://169.254.169.254/", "refused_address"),
        ("http://10.0.0.1/", "refused_address"),
        ("http://[::ffff:10.0.0.1]/", "refused_address"),
        ("http://user:secret@example.com/", "bad_url"),
        ("http://127.0.0.1:6379/", "bad_url"),
        ("file:///etc/passwd", "bad_url"),
        ("gopher://127.0.0.1/", "bad_url"),
    ] {
        assert_eq!(code(&egress, &server.url(&format!("/{to}"))).await, wanted, "{to}");
    }
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let server = Server::start(|_| redirect(302, "/again")).await;
    let egress = Egress::new(dev()).unwrap();
    assert_eq!(code(&egress, &server.url("/")).await, "too_many_redirects");
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn secrets_stay_with_the_origin_that_they_are_for() {
    let other = Server::start(|_| reply(200, "text/plain", "other")).await;
    let away = other.url("/there");
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/same" => redirect(307, "/here"),
        "/away" => redirect(302, &away),
        "/away-with-body" => redirect(307, &away),
        _ => reply(200, "text/plain", "same"),
    })
    .await;
    let egress = Egress::new(dev()).unwrap();
    let post = |path: &str| Request {
        headers: vec![
            ("Authorization".into(), "Bearer secret".into()),
            ("X-Token".into(), "secret".into()),
            ("Accept".into(), "text/plain".into()),
        ],
        follow_redirects: true,
        ..Request::post(server.url(path), b"payload".to_vec())
    };
    assert_eq!(egress.send(post("/same")).await.unwrap().body, b"same");
    let same = server.asked().pop().unwrap();
    assert_eq!((same.method.as_str(), same.body.as_str()), ("POST", "payload"));
    assert_eq!(same.header("authorization"), Some("Bearer secret"));

    assert_eq!(egress.send(post("/away")).await.unwrap().body, b"other");
    let away = other.asked().pop().unwrap();
    assert_eq!((away.method.as_str(), away.body.as_str()), ("GET", ""));
    assert_eq!((away.header("authorization"), away.header("x-token")), (None, None));
    assert_eq!(away.header("accept"), Some("text/plain"));

    let refused = egress.send(post("/away-with-body")).await.unwrap_err();
    assert_eq!(refused.code(), "refused_redirect");
    assert_eq!(other.asked().len(), 1);
}

#[tokio::test]
async fn headers_that_steer_the_connection_are_not_the_callers() {
    let egress = Egress::new(dev()).unwrap();
    for (name, value) in [
        ("Host", "internal"),
        ("content-length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("bad name", "x"),
        ("x-split", "a\r\nb: c"),
    ] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let request = Request { headers, ..Request::get("http://127.0.0.1:9999/") };
        assert_eq!(egress.send(request).await.unwrap_err().code(), "bad_header", "{name}");
    }
}

#[tokio::test]
async fn a_packed_body_is_not_taken() {
    let server = Server::start(|_| {
        Reply::Whole(
            b"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx".into(),
        )
    })
    .await;
    assert_eq!(code(&Egress::new(dev()).unwrap(), &server.url("/")).await, "encoded_body");
}

#[tokio::test]
async fn nobody_at_home_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let egress = Egress::new(dev()).unwrap();
    assert_eq!(code(&egress, &format!("http://{address}/")).await, "unreachable");
    let server = Server::start(|_| Reply::Whole(b"not http at all".into())).await;
    assert_eq!(code(&egress, &server.url("/")).await, "unreachable");
    let cut_off = b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nshort";
    let server = Server::start(|_| Reply::Whole(cut_off.into())).await;
    assert_eq!(code(&egress, &server.url("/")).await, "unreachable");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
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
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    });
    let egress = Egress::new(dev()).unwrap();
    assert_eq!(code(&egress, &format!("https://localhost:{port}/")).await, "tls");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_told_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 X\r\n\r\n").await;
        }
    });
    let egress = Egress::new(dev()).unwrap();
    assert_eq!(code(&egress, &format!("https://{address}/")).await, "tls");
}
