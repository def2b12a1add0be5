use std::sync::Arc;

use serde_json::{Value, json};
use skep_base::{Did, Timestamp, ed25519::SecretKey, hash::sha256, json as canonical};

use super::{examples::NOW, *};

mod rotations;

fn key(n: u8) -> SecretKey {
    SecretKey::from_seed([n; 32])
}

fn did(n: u8) -> Did {
    key(n).public().did()
}

/// The keys of agents 1 to 3.
fn keys() -> KnownKeys {
    let mut keys = KnownKeys::default();
    (1..=3).for_each(|n| keys.learn(key(n).public()));
    keys
}

/// Params of each method; agent 1 is whoever has to sign.
fn params(method: &str) -> Value {
    examples::params(method, &key(1).public(), [did(2), did(3)]).unwrap()
}

/// An envelope that `key` has signed in the name of `signer`, whatever it says.
fn signed(method: &str, mut params: Value, signer: u8, by: u8) -> Value {
    params["_meta"] = json!({"signer": did(signer), "swarm": "public", "epoch": 106,
        "sent_at": NOW});
    let payload = canonical::to_vec(&json!({"method": method, "params": params})).unwrap();
    let signature = hex_signature::write(&key(by).sign(&payload));
    json!({"jsonrpc": "2.0", "method": method, "params": params, "signature": signature})
}

fn open(envelope: &Value) -> Result<Signed, OpenError> {
    Signed::open(envelope.to_string().as_bytes(), &keys())
}

#[test]
fn every_method_is_read_and_written_as_it_came() {
    for method in Message::METHODS {
        let envelope = signed(method, params(method), 1, 1);
        let opened = open(&envelope).unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(opened.message.method(), method);
        assert_eq!(opened.meta.signer, did(1));
        assert_eq!(opened.to_json(), envelope, "what is forwarded is what was signed");
        assert_eq!(opened.hash(), sha256(opened.payload()));
        // Our own form of it can be read as well, and means the same.
        let again = Signed::seal(opened.meta.clone(), opened.message.clone(), vec![], &key(1));
        assert_eq!(open(&again.to_json()).unwrap().message, opened.message, "{method}");
    }
}

#[test]
fn a_changed_message_is_refused() {
    for method in Message::METHODS {
        let good = signed(method, params(method), 1, 1);
        let mut longer = good.clone();
        longer["params"]["note"] = json!(1);
        let mut elsewhere = good.clone();
        elsewhere["params"]["_meta"]["swarm"] = json!("another");
        let mut later = good.clone();
        later["params"]["_meta"]["sent_at"] = json!("2026-02-07T12:00:01Z");
        for changed in [longer, elsewhere, later] {
            assert_eq!(open(&changed).unwrap_err(), OpenError::BadSignature, "{method}");
        }
    }
    // The signature is for one method.
    let mut renamed = signed("board.decline", params("board.decline"), 1, 1);
    renamed["method"] = json!("board.dissolve");
    assert_eq!(open(&renamed).unwrap_err(), OpenError::BadSignature);
}

#[test]
fn only_who_is_named_may_sign() {
    for method in Message::METHODS {
        let forged = open(&signed(method, params(method), 1, 2)).unwrap_err();
        assert_eq!(forged, OpenError::BadSignature, "{method}");
        let by_another = open(&signed(method, params(method), 2, 2));
        // Who may sign these only a node that knows the task or the branch can tell.
        let open_to_others = [
            "task.assign",
            "task.verification",
            "hierarchy.succession",
            "board.dissolve",
            "consensus.certificate",
        ];
        match open_to_others.contains(&method) {
            true => assert_eq!(by_another.unwrap().meta.signer, did(2)),
            false => assert_eq!(by_another.unwrap_err(), OpenError::WrongSigner(did(2))),
        }
    }
}

