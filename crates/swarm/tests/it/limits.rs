//! What one liar or stranger can make others believe, keep or do.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use skep_base::{Did, ed25519::SecretKey, hash::sha256, json};
use skep_swarm::{
    aggregate,
    kept::Kept,
    node::{Ask, Event, Input, Node, Output},
    pow,
    transcript::Transcript,
};
use skep_wire::swarm::{
    Artifact, Assign, Certificate, Critique, Decline, ElectionVote, End, ErrorCode, Evidence,
    Handshake, Invite, Keepalive, Location, Message, Meta, OBSERVED_MAX, Observed, Outcome,
    PROTOCOL_VERSION, RANKINGS_MAX, Resources, Reveal, Share, Signed, Step, Subject, SubmitResult,
    Task, Verification, Word, named,
};

use super::{
    room::{Room, id, plan, profile, secret},
    stories::agreed,
};

/// The same message, said by the same agent in another swarm.
fn elsewhere(by: &SecretKey, message: &Signed) -> Arc<Signed> {
    let meta = Meta { swarm: "other".to_owned(), ..message.meta.clone() };
    Arc::new(Signed::seal(meta, message.message.clone(), Vec::new(), by))
}

fn invite(room: &Room, chair: &SecretKey, origin: Arc<Signed>) -> Arc<Signed> {
    let task = room.task("any");
    let invite = Invite {
        task_id: origin.message.task_id().expect("an order").to_owned(),
        task_digest: task.description,
        complexity_estimate: task.complexity,
        depth: 0,
        required_capabilities: Vec::new(),
        capacity: 3,
        chair: chair.public().did(),
    };
    room.seal_with(chair, Message::Invite(invite), vec![origin])
}

#[test]
fn what_was_signed_in_another_swarm_counts_nowhere_else() {
    let mut room = Room::new(4);
    let [me, chair, ..] = room.tier1()[..] else { panic!("four lead") };
    let (client, chair) = (secret(50), room.keys[&chair].clone());
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let stolen = invite(&room, &chair, elsewhere(&client, &order));
    assert_eq!(room.refused(&me, stolen), Some(ErrorCode::InvalidRequest));
    assert!(room.nodes[&me].ends().is_empty(), "nobody has ordered that here");
    let good = invite(&room, &chair, order);
    assert_eq!(room.refused(&me, good), None);
    assert_eq!(room.nodes[&me].ends().len(), 1);
}

#[test]
fn a_transcript_is_of_one_swarm() {
    let mut room = Room::new(4);
    let client = secret(100);
    let chair = room.tier1()[0];
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    room.deliver(&chair, message);
    let keys = room.known_keys();
    let is_final = |sent: &&Arc<Signed>| {
        matches!(&sent.message, Message::Certificate(c)
            if matches!(c.word, Word::Bundle { step: Step::Commit, .. }))
    };
    let sent = room.sent.iter().find(is_final).expect("the plan is final").clone();
    // Its signatures are real, but were given elsewhere.
    let borrow = |inner: &Arc<Signed>| match &inner.message {
        Message::Certificate(_) => elsewhere(&room.keys[&inner.meta.signer], inner),
        _ => inner.clone(),
    };
    let attached = sent.attached.iter().map(borrow).collect();
    let forged = room.seal_with(&room.keys[&sent.meta.signer], sent.message.clone(), attached);
    let verify = |messages: &[Arc<Signed>]| {
        let messages = messages.iter().cloned().map(Kept).collect();
        Transcript { genesis: (*room.genesis).clone(), messages }.verify()
    };
    assert_eq!(verify(std::slice::from_ref(&sent)).differences, Vec::new());
    let report = verify(std::slice::from_ref(&forged));
    assert_eq!((report.differences.len(), report.tasks.len()), (1, 0));
    let read = |message: Arc<Signed>| {
        let written = Transcript::write(&room.genesis, &keys, &[message]);
        Transcript::read(written.to_string().as_bytes()).map(drop).map_err(|e| e.to_string())
    };
    assert_eq!(read(sent.clone()), Ok(()));
    assert!(read(forged).unwrap_err().contains("\"other\""));
    let whole = elsewhere(&room.keys[&sent.meta.signer], &sent);
    assert!(read(whole).unwrap_err().contains("\"other\""));
}

