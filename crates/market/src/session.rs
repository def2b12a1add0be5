//! Recorded browser sessions for agents: held money, one transaction for each step, a signed proof.
//!
//! The browser is behind [`Gateway`], which is asked outside any transaction. What it did is then
//! stored in one; if that did not happen, because the node died, say, the next call or the close
//! finds it at the gateway and stores it. An agent pays for what a checked proof shows: a session
//! whose gateway is lost costs nothing.

mod act;
mod close;
mod gateway;
mod open;
mod refusal;
mod timer;
mod view;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    ed25519::PublicKey,
    hash::sha256_parts,
    id::{SessionId, TransferId},
};
use skep_score::Track;
use skep_settle::session::{Account, Prices};
use skep_store::{RecordKey, RouteKey, StoreError, Turn, track_key};
use skep_wire::{
    conduit::{
        Act, ActionDone, CloseSession, OpenSession, SESSION_IDLE_MAX, SESSION_LIFE_MAX, Session,
        SessionStatus,
    },
    settle::{ErrorReport, Standing, Tier},
};

pub(crate) use self::timer::SESSION_JOB;
pub use self::{
    gateway::{Calling, Gateway},
    refusal::SessionRefusal,
};
use crate::{
    Answered, Failure, Guarded, Market, Refusal, Signed, answer::Stop, deal::standing_key,
    identity::agent_key, score::tier_of,
};

/// Sessions that one agent may have open, unless the operator says otherwise.
pub const SESSIONS_OPEN_MAX: usize = 4;
/// The longest purpose, in bytes.
pub const PURPOSE_LEN_MAX: usize = 1024;

/// Records of what a request came to.
const ASKED: &str = "asked";
/// What sessions cost is paid in this.
const ASSET: Asset = Asset::USDC;

/// What the node's operator has set about sessions.
#[derive(Clone, Debug)]
pub struct Conduit {
    pub prices: Prices,
    /// Open sessions of one agent.
    pub sessions_max: usize,
}

impl Default for Conduit {
    fn default() -> Conduit {
        Conduit { prices: Prices::default(), sessions_max: SESSIONS_OPEN_MAX }
    }
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SessionRecord {
    agent: AgentId,
    status: SessionStatus,
    reason: Option<String>,
    purpose: Option<String>,
    actions: u32,
    head: Option<Hash32>,
    max_cost: Amount,
    cost: Amount,
    opened_at: Timestamp,
    acted_at: Timestamp,
    closed_at: Option<Timestamp>,
    /// The key that its proof must be signed by.
    gateway: PublicKey,
    /// Whether there is one.
    proven: bool,
}

impl SessionRecord {
    fn account(&self) -> Account {
        let SessionRecord { status, actions, cost, max_cost, .. } = *self;
        Account { status, actions, cost, max_cost }
    }

    fn is_over(&self) -> bool {
        matches!(self.status, SessionStatus::Completed | SessionStatus::Failed)
    }

    /// When it is failed unless something happens.
    fn due_at(&self) -> Timestamp {
        self.acted_at.plus(SESSION_IDLE_MAX).min(self.opened_at.plus(SESSION_LIFE_MAX))
    }

    fn view(&self, id: SessionId) -> Session {
        Session {
            session_id: id,
            agent_id: self.agent,
            status: self.status,
            reason: self.reason.clone(),
            purpose: self.purpose.clone(),
            actions: self.actions,
            head: self.head,
            asset: ASSET,
            max_cost_minor: self.max_cost,
            cost_minor: self.cost,
            opened_at: self.opened_at,
            expires_at: self.due_at(),
            closed_at: self.closed_at,
            proof_page: None,
        }
    }
}

/// A step of a session as it is stored; what is large lies beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StepRecord {
    event: Value,
    head: Hash32,
    cost: Amount,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorReport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Hash32>,
}

/// The open sessions of one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OpenSessions {
    ids: Vec<SessionId>,
}

/// What a request came to, so that its repetition opens and does nothing more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked<T> {
    fingerprint: Hash32,
    given: T,
}

fn session_key(id: &SessionId) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: "session", id: id.to_string() }
}

fn step_key(id: &SessionId, index: u32) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: "step", id: format!("{index:05}") }
}

fn attachment_key(id: &SessionId, sha256: &Hash32) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: "attachment", id: sha256.to_string() }
}

pub(crate) fn proof_key(id: &SessionId) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: "session_proof", id: id.to_string() }
}

fn open_key(agent: &AgentId) -> RecordKey {
    RecordKey { route: RouteKey::of(agent), kind: "open_sessions", id: agent.to_string() }
}

/// Where it is kept what this request came to.
fn asked_key(route: RouteKey, signed: &Signed) -> RecordKey {
    // A nonce and a key of the same text are not the same request.
    let (what, unique) = match &signed.idempotency_key {
        Some(key) => ("key", key),
        None => ("nonce", &signed.nonce),
    };
    let parts: [&[u8]; 3] = [signed.agent.as_bytes(), what.as_bytes(), unique.as_bytes()];
    RecordKey { route, kind: ASKED, id: sha256_parts(&parts).to_string() }
}

