use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use skep_base::{AgentId, Timestamp, hash::sha256, id::SessionId};
use skep_wire::conduit::{GatewayStamp, SessionStatus};

use super::*;

fn key() -> SecretKey {
    SecretKey::from_seed([7; 32])
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_ms(1_794_733_200_000 + second * 1000)
}

fn attachment(media_type: &str, name: Option<&str>, data: &[u8]) -> Attachment {
    Attachment {
        sha256: sha256(data),
        media_type: media_type.to_owned(),
        name: name.map(str::to_owned),
        data: STANDARD.encode(data),
    }
}

fn picture() -> Attachment {
    attachment(PNG, None, b"\x89PNG\r\n\x1a\npixels")
}

fn kept() -> Attachment {
    attachment("text/plain", Some("notes.txt"), "was ich sah: ü".as_bytes())
}

fn bundle() -> SessionBundle {
    let mut navigate = Action::begun(0, "NAVIGATE", time(1));
    navigate.success = true;
    navigate.screenshot_sha256 = Some(picture().sha256);
    let mut output = Action::begun(1, "OUTPUT_TO_FILE", time(2));
    output.input = Some(json!({"name": "notes.txt"}));
    output.data_sha256 = Some(kept().sha256);
    let log = [navigate, output].map(|action| serde_json::to_value(action).unwrap());
    SessionBundle {
        format: String::new(),
        session_id: SessionId::new(time(0), [5; 10]),
        agent_id: AgentId([0x11; 20]),
        status: SessionStatus::Completed,
        reason: None,
        purpose: Some("to look".to_owned()),
        action_log: log.into(),
        action_log_head: None,
        chain_alg: String::new(),
        gateway: GatewayStamp {
            kid: "gw-1".to_owned(),
            public_key: SecretKey::from_seed([9; 32]).public(),
            software: "skep/1".to_owned(),
        },
        opened_at: time(0),
        closed_at: time(3),
    }
}

fn sealed() -> SessionProof {
    seal(bundle(), vec![picture(), kept()], &key()).unwrap()
}

#[test]
fn what_was_sealed_holds_and_names_its_gateway() {
    let proof = sealed();
    let read = check(&proof, Some(&key().public())).unwrap();
    assert_eq!(read.gateway.public_key, key().public());
    assert_eq!(read.action_log, bundle().action_log);
    assert_eq!(check(&proof, None), Ok(read));
    let stranger = SecretKey::from_seed([9; 32]).public();
    assert_eq!(check(&proof, Some(&stranger)), Err(Fault::ForeignGateway));
    let empty = SessionBundle { action_log: vec![], ..bundle() };
    assert!(check(&seal(empty, vec![], &key()).unwrap(), None).is_ok());
}

#[test]
fn a_gateway_cannot_sign_a_broken_log_or_foreign_attachments() {
    let again = |change: &dyn Fn(&mut SessionBundle)| {
        let proof = sealed();
        let mut bundle: SessionBundle = serde_json::from_value(proof.bundle.clone()).unwrap();
        change(&mut bundle);
        let proof_hash = json_sha256(&bundle).unwrap();
        let body = json::to_vec(&body_of(&bundle, proof_hash)).unwrap();
        let bundle = serde_json::to_value(bundle).unwrap();
        let signature = key().sign(&body);
        check(&SessionProof { bundle, proof_hash, signature, ..proof }, None).unwrap_err()
    };
    let shortened = |b: &mut SessionBundle| drop(b.action_log.pop());
    assert!(matches!(again(&shortened), Fault::BrokenChain { .. }));
    let swapped = |b: &mut SessionBundle| b.action_log.swap(0, 1);
    assert_eq!(again(&swapped), Fault::BadAction { index: 0 });
    let strange = |b: &mut SessionBundle| b.action_log[1] = json!({"index": 1});
    assert_eq!(again(&strange), Fault::BadAction { index: 1 });
    assert_eq!(again(&|b| b.closed_at = time(-1)), Fault::BadTimes);

    let with = |attachments: Vec<Attachment>| {
        check_attachments(&bundle().action_log, &attachments).unwrap_err()
    };
    let (png, file) = (picture(), kept());
    let loose = attachment("text/plain", None, b"loose");
    assert_eq!(with(vec![loose.clone()]), AttachmentFault::Unnamed { sha256: loose.sha256 });
    let twice = [png.clone(), png.clone()];
    assert_eq!(check_attachments(&bundle().action_log, &twice), Ok(()));
    let as_html = Attachment { media_type: "text/html".to_owned(), ..png.clone() };
    assert_eq!(with(vec![as_html]), AttachmentFault::NotPng { sha256: png.sha256 });
    let as_png = Attachment { media_type: PNG.to_owned(), ..file.clone() };
    assert_eq!(with(vec![as_png]), AttachmentFault::NotPng { sha256: file.sha256 });
    let renamed = Attachment { name: Some("virus.exe".to_owned()), ..file.clone() };
    assert_eq!(with(vec![renamed]), AttachmentFault::Renamed { sha256: file.sha256 });
}

/// Which parts of a proof a changed byte has changed without anybody refusing it.
fn slipped_through(sent: &SessionProof, bytes: &[u8]) -> Vec<&'static str> {
    if !report::verify(bytes, None).ok {
        return vec![];
    }
    let read: SessionProof = json::from_slice(bytes).unwrap();
    let mut changed = Vec::new();
    let mut again = read.clone();
    for (read, sent) in again.attachments.iter_mut().zip(&sent.attachments) {
        if read.media_type != sent.media_type {
            changed.push("media_type");
        }
        if read.name != sent.name {
            changed.push("name");
        }
        (read.media_type, read.name) = (sent.media_type.clone(), sent.name.clone());
    }
    if again != *sent {
        changed.push("something else");
    }
    changed
}

#[test]
fn one_changed_byte_is_noticed_everywhere_but_in_a_files_media_type() {
    let proof = sealed();
    let bytes = serde_json::to_vec(&proof).unwrap();
    assert!(report::verify(&bytes, Some(&key().public())).ok);
    let mut slipped = BTreeSet::new();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        slipped.extend(slipped_through(&proof, &changed));
    }
    assert_eq!(slipped.into_iter().collect::<Vec<_>>(), ["media_type"]);
}

proptest! {
    #[test]
    fn no_other_byte_slips_through_either(at: prop::sample::Index, byte: u8) {
        let proof = sealed();
        let mut bytes = serde_json::to_vec(&proof).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        prop_assert!(!slipped_through(&proof, &bytes).contains(&"something else"));
    }
}
