//! A session ends: with a proof that fits what was stored, or without one and for nothing.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use skep_base::{Did, Hash32, id::SessionId};
use skep_settle::{
    proof::{chain, link},
    session::{self, Input, step},
    session_proof,
};
use skep_store::{Bug, Load, Lock, RouteKey, Turn};
use skep_wire::{
    conduit::{
        ActionDone, CloseSession, GatewayClose, GatewayError, Session, SessionBundle, SessionProof,
        SessionStatus,
    },
    settle::Attachment,
};

use super::{
    ASSET, OpenSessions, SessionRecord, SessionRefusal, act, attachment_key, hold_id, loaded,
    open_key, proof_key, session_key, step_key,
};
use crate::{
    AgentRecord, Answered, Failure, Market, Signed,
    answer::Stop,
    deal::short,
    identity::agent_key,
    notice,
    score::{Change, ScoreLine, Scored, breadth_key, load_track, session_fact, session_visit},
};

/// How long the gateway may take to end a session: the action under way ends first.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(140);

/// How a session ends.
#[derive(Clone, Debug)]
enum Ending {
    /// As the gateway's proof says, which was checked.
    Proven { proof: Box<SessionProof>, bundle: Box<SessionBundle> },
    /// FAILED, without a proof.
    Lost { reason: String },
}

