//! 2, 4.1 and 10: what every message has in common.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_wire::hire::Search;

use super::{MEAN, World};

fn is_agent_id(value: &Value) -> bool {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).unwrap_or_default();
    digits.len() == 40 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) async fn the_callers_version_is_spoken_and_another_major_refused(
    w: &World,
) -> Result<String> {
    let hire = |version: &str| {
        let version = format!("swarmwage/{version}");
        w.hand.hire(&w.means, MEAN, json!({"data": [1, 2]}), |hire| hire.protocol = version)
    };
    for version in ["v0.1", "v0.2", "v0.3"] {
        let (_, answer) = w.hand.bought(&w.means, &hire(version)?).await?;
        let said = &answer.body["protocol"];
        ensure!(*said == format!("swarmwage/{version}"), "{version} was answered as {said}");
    }
    for version in ["v1.0", "v2", "v0.4", "v0.9", "v0", ""] {
        let answer = w.hand.ask(&w.means, &hire(version)?).await?;
        answer.refused(400, "unknown_protocol").with_context(|| version.to_owned())?;
    }
    Ok("v0.1, v0.2 and v0.3 are answered as themselves; v1.0 is unknown_protocol".to_owned())
}

pub(super) async fn agents_are_lower_case_addresses(w: &World) -> Result<String> {
    let search = json!({"capability": MEAN});
    let found = w.post("/v1/search", &search).await?.body;
    let agents = found["agents"].as_array().context("nobody was found")?;
    ensure!(agents.iter().all(|a| is_agent_id(&a["agent_id"])), "an agent is no address");
    let hire = w.hand.hire(&w.means, MEAN, json!({"data": [4]}), |_| {})?;
    let (_, answer) = w.hand.bought(&w.means, &hire).await?;
    let receipt = &answer.body["receipt"];
    for (field, expected) in [("buyer_id", w.ann.id()), ("seller_id", w.means.id())] {
        ensure!(is_agent_id(&receipt[field]), "{field} is no address");
        ensure!(receipt[field] == expected.to_string(), "{field} is somebody else");
    }
    for bad in ["0x1234", "ann", "0xzz997970c51812dc3a010c7d01b50e0d17dc79c8"] {
        let mut message = json!(hire);
        message["buyer_id"] = json!(bad);
        let url = format!("{}/hire", w.means.url);
        let answer = w.hand.post(&url, &message, None).await?;
        answer.refused(400, "malformed_hire").with_context(|| bad.to_owned())?;
    }
    Ok("in searches, hires and receipts; anything else is malformed_hire".to_owned())
}

pub(super) async fn signatures_are_the_only_keys(w: &World) -> Result<String> {
    let stranger = skep_sdk::Client::new(&w.url)?;
    let search = Search { capability: Some(MEAN.to_owned()), ..Search::default() };
    ensure!(!stranger.search(&search).await?.agents.is_empty(), "a stranger finds nobody");
    let hire = w.hand.hire(&w.means, MEAN, json!({"data": [4]}), |_| {})?;
    let mut forged = hire.clone();
    forged.params = json!({"data": [5]});
    w.hand.ask(&w.means, &forged).await?.refused(401, "bad_hire_signature")?;
    let url = format!("{}/hire", w.means.url);
    w.hand.post(&url, &json!([1]), None).await?.refused(400, "malformed_hire")?;
    let type_of = |answer: &crate::stage::Answer| answer.header("content-type").to_owned();
    ensure!(type_of(&w.hand.ask(&w.means, &hire).await?) == "application/json", "no JSON");
    for args in [
        &["up", "--listen", "0.0.0.0:0"][..],
        &["sell", MEAN, "--price", "1", "--listen", "0.0.0.0:0", "--", "true"][..],
    ] {
        let folder = w.folder.path().join("open");
        let keys = w.folder.path().join("seller-means.json");
        let output = Command::new(std::env::current_exe()?)
            .args(args)
            .env("SKEP_DATA_DIR", &folder)
            .env("SKEP_KEYS", &keys)
            .env("SKEP_NODE", &w.url)
            .env("SKEP_PASSPHRASE", crate::stage::PASSPHRASE)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && said.contains("proxy"), "{}: {said}", args[0]);
    }
    Ok("strangers search; hires and payments are signed; no door opens without TLS".to_owned())
}
