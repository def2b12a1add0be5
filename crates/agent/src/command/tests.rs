use std::{
    io::{PipeReader, Write},
    os::fd::AsRawFd,
    sync::Mutex,
};

use serde_json::Value;
use skep_wire::identity::{Agent, AgentKey, KeyChange, PendingRecovery};

use super::*;
use crate::Passphrase;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);
const LATER: Timestamp = Timestamp::from_ms(1_800_086_400_000);

/// Commands read what they are not told from descriptors, one line each.
struct Desk {
    folder: tempfile::TempDir,
    lines: PipeReader,
    writer: io::PipeWriter,
}

impl Desk {
    fn new() -> Self {
        let (lines, writer) = io::pipe().unwrap();
        Desk { folder: tempfile::tempdir().unwrap(), lines, writer }
    }

    fn fd(&self) -> Option<u32> {
        u32::try_from(self.lines.as_raw_fd()).ok()
    }

    fn keys(&self, json: bool) -> Keys {
        let path = self.folder.path().join("keys.json");
        Keys { path, passphrase_fd: self.fd(), json, now: NOW }
    }

    fn types(&mut self, line: &str) {
        writeln!(self.writer, "{line}").unwrap();
    }

    fn json(&mut self, run: impl FnOnce(&Keys, &mut dyn Write)) -> Value {
        let mut out = Vec::new();
        run(&self.keys(true), &mut out);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one document, one line");
        serde_json::from_slice(&out).unwrap()
    }

    fn new_keyring(&mut self) -> Value {
        self.types("secret");
        self.json(|keys, out| new(keys, &New::default(), out).unwrap())
    }

    /// The keyring as a cheap one, so that tests that open it often are fast.
    fn cheap(&self) -> Keyring {
        let cost = crate::keyring::KdfCost::new(8, 1, 1).unwrap();
        let keyring = Keyring::open(&self.keys(true).path, &passphrase()).unwrap();
        let keyring = keyring.with_kdf(cost);
        keyring.save(&self.keys(true).path, &passphrase()).unwrap();
        keyring
    }

    async fn rotate(&mut self, step: RotateStep, node: &Node) -> Result<Value, CommandError> {
        self.types("secret");
        let options = Rotate { step, old_key: None, offline: false };
        let mut out = Vec::new();
        rotate(&self.keys(true), &options, Some(node), &mut out).await?;
        Ok(serde_json::from_slice(&out).unwrap())
    }
}

fn passphrase() -> Passphrase {
    Passphrase::new(Zeroizing::new("secret".to_owned())).unwrap()
}

/// A node that takes every change, and may lose its answers or refuse.
struct Node {
    record: Mutex<Agent>,
    fault: Mutex<Fault>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    LostAnswer,
    Refuses,
}

impl Node {
    fn with(keyring: &Keyring) -> Self {
        let registration = keyring.registration(NOW, None, None, None);
        let record = Agent {
            agent_id: keyring.agent_id(),
            did: keyring.did(),
            name: None,
            operator: keyring.did(),
            current_key: Some(keyring.public_key()),
            keys: vec![key(keyring.public_key())],
            registration,
            pending_recovery: None,
            money_frozen_until: None,
            defaults: 0,
            refunds_despite_pass: 0,
            operator_review: None,
            registered_at: NOW,
        };
        Node { record: Mutex::new(record), fault: Mutex::new(Fault::None) }
    }

    fn fails(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// The delay is over.
    fn recovers(&self) {
        let mut record = self.record.lock().unwrap();
        let recovery = record.pending_recovery.take().unwrap();
        record.current_key = Some(recovery.new_key);
        record.keys.push(key(recovery.new_key));
    }
}

fn key(public_key: PublicKey) -> AgentKey {
    let proof = Value::Null;
    AgentKey { public_key, since: NOW, revoked_at: None, compromised_since: None, proof }
}

impl Submit for Node {
    async fn change_keys(&self, agent: AgentId, change: KeyChange) -> Result<Agent, String> {
        let fault = *self.fault.lock().unwrap();
        if fault == Fault::Refuses {
            return Err("no".to_owned());
        }
        let mut record = self.record.lock().unwrap();
        assert_eq!(agent, record.agent_id);
        match change {
            KeyChange::Rotate { statement, .. } => {
                assert_eq!(record.current_key, Some(statement.old_key));
                record.current_key = Some(statement.new_key);
                record.keys.push(key(statement.new_key));
                record.money_frozen_until = Some(LATER);
            }
            KeyChange::Recover { statement, .. } => {
                assert_eq!(record.current_key, Some(statement.old_key));
                let new_key = statement.new_key;
                record.pending_recovery = Some(PendingRecovery { new_key, effective_at: LATER });
            }
            other => panic!("{other:?}"),
        }
        match fault {
            Fault::LostAnswer => Err("time-out".to_owned()),
            _ => Ok(record.clone()),
        }
    }

