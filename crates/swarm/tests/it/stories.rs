//! Whole tasks and elections among honest nodes.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use skep_base::Did;
use skep_swarm::{
    genesis::Timing,
    judge,
    kept::Kept,
    node::{Ask, Event, Input, Node},
    transcript::Transcript,
};
use skep_wire::swarm::{
    Certificate, Dissolve, End, Ended, ErrorCode, Invite, Keepalive, Message, Outcome, Ready,
    Share, Signed, Step, Subject, Succession, Task, Verification, Word, plain_id,
};

use super::room::{Room, id, link, profile, secret};

fn ends(room: &Room, task: &str) -> Vec<(Did, Ended)> {
    let of_task = |(did, event): &(Did, Event)| match event {
        Event::Ended { task_id, ended } if plain_id(task_id) == task => Some((*did, ended.clone())),
        _ => None,
    };
    room.events.iter().filter_map(of_task).collect()
}

pub fn agreed(room: &Room, task: &str) -> Ended {
    let ends = ends(room, task);
    let names: BTreeSet<Did> = ends.iter().map(|(did, _)| *did).collect();
    assert_eq!((names.len(), ends.len()), (room.nodes.len(), room.nodes.len()));
    assert!(ends.iter().all(|(_, ended)| *ended == ends[0].1));
    ends[0].1.clone()
}

/// Each size from one agent on: alone, without a critic, with one, with several tiers.
#[test]
fn a_task_is_planned_done_and_proven_in_swarms_of_any_size() {
    for n in [1, 2, 3, 4, 5, 9, 12, 31] {
        let mut room = Room::new(n);
        let client = secret(100);
        let chair = room.tier1()[0];
        let message = room.seal(&client, room.inject(&client, room.task("t")));
        room.deliver(&chair, message);
        let ended = agreed(&room, "t");
        assert_eq!((ended.end, ended.parts.len()), (End::Succeeded, 3), "{n} nodes");
        let told = room.outside.iter().filter(|(to, _)| *to == client.public().did());
        assert!(told.count() >= 1, "the client hears of it");
        let keys = room.known_keys();
        let text = serde_json::to_vec(&Transcript::write(&room.genesis, &keys, &room.sent));
        let report = Transcript::read(&text.unwrap()).unwrap().verify();
        assert_eq!(report.differences, Vec::new(), "{n} nodes");
        assert_eq!(report.tasks.len(), 1);
        assert_eq!(report.tasks[0].ended, Some(ended));
    }
}

#[test]
fn hard_parts_are_divided_again_where_there_are_enough_agents() {
    let mut room = Room::new(31);
    room.complexity = Share::percent(60);
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    room.run(120);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let below = room.events.iter().any(|(_, event)| {
        matches!(event, Event::PlanDecided { task_id, .. }
            if plain_id(task_id).starts_with("t-st-"))
    });
    assert!(below, "a part was planned for itself");
}

/// Only its chair has anything to say on a board below: each phase takes all the time there is, and
/// the vote is held longer. Whoever ordered the part waits for that.
#[test]
fn a_board_below_has_the_time_that_boards_take() {
    let mut room = Room::new(31);
    room.complexity = Share::percent(60);
    room.unanswered = |ask| match ask {
        Ask::Plan { task } | Ask::Critique { task, .. } | Ask::Vote { task, .. } => task.depth > 0,
        _ => false,
    };
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    for _ in 0..900 {
        room.run(1);
        for (did, ask) in std::mem::take(&mut room.open) {
            let (Ask::Plan { task } | Ask::Critique { task, .. } | Ask::Vote { task, .. }) = &ask
            else {
                continue;
            };
            if task.assigned_to == Some(did) {
                let answer = room.answer(&did, ask);
                room.step(&did, Input::Answer(answer));
                room.settle();
            }
        }
    }
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let orders: Vec<&Task> = room
        .sent
        .iter()
        .filter_map(|sent| match &sent.message {
            Message::Assign(m) => Some(&m.task),
            _ => None,
        })
        .collect();
    assert!(orders.iter().any(|task| task.depth > 1), "something was divided");
    assert!(orders.iter().all(|task| !task.task_id.contains('~')), "and nothing given twice");
    // Who has nobody to divide it with gets no more time than an easy part takes.
    let leaf = orders.iter().find(|task| task.depth > 1).unwrap();
    let time = leaf.deadline.since(leaf.created_at).as_millis();
    assert_eq!(time, u128::from(room.genesis.timing.execution_ms));
}

