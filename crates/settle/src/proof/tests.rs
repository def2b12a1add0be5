use std::fmt::Write;

use expect_test::{expect, expect_file};
use proptest::prelude::*;
use serde_json::json;

use skep_wire::settle::Attachment;

use super::*;

const KID: &str = "2026-1";

fn key() -> SecretKey {
    SecretKey::from_seed([7; 32])
}

/// The verifier's key as an agent.
fn agent_key() -> SecretKey {
    SecretKey::from_seed([8; 32])
}

fn agent() -> AgentId {
    AgentId([0x11; 20])
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000 + second * 1000)
}

fn deal() -> DealId {
    DealId::new(time(0), &[b"deal"])
}

/// A bundle that says everything a bundle can.
fn bundle() -> ProofBundle {
    let hash = |n: u8| Hash32([n; 32]).to_string();
    let action = |index: u32, action: &str| {
        json!({
            "index": index,
            "action": action,
            "success": true,
            "cost_cents": 1,
            "timestamp": time(1),
            "note": "ü",
        })
    };
    let bundle = json!({
        "format": FORMAT,
        "verification_id": deal().verification(1),
        "negotiation_id": deal(),
        "escrow_ref": deal(),
        "terms_hash": hash(1),
        "spec": {
            "type": "http",
            "url": "https://example.org/",
            "selector": "p",
            "expected_content": "done",
            "fingerprint_delta": true,
            "timeout_seconds": 1800,
            "baseline_fingerprint": hash(2),
            "custom": {"status": 200},
        },
        "outcome": "FAILED",
        "failure_reason": "not there",
        "error": {"code": "none", "detail": "none"},
        "action_log": [action(0, "NAVIGATE"), action(1, "EXTRACT"), action(2, "FINGERPRINT")],
        "chain_alg": CHAIN,
        "fingerprints": {"baseline": hash(2), "current": hash(3)},
        "artifact_hashes": [hash(4)],
        "verifier": {"id": agent(), "kid": KID, "software": "skep/1"},
        "agent_identity": identify(agent(), &agent_key(), time(2)),
        "supersedes": deal().verification(9),
        "split": {"released_minor": "1", "refunded_minor": "2"},
        "started_at": time(0),
        "completed_at": time(3),
    });
    serde_json::from_value(bundle).unwrap()
}

fn sealed(bundle: ProofBundle) -> (VerificationCallback, Value) {
    let callback = seal(bundle, Some("undone".to_owned()), &key()).unwrap();
    let bundle = callback.proof_bundle.clone().unwrap();
    (callback, bundle)
}

/// What the marketplace knows.
struct Known {
    spec: VerificationSpec,
    key: PublicKey,
    agent_key: PublicKey,
}

impl Known {
    fn new() -> Known {
        let spec = bundle().spec;
        Known { spec, key: key().public(), agent_key: agent_key().public() }
    }

    fn expected(&self) -> Expected<'_> {
        Expected {
            verification: deal().verification(1),
            deal: deal(),
            terms_hash: Hash32([1; 32]),
            spec: &self.spec,
            verifier: agent(),
            key: &self.key,
            kid: KID,
            agent_key: Some(&self.agent_key),
        }
    }

    fn check(&self, callback: &VerificationCallback, bundle: &Value) -> String {
        match check(callback, bundle, &self.expected()) {
            Ok(_) => "accepted".to_owned(),
            Err(fault) => show(&fault),
        }
    }
}

fn show(fault: &Fault) -> String {
    match fault {
        Fault::ForeignBundle { field } => format!("ForeignBundle {field}"),
        Fault::FieldMismatch { field } => format!("FieldMismatch {field}"),
        Fault::BadAction { index } => format!("BadAction {index}"),
        Fault::BadAttachment { index, .. } => format!("BadAttachment {index}"),
        Fault::Unreadable { .. } => "Unreadable".to_owned(),
        Fault::HashMismatch { .. } => "HashMismatch".to_owned(),
        Fault::BrokenChain { .. } => "BrokenChain".to_owned(),
        Fault::BadSignature { kid } => format!("BadSignature {kid}"),
        Fault::NoBundle
        | Fault::OtherSpec
        | Fault::OutcomeMismatch
        | Fault::ContentChanged
        | Fault::ForeignIdentity => format!("{fault:?}"),
    }
}

