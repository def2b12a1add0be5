//! One that wants to decide alone, or to keep others from it.

use std::{sync::Arc, time::Duration};

use skep_swarm::{
    judge,
    kept::Kept,
    node::{Input, Node, Output},
};
use skep_wire::swarm::{
    Certificate, Chosen, End, Message, Outcome, Ready, Signed, Subject, Verification, Word,
};

use super::{
    room::{Room, id, secret},
    stories::agreed,
};

/// A board of one that nobody was told of, and what follows from it: that there is no plan.
fn race(room: &Room, chair: usize, order: &Arc<Signed>) -> Arc<Signed> {
    let did = room.tier1()[chair];
    let task = room.task("t");
    let ready = Ready {
        task_id: task.task_id.clone(),
        chair_id: did,
        adversarial_critic: None,
        senate: judge::senate_of(room.any().epoch(), &task, &[did]),
        task: Some(task.clone()),
        members: vec![did],
    };
    let record = vec![order.clone(), room.seal(&room.keys[&did], Message::Ready(ready))];
    let kept: Vec<Kept> = record.iter().cloned().map(Kept).collect();
    let value = judge::value(Outcome::Plan(Chosen::NoPlan), &kept);
    let subject = Subject::Plan { task_id: task.task_id };
    let propose = Certificate { subject, view: 0, word: Word::Propose { value } };
    room.seal_with(&room.keys[&did], Message::Certificate(propose), record)
}

fn signs(out: &[Output]) -> bool {
    out.iter().any(|output| {
        matches!(output, Output::Send { message: Message::Certificate(said), .. }
            if matches!(said.word, Word::Sign { .. }))
    })
}

#[test]
fn nobody_ends_a_task_before_a_board_could_sit() {
    let room = Room::new(4);
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let proposal = race(&room, 1, &order);
    let witness = room.tier1()[2];
    let mut node: Node = room.nodes[&witness].clone();
    let timing = &room.genesis.timing;
    let at = |ms: u64| room.now.plus(Duration::from_millis(ms));
    let patient_ms = timing.board_ms + timing.deliberation_ms();
    assert!(!signs(&node.step(room.now, Input::Message(proposal.clone()))));
    assert!(!signs(&node.step(at(patient_ms - 1), Input::Message(proposal.clone()))));
    // When nobody has come up with more, it is said again, and is what there is.
    assert!(signs(&node.step(at(patient_ms), Input::Message(proposal))));
}

#[test]
fn a_word_about_another_plan_is_none_about_this_one() {
    let mut room = Room::new(4);
    let client = secret(100);
    let mut task = room.task("t");
    task.needs_approval = true;
    let order = room.seal(&client, room.inject(&client, task));
    let chair = room.tier1()[0];
    let say = |room: &mut Room, plan_id: Option<&str>, accepted: bool| {
        for did in room.nodes.keys().copied().collect::<Vec<_>>() {
            let plan_id = plan_id.map(str::to_owned);
            let (task_id, reason) = (id("t"), None);
            let word = Verification { task_id, agent_id: did, accepted, reason, plan_id };
            let word = room.seal(&client, Message::Verification(word));
            room.deliver(&did, word);
        }
    };
    room.deliver(&chair, order);
    say(&mut room, Some("another"), false);
    room.run(5);
    say(&mut room, None, true);
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}