/// In three tiers a hard part has two boards one below the other, and much time. Whoever takes one
/// and delivers nothing costs that time and not its coordinator's turn.
#[test]
fn a_coordinator_has_time_to_give_a_hard_part_to_another() {
    let turn_ms = |complexity: Share| {
        let mut room = Room::new(120);
        room.complexity = complexity;
        let client = secret(100);
        let order = room.seal(&client, room.inject(&client, room.task("t")));
        let chair = room.tier1()[0];
        room.deliver(&chair, order);
        let node = serde_json::to_value(&room.nodes[&chair]).unwrap();
        node["tasks"][id("t")]["result"]["setting"]["slow_ms"].as_u64().unwrap()
    };
    let timing = Timing::default();
    assert_eq!(turn_ms(Share::percent(20)), timing.coordination_ms(0));
    assert_eq!(turn_ms(Share::percent(60)), timing.coordination_ms(2));
    for levels in 0..10 {
        let twice_ms = 2 * timing.part_ms(levels) + timing.view_ms;
        assert!(twice_ms <= timing.coordination_ms(levels), "{levels}");
    }
}

#[test]
fn wrong_work_is_done_again_and_then_by_somebody_else() {
    let mut room = Room::new(5);
    for did in room.nodes.keys().copied().collect::<Vec<_>>().iter().take(2) {
        room.wrong.insert(*did, 10);
    }
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    room.run(900);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let refused = |m: &Message| matches!(m, Message::Verification(v) if !v.accepted);
    let reworks = room.sent.iter().filter(|sent| refused(&sent.message)).count();
    assert!(reworks >= 3, "{reworks} refusals");
}

#[test]
fn the_originator_approves_refuses_and_takes_back() {
    for (accepted, end) in [(true, End::Succeeded), (false, End::Rejected)] {
        let mut room = Room::new(4);
        room.guard();
        let client = secret(100);
        let mut task = room.task("t");
        task.needs_approval = true;
        let message = room.seal(&client, room.inject(&client, task));
        let chair = room.tier1()[0];
        room.deliver(&chair, message);
        assert!(ends(&room, "t").is_empty(), "nobody works before it is approved");
        for did in room.nodes.keys().copied().collect::<Vec<_>>() {
            let (task_id, agent_id) = (id("t"), did);
            let (reason, plan_id, content_cid) = (None, None, None);
            let word = Verification { task_id, agent_id, accepted, reason, plan_id, content_cid };
            let word = room.seal(&client, Message::Verification(word));
            room.deliver(&did, word);
        }
        room.run(10);
        assert_eq!(agreed(&room, "t").end, end);
    }
    let mut room = Room::new(4);
    room.guard();
    let client = secret(100);
    let mut task = room.task("t");
    task.needs_approval = true;
    let message = room.seal(&client, room.inject(&client, task));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    for did in room.nodes.keys().copied().collect::<Vec<_>>() {
        let back = Dissolve { task_id: id("t"), reason: Some("no longer".to_owned()) };
        let back = room.seal(&client, Message::Dissolve(back));
        room.deliver(&did, back);
    }
    room.run(60);
    assert_eq!(agreed(&room, "t").end, End::Cancelled);
}

