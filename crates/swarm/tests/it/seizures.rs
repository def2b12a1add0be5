//! One that wants to decide alone, or to keep others from it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use skep_base::{Did, ed25519::SecretKey};
use skep_swarm::{
    judge,
    kept::Kept,
    node::{Ask, Event, Input, Node, Output},
};
use skep_wire::swarm::{
    Assign, Certificate, Chosen, End, ErrorCode, Message, Outcome, Ready, Share, Signed, Subject,
    Task, Verification, Word, named,
};

use super::{
    limits::verdict,
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
            let content_cid = None;
            let word =
                Verification { task_id, agent_id: did, accepted, reason, plan_id, content_cid };
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

/// The originator told the leaders alone, and who leads the result says a day later that it was
/// silent.
#[test]
fn no_witness_believes_that_nobody_approved_of_what_was_approved() {
    let mut room = Room::new(12);
    room.guard();
    // Nobody's work arrives: the task is not over a day later.
    room.lost = |_, _, message| matches!(message.message, Message::SubmitResult(_));
    let client = secret(100);
    let mut task = room.task("t");
    task.deadline = room.now.plus(Duration::from_secs(29 * 86_400));
    task.needs_approval = true;
    let order = room.seal(&client, room.inject(&client, task));
    let tier1 = room.tier1();
    room.deliver(&tier1[0], order.clone());
    let chosen = room.events.iter().find_map(|(_, event)| match event {
        Event::PlanDecided { value, .. } => match value.outcome {
            Outcome::Plan(Chosen::Plan { proposer, .. }) => Some(proposer),
            _ => None,
        },
        _ => None,
    });
    let leads = chosen.expect("there is a plan");
    let believers = |room: &mut Room| {
        let now = room.now;
        room.now = now.plus(Duration::from_secs(86_460));
        let failed = Outcome::Result(judge::ended(End::Failed, vec![None; 3]));
        let value = judge::value(failed, &[Kept(order.clone())]);
        let (subject, word) = (Subject::Result { task_id: id("t") }, Word::Propose { value });
        let said = Message::Certificate(Certificate { subject, view: 0, word });
        let said = room.seal_with(&room.keys[&leads], said, vec![order.clone()]);
        let others = room.nodes.iter().filter(|(did, _)| **did != leads);
        let sign = others.filter(|(_, node)| {
            signs(&Node::clone(node).step(room.now, Input::Message(said.clone())))
        });
        let signed = sign.count();
        room.now = now;
        signed
    };
    assert_eq!(believers(&mut room), 11, "after a day of silence it has failed");
    for did in &tier1 {
        let word = room.seal(&client, verdict(&id("t"), did));
        room.deliver(did, word);
    }
    assert_eq!(believers(&mut room), 0, "all know that it was approved of");
}

fn assign(room: &Room, by: &SecretKey, n: u32, task: Task) -> Arc<Signed> {
    let parent = "nobody's".to_owned();
    let task = Task {
        parent_task_id: Some(parent.clone()),
        depth: 1,
        complexity: Share::ZERO,
        index: n,
        task_id: named(&format!("{parent}-st-{}", n + 1), &by.public().did()),
        ..task
    };
    let assignee = task.assigned_to.expect("it is for somebody");
    let winning_plan_id = "p".to_owned();
    let assign = Assign { task, assignee, parent_task_id: parent, winning_plan_id };
    room.seal(by, Message::Assign(assign))
}

#[test]
fn invented_work_keeps_nobody_from_a_board() {
    let mut room = Room::new(10);
    let me = room.tier1()[1];
    let liars: Vec<_> =
        room.keys.values().filter(|key| key.public().did() != me).cloned().collect();
    for liar in liars.iter().take(3) {
        for n in 0..8 {
            let task = Task { assigned_to: Some(me), ..room.task("any") };
            let order = assign(&room, liar, n, task);
            assert_eq!(room.refused(&me, order), None);
        }
    }
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, order);
    assert_eq!(active(&room, &me, "t"), [0]);
}

/// What an agent says that it has to do, when it is invited to a board.
fn active(room: &Room, did: &Did, task: &str) -> Vec<u32> {
    let accepts = room.sent.iter().filter_map(|kept| match &kept.message {
        Message::Accept(m) if m.agent_id == *did && m.task_id == id(task) => Some(m.active_tasks),
        _ => None,
    });
    accepts.collect()
}

