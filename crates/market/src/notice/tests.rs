use super::*;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn job(n: u8) -> JobId {
    JobId::from_bytes([n; 16])
}

fn failure(code: &str) -> Reply {
    Err(EgressFailure { code: code.to_owned(), detail: "a test".to_owned() })
}

/// `delivered`, `given up`, or after how many seconds it is tried again.
fn word(reply: &Reply, n: u8, attempts: i64) -> String {
    match outcome(reply, &job(n), attempts, NOW) {
        WebhookOutcome::Delivered => "delivered".to_owned(),
        WebhookOutcome::GivenUp => "given up".to_owned(),
        WebhookOutcome::Retry { retry_at } => retry_at.since(NOW).as_secs().to_string(),
    }
}

#[test]
fn any_2xx_is_success_and_only_gone_is_final_at_once() {
    for status in [200, 201, 202, 204, 299] {
        assert_eq!(word(&Ok(status), 1, 1), "delivered");
    }
    assert_eq!(word(&Ok(410), 1, 1), "given up");
    let first = word(&failure("refused"), 1, 1);
    for status in [100, 199, 300, 302, 400, 404, 429, 500, 503, 599] {
        assert_eq!(word(&Ok(status), 1, 1), first, "{status}");
    }
}

#[test]
fn waits_grow_and_end() {
    let waits = [5, 30, 120, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400_u64];
    for (attempts, wait) in (1..).zip(waits) {
        let told: Vec<u64> =
            (0..=255).map(|n| word(&Ok(500), n, attempts).parse().unwrap()).collect();
        let (least, most) = (wait - wait / 10 - 1, wait + wait / 10 + 1);
        assert!(told.iter().all(|told| (least..=most).contains(told)), "{attempts}: {told:?}");
        let spread = told.iter().max().unwrap() - told.iter().min().unwrap();
        assert!(spread >= wait / 10, "{attempts}: what failed together comes back together");
    }
    for attempts in [11, 12, 1000] {
        assert_eq!(word(&Ok(500), 1, attempts), "given up");
    }
    assert_eq!(word(&Ok(200), 1, 11), "delivered", "the last attempt counts too");
}

#[test]
fn the_same_attempt_always_waits_as_long() {
    let at = |n, attempts| outcome(&Ok(500), &job(n), attempts, NOW);
    assert_eq!(at(1, 10), at(1, 10));
    assert_ne!(at(1, 10), at(2, 10));
}

#[test]
fn only_a_host_in_trouble_is_left_alone() {
    for status in [300, 302, 400, 401, 404, 410, 422, 499] {
        assert!(!is_hosts_fault(&Ok(status)), "{status}");
    }
    for status in [429, 500, 502, 503, 599] {
        assert!(is_hosts_fault(&Ok(status)), "{status}");
    }
    assert!(is_hosts_fault(&failure(TIMEOUT)) && is_hosts_fault(&failure("connect")));
    assert!(!is_hosts_fault(&failure(NO_KEY)));
}

#[test]
fn a_host_has_one_name() {
    let names = [
        ("https://a.example", "https://a.example:443"),
        ("https://A.Example/x?y#z", "https://a.example:443"),
        ("https://a.example:443/", "https://a.example:443"),
        ("https://a.example:8443?x=/y", "https://a.example:8443"),
        ("http://127.0.0.1/x", "http://127.0.0.1:80"),
        ("http://127.0.0.1:81#x", "http://127.0.0.1:81"),
        ("https://[::1]/x", "https://[::1]:443"),
        ("https://[::1]:99/x", "https://[::1]:99"),
    ];
    for (url, name) in names {
        assert_eq!(origin(url), name, "{url}");
    }
}