#[test]
fn every_epoch_has_its_election_and_a_silent_leader_one_successor() {
    let mut room = Room::new(12);
    room.run(3_700);
    for node in room.nodes.values() {
        assert_eq!(node.epoch().number(), 2);
        assert_eq!(node.epoch().beacon, room.any().epoch().beacon);
    }
    let elected = room.events.iter().filter(|(_, e)| matches!(e, Event::Elected { .. })).count();
    assert_eq!(elected, 12);
    let epoch = room.any().epoch().clone();
    let leader = *epoch.tier1().iter().find(|d| !epoch.layout().children_of(d).is_empty()).unwrap();
    room.nodes.remove(&leader);
    room.run(120);
    let successors: BTreeSet<Did> = room
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Succession { leader: l, successor, .. } if *l == leader => Some(*successor),
            _ => None,
        })
        .collect();
    assert_eq!(successors.len(), 1, "{successors:?}");
    assert_eq!(Some(&room.any().leader_of(2, &leader)), successors.first());
    assert!(epoch.layout().children_of(&leader).contains(successors.first().unwrap()));
}

/// As many as may lie, and all of Tier 1: the others count the ballots themselves.
#[test]
fn an_election_ends_without_any_of_tier_1() {
    tier1_is_gone(Room::new(12), 3, 3_800);
}

/// Not all are witnesses in a large swarm, and their ballots count, too.
#[test]
fn a_large_swarms_election_ends_without_any_of_tier_1() {
    tier1_is_gone(Room::new(72), 8, 4_400);
}

#[track_caller]
fn tier1_is_gone(mut room: Room, leaders: usize, seconds: u32) {
    let gone = room.tier1();
    assert_eq!(gone.len(), leaders);
    room.nodes.retain(|did, _| !gone.contains(did));
    room.run(seconds);
    for node in room.nodes.values() {
        assert_eq!(node.epoch().number(), 2);
        assert_eq!(node.epoch().beacon, room.any().epoch().beacon);
        let missed = |did| node.epoch().member(did).map(|member| member.missed);
        assert!(room.nodes.keys().all(|did| missed(did) == Some(0)), "all ballots are counted");
        assert!(node.epoch().tier1().iter().all(|did| room.nodes.contains_key(did)));
    }
}

/// A board was formed, and all of Tier 1 is gone: somebody says when the time is over.
#[test]
fn a_task_ends_without_any_of_tier_1() {
    let mut room = Room::new(12);
    let client = secret(100);
    let (chair, leaders) = (room.tier1()[0], room.tier1());
    let task = Task { deadline: room.now.plus(Duration::from_secs(600)), ..room.task("t") };
    let order = room.seal(&client, room.inject(&client, task));
    room.line.push_back((chair, order));
    let is_commit = |sent: &Arc<Signed>| matches!(sent.message, Message::Commit(_));
    while !room.sent.iter().any(is_commit) {
        assert!(room.advance(), "somebody proposes a plan");
    }
    room.nodes.retain(|did, _| !leaders.contains(did));
    // The next election is not yet.
    room.run(2_400);
    assert_eq!(agreed(&room, "t").end, End::Unplanned);
    let told = room.outside.iter().filter(|(to, _)| *to == client.public().did());
    assert!(told.count() >= 1, "the client hears of it");
}

/// A member whose agent does no work for an epoch's challenge has no proof of compute.
#[test]
fn who_does_not_compute_weighs_less() {
    let mut room = Room::new(7);
    let lazy = *room.nodes.keys().next().unwrap();
    // The challenge of the first epoch is answered already.
    room.idle.insert(lazy);
    room.run(7_200);
    let epoch = room.any().epoch().clone();
    assert_eq!(epoch.number(), 3);
    for member in &epoch.elected.members {
        // A quarter for computing and a fifth for being there.
        let expected = if member.did == lazy { 0 } else { 25 };
        let of_uptime = member.weight.e6().saturating_sub(expected * 10_000);
        let least = if member.did == lazy { 100_000 } else { 150_000 };
        assert!((least..=200_000).contains(&of_uptime), "{} {}", member.did, member.weight);
    }
    assert!(!epoch.tier1().contains(&lazy), "too little to stand, and others do");
}

