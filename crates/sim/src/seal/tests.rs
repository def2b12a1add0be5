use std::sync::Arc;

use skep_base::Timestamp;
use skep_wire::swarm::{Certificate, Dissolve, Keepalive, Message, Meta, Subject, Word};

use super::*;

fn meta(signer: Did) -> Meta {
    Meta { signer, swarm: "s".to_owned(), epoch: 1, sent_at: Timestamp::from_ms(1) }
}

fn dissolve() -> Message {
    Message::Dissolve(Dissolve { task_id: "t".to_owned(), reason: None })
}

fn next_view() -> Message {
    let (subject, word) = (Subject::Election { after: 1 }, Word::NextView { prepared: None });
    Message::Certificate(Certificate { subject, view: 1, word })
}

fn keepalive(agent_id: Did) -> Message {
    let timestamp = Timestamp::from_ms(1);
    Message::Keepalive(Keepalive::new(agent_id, 1, timestamp))
}

#[test]
fn both_kinds_refuse_what_another_key_signed() {
    for kind in [Signatures::Real, Signatures::Fast] {
        let [a, b, stranger] = [1, 2, 3].map(|number| Key::derive(kind, 9, number));
        let mut registry = Registry::new(kind);
        registry.enter(&a);
        registry.enter(&b);

        let good = Signed::seal(meta(a.did), dissolve(), Vec::new(), &a);
        assert_eq!(registry.admit(&good), Ok(()));
        let forged = Signed::seal(meta(a.did), dissolve(), Vec::new(), &b);
        assert_eq!(registry.admit(&forged), Err(OpenError::BadSignature));
        let unknown = Signed::seal(meta(stranger.did), dissolve(), Vec::new(), &stranger);
        assert_eq!(registry.admit(&unknown), Err(OpenError::UnknownSigner(stranger.did)));
        let in_anothers_name = Signed::seal(meta(b.did), keepalive(a.did), Vec::new(), &b);
        assert_eq!(registry.admit(&in_anothers_name), Err(OpenError::WrongSigner(b.did)));

        let around = |inner| Signed::seal(meta(b.did), next_view(), vec![Arc::new(inner)], &b);
        assert_eq!(registry.admit(&around(forged)), Err(OpenError::BadSignature));
        assert_eq!(registry.admit(&around(good)), Ok(()));
        let elsewhere = Meta { swarm: "other".to_owned(), ..meta(a.did) };
        let elsewhere = Signed::seal(elsewhere, dissolve(), Vec::new(), &a);
        assert_eq!(registry.admit(&elsewhere), Ok(()));
        let other = OpenError::OtherSwarm("other".to_owned());
        assert_eq!(registry.admit(&around(elsewhere)), Err(other));
    }
}
