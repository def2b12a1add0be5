//! A verifier: reads what it is asked, looks with its engines, and sends sealed proofs.
//!
//! It is the same whether it runs inside a node or as a process of its own: a [`Desk`] is where
//! its work comes from and goes to.

use std::{fmt::Display, time::Duration};

use serde::Deserialize;
use skep_base::{
    AgentId, Clock, Hash32, Timestamp,
    ed25519::SecretKey,
    id::{DealId, VerificationId},
};
use skep_probe::{Engines, Examination};
use skep_settle::proof;
use skep_wire::{
    Page,
    settle::{
        Action, Agreement, Outcome, ProofBundle, SplitVerdict, Verification, VerificationCallback,
        VerificationRequest, VerificationStatus, VerifierStamp,
    },
    wallet::EventLine,
};
use tokio::task::JoinSet;

/// What a bundle says of the program that made it.
pub const SOFTWARE: &str = concat!("skep/", env!("CARGO_PKG_VERSION"));
/// Work under way at the same time.
const UNDER_WAY_MAX: usize = 32;
/// How often a piece of work is tried while the desk is away; the pauses double.
const TRIES_MAX: u32 = 8;
/// How long a verifier waits when there is nothing to do.
const PAUSE: Duration = Duration::from_millis(200);
/// How long it waits after the desk has failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(2);
/// An engine that takes no time needs no acknowledgement before its verdict.
const INSTANT: &str = skep_wire::settle::engine::ARTIFACT;