/// The first order for a part, and who gave it.
fn first_order(room: &Room) -> (Did, Assign) {
    let order = room.sent.iter().find_map(|sent| match &sent.message {
        Message::Assign(assign) => Some((sent.meta.signer, assign.clone())),
        _ => None,
    });
    order.expect("parts were assigned")
}

fn result(room: &Room, order: &Assign, content: &str) -> SubmitResult {
    let bytes = content.as_bytes();
    let artifact = Artifact {
        artifact_id: format!("of {content}"),
        task_id: order.task.task_id.clone(),
        producer: order.assignee,
        content_cid: aggregate::cid(bytes),
        merkle_hash: aggregate::content_root(bytes),
        content_type: "text/plain".to_owned(),
        size_bytes: bytes.len() as u64,
        created_at: room.now,
    };
    SubmitResult {
        task_id: order.task.task_id.clone(),
        agent_id: order.assignee,
        artifact,
        merkle_proof: Vec::new(),
        content: Some(content.to_owned()),
        parts: Vec::new(),
    }
}

#[test]
fn a_size_that_is_not_the_contents_is_refused() {
    let mut room = Room::new(4);
    let client = secret(50);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    let (coordinator, order) = first_order(&room);
    let key = room.keys[&order.assignee].clone();
    let good = result(&room, &order, "done");
    for size_bytes in [0, 3, 5, json::MAX_INTEGER.unsigned_abs()] {
        let mut lie = good.clone();
        lie.artifact.size_bytes = size_bytes;
        let lie = room.seal(&key, Message::SubmitResult(lie));
        let code = room.refused(&coordinator, lie);
        assert_eq!(code, Some(ErrorCode::ResultRejected), "{size_bytes}");
    }
    let mut lie = good.clone();
    lie.merkle_proof.push(lie.artifact.merkle_hash);
    let lie = room.seal(&key, Message::SubmitResult(lie));
    assert_eq!(room.refused(&coordinator, lie), Some(ErrorCode::ResultRejected));
    let good = room.seal(&key, Message::SubmitResult(good));
    assert_eq!(room.refused(&coordinator, good), None);
}

/// Whoever was given a part says that others have done it, in pieces: hashes that fit, work that
/// nobody did, and sizes as large as a number can be.
#[test]
fn invented_pieces_are_refused_and_the_work_is_done() {
    let mut room = Room::new(31);
    room.complexity = Share::percent(60);
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.line.push_back((chair, order));
    let mut lies = 0;
    while let Some((_, message)) = room.line.front_mut() {
        if let Message::SubmitResult(said) = &message.message
            && said.parts.is_empty()
            && lies < 5
        {
            let lie = invented(said, lies);
            let key = &room.keys[&said.agent_id];
            let lie = Message::SubmitResult(lie);
            *message = Arc::new(Signed::seal(message.meta.clone(), lie, Vec::new(), key));
            lies += 1;
        }
        room.advance();
    }
    assert_eq!(lies, 5);
    let refused = room.refusals.iter().filter(|(_, code)| *code == ErrorCode::ResultRejected);
    assert_eq!(refused.count(), 4, "the other one is looked at, and found to be nonsense");
    room.run(480);
    let ended = agreed(&room, "t");
    assert_eq!(ended.end, End::Succeeded);
    assert!(ended.parts.into_iter().flatten().all(|part| part.size_bytes < 1 << 20));
}