/// Orders of a leader that does not lead, of one that repeats itself, and of what no plan has.
#[test]
fn orders_beside_the_plan_keep_nobody_from_a_board() {
    let mut room = Room::new(10);
    room.unanswered = |ask| matches!(ask, Ask::Execute { .. });
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], order);
    let orders = room.sent.iter().filter_map(|sent| match &sent.message {
        Message::Assign(order) => Some((sent.meta.signer, order.clone())),
        _ => None,
    });
    let orders: Vec<(Did, Assign)> = orders.collect();
    let (coordinator, real) = orders[0].clone();
    let others: Vec<Did> = room.tier1().into_iter().filter(|did| *did != coordinator).collect();
    let [liar, me, ..] = others[..] else { panic!("three lead") };
    let again = |room: &Room, by: &Did, attempt: u32, change: &dyn Fn(&mut Assign)| {
        let mut order = Assign { assignee: me, ..real.clone() };
        order.task.assigned_to = Some(me);
        change(&mut order);
        let part = judge::part_id(&id("t"), order.task.index, attempt);
        order.task.task_id = named(&part, by);
        room.seal(&room.keys[by], Message::Assign(order))
    };
    let changes: [&dyn Fn(&mut Assign); 5] = [
        &|order| order.task.description.push('!'),
        &|order| order.task.index = 7,
        &|order| order.task.complexity = Share::ONE,
        &|order| order.task.capabilities_required.push("art".to_owned()),
        &|order| order.parent_task_id = "another".to_owned(),
    ];
    for change in changes {
        let invented = again(&room, &liar, 2, change);
        assert_eq!(room.refused(&me, invented), Some(ErrorCode::InvalidParams));
    }
    for attempt in 2..32 {
        for by in [liar, coordinator] {
            let copied = again(&room, &by, attempt, &|_| {});
            assert_eq!(room.refused(&me, copied), None);
        }
    }
    let mine = orders.iter().filter(|(_, order)| order.assignee == me);
    let mut mine: BTreeSet<u32> = mine.map(|(_, order)| order.task.index).collect();
    mine.insert(real.task.index);
    let order = room.seal(&client, room.inject(&client, room.task("u")));
    room.deliver(&liar, order);
    assert_eq!(active(&room, &me, "u"), [u32::try_from(mine.len()).unwrap()]);

    room.unanswered = |_| false;
    for (did, ask) in std::mem::take(&mut room.open) {
        let answer = room.answer(&did, ask);
        room.step(&did, Input::Answer(answer));
    }
    room.settle();
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let late = again(&room, &coordinator, 50, &|_| {});
    assert_eq!(room.refused(&me, late), Some(ErrorCode::TaskNotFound));
}

/// In a large swarm not everybody knows of each plan, and a third can invent a lot.
#[test]
fn invented_work_keeps_nobody_from_its_own_leaders() {
    const LIARS: usize = 63;
    let mut room = Room::new(70);
    let epoch = room.any().epoch().clone();
    let me = epoch.layout().tier(2)[0];
    let leader = epoch.layout().parent_of(&me).expect("it is in Tier 2");
    let order = |room: &Room, by: &SecretKey, n: u32| {
        assign(room, by, n, Task { assigned_to: Some(me), ..room.task("any") })
    };
    let is_other = |did: &Did| *did != me && *did != leader;
    let others = room.keys.iter().filter(|(did, _)| is_other(did));
    let liars: Vec<SecretKey> = others.map(|(_, key)| key.clone()).take(LIARS).collect();
    room.unanswered = |ask| matches!(ask, Ask::Execute { .. });
    let taken = liars.iter().flat_map(|liar| (0..8).map(move |n| (liar, n))).filter(|(liar, n)| {
        let order = order(&room, liar, *n);
        room.refused(&me, order).is_none()
    });
    assert_eq!(taken.count(), 500, "there are places for so many");
    let order = order(&room, &room.keys[&leader], 0);
    assert_eq!(room.refused(&me, order), None);
}

#[test]
fn nobody_is_asked_about_the_plan_of_a_part() {
    let mut room = Room::new(4);
    let [me, other, ..] = room.tier1()[..] else { panic!("three lead") };
    let task = Task { assigned_to: Some(me), needs_approval: true, ..room.task("any") };
    let order = assign(&room, &room.keys[&other], 0, task);
    assert_eq!(room.refused(&me, order), Some(ErrorCode::InvalidParams));
}
