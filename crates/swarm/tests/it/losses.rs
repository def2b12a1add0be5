//! What is lost on the way costs a moment, not the whole time that a phase may take.

use std::sync::Arc;

use skep_base::Did;
use skep_wire::swarm::{End, Message, Signed, Subject, Verification};

use super::{
    room::{Room, secret},
    stories::agreed,
};

fn is_plan(message: &Signed) -> bool {
    matches!(&message.message, Message::Certificate(word)
        if matches!(word.subject, Subject::Plan { .. }))
}

/// Hands somebody a message whose consequences never leave its node.
fn whisper(room: &mut Room, to: &Did, message: Arc<Signed>) {
    room.line.push_back((*to, message));
    room.advance();
    room.line.clear();
}

#[test]
fn a_chair_gets_the_ballot_that_was_lost() {
    let mut room = Room::new(4);
    let client = secret(100);
    let chair = room.tier1()[0];
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.line.push_back((chair, order));
    let mut is_lost = false;
    while let Some((to, message)) = room.line.front() {
        let is_ballot = matches!(message.message, Message::PlanVote(_));
        if !is_lost && is_ballot && *to == chair && message.meta.signer != chair {
            is_lost = true;
            room.line.pop_front();
        } else {
            room.advance();
        }
    }
    assert!(is_lost);
    // A vote may take two minutes.
    room.run(20);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}

#[test]
fn the_originator_is_shown_the_plan_again_but_ever_more_seldom() {
    let mut room = Room::new(4);
    let client = secret(100);
    let mut task = room.task("t");
    task.needs_approval = true;
    let order = room.seal(&client, room.inject(&client, task));
    room.deliver(&room.tier1()[0], order);
    let shown = |room: &Room| room.outside.iter().filter(|(_, message)| is_plan(message)).count();
    let first = shown(&room);
    assert!(first > 0);
    room.run(60);
    assert!(shown(&room) > first);
    room.run(1_140);
    assert!(shown(&room) - first < 12, "{}", shown(&room));
    let (_, last) = room.outside.iter().rfind(|(_, message)| is_plan(message)).unwrap();
    let asker = last.meta.signer;
    let word = Verification {
        task_id: "t".to_owned(),
        agent_id: client.public().did(),
        accepted: true,
        reason: None,
        plan_id: None,
    };
    let word = room.seal(&client, Message::Verification(word));
    room.deliver(&asker, word);
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}

#[test]
fn an_order_that_is_sealed_anew_is_the_same_task() {
    let mut room = Room::new(4);
    let client = secret(100);
    let order = room.inject(&client, room.task("t"));
    let tier1 = room.tier1();
    assert_eq!(tier1.len(), 3);
    for (index, to) in tier1.iter().enumerate() {
        // Two know one message, one the other: neither are enough.
        if index % 2 == 0 {
            room.now = room.now.plus(std::time::Duration::from_secs(1));
        }
        let sealed = room.seal(&client, order.clone());
        whisper(&mut room, to, sealed);
    }
    room.run(120);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}