/// A whole of one piece, each time wrong in another way.
fn invented(said: &SubmitResult, way: usize) -> SubmitResult {
    let content = "nonsense";
    let mut artifact = said.artifact.clone();
    artifact.task_id = format!("{}-st-1", said.task_id);
    artifact.content_cid = aggregate::cid(content.as_bytes());
    artifact.merkle_hash = aggregate::content_root(content.as_bytes());
    artifact.size_bytes = content.len() as u64;
    match way {
        0 => artifact.size_bytes = json::MAX_INTEGER.unsigned_abs(),
        1 => artifact.task_id = said.task_id.clone(),
        2 => artifact.merkle_hash = aggregate::content_root(b"another"),
        _ => {}
    }
    let description = "Whatever".to_owned();
    let content = Some(content.to_owned());
    let piece = aggregate::Piece { description, artifact, content, pieces: Vec::new() };
    let parts = vec![piece.artifact.clone()];
    let text = aggregate::written(&[piece]).expect("it is JSON");
    let mut lie = said.clone();
    lie.artifact.content_type = aggregate::WHOLE_TYPE.to_owned();
    lie.artifact.size_bytes = aggregate::size(&parts);
    lie.artifact.merkle_hash = aggregate::root(&[Some(parts[0].clone())]);
    lie.artifact.content_cid = aggregate::cid(text.as_bytes());
    // As it was before: nobody sends anything.
    lie.content = (way != 3).then_some(text);
    lie.parts = parts;
    lie
}

/// The n-th stranger.
fn stranger(n: u16) -> SecretKey {
    SecretKey::from_seed(sha256(&n.to_be_bytes()).0)
}

fn hello(key: &SecretKey) -> Handshake {
    let did = key.public().did();
    Handshake {
        agent_id: did,
        pub_key: key.public(),
        key_chain: Vec::new(),
        capabilities: Vec::new(),
        resources: Resources::default(),
        location_vector: Location::default(),
        proof_of_work: pow::solve(&did, 8),
        protocol_version: PROTOCOL_VERSION.to_owned(),
        evidence: Evidence::default(),
    }
}

fn stored(room: &Room, did: &Did) -> usize {
    serde_json::to_vec(&room.nodes[did]).expect("a node is JSON").len()
}

/// A message to itself about a task, as it passes through the room.
fn next(room: &mut Room, is_it: &dyn Fn(&Did, &Message) -> bool) -> (Did, Arc<Signed>) {
    while let Some((to, message)) = room.line.front() {
        if is_it(to, &message.message) {
            return room.line.pop_front().expect("it is there");
        }
        room.advance();
    }
    panic!("it never came");
}

#[test]
fn what_comes_along_is_refused_or_not_kept() {
    const JUNK_LEN: usize = 200_000;
    let mut room = Room::new(4);
    let (client, other) = (secret(100), room.keys[&room.tier1()[1]].clone());
    let decline = Decline { task_id: "x".repeat(1_000), agent_id: other.public().did() };
    let decline = room.seal(&other, Message::Decline(decline));
    let junk = vec![decline; JUNK_LEN / 1_000];

    let me = room.tier1()[0];
    let greeting = Message::Handshake(hello(&stranger(1)));
    let greeting = room.seal_with(&stranger(1), greeting, junk.clone());
    assert_eq!(room.refused(&me, greeting), Some(ErrorCode::InvalidRequest));

    let order = room.seal(&client, room.inject(&client, room.task("t")));
    room.line.push_back((me, order.clone()));
    let is_ready =
        |to: &Did, said: &Message| matches!(said, Message::Ready(m) if m.chair_id != *to);
    let (to, ready) = next(&mut room, &is_ready);
    room.line.clear();
    let before = stored(&room, &to);
    let attached = [ready.attached.clone(), junk.clone()].concat();
    let key = room.keys[&ready.meta.signer].clone();
    let ready = room.seal_with(&key, ready.message.clone(), attached);
    room.line.push_back((to, ready));
    room.advance();
    let (subject, word) = (Subject::Plan { task_id: id("t") }, Word::NextView { prepared: None });
    let asks = Message::Certificate(Certificate { subject, view: 1, word });
    let attached = [vec![order], junk].concat();
    let asks = room.seal_with(&key, asks, attached);
    room.line.push_back((to, asks));
    room.advance();
    assert!(stored(&room, &to) > before, "the board and the word are there");
    assert!(stored(&room, &to) < before + JUNK_LEN / 2, "{}", stored(&room, &to) - before);
}

