//! A gateway without a browser, for runs that need many sessions in a short time. It records and
//! seals by the same rules as the real one; only nothing is looked at.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use serde_json::json;
use skep_api::{Config, GatewayDoor, Server};
use skep_base::{
    ed25519::{PublicKey, SecretKey},
    hash::sha256,
    id::SessionId,
};
use skep_market::{Calling, Gateway};
use skep_settle::recording::{Outcome, Place, Recording, Stamp};
use skep_wire::conduit::{
    Acted, GatewayAct, GatewayClose, GatewayError, GatewayInfo, GatewayOpen, SessionProof,
};
use tokio::task::JoinHandle;

use super::entropy;

const SOFTWARE: &str = "skep-stage-scribe";

/// Serves a node until it is dropped.
pub struct Scribe {
    url: String,
    secret: String,
    key: PublicKey,
    serving: JoinHandle<()>,
}

impl Scribe {
    pub async fn open() -> Result<Scribe> {
        let key = SecretKey::from_seed(entropy()?);
        let (public_key, secret) = (key.public(), sha256(&entropy()?).to_string());
        let info = GatewayInfo { public_key, software: SOFTWARE.to_owned() };
        let gateway = std::sync::Arc::new(Desk { key, sessions: Mutex::default() });
        let config = Config { dev: true, rates: None, ..Config::new(([127, 0, 0, 1], 0).into()) };
        let door = GatewayDoor { gateway, info, secret: secret.clone() };
        let server = Server::bind_gateway(config, door).await?;
        let url = server.url();
        let serving = tokio::spawn(async move {
            server.serve(std::future::pending()).await;
        });
        Ok(Scribe { url, secret, key: public_key, serving })
    }

    /// What a node must be told to use it.
    pub fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("SKEP_GATEWAY_URL", self.url.clone()),
            ("SKEP_GATEWAY_SECRET", self.secret.clone()),
            ("SKEP_GATEWAY_KEY", self.key.to_string()),
        ]
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A session's log, and its proof once it is closed.
type Kept = (Recording, Option<SessionProof>);

#[derive(Debug)]
struct Desk {
    key: SecretKey,
    sessions: Mutex<BTreeMap<SessionId, Kept>>,
}

impl Desk {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionId, Kept>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_now(&self, id: SessionId, request: GatewayOpen) -> PublicKey {
        // The node's time, which may be ahead of the machine's, is in the id.
        let recording = Recording::open(id, request.agent_id, request.purpose, id.time());
        self.sessions().insert(id, (recording, None));
        self.key.public()
    }

    fn act_now(&self, id: SessionId, asked: GatewayAct) -> Result<Acted, GatewayError> {
        let mut sessions = self.sessions();
        let (recording, proof) = sessions.get_mut(&id).ok_or(GatewayError::UnknownSession)?;
        if proof.is_some() {
            return Err(GatewayError::Over { reason: "closed".to_owned() });
        }
        match recording.place(asked.index, &asked.mark) {
            Place::Free => {}
            Place::Done(acted) => return Ok(*acted),
            Place::Taken(acted) => return Err(GatewayError::Taken { acted }),
            Place::Elsewhere => return Err(GatewayError::Moved),
        }
        let outcome = Outcome { url: asked.act.url.clone(), data: json!({}), ..Outcome::default() };
        let stamp = Stamp { at: id.time(), duration_ms: 1, price: asked.price_minor };
        recording.add(&asked.act, asked.mark, outcome, stamp).map_err(unwritable)
    }

    fn close_now(&self, id: SessionId, asked: GatewayClose) -> Result<SessionProof, GatewayError> {
        let mut sessions = self.sessions();
        let (recording, proof) = sessions.get_mut(&id).ok_or(GatewayError::UnknownSession)?;
        if let Some(proof) = proof {
            return Ok(proof.clone());
        }
        let sealed = recording.seal(asked.status, asked.reason, id.time(), SOFTWARE, &self.key);
        Ok(proof.insert(sealed.map_err(unwritable)?).clone())
    }
}

fn unwritable(error: impl std::fmt::Display) -> GatewayError {
    GatewayError::BadAction { detail: error.to_string() }
}

impl Gateway for Desk {
    fn key(&self) -> Option<PublicKey> {
        Some(self.key.public())
    }

    fn open(&self, session: SessionId, request: GatewayOpen) -> Calling<'_, PublicKey> {
        Box::pin(async move { Ok(self.open_now(session, request)) })
    }

    fn act(&self, session: SessionId, request: GatewayAct) -> Calling<'_, Acted> {
        Box::pin(async move { self.act_now(session, request) })
    }

    fn close(&self, session: SessionId, request: GatewayClose) -> Calling<'_, SessionProof> {
        Box::pin(async move { self.close_now(session, request) })
    }
}
