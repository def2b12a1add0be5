//! Crashes at any moment, work that nobody wants any more, and work that is only half done.

use std::collections::BTreeSet;

use skep_base::Did;
use skep_swarm::node::{Answer, Ask, Event, Input, Node};
use skep_wire::swarm::{Dissolve, End, ErrorCode, Message, Share, plain_id};

use super::{
    room::{Room, id, secret},
    stories::agreed,
};

/// Everybody's program stops, and begins again with what it has stored.
fn crash_all(room: &mut Room) -> Vec<(Did, Ask)> {
    for node in room.nodes.values_mut() {
        let stored = serde_json::to_string(node).expect("a node's state can be written");
        *node = serde_json::from_str::<Node>(&stored).expect("what was written can be read");
    }
    let before = std::mem::take(&mut room.open);
    for did in room.nodes.keys().copied().collect::<Vec<_>>() {
        room.step(&did, Input::Resumed);
    }
    room.settle();
    before
}

fn kind(ask: &Ask) -> &'static str {
    match ask {
        Ask::Plan { .. } => "plan",
        Ask::Critique { .. } => "critique",
        Ask::Vote { .. } => "vote",
        Ask::Execute { .. } => "execute",
        Ask::Check { .. } => "check",
        Ask::Compute { .. } => "compute",
    }
}

/// An agent that is asked twice and does not know: it does not say the same.
fn otherwise(answer: &Answer) -> Answer {
    let mut other = answer.clone();
    match &mut other {
        Answer::Plan { plan, .. } => plan.rationale.push_str(", or otherwise"),
        Answer::Critique { content, .. } => content.push_str(", or not"),
        Answer::Vote { rankings, .. } => rankings.reverse(),
        Answer::Work { content, .. } => content.insert_str(0, "not "),
        Answer::Checked { accepted, .. } => *accepted = !*accepted,
        Answer::Computed { .. } => {}
    }
    other
}

fn sorted(asks: &[(Did, Ask)]) -> Vec<String> {
    let mut all: Vec<String> = asks.iter().map(|(did, ask)| format!("{did} {ask:?}")).collect();
    all.sort();
    all
}

#[test]
fn what_an_agent_was_asked_it_is_asked_again_after_a_crash_and_says_once() {
    let mut room = Room::new(9);
    room.unanswered = |ask| !matches!(ask, Ask::Compute { .. });
    // One part is done again: with the reason why.
    let client = secret(100);
    let chair = room.tier1()[0];
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&chair, order);
    let mut kinds = BTreeSet::new();
    let mut reworked = false;
    for _ in 0..200 {
        if room.open.is_empty() {
            room.run(1);
            continue;
        }
        let before = crash_all(&mut room);
        assert_eq!(sorted(&before), sorted(&room.open));
        let (did, ask) = room.open.remove(0);
        kinds.insert(kind(&ask));
        if let Ask::Execute { attempt, reason, .. } = &ask {
            reworked |= *attempt > 1 && reason.is_some();
            room.wrong.insert(did, u32::from(!reworked && *attempt == 1));
        }
        let answer = room.answer(&did, ask);
        room.step(&did, Input::Answer(answer.clone()));
        room.step(&did, Input::Answer(otherwise(&answer)));
        room.settle();
    }
    assert_eq!(kinds, BTreeSet::from(["check", "critique", "execute", "plan", "vote"]));
    assert!(reworked);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let caught = |(_, event): &(Did, Event)| matches!(event, Event::VoterCaught { .. });
    assert!(!room.events.iter().any(caught));
    assert!(!room.refusals.iter().any(|(_, code)| *code == ErrorCode::DuplicateProposal));
}

/// Takes the task back, as its client.
fn take_back(room: &mut Room) {
    let client = secret(100);
    for did in room.tier1() {
        let back = Dissolve { task_id: id("t"), reason: Some("no longer".to_owned()) };
        let back = room.seal(&client, Message::Dissolve(back));
        room.deliver(&did, back);
    }
    room.run(60);
    assert_eq!(agreed(room, "t").end, End::Cancelled);
}

fn withdrawn(room: &Room) -> BTreeSet<(Did, String)> {
    let told = |(did, event): &(Did, Event)| match event {
        Event::Withdrawn { task_id } => Some((*did, task_id.clone())),
        _ => None,
    };
    room.events.iter().filter_map(told).collect()
}

#[test]
fn whoever_works_on_what_is_taken_back_hears_of_it() {
    let mut room = Room::new(5);
    room.unanswered = |ask| matches!(ask, Ask::Execute { .. });
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], order);
    let given: BTreeSet<(Did, String)> = room
        .open
        .iter()
        .filter_map(|(did, ask)| match ask {
            Ask::Execute { task, .. } => Some((*did, task.task_id.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(given.len(), 3);
    take_back(&mut room);
    assert_eq!(withdrawn(&room), given);
    crash_all(&mut room);
    assert!(room.open.is_empty(), "{:?}", room.open);
}

#[test]
fn boards_below_hear_of_it_too() {
    let mut room = Room::new(31);
    room.complexity = Share::percent(60);
    // The parts are divided, and nobody has a plan for them yet, or they are worked on.
    room.unanswered = |ask| match ask {
        Ask::Plan { task } => task.depth > 0 && task.description.starts_with("part 0"),
        Ask::Execute { .. } => true,
        _ => false,
    };
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], order);
    room.run(20);
    let count = |room: &Room, what| room.open.iter().filter(|(_, ask)| kind(ask) == what).count();
    let (planning, working) = (count(&room, "plan"), count(&room, "execute"));
    assert!(planning > 1 && working > 1, "{planning} {working}");
    take_back(&mut room);
    assert_eq!(withdrawn(&room).len(), working);
    crash_all(&mut room);
    assert!(room.open.is_empty(), "{:?}", room.open);
}

#[test]
fn only_who_gave_an_order_takes_it_back() {
    let mut room = Room::new(5);
    room.unanswered = |ask| matches!(ask, Ask::Execute { .. });
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], order);
    let (did, Ask::Execute { task, .. }) = room.open[0].clone() else { panic!() };
    let orders = |message: &Message| matches!(message, Message::Assign(m) if m.task == task);
    let by = room.sent.iter().find(|sent| orders(&sent.message)).unwrap().meta.signer;
    let back = Dissolve { task_id: task.task_id.clone(), reason: None };
    let others: Vec<Did> = room.nodes.keys().copied().filter(|other| *other != by).collect();
    for other in others {
        let word = room.seal(&room.keys[&other], Message::Dissolve(back.clone()));
        assert_eq!(room.refused(&did, word), Some(ErrorCode::TaskNotFound));
    }
    assert!(withdrawn(&room).is_empty());
    let word = room.seal(&room.keys[&by], Message::Dissolve(back));
    assert_eq!(room.refused(&did, word), None);
    assert_eq!(withdrawn(&room), BTreeSet::from([(did, task.task_id)]));
}

#[test]
fn what_is_done_at_the_deadline_counts() {
    let mut room = Room::new(5);
    room.unanswered =
        |ask| matches!(ask, Ask::Execute { task, .. } if task.description.starts_with("part 1"));
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], order);
    room.run(3_700);
    let ended = agreed(&room, "t");
    assert_eq!(ended.end, End::SucceededPartially);
    let done: Vec<Option<String>> = ended
        .parts
        .iter()
        .map(|part| part.as_ref().map(|part| plain_id(&part.task_id).to_owned()))
        .collect();
    assert!(done[0].is_some() && done[1].is_none() && done[2].is_some(), "{done:?}");
    assert!(room.outside.iter().any(|(did, _)| *did == client.public().did()));
}
