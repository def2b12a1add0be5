//! Browsers for agents: each session has one of its own, and every action goes into a signed log.
//!
//! The gateway does what its node asks and decides nothing about money. One action at a time for
//! each session; the same request at the same index is done once. What was begun is finished even
//! if whoever asked has gone.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use skep_base::{
    Clock,
    ed25519::{PublicKey, SecretKey},
    id::SessionId,
};
use skep_settle::recording::{Outcome, Place, Recording, Stamp};
use skep_wire::{
    conduit::{
        Acted, ActionType, DATA_LEN_MAX, GatewayAct, GatewayClose, GatewayError, GatewayInfo,
        GatewayOpen, SESSION_IDLE_MAX, SESSION_LIFE_MAX, SessionProof, SessionStatus,
    },
    settle::ErrorReport,
};
use tokio::sync::Mutex as Turnstile;

use crate::browser::{BrowserError, Browsers, Done, Tab};

/// How often that is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Sessions that are open at one time; browsers are fewer.
const SESSIONS_MAX: usize = 256;
/// A proof is kept for a node that lost the answer, but not for long and not for many.
const KEPT: Duration = Duration::from_secs(20 * 60);
const KEPT_MAX: usize = 64;
/// The browser's words for what it did not even begin.
const NOT_BEGUN: [&str; 4] = ["bad_action", "bad_url", "dialog_open", "no_dialog"];

/// Runs browsers and records what is done in them. Clones are the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    browsers: Result<Browsers, BrowserError>,
    key: SecretKey,
    clock: Arc<dyn Clock>,
    software: String,
    sessions: Mutex<BTreeMap<SessionId, Arc<Session>>>,
}

struct Session {
    opened: Instant,
    /// When it was last used, and when it was closed.
    used: Mutex<(Instant, Option<Instant>)>,
    state: Turnstile<State>,
}

struct State {
    tab: Option<Tab>,
    recording: Recording,
    /// Why it cannot go on.
    ended: Option<String>,
    proof: Option<SessionProof>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = lock(&self.0.sessions).len();
        f.debug_struct("Gateway").field("sessions", &open).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Signs with `key`. Without a browser it says so to whoever wants one.
    pub fn new(
        browsers: Result<Browsers, BrowserError>,
        key: SecretKey,
        clock: Arc<dyn Clock>,
    ) -> Gateway {
        let software = format!("skep-gateway/{}", env!("CARGO_PKG_VERSION"));
        let sessions = Mutex::default();
        let inner = Arc::new(Inner { browsers, key, clock, software, sessions });
        tokio::spawn(sweep(Arc::downgrade(&inner)));
        Gateway(inner)
    }

    pub fn info(&self) -> GatewayInfo {
        GatewayInfo { public_key: self.0.key.public(), software: self.0.software.clone() }
    }

    /// Starts a browser for a session.
    pub async fn open(
        &self,
        id: SessionId,
        request: GatewayOpen,
    ) -> Result<PublicKey, GatewayError> {
        let inner = self.0.clone();
        finish(async move { inner.open(id, request).await }).await
    }

    /// Does one action and records it.
    pub async fn act(&self, id: SessionId, request: GatewayAct) -> Result<Acted, GatewayError> {
        let inner = self.0.clone();
        finish(async move { inner.act(id, request).await }).await
    }

    /// Ends a session. Whoever comes first says how; the proof stays the same.
    pub async fn close(
        &self,
        id: SessionId,
        request: GatewayClose,
    ) -> Result<SessionProof, GatewayError> {
        let inner = self.0.clone();
        finish(async move { inner.close(id, request).await }).await
    }
}

/// Whoever asked may go away; what was begun is finished.
async fn finish<T: Send + 'static>(
    work: impl Future<Output = Result<T, GatewayError>> + Send + 'static,
) -> Result<T, GatewayError> {
    let gone = |error: tokio::task::JoinError| GatewayError::Unreachable {
        detail: format!("the gateway's work did not end: {error}"),
    };
    tokio::spawn(work).await.unwrap_or_else(|error| Err(gone(error)))
}

impl Inner {
    async fn open(&self, id: SessionId, request: GatewayOpen) -> Result<PublicKey, GatewayError> {
        let refused = |error: &BrowserError| match error {
            BrowserError::Busy => GatewayError::Busy,
            other => GatewayError::NoBrowser { detail: other.to_string() },
        };
        let browsers = self.browsers.as_ref().map_err(refused)?;
        {
            let sessions = lock(&self.sessions);
            if sessions.contains_key(&id) {
                return Ok(self.key.public());
            }
            if sessions.len() >= SESSIONS_MAX {
                return Err(GatewayError::Busy);
            }
        }
        let tab = browsers.open().await.map_err(|error| refused(&error))?;
        let now = Instant::now();
        let recording = Recording::open(id, request.agent_id, request.purpose, self.clock.now());
        let state = State { tab: Some(tab), recording, ended: None, proof: None };
        let used = Mutex::new((now, None));
        let session = Session { opened: now, used, state: Turnstile::new(state) };
        lock(&self.sessions).insert(id, Arc::new(session));
        Ok(self.key.public())
    }

    fn find(&self, id: SessionId) -> Result<Arc<Session>, GatewayError> {
        lock(&self.sessions).get(&id).cloned().ok_or(GatewayError::UnknownSession)
    }

