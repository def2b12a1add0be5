//! AIVS 1.0 bundles: the form in which other programs read a log of actions.
//!
//! The published hashes cover seven fields of each row and no more: neither what went in nor what
//! came out, nor the manifest. So a bundle of ours also holds the proof that it was made of, its
//! manifest names every file by hash, and `manifest_sig.txt` vouches for the manifest. An AIVS
//! signature is never taken for a proof's (decision 27).

pub mod check;
mod float;

use std::{collections::BTreeMap, fmt::Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use skep_base::{
    AgentId, Hash32, Timestamp,
    ed25519::{PublicKey, SecretKey, Signature},
    hash::sha256,
};
use skep_wire::settle::Action;

use crate::evidence::Log;

pub const VERSION: &str = "1.0";
/// The folder that all files of an archive lie in.
pub const FOLDER: &str = "session_proof";
pub const AUDIT_LOG: &str = "audit_log.jsonl";
pub const MANIFEST: &str = "manifest.json";
pub const SESSION_SIG: &str = "session_sig.txt";
pub const PUBLIC_KEY: &str = "public_key.pem";
pub const VERIFY_PY: &str = "verify.py";
pub const PREVIOUS: &str = "previous_bundle_hash.txt";
pub const MERKLE: &str = "merkle_tree.json";
/// Ours: what the manifest's bytes hash to, signed by whoever signed the chain.
pub const MANIFEST_SIG: &str = "manifest_sig.txt";
/// Ours: the verdict's proof that the rows were made of.
pub const VCAP_PROOF: &str = "vcap_proof.json";
/// Ours: the session's proof that the rows were made of.
pub const CONDUIT_PROOF: &str = "conduit_proof.json";
/// Every name that a bundle may hold.
pub const NAMES: [&str; 10] = [
    AUDIT_LOG,
    CONDUIT_PROOF,
    MANIFEST,
    MANIFEST_SIG,
    MERKLE,
    PREVIOUS,
    PUBLIC_KEY,
    SESSION_SIG,
    VCAP_PROOF,
    VERIFY_PY,
];

/// All files of a bundle together, in bytes.
pub const BUNDLE_LEN_MAX: usize = 16 * 1024 * 1024;
/// The longest `outputs_json`, in characters, as the reference program cuts it.
const OUTPUTS_LEN_MAX: usize = 2000;
/// The longest `error`, in characters.
const ERROR_LEN_MAX: usize = 1000;
/// What is signed over a manifest begins with this, so that it can never be taken for a chain's
/// signature, which is over 64 hex digits alone.
const MANIFEST_DOMAIN: &str = "skep/aivs-manifest/v1:";
const UNSIGNED: &str = "# Ed25519 signing not available";
const NO_KEY: &str = "# No signing key configured";
const KEY_PREFIX: &str = "# Ed25519 public key: ";
const REDACTED: &str = "[REDACTED]";
/// An input whose name holds one of these, in any case, is not written down.
const SENSITIVE: [&str; 10] = [
    "password",
    "token",
    "api_key",
    "secret",
    "key",
    "authorization",
    "bearer",
    "credential",
    "passwd",
    "passphrase",
];

/// The program that every bundle carries. It needs nothing but Python 3.
pub const VERIFIER: &str = include_str!("aivs/verify.py");

/// A bundle's files by their names.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Why a log cannot be written as AIVS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AivsError {
    #[error("{0}")]
    Unreadable(String),
    #[error("action {index} is not in a form that AIVS can hold: {detail}")]
    BadAction { index: usize, detail: String },
    #[error("the bundle would be longer than {} MiB", BUNDLE_LEN_MAX >> 20)]
    TooLong,
}

/// One line of `audit_log.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    id: u64,
    session_id: String,
    action_type: String,
    tool_name: String,
    inputs_json: String,
    outputs_json: String,
    cost_cents: u64,
    error: String,
    /// Hashed as Python prints it, so it is read as it was written.
    timestamp: Box<RawValue>,
    prev_hash: String,
    row_hash: String,
}

impl Row {
    /// `row_hash` as it has to be.
    fn hash(&self) -> Option<Hash32> {
        let timestamp = float::as_python(self.timestamp.get())?;
        let text = format!(
            "{}:{}:{}:{}:{}:{timestamp}:{}",
            self.id,
            self.session_id,
            self.action_type,
            self.tool_name,
            self.cost_cents,
            self.prev_hash
        );
        Some(sha256(text.as_bytes()))
    }
}

