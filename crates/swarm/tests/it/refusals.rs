//! The errors that only a node can find, each from its cause. The others are the envelope's.

use skep_base::{Hash32, ed25519::SecretKey};
use skep_swarm::{aggregate, node::GUESTS_MAX, pow};
use skep_wire::swarm::{
    Artifact, Candidacy, Commit, Decline, Dissolve, ErrorCode, Evidence, Handshake, Keepalive,
    Location, Message, Meta, PROTOCOL_VERSION, PlanVote, Resources, Reveal, Share, Signed,
    SubmitResult,
};

use super::room::{Room, SWARM, plan, score, secret};

#[test]
fn who_comes_must_have_worked_for_it_and_know_the_time() {
    let mut room = Room::new(4);
    let (me, stranger) = (room.tier1()[0], secret(40));
    let did = stranger.public().did();
    let hello = |bits: u32, version: &str| {
        Message::Handshake(Handshake {
            agent_id: did,
            pub_key: stranger.public(),
            capabilities: Vec::new(),
            resources: Resources::default(),
            location_vector: Location::default(),
            proof_of_work: pow::solve(&did, bits),
            protocol_version: version.to_owned(),
            evidence: Evidence::default(),
        })
    };
    let lazy = room.seal(&stranger, hello(1, PROTOCOL_VERSION));
    assert_eq!(room.refused(&me, lazy), Some(ErrorCode::InvalidPow));
    let other = room.seal(&stranger, hello(8, "/openswarm/2.0.0"));
    assert_eq!(room.refused(&me, other), Some(ErrorCode::InvalidRequest));
    let alive =
        Keepalive { agent_id: did, epoch: 1, timestamp: room.now, elected: 1, active_tasks: 0 };
    let not_yet = room.seal(&stranger, Message::Keepalive(alive.clone()));
    assert_eq!(room.refused(&me, not_yet.clone()), Some(ErrorCode::InvalidSignature));
    let good = room.seal(&stranger, hello(8, "/openswarm/1.3.0"));
    assert_eq!(room.refused(&me, good), None);
    // Now it may say that it is there, and nothing else.
    assert_eq!(room.refused(&me, not_yet), None);
    let seat = Decline { task_id: "t".to_owned(), agent_id: did };
    let seat = room.seal(&stranger, Message::Decline(seat));
    assert_eq!(room.refused(&me, seat), Some(ErrorCode::InvalidSignature));
    let member = secret(1);
    let alive = Keepalive { agent_id: member.public().did(), ..alive };
    for (epoch, code) in [(0, None), (1, None), (2, None), (3, Some(ErrorCode::EpochMismatch))] {
        let signer = member.public().did();
        let meta = Meta { signer, swarm: SWARM.to_owned(), epoch, sent_at: room.now };
        let message = Message::Keepalive(alive.clone());
        let sealed = Signed::seal(meta, message, Vec::new(), &member).into();
        assert_eq!(room.refused(&me, sealed), code, "epoch {epoch}");
    }
}

#[test]
fn strangers_share_a_few_places() {
    let mut room = Room::new(4);
    let me = room.tier1()[0];
    let hello = |room: &Room, n: usize| {
        let mut seed = [200; 32];
        seed[..8].copy_from_slice(&n.to_be_bytes());
        let key = SecretKey::from_seed(seed);
        let did = key.public().did();
        let hello = Handshake {
            agent_id: did,
            pub_key: key.public(),
            capabilities: Vec::new(),
            resources: Resources::default(),
            location_vector: Location::default(),
            proof_of_work: pow::solve(&did, 8),
            protocol_version: PROTOCOL_VERSION.to_owned(),
            evidence: Evidence::default(),
        };
        room.seal(&key, Message::Handshake(hello))
    };
    for n in 0..GUESTS_MAX {
        let message = hello(&room, n);
        assert_eq!(room.refused(&me, message), None);
    }
    let one_more = hello(&room, GUESTS_MAX);
    assert_eq!(room.refused(&me, one_more.clone()), Some(ErrorCode::InvalidRequest));
    // Those who fall silent make room.
    room.run(60);
    assert_eq!(room.refused(&me, one_more), None);
}

