//! A session's proof as a file, and what it is worth, line by line.

use serde::Serialize;
use skep_base::{AgentId, Timestamp, ed25519::PublicKey, id::SessionId, json};
use skep_wire::conduit::{SessionBundle, SessionProof, SessionStatus};

use super::{check_attachments, check_log, check_signature, read};
use crate::proof::file::{Check, Found, found, must, origin, short, text};

/// What a session's file is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub ok: bool,
    /// What the file claims; true only if `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    pub session_id: SessionId,
    pub agent_id: AgentId,
    pub status: SessionStatus,
    pub actions: usize,
    pub closed_at: Timestamp,
}

/// Checks a session's file from its bytes alone.
pub fn verify(bytes: &[u8], gateway: Option<&PublicKey>) -> Report {
    let mut checks = Vec::new();
    let mut note = |name, found: Found| checks.push(Check::of(name, found));
    let mut claim = None;
    match parse(bytes) {
        Err(wrong) => note("file", Err(wrong)),
        Ok(proof) => {
            note("file", found(format!("{} bytes, a session's proof", bytes.len())));
            match read(&proof) {
                Err(fault) => note("proof hash", Err(text(fault))),
                Ok(bundle) => {
                    note("proof hash", found(proof.proof_hash.to_string()));
                    note("signature", signature(&proof, &bundle, gateway));
                    note("action chain", log(&bundle));
                    note("attachments", attachments(&proof, &bundle));
                    claim = Some(claimed(&bundle));
                }
            }
        }
    }
    let ok = checks.iter().all(Check::holds);
    Report { ok, claim, checks }
}

fn parse(bytes: &[u8]) -> Result<SessionProof, String> {
    let value = json::parse(bytes).map_err(text)?;
    let proof: SessionProof = json::from_slice(bytes).map_err(text)?;
    // A field that nobody reads would be a change that no hash shows.
    let again = serde_json::to_value(&proof).map_err(text)?;
    must(again == value, "it holds something that is no part of a session's proof")?;
    Ok(proof)
}

fn signature(proof: &SessionProof, bundle: &SessionBundle, pin: Option<&PublicKey>) -> Found {
    check_signature(proof, bundle, pin).map_err(text)?;
    let stamp = &bundle.gateway;
    let origin = origin(pin.copied(), "--key");
    let (kid, key) = (&stamp.kid, short(&stamp.public_key));
    found(format!("gateway key {kid}, fingerprint {key}, {origin}"))
}

fn log(bundle: &SessionBundle) -> Found {
    check_log(bundle).map_err(text)?;
    match (bundle.action_log_head, bundle.action_log.len()) {
        (None, _) => found("no actions"),
        (Some(head), 1) => found(format!("1 action, head {head}")),
        (Some(head), actions) => found(format!("{actions} actions, head {head}")),
    }
}

fn attachments(proof: &SessionProof, bundle: &SessionBundle) -> Found {
    check_attachments(&bundle.action_log, &proof.attachments).map_err(text)?;
    Ok(match proof.attachments.len() {
        0 => None,
        1 => Some("1, named by an action".to_owned()),
        many => Some(format!("{many}, each named by an action")),
    })
}

fn claimed(bundle: &SessionBundle) -> Claim {
    Claim {
        session_id: bundle.session_id,
        agent_id: bundle.agent_id,
        status: bundle.status,
        actions: bundle.action_log.len(),
        closed_at: bundle.closed_at,
    }
}
