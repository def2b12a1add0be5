//! What is lost on the way costs a moment, not the whole time that a phase may take.

use std::{collections::BTreeSet, sync::Arc};

use skep_base::{Did, Hash32};
use skep_swarm::{epoch::Epoch, genesis::Genesis, judge, kept::Kept, node::Event};
use skep_wire::swarm::{
    Certificate, End, ErrorCode, Message, Outcome, Signed, Step, Subject, Verification, Word,
};

use super::{
    room::{Room, id, secret},
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
        task_id: id("t"),
        agent_id: client.public().did(),
        accepted: true,
        reason: None,
        plan_id: None,
        content_cid: None,
    };
    let word = room.seal(&client, Message::Verification(word));
    room.deliver(&asker, word);
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}

#[test]
fn an_order_that_is_sealed_anew_is_the_same_task() {
    let mut room = Room::new(3);
    let client = secret(100);
    let order = room.inject(&client, room.task("t"));
    let tier1 = room.tier1();
    assert!(tier1.len() > 1);
    for to in &tier1 {
        // Each knows another message, and nothing is final in a swarm of three but by all.
        room.now = room.now.plus(std::time::Duration::from_secs(1));
        let sealed = room.seal(&client, order.clone());
        whisper(&mut room, to, sealed);
    }
    room.run(120);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
}

/// One node alone hears that an election is over; the others come back when the next one begins.
/// What was final for the one is so for all: nobody follows the same members twice.
#[test]
fn an_election_that_is_over_for_one_is_over_for_all() {
    let mut room = Room::new(4);
    let start = room.genesis.start;
    let at = |room: &Room| room.now.since(start).as_secs();
    room.lost = |room, to, message| {
        let is_final = matches!(&message.message, Message::Certificate(said)
            if matches!(said.word, Word::Bundle { step: Step::Commit, .. }));
        let is_out =
            room.now.since(room.genesis.start).as_secs() > 3_570 && *to != message.meta.signer;
        // Only its leader learns of the outcome, then nobody hears anybody.
        is_final && *to != message.meta.signer || is_out
    };
    while at(&room) < 7_100 {
        room.run(1);
    }
    let knows = |room: &Room| room.nodes.values().filter(|n| n.epoch().number() == 2).count();
    assert_eq!(knows(&room), 1);
    let (first, beacon) = room
        .nodes
        .iter()
        .find(|(_, node)| node.epoch().number() == 2)
        .map(|(did, node)| (*did, node.epoch().beacon))
        .unwrap();
    // It stays away, the others meet again.
    let away = room.nodes.remove(&first).unwrap();
    room.lost = |_, _, _| false;
    room.run(300);
    let others: Vec<_> = room.nodes.values().map(|node| node.epoch().clone()).collect();
    assert!(others.iter().all(|epoch| epoch.number() >= 2), "{others:?}");
    let elected = room.events.iter().filter_map(|(did, event)| match event {
        Event::Elected { epoch: 2, hash } if *did != first => Some(*hash),
        _ => None,
    });
    let elected: Vec<_> = elected.collect();
    assert_eq!(elected, vec![beacon; 3]);
    room.nodes.insert(first, away);
    room.run(120);
    let epochs: BTreeSet<_> = room.nodes.values().map(|n| n.epoch().beacon).collect();
    assert_eq!(epochs.len(), 1);
}

/// A room in which a chair proposes what follows if it leaves out some of what was said: by whom it
/// takes, of all but itself.
fn leaving_out(is_out: fn(&Message) -> bool) -> (Room, Did, Arc<Signed>, Did) {
    let mut room = Room::new(4);
    let client = secret(100);
    let chair = room.tier1()[0];
    room.lost = |room, to, message| {
        let is_proposal = matches!(&message.message, Message::Certificate(said)
            if matches!(said.word, Word::Propose { .. }));
        is_proposal && *to != message.meta.signer && room.nodes.len() == 4
    };
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&chair, order);
    let proposal = room.sent.iter().rev().find_map(|kept| match &kept.message {
        Message::Certificate(said) => match &said.word {
            Word::Propose { value } => Some((said.clone(), value.clone(), kept.attached.clone())),
            _ => None,
        },
        _ => None,
    });
    let (said, value, attached) = proposal.expect("the chair has proposed");
    let by_others = |kept: &&Arc<Signed>| is_out(&kept.message) && kept.meta.signer != chair;
    let left_out = attached.iter().find(by_others).expect("others spoke, too").meta.signer;
    let is_left = |kept: &Arc<Signed>| !is_out(&kept.message) || kept.meta.signer != left_out;
    let by_hash = |hash: &Hash32| attached.iter().find(|kept| kept.hash() == *hash).cloned();
    let record: Vec<Arc<Signed>> = value.record.iter().filter_map(by_hash).collect();
    let shorter: Vec<Arc<Signed>> = record.into_iter().filter(is_left).collect();
    let kept: Vec<Kept> = shorter.iter().cloned().map(Kept).collect();
    let epoch = room.any().epoch().clone();
    let chosen = judge::deliberation(&epoch, &kept).expect("it still follows").chosen();
    let lie = judge::value(Outcome::Plan(chosen), &kept);
    let lie = Certificate { word: Word::Propose { value: lie }, ..said };
    let lie = room.seal_with(&room.keys[&chair], Message::Certificate(lie), shorter);
    room.lost = |_, _, _| false;
    (room, chair, lie, left_out)
}

