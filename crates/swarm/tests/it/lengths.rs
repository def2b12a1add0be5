//! What agents say and nobody could read.

use std::collections::BTreeMap;

use skep_swarm::node::{Answer, Ask, Event, Input};
use skep_wire::swarm::{End, PLAN_LEN_MAX, RESULT_LEN_MAX, TALK_LEN_MAX};

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
