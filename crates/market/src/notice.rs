//! Notices: what agents are told by webhook, after Standard Webhooks.
//!
//! A notice is written as a job with the event that it tells of, so that it is neither lost nor
//! sent for something that did not happen. It may arrive twice; its id is the event's, so that a
//! receiver can tell.

mod log;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use skep_base::{
    AgentId, Timestamp,
    hash::sha256_parts,
    id::{EventId, JobId},
};
use skep_store::{Bug, Job, JobDraft, JobEnd, Load, RouteKey, StoreError, Turn};
use skep_wire::notice::{NodeKeys, WebhookKey, WebhookOutcome, sign};

use crate::{AgentRecord, EgressFailure, Failure, Market, identity::agent_key, read::next};

#[cfg(test)]
mod tests;

/// The job that delivers a notice.
pub(crate) const WEBHOOK_JOB: &str = "webhook";

/// The job that looks up where those are told whom a step did not load.
pub(crate) const REACH_JOB: &str = "notice.reach";

/// How long a receiver may take: a lease must not run out meanwhile.
const POST_TIME_MAX: Duration = Duration::from_secs(20);
/// How long after each failure a notice is tried again; after one more it is given up. Two days in
/// all: a receiver may be down over a night.
const RETRY_AFTER: [Duration; 10] = {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 3600;
    [
        Duration::from_secs(5),
        Duration::from_secs(30),
        Duration::from_secs(2 * MINUTE),
        Duration::from_secs(10 * MINUTE),
        Duration::from_secs(30 * MINUTE),
        Duration::from_secs(HOUR),
        Duration::from_secs(3 * HOUR),
        Duration::from_secs(6 * HOUR),
        Duration::from_secs(12 * HOUR),
        Duration::from_secs(24 * HOUR),
    ]
};
/// The part of a wait by which it may be shorter or longer: what failed together does not come
/// back together.
const JITTER_PERCENT: u32 = 10;
/// The receiver wants no more of this.
const STATUS_GONE: u16 = 410;
/// The receiver is there, and wants less for now.
const STATUS_TOO_MANY: u16 = 429;

/// The codes of attempts that never left the node.
const TIMEOUT: &str = "timeout";
const NO_KEY: &str = "no_webhook_key";

/// What is sent, as Standard Webhooks wants it.
#[derive(Debug, Serialize)]
struct Payload<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: Timestamp,
    data: &'a T,
}

/// A notice on its way. The address is not in it: the agent may change that meanwhile.
#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    agent_id: AgentId,
    event_id: EventId,
    kind: String,
    /// The very bytes that are signed and sent on each attempt.
    payload: Box<RawValue>,
}

/// A notice for agents whose addresses are still to be looked up.
#[derive(Debug, Serialize, Deserialize)]
struct Later {
    agents: Vec<AgentId>,
    event_id: EventId,
    kind: String,
    payload: Box<RawValue>,
}

/// What came back: a status, or why none did.
type Reply = Result<u16, EgressFailure>;

/// Where an agent is told of things: all of its record that this takes.
#[derive(Debug, Deserialize)]
struct Reach {
    #[serde(default)]
    webhook_url: Option<String>,
}

/// Tells agents of an event, those that have a webhook, after the commit.
pub(crate) fn tell(
    turn: &mut Turn,
    event: EventId,
    kind: &str,
    route: &RouteKey,
    to: &[&AgentRecord],
    body: &impl Serialize,
) -> Result<(), Bug> {
    for record in to {
        let Some(url) = &record.webhook_url else { continue };
        post(turn, event, kind, route, (record.agent.agent_id, url), body)?;
    }
    Ok(())
}

/// The same for agents whose records are loaded and not read yet. Who is not registered has no
/// webhook.
pub(crate) fn tell_loaded(
    turn: &mut Turn,
    event: EventId,
    kind: &str,
    route: &RouteKey,
    to: &[AgentId],
    body: &impl Serialize,
) -> Result<(), Bug> {
    for agent in to {
        let reach: Option<Reach> = turn.record(&agent_key(agent))?;
        let Some(url) = reach.and_then(|reach| reach.webhook_url) else { continue };
        post(turn, event, kind, route, (*agent, &url), body)?;
    }
    Ok(())
}

