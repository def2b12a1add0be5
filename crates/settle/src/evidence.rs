//! Files that prove something, whichever they are: a verdict or a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::json;
use skep_wire::conduit::{SESSION_FORMAT, SessionBundle, SessionProof};

use crate::{
    proof::file::{self, Check, Pins, ProofFile, verify_file},
    session_proof::report,
};

/// What a file of either kind is worth.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Evidence {
    Verdict(file::Report),
    Session(report::Report),
}

impl Evidence {
    /// Checks a file from its bytes alone. `pins.verifier` is the key that must have signed: a
    /// verifier's or a gateway's.
    pub fn verify(bytes: &[u8], pins: &Pins) -> Evidence {
        match is_session(bytes) {
            true => Evidence::Session(report::verify(bytes, pins.verifier.as_ref())),
            false => Evidence::Verdict(verify_file(bytes, pins)),
        }
    }

    pub fn ok(&self) -> bool {
        match self {
            Evidence::Verdict(report) => report.ok,
            Evidence::Session(report) => report.ok,
        }
    }

    pub fn checks(&self) -> &[Check] {
        match self {
            Evidence::Verdict(report) => &report.checks,
            Evidence::Session(report) => &report.checks,
        }
    }
}

/// What the bundle says that it is; no other part of the file is looked at.
fn is_session(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outer {
        bundle: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        format: String,
    }
    let read = serde_json::from_slice::<Outer>(bytes);
    read.is_ok_and(|read| read.bundle.format == SESSION_FORMAT)
}

/// The steps that a file is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The verification's id or the session's.
    pub id: String,
    /// What looked: the engine's name.
    pub engine: String,
    pub actions: Vec<Value>,
    /// Whether it is a session's.
    pub session: bool,
}

impl Log {
    /// Reads the steps out of a file. It says nothing about whether the file holds.
    pub fn of(bytes: &[u8]) -> Result<Log, String> {
        let unreadable = |e: &dyn std::fmt::Display| format!("the proof cannot be read: {e}");
        if is_session(bytes) {
            let proof: SessionProof = json::from_slice(bytes).map_err(|e| unreadable(&e))?;
            let bundle = SessionBundle::deserialize(&proof.bundle).map_err(|e| unreadable(&e))?;
            return Ok(Log {
                id: bundle.session_id.to_string(),
                engine: "browser".to_owned(),
                actions: bundle.action_log,
                session: true,
            });
        }
        let file: ProofFile = json::from_slice(bytes).map_err(|e| unreadable(&e))?;
        Ok(Log {
            id: file.request.verification_id.to_string(),
            engine: file.request.spec.kind,
            actions: file.callback.action_log,
            session: false,
        })
    }
}