impl Market {
    /// What the gateway has sealed is written down before the request itself is judged: a proof
    /// that nobody stored would be lost, and with it what was earned.
    pub(super) async fn close_session(
        &self,
        signed: &Signed,
        id: SessionId,
        request: CloseSession,
    ) -> Result<Answered<Session>, Failure> {
        self.caller(signed).await?;
        let record = self.own_session(&signed.agent, id).await?;
        let (input, status) = match request.failed {
            None => (Input::Complete, SessionStatus::Completed),
            Some(_) => (Input::Fail, SessionStatus::Failed),
        };
        // One that is over is refused inside, where a retry hears what it heard before.
        let is_ours = match step(record.status, input) {
            Ok(_) => {
                let wanted = GatewayClose { status, reason: request.failed.map(short) };
                let ending = self.ending(&record, id, wanted).await?;
                self.write_end(id, &record, ending).await?.1
            }
            Err(session::Refusal::Over { .. }) => false,
            Err(reason) => return Err(SessionRefusal::from(reason).into()),
        };
        let load = Load { records: vec![(session_key(&id), Lock::None)], ..Load::default() };
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id)?;
            if !is_ours {
                step(record.status, input).map_err(SessionRefusal::from)?;
            }
            Ok(record.view(id))
        })
        .await
    }

    /// Nobody goes on with a session. What was recorded is sealed if the gateway still has it.
    pub(super) async fn session_fail(
        &self,
        id: SessionId,
        reason: &str,
    ) -> Result<Session, Failure> {
        let known: Option<SessionRecord> = self.read(session_key(&id)).await?;
        let record = known.ok_or(SessionRefusal::UnknownSession { session: id })?;
        if record.is_over() {
            return Ok(record.view(id));
        }
        let wanted =
            GatewayClose { status: SessionStatus::Failed, reason: Some(reason.to_owned()) };
        let ending = self.ending(&record, id, wanted).await?;
        Ok(self.write_end(id, &record, ending).await?.0)
    }

    /// The same where the gateway is given up.
    pub(super) async fn session_lose(&self, id: SessionId) -> Result<Session, Failure> {
        let known: Option<SessionRecord> = self.read(session_key(&id)).await?;
        let record = known.ok_or(SessionRefusal::UnknownSession { session: id })?;
        let reason = "the gateway cannot be reached".to_owned();
        Ok(self.write_end(id, &record, Ending::Lost { reason }).await?.0)
    }

    /// The session as it ended, and whether it did so here.
    async fn write_end(
        &self,
        id: SessionId,
        record: &SessionRecord,
        ending: Ending,
    ) -> Result<(Session, bool), Failure> {
        let agent = self.agent_record(&record.agent).await?.agent;
        let (mut load, market) = (load_end(&id, record, &ending), self.clone());
        load_track(&mut load, &agent.agent_id, &agent.operator, Lock::Exclusive);
        load.records.push((breadth_key(&agent.agent_id), Lock::Exclusive));
        let operator = agent.operator;
        let ended = self.run(load, vec![], move |turn| match loaded(turn, &id)? {
            over if over.is_over() => Ok((over.view(id), false)),
            _ => Ok((market.end(turn, &id, &ending, &operator)?, true)),
        });
        Ok(ended.await?.value)
    }

    /// Asks the gateway for the proof, and checks it against the session's key.
    async fn ending(
        &self,
        record: &SessionRecord,
        id: SessionId,
        wanted: GatewayClose,
    ) -> Result<Ending, Failure> {
        let gateway = self.gateway_of(record)?;
        let asked = tokio::time::timeout(CLOSE_TIME_MAX, gateway.close(id, wanted)).await;
        let lost = |reason: &str| Ok(Ending::Lost { reason: reason.to_owned() });
        let proof = match asked {
            Ok(Ok(proof)) => proof,
            Ok(Err(GatewayError::UnknownSession)) => return lost("the gateway lost the session"),
            Ok(Err(error)) => {
                let detail = error.to_string();
                return Err(SessionRefusal::GatewayUnavailable { detail }.into());
            }
            Err(_) => {
                let detail = "it took too long".to_owned();
                return Err(SessionRefusal::GatewayUnavailable { detail }.into());
            }
        };
        let bundle = match session_proof::check(&proof, Some(&record.gateway)) {
            Ok(bundle) => bundle,
            Err(fault) => {
                tracing::error!(session = %id, %fault, "a gateway's proof is bad");
                return lost("the gateway's proof is bad");
            }
        };
        let is_over = matches!(bundle.status, SessionStatus::Completed | SessionStatus::Failed);
        if bundle.session_id != id || bundle.agent_id != record.agent || !is_over {
            tracing::error!(session = %id, "a gateway's proof is about something else");
            return lost("the gateway's proof is bad");
        }
        Ok(Ending::Proven { proof: Box::new(proof), bundle: Box::new(bundle) })
    }

    /// Ends a session in a turn: steps that were never stored, the proof, the money.
    fn end(
        &self,
        turn: &mut Turn,
        id: &SessionId,
        ending: &Ending,
        operator: &Did,
    ) -> Result<Session, Stop> {
        let mut record = loaded(turn, id)?;
        let ending = match ending {
            // Nothing but the steps that are stored, and perhaps some more.
            Ending::Proven { bundle, .. } if !continues(&record, &bundle.action_log)? => {
                tracing::error!(session = %id, "a gateway's proof is not what was stored");
                &Ending::Lost { reason: "the gateway's proof is bad".to_owned() }
            }
            ending => ending,
        };
        let (input, reason) = match ending {
            Ending::Proven { bundle, .. } => match bundle.status {
                SessionStatus::Completed => (Input::Complete, None),
                _ => (Input::Fail, bundle.reason.clone()),
            },
            Ending::Lost { reason } => (Input::Fail, Some(reason.clone())),
        };
        // What was done last may not be stored yet.
        if let Ending::Proven { proof, bundle } = ending {
            step(record.status, Input::Fail).map_err(SessionRefusal::from)?;
            self.add_missing(turn, id, &mut record, bundle, proof)?;
            let slim = SessionProof { attachments: vec![], ..(**proof).clone() };
            turn.put(&proof_key(id), &slim)?;
            record.proven = true;
        }
        record.status = step(record.status, input).map_err(SessionRefusal::from)?;
        record.reason = reason;
        record.closed_at = Some(turn.now());
        settle(turn, id, &mut record)?;
        turn.put(&session_key(id), &record)?;
        let open = open_key(&record.agent);
        let mut others: OpenSessions = turn.record(&open)?.unwrap_or_default();
        others.ids.retain(|other| other != id);
        turn.put(&open, &others)?;
        let mut change = Change::default();
        if let Ending::Proven { proof, bundle } = ending {
            change.fact = session_fact(id, bundle, proof.proof_hash, turn.now());
            let visit = || session_visit(bundle, record.cost, ASSET);
            change.visit = change.fact.as_ref().map(|_| visit());
        }
        let line = self.count(turn, Scored { agent: record.agent, operator }, change)?;
        tell(turn, id, &record, &line)?;
        Ok(record.view(*id))
    }

    fn add_missing(
        &self,
        turn: &mut Turn,
        id: &SessionId,
        record: &mut SessionRecord,
        bundle: &SessionBundle,
        proof: &SessionProof,
    ) -> Result<(), Stop> {
        for event in bundle.action_log.iter().skip(record.actions as usize) {
            let price = self.conduit.prices.of(act::action_of(event)?);
            let head = link(record.head, event).map_err(|e| Bug(e.to_string()))?;
            let attachments = beside(event, &proof.attachments);
            let event = event.clone();
            let done = ActionDone { event, head, data: Value::Null, attachments, error: None };
            record.status = step(record.status, Input::Act).map_err(SessionRefusal::from)?;
            act::add(turn, id, record, &done, price)?;
        }
        Ok(())
    }
}