/// The same for agents whom the step has not loaded: it is looked up after the commit whether they
/// have a webhook, so that no step loads records for what seldom happens.
pub(crate) fn tell_later(
    turn: &mut Turn,
    event_id: EventId,
    kind: &str,
    route: &RouteKey,
    agents: Vec<AgentId>,
    body: &impl Serialize,
) -> Result<(), Bug> {
    if agents.is_empty() {
        return Ok(());
    }
    let payload = payload(turn, kind, body)?;
    let later = Later { agents, event_id, kind: kind.to_owned(), payload };
    let (body, due_at) = (to_text(&later)?, turn.now());
    let (route, destination) = (route.clone(), String::new());
    turn.job(JobDraft { route, kind: REACH_JOB, destination, due_at, body });
    Ok(())
}

fn post(
    turn: &mut Turn,
    event: EventId,
    kind: &str,
    route: &RouteKey,
    (agent_id, url): (AgentId, &str),
    body: &impl Serialize,
) -> Result<(), Bug> {
    let payload = payload(turn, kind, body)?;
    let notice = Notice { agent_id, event_id: event, kind: kind.to_owned(), payload };
    send(turn, route.clone(), url, to_text(&notice)?);
    Ok(())
}

fn payload(turn: &Turn, kind: &str, body: &impl Serialize) -> Result<Box<RawValue>, Bug> {
    let payload = Payload { kind, timestamp: turn.now(), data: body };
    serde_json::value::to_raw_value(&payload).map_err(unwritable)
}