#[test]
fn a_member_changes_its_key_in_the_midst_of_a_task() {
    let mut room = Room::new(5);
    room.guard();
    let client = secret(100);
    let chair = room.tier1()[0];
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.line.push_back((chair, message));
    let member = loop {
        let committed = room
            .sent
            .iter()
            .find(|sent| matches!(sent.message, Message::Commit(_)) && sent.meta.signer != chair);
        match committed {
            Some(sent) => break sent.meta.signer,
            None => assert!(room.advance(), "somebody else proposes a plan"),
        }
    };
    let (old, new) = (room.keys[&member].clone(), secret(101));
    room.rotate(&member, new.clone());
    room.settle();
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    assert_eq!(room.refusals, Vec::new());
    let signed_by = |key: &skep_base::ed25519::SecretKey, method: &str| {
        room.sent.iter().any(|sent| {
            let is_it = sent.meta.signer == member && sent.message.method() == method;
            is_it && key.public().verify(sent.payload(), sent.signature()).is_ok()
        })
    };
    assert!(signed_by(&old, "consensus.proposal_commit"));
    assert!(signed_by(&new, "consensus.proposal_reveal"));
    // What the node has stored is enough to know it by.
    let keys = room.nodes[&chair].known_keys();
    assert_eq!(keys.get(&member).unwrap().newest(), &new.public());

    let read = |keys, sent: &[_]| {
        let written = Transcript::write(&room.genesis, keys, sent);
        Transcript::read(&serde_json::to_vec(&written).unwrap())
    };
    assert_eq!(read(&keys, &room.sent).unwrap().verify().differences, Vec::new());
    let error = read(&Default::default(), &room.sent).unwrap_err().to_string();
    assert!(error.contains("the signature does not fit"), "{error}");

    // Whoever has the old key now is nobody.
    room.now = room.now.plus(std::time::Duration::from_secs(1));
    let alive = Keepalive { elected: 1, ..Keepalive::new(member, 1, room.now) };
    let forged = room.seal_as(member, &old, Message::Keepalive(alive.clone()), Vec::new());
    assert_eq!(room.refused(&chair, forged), Some(ErrorCode::InvalidSignature));
    let thief = secret(102);
    let hello = room
        .sent
        .iter()
        .rfind(|sent| matches!(sent.message, Message::Handshake(_)) && sent.meta.signer == member);
    let Message::Handshake(mut hello) = hello.unwrap().message.clone() else { unreachable!() };
    hello.pub_key = thief.public();
    hello.key_chain = vec![link(&old, &thief, room.now)];
    let forked = room.seal_as(member, &thief, Message::Handshake(hello), Vec::new());
    assert_eq!(room.refused(&chair, forked), Some(ErrorCode::InvalidSignature));
    let alive = room.seal_as(member, &new, Message::Keepalive(alive), Vec::new());
    assert_eq!(room.refused(&chair, alive), None);
}

