//! The proof of a browser session: sealed by the gateway that recorded it, checked by anybody.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use skep_base::{
    Hash32,
    ed25519::{PublicKey, SecretKey},
    hash::{json_sha256, sha256},
    json::{self, CanonicalError},
};
use skep_wire::{
    conduit::{SESSION_ACTIONS_MAX, SESSION_FORMAT, SessionBody, SessionBundle, SessionProof},
    settle::Attachment,
};

use crate::proof::{CHAIN, Fault, chain};

/// Fields of an action that name an attachment.
const NAMES: [&str; 2] = ["screenshot_sha256", "data_sha256"];

/// Signs what was recorded.
pub fn seal(
    mut bundle: SessionBundle,
    attachments: Vec<Attachment>,
    key: &SecretKey,
) -> Result<SessionProof, CanonicalError> {
    SESSION_FORMAT.clone_into(&mut bundle.format);
    CHAIN.clone_into(&mut bundle.chain_alg);
    bundle.action_log_head = chain(&bundle.action_log)?;
    let proof_hash = json_sha256(&bundle)?;
    let signature = key.sign(&json::to_vec(&body_of(&bundle, proof_hash))?);
    let bundle = serde_json::to_value(&bundle).unwrap_or_default();
    Ok(SessionProof { bundle, proof_hash, signature, attachments })
}

fn body_of(bundle: &SessionBundle, proof_hash: Hash32) -> SessionBody {
    SessionBody {
        session_id: bundle.session_id,
        agent_id: bundle.agent_id,
        status: bundle.status,
        proof_hash,
        closed_at: bundle.closed_at,
    }
}

/// Checks all of a proof with nothing else at hand; `pinned` is the key that it must be signed by.
pub fn check(proof: &SessionProof, pinned: Option<&PublicKey>) -> Result<SessionBundle, Fault> {
    let unreadable = |e: &dyn std::fmt::Display| Fault::Unreadable { detail: e.to_string() };
    let computed = json_sha256(&proof.bundle).map_err(|e| unreadable(&e))?;
    if computed != proof.proof_hash {
        return Err(Fault::HashMismatch { computed });
    }
    let bundle: SessionBundle =
        serde_json::from_value(proof.bundle.clone()).map_err(|e| unreadable(&e))?;
    if bundle.format != SESSION_FORMAT || bundle.chain_alg != CHAIN {
        return Err(unreadable(&"it is of another format"));
    }
    check_actions(&bundle.action_log)?;
    let head = chain(&bundle.action_log).map_err(|e| unreadable(&e))?;
    if head != bundle.action_log_head {
        return Err(Fault::BrokenChain { computed: head.unwrap_or(Hash32([0; 32])) });
    }
    check_attachments(proof, &bundle.action_log)?;
    let key = pinned.unwrap_or(&bundle.gateway.public_key);
    let bad = || Fault::BadSignature { kid: bundle.gateway.kid.clone() };
    if *key != bundle.gateway.public_key {
        return Err(bad());
    }
    let body = json::to_vec(&body_of(&bundle, proof.proof_hash)).map_err(|e| unreadable(&e))?;
    key.verify(&body, &proof.signature).map_err(|_| bad())?;
    Ok(bundle)
}

fn check_actions(actions: &[Value]) -> Result<(), Fault> {
    let most = SESSION_ACTIONS_MAX as usize;
    if actions.len() > most {
        return Err(Fault::BadAction { index: most });
    }
    for (index, action) in actions.iter().enumerate() {
        let said = action.get("index").and_then(Value::as_u64);
        let named = action.get("action").is_some_and(Value::is_string);
        if said != Some(index as u64) || !named {
            return Err(Fault::BadAction { index });
        }
    }
    Ok(())
}

/// Every attachment is what its hash says, and some action names it.
fn check_attachments(proof: &SessionProof, actions: &[Value]) -> Result<(), Fault> {
    let named: BTreeSet<&str> = actions.iter().flat_map(attachment_names).collect();
    for attachment in &proof.attachments {
        let data = STANDARD.decode(&attachment.data).map_err(|_| Fault::ContentChanged)?;
        let is_named = named.contains(attachment.sha256.to_string().as_str());
        if sha256(&data) != attachment.sha256 || !is_named {
            return Err(Fault::ContentChanged);
        }
    }
    Ok(())
}

/// The hashes of what an action left beside the log: a picture, or a file that it gave.
fn attachment_names(action: &Value) -> impl Iterator<Item = &str> {
    NAMES.iter().filter_map(|name| action.get(name)?.as_str())
}

#[cfg(test)]
mod tests;
