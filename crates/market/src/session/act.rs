//! One action of a session: asked of the gateway, then stored.

use std::time::Duration;

use serde_json::{Value, json};
use skep_base::{Amount, id::SessionId};
use skep_settle::{
    proof::link,
    session::{self, Input, gate, step},
};
use skep_store::{Bug, Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::{
    conduit::{Act, Acted, ActionDone, ActionType, GatewayAct, GatewayError, RequestMark, Session},
    settle::Tier,
};

use super::{
    ASKED, Asked, SessionRecord, SessionRefusal, StepRecord, asked_key, attachment_key, loaded,
    session_key, step_key,
};
use crate::{Answered, Failure, Market, Refusal, Signed, answer::Stop};

/// How long the gateway may take for one action: a crawl takes two minutes.
pub const ACT_TIME_MAX: Duration = Duration::from_secs(140);
/// How often an action is tried that others were faster than.
const TRIES_MAX: u32 = 8;
/// Between two such tries.
const TRY_PAUSE: Duration = Duration::from_millis(20);

/// An action that the rules allow, at the place that it would have.
struct Allowed {
    index: u32,
    tier: Tier,
    price: Amount,
}

impl Market {
    /// What is refused changes nothing and costs nothing; what fails on the page is recorded, and
    /// costs its price.
    pub(super) async fn act_in_session(
        &self,
        signed: &Signed,
        id: SessionId,
        act: Act,
    ) -> Result<Answered<ActionDone>, Failure> {
        let asked = asked_key(RouteKey::of(id), signed);
        let mark = RequestMark { key: asked.id.clone(), fingerprint: signed.fingerprint };
        for _ in 0..TRIES_MAX {
            if let Some(index) = self.asked_before(&asked, signed).await? {
                return Ok(Answered { value: self.done(&id, index).await?, replayed: true });
            }
            let allowed = self.allowed(signed, id, act.action).await?;
            let (index, price) = (allowed.index, allowed.price);
            let acted = match self.ask(id, &act, &mark, allowed).await? {
                Ok(acted) => acted,
                // Done before and never stored: that comes first.
                Err(GatewayError::Taken { acted }) => {
                    self.store_lost(id, &acted).await?;
                    continue;
                }
                Err(GatewayError::Moved) => {
                    tokio::time::sleep(TRY_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(self.lost(id, error).await?),
            };
            let stored = self.store_step(signed, id, &acted, price).await;
            let replayed = match stored {
                Ok(answer) => answer.replayed,
                Err(Failure::Refused(Refusal::Session { reason: SessionRefusal::AskAgain })) => {
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            if acted.fatal {
                self.session_fail(id, "the browser was lost").await?;
            }
            return Ok(Answered { value: self.done(&id, index).await?, replayed });
        }
        Err(SessionRefusal::Busy.into())
    }

    async fn allowed(
        &self,
        signed: &Signed,
        id: SessionId,
        action: ActionType,
    ) -> Result<Allowed, Failure> {
        let tier = self.caller(signed).await?;
        let record = self.own_session(&signed.agent, id).await?;
        let price = self.conduit.prices.of(action);
        gate(&record.account(), tier, action, price).map_err(SessionRefusal::from)?;
        self.gateway_of(&record)?;
        if self.store.now().await? >= record.due_at() {
            return Err(over(&self.session_fail(id, "its time was over").await?));
        }
        Ok(Allowed { index: record.actions, tier, price })
    }

    /// The outer failure is for the caller; the inner one says what became of the session.
    async fn ask(
        &self,
        id: SessionId,
        act: &Act,
        mark: &RequestMark,
        Allowed { index, tier, price }: Allowed,
    ) -> Result<Result<Acted, GatewayError>, Failure> {
        let request =
            GatewayAct { index, mark: mark.clone(), act: act.clone(), tier, price_minor: price };
        let asked = tokio::time::timeout(ACT_TIME_MAX, self.gateway()?.act(id, request)).await;
        let error = match asked {
            Ok(Ok(acted)) => return Ok(Ok(acted)),
            Ok(Err(error)) => error,
            Err(_) => GatewayError::Unreachable { detail: "it took too long".to_owned() },
        };
        match SessionRefusal::of(error.clone(), act.action.as_str(), tier) {
            Some(SessionRefusal::AskAgain) | None => Ok(Err(error)),
            Some(refusal) => Err(refusal.into()),
        }
    }

    /// The gateway has given the session up, or never knew it.
    async fn lost(&self, id: SessionId, error: GatewayError) -> Result<Failure, Failure> {
        let reason = match error {
            GatewayError::Over { reason } => reason,
            _ => "the gateway lost the session".to_owned(),
        };
        Ok(over(&self.session_fail(id, &reason).await?))
    }

    /// Stores what the gateway did while nobody could write it down.
    async fn store_lost(&self, id: SessionId, acted: &Acted) -> Result<(), Failure> {
        let price = self.conduit.prices.of(action_of(&acted.done.event).map_err(broken)?);
        let (load, acted) = (load_step(&id, acted)?, acted.clone());
        let stored = self.run(load, vec![], move |turn| append(turn, &id, &acted, price));
        match stored.await {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::Session { reason: SessionRefusal::AskAgain })) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn store_step(
        &self,
        signed: &Signed,
        id: SessionId,
        acted: &Acted,
        price: Amount,
    ) -> Result<Answered<u32>, Failure> {
        let (load, acted) = (load_step(&id, acted)?, acted.clone());
        self.run_signed(signed, load, move |turn, _| append(turn, &id, &acted, price)).await
    }

    /// A step as its caller hears of it.
    pub(super) async fn done(&self, id: &SessionId, index: u32) -> Result<ActionDone, Failure> {
        let step: Option<StepRecord> = self.read(step_key(id, index)).await?;
        let step = step.ok_or_else(|| bug(format!("step {index} of {id} is gone")))?;
        let attachments = self.attachments(id, &step.attachments).await?;
        let StepRecord { event, head, data, error, .. } = step;
        Ok(ActionDone { event, head, data, attachments, error })
    }
}

fn over(session: &Session) -> Failure {
    SessionRefusal::from(session::Refusal::Over { status: session.status }).into()
}

/// What is written with a step.
fn load_step(id: &SessionId, acted: &Acted) -> Result<Load, Failure> {
    let index = index_of(&acted.done.event).map_err(broken)?;
    let mut keys = vec![session_key(id), step_key(id, index)];
    keys.extend(acted.done.attachments.iter().map(|kept| attachment_key(id, &kept.sha256)));
    keys.push(mark_key(id, &acted.mark));
    let records = keys.into_iter().map(|key| (key, Lock::Exclusive)).collect();
    Ok(Load { records, ..Load::default() })
}

fn mark_key(id: &SessionId, mark: &RequestMark) -> RecordKey {
    RecordKey { route: RouteKey::of(id), kind: ASKED, id: mark.key.clone() }
}

/// Adds a step to a session of the turn. It is refused without a trace if the session has moved on.
fn append(turn: &mut Turn, id: &SessionId, acted: &Acted, price: Amount) -> Result<u32, Stop> {
    let mut record = loaded(turn, id)?;
    let index = index_of(&acted.done.event)?;
    if record.actions != index {
        let moved = Refusal::Session { reason: SessionRefusal::AskAgain };
        return Err(Stop::Unheard(moved));
    }
    record.status = step(record.status, Input::Act).map_err(SessionRefusal::from)?;
    add(turn, id, &mut record, &acted.done, price)?;
    // Whoever asked for it hears of it, also if another wrote it down.
    let fingerprint = acted.mark.fingerprint;
    turn.put(&mark_key(id, &acted.mark), &Asked { fingerprint, given: index })?;
    record.acted_at = turn.now();
    turn.put(&session_key(id), &record)?;
    Ok(index)
}

/// Writes a step and what lies beside it, and counts it in the record.
pub(super) fn add(
    turn: &mut Turn,
    id: &SessionId,
    record: &mut SessionRecord,
    done: &ActionDone,
    price: Amount,
) -> Result<(), Stop> {
    let action = action_of(&done.event)?;
    let index = index_of(&done.event)?;
    let head = link(record.head, &done.event).map_err(|e| Bug(e.to_string()))?;
    if head != done.head {
        return Err(Bug(format!("the gateway's chain of {id} breaks at {index}")).into());
    }
    let attachments = done.attachments.iter().map(|kept| kept.sha256).collect();
    let step = StepRecord {
        event: done.event.clone(),
        head,
        cost: price,
        data: done.data.clone(),
        error: done.error.clone(),
        attachments,
    };
    turn.put(&step_key(id, index), &step)?;
    for kept in &done.attachments {
        let key = attachment_key(id, &kept.sha256);
        // The same picture may have been taken before.
        if turn.record::<Value>(&key)?.is_none() {
            turn.put(&key, kept)?;
        }
    }
    record.head = Some(head);
    record.actions = index + 1;
    record.cost = record.cost.checked_add(price).unwrap_or(record.max_cost).min(record.max_cost);
    let told = json!({
        "session_id": id, "agent_id": record.agent, "index": index, "action": action.as_str(),
        "success": done.error.is_none(), "cost_minor": price, "head": head,
    });
    turn.event(&RouteKey::of(id), "session.action", &told, &[])?;
    Ok(())
}

pub(super) fn index_of(event: &Value) -> Result<u32, Bug> {
    let index = event.get("index").and_then(Value::as_u64);
    let index = index.and_then(|index| u32::try_from(index).ok());
    index.ok_or_else(|| Bug("an action of the gateway has no index".to_owned()))
}

pub(super) fn action_of(event: &Value) -> Result<ActionType, Bug> {
    let word = event.get("action").cloned().unwrap_or_default();
    serde_json::from_value(word).map_err(|_| Bug("the gateway did an unknown action".to_owned()))
}

pub(super) fn bug(text: String) -> Failure {
    broken(Bug(text))
}

fn broken(bug: Bug) -> Failure {
    skep_store::StoreError::Bug(bug).into()
}
