//! The envelope, the nineteen methods, and what answers them.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use skep_base::{Did, ed25519::SecretKey, json as canonical};
use skep_wire::swarm::{
    ErrorCode, KnownKeys, Message, OpenError, Reply, Response, Signed, examples, hex_signature,
};

use super::{
    World,
    room::{Room, secret},
};

/// The methods of the specification; `consensus.certificate` is ours.
fn methods() -> impl Iterator<Item = &'static str> {
    Message::METHODS.into_iter().filter(|method| *method != "consensus.certificate")
}

fn keys() -> KnownKeys {
    let mut keys = KnownKeys::default();
    (0..3).for_each(|n| keys.learn(secret(n).public()));
    keys
}

/// The specification's own example of a method, which agent 0 has to sign.
pub fn example(method: &str, signer: &Did, by: &SecretKey) -> Result<Value> {
    let others = [secret(1).public().did(), secret(2).public().did()];
    let params = examples::params(method, &secret(0).public(), others);
    let mut params = params.with_context(|| format!("there is no example of {method}"))?;
    params["_meta"] = json!({
        "signer": signer, "swarm": "conformance", "epoch": 106, "sent_at": examples::NOW,
    });
    let payload = canonical::to_vec(&json!({"method": method, "params": params}))?;
    let signature = hex_signature::write(&by.sign(&payload));
    Ok(json!({"jsonrpc": "2.0", "method": method, "params": params, "signature": signature}))
}

pub fn open(envelope: &Value) -> Result<Signed, OpenError> {
    Signed::open(envelope.to_string().as_bytes(), &keys())
}

pub async fn all_nineteen_are_read_and_passed_on_as_they_came(_: &World) -> Result<String> {
    let me = secret(0);
    for method in methods() {
        let envelope = example(method, &me.public().did(), &me)?;
        let opened = open(&envelope).with_context(|| format!("{method} cannot be read"))?;
        ensure!(opened.message.method() == method, "{method} is read as another one");
        ensure!(opened.to_json() == envelope, "{method} is not passed on as it came");
    }
    Ok(format!("{} methods in the specification's own shape", methods().count()))
}

pub async fn the_signature_covers_method_and_params(_: &World) -> Result<String> {
    let (me, other) = (secret(0), secret(1));
    for method in methods() {
        let mut changed = example(method, &me.public().did(), &me)?;
        changed["params"]["note"] = json!(1);
        let forged = example(method, &me.public().did(), &other)?;
        for bad in [changed, forged] {
            let code = open(&bad).map_err(|error| error.code()).err();
            let told = format!("{method} was changed or forged, and {code:?}");
            ensure!(code == Some(ErrorCode::InvalidSignature), told);
        }
    }
    Ok("a field more and another's key: -32000, for each method".to_owned())
}

pub async fn only_who_is_named_may_sign(_: &World) -> Result<String> {
    let other = secret(1);
    let by_the_task: BTreeSet<&str> =
        ["task.assign", "task.verification", "hierarchy.succession", "board.dissolve"].into();
    for method in methods() {
        let envelope = example(method, &other.public().did(), &other)?;
        let refused = matches!(open(&envelope), Err(OpenError::WrongSigner(_)));
        let told = format!("{method} in another's name: refused {refused}");
        ensure!(refused != by_the_task.contains(method), told);
    }
    Ok("15 name their signer and take no other; of 4 the task or the branch says it".to_owned())
}

pub async fn five_methods_are_answered(world: &World) -> Result<String> {
    let mut room = Room::new(12);
    let (leader, place) = (room.leader()?, world.place()?);
    let place = room.seal(&room.key(&place.parent_id)?, Message::AssignTier(place));
    room.sent.push(place.into());
    let order = room.order(room.task("answered"));
    room.give(&leader, order);
    room.finish(7_200)?;
    // Nodes ask for no answers; here what they have sent is sent once more, with an id.
    let requests = room.sent.iter().filter(|sent| sent.message.is_request()).cloned();
    for request in requests.collect::<Vec<_>>() {
        for did in room.nodes.keys().copied().collect::<Vec<_>>() {
            room.give(&did, Signed::clone(&request).asking());
        }
    }
    let mut seen = BTreeSet::new();
    for (_, Response { outcome, .. }) in &room.answers {
        seen.insert(match outcome {
            Ok(Reply::Handshake(hello)) => {
                ensure!(hello.estimated_swarm_size == 12 && hello.current_epoch == 1, "{hello:?}");
                ensure!(hello.hierarchy_depth == 2 && hello.your_tier.is_some(), "{hello:?}");
                "handshake"
            }
            Ok(Reply::Tier(_)) => "assign_tier",
            Ok(Reply::Task(_)) => "inject and assign",
            Ok(Reply::Submitted(_)) => "submit_result",
            Err(error) => {
                let known = ErrorCode::ALL.iter().any(|code| code.code() == error.code);
                ensure!(known, "{} is no code of the protocol", error.code);
                "errors"
            }
        });
    }
    ensure!(seen.len() == 5, "only {seen:?}");
    Ok(format!("{} answers; without an id nobody is told anything", room.answers.len()))
}
