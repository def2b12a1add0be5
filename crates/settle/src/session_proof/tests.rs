use serde_json::json;
use skep_base::{AgentId, Timestamp, id::SessionId};
use skep_wire::conduit::{GatewayStamp, SessionStatus};

use super::*;

fn sealed() -> (SessionProof, SecretKey) {
    let key = SecretKey::from_seed([3; 32]);
    let picture = sha256(b"png");
    let at = Timestamp::from_ms(1_800_000_000_000);
    let bundle = SessionBundle {
        format: String::new(),
        session_id: SessionId::from_bytes([1; 16]),
        agent_id: AgentId::from_bytes([2; 20]),
        status: SessionStatus::Completed,
        reason: None,
        purpose: Some("look".to_owned()),
        action_log: vec![
            json!({ "index": 0, "action": "NAVIGATE", "success": true }),
            json!({ "index": 1, "action": "SCREENSHOT", "screenshot_sha256": picture }),
        ],
        action_log_head: None,
        chain_alg: String::new(),
        gateway: GatewayStamp {
            kid: "gateway".to_owned(),
            public_key: key.public(),
            software: "test".to_owned(),
        },
        opened_at: at,
        closed_at: at,
    };
    let attachment = Attachment {
        sha256: picture,
        media_type: "image/png".to_owned(),
        name: None,
        data: STANDARD.encode(b"png"),
    };
    (seal(bundle, vec![attachment], &key).unwrap(), key)
}

#[test]
fn what_was_sealed_checks_and_another_key_does_not() {
    let (proof, key) = sealed();
    let bundle = check(&proof, Some(&key.public())).unwrap();
    assert_eq!(bundle.action_log.len(), 2);
    assert!(check(&proof, None).is_ok());
    let other = SecretKey::from_seed([4; 32]).public();
    assert!(matches!(check(&proof, Some(&other)), Err(Fault::BadSignature { .. })));
}

#[test]
fn every_change_is_found() {
    let (proof, key) = sealed();
    let text = serde_json::to_string(&proof).unwrap();
    for (from, to) in [
        ("NAVIGATE", "NAVIGATF"),
        ("COMPLETED", "FAILED"),
        ("\"look\"", "\"lock\""),
        ("\"index\":1", "\"index\":2"),
        ("cG5n", "cG5o"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed: SessionProof = serde_json::from_str(&text.replace(from, to)).unwrap();
        assert!(check(&changed, Some(&key.public())).is_err(), "{from} {to}");
    }
    // Somebody else's picture beside it.
    let mut more = proof.clone();
    let data = STANDARD.encode(b"other");
    more.attachments[0] =
        Attachment { sha256: sha256(b"other"), data, ..more.attachments[0].clone() };
    assert_eq!(check(&more, None), Err(Fault::ContentChanged));
}