/// The JSON pointers of everything in a value that is no object and no list.
fn leaves(value: &Value) -> Vec<String> {
    let below = |name: &str, value: &Value| -> Vec<String> {
        leaves(value).iter().map(|rest| format!("/{name}{rest}")).collect()
    };
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, v)| below(name, v)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(at, v)| below(&at.to_string(), v)).collect()
        }
        _ => vec![String::new()],
    }
}

/// Another value of the same kind, which can still be read.
fn other(pointer: &str, value: &Value) -> Value {
    let name = pointer.rsplit('/').next().unwrap();
    match value {
        Value::Bool(is) => json!(!is),
        Value::Number(n) => json!(n.as_u64().unwrap() + 1),
        Value::String(text) => {
            let swap = |at: usize| {
                let with = if text.as_bytes()[at] == b'a' { "b" } else { "a" };
                json!(format!("{}{with}{}", &text[..at], &text[at + 1..]))
            };
            match name {
                "outcome" => json!("REJECTED"),
                "started_at" | "completed_at" | "timestamp" => json!(text.replace("09:", "10:")),
                "released_minor" | "refunded_minor" => json!("7"),
                "proof_signature" | "signature" => swap(0),
                _ if text.len() >= 36 && !text.contains(' ') => swap(20),
                _ => json!(format!("{text}x")),
            }
        }
        other => panic!("{pointer} is {other}"),
    }
}

#[test]
fn what_is_sealed_is_accepted() {
    let known = Known::new();
    let (callback, bundle) = sealed(self::bundle());
    assert_eq!(known.check(&callback, &bundle), "accepted");
    assert!(!callback.passed);
    let mut good = self::bundle();
    (good.outcome, good.failure_reason) = (skep_wire::settle::Outcome::Verified, None);
    (good.agent_identity, good.action_log) = (None, vec![]);
    let callback = seal(good, None, &key()).unwrap();
    let read = check(&callback, callback.proof_bundle.as_ref().unwrap(), &known.expected());
    assert!(callback.passed && read.unwrap().action_log_head.is_none());
}

/// Each field of a bundle: changed by somebody who can recompute the hash, and by the verifier
/// itself, who can sign too. What is left to accept then is the verifier's own word.
#[test]
fn every_changed_field_of_a_bundle_is_refused_by_name() {
    let known = Known::new();
    let (callback, bundle) = sealed(self::bundle());
    let mut table = String::new();
    for pointer in leaves(&bundle) {
        let mut changed = bundle.clone();
        let place = changed.pointer_mut(&pointer).unwrap();
        *place = other(&pointer, place);
        assert_eq!(known.check(&callback, &changed), "HashMismatch", "{pointer}");

        let mut rehashed = callback.clone();
        rehashed.proof_hash = json_sha256(&changed).unwrap();
        let by_thief = known.check(&rehashed, &changed);
        assert_ne!(by_thief, "accepted", "{pointer}");

        let by_verifier = match serde_json::from_value::<ProofBundle>(changed.clone()) {
            Err(_) => "unreadable".to_owned(),
            Ok(said) => {
                let mut signed = rehashed.clone();
                signed.verification_id = said.verification_id;
                signed.failure_reason.clone_from(&said.failure_reason);
                signed.action_log.clone_from(&said.action_log);
                signed.completed_at = said.completed_at;
                let body = body_of(&said, signed.proof_hash);
                signed.proof_signature = key().sign(&json::to_vec(&body).unwrap());
                known.check(&signed, &changed)
            }
        };
        writeln!(table, "{pointer}: {by_thief}; by the verifier: {by_verifier}").unwrap();
    }
    expect_file!["tampering.txt"].assert_eq(&table);
}

#[test]
fn what_a_bundle_says_beyond_the_format_is_hashed_and_signed_too() {
    let known = Known::new();
    let (mut callback, mut bundle) = sealed(self::bundle());
    bundle["aivs"] = json!({"hash": "x"});
    assert_eq!(known.check(&callback, &bundle), "HashMismatch");
    callback.proof_hash = json_sha256(&bundle).unwrap();
    assert_eq!(known.check(&callback, &bundle), "BadSignature 2026-1");
    let body = body_of(&self::bundle(), callback.proof_hash);
    callback.proof_signature = key().sign(&json::to_vec(&body).unwrap());
    assert_eq!(known.check(&callback, &bundle), "accepted");
}

