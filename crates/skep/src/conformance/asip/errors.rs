//! The fifteen codes, each from its cause.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use skep_base::{Did, Hash32, ed25519::SecretKey, hash::sha256};
use skep_swarm::{judge, kept::Kept, pow};
use skep_wire::swarm::{
    Accept, Candidacy, Commit, Dissolve, ErrorCode, Evidence, Keepalive, KnownKeys, Location,
    Message, Plan, PlanVote, Reveal, Share, Signed, Subtask, Task,
};

use super::{
    World, hierarchy,
    messages::{example, open},
    room::{Room, score, secret},
};

/// What was refused with which code, as one line.
fn list(found: &[(&str, Option<ErrorCode>, ErrorCode)]) -> Result<String> {
    let mut told = Vec::new();
    for (cause, code, expected) in found {
        let got = code.map_or("nothing".to_owned(), |code| code.code().to_string());
        ensure!(*code == Some(*expected), "{cause}: {got} instead of {}", expected.code());
        told.push(format!("{} {cause}", expected.code()));
    }
    Ok(told.join(", "))
}

pub async fn json_rpc_has_its_four(_: &World) -> Result<String> {
    let me = secret(0);
    let good = example("board.decline", &me.public().did(), &me)?;
    let with = |field: &str, value: Value| {
        let mut changed = good.clone();
        changed[field] = value;
        open(&changed).err().map(|error| error.code())
    };
    let unread = Signed::open(b"{", &KnownKeys::default()).err().map(|error| error.code());
    list(&[
        ("half an object", unread, ErrorCode::ParseError),
        ("another version", with("jsonrpc", json!("1.0")), ErrorCode::InvalidRequest),
        ("an unknown method", with("method", json!("board.x")), ErrorCode::MethodNotFound),
        ("no params", with("params", json!({})), ErrorCode::InvalidParams),
    ])
}

pub async fn the_protocol_has_its_four(_: &World) -> Result<String> {
    let mut room = Room::new(4);
    let (to, member, stranger) = (room.leader()?, secret(1), secret(100));
    let did = member.public().did();
    let now = room.now;
    let alive = |did| Message::Keepalive(Keepalive { elected: 1, ..Keepalive::new(did, 1, now) });
    let outsider = room.seal(&stranger, alive(stranger.public().did()));
    let outsider = room.give(&to, outsider);
    let ahead = room.seal_in(3, &member, alive(did));
    let ahead = room.give(&to, ahead);
    let lazy = hierarchy::hello(&stranger, pow::solve(&stranger.public().did(), 0));
    let lazy = room.seal(&stranger, lazy);
    let lazy = room.give(&to, lazy);
    let timing = &room.genesis.timing;
    let to_election = timing.epoch_ms - timing.election_ms;
    room.now = room.genesis.start.plus(Duration::from_millis(to_election));
    let mut claim = Candidacy {
        agent_id: did,
        epoch: 2,
        score: score(did),
        location_vector: Location::default(),
        evidence: Evidence::default(),
        published: Vec::new(),
    };
    claim.score.reputation = Share::percent(90);
    let boast = room.seal(&member, Message::Candidacy(claim));
    let boast = room.give(&to, boast);
    list(&[
        ("signed by no member", outsider, ErrorCode::InvalidSignature),
        ("two epochs ahead", ahead, ErrorCode::EpochMismatch),
        ("no work was done", lazy, ErrorCode::InvalidPow),
        ("a reputation without evidence", boast, ErrorCode::InsufficientReputation),
    ])
}

fn plan(task: &Task, proposer: Did, plan_id: &str) -> Plan {
    let part = Subtask {
        index: 0,
        description: "All of it".to_owned(),
        required_capabilities: Vec::new(),
        estimated_complexity: Share::ZERO,
    };
    Plan {
        plan_id: plan_id.to_owned(),
        task_id: task.task_id.clone(),
        proposer,
        epoch: task.epoch,
        subtasks: vec![part],
        rationale: "It is small".to_owned(),
        estimated_parallelism: Share::ONE,
        created_at: task.created_at,
        salt: None,
    }
}

fn reveal(room: &Room, task: &Task, by: &SecretKey, plan_id: &str) -> Signed {
    let plan = plan(task, by.public().did(), plan_id);
    room.seal(by, Message::Reveal(Reveal { task_id: task.task_id.clone(), plan }))
}