/// Where a verifier's work comes from and goes to.
pub trait Desk: Clone + Send + Sync + 'static {
    type Error: Display + Send;

    /// Whether the desk has said no, so that asking again is of no use.
    fn is_final(error: &Self::Error) -> bool;

    fn inbox(
        &self,
        cursor: Option<String>,
    ) -> impl Future<Output = Result<Page<EventLine>, Self::Error>> + Send;
    fn verification(
        &self,
        id: VerificationId,
    ) -> impl Future<Output = Result<Verification, Self::Error>> + Send;
    fn agreement(&self, id: DealId) -> impl Future<Output = Result<Agreement, Self::Error>> + Send;
    fn acknowledge(
        &self,
        id: VerificationId,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
    fn callback(
        &self,
        callback: VerificationCallback,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
    fn baseline(
        &self,
        id: DealId,
        fingerprint: Hash32,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Desk for skep_sdk::Client {
    type Error = skep_sdk::Error;

    fn is_final(error: &skep_sdk::Error) -> bool {
        matches!(error, skep_sdk::Error::Problem { problem, .. } if !problem.retryable)
    }

    async fn inbox(&self, cursor: Option<String>) -> Result<Page<EventLine>, skep_sdk::Error> {
        self.inbox(cursor.as_deref(), Some(100)).await
    }

    async fn verification(&self, id: VerificationId) -> Result<Verification, skep_sdk::Error> {
        self.verification(id).await
    }

    async fn agreement(&self, id: DealId) -> Result<Agreement, skep_sdk::Error> {
        self.agreement(id).await
    }

    async fn acknowledge(&self, id: VerificationId) -> Result<(), skep_sdk::Error> {
        self.acknowledge(id).await.map(|_| ())
    }

    async fn callback(&self, callback: VerificationCallback) -> Result<(), skep_sdk::Error> {
        skep_sdk::Client::callback(self, &callback).await.map(|_| ())
    }

    async fn baseline(&self, id: DealId, fingerprint: Hash32) -> Result<(), skep_sdk::Error> {
        self.baseline(id, fingerprint).await.map(|_| ())
    }
}

/// Who verifies, with which keys.
#[derive(Debug)]
pub struct Identity {
    pub agent: AgentId,
    /// Signs as the agent: 5.4.
    pub agent_key: SecretKey,
    /// Signs proofs.
    pub key: SecretKey,
    pub kid: String,
}

/// The part of an event that a verifier acts on.
#[derive(Debug, Deserialize)]
struct Notice {
    negotiation_id: DealId,
    verification: Option<Asked>,
    baseline_by: Option<AgentId>,
}

#[derive(Debug, Deserialize)]
struct Asked {
    verification_id: VerificationId,
    verifier: Option<AgentId>,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Verify(VerificationId),
    Baseline(DealId),
}

/// A verifier with its engines.
#[derive(Debug)]
pub struct Verifier {
    identity: Identity,
    engines: Engines,
    clock: std::sync::Arc<dyn Clock>,
}

impl Verifier {
    pub fn new(identity: Identity, engines: Engines, clock: std::sync::Arc<dyn Clock>) -> Verifier {
        Verifier { identity, engines, clock }
    }

    pub fn agent(&self) -> AgentId {
        self.identity.agent
    }

    /// Works until the future is dropped. `keep` is told how far the inbox has been dealt with, so
    /// that a restart goes on from there; what was dealt with twice is answered once.
    pub async fn run<D: Desk>(
        self: std::sync::Arc<Verifier>,
        desk: D,
        mut cursor: Option<String>,
        mut keep: impl FnMut(&str) + Send,
    ) {
        let mut under_way: JoinSet<Work> = JoinSet::new();
        let mut busy: Vec<Work> = Vec::new();
        loop {
            while let Some(done) = under_way.try_join_next() {
                forget(&mut busy, done);
            }
            let page = match desk.inbox(cursor.clone()).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "the verifier cannot read its inbox");
                    tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                    continue;
                }
            };
            for work in self.work_of(&page.items) {
                // Its own acknowledgement comes back as news.
                if busy.contains(&work) {
                    continue;
                }
                if under_way.len() >= UNDER_WAY_MAX
                    && let Some(done) = under_way.join_next().await
                {
                    forget(&mut busy, done);
                }
                busy.push(work);
                let (me, desk) = (self.clone(), desk.clone());
                under_way.spawn(async move {
                    me.see_to(&desk, work).await;
                    work
                });
            }
            if let Some(last) = page.items.last() {
                cursor = Some(last.seq.to_string());
                continue;
            }
            // Only what is done is done: a restart looks again at what was under way.
            if let (true, Some(cursor)) = (under_way.is_empty(), &cursor) {
                keep(cursor);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Does a piece of work, again if the desk was away.
    async fn see_to<D: Desk>(&self, desk: &D, work: Work) {
        let mut pause = PAUSE_AFTER_FAILURE;
        for _ in 0..TRIES_MAX {
            let done = match work {
                Work::Verify(id) => self.verify(desk, id).await.map(|()| true),
                Work::Baseline(id) => self.take_baseline(desk, id).await,
            };
            match done {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if D::is_final(&error) => {
                    tracing::warn!(%error, ?work, "the verifier's answer was refused");
                    return;
                }
                Err(error) => tracing::warn!(%error, ?work, "the verifier could not answer"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// What a page of the inbox asks for.
    fn work_of(&self, lines: &[EventLine]) -> Vec<Work> {
        let me = Some(self.identity.agent);
        let mut work = Vec::new();
        for line in lines {
            let Ok(notice) = serde_json::from_str::<Notice>(&line.body) else { continue };
            if notice.baseline_by == me {
                work.push(Work::Baseline(notice.negotiation_id));
            }
            if let Some(asked) = notice.verification.filter(|asked| asked.verifier == me) {
                work.push(Work::Verify(asked.verification_id));
            }
        }
        work.dedup();
        work
    }

    /// Looks at one piece of work, unless that was done already.
    pub async fn verify<D: Desk>(&self, desk: &D, id: VerificationId) -> Result<(), D::Error> {
        let verification = desk.verification(id).await?;
        let open = matches!(
            verification.status,
            VerificationStatus::Pending | VerificationStatus::Running
        );
        if !open || verification.verifier != Some(self.identity.agent) {
            return Ok(());
        }
        if verification.kind != INSTANT && verification.status == VerificationStatus::Pending {
            desk.acknowledge(id).await?;
        }
        let started_at = self.clock.now();
        let examined = self.engines.examine(&verification.request).await;
        let callback = self.seal(&verification.request, examined, started_at);
        match callback {
            Ok(callback) => desk.callback(callback).await,
            Err(error) => {
                tracing::error!(%error, %id, "a proof cannot be written as canonical JSON");
                Ok(())
            }
        }
    }

    /// Says whether there is nothing left to do: a page that cannot be reached now is tried again.
    async fn take_baseline<D: Desk>(&self, desk: &D, id: DealId) -> Result<bool, D::Error> {
        let agreement = desk.agreement(id).await?;
        if agreement.baseline_taken || agreement.delivered_at.is_some() {
            return Ok(true);
        }
        if agreement.criteria.url.is_none() {
            return Ok(true);
        }
        match self.engines.fingerprint(&agreement.criteria).await {
            Ok(fingerprint) => desk.baseline(id, fingerprint).await.map(|()| true),
            Err(error) => {
                tracing::info!(code = error.code, %id, "no baseline could be taken yet");
                Ok(false)
            }
        }
    }

    /// Seals what the engines found.
    pub fn seal(
        &self,
        request: &VerificationRequest,
        examined: Examination,
        started_at: Timestamp,
    ) -> Result<VerificationCallback, skep_base::json::CanonicalError> {
        let completed_at = self.clock.now();
        let Identity { agent, agent_key, key, kid } = &self.identity;
        let actions = examined.actions.iter().map(serde_json::to_value);
        let bundle = ProofBundle {
            outcome: examined.outcome,
            failure_reason: examined.failure_reason,
            error: examined.error,
            action_log: actions.collect::<Result<_, _>>().unwrap_or_default(),
            fingerprints: examined.fingerprints,
            artifact_hashes: examined.artifact_hashes,
            agent_identity: Some(proof::identify(*agent, agent_key, completed_at)),
            ..blank(request, stamp(*agent, kid), (started_at, completed_at))
        };
        let sealed = proof::seal(bundle, examined.extracted_content, key)?;
        Ok(VerificationCallback { attachments: examined.attachments, ..sealed })
    }
}

/// What is done is no longer under way; what panicked is looked at again after a restart.
fn forget(busy: &mut Vec<Work>, done: Result<Work, tokio::task::JoinError>) {
    if let Ok(done) = done {
        busy.retain(|work| *work != done);
    }
}

/// Who made a bundle.
pub fn stamp(agent: AgentId, kid: &str) -> VerifierStamp {
    VerifierStamp { id: agent, kid: kid.to_owned(), software: SOFTWARE.to_owned() }
}

/// What a person decided, and why.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub outcome: Outcome,
    /// `REVIEW` for a reviewer, `APPROVE` or `REJECT` for a requester.
    pub action: &'static str,
    pub reason: String,
    /// A reviewer's division of the price.
    pub split: Option<SplitVerdict>,
    pub supersedes: Option<VerificationId>,
}

/// Seals a person's verdict: its log has a single entry, which documents the decision (7.3).
pub fn seal_judgement(
    request: &VerificationRequest,
    identity: &Identity,
    judgement: Judgement,
    at: Timestamp,
) -> Result<VerificationCallback, skep_base::json::CanonicalError> {
    let Judgement { outcome, action, reason, split, supersedes } = judgement;
    let Identity { agent, agent_key, key, kid } = identity;
    let entry = Action {
        success: true,
        data_snippet: Some(reason.clone()),
        ..Action::begun(0, action, at)
    };
    let bundle = ProofBundle {
        outcome,
        failure_reason: (!outcome.passed()).then_some(reason),
        action_log: serde_json::to_value(entry).into_iter().collect(),
        agent_identity: Some(proof::identify(*agent, agent_key, at)),
        supersedes,
        split,
        ..blank(request, stamp(*agent, kid), (at, at))
    };
    proof::seal(bundle, None, key)
}

/// A bundle about a request with nothing found yet; sealing it fills in the hashes.
pub fn blank(
    request: &VerificationRequest,
    verifier: VerifierStamp,
    (started_at, completed_at): (Timestamp, Timestamp),
) -> ProofBundle {
    ProofBundle {
        format: String::new(),
        verification_id: request.verification_id,
        negotiation_id: request.negotiation_id,
        escrow_ref: request.context.escrow_ref,
        terms_hash: request.terms_hash,
        spec: request.spec.clone(),
        outcome: Outcome::Error,
        failure_reason: None,
        error: None,
        extracted_content_sha256: None,
        action_log: Vec::new(),
        action_log_head: None,
        chain_alg: String::new(),
        fingerprints: Default::default(),
        artifact_hashes: Vec::new(),
        verifier,
        agent_identity: None,
        supersedes: None,
        split: None,
        started_at,
        completed_at,
    }
}