/// Who has no part in a board keeps nothing of what is said there, and nobody does when it is over.
#[test]
fn what_is_said_on_a_board_is_kept_by_who_sits_there_and_until_it_is_over() {
    const LONG: usize = 60_000;
    let mut room = Room::new(16);
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.line.push_back((chair, order));
    let (_, ready) = next(&mut room, &|_, said| matches!(said, Message::Ready(_)));
    let Message::Ready(board) = &ready.message else { panic!() };
    let sits = |did: &Did| board.members.contains(did) || board.senate.contains(did);
    let onlooker = *room.nodes.keys().find(|did| !sits(did)).expect("a board is small");
    let liar = room.keys[&board.members[0]].clone();
    let did = liar.public().did();
    let mut plan = plan(&room.task("t"), &did, Share::ZERO);
    plan.rationale = "x".repeat(LONG);
    let critique = Critique {
        task_id: id("t"),
        voter_id: did,
        round: 2,
        plan_scores: Default::default(),
        content: "x".repeat(LONG),
    };
    let before = stored(&room, &onlooker);
    for said in [Message::Reveal(Reveal { task_id: id("t"), plan }), Message::Critique(critique)] {
        let said = room.seal(&liar, said);
        room.step(&onlooker, Input::Message(said));
    }
    assert!(stored(&room, &onlooker) < before + 1_000);

    room.line.push_back((chair, ready));
    room.settle();
    room.run(60);
    let node = serde_json::to_value(&room.nodes[&chair]).unwrap();
    assert_eq!(node["tasks"][id("t")]["table"]["said"], serde_json::json!({}));
}

/// Forty strangers write as much as they may; one newcomer can join four members.
#[test]
fn strangers_do_not_fill_the_record_of_an_election() {
    const STRANGERS: u16 = 40;
    let mut room = Room::new(4);
    let timing = room.genesis.timing.clone();
    let to_election = (timing.epoch_ms - timing.election_ms) / 1_000;
    room.run(u32::try_from(to_election).unwrap());
    let anybody = |n: usize| Did::from_fingerprint(sha256(&n.to_be_bytes()));
    let seen = Observed { uptime: Share::ONE, proof_of_compute: Share::ONE };
    let mut refused = 0;
    let mut works = BTreeMap::new();
    for n in 0..STRANGERS {
        let key = stranger(n);
        let (did, greeting) = (key.public().did(), hello(&key));
        // Every second one contradicts itself.
        if n % 2 == 0 {
            works.insert(greeting.proof_of_work.hash, did);
        }
        let ballot = |first: usize| {
            Message::ElectionVote(ElectionVote {
                voter: did,
                epoch: 2,
                candidate_rankings: (first..first + RANKINGS_MAX).map(anybody).collect(),
                observed: (0..OBSERVED_MAX).map(|n| (anybody(n), seen)).collect(),
                location_vector: None,
            })
        };
        let mut said = vec![Message::Handshake(greeting), ballot(0)];
        said.extend((n % 2 == 1).then(|| ballot(1)));
        for to in room.nodes.keys().copied().collect::<Vec<_>>() {
            for message in &said {
                let sealed = room.seal(&key, message.clone());
                refused += usize::from(room.refused(&to, sealed).is_some());
            }
        }
    }
    assert!(refused > 0);
    room.run(u32::try_from(timing.election_ms / 1_000).unwrap() + 30);
    let bundle = room.sent.iter().find_map(|sent| match &sent.message {
        Message::Certificate(Certificate {
            word: Word::Bundle { step: Step::Commit, value },
            ..
        }) => match &value.outcome {
            Outcome::Election(elected) => Some((sent, elected)),
            _ => None,
        },
        _ => None,
    });
    let (bundle, elected) = bundle.expect("an election");
    let strangers: BTreeSet<Did> = (0..STRANGERS).map(|n| stranger(n).public().did()).collect();
    let by_strangers = bundle.attached.iter().filter(|m| strangers.contains(&m.meta.signer));
    // Seventeen of them, a greeting and two ballots each at most.
    assert!(by_strangers.count() <= 3 * 17);
    let joined: Vec<Did> =
        elected.members.iter().map(|m| m.did).filter(|did| strangers.contains(did)).collect();
    assert_eq!(joined, [*works.values().next().unwrap()], "whose work is rarest and counts");
}

