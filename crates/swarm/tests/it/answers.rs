//! What requests are answered with.

use skep_base::{Did, ed25519::SecretKey};
use skep_wire::swarm::{
    AssignTier, Commit, ErrorCode, HandshakeResult, Message, Reply, Response, RpcError, Signed,
    SubmitReceipt, TaskResult, Tier, TierResult,
};

use super::room::{Room, id, secret};

/// Sends a message that wants an answer.
fn ask(room: &mut Room, by: &SecretKey, to: &Did, message: Message) -> Option<Response> {
    let request = Signed::clone(&room.seal(by, message)).asking();
    answer_to(room, to, request)
}

fn answer_to(room: &mut Room, to: &Did, request: Signed) -> Option<Response> {
    room.answers.clear();
    let (id, signer) = (request.id.clone(), request.meta.signer);
    room.deliver(to, request.into());
    let mut answers = room.answers.drain(..).filter(|(from, _, _)| from == to);
    let (_, told, response) = answers.next()?;
    assert_eq!((told, &response.id), (signer, &id));
    assert!(id.is_some() && answers.next().is_none());
    Some(response)
}

fn reply(response: Option<Response>) -> Reply {
    response.expect("an answer").outcome.expect("no error")
}

fn code(response: Option<Response>) -> i32 {
    response.expect("an answer").outcome.expect_err("an error").code
}

#[test]
fn each_request_has_its_result() {
    let mut room = Room::new(12);
    let epoch = room.any().epoch().clone();
    let tier1 = room.tier1();
    let (me, other) = (tier1[0], room.keys[&tier1[1]].clone());
    let hello = room
        .sent
        .iter()
        .find(|sent| matches!(sent.message, Message::Handshake(_)) && sent.meta.signer == tier1[1]);
    let hello = hello.expect("all have greeted").message.clone();
    let expected = HandshakeResult {
        accepted: true,
        agent_id: me,
        current_epoch: 1,
        estimated_swarm_size: 12,
        hierarchy_depth: 2,
        your_tier: Some(Tier(1)),
    };
    assert_eq!(reply(ask(&mut room, &other, &me, hello)), Reply::Handshake(expected));

    let (child, parent) = epoch
        .members()
        .iter()
        .find_map(|did| Some((*did, epoch.layout().parent_of(did)?)))
        .expect("twelve have two tiers");
    let place = AssignTier {
        assigned_agent: child,
        tier: Tier(2),
        parent_id: parent,
        epoch: 1,
        branch_size: 1,
    };
    let key = room.keys[&parent].clone();
    for (to, accepted) in [(child, true), (tier1[2], false)] {
        let told = ask(&mut room, &key, &to, Message::AssignTier(place.clone()));
        assert_eq!(reply(told), Reply::Tier(TierResult { accepted, agent_id: to }));
    }

    let client = secret(100);
    let order = room.inject(&client, room.task("t"));
    let taken = Reply::Task(TaskResult { accepted: true, task_id: id("t") });
    for _ in 0..2 {
        assert_eq!(reply(ask(&mut room, &client, &me, order.clone())), taken);
    }

    // Orders and results as they went through the room, sent once more.
    let sent = room.sent.clone();
    let assigned = sent.iter().find(|sent| matches!(sent.message, Message::Assign(_))).unwrap();
    let Message::Assign(assign) = &assigned.message else { unreachable!() };
    let task_id = assign.task.task_id.clone();
    let told = answer_to(&mut room, &assign.assignee, Signed::clone(assigned).asking());
    assert_eq!(reply(told), Reply::Task(TaskResult { accepted: true, task_id: task_id.clone() }));
    let result = sent
        .iter()
        .find(|sent| matches!(&sent.message, Message::SubmitResult(m) if m.task_id == task_id))
        .unwrap();
    let Message::SubmitResult(submitted) = &result.message else { unreachable!() };
    let coordinator = assigned.meta.signer;
    let artifact_id = submitted.artifact.artifact_id.clone();
    let receipt = SubmitReceipt { task_id, artifact_id, accepted: true };
    let told = answer_to(&mut room, &coordinator, Signed::clone(result).asking());
    assert_eq!(reply(told), Reply::Submitted(receipt.clone()));
    // Another one for a part that is done.
    let mut second = submitted.clone();
    second.artifact.created_at = room.now.plus(std::time::Duration::from_secs(9));
    let key = room.keys[&submitted.agent_id].clone();
    let told = ask(&mut room, &key, &coordinator, Message::SubmitResult(second));
    assert_eq!(reply(told), Reply::Submitted(SubmitReceipt { accepted: false, ..receipt }));
}

#[test]
fn refusals_are_answered_where_an_answer_is_wanted() {
    let mut room = Room::new(4);
    let (me, client) = (room.tier1()[0], secret(50));
    let mut task = room.task("t");
    task.deadline = room.now;
    let late = room.inject(&client, task);
    let told = ask(&mut room, &client, &me, late.clone());
    let reason = RpcError::new(ErrorCode::DeadlineExceeded, "the deadline has passed");
    assert_eq!(told.expect("an answer").outcome, Err(reason));
    // The same without an id.
    let silent = Signed::clone(&room.seal(&client, late));
    assert_eq!(room.refused(&me, silent.into()), Some(ErrorCode::DeadlineExceeded));
    assert_eq!(room.answers.len(), 0);

    // A notification with an id has no result, but its refusal is told.
    let member = secret(1);
    let commit = |task_id: &str| {
        let (task_id, proposer) = (task_id.to_owned(), member.public().did());
        let plan_hash = skep_base::Hash32::ZERO;
        Message::Commit(Commit { task_id, proposer, epoch: 1, plan_hash })
    };
    let mut notice = Signed::clone(&room.seal(&member, commit("none")));
    assert_eq!(notice.clone().asking().id, None);
    notice.id = Some(skep_wire::swarm::RequestId::Number(7));
    let told = answer_to(&mut room, &me, notice);
    assert_eq!(code(told), ErrorCode::TaskNotFound.code());
}
