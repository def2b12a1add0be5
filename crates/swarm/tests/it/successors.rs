//! Who follows a leader that is gone, and that nobody follows one that is there.

use std::collections::BTreeSet;

use skep_base::Did;
use skep_swarm::{
    draw::{WITNESSES_MAX, quorum},
    epoch::Epoch,
    node::Event,
    succession::{branch_of, value_of, witnesses_of},
};
use skep_wire::swarm::{Certificate, Message, Signed, Step, Subject, Succession, Word};

use super::room::Room;

/// A leader, and those below it in the order in which they may follow it: all weigh the same.
fn leader_and_branch(epoch: &Epoch) -> (Did, Vec<Did>) {
    let has_branch = |did: &&Did| epoch.layout().children_of(did).len() > 1;
    let leader = *epoch.tier1().iter().find(has_branch).expect("somebody leads two");
    (leader, branch_of(epoch, &leader))
}

/// Lets one of a branch propose itself to everybody; who has signed that.
fn usurp(room: &mut Room, epoch: u64, leader: Did, branch: &[Did], view: u32) -> BTreeSet<Did> {
    let usurper = branch[view as usize];
    let word = Succession {
        failed_leader: leader,
        new_leader: usurper,
        epoch,
        branch_agents: branch.to_vec(),
    };
    let value = value_of(&word);
    let hash = value.hash();
    let subject = Subject::Succession { epoch, leader };
    let word = Word::Propose { value };
    let proposal = Certificate { subject: subject.clone(), view, word };
    let proposal = room.seal(&room.keys[&usurper].clone(), Message::Certificate(proposal));
    let before = room.sent.len();
    for did in room.nodes.keys().copied().collect::<Vec<_>>() {
        room.line.push_back((did, proposal.clone()));
    }
    room.settle();
    let signs = Word::Sign { step: Step::Prepare, hash };
    let signed = room.sent[before..].iter().filter(|sent| {
        matches!(&sent.message, Message::Certificate(said)
            if said.subject == subject && said.word == signs)
    });
    signed.map(|sent| sent.meta.signer).filter(|did| *did != usurper).collect()
}

fn successors(room: &Room, of: &Did) -> BTreeSet<Did> {
    let successor = |event: &Event| match event {
        Event::Succession { leader, successor, .. } if leader == of => Some(*successor),
        _ => None,
    };
    room.events.iter().filter_map(|(_, event)| successor(event)).collect()
}

/// Whoever has a leader's greeting can send it again and again: that is no sign of life.
#[test]
fn an_old_greeting_keeps_no_leader_in_office() {
    let mut room = Room::new(12);
    room.run(20);
    let (leader, _) = leader_and_branch(room.any().epoch());
    let is_greeting = |sent: &&std::sync::Arc<Signed>| {
        sent.meta.signer == leader && matches!(sent.message, Message::Handshake(_))
    };
    let greeting = room.sent.iter().rfind(is_greeting).expect("everybody greets").clone();
    room.nodes.remove(&leader);
    for _ in 0..6 {
        for did in room.nodes.keys().copied().collect::<Vec<_>>() {
            room.deliver(&did, greeting.clone());
        }
        room.run(20);
    }
    assert_eq!(successors(&room, &leader).len(), 1);
}

/// In a swarm of more than 64 most members never hear a leader: they are not asked about it.
#[test]
fn a_large_swarm_keeps_a_leader_that_is_there_and_replaces_one_that_is_gone() {
    let mut room = Room::new(WITNESSES_MAX as u8 + 16);
    let epoch = room.any().epoch().clone();
    for leader in epoch.tier1() {
        let (witnesses, told) = (witnesses_of(&epoch, leader), epoch.audience(leader));
        assert!(witnesses.iter().all(|did| told.contains(did)), "{leader} is heard by them");
        assert!(!witnesses.contains(leader) && witnesses.len() >= epoch.k() - 1);
    }
    let (leader, branch) = leader_and_branch(&epoch);
    room.run(60);
    for view in 0..2 {
        let signed = usurp(&mut room, 1, leader, &branch, view);
        assert_eq!(signed, BTreeSet::new(), "in view {view}");
    }
    room.run(60);
    assert_eq!(successors(&room, &leader), BTreeSet::new());

    room.nodes.remove(&leader);
    room.run(120);
    let found = successors(&room, &leader);
    assert_eq!(found.len(), 1);
    assert!(branch.contains(found.first().unwrap()));
    let knows = |did: &&Did| room.nodes.get(did).is_some_and(|n| n.leader_of(1, &leader) != leader);
    let witnesses = witnesses_of(&epoch, &leader);
    assert!(witnesses.iter().filter(knows).count() >= quorum(witnesses.len()));
}

/// Two elections later nobody signs for another successor of the same leader.
#[test]
fn who_has_followed_is_known_for_as_long_as_the_epoch_is() {
    let mut room = Room::new(12);
    let epoch = room.any().epoch().clone();
    let (leader, branch) = leader_and_branch(&epoch);
    room.nodes.remove(&leader);
    room.run(120);
    let successor = room.any().leader_of(1, &leader);
    assert!(branch.contains(&successor));
    room.run(7_200);
    assert_eq!(room.any().epoch().number(), 3);
    for view in 0..branch.len() as u32 {
        let signed = usurp(&mut room, 1, leader, &branch, view);
        assert_eq!(signed, BTreeSet::new(), "in view {view}");
    }
    room.run(60);
    assert_eq!(successors(&room, &leader), BTreeSet::from([successor]));
    assert!(room.nodes.values().all(|node| node.leader_of(1, &leader) == successor));
}
