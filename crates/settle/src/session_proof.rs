//! The proof of a recorded session: made by the gateway when the session closes, checked by anybody
//! with nothing but the proof.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    Hash32,
    ed25519::{PublicKey, SecretKey},
    hash::json_sha256,
    json::{self, CanonicalError},
};
use skep_wire::{
    conduit::{SESSION_ACTIONS_MAX, SESSION_FORMAT, SessionBody, SessionBundle, SessionProof},
    settle::{Action, Attachment},
};

use crate::proof::{CHAIN, chain};

pub mod report;

/// Attachments of one proof, whatever they are.
pub const ATTACHMENTS_MAX: usize = 1024;
/// The one form of picture that is kept.
pub const PNG: &str = "image/png";

/// What no hash in a session's proof vouches for.
pub const NOT_COVERED: [&str; 1] = [
    "name of an attachment whose action does not say it, and media_type of one that is no picture",
];

/// What is wrong with a session's proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("the session's bundle cannot be read: {detail}")]
    Unreadable { detail: String },
    #[error("proof_hash is not the hash of the bundle, which is {computed}")]
    HashMismatch { computed: Hash32 },
    #[error("the gateway's key is not the one that was expected")]
    ForeignGateway,
    #[error("the signature does not verify with the gateway's key {kid}")]
    BadSignature { kid: String },
    #[error("action {index} of the log cannot be read, or is out of order")]
    BadAction { index: usize },
    #[error("the chain of actions is broken: its head is {}", head(.computed))]
    BrokenChain { computed: Option<Hash32> },
    #[error("the session was closed before it was opened")]
    BadTimes,
    #[error(transparent)]
    Attachment(#[from] AttachmentFault),
}

/// What is wrong with what lies beside a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "attachment", rename_all = "snake_case")]
pub enum AttachmentFault {
    #[error("there are more than {ATTACHMENTS_MAX} attachments")]
    TooMany,
    #[error("the attachment {sha256} is not Base64")]
    NotBase64 { sha256: Hash32 },
    #[error("the attachment {sha256} was changed: its hash is {computed}")]
    Changed { sha256: Hash32, computed: Hash32 },
    #[error("no action names the attachment {sha256}")]
    Unnamed { sha256: Hash32 },
    #[error("the attachment {sha256} is called a picture by itself or by its action, not by both")]
    NotPng { sha256: Hash32 },
    #[error("the attachment {sha256} has another name than its action gave it")]
    Renamed { sha256: Hash32 },
}

fn head(head: &Option<Hash32>) -> String {
    head.map_or_else(|| "empty".to_owned(), |head| head.to_string())
}