fn part(by: &SecretKey, n: usize) -> String {
    named(&format!("nobody's-st-{}", n + 1), &by.public().did())
}

fn assign(room: &Room, by: &SecretKey, to: &Did, n: usize) -> Message {
    let task = Task {
        parent_task_id: Some("nobody's".to_owned()),
        assigned_to: Some(*to),
        depth: 1,
        complexity: Share::ZERO,
        index: u32::try_from(n).expect("there are few"),
        task_id: part(by, n),
        ..room.task("any")
    };
    let (parent_task_id, winning_plan_id) = ("nobody's".to_owned(), "p".to_owned());
    Message::Assign(Assign { task, assignee: *to, parent_task_id, winning_plan_id })
}

pub fn verdict(id: &str, about: &Did) -> Message {
    judgement(id, about, true, None)
}

fn judgement(id: &str, about: &Did, accepted: bool, content_cid: Option<String>) -> Message {
    let (task_id, agent_id) = (id.to_owned(), *about);
    let (reason, plan_id) = (None, None);
    let word = Verification { task_id, agent_id, accepted, reason, plan_id, content_cid };
    Message::Verification(word)
}

/// A refusal may come late, or twice: the work that was delivered since is another.
#[test]
fn a_refusal_of_other_work_throws_none_away() {
    let mut room = Room::new(4);
    let [me, other, ..] = room.tier1()[..] else { panic!("three lead") };
    let other = room.keys[&other].clone();
    let order = room.seal(&other, assign(&room, &other, &me, 0));
    room.deliver(&me, order);
    let delivered = |room: &Room| {
        let results = room.sent.iter().filter_map(|sent| match &sent.message {
            Message::SubmitResult(result) => Some(result.artifact.content_cid.clone()),
            _ => None,
        });
        results.collect::<Vec<_>>()
    };
    let [cid] = &delivered(&room)[..] else { panic!("it was done once") };
    for (about, tries) in [(aggregate::cid(b"another"), 1), (cid.clone(), 2)] {
        let refusal = judgement(&part(&other, 0), &me, false, Some(about));
        let refusal = room.seal(&other, refusal);
        room.deliver(&me, refusal);
        assert_eq!(delivered(&room).len(), tries);
    }
}