#[test]
fn every_changed_field_of_a_callback_is_refused_but_those_that_decide_nothing() {
    let known = Known::new();
    let (callback, bundle) = sealed(self::bundle());
    let sent = VerificationCallback {
        proof_bundle: None,
        proof_bundle_uri: Some("https://example.org/bundle".to_owned()),
        ..callback
    };
    let sent = serde_json::to_value(sent).unwrap();
    let mut table = String::new();
    for pointer in leaves(&sent) {
        let mut changed = sent.clone();
        let place = changed.pointer_mut(&pointer).unwrap();
        *place = other(&pointer, place);
        let read = serde_json::from_value(changed).unwrap();
        writeln!(table, "{pointer}: {}", known.check(&read, &bundle)).unwrap();
    }
    for field in ["extracted_content", "failure_reason", "action_log", "kid", "proof_bundle_uri"] {
        let mut changed = sent.clone();
        changed.as_object_mut().unwrap().remove(field).unwrap();
        let read = serde_json::from_value(changed).unwrap();
        writeln!(table, "without {field}: {}", known.check(&read, &bundle)).unwrap();
    }
    expect![[r#"
        /action_log/0/action: FieldMismatch action_log
        /action_log/0/cost_cents: FieldMismatch action_log
        /action_log/0/index: FieldMismatch action_log
        /action_log/0/note: FieldMismatch action_log
        /action_log/0/success: FieldMismatch action_log
        /action_log/0/timestamp: FieldMismatch action_log
        /action_log/1/action: FieldMismatch action_log
        /action_log/1/cost_cents: FieldMismatch action_log
        /action_log/1/index: FieldMismatch action_log
        /action_log/1/note: FieldMismatch action_log
        /action_log/1/success: FieldMismatch action_log
        /action_log/1/timestamp: FieldMismatch action_log
        /action_log/2/action: FieldMismatch action_log
        /action_log/2/cost_cents: FieldMismatch action_log
        /action_log/2/index: FieldMismatch action_log
        /action_log/2/note: FieldMismatch action_log
        /action_log/2/success: FieldMismatch action_log
        /action_log/2/timestamp: FieldMismatch action_log
        /completed_at: FieldMismatch completed_at
        /extracted_content: ContentChanged
        /failure_reason: FieldMismatch failure_reason
        /kid: accepted
        /message_type: accepted
        /passed: OutcomeMismatch
        /proof_bundle_uri: accepted
        /proof_hash: HashMismatch
        /proof_signature: BadSignature 2026-1
        /vcap_version: accepted
        /verification_id: FieldMismatch verification_id
        without extracted_content: ContentChanged
        without failure_reason: FieldMismatch failure_reason
        without action_log: FieldMismatch action_log
        without kid: accepted
        without proof_bundle_uri: accepted
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_log_cannot_be_changed_shortened_or_reordered_but_by_sealing_it_anew() {
    type Change = fn(&mut Vec<Value>);
    let changes: [(&str, Change); 6] = [
        ("one changed", |log| log[0]["success"] = json!(false)),
        ("one with a field more", |log| log[1]["more"] = json!(1)),
        ("the last removed", |log| drop(log.pop())),
        ("the first removed", |log| drop(log.remove(0))),
        ("two swapped", |log| log.swap(0, 1)),
        ("one without its name", |log| drop(log[2].as_object_mut().unwrap().remove("action"))),
    ];
    let known = Known::new();
    let (callback, bundle) = sealed(self::bundle());
    let mut table = String::new();
    for (what, change) in changes {
        let mut sent = callback.clone();
        change(&mut sent.action_log);
        let in_callback = known.check(&sent, &bundle);
        // In both, with the hash and the signature made anew, but not the chain.
        let mut said: ProofBundle = serde_json::from_value(bundle.clone()).unwrap();
        said.action_log.clone_from(&sent.action_log);
        sent.proof_hash = json_sha256(&said).unwrap();
        sent.proof_signature = key().sign(&json::to_vec(&body_of(&said, sent.proof_hash)).unwrap());
        let in_both = known.check(&sent, &serde_json::to_value(&said).unwrap());
        // Sealed as if nothing had been.
        let (sent, value) = sealed(said);
        let anew = known.check(&sent, &value);
        writeln!(table, "{what}: {in_callback}; signed: {in_both}; sealed: {anew}").unwrap();
    }
    expect![[r#"
        one changed: FieldMismatch action_log; signed: BrokenChain; sealed: accepted
        one with a field more: FieldMismatch action_log; signed: BrokenChain; sealed: accepted
        the last removed: FieldMismatch action_log; signed: BrokenChain; sealed: accepted
        the first removed: FieldMismatch action_log; signed: BadAction 0; sealed: BadAction 0
        two swapped: FieldMismatch action_log; signed: BadAction 0; sealed: BadAction 0
        one without its name: FieldMismatch action_log; signed: BadAction 2; sealed: BadAction 2
    "#]]
    .assert_eq(&table);

    let mut long = self::bundle();
    let action = |index| json!({"index": index, "action": "WAIT"});
    long.action_log = (0..=ACTIONS_MAX).map(action).collect();
    let (sent, value) = sealed(long);
    assert_eq!(known.check(&sent, &value), "BadAction 256");
}

#[test]
fn a_proof_is_good_for_one_verification_of_one_deal_by_one_key_only() {
    let known = Known::new();
    let (callback, bundle) = sealed(self::bundle());
    let with = |change: &dyn Fn(&mut Expected<'_>)| {
        let mut expected = known.expected();
        change(&mut expected);
        match check(&callback, &bundle, &expected) {
            Ok(_) => "accepted".to_owned(),
            Err(fault) => show(&fault),
        }
    };
    let elsewhere = DealId::new(time(0), &[b"another deal"]);
    let again = |e: &mut Expected<'_>| e.verification = deal().verification(2);
    assert_eq!(with(&again), "ForeignBundle verification_id");
    assert_eq!(with(&|e| e.deal = elsewhere), "ForeignBundle negotiation_id");
    assert_eq!(with(&|e| e.terms_hash = Hash32([9; 32])), "ForeignBundle terms_hash");
    assert_eq!(with(&|e| e.verifier = AgentId([9; 20])), "ForeignBundle verifier.id");
    assert_eq!(with(&|e| e.kid = "2025-1"), "ForeignBundle verifier.kid");
    assert_eq!(with(&|e| e.agent_key = None), "ForeignIdentity");

    let stranger = SecretKey::from_seed([9; 32]);
    let with_key = Known { key: stranger.public(), ..Known::new() };
    assert_eq!(with_key.check(&callback, &bundle), "BadSignature 2026-1");
    let with_identity = Known { agent_key: stranger.public(), ..Known::new() };
    assert_eq!(with_identity.check(&callback, &bundle), "ForeignIdentity");
    let mut with_spec = Known::new();
    with_spec.spec.expected_content = Some("undone".to_owned());
    assert_eq!(with_spec.check(&callback, &bundle), "OtherSpec");
}

#[test]
fn passed_and_outcome_never_part() {
    let known = Known::new();
    for (outcome, passed) in
        [("VERIFIED", true), ("FAILED", false), ("REJECTED", false), ("ERROR", false)]
    {
        let mut said = bundle();
        said.outcome = serde_json::from_value(json!(outcome)).unwrap();
        let (mut callback, value) = sealed(said.clone());
        assert_eq!((callback.passed, &*known.check(&callback, &value)), (passed, "accepted"));
        callback.passed = !passed;
        assert_eq!(known.check(&callback, &value), "OutcomeMismatch");
        // Even where the signature is over the lie.
        let body = ProofBody { passed: !passed, ..body_of(&said, callback.proof_hash) };
        callback.proof_signature = key().sign(&json::to_vec(&body).unwrap());
        assert_eq!(known.check(&callback, &value), "OutcomeMismatch");
    }
}

#[test]
fn an_identity_is_the_registered_agents_key_over_its_name_and_time() {
    let (good, known) = (identify(agent(), &agent_key(), time(2)), agent_key().public());
    let check = |identity: &AgentIdentity| check_identity(identity, &agent(), &known);
    assert_eq!(check(&good), Ok(()));
    let without_newline = good.public_key.trim_end().to_owned();
    assert_eq!(check(&AgentIdentity { public_key: without_newline, ..good.clone() }), Ok(()));
    let stranger = SecretKey::from_seed([9; 32]);
    let other_agent = identify(AgentId([9; 20]), &agent_key(), time(2));
    for bad in [
        AgentIdentity { agent_id: other_agent.agent_id.clone(), ..good.clone() },
        AgentIdentity { public_key: to_pem(&stranger.public()), ..good.clone() },
        AgentIdentity { signature: stranger.sign(b"x"), ..good.clone() },
        AgentIdentity { timestamp: time(3), ..good.clone() },
        identify(agent(), &stranger, time(2)),
        other_agent,
    ] {
        assert_eq!(check(&bad), Err(Fault::ForeignIdentity), "{bad:?}");
    }
}

/// `openssl pkey -inform DER -in k.der -pubout`, where `k.der` is the PKCS #8 form of a seed of
/// 32 sevens.
#[test]
fn a_key_in_pem_is_as_openssl_prints_it() {
    let printed = "-----BEGIN PUBLIC KEY-----\n\
                   MCowBQYDK2VwAyEA6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=\n\
                   -----END PUBLIC KEY-----\n";
    assert_eq!(to_pem(&key().public()), printed);
}

/// The texts and both hashes come from Python's `hashlib`.
#[test]
fn the_chain_is_over_canonical_text_and_the_hex_of_the_hash_before() {
    let first = r#"{"action":"NAVIGATE","cost_cents":1,"index":0,"success":true,"timestamp":"2026-11-15T09:00:01.000Z","url":"https://example.org/"}"#;
    let second = r#"{"action":"EXTRACT","cost_cents":0,"index":1,"note":"ü","success":true,"timestamp":"2026-11-15T09:00:02.000Z"}"#;
    let head_0 = "bb4fb39437e25ecec98f734294f72cfe21303a04ff5187886afbe5911989f52a";
    let head_1 = "1c2a952b39161153f47682cc9c2d6864f5c0d80910aacf2610fd06ff2d919f20";
    assert_eq!(sha256(first.as_bytes()).to_string(), head_0);
    assert_eq!(sha256(format!("{second}{head_0}").as_bytes()).to_string(), head_1);

    let shuffled = r#"{"url":"https://example.org/", "index":0, "success":true, "cost_cents":1,
        "timestamp":"2026-11-15T09:00:01.000Z", "action":"NAVIGATE"}"#;
    let log = [shuffled, second].map(|text| serde_json::from_str(text).unwrap());
    let head = |log: &[Value]| chain(log).unwrap().map(|head| head.to_string());
    assert_eq!(head(&[]), None);
    assert_eq!(head(&log[..1]).as_deref(), Some(head_0));
    assert_eq!(head(&log).as_deref(), Some(head_1));
}

/// The canonical text was written by hand; its hash is from `sha256sum` and the signature over the
/// body from `openssl pkeyutl -sign -rawin`, with the key above.
#[test]
fn hash_and_signature_are_what_other_programs_compute() {
    let bundle = BUNDLE.replace('\n', "");
    let hash = sha256(bundle.as_bytes());
    assert_eq!(hash.to_string(), BUNDLE_HASH);
    let said: ProofBundle = serde_json::from_str(&bundle).unwrap();
    let callback = seal(said, None, &key()).unwrap();
    assert_eq!(callback.proof_hash, hash);
    assert_eq!(json::to_string(callback.proof_bundle.as_ref().unwrap()).unwrap(), bundle);
    assert_eq!(callback.proof_signature.to_string(), SIGNATURE);
}

const BUNDLE: &str = r#"{"action_log":[],"chain_alg":"sha256-jcs-hex/1",
"completed_at":"2026-11-15T09:00:03.000Z","escrow_ref":"01921f3a-4b5c-7000-8000-000000000000",
"fingerprints":{},"format":"skep/vcap-proof/v1",
"negotiation_id":"01921f3a-4b5c-7000-8000-000000000000","outcome":"VERIFIED",
"spec":{"expected_content":null,"fingerprint_delta":false,"selector":null,
"timeout_seconds":1800,"type":"http","url":"https://example.org/"},
"started_at":"2026-11-15T09:00:00.000Z",
"terms_hash":"0101010101010101010101010101010101010101010101010101010101010101",
"verification_id":"01921f3a-4b5c-7000-8000-000000000001",
"verifier":{"id":"0x1111111111111111111111111111111111111111","kid":"k","software":"s"}}"#;
const BUNDLE_HASH: &str = "8edb9f582cb2ee1c0403b4cdf423c1b183f5feedcb23e01672c733b5a88e7097";
const SIGNATURE: &str =
    "32jZ_YTSTUxpygZpaNO0_2_pqKNTxCaBQorGyV41bUJD_hyRkzc5Q15tmLJcSRKYx9pdcdCEpcL38EAiuHkFCw";

#[test]
fn without_a_bundle_only_the_signed_six_count() {
    let known = Known::new();
    let (callback, _) = sealed(bundle());
    let sent = VerificationCallback { proof_bundle: None, ..callback };
    let check = |sent: &VerificationCallback, expected: &Expected<'_>| match check_bundle_less(
        sent, expected,
    ) {
        Ok(()) => "accepted".to_owned(),
        Err(fault) => show(&fault),
    };
    assert_eq!(check(&sent, &known.expected()), "accepted");
    let value = serde_json::to_value(&sent).unwrap();
    let mut uncovered = Vec::new();
    for pointer in leaves(&value) {
        let mut changed = value.clone();
        let place = changed.pointer_mut(&pointer).unwrap();
        *place = other(&pointer, place);
        match &*check(&serde_json::from_value(changed).unwrap(), &known.expected()) {
            "accepted" => uncovered.push(pointer),
            "BadSignature 2026-1" => assert!(
                ["/passed", "/proof_hash", "/proof_signature", "/completed_at"]
                    .contains(&&*pointer)
            ),
            "FieldMismatch verification_id" => assert_eq!(pointer, "/verification_id"),
            fault => assert!(pointer.ends_with("/index") && fault.starts_with("BadAction")),
        }
    }
    // The verifier's word that nothing binds to its signature: such a settlement is no proof.
    uncovered.retain(|pointer| !pointer.starts_with("/action_log"));
    let expected =
        ["/extracted_content", "/failure_reason", "/kid", "/message_type", "/vcap_version"];
    assert_eq!(uncovered, expected);

    let elsewhere = DealId::new(time(0), &[b"another deal"]);
    let foreign = Expected { deal: elsewhere, ..known.expected() };
    assert_eq!(check(&sent, &foreign), "BadSignature 2026-1");
    let again = deal().verification(2);
    let replayed = VerificationCallback { verification_id: again, ..sent };
    let foreign = Expected { verification: again, ..known.expected() };
    assert_eq!(check(&replayed, &foreign), "BadSignature 2026-1");
}

#[test]
fn an_attachment_is_what_its_hash_says_and_the_log_names_it() {
    let known = Known::new();
    let picture = Attachment::new(b"\x89PNG picture", "image/png", Some("page.png"));
    let answer = Attachment::new(b"{}", "application/json", None);
    let mut named = bundle();
    named.action_log[0]["screenshot_sha256"] = json!(picture.sha256);
    named.action_log[1]["data_sha256"] = json!(answer.sha256);
    let (callback, bundle) = sealed(named);
    let with = |attachments: Vec<Attachment>| {
        known.check(&VerificationCallback { attachments, ..callback.clone() }, &bundle)
    };
    assert_eq!(with(vec![]), "accepted");
    assert_eq!(with(vec![answer.clone(), picture.clone()]), "accepted");
    assert_eq!(with(vec![picture.clone(), picture.clone()]), "BadAttachment 1");
    let foreign = Attachment::new(b"something else", "image/png", None);
    assert_eq!(with(vec![picture.clone(), foreign.clone()]), "BadAttachment 1");
    let changed = Attachment { data: foreign.data, ..picture.clone() };
    assert_eq!(with(vec![changed]), "BadAttachment 0");
    // The same bytes in another spelling: trailing bits that base64 leaves open.
    let spelled = Attachment { data: answer.data.replace("e30=", "e31="), ..answer.clone() };
    assert_eq!(with(vec![spelled]), "BadAttachment 0");
    let nameless = Attachment { name: Some(String::new()), ..answer.clone() };
    assert_eq!(with(vec![nameless]), "BadAttachment 0");
    let typeless = Attachment { media_type: "x".repeat(129), ..answer.clone() };
    assert_eq!(with(vec![picture, typeless]), "BadAttachment 1");
    assert_eq!(with(vec![answer; 5]), "BadAttachment 4");

    let bundle_less = VerificationCallback { attachments: vec![foreign_of(&callback)], ..callback };
    let refused = check_bundle_less(&bundle_less, &known.expected()).unwrap_err();
    assert_eq!(show(&refused), "BadAttachment 0");
}

/// Something that no action of the callback names.
fn foreign_of(callback: &VerificationCallback) -> Attachment {
    Attachment::new(callback.proof_hash.as_bytes(), "text/plain", None)
}

#[test]
fn attachments_have_a_limit_together() {
    let half = vec![b'x'; skep_wire::settle::ATTACHMENTS_LEN_MAX / 2 / 4 * 3];
    let more = [&half[..], b"more"].concat();
    let (half, more) =
        (Attachment::new(&half, "text/plain", None), Attachment::new(&more, "text/plain", None));
    let log = [json!({"data_sha256": half.sha256, "screenshot_sha256": more.sha256})];
    assert_eq!(check_attachments(std::slice::from_ref(&half), &log), Ok(()));
    let refused = check_attachments(&[half, more], &log).unwrap_err();
    assert_eq!(show(&refused), "BadAttachment 1");
}

/// The callback as it travels, its bundle inside.
fn as_sent() -> (VerificationCallback, Vec<u8>) {
    let (callback, _) = sealed(bundle());
    let uri = Some("https://example.org/bundle".to_owned());
    let callback = VerificationCallback { proof_bundle_uri: uri, ..callback };
    let bytes = serde_json::to_vec(&callback).unwrap();
    (callback, bytes)
}

/// Which fields a changed byte has changed without anybody refusing it.
fn slipped_through(sent: &VerificationCallback, bytes: &[u8]) -> Vec<&'static str> {
    let Ok(read) = json::from_slice::<VerificationCallback>(bytes) else { return vec![] };
    let Some(bundle) = &read.proof_bundle else { return vec![] };
    if check(&read, bundle, &Known::new().expected()).is_err() {
        return vec![];
    }
    let mut changed = Vec::new();
    let mut note = |field, is: bool| changed.extend(is.then_some(field));
    note("vcap_version", read.vcap_version != sent.vcap_version);
    note("message_type", read.message_type != sent.message_type);
    note("kid", read.kid != sent.kid);
    note("proof_bundle_uri", read.proof_bundle_uri != sent.proof_bundle_uri);
    let same = VerificationCallback {
        vcap_version: sent.vcap_version.clone(),
        message_type: sent.message_type.clone(),
        kid: sent.kid.clone(),
        proof_bundle_uri: sent.proof_bundle_uri.clone(),
        ..read
    };
    note("something else", same != *sent);
    changed
}

#[test]
fn one_changed_byte_is_noticed_everywhere_but_in_four_fields() {
    let (sent, bytes) = as_sent();
    assert_eq!(slipped_through(&sent, &bytes), Vec::<&str>::new());
    let mut slipped = std::collections::BTreeSet::new();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        slipped.extend(slipped_through(&sent, &changed));
    }
    let expected = ["kid", "message_type", "proof_bundle_uri", "vcap_version"];
    assert_eq!(slipped.into_iter().collect::<Vec<_>>(), expected);
}

proptest! {
    #[test]
    fn no_other_byte_slips_through_either(at: prop::sample::Index, byte: u8) {
        let (sent, mut bytes) = as_sent();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert!(!slipped_through(&sent, &bytes).contains(&"something else"));
    }
}
