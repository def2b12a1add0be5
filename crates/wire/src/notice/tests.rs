use super::*;

const BODY: &[u8] = br#"{"a":1}"#;
const AT: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn key() -> SecretKey {
    SecretKey::from_seed([7; 32])
}

fn notice() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in sign(&key(), &EventId::from_bytes([0; 16]), AT, BODY) {
        headers.insert(name, value.parse().unwrap());
    }
    headers
}

fn check(headers: &HeaderMap, body: &[u8]) -> Result<(), NoticeError> {
    verify(&WebhookKey(key().public()), headers, body, AT)
}

/// Made by Python's `cryptography` from the same seed.
#[test]
fn it_is_what_others_sign() {
    let public = "whpk_6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";
    assert_eq!(WebhookKey(key().public()).to_string(), public);
    assert_eq!(public.parse(), Ok(WebhookKey(key().public())));
    let headers = notice();
    assert_eq!(headers[WEBHOOK_ID], "evt_00000000000000000000000000");
    assert_eq!(headers[WEBHOOK_TIMESTAMP], "1800000000");
    let signature = "v1a,Xu9osOSigJzLP+bOB8gMRHECClPcBAacNAQ4/GW0eUp9nYUlPj/+O7p4EOp0rPIqRD4DXZtf\
                     ZyXSAhRsKWdCBg==";
    assert_eq!(headers[WEBHOOK_SIGNATURE], signature);
    assert_eq!(check(&headers, BODY), Ok(()));
}

#[test]
fn a_changed_notice_is_not_believed() {
    assert_eq!(check(&notice(), br#"{"a":2}"#), Err(NoticeError::BadSignature));
    let changed = |name: &'static str, value: &str| {
        let mut headers = notice();
        headers.insert(name, value.parse().unwrap());
        check(&headers, BODY)
    };
    let other = EventId::from_bytes([1; 16]).to_string();
    assert_eq!(changed(WEBHOOK_ID, &other), Err(NoticeError::BadSignature));
    assert_eq!(changed(WEBHOOK_TIMESTAMP, "1800000001"), Err(NoticeError::BadSignature));
    assert_eq!(changed(WEBHOOK_TIMESTAMP, "now"), Err(NoticeError::Header(WEBHOOK_TIMESTAMP)));
    let good = notice()[WEBHOOK_SIGNATURE].to_str().unwrap().to_owned();
    let wrong_scheme = good.replace("v1a,", "v1,");
    for bad in ["", "v1a,", "v1a,AAAA", wrong_scheme.as_str()] {
        assert_eq!(changed(WEBHOOK_SIGNATURE, bad), Err(NoticeError::BadSignature), "{bad}");
    }
    // While a key is replaced, a notice carries a signature of each.
    assert_eq!(changed(WEBHOOK_SIGNATURE, &format!("v1,x {wrong_scheme} {good}")), Ok(()));
    for name in [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE] {
        let mut headers = notice();
        headers.remove(name);
        assert_eq!(check(&headers, BODY), Err(NoticeError::Header(name)));
    }
}

#[test]
fn an_old_notice_is_not_believed() {
    let at = |now| verify(&WebhookKey(key().public()), &notice(), BODY, now);
    let second = Duration::from_secs(1);
    assert_eq!(at(AT.plus(NOTICE_AGE_MAX)), Ok(()));
    assert_eq!(at(AT.minus(NOTICE_AGE_MAX)), Ok(()));
    assert_eq!(at(AT.plus(NOTICE_AGE_MAX + second)), Err(NoticeError::NotFresh));
    assert_eq!(at(AT.minus(NOTICE_AGE_MAX + second)), Err(NoticeError::NotFresh));
}

#[test]
fn a_key_has_one_form() {
    let good = WebhookKey(key().public()).to_string();
    let unpadded = good.trim_end_matches('=');
    for bad in ["", "whpk_", "whpk_AAAA", &good[5..], unpadded, "whsk_6kpsY+KcUgq+9VB7Ey7F+ZVHdq6="]
    {
        assert_eq!(bad.parse::<WebhookKey>(), Err(NotAWebhookKey), "{bad}");
    }
}

#[test]
fn an_attempt_is_flat() {
    let attempt = |outcome, status, error: Option<&str>| WebhookAttempt {
        at: AT,
        event_id: EventId::from_bytes([0; 16]),
        kind: "transfer.posted".to_owned(),
        attempt: 2,
        status,
        error: error.map(str::to_owned),
        outcome,
    };
    let retried = attempt(WebhookOutcome::Retry { retry_at: AT }, None, Some("timeout"));
    let expected = serde_json::json!({
        "at": "2027-01-15T08:00:00.000Z", "event_id": "evt_00000000000000000000000000",
        "kind": "transfer.posted", "attempt": 2, "error": "timeout", "outcome": "retry",
        "retry_at": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(serde_json::to_value(&retried).unwrap(), expected);
    for attempt in [retried, attempt(WebhookOutcome::GivenUp, Some(410), None)] {
        let text = serde_json::to_string(&attempt).unwrap();
        assert_eq!(serde_json::from_str::<WebhookAttempt>(&text).unwrap(), attempt);
    }
}
