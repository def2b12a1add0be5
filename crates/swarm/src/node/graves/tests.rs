use std::{sync::Arc, time::Duration};

use skep_base::ed25519::SecretKey;
use skep_wire::swarm::{
    End, Evidence, Inject, Invite, Location, Meta, Resources, Score, Share, Signed, TaskStatus,
    named,
};

use super::*;
use crate::{
    genesis::{Genesis, Timing},
    judge,
    node::{Input, Output, Profile},
    pow,
};

const DAY: Duration = Duration::from_secs(86_400);

fn start() -> Timestamp {
    Timestamp::from_ms(1_800_000_000_000)
}

fn key(n: u8) -> SecretKey {
    SecretKey::from_seed([n; 32])
}

/// One of three leaders, and the key of another.
fn leader() -> (Node, SecretKey) {
    let keys = [key(1), key(2), key(3)];
    let genesis = Genesis {
        swarm: "test".to_owned(),
        start: start(),
        founders: keys.iter().map(SecretKey::public).collect(),
        issuers: Vec::new(),
        difficulty: 1,
        timing: Timing::default(),
    };
    let did = keys[0].public().did();
    let full = Share::ONE;
    let profile = Profile {
        key: keys[0].public(),
        key_chain: Vec::new(),
        capabilities: Vec::new(),
        resources: Resources::default(),
        location: Location::default(),
        score: Score {
            agent_id: did,
            proof_of_compute: full,
            reputation: full,
            uptime: full,
            stake: full,
        },
        evidence: Evidence::default(),
        published: Vec::new(),
        proof_of_work: pow::solve(&did, 1),
    };
    let node = Node::new(Arc::new(genesis), profile);
    assert!(keys.iter().all(|key| node.leaders().contains(&key.public().did())));
    (node, keys[1].clone())
}

/// The full id of a task of the only client's.
fn id(plain: &str) -> String {
    named(plain, &key(9).public().did())
}

fn task(id: &str, deadline: Timestamp) -> Task {
    Task {
        task_id: self::id(id),
        parent_task_id: None,
        epoch: 1,
        status: TaskStatus::Pending,
        description: "Write".to_owned(),
        assigned_to: None,
        tier_level: 1,
        subtasks: Vec::new(),
        created_at: start(),
        deadline,
        capabilities_required: Vec::new(),
        depth: 0,
        index: 0,
        complexity: Share::ZERO,
        needs_approval: false,
    }
}

fn seal(by: &SecretKey, message: Message, attached: Vec<Arc<Signed>>) -> Arc<Signed> {
    let (signer, swarm) = (by.public().did(), "test".to_owned());
    let meta = Meta { signer, swarm, epoch: 1, sent_at: start() };
    Arc::new(Signed::seal(meta, message, attached, by))
}

fn order(task: Task) -> Arc<Signed> {
    let (originator, pub_key) = (key(9).public().did(), Some(key(9).public()));
    let inject = Inject { task, originator, pub_key, key_chain: Vec::new() };
    seal(&key(9), Message::Inject(inject), Vec::new())
}

fn refused(node: &mut Node, now: Timestamp, message: Arc<Signed>) -> Option<ErrorCode> {
    node.step(now, Input::Message(message)).into_iter().find_map(|output| match output {
        Output::Refused { code, .. } => Some(code),
        _ => None,
    })
}