/// The successor takes a task in the failed leader's place, and an auditor sees why it may.
#[test]
fn who_follows_a_leader_takes_its_tasks_until_the_next_election() {
    let mut room = Room::new(12);
    let epoch = room.any().epoch().clone();
    let leader = *epoch.tier1().iter().find(|d| !epoch.layout().children_of(d).is_empty()).unwrap();
    let branch = epoch.layout().children_of(&leader).to_vec();
    let client = secret(100);
    let early = room.seal(&client, room.inject(&client, room.task("early")));
    assert_eq!(room.refused(&branch[0], early), Some(ErrorCode::InvalidRequest));

    let away = room.nodes.remove(&leader).unwrap();
    room.run(120);
    let successor = room.any().leader_of(1, &leader);
    assert!(branch.contains(&successor));
    for did in branch.iter().filter(|did| **did != successor) {
        let told = room.sent.iter().any(|sent| {
            matches!(&sent.message, Message::AssignTier(m)
                if m.parent_id == successor && m.assigned_agent == *did)
        });
        assert!(told, "the branch hears whom it is under");
    }

    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&successor, message);
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let board = room.sent.iter().find_map(|sent| match &sent.message {
        Message::Ready(ready) if ready.task_id == id("t") => Some(ready.clone()),
        _ => None,
    });
    let board = board.unwrap();
    assert_eq!(board.chair_id, successor);
    for did in branch.iter().filter(|did| **did != successor) {
        let accepts = |m: &Message| matches!(m, Message::Accept(a) if a.task_id == id("t"));
        let answers = room.sent.iter().filter(|sent| accepts(&sent.message));
        assert!(answers.into_iter().any(|sent| sent.meta.signer == *did), "the branch is asked");
    }

    // The leader comes back: the certificate stands.
    room.nodes.insert(leader, away);
    room.run(60);
    assert_eq!(room.nodes[&leader].leader_of(1, &leader), successor);
    let late = room.seal(&client, room.inject(&client, room.task("late")));
    assert_eq!(room.refused(&leader, late.clone()), Some(ErrorCode::InvalidRequest));
    assert_eq!(room.refused(&successor, late), None);
    // And falls with the election.
    room.run(3_600);
    assert_eq!(room.any().epoch().number(), 2);
    let again = room.seal(&client, room.inject(&client, room.task("again")));
    let expected = (!room.tier1().contains(&successor)).then_some(ErrorCode::InvalidRequest);
    assert_eq!(room.refused(&successor, again), expected);

    let keys = room.known_keys();
    let written = Transcript::write(&room.genesis, &keys, &room.sent);
    let read = |json: &serde_json::Value| Transcript::read(&serde_json::to_vec(json).unwrap());
    let report = read(&written).unwrap().verify();
    assert_eq!((report.successions, report.differences), (1, Vec::new()));

    // Without the signatures under the succession the chair is nobody.
    let mut bare = written.clone();
    for message in bare["messages"].as_array_mut().unwrap() {
        let is_plan = message["params"]["subject"]["about"] == "plan";
        if let Some(attached) = message.get_mut("attached").and_then(|a| a.as_array_mut()) {
            attached.retain(|m| !is_plan || m["params"]["subject"]["about"] != "succession");
        }
    }
    let differences = read(&bare).unwrap().verify().differences;
    assert!(!differences.is_empty());
}

/// Nobody chairs on its own word: neither without the certificate nor with too few signatures.
#[test]
fn a_chair_that_nobody_made_one_is_refused() {
    let mut room = Room::new(12);
    let epoch = room.any().epoch().clone();
    let leader = *epoch.tier1().iter().find(|d| !epoch.layout().children_of(d).is_empty()).unwrap();
    let usurper = epoch.layout().children_of(&leader)[0];
    let key = room.keys[&usurper].clone();
    let mut branch_agents = epoch.layout().children_of(&leader).to_vec();
    branch_agents.sort();
    let word = Succession { failed_leader: leader, new_leader: usurper, epoch: 1, branch_agents };
    let hash = skep_swarm::succession::value_of(&word).hash();
    let sign = |room: &Room, key: &skep_base::ed25519::SecretKey| {
        let subject = Subject::Succession { epoch: 1, leader };
        let word = Word::Sign { step: Step::Commit, hash };
        room.seal(key, Message::Certificate(Certificate { subject, view: 0, word }))
    };
    // Eight of twelve are one too few.
    let few: Vec<_> = room.keys.values().take(8).map(|key| sign(&room, key)).collect();
    let to = *epoch.tier1().iter().find(|did| **did != leader).unwrap();
    let said = room.seal_with(&key, Message::Succession(word.clone()), few.clone());
    assert_eq!(room.refused(&to, said), Some(ErrorCode::InvalidSignature));

    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let mut shown = vec![order, room.seal(&key, Message::Succession(word))];
    shown.extend(few);
    let invite = Invite {
        task_id: id("t"),
        task_digest: String::new(),
        complexity_estimate: Share::ZERO,
        depth: 0,
        required_capabilities: Vec::new(),
        capacity: 3,
        chair: usurper,
    };
    let invite = room.seal_with(&key, Message::Invite(invite), shown.clone());
    assert_eq!(room.refused(&to, invite), Some(ErrorCode::InvalidSignature));
    let ready = Ready {
        task_id: id("t"),
        chair_id: usurper,
        adversarial_critic: None,
        senate: Vec::new(),
        task: None,
        members: vec![usurper],
    };
    let ready = room.seal_with(&key, Message::Ready(ready), shown.clone());
    assert_eq!(room.refused(&to, ready.clone()), Some(ErrorCode::InvalidParams));
    let fault = |shown: &[Arc<Signed>]| {
        let record: Vec<Kept> = shown.iter().chain([&ready]).cloned().map(Kept).collect();
        judge::deliberation(&epoch, &record).err()
    };
    assert_eq!(fault(&shown), Some(judge::Fault::WrongChair(usurper)));
    // One more signature, and it may chair; another's draws are not its own.
    shown.push(sign(&room, room.keys.values().nth(8).unwrap()));
    assert_eq!(fault(&shown), Some(judge::Fault::WrongDraw));
}