fn to_text(notice: &impl Serialize) -> Result<String, Bug> {
    serde_json::to_string(notice).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Bug {
    Bug(format!("a notice is not JSON: {error}"))
}

fn send(turn: &mut Turn, route: RouteKey, url: &str, body: String) {
    let due_at = turn.now();
    let destination = origin(url);
    turn.job(JobDraft { route, kind: WEBHOOK_JOB, destination, due_at, body });
}

impl Market {
    /// Looks up where agents are told of an event, and has it sent there.
    pub(crate) async fn finish_reach(&self, job: Job) -> Result<(), Failure> {
        let Ok(Later { agents, event_id, kind, payload }) = serde_json::from_str(&job.body) else {
            self.store.fail_job(job, "the job names nobody".to_owned(), None).await?;
            return Ok(());
        };
        let mut records = self.read_all(agents.iter().map(agent_key).collect()).await?;
        let mut notices = Vec::new();
        for agent_id in agents {
            let reach: Option<Reach> = next(&mut records)?;
            let Some(url) = reach.and_then(|reach| reach.webhook_url) else { continue };
            let (kind, payload) = (kind.clone(), payload.clone());
            let notice = Notice { agent_id, event_id, kind, payload };
            notices.push((url, to_text(&notice).map_err(StoreError::from)?));
        }
        let sent = self.run(Load::default(), vec![], move |turn| {
            turn.end_job(JobEnd { route: job.route.clone(), id: job.id });
            for (url, notice) in &notices {
                send(turn, job.route.clone(), url, notice.clone());
            }
            Ok(())
        });
        sent.await.map(drop)
    }

    /// The keys that this node signs with.
    pub fn node_keys(&self) -> NodeKeys {
        NodeKeys {
            log: self.log_key.public(),
            settlement: self.settlement_key.public(),
            webhook: self.webhook_key.as_ref().map(|key| WebhookKey(key.public())),
        }
    }

    /// Makes one attempt to deliver a notice, and notes what came of it.
    pub(crate) async fn deliver(&self, job: &Job) -> Result<(), Failure> {
        let notice: Notice = serde_json::from_str(&job.body)
            .map_err(|e| StoreError::Bug(Bug(format!("a notice is unreadable: {e}"))))?;
        let record = self.agent_record(&notice.agent_id).await?;
        let url = match record.webhook_url {
            Some(url) if origin(&url) == job.destination => url,
            moved => return self.send_elsewhere(job, moved).await,
        };
        let reply = self.post_notice(&notice, url).await?;
        let retry_at = match self.log_attempt(job, notice, reply.clone()).await? {
            outcome if ends(&reply, outcome) => return Ok(()),
            WebhookOutcome::Retry { retry_at } => Some(retry_at),
            WebhookOutcome::Delivered | WebhookOutcome::GivenUp => None,
        };
        let destination = match is_hosts_fault(&reply) {
            true => job.destination.clone(),
            false => String::new(),
        };
        let job = Job { destination, ..job.clone() };
        self.store.fail_job(job, error_text(&reply), retry_at).await?;
        Ok(())
    }

    async fn post_notice(&self, notice: &Notice, url: String) -> Result<Reply, Failure> {
        let failed = |code: &str, detail: &str| {
            Err(EgressFailure { code: code.to_owned(), detail: detail.to_owned() })
        };
        let (Some(egress), Some(key)) = (&self.egress, &self.webhook_key) else {
            return Ok(failed(NO_KEY, "this node cannot sign notices"));
        };
        // Receivers compare it with their own clocks.
        let at = self.outside()(self.store.now().await?);
        let body = notice.payload.get().as_bytes().to_vec();
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let signed = sign(key, &notice.event_id, at, &body);
        headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        let posted = tokio::time::timeout(POST_TIME_MAX, egress.post(url, headers, body)).await;
        Ok(posted.unwrap_or_else(|_| failed(TIMEOUT, "the receiver took too long")))
    }

    /// The agent has another webhook by now, or none: limits and breakers go by host, so the
    /// notice begins anew there.
    async fn send_elsewhere(&self, job: &Job, url: Option<String>) -> Result<(), Failure> {
        let job = job.clone();
        let moved = self.run(Load::default(), vec![], move |turn| {
            turn.end_job(JobEnd { route: job.route.clone(), id: job.id });
            if let Some(url) = &url {
                send(turn, job.route.clone(), url, job.body.clone());
            }
            Ok(())
        });
        moved.await.map(|_| ())
    }
}

/// What follows from an attempt, the `attempts`th of the job.
fn outcome(reply: &Reply, job: &JobId, attempts: i64, now: Timestamp) -> WebhookOutcome {
    match reply {
        Ok(200..=299) => return WebhookOutcome::Delivered,
        Ok(STATUS_GONE) => return WebhookOutcome::GivenUp,
        Ok(_) | Err(_) => {}
    }
    let nth = usize::try_from(attempts - 1).unwrap_or_default();
    match RETRY_AFTER.get(nth) {
        Some(wait) => WebhookOutcome::Retry { retry_at: now.plus(jittered(*wait, job, attempts)) },
        None => WebhookOutcome::GivenUp,
    }
}

/// A receiver that has the notice, or wants it no more, has answered: nobody needs to look. One
/// that never did leaves a dead job behind for the operator.
fn ends(reply: &Reply, outcome: WebhookOutcome) -> bool {
    outcome == WebhookOutcome::Delivered || *reply == Ok(STATUS_GONE)
}

/// The same attempt of the same job always waits as long: chance has no place in a step.
fn jittered(wait: Duration, job: &JobId, attempts: i64) -> Duration {
    let hash = sha256_parts(&[job.as_bytes(), &attempts.to_be_bytes()]);
    let [a, b, ..] = hash.as_bytes();
    let part = u32::from(u16::from_be_bytes([*a, *b]));
    let span = wait * JITTER_PERCENT / 100;
    wait - span + span * 2 * part / u32::from(u16::MAX)
}

/// Whether the whole host is in trouble, not only the one address: only then others on it are
/// left alone too.
fn is_hosts_fault(reply: &Reply) -> bool {
    match reply {
        Ok(status) => *status >= 500 || *status == STATUS_TOO_MANY,
        Err(failure) => failure.code != NO_KEY,
    }
}

fn error_text(reply: &Reply) -> String {
    match reply {
        Ok(status) => format!("the receiver answered {status}"),
        Err(failure) => failure.to_string(),
    }
}

/// `scheme://host:port`, one text for one host.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    // The colons of an IPv6 address are within brackets.
    let after_host = authority.rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
    match (after_host.contains(':'), scheme) {
        (true, _) => format!("{scheme}://{authority}"),
        (false, "http") => format!("http://{authority}:80"),
        (false, _) => format!("{scheme}://{authority}:443"),
    }
}