#[test]
fn what_is_over_and_forgotten_is_not_done_again() {
    let (mut node, chair) = leader();
    let (now, deadline) = (start(), start().plus(20 * DAY));
    let old = order(task("t", deadline));
    assert_eq!(refused(&mut node, now, old.clone()), None);
    node.tasks.get_mut(&id("t")).unwrap().ended = Some(judge::ended(End::Cancelled, Vec::new()));
    // A thousand others are over since.
    node.over.push_back(id("t"));
    node.over.extend((0..1_000).map(|n| format!("other-{n}")));
    node.forget(now);
    assert!(!node.tasks.contains_key(&id("t")));

    let text = serde_json::to_vec(&node).unwrap();
    let mut node: Node = serde_json::from_slice(&text).unwrap();
    assert_eq!(refused(&mut node, now, old.clone()), Some(ErrorCode::TaskNotFound));
    let mut another = task("t", deadline);
    another.description.push('!');
    let code = refused(&mut node, now, order(another));
    assert_eq!(code, Some(ErrorCode::DuplicateProposal));
    let invite = Invite {
        task_id: id("t"),
        task_digest: String::new(),
        complexity_estimate: Share::ZERO,
        depth: 0,
        required_capabilities: Vec::new(),
        capacity: 3,
        chair: chair.public().did(),
    };
    let invite = |order| seal(&chair, Message::Invite(invite.clone()), vec![order]);
    assert_eq!(refused(&mut node, now, invite(old.clone())), Some(ErrorCode::TaskNotFound));
    assert!(node.tasks.is_empty());

    // Until the order is too old for anybody.
    let last = plus(deadline, FORGET_AFTER_MS - 1);
    node.forget(last);
    assert!(node.graves.contains_key(&id("t")));
    let late = plus(last, 1);
    node.forget(late);
    assert!(node.graves.is_empty());
    let code = node.check_task(late, &task("t", deadline), true).unwrap_err().code;
    assert_eq!(code, ErrorCode::DeadlineExceeded);
}

/// Long tasks that are over cost others nothing: they go first when there are too many bytes.
#[test]
fn the_longest_that_are_over_make_room() {
    let (mut node, _) = leader();
    let deadline = start().plus(DAY);
    let lens = [10, OVER_LEN_MAX / 2, OVER_LEN_MAX / 3, OVER_LEN_MAX / 3, 20];
    let names = ["a", "b", "c", "d", "e"];
    for (name, len) in names.into_iter().zip(lens) {
        assert_eq!(refused(&mut node, start(), order(task(name, deadline))), None);
        let state = node.tasks.get_mut(&id(name)).unwrap();
        state.ended = Some(judge::ended(End::Cancelled, Vec::new()));
        node.lay_by(&id(name));
        let state = node.tasks.get_mut(&id(name)).unwrap();
        assert_eq!(state.over_len, state.origin.wire_len());
        state.over_len = len;
    }
    node.forget(start());
    let left: Vec<&str> =
        names.into_iter().filter(|name| node.tasks.contains_key(&id(name))).collect();
    assert_eq!(left, ["a", "c", "d", "e"]);
    assert!(node.graves.contains_key(&id("b")));
}

#[test]
fn what_is_remembered_never_makes_room() {
    let (mut node, _) = leader();
    let now = start();
    let (near, far) = (now.plus(DAY / 24), now.plus(20 * DAY));
    let until = |deadline| plus(deadline, FORGET_AFTER_MS);
    let grave = |until| Grave { order: Hash32::ZERO, until };
    let long = (0..GRAVES_LONG_MAX).map(|n| (format!("long-{n}"), grave(until(far))));
    node.graves.extend(long);
    let code = refused(&mut node, now, order(task("far", far)));
    assert_eq!(code, Some(ErrorCode::InvalidRequest));
    assert_eq!(refused(&mut node, now, order(task("near", near))), None);
    let short = GRAVES_LONG_MAX..GRAVES_MAX;
    node.graves.extend(short.map(|n| (format!("short-{n}"), grave(until(near)))));
    let code = refused(&mut node, now, order(task("none", near)));
    assert_eq!(code, Some(ErrorCode::InvalidRequest));
    assert_eq!(node.graves.len(), GRAVES_MAX);
    // Those that are over soon make way by themselves.
    let later = until(near);
    let soon = later.plus(DAY / 24);
    assert!(node.check_graves(later, &task("later", soon)).is_ok());
    assert_eq!(node.graves.len(), GRAVES_LONG_MAX);
}