/// A stranger knows the genesis document and one member.
#[test]
fn a_stranger_is_told_of_the_elections_and_elected() {
    let mut room = Room::new(4);
    room.run(3_700);
    let (stranger, contact) = (secret(50), room.tier1()[0]);
    let did = stranger.public().did();
    let node = Node::newcomer(room.genesis.clone(), profile(&stranger), &[contact]);
    room.keys.insert(did, stranger);
    room.nodes.insert(did, node);
    // Nobody has met it yet.
    room.guard();
    room.run(60);
    // It was not there, and has the proof.
    assert_eq!(room.nodes[&did].epoch().number(), 2);
    assert!(!room.nodes[&did].is_member());
    room.run(3_600);
    for node in room.nodes.values() {
        assert_eq!(node.epoch().number(), 3);
        assert!(node.epoch().contains(&did));
    }
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let keys = room.known_keys();
    let text = serde_json::to_vec(&Transcript::write(&room.genesis, &keys, &room.sent));
    let report = Transcript::read(&text.unwrap()).unwrap().verify();
    assert_eq!((report.elections, report.differences), (vec![2, 3], Vec::new()));
}

/// Elections that are long over are still told of: enough of them is kept to follow.
#[test]
fn a_stranger_may_come_after_many_elections() {
    let mut room = Room::timed(4, Timing { epoch_ms: 240_000, ..Timing::default() });
    // One joins soon, and its key comes along with the election that it joined by.
    let early = join(&mut room, 50);
    room.run(32 * 240);
    assert!(room.any().epoch().contains(&early));
    assert!(room.any().epoch().number() > 30);
    // What is left of the oldest elections is enough for an auditor to follow.
    let node = room.any();
    let elections: Vec<_> = node.elections().cloned().collect();
    let written = Transcript::write(&room.genesis, &node.known_keys(), &elections);
    let report = Transcript::read(&serde_json::to_vec(&written).unwrap()).unwrap().verify();
    assert_eq!(report.differences, Vec::new());
    assert_eq!((report.elections.len(), report.followed.first()), (24, Some(&2)));
    assert_eq!(report.elections.last(), Some(&node.epoch().number()));
    let late = join(&mut room, 51);
    room.guard();
    room.run(500);
    for node in room.nodes.values() {
        assert_eq!(node.epoch().number(), room.genesis.epoch_at(room.now));
        assert!(node.epoch().contains(&late));
    }
}

/// Somebody comes who knows the genesis document and one member.
fn join(room: &mut Room, n: u8) -> Did {
    let stranger = secret(n);
    let did = stranger.public().did();
    let contact = room.tier1()[0];
    let node = Node::newcomer(room.genesis.clone(), profile(&stranger), &[contact]);
    room.keys.insert(did, stranger);
    room.nodes.insert(did, node);
    did
}