#[test]
fn a_score_beyond_its_evidence_is_refused() {
    let mut room = Room::new(4);
    let to_election = room.genesis.timing.epoch_ms - room.genesis.timing.election_ms;
    room.now = room.now.plus(std::time::Duration::from_millis(to_election));
    let (me, liar) = (room.tier1()[0], secret(1));
    let did = liar.public().did();
    let mut claim = Candidacy {
        agent_id: did,
        epoch: 2,
        score: score(did),
        location_vector: Location::default(),
        evidence: Evidence::default(),
    };
    let honest = room.seal(&liar, Message::Candidacy(claim.clone()));
    assert_eq!(room.refused(&me, honest), None);
    claim.score.reputation = Share::percent(90);
    let lie = room.seal(&liar, Message::Candidacy(claim.clone()));
    assert_eq!(room.refused(&me, lie), Some(ErrorCode::InsufficientReputation));
    claim.score.reputation = Share::ZERO;
    claim.score.uptime = Share::percent(10);
    let absent = room.seal(&liar, Message::Candidacy(claim));
    assert_eq!(room.refused(&me, absent), Some(ErrorCode::InsufficientReputation));
}

#[test]
fn tasks_have_limits() {
    let mut room = Room::new(4);
    let (me, client) = (room.tier1()[0], secret(50));
    let outside = room.nodes.keys().copied().find(|did| !room.tier1().contains(did)).unwrap();
    let mut inject = |change: &dyn Fn(&mut skep_wire::swarm::Task), to| {
        let mut task = room.task("t");
        change(&mut task);
        let message = room.seal(&client, room.inject(&client, task));
        room.refused(to, message)
    };
    assert_eq!(inject(&|_| {}, &outside), Some(ErrorCode::InvalidRequest));
    assert_eq!(
        inject(&|task| task.deadline = task.created_at, &me),
        Some(ErrorCode::DeadlineExceeded)
    );
    assert_eq!(inject(&|task| task.epoch = 9, &me), Some(ErrorCode::EpochMismatch));
    let long = "x".repeat(4_097);
    let code = inject(&|task| task.description.clone_from(&long), &me);
    assert_eq!(code, Some(ErrorCode::InvalidParams));
    assert_eq!(inject(&|task| task.task_id = "x".repeat(129), &me), Some(ErrorCode::InvalidParams));
    for n in 0..10 {
        assert_eq!(inject(&|task| task.task_id = format!("t{n}"), &me), None, "{n}");
    }
    let eleventh = inject(&|task| task.task_id = "t10".to_owned(), &me);
    assert_eq!(eleventh, Some(ErrorCode::InvalidRequest));
    let unknown = Dissolve { task_id: "none".to_owned(), reason: None };
    let unknown = room.seal(&client, Message::Dissolve(unknown));
    assert_eq!(room.refused(&me, unknown), Some(ErrorCode::TaskNotFound));
}

/// A task whose board never gets further: nobody else is there.
#[test]
fn what_a_planner_may_not_say() {
    let mut room = Room::new(4);
    let (me, client) = (room.tier1()[0], secret(50));
    let silent: Vec<_> = room.nodes.keys().copied().filter(|did| *did != me).collect();
    for did in &silent {
        room.nodes.remove(did);
    }
    let task = room.task("t");
    let message = room.seal(&client, room.inject(&client, task.clone()));
    assert_eq!(room.refused(&me, message), None);
    let other = room.keys[&silent[0]].clone();
    let did = other.public().did();
    let commit = |hash| {
        let (task_id, epoch) = ("t".to_owned(), 1);
        Message::Commit(Commit { task_id, proposer: did, epoch, plan_hash: Hash32::from(hash) })
    };
    let first = room.seal(&other, commit([1; 32]));
    assert_eq!(room.refused(&me, first), None);
    let second = room.seal(&other, commit([2; 32]));
    assert_eq!(room.refused(&me, second), Some(ErrorCode::DuplicateProposal));
    let reveal = Reveal { task_id: "t".to_owned(), plan: plan(&task, &did, Share::ZERO) };
    let reveal = room.seal(&other, Message::Reveal(reveal));
    assert_eq!(room.refused(&me, reveal), Some(ErrorCode::CommitRevealMismatch));
    let vote = |task_id: &str, rankings: Vec<String>| {
        let (task_id, critic_scores) = (task_id.to_owned(), Default::default());
        Message::PlanVote(PlanVote { task_id, epoch: 1, voter: did, rankings, critic_scores })
    };
    let nowhere = room.seal(&other, vote("none", Vec::new()));
    assert_eq!(room.refused(&me, nowhere), Some(ErrorCode::TaskNotFound));
}

