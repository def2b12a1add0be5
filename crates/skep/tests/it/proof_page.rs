//! A verdict's page: for those who have the link, and harmless whatever a verifier wrote.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, Crc, write::ZlibEncoder};
use serde_json::{Value, json};
use skep_base::{Clock, hash::sha256};
use skep_settle::proof;
use skep_store::SystemClock;
use skep_testkit::process::Child;
use skep_wire::settle::{
    Attachment, Outcome, ProofBundle, VerificationCallback, VerificationRequest,
};

use crate::stage::{self, Actor, Hand, agree, deliver, seen, usdc};

const HOSTILE: &str = "</pre><script>document.title='owned'</script><img src=//evil.example/x>";
/// Set it to a folder to have the page photographed there by a real Chromium.
const PICTURES: &str = "SKEP_PAGE_PICTURES";

/// An HTTP answer: status line and headers in lower case, and the body.
pub struct Answer {
    pub head: String,
    pub body: Vec<u8>,
}

pub fn get(node: &str, path: &str) -> Answer {
    let host = node.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let ask = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    Answer { head, body: bytes[end + 4..].to_vec() }
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A real picture: 320 by 200 pixels of colour.
fn png() -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(data);
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(kind);
        png.extend(data);
        png.extend(crc.sum().to_be_bytes());
    };
    let (width, height) = (320_u32, 200_u32);
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 2, 0, 0, 0]].concat());
    let mut rows = ZlibEncoder::new(Vec::new(), Compression::default());
    for y in 0..height {
        rows.write_all(&[0]).unwrap();
        for x in 0..width {
            rows.write_all(&[(x * 255 / width) as u8, (y * 255 / height) as u8, 140]).unwrap();
        }
    }
    chunk(b"IDAT", &rows.finish().unwrap());
    chunk(b"IEND", &[]);
    png
}

fn attachment(media_type: &str, bytes: &[u8]) -> Attachment {
    Attachment {
        sha256: sha256(bytes),
        media_type: media_type.to_owned(),
        name: None,
        data: STANDARD.encode(bytes),
    }
}