/// What one node has kept is a transcript that anybody can check.
#[test]
fn a_node_shows_what_was_decided() {
    let mut room = Room::new(4);
    room.run(3_700);
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&room.tier1()[0], message);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    for (did, node) in &room.nodes {
        let decided = node.transcript(&id("t")).into_iter();
        let sealed = decided.map(|(said, record)| room.seal_with(&room.keys[did], said, record));
        let messages: Vec<_> = node.elections().cloned().chain(sealed).collect();
        let written = Transcript::write(&room.genesis, &node.known_keys(), &messages);
        let report = Transcript::read(written.to_string().as_bytes()).unwrap().verify();
        assert_eq!((report.elections, report.differences), (vec![2], Vec::new()));
        assert_eq!(report.tasks[0].ended, Some(agreed(&room, "t")));
    }
    assert!(room.any().transcript("another").is_empty());
}

/// An auditor sees each thing that was changed, and where.
#[test]
fn a_changed_transcript_is_found_out() {
    let mut room = Room::new(7);
    let client = secret(100);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    let keys = room.known_keys();
    let written = Transcript::write(&room.genesis, &keys, &room.sent);
    let read = |json: &serde_json::Value| Transcript::read(&serde_json::to_vec(json).unwrap());
    assert_eq!(read(&written).unwrap().verify().differences, Vec::new());

    // One letter of what somebody signed.
    let text = serde_json::to_string(&written).unwrap();
    let changed = text.replacen("In three parts", "In three pants", 1);
    let error = Transcript::read(changed.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("the signature does not fit"), "{error}");

    // A ballot taken out of what was certified.
    let mut fewer = written.clone();
    for message in fewer["messages"].as_array_mut().unwrap() {
        if let Some(attached) = message.get_mut("attached").and_then(|a| a.as_array_mut())
            && let Some(at) = attached.iter().position(|m| m["method"] == "consensus.vote")
        {
            attached.remove(at);
        }
    }
    let differences = read(&fewer).unwrap().verify().differences;
    assert_eq!(differences[0].about, Subject::Plan { task_id: id("t") });
    assert!(differences[0].why.contains("record"), "{differences:?}");

    // A certificate with too few signatures.
    let mut thin = written.clone();
    for message in thin["messages"].as_array_mut().unwrap() {
        if let Some(attached) = message.get_mut("attached").and_then(|a| a.as_array_mut()) {
            let mut left = 2;
            attached.retain(|m| {
                let is_sign = m["params"]["word"] == "sign";
                left -= i32::from(is_sign);
                !is_sign || left >= 0
            });
        }
    }
    let differences = read(&thin).unwrap().verify().differences;
    assert!(differences.iter().all(|d| d.why.contains("too few")), "{differences:?}");
    assert!(!differences.is_empty());

    // Another winner, signed by a dishonest leader alone.
    let bundle = room.sent.iter().find(|sent| {
        matches!(&sent.message, Message::Certificate(c)
            if matches!(c.subject, Subject::Plan { .. })
                && matches!(c.word, Word::Bundle { step: Step::Commit, .. }))
    });
    let bundle = bundle.unwrap();
    let Message::Certificate(mut lie) = bundle.message.clone() else { unreachable!() };
    if let Word::Bundle { value, .. } = &mut lie.word
        && let Outcome::Plan(skep_wire::swarm::Chosen::Plan { plan_id, .. }) = &mut value.outcome
    {
        plan_id.push_str("-another");
    }
    let key = room.keys[&bundle.meta.signer].clone();
    let forged = room.seal_with(&key, Message::Certificate(lie), bundle.attached.clone());
    let mut sent = room.sent.clone();
    sent.push(forged);
    let written = Transcript::write(&room.genesis, &keys, &sent);
    let differences = read(&written).unwrap().verify().differences;
    assert_eq!(differences.len(), 1, "{differences:?}");
}