#[test]
fn nobody_votes_for_itself_or_too_late_or_delivers_what_does_not_fit() {
    let mut room = Room::new(4);
    let client = secret(50);
    let me = room.tier1()[0];
    let task = room.task("t");
    let message = room.seal(&client, room.inject(&client, task.clone()));
    room.deliver(&me, message);
    // Everything arrives at once: the task is over, and so is its vote.
    let other = room.keys.values().find(|key| key.public().did() != me).unwrap().clone();
    let did = other.public().did();
    let vote = PlanVote {
        task_id: "t".to_owned(),
        epoch: 1,
        voter: did,
        rankings: Vec::new(),
        critic_scores: Default::default(),
    };
    let late = room.seal(&other, Message::PlanVote(vote));
    assert_eq!(room.refused(&me, late), Some(ErrorCode::VotingTimeout));

    // A second task, of which two plans are revealed and no votes counted yet.
    let silent: Vec<_> = room.nodes.keys().copied().filter(|d| *d != me).collect();
    for did in &silent {
        room.nodes.remove(did);
    }
    let task = room.task("u");
    let message = room.seal(&client, room.inject(&client, task.clone()));
    room.deliver(&me, message);
    for (n, did) in silent.iter().enumerate().take(2) {
        let key = room.keys[did].clone();
        let mut plan = plan(&task, did, Share::ZERO);
        plan.plan_id = format!("plan-{n}");
        let reveal = Reveal { task_id: "u".to_owned(), plan };
        let reveal = room.seal(&key, Message::Reveal(reveal));
        assert_eq!(room.refused(&me, reveal), None);
    }
    let own = PlanVote {
        task_id: "u".to_owned(),
        epoch: 1,
        voter: silent[0],
        rankings: vec!["plan-0".to_owned()],
        critic_scores: Default::default(),
    };
    let own = room.seal(&room.keys[&silent[0]].clone(), Message::PlanVote(own));
    assert_eq!(room.refused(&me, own), Some(ErrorCode::SelfVote));
}

#[test]
fn a_result_whose_hashes_do_not_fit_is_rejected() {
    let mut room = Room::new(4);
    let client = secret(50);
    let me = room.tier1()[0];
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&me, message);
    let order = room.sent.iter().find_map(|sent| match &sent.message {
        Message::Assign(assign) => Some((sent.meta.signer, assign.clone())),
        _ => None,
    });
    let (coordinator, order) = order.expect("parts were assigned");
    let key = room.keys[&order.assignee].clone();
    let content = "something else";
    let artifact = Artifact {
        artifact_id: "a".to_owned(),
        task_id: order.task.task_id.clone(),
        producer: order.assignee,
        content_cid: aggregate::cid(content.as_bytes()),
        merkle_hash: Hash32::from([7; 32]),
        content_type: "text/plain".to_owned(),
        size_bytes: 14,
        created_at: room.now,
    };
    let result = SubmitResult {
        task_id: order.task.task_id.clone(),
        agent_id: order.assignee,
        artifact,
        merkle_proof: Vec::new(),
        content: Some(content.to_owned()),
        parts: Vec::new(),
    };
    let sealed = room.seal(&key, Message::SubmitResult(result));
    assert_eq!(room.refused(&coordinator, sealed), Some(ErrorCode::ResultRejected));
}