/// Whoever was told that its work is good sends something else: nobody says that of what it has
/// not looked at.
#[test]
fn a_verdict_names_what_was_looked_at() {
    let mut room = Room::new(4);
    let client = secret(50);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.deliver(&chair, message);
    let (coordinator, order) = first_order(&room);
    let accepted = |room: &Room| {
        let said = room.sent.iter().filter_map(|sent| match &sent.message {
            Message::Verification(m) if m.task_id == order.task.task_id && m.accepted => {
                m.content_cid.clone()
            }
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    let [good] = &accepted(&room)[..] else { panic!("it was found good") };
    let key = room.keys[&order.assignee].clone();
    let garbage = Message::SubmitResult(result(&room, &order, "garbage"));
    let garbage = room.seal(&key, garbage);
    assert_eq!(room.refused(&coordinator, garbage), None);
    assert_eq!(accepted(&room), [good.clone(), good.clone()]);
}

#[test]
fn jobs_are_over_when_they_are_done_and_are_counted_even_then() {
    let mut room = Room::new(4);
    let [me, liar, ..] = room.tier1()[..] else { panic!("three lead") };
    let liar = room.keys[&liar].clone();
    let code = |out: Vec<Output>| {
        out.into_iter().find_map(|output| match output {
            Output::Refused { code, .. } => Some(code),
            _ => None,
        })
    };
    // Its agent has not begun.
    let order = room.seal(&liar, assign(&room, &liar, &me, 0));
    let early = room.seal(&liar, verdict(&part(&liar, 0), &me));
    let now = room.now;
    let mut slow: Node = room.nodes[&me].clone();
    assert_eq!(code(slow.step(now, Input::Message(order))), None);
    let early = code(slow.step(now, Input::Message(early)));
    assert_eq!(early, Some(ErrorCode::InvalidRequest));

    for n in 0..100 {
        let order = room.seal(&liar, assign(&room, &liar, &me, n));
        assert_eq!(room.refused(&me, order), None, "{n}");
        let good = room.seal(&liar, verdict(&part(&liar, n), &me));
        assert_eq!(room.refused(&me, good), None, "{n}");
    }
    let one_more = room.seal(&liar, assign(&room, &liar, &me, 100));
    assert_eq!(room.refused(&me, one_more), Some(ErrorCode::InvalidRequest));
    // Their deadline is an hour away; then there is room again.
    room.now = room.now.plus(Duration::from_secs(3_601));
    let later = room.seal(&liar, assign(&room, &liar, &me, 101));
    assert_eq!(room.refused(&me, later), None);
}

#[test]
fn one_result_of_a_part_is_looked_at_at_a_time() {
    let mut room = Room::new(4);
    let client = secret(50);
    let message = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.line.push_back((chair, message));
    let is_order = |_: &Did, said: &Message| matches!(said, Message::Assign(_));
    let (_, sealed) = next(&mut room, &is_order);
    let Message::Assign(order) = &sealed.message else { unreachable!() };
    let (key, now) = (room.keys[&order.assignee].clone(), room.now);
    let mut coordinator: Node = room.nodes[&sealed.meta.signer].clone();
    let mut submits = |n: u32| {
        let result = result(&room, order, &format!("done {n}"));
        let sealed = room.seal(&key, Message::SubmitResult(result));
        let out = coordinator.step(now, Input::Message(sealed));
        let asked = out.iter().filter(|o| matches!(o, Output::Ask(Ask::Check { .. }))).count();
        let refused = out
            .iter()
            .any(|o| matches!(o, Output::Refused { code: ErrorCode::DuplicateProposal, .. }));
        (asked, refused)
    };
    assert_eq!(submits(0), (1, false));
    assert_eq!(submits(0), (0, false), "the same again is nothing new");
    for n in 1..20 {
        assert_eq!(submits(n), (0, true), "{n}");
    }
}

/// A leader that is alone: what it takes does not get on.
fn alone(room: &mut Room) -> Did {
    let me = room.tier1()[0];
    room.nodes.retain(|did, _| *did == me);
    me
}

#[test]
fn who_never_approves_keeps_nobody_else_out() {
    let mut room = Room::new(4);
    let me = alone(&mut room);
    let mut inject = |n: u16, needs_approval| {
        let key = stranger(n);
        let mut task = room.task(&format!("t{n}"));
        task.deadline = room.now.plus(Duration::from_secs(29 * 86_400));
        task.needs_approval = needs_approval;
        let order = room.seal(&key, room.inject(&key, task));
        let task_id = order.message.task_id().expect("an order").to_owned();
        let early = verdict(&task_id, &key.public().did());
        let refused = room.refused(&me, order);
        // What was approved of before there is a plan keeps its place.
        let early = room.seal(&key, early);
        room.deliver(&me, early);
        refused
    };
    for n in 0..50 {
        assert_eq!(inject(n, true), None, "{n}");
    }
    assert_eq!(inject(50, true), Some(ErrorCode::InvalidRequest));
    for n in 100..150 {
        assert_eq!(inject(n, false), None, "{n}");
    }
    assert_eq!(inject(150, false), Some(ErrorCode::InvalidRequest));
}

#[test]
fn a_task_that_nobody_approves_of_fails_after_a_day() {
    let mut room = Room::new(4);
    let (client, chair) = (secret(100), room.tier1()[0]);
    let mut task = room.task("t");
    task.deadline = room.now.plus(Duration::from_secs(29 * 86_400));
    task.needs_approval = true;
    let order = room.seal(&client, room.inject(&client, task));
    room.deliver(&chair, order);
    let ended = |room: &Room| {
        room.events.iter().filter(|(_, event)| matches!(event, Event::Ended { .. })).count()
    };
    room.now = room.now.plus(Duration::from_secs(86_400 - 120));
    room.run(60);
    assert_eq!(ended(&room), 0, "people may need hours");
    room.run(700);
    assert_eq!(agreed(&room, "t").end, End::Failed);
}

/// Orders that a witness was shown are passed on by it: its own boards have other places.
#[test]
fn who_passes_orders_on_may_still_bring_its_own() {
    let mut room = Room::new(4);
    let honest = room.keys[&room.tier1()[1]].clone();
    let me = alone(&mut room);
    let order = |room: &Room, n: u16| {
        let key = stranger(n);
        room.seal(&key, room.inject(&key, room.task(&format!("t{n}"))))
    };
    let known = |room: &Room| room.nodes[&me].ends().len();
    for n in 0..60 {
        let order = order(&room, n);
        let task_id = order.message.task_id().expect("an order").to_owned();
        let (subject, word) = (Subject::Plan { task_id }, Word::NextView { prepared: None });
        let asks = Message::Certificate(Certificate { subject, view: 1, word });
        let asks = room.seal_with(&honest, asks, vec![order]);
        room.deliver(&me, asks);
    }
    assert_eq!(known(&room), 50, "nobody passes on without end");
    for n in 100..150 {
        let board = invite(&room, &honest, order(&room, n));
        assert_eq!(room.refused(&me, board), None, "{n}");
    }
    assert_eq!(known(&room), 100);
    let board = invite(&room, &honest, order(&room, 150));
    assert_eq!(room.refused(&me, board), Some(ErrorCode::InvalidRequest));
}

#[test]
fn a_task_names_few_others_and_short_capabilities() {
    let room = Room::new(4);
    let mut task = room.task("t");
    task.capabilities_required = vec!["x".repeat(513)];
    let (client, me) = (secret(50), room.tier1()[0]);
    let mut room = room;
    let order = room.seal(&client, room.inject(&client, task));
    assert_eq!(room.refused(&me, order), Some(ErrorCode::InvalidParams));
    let mut task = room.task("t");
    task.subtasks = vec![String::new(); 65];
    let order = room.seal(&client, room.inject(&client, task));
    assert_eq!(room.refused(&me, order), Some(ErrorCode::InvalidParams));
}

/// A certificate of an election is long, and a sign of life is short.
#[test]
fn who_asks_over_and_over_is_told_of_an_election_once_in_a_while() {
    let mut room = Room::new(4);
    room.run(3_700);
    let others: Vec<Did> = room.nodes.keys().copied().collect();
    let member = room.keys[&others[0]].clone();
    let did = member.public().did();
    room.nodes.remove(&did);
    let told = |room: &Room| {
        let certificate = |message: &Signed| matches!(message.message, Message::Certificate(_));
        room.outside.iter().filter(|(_, message)| certificate(message)).count()
    };
    let before = told(&room);
    for _ in 0..200 {
        room.now = room.now.plus(Duration::from_millis(1));
        let alive = Keepalive { elected: 1, ..Keepalive::new(did, 2, room.now) };
        let alive = room.seal(&member, Message::Keepalive(alive));
        others[1..].iter().for_each(|other| room.deliver(other, alive.clone()));
    }
    let answers = told(&room) - before;
    assert!((1..=3).contains(&answers), "{answers}");
}

/// What others tell a stranger of a task, it has no part in: nobody would tell it the end.
#[test]
fn who_was_no_member_takes_up_no_task() {
    let mut room = Room::new(4);
    let (client, stranger) = (secret(100), secret(50));
    let chair = room.keys[&room.tier1()[0]].clone();
    let did = stranger.public().did();
    let node = Node::newcomer(room.genesis.clone(), profile(&stranger), &[chair.public().did()]);
    room.keys.insert(did, stranger);
    room.nodes.insert(did, node);
    room.run(60);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let board = invite(&room, &chair, order);
    assert_eq!(room.refused(&did, board), Some(ErrorCode::EpochMismatch));
    assert!(room.nodes[&did].ends().is_empty());
}