    async fn act(&self, id: SessionId, request: GatewayAct) -> Result<Acted, GatewayError> {
        let GatewayAct { index, mark, act, tier, price_minor } = request;
        let session = self.find(id)?;
        let mut state = session.state.lock().await;
        match state.recording.place(index, &mark) {
            Place::Done(acted) => return Ok(*acted),
            // Nobody can build on a session that is over, whatever was done in it.
            _ if state.is_over() => return Err(GatewayError::Over { reason: state.reason() }),
            Place::Taken(acted) => return Err(GatewayError::Taken { acted }),
            Place::Elsewhere => return Err(GatewayError::Moved),
            Place::Free => {}
        }
        let (at, started) = (self.clock.now(), Instant::now());
        let done = match (act.action, &mut state.tab) {
            (ActionType::ExportProof, _) => self.export(&state.recording),
            (_, Some(tab)) => tab.act(&act, tier).await,
            (_, None) => return Err(GatewayError::Over { reason: state.reason() }),
        };
        lock(&session.used).0 = Instant::now();
        if let Some(required) = done.needs_tier {
            return Err(GatewayError::TierTooLow { required });
        }
        let outcome = outcome(done);
        if let Some(ErrorReport { detail, .. }) = outcome
            .error
            .as_ref()
            .filter(|e| NOT_BEGUN.contains(&e.code.as_str()) && !outcome.fatal)
        {
            return Err(GatewayError::BadAction { detail: detail.clone() });
        }
        if outcome.fatal {
            let code = outcome.error.as_ref().map_or("browser_crashed", |error| &error.code);
            state.ended = Some(format!("the browser was lost: {code}"));
            state.tab = None;
        }
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let stamp = Stamp { at, duration_ms, price: price_minor };
        state.recording.add(&act, mark, outcome, stamp).map_err(|error| GatewayError::Unreachable {
            detail: format!("a step cannot be written: {error}"),
        })
    }

    /// The proof so far, without what lies beside it.
    fn export(&self, recording: &Recording) -> Done {
        let sealed = self.seal(recording, SessionStatus::Running, None);
        let data = sealed.map(|proof| SessionProof { attachments: vec![], ..proof });
        let data = data.ok().and_then(|proof| serde_json::to_value(proof).ok());
        let data = data.filter(|data| data.to_string().len() <= DATA_LEN_MAX);
        let error = data.is_none().then(|| ErrorReport {
            code: "too_large".to_owned(),
            detail: "the proof so far is too long for one answer: close the session".to_owned(),
        });
        Done { data: data.unwrap_or_default(), error, ..Done::default() }
    }

    async fn close(
        &self,
        id: SessionId,
        request: GatewayClose,
    ) -> Result<SessionProof, GatewayError> {
        let session = self.find(id)?;
        let mut state = session.state.lock().await;
        self.end(&session, &mut state, request)
    }

    fn end(
        &self,
        session: &Session,
        state: &mut State,
        request: GatewayClose,
    ) -> Result<SessionProof, GatewayError> {
        if let Some(proof) = &state.proof {
            return Ok(proof.clone());
        }
        state.tab = None;
        let (status, reason) = match (&state.ended, request.status) {
            (Some(ended), _) => (SessionStatus::Failed, Some(ended.clone())),
            (None, SessionStatus::Completed) => (SessionStatus::Completed, None),
            (None, _) => (SessionStatus::Failed, request.reason),
        };
        let proof = self.seal(&state.recording, status, reason)?;
        state.proof = Some(proof.clone());
        lock(&session.used).1 = Some(Instant::now());
        Ok(proof)
    }

    fn seal(
        &self,
        recording: &Recording,
        status: SessionStatus,
        reason: Option<String>,
    ) -> Result<SessionProof, GatewayError> {
        let sealed = recording.seal(status, reason, self.clock.now(), &self.software, &self.key);
        sealed.map_err(|error| GatewayError::Unreachable {
            detail: format!("the proof cannot be written: {error}"),
        })
    }

    /// Ends what nobody uses, and forgets what nobody asks for.
    fn look_after(&self, now: Instant) {
        let sessions: Vec<_> =
            lock(&self.sessions).iter().map(|(id, session)| (*id, session.clone())).collect();
        let mut closed = Vec::new();
        for (id, session) in sessions {
            let (used, closed_at) = *lock(&session.used);
            if let Some(closed_at) = closed_at {
                closed.push((closed_at, id));
                continue;
            }
            let reason =
                match (now - session.opened > SESSION_LIFE_MAX, now - used > SESSION_IDLE_MAX) {
                    (true, _) => "its time was over",
                    (_, true) => "nothing was done in it for too long",
                    _ => continue,
                };
            // What is under way has a limit of its own.
            let Ok(mut state) = session.state.try_lock() else { continue };
            let reason = Some(reason.to_owned());
            let request = GatewayClose { status: SessionStatus::Failed, reason };
            // A proof that cannot be made now is made when somebody asks for it.
            let _ = self.end(&session, &mut state, request);
        }
        closed.sort_unstable();
        let too_many = closed.len().saturating_sub(KEPT_MAX);
        for (n, (closed_at, id)) in closed.into_iter().enumerate() {
            if n < too_many || now - closed_at > KEPT {
                lock(&self.sessions).remove(&id);
            }
        }
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.ended.is_some() || self.proof.is_some()
    }

    fn reason(&self) -> String {
        self.ended.clone().unwrap_or_else(|| "it was closed".to_owned())
    }
}

async fn sweep(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.look_after(Instant::now());
    }
}

fn outcome(done: Done) -> Outcome {
    let Done { url, data, snippet, input, screenshot, file, fingerprint, error, fatal, .. } = done;
    Outcome { url, data, snippet, input, screenshot, file, fingerprint, error, fatal }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