/// Pays what the session cost, and frees the rest. Without a proof nothing is paid.
fn settle(turn: &mut Turn, id: &SessionId, record: &mut SessionRecord) -> Result<(), Stop> {
    if !record.proven {
        record.cost = skep_base::Amount::ZERO;
    }
    if record.max_cost.is_zero() {
        return Ok(());
    }
    match record.cost.is_zero() {
        true => turn.book.void(hold_id(id), id.derive("freed"))?,
        false => turn.book.post(hold_id(id), id.derive("cost"), Some(record.cost))?,
    };
    Ok(())
}

/// Whether a log begins with the steps that are stored.
fn continues(record: &SessionRecord, log: &[Value]) -> Result<bool, Bug> {
    let Some(stored) = log.get(..record.actions as usize) else { return Ok(false) };
    Ok(chain(stored).map_err(|e| Bug(e.to_string()))? == record.head)
}

/// The attachments that an event names.
fn beside(event: &Value, all: &[Attachment]) -> Vec<Attachment> {
    let named: BTreeSet<&str> = ["screenshot_sha256", "data_sha256"]
        .into_iter()
        .filter_map(|name| event.get(name)?.as_str())
        .collect();
    let is_named = |kept: &&Attachment| named.contains(kept.sha256.to_string().as_str());
    all.iter().filter(is_named).cloned().collect()
}

fn load_end(id: &SessionId, record: &SessionRecord, ending: &Ending) -> Load {
    let mut keys = vec![session_key(id), proof_key(id), open_key(&record.agent)];
    if let Ending::Proven { proof, bundle } = ending {
        let log = &bundle.action_log;
        let count = u32::try_from(log.len()).unwrap_or(u32::MAX);
        keys.extend((record.actions..count).map(|index| step_key(id, index)));
        let missing = log.iter().skip(record.actions as usize);
        let kept: BTreeSet<Hash32> = missing
            .flat_map(|event| beside(event, &proof.attachments))
            .map(|kept| kept.sha256)
            .collect();
        keys.extend(kept.iter().map(|sha256| attachment_key(id, sha256)));
    }
    let mut records: Vec<_> = keys.into_iter().map(|key| (key, Lock::Exclusive)).collect();
    records.push((agent_key(&record.agent), Lock::None));
    let transfers = vec![(RouteKey::of(id), hold_id(id))];
    Load { records, transfers, ..Load::default() }
}

fn tell(
    turn: &mut Turn,
    id: &SessionId,
    record: &SessionRecord,
    line: &ScoreLine,
) -> Result<(), Stop> {
    let route = RouteKey::of(id);
    let mut told = json!({
        "session_id": id, "agent_id": record.agent, "status": record.status,
        "reason": record.reason, "actions": record.actions, "cost_minor": record.cost,
        "head": record.head, "proven": record.proven,
    });
    let line = serde_json::to_value(line).map_err(|e| Bug(e.to_string()))?;
    if let (Some(told), Value::Object(line)) = (told.as_object_mut(), line) {
        told.extend(line);
    }
    let event = turn.event(&route, "session.closed", &told, &[record.agent])?;
    let agent: Option<AgentRecord> = turn.record(&agent_key(&record.agent))?;
    let agents: Vec<&AgentRecord> = agent.iter().collect();
    notice::tell(turn, event, "session.closed", &route, &agents, &told)?;
    Ok(())
}