/// The money that is set aside for a session.
fn hold_id(id: &SessionId) -> TransferId {
    id.derive("hold")
}

/// The session of a turn that loaded it.
fn loaded(turn: &Turn, id: &SessionId) -> Result<SessionRecord, Stop> {
    let known = turn.record(&session_key(id))?;
    known.ok_or_else(|| SessionRefusal::UnknownSession { session: *id }.into())
}

/// Whoever asked may go away; what was begun is finished, so that no browser is left without its
/// session and no proof without its record.
async fn finish<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let lost = |e: tokio::task::JoinError| StoreError::Unknown(e.to_string());
    tokio::spawn(work).await.unwrap_or_else(|e| Err(lost(e).into()))
}

impl Market {
    /// Opens a session.
    pub async fn session_open(
        &self,
        signed: &Signed,
        request: OpenSession,
    ) -> Result<Answered<Session>, Failure> {
        let (market, signed) = (self.clone(), signed.clone());
        finish(async move { market.open_session(&signed, request).await }).await
    }

    /// Does one action.
    pub async fn session_act(
        &self,
        signed: &Signed,
        id: SessionId,
        act: Act,
    ) -> Result<Answered<ActionDone>, Failure> {
        let (market, signed) = (self.clone(), signed.clone());
        finish(async move { market.act_in_session(&signed, id, act).await }).await
    }

    /// The owner ends a session.
    pub async fn session_close(
        &self,
        signed: &Signed,
        id: SessionId,
        request: CloseSession,
    ) -> Result<Answered<Session>, Failure> {
        let (market, signed) = (self.clone(), signed.clone());
        finish(async move { market.close_session(&signed, id, request).await }).await
    }

    /// Opens browsers for agents through this.
    pub fn with_gateway(self, gateway: Arc<dyn Gateway>) -> Market {
        Market { gateway: Some(gateway), ..self }
    }

    /// What the node's operator has set about sessions.
    pub fn with_conduit(self, conduit: Conduit) -> Market {
        Market { conduit: Arc::new(conduit), ..self }
    }

    fn gateway(&self) -> Result<&Arc<dyn Gateway>, SessionRefusal> {
        let detail = "this node has no browser: its operator can name a gateway".to_owned();
        self.gateway.as_ref().ok_or(SessionRefusal::NoBrowser { detail })
    }

    /// The gateway that a session lives at. Another node's cannot be asked from here, and its
    /// silence says nothing about the session.
    fn gateway_of(&self, record: &SessionRecord) -> Result<&Arc<dyn Gateway>, SessionRefusal> {
        let gateway = self.gateway()?;
        let detail = match gateway.key() {
            Some(key) if key == record.gateway => return Ok(gateway),
            Some(_) => "the session lives at another gateway",
            None => "the gateway has not answered yet",
        };
        Err(SessionRefusal::GatewayUnavailable { detail: detail.to_owned() })
    }

    /// A session of this agent; a stranger cannot tell it from none.
    async fn own_session(&self, agent: &AgentId, id: SessionId) -> Result<SessionRecord, Failure> {
        let known: Option<SessionRecord> = self.read(session_key(&id)).await?;
        let own = known.filter(|record| record.agent == *agent);
        own.ok_or_else(|| SessionRefusal::UnknownSession { session: id }.into())
    }

    /// What the same request came to before, if it did.
    async fn asked_before<T: serde::de::DeserializeOwned>(
        &self,
        key: &RecordKey,
        signed: &Signed,
    ) -> Result<Option<T>, Failure> {
        let Some(asked) = self.read::<Asked<T>>(key.clone()).await? else { return Ok(None) };
        match (asked.fingerprint == signed.fingerprint, &signed.idempotency_key) {
            (true, _) => Ok(Some(asked.given)),
            (false, Some(_)) => Err(Failure::KeyReused(Guarded::IdempotencyKey)),
            (false, None) => Err(Failure::KeyReused(Guarded::Nonce)),
        }
    }

    /// Whoever signed must still be the agent before a browser does anything in its name; the
    /// transaction that follows asks again. Gives the agent's tier too.
    async fn caller(&self, signed: &Signed) -> Result<Tier, Failure> {
        let agent = &signed.agent;
        let keys = vec![agent_key(agent), standing_key(agent), track_key(agent)];
        let mut records = self.read_all(keys).await?;
        let known: Option<crate::AgentRecord> = crate::read::next(&mut records)?;
        let unknown = || Refusal::UnknownAgent { agent: signed.agent.to_string() };
        let known = known.ok_or_else(unknown)?;
        if known.current_key() != Some(&signed.key) {
            return Err(Refusal::KeyNotCurrent.into());
        }
        let word: Option<Standing> = crate::read::next(&mut records)?;
        let track: Option<Track> = crate::read::next(&mut records)?;
        Ok(tier_of(word.as_ref(), track.unwrap_or_default().tier))
    }
}
