//! What one liar or stranger can make others believe, keep or do.

use std::sync::Arc;

use skep_base::{Did, ed25519::SecretKey, json};
use skep_swarm::{aggregate, kept::Kept, transcript::Transcript};
use skep_wire::swarm::{
    Artifact, Assign, End, ErrorCode, Invite, Message, Meta, Signed, Step, SubmitResult, Word,
};

use super::{
    room::{Room, secret},
    stories::agreed,
};

/// The same message, said by the same agent in another swarm.
fn elsewhere(by: &SecretKey, message: &Signed) -> Arc<Signed> {
    let meta = Meta { swarm: "other".to_owned(), ..message.meta.clone() };
    Arc::new(Signed::seal(meta, message.message.clone(), Vec::new(), by))
}

fn invite(room: &Room, chair: &SecretKey, id: &str, origin: Arc<Signed>) -> Arc<Signed> {
    let task = room.task(id);
    let invite = Invite {
        task_id: id.to_owned(),
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
    let stolen = invite(&room, &chair, "t", elsewhere(&client, &order));
    assert_eq!(room.refused(&me, stolen), Some(ErrorCode::InvalidRequest));
    assert!(room.nodes[&me].ends().is_empty(), "nobody has ordered that here");
    let good = invite(&room, &chair, "t", order);
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
    let good = room.seal(&key, Message::SubmitResult(good));
    assert_eq!(room.refused(&coordinator, good), None);
}

/// Parts of parts say that they have as many bytes as a number can count, each.
#[test]
fn the_largest_sizes_are_added_up_and_sealed() {
    let mut room = Room::new(31);
    room.complexity = skep_wire::swarm::Share::percent(60);
    let client = secret(100);
    let order = room.seal(&client, room.inject(&client, room.task("t")));
    let chair = room.tier1()[0];
    room.line.push_back((chair, order));
    let mut lies = 0;
    while let Some((_, message)) = room.line.front_mut() {
        if let Message::SubmitResult(said) = &message.message
            && said.task_id.matches("-st-").count() == 2
            && said.content.is_some()
        {
            let mut lie = said.clone();
            let part =
                Artifact { size_bytes: json::MAX_INTEGER.unsigned_abs(), ..said.artifact.clone() };
            (lie.content, lie.parts) = (None, vec![part.clone(), part.clone()]);
            lie.artifact.size_bytes = part.size_bytes;
            let parts: Vec<_> = lie.parts.iter().cloned().map(Some).collect();
            lie.artifact.merkle_hash = aggregate::root(&parts);
            let key = &room.keys[&said.agent_id];
            let lie = Message::SubmitResult(lie);
            *message = Arc::new(Signed::seal(message.meta.clone(), lie, Vec::new(), key));
            lies += 1;
        }
        room.advance();
    }
    assert!(lies >= 2, "{lies}");
    room.run(120);
    let ended = agreed(&room, "t");
    assert_eq!(ended.end, End::Succeeded);
    let sizes: Vec<u64> = ended.parts.into_iter().flatten().map(|part| part.size_bytes).collect();
    assert!(sizes.contains(&json::MAX_INTEGER.unsigned_abs()), "{sizes:?}");
}
