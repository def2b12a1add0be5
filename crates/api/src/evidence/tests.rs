use serde_json::json;
use skep_base::{AgentId, Timestamp, ed25519::SecretKey, id::SessionId};
use skep_settle::session_proof::seal;
use skep_wire::{conduit::GatewayStamp, settle::Action};

use super::*;

const HOSTILE: &str = "</pre></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"&";

fn at(second: i64) -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000 + second * 1000)
}

/// A session in which every text is a stranger's attempt.
fn page(log: Vec<Value>) -> String {
    let key = SecretKey::from_seed([7; 32]);
    let bundle = SessionBundle {
        format: String::new(),
        session_id: SessionId::new(at(0), [5; 10]),
        agent_id: AgentId([0x11; 20]),
        status: SessionStatus::Failed,
        reason: Some(HOSTILE.to_owned()),
        purpose: Some(HOSTILE.to_owned()),
        action_log: log,
        action_log_head: None,
        chain_alg: String::new(),
        gateway: GatewayStamp {
            kid: HOSTILE.to_owned(),
            public_key: key.public(),
            software: HOSTILE.to_owned(),
        },
        opened_at: at(0),
        closed_at: at(3),
    };
    let proof = seal(bundle, vec![], &key).unwrap();
    session_page(&proof, &|hash| format!("/x/{hash}")).unwrap()
}

#[test]
fn strangers_text_stays_text() {
    let action = Action {
        url: Some("javascript:alert(1)".to_owned()),
        selector: Some(HOSTILE.to_owned()),
        data_snippet: Some(HOSTILE.to_owned()),
        input: Some(json!({ HOSTILE: HOSTILE })),
        duration_ms: Some((1 << 53) - 1),
        screenshot_sha256: Some(Hash32([1; 32])),
        ..Action::begun(0, HOSTILE, at(1))
    };
    let unreadable = json!({ "index": 1, "action": HOSTILE });
    let page = page(vec![serde_json::to_value(action).unwrap(), unreadable]);
    let lower = page.to_lowercase();
    assert!(!lower.contains("<script") && !lower.contains("<img src=x"), "{page}");
    assert!(!lower.contains("href=\"javascript"), "{page}");
    assert_eq!(page.matches("</style>").count(), 1);
    // The one picture is the step's own, and nothing comes from elsewhere.
    assert_eq!(page.matches("<img").count(), 1);
    assert_eq!(page.matches("src=\"").count(), 1);
    assert!(page.contains(&format!("<img src=\"/x/{}\"", Hash32([1; 32]))), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn long_text_is_cut_and_an_empty_log_says_so() {
    let empty = page(vec![]);
    assert!(empty.contains("No steps were recorded."));
    let action = Action {
        data_snippet: Some("ü".repeat(TEXT_LEN_MAX + 1)),
        ..Action::begun(0, "EXTRACT", at(1))
    };
    let long = page(vec![serde_json::to_value(action).unwrap()]);
    assert!(long.contains(&format!("{}…</pre>", "ü".repeat(TEXT_LEN_MAX))));
}