#[test]
fn strangers_bring_their_key_along() {
    let stranger = key(9);
    let signed_by_9 = |method: &str, mut params: Value, changes: Value| {
        let changes = changes.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(changes);
        open(&signed(method, params, 9, 9))
    };
    let own_key = key_text::write(&stranger.public());
    let hand = params("swarm.handshake");
    let own = json!({"agent_id": did(9), "pub_key": own_key});
    assert!(signed_by_9("swarm.handshake", hand.clone(), own).is_ok());
    let borrowed = signed_by_9("swarm.handshake", hand, json!({"agent_id": did(9)}));
    assert_eq!(borrowed.unwrap_err(), OpenError::UnknownSigner(did(9)), "the key of another");
    let inject = params("task.inject");
    let own = json!({"originator": did(9), "pub_key": own_key});
    assert!(signed_by_9("task.inject", inject.clone(), own).is_ok());
    let without = signed_by_9("task.inject", inject, json!({"originator": did(9)}));
    assert_eq!(without.unwrap_err(), OpenError::UnknownSigner(did(9)));
}

#[test]
fn other_spellings_are_read() {
    let mut tier = params("hierarchy.assign_tier");
    tier["tier"] = json!("Tier2");
    let opened = open(&signed("hierarchy.assign_tier", tier.clone(), 1, 1)).unwrap();
    let Message::AssignTier(read) = &opened.message else { panic!("{opened:?}") };
    assert_eq!(read.tier, Tier(2));
    for bad in [json!("Executor"), json!("Tier0"), json!("Tier+2"), json!({"TierN": 0})] {
        tier["tier"] = bad;
        let error = open(&signed("hierarchy.assign_tier", tier.clone(), 1, 1)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidParams);
    }
    // A number as id; a notification that has one; a handshake with the raw key.
    for id in [json!(7), json!("550e8400")] {
        let mut envelope = signed("swarm.keepalive", params("swarm.keepalive"), 1, 1);
        envelope["id"] = id.clone();
        assert_eq!(json!(open(&envelope).unwrap().id), id);
        assert_eq!(open(&envelope).unwrap().to_json(), envelope);
    }
    let raw = *key(1).public().as_bytes();
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    use base64::{Engine, engine::general_purpose::STANDARD};
    for text in [hex, STANDARD.encode(raw)] {
        let mut handshake = params("swarm.handshake");
        handshake["pub_key"] = json!(text);
        let opened = open(&signed("swarm.handshake", handshake, 1, 1)).unwrap();
        assert_eq!(opened.message.own_keys().map(|own| *own.newest), Some(key(1).public()));
    }
    // Nothing to say of disk and stake.
    let mut handshake = params("swarm.handshake");
    handshake["resources"]["disk_gb"] = json!(null);
    let opened = open(&signed("swarm.handshake", handshake, 1, 1)).unwrap();
    let Message::Handshake(read) = &opened.message else { panic!("{opened:?}") };
    assert_eq!(read.resources.disk_gb, 0);
    let mut candidacy = params("election.candidacy");
    candidacy["score"]["stake"] = json!(null);
    let opened = open(&signed("election.candidacy", candidacy, 1, 1)).unwrap();
    let Message::Candidacy(read) = &opened.message else { panic!("{opened:?}") };
    assert_eq!(read.score.stake, Share::ZERO);
    // What a message says beyond the protocol is signed, and left alone.
    let mut keepalive = params("swarm.keepalive");
    keepalive["agent_name"] = json!("bee");
    assert!(open(&signed("swarm.keepalive", keepalive, 1, 1)).is_ok());
}