fn has_signed(room: &Room, did: &Did) -> bool {
    room.sent.iter().any(|kept| {
        kept.meta.signer == *did
            && matches!(&kept.message, Message::Certificate(said)
                if matches!(said.word, Word::Sign { .. }))
    })
}

/// Until no ballot is in time any more, and nobody has heard a proposal.
fn wait_for_votes(room: &mut Room) {
    room.lost = |_, to, message| {
        let is_proposal = matches!(&message.message, Message::Certificate(said)
            if matches!(said.word, Word::Propose { .. }));
        is_proposal && *to != message.meta.signer
    };
    room.run(130);
    room.lost = |_, _, _| false;
}

/// A chair that says nothing of another one's ballot does not get its signature in time.
#[test]
fn a_ballot_that_a_chair_leaves_out_is_missed() {
    let (mut room, chair, lie, left_out) = leaving_out(|m| matches!(m, Message::PlanVote(_)));
    room.deliver(&left_out, lie.clone());
    assert!(!has_signed(&room, &left_out));
    wait_for_votes(&mut room);
    room.deliver(&left_out, lie.clone());
    assert!(!has_signed(&room, &left_out), "however late it is");
    let other = *room.nodes.keys().find(|did| **did != left_out && **did != chair).unwrap();
    room.deliver(&other, lie);
    assert!(has_signed(&room, &other), "whose ballot is in it sees nothing wrong");
}

/// Nor from those who have ranked a plan that it hides: their ballots would count for others.
#[test]
fn a_plan_that_a_chair_leaves_out_is_missed() {
    let (mut room, chair, lie, left_out) = leaving_out(|m| matches!(m, Message::Reveal(_)));
    let others: Vec<Did> =
        room.nodes.keys().copied().filter(|did| *did != left_out && *did != chair).collect();
    for _ in 0..2 {
        for other in &others {
            room.deliver(other, lie.clone());
            assert!(!has_signed(&room, other));
        }
        // A chair that waits gains nothing.
        wait_for_votes(&mut room);
    }
}

/// Nobody sees the others' plans before it commits to its own.
#[test]
fn a_commit_that_comes_after_the_plans_is_refused() {
    let mut room = Room::new(4);
    let client = secret(100);
    let chair = room.tier1()[0];
    // One member's words never leave it.
    room.lost = |room, to, message| {
        Some(&message.meta.signer) == room.nodes.keys().last()
            && *to != message.meta.signer
            && matches!(message.message, Message::Commit(_) | Message::Critique(_))
    };
    let late = *room.nodes.keys().last().unwrap();
    let chair = if chair == late { room.tier1()[1] } else { chair };
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&chair, order);
    // Commits may take a minute.
    room.run(70);
    let commit = room
        .sent
        .iter()
        .find(|kept| kept.meta.signer == late && matches!(kept.message, Message::Commit(_)));
    let commit = commit.unwrap().clone();
    room.lost = |_, _, _| false;
    assert_eq!(room.refused(&chair, commit), Some(ErrorCode::CommitRevealMismatch));
}

/// A coordinator that does not wait for the originator's word finds no witness.
#[test]
fn work_that_was_not_approved_is_no_result() {
    let mut room = Room::new(4);
    let client = secret(100);
    let chair = room.tier1()[0];
    let mut task = room.task("t");
    task.needs_approval = true;
    let order = room.seal(&client, room.inject(&client, task));
    room.deliver(&chair, order);
    for did in room.nodes.keys().copied().collect::<Vec<_>>() {
        let word = Verification {
            task_id: id("t"),
            agent_id: did,
            accepted: true,
            reason: None,
            plan_id: None,
            content_cid: None,
        };
        let word = room.seal(&client, Message::Verification(word));
        room.deliver(&did, word);
    }
    room.run(10);
    assert_eq!(agreed(&room, "t").end, End::Succeeded);
    let result = room.sent.iter().rev().find_map(|kept| match &kept.message {
        Message::Certificate(said) => match (&said.subject, &said.word) {
            (Subject::Result { .. }, Word::Propose { value }) => {
                Some((value.clone(), kept.attached.clone()))
            }
            _ => None,
        },
        _ => None,
    });
    let (value, attached) = result.unwrap();
    let plan = room.sent.iter().find_map(|kept| match &kept.message {
        Message::Reveal(reveal) if reveal.plan.subtasks.len() == 3 => Some(reveal.plan.clone()),
        _ => None,
    });
    let record: Vec<Kept> = value
        .record
        .iter()
        .filter_map(|hash| attached.iter().find(|kept| kept.hash() == *hash))
        .map(|kept| Kept(kept.clone()))
        .collect();
    let (epoch, plan) = (room.nodes[&chair].epoch().clone(), plan.unwrap());
    assert_eq!(judge::check_result(&epoch, &plan, &value, &record), Ok(()));
    // Whose producers are no members is nobody's work.
    let strangers = vec![secret(50).public(), secret(51).public()];
    let elsewhere = Genesis { founders: strangers, ..room.nodes[&chair].genesis().clone() };
    let elsewhere = Epoch::founding_shared(&Arc::new(elsewhere));
    let wrong = judge::check_result(&elsewhere, &plan, &value, &record);
    assert_eq!(wrong, Err(judge::Fault::NotSubmitted(0)));
    let silent: Vec<Kept> = record
        .into_iter()
        .filter(|kept| !matches!(kept.message, Message::Verification(_)))
        .collect();
    let value = judge::value(value.outcome, &silent);
    assert_eq!(judge::check_result(&epoch, &plan, &value, &silent), Err(judge::Fault::NotApproved));
}
