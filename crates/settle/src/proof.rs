//! Section 5: the proof bundle, its hash, its signature and the chain of its actions, made and
//! checked by the same code.

mod attachment;
pub mod file;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Hash32, Timestamp,
    ed25519::{PublicKey, SecretKey},
    hash::{json_sha256, sha256, sha256_parts},
    id::{DealId, VerificationId},
    json,
};
use skep_wire::settle::{
    ACTIONS_MAX, AgentIdentity, ProofBody, ProofBundle, VCAP_VERSION, VerificationCallback,
    VerificationSpec,
};

use self::attachment::check_attachments;

/// What a bundle says that it is.
pub const FORMAT: &str = "skep/vcap-proof/v1";
/// How actions are chained (decision 28).
pub const CHAIN: &str = "sha256-jcs-hex/1";

/// What is wrong with a proof. Whatever it is, no money moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("the callback carries no proof bundle")]
    NoBundle,
    #[error("the proof bundle cannot be read: {detail}")]
    Unreadable { detail: String },
    #[error("proof_hash is not the hash of the bundle, which is {computed}")]
    HashMismatch { computed: Hash32 },
    #[error("the bundle's {field} belongs to another verification")]
    ForeignBundle { field: String },
    #[error("the bundle is about other criteria than those that were asked")]
    OtherSpec,
    #[error("passed and the bundle's outcome do not agree")]
    OutcomeMismatch,
    #[error("the callback's {field} is not the bundle's")]
    FieldMismatch { field: String },
    #[error("the chain of actions is broken: its head is {computed}")]
    BrokenChain { computed: Hash32 },
    #[error("action {index} of the log cannot be read, or is out of order")]
    BadAction { index: usize },
    #[error("attachment {index}: {problem}")]
    BadAttachment { index: usize, problem: String },
    #[error("extracted_content is not what the bundle was made of")]
    ContentChanged,
    #[error("agent_identity is not the verifier's registered key")]
    ForeignIdentity,
    #[error("proof_signature does not verify with the key {kid}")]
    BadSignature { kid: String },
}

/// The head of the chain over a log: `sha256(jcs(action) || hex of the one before)`.
pub fn chain(actions: &[Value]) -> Result<Option<Hash32>, json::CanonicalError> {
    let mut head = None::<Hash32>;
    for action in actions {
        let bytes = json::to_vec(action)?;
        let before = head.map(|head| head.to_string()).unwrap_or_default();
        head = Some(sha256_parts(&[&bytes, before.as_bytes()]));
    }
    Ok(head)
}

/// Seals what a verifier found into the message that it sends.
pub fn seal(
    mut bundle: ProofBundle,
    extracted_content: Option<String>,
    key: &SecretKey,
) -> Result<VerificationCallback, json::CanonicalError> {
    FORMAT.clone_into(&mut bundle.format);
    CHAIN.clone_into(&mut bundle.chain_alg);
    bundle.extracted_content_sha256 = extracted_content.as_ref().map(|c| sha256(c.as_bytes()));
    bundle.action_log_head = chain(&bundle.action_log)?;
    let proof_hash = json_sha256(&bundle)?;
    let body = body_of(&bundle, proof_hash);
    let proof_signature = key.sign(&json::to_vec(&body)?);
    let proof_bundle = serde_json::to_value(&bundle).ok();
    Ok(VerificationCallback {
        vcap_version: VCAP_VERSION.to_owned(),
        message_type: "verification_callback".to_owned(),
        verification_id: bundle.verification_id,
        passed: bundle.outcome.passed(),
        proof_hash,
        proof_signature,
        extracted_content,
        failure_reason: bundle.failure_reason,
        action_log: bundle.action_log,
        completed_at: bundle.completed_at,
        proof_bundle,
        proof_bundle_uri: None,
        kid: Some(bundle.verifier.kid),
        attachments: Vec::new(),
    })
}

fn body_of(bundle: &ProofBundle, proof_hash: Hash32) -> ProofBody {
    ProofBody {
        verification_id: bundle.verification_id,
        negotiation_id: bundle.negotiation_id,
        escrow_ref: bundle.escrow_ref,
        passed: bundle.outcome.passed(),
        proof_hash,
        completed_at: bundle.completed_at,
    }
}

/// What a callback must be about, from the marketplace's own records.
#[derive(Clone, Debug)]
pub struct Expected<'a> {
    pub verification: VerificationId,
    pub deal: DealId,
    pub terms_hash: Hash32,
    pub spec: &'a VerificationSpec,
    pub verifier: AgentId,
    pub key: &'a PublicKey,
    pub kid: &'a str,
    /// The verifier's key as an agent, for 5.4.
    pub agent_key: Option<&'a PublicKey>,
}

/// Checks everything about a callback and its bundle, and gives the bundle.
pub fn check(
    callback: &VerificationCallback,
    bundle: &Value,
    expected: &Expected<'_>,
) -> Result<ProofBundle, Fault> {
    let read = check_alone(callback, bundle)?;
    let foreign = |field: &str| Fault::ForeignBundle { field: field.to_owned() };
    if read.verification_id != expected.verification {
        return Err(foreign("verification_id"));
    }
    if read.negotiation_id != expected.deal {
        return Err(foreign("negotiation_id"));
    }
    if read.escrow_ref != expected.deal {
        return Err(foreign("escrow_ref"));
    }
    if read.terms_hash != expected.terms_hash {
        return Err(foreign("terms_hash"));
    }
    if read.verifier.id != expected.verifier {
        return Err(foreign("verifier.id"));
    }
    if read.verifier.kid != expected.kid {
        return Err(foreign("verifier.kid"));
    }
    if read.spec != *expected.spec {
        return Err(Fault::OtherSpec);
    }
    if let Some(identity) = &read.agent_identity {
        let known = expected.agent_key.ok_or(Fault::ForeignIdentity)?;
        check_identity(identity, &expected.verifier, known)?;
    }
    check_signature(callback, &read, expected.key, expected.kid)?;
    Ok(read)
}