#[test]
fn each_refusal_has_its_code() {
    use ErrorCode::*;
    let good = signed("board.decline", params("board.decline"), 1, 1);
    let text = good.to_string();
    let code = |text: &str| Signed::open(text.as_bytes(), &keys()).unwrap_err().code();
    let with = |field: &str, value: Value| {
        let mut changed = good.clone();
        changed[field] = value;
        code(&changed.to_string())
    };
    let twice = text.replacen("{\"", "{\"jsonrpc\":\"2.0\",\"", 1);
    for bad in ["", "{", "nonsense", &text[1..], twice.as_str(), &format!("{text} x"), "\u{1}"] {
        assert_eq!(code(bad), ParseError, "{bad}");
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(code(&deep), ParseError);
    assert_eq!(
        code(&text.replace("\"params\":{", &format!("\"params\":{{\"x\":{deep},"))),
        ParseError
    );
    for bad in ["[]", "1", "\"text\"", "null", "{}"] {
        assert_eq!(code(bad), InvalidRequest, "{bad}");
    }
    assert_eq!(with("jsonrpc", json!("1.0")), InvalidRequest);
    assert_eq!(with("method", json!(1)), InvalidRequest);
    for id in [json!({}), json!(1.5), json!("x".repeat(ID_LEN_MAX + 1))] {
        assert_eq!(with("id", id), InvalidRequest);
    }
    assert_eq!(with("attached", json!("x")), InvalidRequest);
    assert_eq!(with("attached", json!([1])), InvalidRequest);
    assert_eq!(with("method", json!("board.unknown")), MethodNotFound);
    assert_eq!(with("method", json!("x".repeat(100_000))), MethodNotFound);
    assert_eq!(with("params", json!({})), InvalidParams);
    assert_eq!(with("params", json!([])), InvalidParams);
    assert_eq!(with("signature", json!("00")), InvalidSignature);
    assert_eq!(with("signature", json!("é".repeat(64))), InvalidSignature);
    assert_eq!(with("signature", json!("0".repeat(128))), InvalidSignature);
    assert_eq!(
        code(&signed("board.decline", params("board.decline"), 2, 2).to_string()),
        InvalidSignature
    );
    for (field, value) in
        [("swarm", json!("")), ("swarm", json!("s".repeat(65))), ("epoch", json!(-1))]
    {
        let mut changed = good.clone();
        changed["params"]["_meta"][field] = value;
        assert_eq!(code(&changed.to_string()), InvalidParams, "{field}");
    }
    let mut share = signed("board.invite", params("board.invite"), 1, 1);
    share["params"]["complexity_estimate"] = json!(1.01);
    assert_eq!(code(&share.to_string()), InvalidParams);
}

#[test]
fn the_codes_are_those_of_the_protocol() {
    let codes = ErrorCode::ALL.map(ErrorCode::code);
    let expected = [
        -32700, -32600, -32601, -32602, -32000, -32001, -32002, -32003, -31000, -31001, -31002,
        -31003, -30000, -30001, -30002,
    ];
    assert_eq!(codes, expected);
    let error = RpcError::from(ErrorCode::SelfVote);
    let written = serde_json::to_value(&error).unwrap();
    assert_eq!(written, json!({"code": -31000, "message": "Self-vote prohibited"}));
}

#[test]
fn lengths_are_limited() {
    // What strangers send and others keep is short, and so is what a board says.
    let limits = [
        ("discussion.critique", "content", TALK_LEN_MAX),
        ("task.verification", "reason", STRANGER_LEN_MAX),
        ("board.dissolve", "reason", STRANGER_LEN_MAX),
        ("task.submit_result", "content", RESULT_LEN_MAX),
        ("board.invite", "task_digest", TALK_LEN_MAX),
        ("task.assign", "winning_plan_id", TALK_LEN_MAX),
    ];
    for (method, field, max) in limits {
        let long = |len: usize| {
            let mut params = params(method);
            params[field] = json!("x".repeat(len));
            signed(method, params, 1, 1)
        };
        let shortest = open(&long(0)).unwrap();
        let rest = max - shortest.payload().len();
        assert!(open(&long(rest)).is_ok(), "{method}");
        assert_eq!(open(&long(rest + 1)).unwrap_err(), too_long(max), "{method}");
        let Meta { signer, swarm, .. } = shortest.meta;
        assert!(shortest.message.check_len(signer, &swarm).is_ok());
        let longest = open(&long(rest)).unwrap().message;
        assert!(longest.check_len(signer, &swarm).is_err(), "in a later epoch it is too long");
    }
    let blanks = vec![b' '; ATTACHED_LEN_MAX + 1];
    assert_eq!(Signed::open(&blanks, &keys()).unwrap_err(), too_long(ATTACHED_LEN_MAX));
}

/// Nested arrays, so many of them.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

/// What anybody may add must be readable wherever others put it.
#[test]
fn what_nests_too_deeply_is_refused_and_nothing_else_is() {
    let noted = |method: &str, levels: usize| {
        let mut params = params(method);
        params["note"] = nested(levels);
        signed(method, params, 1, 1)
    };
    let free = canonical::FREE_DEPTH_MAX;
    for method in Message::METHODS {
        for levels in [free, canonical::MAX_DEPTH - 3, canonical::MAX_DEPTH - 2] {
            let error = open(&noted(method, levels)).unwrap_err();
            assert_eq!(error, OpenError::TooDeep { max: free }, "{method}");
            assert_eq!(error.code(), ErrorCode::InvalidParams);
        }
        let deep = noted(method, free - 1);
        let opened = open(&deep).unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(opened.to_json(), deep);
        // Whoever attaches it is understood.
        let mut certificate =
            signed("consensus.certificate", params("consensus.certificate"), 2, 2);
        certificate["attached"] = json!([deep]);
        let opened = open(&certificate).unwrap_or_else(|error| panic!("{method}: {error}"));
        assert_eq!(opened.to_json(), certificate);
    }
}

/// A DID is the hash of its first key: whoever shows that shows whose the other messages are.
#[test]
fn keys_that_come_along_are_those_of_what_comes_along() {
    let own_key = key_text::write(&key(9).public());
    let with = |method: &str, changes: Value| {
        let mut params = params(method);
        params.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        signed(method, params, 9, 9)
    };
    let hand = with("swarm.handshake", json!({"agent_id": did(9), "pub_key": own_key}));
    let order = with("task.inject", json!({"originator": did(9), "pub_key": own_key}));
    let verdict = signed("task.verification", params("task.verification"), 9, 9);
    let opened = |attached: &[&Value]| {
        let mut certificate =
            signed("consensus.certificate", params("consensus.certificate"), 1, 1);
        certificate["attached"] = json!(attached);
        open(&certificate).map(|opened| opened.attached.len())
    };
    assert_eq!(opened(&[&verdict]), Err(OpenError::UnknownSigner(did(9))));
    assert_eq!(opened(&[&verdict, &hand]), Ok(2));
    assert_eq!(opened(&[&order, &verdict]), Ok(2));
    // Nobody signs for another with that, and what is known of somebody stays.
    let forged = signed("task.verification", params("task.verification"), 9, 8);
    assert_eq!(opened(&[&order, &forged]), Err(OpenError::BadSignature));
    let other = signed("task.verification", params("task.verification"), 8, 8);
    assert_eq!(opened(&[&order, &other]), Err(OpenError::UnknownSigner(did(8))));
}

/// One byte more than is allowed.
fn too_long(max: usize) -> OpenError {
    OpenError::TooLong { len: max + 1, max }
}

#[test]
fn lists_of_strangers_have_an_end() {
    let nth = |n: usize| Did::from_fingerprint(sha256(&n.to_be_bytes()));
    let many = |n: usize| (0..n).map(nth).collect::<Vec<_>>();
    let refused = |method: &str, field: &[&str], list: Value| {
        let mut params = params(method);
        let mut place = &mut params;
        for name in field {
            place = &mut place[*name];
        }
        *place = list;
        open(&signed(method, params, 1, 1)).err().map(|error| error.code())
    };
    let rankings = |n| refused("election.vote", &["candidate_rankings"], json!(many(n)));
    let observed = |n| {
        let seen = |did: Did| (did.to_string(), json!({"uptime": 1, "proof_of_compute": 1}));
        let seen: serde_json::Map<String, Value> = many(n).into_iter().map(seen).collect();
        refused("election.vote", &["observed"], Value::Object(seen))
    };
    let texts = |n: usize| json!((0..n).map(|n| n.to_string()).collect::<Vec<_>>());
    let subtasks = |n| refused("task.inject", &["task", "subtasks"], texts(n));
    let required = |n| refused("task.inject", &["task", "capabilities_required"], texts(n));
    let ends_at = |max: usize, refused: &dyn Fn(usize) -> Option<ErrorCode>| {
        assert_eq!(refused(max), None, "{max}");
        assert_eq!(refused(max + 1), Some(ErrorCode::InvalidParams), "{max}");
    };
    ends_at(RANKINGS_MAX, &rankings);
    ends_at(OBSERVED_MAX, &observed);
    ends_at(TASK_SUBTASKS_MAX, &subtasks);
    ends_at(REQUIRED_MAX, &required);
}

#[test]
fn attached_messages_are_checked_each_and_lie_flat() {
    let meta = |n| Meta {
        signer: did(n),
        swarm: "public".to_owned(),
        epoch: 1,
        sent_at: Timestamp::from_ms(0),
    };
    let decline = |n| {
        let body = Decline { task_id: "t".to_owned(), agent_id: did(n) };
        Arc::new(Signed::seal(meta(n), Message::Decline(body), vec![], &key(n)))
    };
    let sealed = |attached| {
        let subject = Subject::Plan { task_id: "t".to_owned() };
        let body = Certificate { subject, view: 1, word: Word::NextView { prepared: None } };
        Signed::seal(meta(1), Message::Certificate(body), attached, &key(1))
    };
    let both = sealed(vec![decline(2), decline(3)]);
    let opened = open(&both.to_json()).unwrap();
    assert_eq!(opened.attached, both.attached);
    assert_eq!(opened.hash(), sealed(vec![]).hash(), "attachments are not signed over");
    let mut forged = both.to_json();
    forged["attached"][1]["params"]["task_id"] = json!("u");
    assert_eq!(open(&forged).unwrap_err(), OpenError::BadSignature);
    // What is attached is written without its own, and others' are not read.
    let inner = both.to_json();
    let mut nested = sealed(vec![Arc::new(both)]).to_json();
    open(&nested).unwrap();
    nested["attached"] = json!([inner]);
    assert_eq!(open(&nested).unwrap_err().code(), ErrorCode::InvalidRequest);
    let unknown = sealed(vec![decline(4)]);
    assert_eq!(open(&unknown.to_json()).unwrap_err(), OpenError::UnknownSigner(did(4)));
}

/// Agents sit in several swarms: what they signed in one must not count in another.
#[test]
fn what_is_attached_is_of_the_same_swarm() {
    let sealed = |swarm: &str, message, attached| {
        let (signer, swarm) = (did(1), swarm.to_owned());
        let meta = Meta { signer, swarm, epoch: 1, sent_at: Timestamp::from_ms(0) };
        Signed::seal(meta, message, attached, &key(1))
    };
    let subject = Subject::Plan { task_id: "t".to_owned() };
    let word = Word::NextView { prepared: None };
    let certificate = Message::Certificate(Certificate { subject, view: 1, word });
    let decline = Decline { task_id: "t".to_owned(), agent_id: did(1) };
    let decline = |swarm| Arc::new(sealed(swarm, Message::Decline(decline.clone()), vec![]));
    let around = |attached| sealed("a", certificate.clone(), attached);
    let good = around(vec![decline("a"), decline("a")]);
    assert_eq!((open(&good.to_json()).map(drop), good.check_bounds()), (Ok(()), Ok(())));
    let bad = around(vec![decline("a"), decline("b")]);
    let other = Err(OpenError::OtherSwarm("b".to_owned()));
    assert_eq!((open(&bad.to_json()).map(drop), bad.check_bounds()), (other.clone(), other));
}

#[test]
fn only_what_needs_it_carries_others() {
    let decline = Decline { task_id: "t".to_owned(), agent_id: did(2) };
    let meta = |n| Meta {
        signer: did(n),
        swarm: "public".to_owned(),
        epoch: 1,
        sent_at: Timestamp::from_ms(0),
    };
    let decline = Arc::new(Signed::seal(meta(2), Message::Decline(decline), vec![], &key(2)));
    let carries = |method: &str| {
        let mut envelope = signed(method, params(method), 1, 1);
        envelope["attached"] = json!([decline.to_json()]);
        match open(&envelope) {
            Ok(opened) => opened.attached.len() == 1,
            Err(error) => {
                assert!(matches!(error, OpenError::Attached { max: 0, .. }), "{method}: {error}");
                assert_eq!(error.code(), ErrorCode::InvalidRequest);
                false
            }
        }
    };
    let carrying: Vec<&str> = Message::METHODS.into_iter().filter(|m| carries(m)).collect();
    let expected = [
        "task.verification",
        "hierarchy.succession",
        "board.invite",
        "board.ready",
        "board.dissolve",
        "consensus.certificate",
    ];
    assert_eq!(carrying, expected);
    let opened = open(&signed("board.invite", params("board.invite"), 1, 1)).unwrap();
    let with = |count| {
        let mut invite = opened.clone();
        invite.attached = vec![decline.clone(); count];
        invite.check_bounds().map_err(|error| error.code())
    };
    assert_eq!(with(BOARD_ATTACHED_MAX), Ok(()));
    assert_eq!(with(BOARD_ATTACHED_MAX + 1), Err(ErrorCode::InvalidRequest));
}

/// Each method's result in the shape of the specification.
fn result_of(method: &str) -> Option<Value> {
    match method {
        "swarm.handshake" => Some(json!({
            "accepted": true, "agent_id": did(2), "current_epoch": 105,
            "estimated_swarm_size": 850, "hierarchy_depth": 3, "your_tier": null,
        })),
        "hierarchy.assign_tier" => Some(json!({"accepted": true, "agent_id": did(2)})),
        "task.inject" | "task.assign" => Some(json!({"accepted": true, "task_id": "task-1"})),
        "task.submit_result" => {
            Some(json!({"task_id": "task-1", "artifact_id": "art-1", "accepted": true}))
        }
        _ => None,
    }
}

#[test]
fn answers_are_read_by_what_was_asked() {
    let mut asked = Asked::default();
    for (method, n) in Message::METHODS.into_iter().zip(1..) {
        let mut envelope = signed(method, params(method), 1, 1);
        envelope["id"] = json!(n);
        asked.note(&open(&envelope).unwrap());
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": n, "result": result});
        let read = |answer: &Value| asked.open(answer.to_string().as_bytes());
        let Some(result) = result_of(method) else {
            let any = answer(json!({"accepted": true}));
            assert_eq!(read(&any), Ok(None), "{method} has no result");
            continue;
        };
        let response = read(&answer(result.clone())).unwrap().unwrap();
        assert_eq!(response.to_json(), answer(result.clone()));
        assert!(response.outcome.unwrap().accepted());
        let mut thin = result;
        thin.as_object_mut().unwrap().remove("accepted");
        assert_eq!(read(&answer(thin)).unwrap_err().code(), ErrorCode::InvalidRequest);
    }
    let read = |answer: Value| asked.open(answer.to_string().as_bytes());
    let error = json!({"code": -32000, "message": "Invalid signature", "data": {"at": 1}});
    let refused = json!({"jsonrpc": "2.0", "id": 1, "error": error});
    let response = read(refused.clone()).unwrap().unwrap();
    assert_eq!(response.to_json(), refused);
    assert_eq!(response.outcome.unwrap_err().code, -32000);
    let mut elsewhere = refused.clone();
    elsewhere["id"] = json!("1");
    assert_eq!(read(elsewhere).unwrap(), None, "nobody has asked this");
    let mut both = refused.clone();
    both["result"] = result_of("swarm.handshake").unwrap();
    let mut more = refused.clone();
    more["method"] = json!("swarm.keepalive");
    let mut coded = refused.clone();
    coded["error"]["code"] = json!("x");
    for bad in [both, more, coded, json!({"jsonrpc": "2.0", "id": 1}), json!([refused])] {
        assert_eq!(read(bad).unwrap_err().code(), ErrorCode::InvalidRequest);
    }
    let blanks = vec![b' '; RESPONSE_LEN_MAX + 1];
    assert_eq!(asked.open(&blanks).unwrap_err(), too_long(RESPONSE_LEN_MAX));
}

#[test]
fn only_requests_are_remembered_and_not_for_ever() {
    let mut asked = Asked::default();
    let mut envelope = signed("task.inject", params("task.inject"), 1, 1);
    let answer = |n: usize| {
        let result = result_of("task.inject");
        json!({"jsonrpc": "2.0", "id": n, "result": result}).to_string().into_bytes()
    };
    for n in 0..=ASKED_MAX {
        envelope["id"] = json!(n);
        asked.note(&open(&envelope).unwrap());
    }
    assert_eq!(asked.open(&answer(0)), Ok(None));
    assert!(asked.open(&answer(1)).unwrap().is_some());
    assert!(asked.open(&answer(ASKED_MAX)).unwrap().is_some());
}

#[test]
fn what_cannot_be_opened_is_answered_where_an_answer_is_wanted() {
    let refusing = |text: &str| {
        let error = Signed::open(text.as_bytes(), &keys()).unwrap_err();
        let answer = Response::refusing(text.as_bytes(), &error)?.to_json();
        Some((answer["id"].clone(), answer["error"]["code"].clone()))
    };
    let mut forged = signed("task.inject", params("task.inject"), 1, 2);
    assert_eq!(refusing(&forged.to_string()), None, "a notification");
    forged["id"] = json!("a");
    assert_eq!(refusing(&forged.to_string()), Some((json!("a"), json!(-32000))));
    forged["id"] = json!({});
    assert_eq!(refusing(&forged.to_string()), Some((Value::Null, json!(-32600))));
    assert_eq!(refusing("{"), Some((Value::Null, json!(-32700))));
    assert_eq!(refusing("[]"), Some((Value::Null, json!(-32600))));
    let answer = json!({"jsonrpc": "2.0", "id": "a", "result": {}});
    assert_eq!(refusing(&answer.to_string()), None, "nobody answers answers");
}

/// Two clients may choose one id, and nobody takes another one's.
#[test]
fn a_task_has_its_originators_name_in_its_id() {
    let order = |by: u8, id: &str| {
        let mut params = params("task.inject");
        params["originator"] = json!(did(by));
        params["task"]["task_id"] = json!(id);
        open(&signed("task.inject", params, by, by)).unwrap()
    };
    let id = |signed: &Signed| signed.message.task_id().unwrap().to_owned();
    let (first, second) = (order(1, "t"), order(2, "t"));
    assert_ne!(id(&first), id(&second));
    assert!(is_named_by(&id(&first), &did(1)) && !is_named_by(&id(&first), &did(2)));
    assert_eq!(plain_id(&format!("{}-st-2", id(&first))), "t-st-2");
    // What is written with its name, and what is passed on, is the same task.
    assert_eq!(order(1, &id(&first)).message, first.message);
    assert_eq!(open(&first.to_json()).unwrap().message, first.message);
    let mut back = params("board.dissolve");
    back["task_id"] = json!("t");
    assert_eq!(id(&open(&signed("board.dissolve", back, 1, 1)).unwrap()), id(&first));
}