/// A verdict with a log that says what it can, and tries what it can.
fn verdict(hand: &Hand, asked: &VerificationRequest) -> VerificationCallback {
    let blank = hand.verdict(asked, Outcome::Verified);
    let mut bundle: ProofBundle = serde_json::from_value(blank.proof_bundle.unwrap()).unwrap();
    let (picture, page) = (attachment("image/png", &png()), HOSTILE.as_bytes());
    let page = attachment("text/html", page);
    let start = SystemClock.now();
    let step = |index: usize, action: &str, after_ms: u64, took_ms: u64, more: Value| {
        let mut step = json!({
            "index": index, "action": action, "success": true, "cost_cents": index % 3,
            "timestamp": start.minus(std::time::Duration::from_millis(3000 - after_ms)),
            "duration_ms": took_ms, "url": "https://shop.example/products/teapot?colour=green",
        });
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    bundle.action_log = vec![
        step(0, "NAVIGATE", 0, 1240, json!({"data_snippet": "200 text/html, 48213 bytes"})),
        step(1, "WAIT_FOR", 1240, 310, json!({"selector": "main .price"})),
        step(
            2,
            "EXTRACT",
            1560,
            12,
            json!({
                "selector": "main .price", "data_snippet": HOSTILE, "data_sha256": page.sha256,
            }),
        ),
        step(
            3,
            "SCREENSHOT",
            1600,
            420,
            json!({
                "screenshot_sha256": picture.sha256, "cost_category": "billable",
            }),
        ),
        step(
            4,
            "FINGERPRINT",
            2030,
            3,
            json!({
                "fingerprint": sha256(b"page"), "cost_category": "free",
            }),
        ),
    ];
    let sealed = proof::seal(bundle, Some(format!("Hello 42.00 EUR {HOSTILE}")), &hand.key);
    VerificationCallback { attachments: vec![picture, page], ..sealed.unwrap() }
}

#[tokio::test]
async fn a_verdict_has_a_page_for_whoever_has_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let node = Child::spawn(&mut stage::up(folder.path(), &[])).unwrap();
    let url = node.url();
    let (ann, ben) = (Actor::new(1), Actor::new(2));
    let (ann, ben) = (ann.enter(url, None).await, ben.enter(url, None).await);
    ann.faucet(usdc(5)).await.unwrap();
    let hand = Hand::new(3);
    let eye = hand.enter(url, &["artifact"]).await;
    let hints = json!({"type": "artifact", "expected_content": "Hello"});
    let deal = agree(&ann, &ben, hints, json!({"verifier": hand.actor.id()})).await;
    let id = deliver(&ben, deal, "Hello").await.unwrap();
    let asked = eye.verification(id).await.unwrap();
    assert_eq!(asked.proof_page, None, "there is nothing to show yet");
    eye.callback(&verdict(&hand, &asked.request)).await.unwrap();
    let seen = seen(&ann, id, |seen| seen.callback.is_some()).await;
    let link = seen.proof_page.unwrap();

    let page = get(url, &link);
    assert!(page.head.starts_with("http/1.1 200"), "{}", page.head);
    for header in ["img-src 'self'", "default-src 'none'", "nosniff", "no-referrer", "no-store"] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    let html = page.text();
    let (hash, deal_text) = (sha256(&png()), deal.to_string());
    for part in ["Verified", "WAIT_FOR", "1240 ms", "0.25 USDC", &deal_text, "skep proof verify"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(!html.contains("<script") && !html.contains("src=\"//"), "{html}");
    assert!(html.contains("&lt;script&gt;document.title"), "{html}");

    // The link is the permission, for this verdict and for what it names.
    let token = link.split_once("token=").unwrap().1;
    let path = |hash: &str, token: &str| format!("/proofs/{id}/attachments/{hash}?token={token}");
    let picture = get(url, &path(&hash.to_string(), token));
    assert!(picture.head.contains("content-type: image/png"), "{}", picture.head);
    assert_eq!(picture.body, png());
    let other = get(url, &path(&sha256(HOSTILE.as_bytes()).to_string(), token));
    assert!(other.head.contains("content-type: text/plain"), "{}", other.head);
    assert!(other.head.contains("content-disposition: attachment"), "{}", other.head);
    assert!(other.head.contains("nosniff") && other.head.contains("sandbox"), "{}", other.head);
    let wrong = "0".repeat(64);
    let again = id.to_string().replacen(&id.to_string()[34..], "02", 1);
    for path in [
        format!("/proofs/{id}?token={wrong}"),
        format!("/proofs/{id}?token="),
        format!("/proofs/{again}?token={token}"),
        path(&hash.to_string(), &wrong),
        path(&wrong, token),
    ] {
        let refused = get(url, &path);
        assert!(refused.head.starts_with("http/1.1 404"), "{path}: {}", refused.head);
    }
    let bare = get(url, &format!("/proofs/{id}"));
    assert!(bare.head.starts_with("http/1.1 400"), "{}", bare.head);
    if let Some(folder) = std::env::var_os(PICTURES) {
        photograph(&format!("{url}{link}"), Path::new(&folder));
    }
}

fn photograph(url: &str, folder: &Path) {
    for (name, size, scheme) in [
        ("wide-light", "1400,2300", 1),
        ("wide-dark", "1400,2300", 0),
        ("narrow-light", "380,1100", 1),
        ("narrow-dark", "380,1100", 0),
    ] {
        let file = folder.join(name).with_extension("png");
        let status = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"])
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--window-size={size}"))
            .arg(format!("--screenshot={}", file.display()))
            .arg(url)
            .output();
        assert!(status.unwrap().status.success());
    }
}