fn ballot(room: &Room, task_id: &str, by: &SecretKey, first: &str) -> Signed {
    let (task_id, voter) = (task_id.to_owned(), by.public().did());
    let (rankings, critic_scores) = (vec![first.to_owned()], Default::default());
    room.seal(by, Message::PlanVote(PlanVote { task_id, epoch: 1, voter, rankings, critic_scores }))
}

pub async fn consensus_has_its_four(world: &World) -> Result<String> {
    // A task whose other planners take their seats and are silent then, so that it stays there.
    let mut room = Room::new(4);
    let to = room.leader()?;
    let others: Vec<Did> = room.nodes.keys().copied().filter(|did| *did != to).collect();
    others.iter().for_each(|did| drop(room.nodes.remove(did)));
    let (one, two) = (room.key(&others[0])?, room.key(&others[1])?);
    let task = room.task("open");
    let order = room.order(task.clone());
    room.give(&to, order);
    for agent_id in &others {
        let accept = Message::Accept(Accept {
            task_id: task.task_id.clone(),
            agent_id: *agent_id,
            active_tasks: 0,
            capabilities: Vec::new(),
            affinity_scores: Default::default(),
        });
        let message = room.seal(&room.key(agent_id)?, accept);
        room.give(&to, message);
    }
    let commit = |room: &Room, plan_hash: Hash32| {
        let (task_id, proposer) = (task.task_id.clone(), one.public().did());
        room.seal(&one, Message::Commit(Commit { task_id, proposer, epoch: 1, plan_hash }))
    };
    let own = reveal(&room, &task, &one, "plan-1");
    let fits = judge::plan_hash(&Kept(own.clone().into())).unwrap_or(Hash32::ZERO);
    for message in [commit(&room, fits), own, reveal(&room, &task, &two, "plan-2")] {
        ensure!(room.give(&to, message).is_none(), "a good plan was refused");
    }
    let message = ballot(&room, &task.task_id, &one, "plan-1");
    let for_itself = room.give(&to, message);
    let message = commit(&room, sha256(b"another"));
    let twice = room.give(&to, message);
    let message = reveal(&room, &task, &one, "plan-3");
    let another = room.give(&to, message);
    let mut done = world.again(4)?;
    let message = ballot(&done, &done.task("task").task_id, &one, "plan-1");
    let late = done.give(&to, message);
    list(&[
        ("a first choice for itself", for_itself, ErrorCode::SelfVote),
        ("a second commit", twice, ErrorCode::DuplicateProposal),
        ("another plan than committed to", another, ErrorCode::CommitRevealMismatch),
        ("a ballot after the vote", late, ErrorCode::VotingTimeout),
    ])
}

pub async fn tasks_have_their_three(world: &World) -> Result<String> {
    let mut room = world.again(4)?;
    let to = room.leader()?;
    let nothing = Message::Dissolve(Dissolve { task_id: "nothing".to_owned(), reason: None });
    let message = room.seal(&secret(1), nothing);
    let unknown = room.give(&to, message);
    let mut late = room.task("late");
    late.deadline = room.now;
    let message = room.order(late);
    let late = room.give(&to, message);
    // A result that somebody has delivered, with another hash.
    let delivered = room.sent.iter().find_map(|sent| match &sent.message {
        Message::SubmitResult(result) => Some(result.clone()),
        _ => None,
    });
    let mut false_one = delivered.ok_or_else(|| anyhow::anyhow!("nobody has worked"))?;
    false_one.artifact.merkle_hash = sha256(b"something else");
    let part = &false_one.task_id;
    let by = room.said(|said| match said {
        Message::Assign(order) if order.task.task_id == *part => Some(()),
        _ => None,
    });
    let coordinator = by.first().map_or(to, |(did, ())| *did);
    let message = room.seal(&room.key(&false_one.agent_id)?, Message::SubmitResult(false_one));
    let rejected = room.give(&coordinator, message);
    list(&[
        ("a task that nobody knows", unknown, ErrorCode::TaskNotFound),
        ("hashes of another content", rejected, ErrorCode::ResultRejected),
        ("a deadline that has passed", late, ErrorCode::DeadlineExceeded),
    ])
}
