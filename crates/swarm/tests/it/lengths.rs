//! What agents say and nobody could read.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use skep_base::{
    ed25519::SecretKey,
    json::{FREE_DEPTH_MAX, to_vec},
};
use skep_swarm::{
    node::{Answer, Ask, Event, Input, Node},
    transcript::Transcript,
};
use skep_wire::swarm::{
    End, KnownKeys, Message, OpenError, PLAN_LEN_MAX, RESULT_LEN_MAX, Signed, TALK_LEN_MAX,
    hex_signature,
};

use super::{
    room::{Room, id, secret},
    stories::agreed,
};

/// The same answer, just too long.
fn lengthened(answer: Answer) -> Answer {
    let mut answer = answer;
    match &mut answer {
        Answer::Plan { plan, .. } => plan.rationale = "long ".repeat(PLAN_LEN_MAX / 5),
        Answer::Critique { content, .. } => *content = "long ".repeat(TALK_LEN_MAX / 5),
        Answer::Vote { rankings, .. } => rankings.push("x".repeat(TALK_LEN_MAX)),
        // Each of these takes six bytes when it is written.
        Answer::Work { content, .. } => *content = "\u{1}".repeat(RESULT_LEN_MAX / 6),
        Answer::Checked { .. } | Answer::Computed { .. } => {}
    }
    answer
}

/// An agent whose answer is too long hears of it, and its next one counts.
#[test]
fn what_is_too_long_is_not_sent_and_said_again_shorter() {
    let mut room = Room::new(4);
    room.unanswered = |ask| !matches!(ask, Ask::Compute { .. } | Ask::Check { .. });
    let client = secret(100);
    let chair = room.tier1()[0];
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&chair, order);
    let mut unsaid: BTreeMap<&'static str, usize> = BTreeMap::new();
    while let Some((did, ask)) = room.open.pop() {
        let is_rework = matches!(&ask, Ask::Execute { reason: Some(why), .. }
            if why.contains("bytes"));
        let answer = room.answer(&did, ask);
        if !is_rework {
            let (sent, events) = (room.sent.len(), room.events.len());
            room.step(&did, Input::Answer(lengthened(answer.clone())));
            assert_eq!(room.sent.len(), sent, "nothing is sent");
            let Some((_, Event::Unsaid { method, reason, .. })) = room.events.get(events) else {
                panic!("nobody hears of it");
            };
            assert!(reason.contains("are allowed"), "{reason}");
            *unsaid.entry(method).or_default() += 1;
        }
        // Work is asked for once more; all else can be said again.
        if is_rework || !matches!(answer, Answer::Work { .. }) {
            room.step(&did, Input::Answer(answer));
        }
        room.settle();
    }
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let expected = [
        ("consensus.proposal_reveal", 4),
        ("consensus.vote", 4),
        ("discussion.critique", 4),
        ("task.submit_result", 3),
    ];
    assert_eq!(unsaid, BTreeMap::from(expected));
    assert!(room.refusals.is_empty(), "{:?}", room.refusals);
    assert!(room.nodes.values().all(|node| node.ends().contains_key(id("t").as_str())));
}

/// The same message with a note in it that nests so deeply, as somebody reads it.
fn noted(by: &SecretKey, message: &Signed, levels: usize) -> Result<Arc<Signed>, OpenError> {
    let mut envelope = message.to_json();
    let note = (1..levels).fold(json!([]), |inner, _| json!([inner]));
    envelope["params"]["note"] = note;
    let signed = json!({"method": envelope["method"], "params": envelope["params"]});
    let signature = by.sign(&to_vec(&signed).expect("plain JSON"));
    envelope["signature"] = Value::String(hex_signature::write(&signature));
    let mut keys = KnownKeys::default();
    keys.learn(by.public());
    Signed::open(envelope.to_string().as_bytes(), &keys).map(Arc::new)
}

/// Greetings, an order, ballots: each with as deep a note as anybody may add. All of it is stored,
/// read back, certified, and holds in a transcript; one level more is refused at the door.
#[test]
fn what_nests_as_deeply_as_it_may_is_kept_and_passed_on_by_all() {
    let mut room = Room::new(4);
    room.guard();
    let client = secret(100);
    let chair = room.tier1()[0];
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let too_deep = noted(&client, &order, FREE_DEPTH_MAX).unwrap_err();
    assert_eq!(too_deep, OpenError::TooDeep { max: FREE_DEPTH_MAX });
    let order = noted(&client, &order, FREE_DEPTH_MAX - 1).unwrap();
    room.line.push_back((chair, order));
    let mut known: BTreeMap<_, Arc<Signed>> = BTreeMap::new();
    for second in 0..3_700 {
        while let Some((to, message)) = room.line.pop_front() {
            let is_deep = matches!(
                message.message,
                Message::PlanVote(_)
                    | Message::Handshake(_)
                    | Message::Candidacy(_)
                    | Message::ElectionVote(_)
            );
            let message = if is_deep {
                let key = room.keys[&message.meta.signer].clone();
                let deep = || noted(&key, &message, FREE_DEPTH_MAX - 1).unwrap();
                known.entry(message.hash()).or_insert_with(deep).clone()
            } else {
                message
            };
            room.line.push_front((to, message));
            room.advance();
        }
        if second % 600 == 0 {
            for node in room.nodes.values_mut() {
                let stored = serde_json::to_vec(node).unwrap();
                *node = serde_json::from_slice::<Node>(&stored).unwrap();
            }
        }
        for did in room.nodes.keys().copied().collect::<Vec<_>>() {
            if room.nodes[&did].wake_at().is_some_and(|at| at <= room.now) {
                room.step(&did, Input::Tick);
            }
        }
        room.now = room.now.plus(std::time::Duration::from_secs(1));
    }
    room.settle();
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    assert!(room.nodes.values().all(|node| node.epoch().number() == 2), "an election was held");
    let written = Transcript::write(&room.genesis, &room.known_keys(), &room.sent);
    let report = Transcript::read(written.to_string().as_bytes()).unwrap().verify();
    assert_eq!((report.elections, report.differences), (vec![2], Vec::new()));
    assert_eq!(report.tasks.len(), 1);
}
