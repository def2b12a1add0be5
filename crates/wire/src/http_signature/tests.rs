use proptest::prelude::*;

use super::*;

const BODY: &[u8] = br#"{"hello": "world"}"#;
const AUTHORITY: &str = "skep.example:4020";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), value.parse::<HeaderValue>().unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn now() -> Timestamp {
    Timestamp::from_ms(1_700_000_000_000)
}

fn key() -> SecretKey {
    SecretKey::from_seed([7; 32])
}

fn signed(message: &Message<'_>) -> HeaderMap {
    let signer = Signer {
        key: &key(),
        key_id: KeyId::Agent(AgentId([5; 20])),
        nonce: "0123456789abcdef",
        created: now(),
        lifetime: Duration::from_secs(60),
    };
    let mut headers = message.headers.clone();
    headers.extend(sign(message, &signer).unwrap());
    headers
}

fn verify(message: &Message<'_>) -> Result<Parsed, SignatureError> {
    let parsed = parse(message.headers)?;
    parsed.check(message, now(), |name| name == AUTHORITY)?;
    parsed.verify(message, &key().public())?;
    Ok(parsed)
}

/// RFC 9421, appendix B.2.6, with the key of B.1.4. Ed25519 gives the same signature every time.
#[test]
fn the_rfcs_own_example() {
    let headers = headers(&[
        ("host", "example.com"),
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        ("content-length", "18"),
    ]);
    let message = Message {
        method: "POST",
        authority: "example.com",
        path: "/foo",
        query: Some("param=Value&Pet=dog"),
        headers: &headers,
        body: BODY,
    };
    let input = r#"sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519""#;
    let dictionary: Dictionary = Parser::new(input).parse().unwrap();
    let Some(ListEntry::InnerList(list)) = dictionary.get("sig-b26") else { panic!() };
    let components: Vec<&str> =
        list.items.iter().map(|item| item.bare_item.as_string().unwrap().as_str()).collect();
    let base = base(&components, &inner_list_text(list), &message).unwrap();
    let expected = concat!(
        "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n",
        "\"@method\": POST\n",
        "\"@path\": /foo\n",
        "\"@authority\": example.com\n",
        "\"content-type\": application/json\n",
        "\"content-length\": 18\n",
        "\"@signature-params\": (\"date\" \"@method\" \"@path\" \"@authority\" ",
        "\"content-type\" \"content-length\");created=1618884473;keyid=\"test-key-ed25519\"",
    );
    assert_eq!(base, expected);
    let seed = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU")
        .unwrap();
    let key = SecretKey::from_seed(seed.try_into().unwrap());
    assert_eq!(key.public().to_string(), "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs");
    assert_eq!(
        STANDARD.encode(key.sign(base.as_bytes()).as_bytes()),
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw=="
    );
}

/// RFC 9530, appendix D: the digest of the same body.
#[test]
fn digest_of_a_body() {
    assert_eq!(content_digest(BODY), "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:");
}

#[test]
fn what_is_signed_verifies() {
    let plain = headers(&[("content-type", "application/json"), ("idempotency-key", "k1")]);
    let none = HeaderMap::new();
    let post = Message {
        method: "POST",
        authority: AUTHORITY,
        path: "/v1/transfers",
        query: None,
        headers: &plain,
        body: BODY,
    };
    let get = Message { method: "GET", query: Some("limit=5"), headers: &none, body: b"", ..post };
    for message in [post, get, Message { query: Some(""), ..get }, Message { query: None, ..get }] {
        let headers = signed(&message);
        let message = Message { headers: &headers, ..message };
        let parsed = verify(&message).unwrap();
        assert_eq!(parsed.key_id, KeyId::Agent(AgentId([5; 20])));
        assert_eq!(parsed.nonce, "0123456789abcdef");
        // A host's letters may change their case on the way.
        verify(&Message { authority: "SKEP.Example:4020", ..message }).unwrap();
    }
}

fn with_input(change: impl Fn(&str) -> String) -> Result<Parsed, SignatureError> {
    let plain = headers(&[("content-type", "application/json"), ("idempotency-key", "k1")]);
    let message = Message {
        method: "POST",
        authority: AUTHORITY,
        path: "/v1/transfers",
        query: Some("a=b"),
        headers: &plain,
        body: BODY,
    };
    let mut headers = signed(&message);
    let input = change(headers[SIGNATURE_INPUT].to_str().unwrap());
    headers.insert(SIGNATURE_INPUT, input.parse().unwrap());
    verify(&Message { headers: &headers, ..message })
}

#[test]
fn every_required_component_is_required() {
    for component in [
        "@method",
        "@authority",
        "@path",
        "@query",
        "content-digest",
        "content-type",
        "idempotency-key",
    ] {
        let error = with_input(|input| {
            input.replace(&format!("\"{component}\""), "").replace("  ", " ").replace("( ", "(")
        });
        assert_eq!(error, Err(SignatureError::NotCovered { component }), "{component}");
    }
}

