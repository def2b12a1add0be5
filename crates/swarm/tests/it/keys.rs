//! Keys that not all know of, and what others attach all the same.

use std::sync::Arc;

use skep_base::Did;
use skep_wire::identity::Statement;
use skep_wire::swarm::{
    Attestation, Certificate, ErrorCode, Evidence, Message, Quality, Share, Signed,
    SignedAttestation, Step, Subject, Word,
};

use super::room::{Room, secret};

const ELECTION: Subject = Subject::Election { after: 1 };

fn first_leader(room: &Room) -> Did {
    room.any().epoch().leaders(&ELECTION)[0]
}

/// A member tells the leader alone that its key has changed. The leader's record with its ballot is
/// good for everybody, and so is the certificate with its signature.
#[test]
fn a_change_of_key_that_one_leader_knows_of_spoils_no_record() {
    let mut room = Room::new(7);
    room.guard();
    room.run(3_500);
    room.lost = |room, to, message| {
        let is_news = matches!(&message.message, Message::Handshake(m) if !m.key_chain.is_empty());
        let is_first = room.any().epoch().number() == 1;
        is_news && is_first && *to != first_leader(room)
    };
    let leader = first_leader(&room);
    let member = *room.keys.keys().find(|did| **did != leader).expect("there are seven");
    room.rotate(&member, secret(101));
    room.run(200);
    let is_elected = |sent: &&Arc<Signed>| {
        matches!(
            &sent.message,
            Message::Certificate(Certificate {
                subject: ELECTION,
                word: Word::Bundle { step: Step::Commit, .. },
                ..
            })
        )
    };
    let elected = room.sent.iter().find(is_elected).expect("there is an election");
    let Message::Certificate(certificate) = &elected.message else { unreachable!() };
    assert_eq!((certificate.view, elected.meta.signer), (0, leader), "the first leader is heard");
    let has_ballot = |inner: &Arc<Signed>| {
        inner.meta.signer == member && matches!(inner.message, Message::ElectionVote(_))
    };
    assert!(elected.attached.iter().any(has_ballot));
    assert!(room.nodes.values().all(|node| node.epoch().number() == 2));
}

/// Whose key not everybody knows gives evidence to nobody.
#[test]
fn only_issuers_give_evidence() {
    let mut room = Room::new(4);
    room.guard();
    let (one, other) = (secret(0), secret(1).public().did());
    let greeting = room.sent.iter().find_map(|sent| match &sent.message {
        Message::Handshake(m) if m.agent_id == one.public().did() => Some(m.clone()),
        _ => None,
    });
    let mut greeting = greeting.expect("everybody greets");
    let attestation = Attestation {
        subject: greeting.agent_id,
        quality: Quality::Stake,
        value: Share::ONE,
        epoch: 1,
        attester: secret(2).public().did(),
    };
    let signature = attestation.sign(&secret(2)).expect("an attestation is small and plain");
    greeting.evidence = Evidence(vec![SignedAttestation { attestation, signature }]);
    let greeting = room.seal(&one, Message::Handshake(greeting));
    assert_eq!(room.refused(&other, greeting), Some(ErrorCode::InvalidParams));
}
