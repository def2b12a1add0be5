//! The errors that only a node can find, each from its cause. The others are the envelope's.

use std::sync::Arc;

use serde_json::json;
use skep_base::{AgentId, Did, Hash32, Timestamp, ed25519::SecretKey, wallet::WalletKey};
use skep_swarm::{
    aggregate, challenge,
    node::{Ask, GUESTS_MAX},
    pow,
};
use skep_wire::swarm::{
    Artifact, Candidacy, Commit, Computed, Decline, Dissolve, ErrorCode, Evidence, Handshake,
    Keepalive, Location, Message, Meta, PROTOCOL_VERSION, PlanVote, Published, Resources, Reveal,
    Share, Signed, SubmitResult, named,
};
use skep_wire::{
    identity::{Binding, Statement},
    score::{passport_id, signed_bytes},
};

use super::room::{Room, SWARM, id, plan, score, secret};

#[test]
fn who_comes_must_have_worked_for_it_and_know_the_time() {
    let mut room = Room::new(4);
    let (me, stranger) = (room.tier1()[0], secret(40));
    let did = stranger.public().did();
    let hello = |bits: u32, version: &str| {
        Message::Handshake(Handshake {
            agent_id: did,
            pub_key: stranger.public(),
            key_chain: Vec::new(),
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
    let alive = Keepalive { elected: 1, ..Keepalive::new(did, 1, room.now) };
    let not_yet = room.seal(&stranger, Message::Keepalive(alive.clone()));
    assert_eq!(room.refused(&me, not_yet.clone()), Some(ErrorCode::InvalidSignature));
    let good = room.seal(&stranger, hello(8, "/openswarm/1.3.0"));
    assert_eq!(room.refused(&me, good), None);
    // Now it may say that it is there, and nothing else.
    assert_eq!(room.refused(&me, not_yet), None);
    let seat = Decline { task_id: id("t"), agent_id: did };
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
fn a_wrong_answer_to_the_challenge_is_refused() {
    let mut room = Room::new(4);
    let (me, member) = (room.tier1()[0], secret(1));
    let did = member.public().did();
    let (number, beacon) = (room.any().epoch().number(), room.any().epoch().beacon);
    let right = challenge::solve(&beacon, &did, room.genesis.difficulty);
    let wrong = (right + 1..).find(|n| !challenge::check(&beacon, &did, *n, 8)).unwrap();
    let mut alive = |epoch, nonce| {
        room.now = room.now.plus(std::time::Duration::from_millis(1));
        let computed = Some(Computed { epoch, nonce });
        let said = Keepalive { computed, elected: 1, ..Keepalive::new(did, 1, room.now) };
        let sealed = room.seal(&member, Message::Keepalive(said));
        room.refused(&me, sealed)
    };
    assert_eq!(alive(number, right), None);
    assert_eq!(alive(number, wrong), Some(ErrorCode::InvalidPow));
    assert_eq!(alive(number, challenge::NONCE_MAX), Some(ErrorCode::InvalidPow));
    assert_eq!(alive(number + 1, wrong), None, "this node cannot tell yet");
}

fn stranger(n: usize) -> SecretKey {
    let mut seed = [200; 32];
    seed[..8].copy_from_slice(&n.to_be_bytes());
    SecretKey::from_seed(seed)
}

fn hello(room: &Room, key: &SecretKey) -> Arc<Signed> {
    let did = key.public().did();
    let hello = Handshake {
        agent_id: did,
        pub_key: key.public(),
        capabilities: Vec::new(),
        resources: Resources::default(),
        location_vector: Location::default(),
        proof_of_work: pow::solve(&did, 8),
        protocol_version: PROTOCOL_VERSION.to_owned(),
        key_chain: Vec::new(),
        evidence: Evidence::default(),
    };
    room.seal(key, Message::Handshake(hello))
}

fn candidacy(did: Did, epoch: u64) -> Candidacy {
    Candidacy {
        agent_id: did,
        epoch,
        score: score(did),
        location_vector: Location::default(),
        evidence: Evidence::default(),
        published: Vec::new(),
    }
}

#[test]
fn strangers_share_a_few_places() {
    let mut room = Room::new(4);
    let me = room.tier1()[0];
    let hello = |room: &Room, n: usize| hello(room, &stranger(n));
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

/// However many strangers stand before them, members stand, too.
#[test]
fn strangers_who_stand_early_keep_no_member_out() {
    let mut room = Room::new(4);
    let to_election = room.genesis.timing.epoch_ms - room.genesis.timing.election_ms;
    room.now = room.now.plus(std::time::Duration::from_millis(to_election));
    let me = room.tier1()[0];
    let mut taken = 0;
    for n in 0..GUESTS_MAX {
        let key = stranger(n);
        let hello = hello(&room, &key);
        assert_eq!(room.refused(&me, hello), None);
        let stands = Message::Candidacy(candidacy(key.public().did(), 2));
        let stands = room.seal(&key, stands);
        taken += usize::from(room.refused(&me, stands).is_none());
    }
    assert!((1..GUESTS_MAX).contains(&taken), "{taken}");
    for n in 0..4 {
        let member = secret(n);
        let stands = Message::Candidacy(candidacy(member.public().did(), 2));
        let stands = room.seal(&member, stands);
        assert_eq!(room.refused(&me, stands), None, "member {n}");
    }
}

#[test]
fn a_score_beyond_its_evidence_is_refused() {
    let mut room = Room::new(4);
    let to_election = room.genesis.timing.epoch_ms - room.genesis.timing.election_ms;
    room.now = room.now.plus(std::time::Duration::from_millis(to_election));
    let (me, liar) = (room.tier1()[0], secret(1));
    let did = liar.public().did();
    let mut claim = candidacy(did, 2);
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
    let (me, client) = (room.tier1()[0], secret(100));
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
    let (me, client) = (room.tier1()[0], secret(100));
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
        let (task_id, epoch) = (id("t"), 1);
        Message::Commit(Commit { task_id, proposer: did, epoch, plan_hash: Hash32::from(hash) })
    };
    let first = room.seal(&other, commit([1; 32]));
    assert_eq!(room.refused(&me, first), None);
    let second = room.seal(&other, commit([2; 32]));
    assert_eq!(room.refused(&me, second), Some(ErrorCode::DuplicateProposal));
    let reveal = Reveal { task_id: id("t"), plan: plan(&task, &did, Share::ZERO) };
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
    let client = secret(100);
    let me = room.tier1()[0];
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&me, message);
    // Everything arrives at once: the task is over, and so is its vote.
    let other = room.keys.values().find(|key| key.public().did() != me).unwrap().clone();
    let did = other.public().did();
    let vote = PlanVote {
        task_id: id("t"),
        epoch: 1,
        voter: did,
        rankings: Vec::new(),
        critic_scores: Default::default(),
    };
    let late = room.seal(&other, Message::PlanVote(vote));
    assert_eq!(room.refused(&me, late), Some(ErrorCode::VotingTimeout));

    // A second task, whose plans are revealed and on which nobody has voted yet.
    room.unanswered = |ask| matches!(ask, Ask::Vote { .. });
    let message = room.seal(&client, room.inject(&client, room.task("u")));
    room.deliver(&me, message);
    let own = PlanVote {
        task_id: id("u"),
        epoch: 1,
        voter: did,
        rankings: vec![named("plan-1", &did)],
        critic_scores: Default::default(),
    };
    let own = room.seal(&other, Message::PlanVote(own));
    assert_eq!(room.refused(&me, own), Some(ErrorCode::SelfVote));
}

#[test]
fn a_result_whose_hashes_do_not_fit_is_rejected() {
    let mut room = Room::new(4);
    let client = secret(100);
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

/// A score that the market has published counts for the agent that it is about, while it is good.
#[test]
fn a_published_score_is_evidence_of_reputation() {
    let room = Room::new(4);
    let (issuer, agent, wallet) = (secret(60), secret(1), WalletKey::from_bytes([7; 32]).unwrap());
    let mut genesis = (*room.genesis).clone();
    genesis.issuers = vec![issuer.public()];
    let (did, at) = (agent.public().did(), genesis.election_start(2));
    let binding = Binding {
        agent_id: wallet.address(),
        public_key: agent.public(),
        recovery_key: None,
        operator: None,
        name: None,
        webhook_hash: None,
        issued_at: genesis.start,
    };
    let day = std::time::Duration::from_secs(86_400);
    let said = |by: &SecretKey, from: Timestamp, about: &AgentId| {
        let mut publication = json!({
            "agent_passport_id": passport_id(about), "score": {"value": 870},
            "issuer": {
                "platform": "market.example", "platform_url": "https://market.example",
                "computed_at": from, "kid": "score-1", "signature": "",
            },
            "valid_until": from.plus(day),
        });
        let bytes = signed_bytes(&publication).unwrap();
        publication["issuer"]["signature"] = json!(by.sign(&bytes));
        Published {
            publication,
            wallet_signature: binding.sign_with_wallet(&wallet).unwrap(),
            key_signature: binding.sign(&agent).unwrap(),
            binding: binding.clone(),
        }
    };
    let good = said(&issuer, genesis.start, &wallet.address());
    let refused = |claimed: u32, published: Published| {
        let mut score = score(did);
        score.reputation = Share::from_e6(claimed);
        let candidacy = Candidacy {
            agent_id: did,
            epoch: 2,
            score,
            location_vector: Location::default(),
            evidence: Evidence::default(),
            published: vec![published],
        };
        skep_swarm::election::is_beyond_evidence(&genesis, &candidacy)
    };
    assert!(!refused(870_000, good.clone()));
    assert!(refused(870_001, good.clone()));
    assert!(refused(1, said(&secret(61), genesis.start, &wallet.address())), "another issuer");
    assert!(refused(1, said(&issuer, genesis.start, &AgentId::ZERO)), "another agent");
    assert!(refused(1, said(&issuer, at.minus(day), &wallet.address())), "over");
    assert!(!refused(1, said(&issuer, at, &wallet.address())));
    assert!(refused(1, said(&issuer, at.plus(day), &wallet.address())), "from the future");
    let mut raised = good.clone();
    raised.publication["score"]["value"] = json!(990);
    assert!(refused(1, raised), "changed");
    let mut borrowed = good.clone();
    borrowed.binding.public_key = secret(2).public();
    assert!(refused(1, borrowed), "another's key");
    let mut unasked = good;
    unasked.wallet_signature =
        binding.sign_with_wallet(&WalletKey::from_bytes([8; 32]).unwrap()).unwrap();
    assert!(refused(1, unasked), "another's wallet");
}
