//! Canonical JSON against plain sorted output of serde_json.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Figure, progress};

pub(super) fn measure(time: Duration) -> anyhow::Result<Vec<Figure>> {
    progress("canonical JSON");
    let value = sample();
    let text = serde_json::to_vec(&value)?;
    // Both in turns, so that a busy moment of the machine hits both.
    let (mut ours, mut peer) = (0_u64, 0_u64);
    let (mut our_time, mut peer_time) = (Duration::ZERO, Duration::ZERO);
    let (mut parsed, mut peer_parsed) = (0_u64, 0_u64);
    let (mut parse_time, mut peer_parse_time) = (Duration::ZERO, Duration::ZERO);
    while our_time + peer_time + parse_time + peer_parse_time < time {
        (ours, our_time) = (ours + 1, our_time + timed(|| skep_base::json::to_vec(&value)));
        (peer, peer_time) = (peer + 1, peer_time + timed(|| serde_json::to_vec(&value)));
        (parsed, parse_time) = (parsed + 1, parse_time + timed(|| skep_base::json::parse(&text)));
        let plain = timed(|| serde_json::from_slice::<Value>(&text));
        (peer_parsed, peer_parse_time) = (peer_parsed + 1, peer_parse_time + plain);
    }
    let rate = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    Ok(vec![
        Figure::new(
            "canonical JSON, written (peer: serde_json of the same sorted value)",
            rate(ours, our_time),
            rate(peer, peer_time),
            "documents/s",
            Some(0.5),
        ),
        Figure::new(
            "strict JSON, parsed (peer: serde_json)",
            rate(parsed, parse_time),
            rate(peer_parsed, peer_parse_time),
            "documents/s",
            None,
        ),
    ])
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let started = Instant::now();
    std::hint::black_box(work());
    started.elapsed()
}

/// Something like a page of receipts.
fn sample() -> Value {
    let items: Vec<Value> = (0..200)
        .map(|n| {
            json!({
                "id": format!("rcpt_{n:026}"),
                "agent": "0x00112233445566778899aabbccddeeff00112233",
                "amount_minor": (n * 1_000_003).to_string(),
                "rating": f64::from(n) / 7.0,
                "tags": ["image", "überprüft", "日本"],
                "verified": n % 3 == 0,
                "nested": { "b": n, "a": [1, 2, 3], "none": null },
            })
        })
        .collect();
    json!({ "items": items })
}