#[test]
fn parameters_are_checked() {
    let code = |change: &dyn Fn(&str) -> String| with_input(change).unwrap_err().code();
    let replace = |from: &'static str, to: &'static str| {
        code(&move |input: &str| {
            assert!(input.contains(from), "{input}");
            input.replace(from, to)
        })
    };
    assert_eq!(replace("alg=\"ed25519\"", "alg=\"hmac-sha256\""), "signature_malformed");
    assert_eq!(replace("tag=\"skep\"", "tag=\"other\""), "signature_missing");
    assert_eq!(replace("nonce=\"0123456789abcdef\"", "nonce=\"short\""), "signature_malformed");
    assert_eq!(replace(";nonce=\"0123456789abcdef\"", ""), "signature_malformed");
    assert_eq!(replace("created=1700000000", "created=1699999000"), "signature_lifetime_too_long");
    assert_eq!(replace("expires=1700000060", "expires=1700000000"), "signature_malformed");
    assert_eq!(replace("expires=1700000060", "expires=1700000061"), "bad_signature");
    assert_eq!(replace("created=1700000000", "created=\"now\""), "signature_malformed");
    assert_eq!(replace("(\"@method\"", "(\"@method\" \"@method\""), "signature_malformed");
    assert_eq!(replace("(\"@method\"", "(\"@method\" \"x-new\""), "signature_malformed");
    assert_eq!(replace("(\"@method\"", "(\"@method\";req"), "signature_malformed");
    assert_eq!(replace("keyid=\"0x05", "keyid=\"0X05"), "signature_malformed");
    assert_eq!(replace("keyid=\"0x05", "keyid=\"0x06"), "bad_signature");
    assert_eq!(code(&|input| format!("{input}, other={}", &input[5..])), "signature_malformed");
    assert_eq!(code(&|input| input[..20].to_owned()), "signature_malformed");
    let too_old = |created: i64| {
        let shift = format!("created={created};expires={}", created + 60);
        code(&move |input| input.replace("created=1700000000;expires=1700000060", &shift))
    };
    assert_eq!(too_old(1_700_000_000 - 91), "signature_expired");
    assert_eq!(too_old(1_700_000_000 - 90), "bad_signature");
    assert_eq!(too_old(1_700_000_031), "signature_not_yet_valid");
    assert_eq!(too_old(1_700_000_030), "bad_signature");
}

#[test]
fn another_node_does_not_take_it() {
    let none = HeaderMap::new();
    let message = Message {
        method: "GET",
        authority: "other.example",
        path: "/",
        query: None,
        headers: &none,
        body: b"",
    };
    let headers = signed(&message);
    let error = verify(&Message { headers: &headers, ..message }).unwrap_err();
    assert_eq!(error.code(), "wrong_audience");
    let moved = Message { headers: &headers, authority: AUTHORITY, ..message };
    assert_eq!(verify(&moved).unwrap_err().code(), "bad_signature");
}

/// The bytes with one of them replaced by another.
fn with_byte(bytes: &[u8], at: usize, by: u8) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[at % bytes.len()] ^= by;
    changed
}

proptest! {
    /// Whatever is changed on the way is noticed.
    #[test]
    fn a_changed_byte_fails(
        path in "/[a-z0-9/]{1,20}",
        query in "[a-z0-9=&]{1,20}",
        body in proptest::collection::vec(any::<u8>(), 1..60),
        idempotency_key in "[!-~]{1,20}",
        part in 0..6_usize,
        at in any::<usize>(),
        by in 1..128_u8,
    ) {
        let plain =
            headers(&[("content-type", "application/json"), ("idempotency-key", &idempotency_key)]);
        let message = Message {
            method: "POST",
            authority: AUTHORITY,
            path: &path,
            query: Some(&query),
            headers: &plain,
            body: &body,
        };
        let mut headers = signed(&message);
        let unchanged = verify(&Message { headers: &headers, ..message });
        prop_assert!(unchanged.is_ok());

        let text = |of: &str| String::from_utf8(with_byte(of.as_bytes(), at, by)).unwrap();
        let (method, path, query) = match part {
            0 => (text("POST"), path.clone(), query.clone()),
            1 => ("POST".to_owned(), text(&path), query.clone()),
            2 => ("POST".to_owned(), path.clone(), text(&query)),
            _ => ("POST".to_owned(), path.clone(), query.clone()),
        };
        let body = if part == 3 { with_byte(&body, at, by) } else { body.clone() };
        if part >= 4 {
            let name = if part == 4 { CONTENT_TYPE } else { IDEMPOTENCY_KEY };
            let changed = with_byte(headers[&name].as_bytes(), at, by);
            let Ok(value) = HeaderValue::from_bytes(&changed) else { return Ok(()) };
            // Space around a value is not part of it.
            prop_assume!(changed.trim_ascii().len() == changed.len());
            headers.insert(name, value);
        }
        let message = Message {
            method: &method,
            path: &path,
            query: Some(&query),
            headers: &headers,
            body: &body,
            ..message
        };
        prop_assert!(verify(&message).is_err());
    }

    #[test]
    fn reading_never_panics(input in "[ -~]{0,200}", signature in "[ -~]{0,100}") {
        let mut headers = HeaderMap::new();
        headers.insert(SIGNATURE_INPUT, input.parse().unwrap());
        headers.insert(SIGNATURE, signature.parse().unwrap());
        prop_assert!(parse(&headers).is_err());
    }
}