/// What can be checked with nothing but the message: hash, chain, content and that all agree.
pub fn check_alone(callback: &VerificationCallback, bundle: &Value) -> Result<ProofBundle, Fault> {
    let unreadable = |e: &dyn std::fmt::Display| Fault::Unreadable { detail: e.to_string() };
    let computed = json_sha256(bundle).map_err(|e| unreadable(&e))?;
    if computed != callback.proof_hash {
        return Err(Fault::HashMismatch { computed });
    }
    let read: ProofBundle = serde_json::from_value(bundle.clone()).map_err(|e| unreadable(&e))?;
    if read.format != FORMAT || read.chain_alg != CHAIN {
        return Err(unreadable(&"it is of another format"));
    }
    if read.outcome.passed() != callback.passed {
        return Err(Fault::OutcomeMismatch);
    }
    let differs = |field: &str| Fault::FieldMismatch { field: field.to_owned() };
    if read.verification_id != callback.verification_id {
        return Err(differs("verification_id"));
    }
    if read.completed_at != callback.completed_at {
        return Err(differs("completed_at"));
    }
    if read.failure_reason != callback.failure_reason {
        return Err(differs("failure_reason"));
    }
    if read.action_log != callback.action_log {
        return Err(differs("action_log"));
    }
    check_actions(&read.action_log)?;
    let head = chain(&read.action_log).map_err(|e| unreadable(&e))?;
    if head != read.action_log_head {
        return Err(Fault::BrokenChain { computed: head.unwrap_or(Hash32([0; 32])) });
    }
    let content = callback.extracted_content.as_ref().map(|c| sha256(c.as_bytes()));
    if content != read.extracted_content_sha256 {
        return Err(Fault::ContentChanged);
    }
    check_attachments(&callback.attachments, &callback.action_log)?;
    Ok(read)
}

/// 5.2. Ed25519 is verified strictly; all that it compares is public (9.4).
pub fn check_signature(
    callback: &VerificationCallback,
    bundle: &ProofBundle,
    key: &PublicKey,
    kid: &str,
) -> Result<(), Fault> {
    let bad = || Fault::BadSignature { kid: kid.to_owned() };
    let body = json::to_vec(&body_of(bundle, callback.proof_hash)).map_err(|_| bad())?;
    key.verify(&body, &callback.proof_signature).map_err(|_| bad())
}

/// A callback without a bundle: only its signature can be checked (decision 27).
pub fn check_bundle_less(
    callback: &VerificationCallback,
    expected: &Expected<'_>,
) -> Result<(), Fault> {
    let body = ProofBody {
        verification_id: expected.verification,
        negotiation_id: expected.deal,
        escrow_ref: expected.deal,
        passed: callback.passed,
        proof_hash: callback.proof_hash,
        completed_at: callback.completed_at,
    };
    let bad = || Fault::BadSignature { kid: expected.kid.to_owned() };
    if callback.verification_id != expected.verification {
        return Err(Fault::FieldMismatch { field: "verification_id".to_owned() });
    }
    check_actions(&callback.action_log)?;
    check_attachments(&callback.attachments, &callback.action_log)?;
    let body = json::to_vec(&body).map_err(|_| bad())?;
    expected.key.verify(&body, &callback.proof_signature).map_err(|_| bad())
}

fn check_actions(actions: &[Value]) -> Result<(), Fault> {
    if actions.len() > ACTIONS_MAX {
        return Err(Fault::BadAction { index: ACTIONS_MAX });
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

/// The DER prefix of an Ed25519 public key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [48, 42, 48, 5, 6, 3, 43, 101, 112, 3, 33, 0];

/// A key as 5.4 writes it.
pub fn to_pem(key: &PublicKey) -> String {
    let der = [&SPKI_PREFIX[..], key.as_bytes()].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

/// 5.4: the verifier shows who it is as an agent.
pub fn identify(agent: AgentId, key: &SecretKey, timestamp: Timestamp) -> AgentIdentity {
    let agent_id = agent.to_string();
    let signature = key.sign(format!("{agent_id}{timestamp}").as_bytes());
    AgentIdentity { agent_id, public_key: to_pem(&key.public()), signature, timestamp }
}

/// The key is the registered one, and signed this.
pub fn check_identity(
    identity: &AgentIdentity,
    agent: &AgentId,
    known: &PublicKey,
) -> Result<(), Fault> {
    let said = format!("{}{}", identity.agent_id, identity.timestamp);
    let good = identity.agent_id == agent.to_string()
        && identity.public_key.trim() == to_pem(known).trim()
        && known.verify(said.as_bytes(), &identity.signature).is_ok();
    if good { Ok(()) } else { Err(Fault::ForeignIdentity) }
}

#[cfg(test)]
mod tests;
