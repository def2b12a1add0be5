use skep_wire::conduit::ActionType;

use super::*;
use crate::session_proof::check;

fn recording() -> Recording {
    let (session, agent) = (SessionId::from_bytes([1; 16]), AgentId::from_bytes([2; 20]));
    Recording::open(session, agent, None, Timestamp::from_ms(0))
}

fn mark(key: &str) -> RequestMark {
    RequestMark { key: key.to_owned(), fingerprint: sha256(b"asked") }
}

fn stamp(minor: i64) -> Stamp {
    let price = Amount::new(minor).unwrap();
    Stamp { at: Timestamp::from_ms(7), duration_ms: 5, price }
}

#[test]
fn a_recorded_session_is_one_chain_and_checks() {
    let mut recording = recording();
    let key = SecretKey::from_seed([3; 32]);
    let go = Act::navigate("https://a.example/");
    let snap = Act::new(ActionType::Screenshot);
    let keep = Act::new(ActionType::OutputToFile);
    let picture = Outcome { screenshot: Some(b"png".to_vec()), ..Outcome::default() };
    let file = Outcome { file: Some(("a.txt".to_owned(), b"text".to_vec())), ..Outcome::default() };
    let title = Outcome { data: json!({ "title": "A" }), ..Outcome::default() };
    let first = recording.add(&go, mark("go"), title, stamp(1000)).unwrap();
    recording.add(&snap, mark("snap"), picture.clone(), stamp(1000)).unwrap();
    recording.add(&snap, mark("snap"), picture, stamp(1000)).unwrap();
    recording.add(&keep, mark("keep"), file, stamp(0)).unwrap();
    let event = first.done.action().unwrap();
    assert_eq!((event.cost_cents, event.index, event.success), (1, 0, true));
    assert_eq!(event.input, Some(json!({ "cost_minor": "1000" })));
    let at = Timestamp::from_ms(9);
    let proof = recording.seal(SessionStatus::Completed, None, at, "test", &key).unwrap();
    let bundle = check(&proof, Some(&key.public())).unwrap();
    assert_eq!(bundle.action_log.len(), 4);
    // The same picture twice is kept once.
    assert_eq!(proof.attachments.len(), 2);
}

#[test]
fn an_index_belongs_to_one_action() {
    let mut recording = recording();
    let (go, wait) = (Act::navigate("https://a.example/"), Act::new(ActionType::Wait));
    assert_eq!(recording.place(0, &mark("go")), Place::Free);
    assert_eq!(recording.place(1, &mark("go")), Place::Elsewhere);
    let acted = Box::new(recording.add(&go, mark("go"), Outcome::default(), stamp(0)).unwrap());
    assert_eq!(recording.place(0, &mark("go")), Place::Done(acted.clone()));
    assert_eq!(recording.place(0, &mark("wait")), Place::Taken(acted));
    assert_eq!(recording.place(1, &mark("wait")), Place::Free);
    recording.add(&wait, mark("wait"), Outcome::default(), stamp(0)).unwrap();
    assert_eq!(recording.place(0, &mark("go")), Place::Elsewhere);
}

#[test]
fn what_does_not_fit_is_said_and_not_kept() {
    let mut recording = recording();
    let snap = Act::new(ActionType::Screenshot);
    let big = |byte| {
        let screenshot = Some(vec![byte; ATTACHMENTS_LEN_MAX / 2 + 1]);
        Outcome { screenshot, ..Outcome::default() }
    };
    assert!(recording.add(&snap, mark("snap"), big(1), stamp(0)).unwrap().done.error.is_none());
    // The same again needs no room.
    assert!(recording.add(&snap, mark("snap"), big(1), stamp(0)).unwrap().done.error.is_none());
    let full = recording.add(&snap, mark("snap"), big(2), stamp(0)).unwrap().done;
    assert_eq!(full.error.unwrap().code, "attachments_full");
    assert!(full.attachments.is_empty());
}