/// Who exports a bundle.
#[derive(Clone, Copy, Debug)]
pub struct Exporter<'a> {
    pub agent: AgentId,
    pub key: &'a SecretKey,
}

/// Whose key signed, as the manifest says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    pub agent_id: AgentId,
    pub public_key: PublicKey,
}

/// Makes a bundle of a proof's bytes: a verdict's file or a session's proof.
pub fn make(
    proof: &[u8],
    exported_at: Timestamp,
    exporter: Option<Exporter<'_>>,
) -> Result<Files, AivsError> {
    let log = Log::of(proof).map_err(AivsError::Unreadable)?;
    let rows = rows(&log)?;
    let chain_hash = chain_hash(rows.iter().map(|row| row.row_hash.as_str()));
    let mut files = Files::new();
    files.insert(AUDIT_LOG.to_owned(), lines(&rows)?.into_bytes());
    files.insert(original_name(&log).to_owned(), proof.to_vec());
    files.insert(VERIFY_PY.to_owned(), VERIFIER.as_bytes().to_vec());
    let key = exporter.map(|exporter| exporter.key.public());
    files.insert(PUBLIC_KEY.to_owned(), key_text(key.as_ref()).into_bytes());

    let named: BTreeMap<&str, Hash32> =
        files.iter().map(|(name, bytes)| (name.as_str(), sha256(bytes))).collect();
    let mut manifest = json!({
        "session_id": log.id,
        "exported_at": seconds(exported_at),
        "action_count": rows.len(),
        "chain_hash": chain_hash,
        "aivs_version": VERSION,
        "generator": concat!("skep/", env!("CARGO_PKG_VERSION")),
        "made_of": original_name(&log),
        "files": named,
    });
    if let Some(Exporter { agent, key }) = exporter {
        manifest["signer"] = json!(Signer { agent_id: agent, public_key: key.public() });
    }
    let mut manifest = serde_json::to_vec_pretty(&manifest).map_err(|e| unreadable(&e))?;
    manifest.push(b'\n');

    let sign = |text: &str| exporter.map(|exporter| exporter.key.sign(text.as_bytes()));
    let chain_text = chain_hash.to_string();
    let signed = sign_file("chain_hash", &chain_text, sign(&chain_text));
    files.insert(SESSION_SIG.to_owned(), signed.into_bytes());
    let manifest_text = sha256(&manifest).to_string();
    let signature = sign(&format!("{MANIFEST_DOMAIN}{manifest_text}"));
    let signed = sign_file("manifest_hash", &manifest_text, signature);
    files.insert(MANIFEST_SIG.to_owned(), signed.into_bytes());
    files.insert(MANIFEST.to_owned(), manifest);
    if files.values().map(Vec::len).sum::<usize>() > BUNDLE_LEN_MAX {
        return Err(AivsError::TooLong);
    }
    Ok(files)
}

/// `aivs_proof_{first 8 characters of the id}_{unix seconds}.tar.gz`
pub fn archive_name(id: &str, exported_at: Timestamp) -> String {
    let start: String = id.chars().take(8).collect();
    format!("aivs_proof_{start}_{}.tar.gz", exported_at.as_ms() / 1000)
}

fn original_name(log: &Log) -> &'static str {
    if log.session { CONDUIT_PROOF } else { VCAP_PROOF }
}

fn unreadable(error: &dyn std::fmt::Display) -> AivsError {
    AivsError::Unreadable(error.to_string())
}