/// Seals what a gateway recorded. Format, chain and the gateway's key are filled in.
pub fn seal(
    mut bundle: SessionBundle,
    attachments: Vec<Attachment>,
    key: &SecretKey,
) -> Result<SessionProof, CanonicalError> {
    SESSION_FORMAT.clone_into(&mut bundle.format);
    CHAIN.clone_into(&mut bundle.chain_alg);
    bundle.gateway.public_key = key.public();
    bundle.action_log_head = chain(&bundle.action_log)?;
    let proof_hash = json_sha256(&bundle)?;
    let signature = key.sign(&json::to_vec(&body_of(&bundle, proof_hash))?);
    // What could be written canonically can be written.
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

/// Checks everything about a session's proof and gives its bundle. Without a pinned key the one in
/// the bundle is used: that shows that nothing was changed since, not who signed.
pub fn check(proof: &SessionProof, pinned: Option<&PublicKey>) -> Result<SessionBundle, Fault> {
    let bundle = read(proof)?;
    check_signature(proof, &bundle, pinned)?;
    check_log(&bundle)?;
    check_attachments(&bundle.action_log, &proof.attachments)?;
    Ok(bundle)
}

fn read(proof: &SessionProof) -> Result<SessionBundle, Fault> {
    let unreadable = |e: &dyn std::fmt::Display| Fault::Unreadable { detail: e.to_string() };
    let computed = json_sha256(&proof.bundle).map_err(|e| unreadable(&e))?;
    if computed != proof.proof_hash {
        return Err(Fault::HashMismatch { computed });
    }
    let read: SessionBundle =
        serde_json::from_value(proof.bundle.clone()).map_err(|e| unreadable(&e))?;
    if read.format != SESSION_FORMAT || read.chain_alg != CHAIN {
        return Err(unreadable(&"it is of another format"));
    }
    Ok(read)
}

fn check_signature(
    proof: &SessionProof,
    bundle: &SessionBundle,
    pinned: Option<&PublicKey>,
) -> Result<(), Fault> {
    let key = &bundle.gateway.public_key;
    if pinned.is_some_and(|pinned| pinned != key) {
        return Err(Fault::ForeignGateway);
    }
    let bad = || Fault::BadSignature { kid: bundle.gateway.kid.clone() };
    let body = json::to_vec(&body_of(bundle, proof.proof_hash)).map_err(|_| bad())?;
    key.verify(&body, &proof.signature).map_err(|_| bad())
}

fn check_log(bundle: &SessionBundle) -> Result<(), Fault> {
    if bundle.closed_at < bundle.opened_at {
        return Err(Fault::BadTimes);
    }
    let log = &bundle.action_log;
    if log.len() > SESSION_ACTIONS_MAX as usize {
        return Err(Fault::BadAction { index: SESSION_ACTIONS_MAX as usize });
    }
    for (index, action) in log.iter().enumerate() {
        let read = Action::deserialize(action).ok();
        if read.is_none_or(|read| read.index as usize != index) {
            return Err(Fault::BadAction { index });
        }
    }
    let computed = chain(log).map_err(|e| Fault::Unreadable { detail: e.to_string() })?;
    if computed != bundle.action_log_head {
        return Err(Fault::BrokenChain { computed });
    }
    Ok(())
}

/// Each attachment is what its hash says, and an action of the log names it. The same bytes may be
/// there more than once: two actions can leave the same, under two names.
pub fn check_attachments(log: &[Value], attachments: &[Attachment]) -> Result<(), AttachmentFault> {
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(AttachmentFault::TooMany);
    }
    for attachment in attachments {
        let sha256 = attachment.sha256;
        bytes_of(attachment)?;
        let hex = sha256.to_string();
        let naming: Vec<&Value> = log.iter().filter(|action| holds(action, &hex)).collect();
        if naming.is_empty() {
            return Err(AttachmentFault::Unnamed { sha256 });
        }
        let is_picture = |action: &&Value| action["screenshot_sha256"] == hex.as_str();
        let picture = naming.iter().any(is_picture);
        if picture != (attachment.media_type == PNG) {
            return Err(AttachmentFault::NotPng { sha256 });
        }
        let mut said = naming.iter().filter_map(|action| action["input"]["name"].as_str());
        let given = attachment.name.as_deref();
        let renamed = |said: &str| !picture && given != Some(said);
        if said.clone().next().is_some() && said.all(renamed) {
            return Err(AttachmentFault::Renamed { sha256 });
        }
    }
    Ok(())
}

/// An attachment's bytes, if they are what it is named by.
fn bytes_of(attachment: &Attachment) -> Result<Vec<u8>, AttachmentFault> {
    let sha256 = attachment.sha256;
    let data = STANDARD.decode(&attachment.data);
    let data = data.map_err(|_| AttachmentFault::NotBase64 { sha256 })?;
    let computed = skep_base::hash::sha256(&data);
    if computed != sha256 {
        return Err(AttachmentFault::Changed { sha256, computed });
    }
    Ok(data)
}

/// Whether this action says that it left what has this hash.
fn holds(action: &Value, hex: &str) -> bool {
    ["screenshot_sha256", "data_sha256"].iter().any(|field| action[*field] == hex)
}

#[cfg(test)]
mod tests;