    async fn agent(&self, _: AgentId) -> Result<Agent, String> {
        Ok(self.record.lock().unwrap().clone())
    }
}

#[test]
fn new_then_show_then_again_from_the_phrase() {
    let mut desk = Desk::new();
    let made = desk.new_keyring();
    let shown = desk.json(|keys, out| show(keys, out).unwrap());
    for field in ["agent_id", "did", "public_key", "path"] {
        assert_eq!(made[field], shown[field], "{field}");
    }
    assert_eq!(shown.get("recovery_phrase"), None);
    let words = made["recovery_phrase"].as_str().unwrap().to_owned();
    assert_eq!(words.split(' ').count(), 24);
    let exists = new(&desk.keys(true), &New::default(), &mut Vec::new()).unwrap_err();
    assert!(exists.to_string().contains("is not overwritten"), "{exists}");

    let mut other = Desk::new();
    other.types(&words);
    other.types("another passphrase");
    let options = New { from_phrase: true, phrase_fd: other.fd(), operator: true, key_number: 0 };
    let again = other.json(|keys, out| new(keys, &options, out).unwrap());
    assert_eq!(again["agent_id"], made["agent_id"]);
    assert_eq!(again["did"], made["did"]);
    assert!(again["operator"].as_str().unwrap().starts_with("did:swarm:"));
    assert_eq!(again.get("recovery_phrase"), None, "its owner has it already");
}

#[test]
fn for_people_the_words_are_numbered() {
    let mut desk = Desk::new();
    desk.types("secret");
    let mut out = Vec::new();
    new(&desk.keys(false), &New::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for part in ["agent id    0x", "DID         did:swarm:", "  24 ", "shown this once"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Nobody has seen the phrase: there must be no keyring to start using.
#[test]
fn a_phrase_that_could_not_be_shown_leaves_no_keyring() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut desk = Desk::new();
    desk.types("secret");
    let error = new(&desk.keys(true), &New::default(), &mut Full).unwrap_err();
    assert!(matches!(error, CommandError::Write(_)));
    assert!(!desk.keys(true).path.exists());
}

#[test]
fn without_a_keyring_the_error_says_how_to_make_one() {
    let desk = Desk::new();
    let error = show(&desk.keys(true), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("skep keys new"), "{error}");
    let error = bind(&desk.keys(true), &Bind::default(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("skep keys new"), "{error}");
}

#[test]
fn a_binding_is_printed_and_checked() {
    let mut desk = Desk::new();
    let made = desk.new_keyring();
    desk.cheap();
    desk.types("secret");
    let options = Bind { name: Some("Ada".to_owned()), webhook_url: None };
    let registration = desk.json(|keys, out| bind(keys, &options, out).unwrap());
    let file = desk.folder.path().join("binding.json");
    fs::write(&file, registration.to_string()).unwrap();
    let answer = desk.json(|_, out| verify(true, &file, None, out).unwrap());
    assert_eq!(answer["valid"], true);
    assert_eq!(answer["agent_id"], made["agent_id"]);
    fs::write(&file, registration.to_string().replace("Ada", "Bob")).unwrap();
    let error = verify(true, &file, None, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, CommandError::Registration { .. }), "{error:?}");
    fs::write(&file, "{}").unwrap();
    let error = verify(true, &file, None, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, CommandError::NoRegistration { .. }), "{error:?}");
    let name = Some("x".repeat(NAME_LEN_MAX + 1));
    let long = bind(&desk.keys(true), &Bind { name, webhook_url: None }, &mut Vec::new());
    assert!(matches!(long, Err(CommandError::TooLong { .. })));
}

#[tokio::test]
async fn a_lost_answer_loses_nothing() {
    let mut desk = Desk::new();
    desk.new_keyring();
    let before = desk.cheap();
    let node = Node::with(&before);

    node.fails(Fault::Refuses);
    let error = desk.rotate(RotateStep::Rotate, &node).await.unwrap_err();
    assert!(error.to_string().contains("stays staged"), "{error}");
    let staged = desk.cheap().pending_key().unwrap();

    node.fails(Fault::LostAnswer);
    desk.rotate(RotateStep::Rotate, &node).await.unwrap_err();
    assert_eq!(desk.cheap().public_key(), before.public_key());
    assert_eq!(desk.cheap().pending_key(), Some(staged), "the same key was sent again");
    let error = desk.rotate(RotateStep::Drop, &node).await.unwrap_err();
    assert!(matches!(error, CommandError::InUse));

    node.fails(Fault::None);
    let answer = desk.rotate(RotateStep::Rotate, &node).await.unwrap();
    assert_eq!(answer["state"], "rotated");
    assert_eq!(answer["public_key"], staged.to_string());
    assert_eq!(answer["did"], before.did().to_string());
    assert_eq!(answer["money_frozen_until"], LATER.to_string());
    assert_eq!(desk.cheap().history(), [before.public_key()]);
}

#[tokio::test]
async fn a_refused_key_can_be_dropped() {
    let mut desk = Desk::new();
    desk.new_keyring();
    let before = desk.cheap();
    let node = Node::with(&before);
    node.fails(Fault::Refuses);
    desk.rotate(RotateStep::Rotate, &node).await.unwrap_err();
    let answer = desk.rotate(RotateStep::Drop, &node).await.unwrap();
    assert_eq!(answer["state"], "dropped");
    assert_eq!(desk.cheap().pending_key(), None);
}

/// The file is lost after a rotation: the phrase brings the agent back, with a delay.
#[tokio::test]
async fn recovery_of_a_lost_file() {
    let mut desk = Desk::new();
    let words = desk.new_keyring()["recovery_phrase"].as_str().unwrap().to_owned();
    let first = desk.cheap();
    let node = Node::with(&first);
    desk.rotate(RotateStep::Rotate, &node).await.unwrap();

    let mut desk = Desk::new();
    desk.types(&words);
    desk.types("secret");
    let options = New { from_phrase: true, phrase_fd: desk.fd(), ..New::default() };
    desk.json(|keys, out| new(keys, &options, out).unwrap());
    desk.cheap();

    // The passphrase is read first.
    let recover = RotateStep::Recover { phrase_fd: desk.fd() };
    desk.types("secret");
    desk.types(&words);
    let options = Rotate { step: recover, old_key: None, offline: false };
    let mut out = Vec::new();
    rotate(&desk.keys(true), &options, Some(&node), &mut out).await.unwrap();
    let answer: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(answer["state"], "waiting");
    assert_eq!(answer["effective_at"], LATER.to_string());

    let answer = desk.rotate(RotateStep::Rotate, &node).await.unwrap();
    assert_eq!(answer["state"], "waiting", "asking does not change it");
    node.recovers();
    let answer = desk.rotate(RotateStep::Rotate, &node).await.unwrap();
    assert_eq!(answer["state"], "rotated");
    assert_eq!(answer["did"], first.did().to_string());
    assert_eq!(node.record.lock().unwrap().current_key, Some(desk.cheap().public_key()));
}

#[tokio::test]
async fn offline_the_change_is_printed_and_accepted_later() {
    let mut desk = Desk::new();
    desk.new_keyring();
    let before = desk.cheap();
    let options = Rotate { step: RotateStep::Rotate, old_key: None, offline: true };
    desk.types("secret");
    let mut out = Vec::new();
    rotate(&desk.keys(true), &options, None::<&Node>, &mut out).await.unwrap();
    let change: KeyChange = serde_json::from_slice(&out).unwrap();
    let KeyChange::Rotate { statement, .. } = change else { panic!("not a rotation") };
    assert_eq!(desk.cheap().pending_key(), Some(statement.new_key));

    let options = Rotate { step: RotateStep::Accepted, old_key: None, offline: false };
    desk.types("secret");
    let mut out = Vec::new();
    rotate(&desk.keys(false), &options, None::<&Node>, &mut out).await.unwrap();
    assert!(String::from_utf8(out).unwrap().contains(&statement.new_key.to_string()));
    assert_eq!(desk.cheap().public_key(), statement.new_key);
    assert_eq!(desk.cheap().history(), [before.public_key()]);

    let options = Rotate { step: RotateStep::Rotate, old_key: None, offline: false };
    let error = rotate(&desk.keys(true), &options, None::<&Node>, &mut Vec::new()).await;
    assert!(matches!(error, Err(CommandError::NoNode)));
}