/// A time without its fraction, as a manifest has it.
fn seconds(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

fn key_text(key: Option<&PublicKey>) -> String {
    let mut text = match key {
        None => return format!("{NO_KEY}\n"),
        Some(_) => KEY_PREFIX.to_owned(),
    };
    for byte in key.iter().flat_map(|key| key.as_bytes()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text + "\n"
}

fn sign_file(what: &str, hash: &str, signature: Option<Signature>) -> String {
    match signature {
        None => format!("{what}:{hash}\n{UNSIGNED}\n"),
        Some(signature) => {
            format!("{what}:{hash}\nsignature:{}\n", STANDARD.encode(signature.as_bytes()))
        }
    }
}

/// 3.4 of AIVS.
pub(crate) fn chain_hash<'a>(row_hashes: impl Iterator<Item = &'a str>) -> Hash32 {
    let joined: String = row_hashes.collect();
    if joined.is_empty() { sha256(b"empty") } else { sha256(joined.as_bytes()) }
}

fn lines(rows: &[Row]) -> Result<String, AivsError> {
    let mut lines = String::new();
    for row in rows {
        lines += &serde_json::to_string(row).map_err(|e| unreadable(&e))?;
        lines.push('\n');
    }
    Ok(lines)
}

/// The rows that a log makes, each chained to the one before.
pub(crate) fn rows(log: &Log) -> Result<Vec<Row>, AivsError> {
    let mut rows: Vec<Row> = Vec::new();
    for (index, action) in log.actions.iter().enumerate() {
        let bad = |detail: String| AivsError::BadAction { index, detail };
        let action = Action::deserialize(action).map_err(|e| bad(e.to_string()))?;
        let seconds = action.timestamp.as_ms() as f64 / 1000.0;
        let timestamp = float::python(seconds);
        let timestamp = timestamp.and_then(|text| RawValue::from_string(text).ok());
        let before = rows.last().map(|row| row.row_hash.clone());
        let mut row = Row {
            id: index as u64 + 1,
            session_id: log.id.clone(),
            action_type: "tool_call".to_owned(),
            tool_name: format!("{}.{}", log.engine, action.action.to_lowercase()),
            inputs_json: inputs(&action).to_string(),
            outputs_json: outputs(&action),
            cost_cents: u64::from(action.cost_cents),
            error: error(&action),
            timestamp: timestamp.ok_or_else(|| bad("its time has no number".to_owned()))?,
            prev_hash: before.unwrap_or_default(),
            row_hash: String::new(),
        };
        let hash = row.hash().ok_or_else(|| bad("its time has no number".to_owned()))?;
        row.row_hash = hash.to_string();
        rows.push(row);
    }
    Ok(rows)
}

fn inputs(action: &Action) -> Value {
    let mut fields = Map::new();
    for (name, text) in [("url", &action.url), ("selector", &action.selector)] {
        if let Some(text) = text {
            fields.insert(name.to_owned(), json!(text));
        }
    }
    match &action.input {
        Some(Value::Object(input)) => fields.extend(input.clone()),
        Some(input) => drop(fields.insert("input".to_owned(), input.clone())),
        None => {}
    }
    // 4.4 of AIVS: what ran is kept under a name of its own, with its hash.
    if let Some(Value::String(script)) = fields.remove("script") {
        fields.insert("code_hash".to_owned(), json!(sha256(script.as_bytes())));
        fields.insert("js_code".to_owned(), json!(script));
    }
    let mut inputs = Value::Object(fields);
    redact(&mut inputs);
    inputs
}

/// 4.2 of AIVS, at every depth.
fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => {
            for (name, field) in fields {
                let name = name.to_lowercase();
                match SENSITIVE.iter().any(|word| name.contains(word)) {
                    true => *field = json!(REDACTED),
                    false => redact(field),
                }
            }
        }
        _ => {}
    }
}

/// What came of it. A snippet that is too long is cut, so that the rest stays JSON.
fn outputs(action: &Action) -> String {
    let mut said = json!({ "success": action.success });
    let parts = [
        ("duration_ms", json!(action.duration_ms)),
        ("data_sha256", json!(action.data_sha256)),
        ("screenshot_sha256", json!(action.screenshot_sha256)),
        ("fingerprint", json!(action.fingerprint)),
        ("cost_category", json!(action.cost_category)),
        ("data", json!(action.data_snippet)),
    ];
    for (name, part) in parts.into_iter().filter(|(_, part)| !part.is_null()) {
        said[name] = part;
    }
    let mut snippet: Vec<char> = action.data_snippet.iter().flat_map(|s| s.chars()).collect();
    loop {
        let text = said.to_string();
        let over = text.chars().count().saturating_sub(OUTPUTS_LEN_MAX);
        if over == 0 || snippet.is_empty() {
            return text;
        }
        // A character takes at most six in JSON, and at least one.
        snippet.truncate(snippet.len().saturating_sub(over.div_ceil(6)));
        said["data"] = json!(String::from_iter(&snippet));
    }
}

fn error(action: &Action) -> String {
    if action.success {
        return String::new();
    }
    let said = action.data_snippet.as_deref().filter(|text| !text.is_empty());
    said.unwrap_or("it did not succeed").chars().take(ERROR_LEN_MAX).collect()
}

#[cfg(test)]
mod tests;
