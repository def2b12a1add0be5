//! A session begins: a browser, then the money.

use serde_json::json;
use skep_base::{Amount, hash::sha256, id::SessionId};
use skep_store::{AccountId, JobDraft, Load, Lock, Order, RouteKey, Turn};
use skep_wire::{
    conduit::{GatewayClose, GatewayOpen, OpenSession, Session, SessionStatus},
    settle::Tier,
};

use super::{
    ASSET, Asked, OpenSessions, PURPOSE_LEN_MAX, SESSION_JOB, SessionRecord, SessionRefusal,
    asked_key, hold_id, open_key, session_key, timer,
};
use crate::{AgentRecord, Answered, Failure, Market, Signed, answer::Stop, transfer::may_spend};

impl Market {
    /// The browser is started first, so that no money is held for one that never comes.
    pub(super) async fn open_session(
        &self,
        signed: &Signed,
        request: OpenSession,
    ) -> Result<Answered<Session>, Failure> {
        if request.purpose.as_ref().is_some_and(|text| text.len() > PURPOSE_LEN_MAX) {
            return Err(SessionRefusal::PurposeTooLong.into());
        }
        let asked = asked_key(RouteKey::of(signed.agent), signed);
        if let Some(value) = self.asked_before(&asked, signed).await? {
            return Ok(Answered { value, replayed: true });
        }
        self.caller(signed).await?;
        let max_cost = request.max_cost_minor.unwrap_or_else(|| self.conduit.prices.default_max());
        // Browsers are few: whoever takes one must be able to use it.
        let least = self.conduit.prices.billable;
        if max_cost < least {
            return Err(SessionRefusal::MaxCostTooLow { least_minor: least }.into());
        }
        self.could_open(signed, max_cost).await?;
        let gateway = self.gateway()?.clone();
        let id = self.new_session_id(&asked.id).await?;
        let wanted = GatewayOpen { agent_id: signed.agent, purpose: request.purpose.clone() };
        let key = gateway.open(id, wanted).await.map_err(|error| {
            let detail = error.to_string();
            let lost = SessionRefusal::GatewayUnavailable { detail };
            SessionRefusal::of(error, "", Tier::default()).unwrap_or(lost)
        })?;
        let record = SessionRecord {
            agent: signed.agent,
            status: SessionStatus::Idle,
            reason: None,
            purpose: request.purpose,
            actions: 0,
            head: None,
            max_cost,
            cost: Amount::ZERO,
            opened_at: id.time(),
            acted_at: id.time(),
            closed_at: None,
            gateway: key,
            proven: false,
        };
        let opened = self.write_open(signed, id, record, asked).await;
        // Refused after all, or opened before: nobody will use this browser.
        let is_used = match &opened {
            Ok(answer) => answer.value.session_id == id,
            Err(Failure::Store(_)) => true,
            Err(_) => false,
        };
        if !is_used {
            let reason = Some("never opened".to_owned());
            let close = GatewayClose { status: SessionStatus::Failed, reason };
            let closed = gateway.close(id, close).await;
            tracing::debug!(session = %id, ?closed, "a browser was not needed");
        }
        opened
    }

    /// Asks beforehand what the transaction will ask again: browsers are dear.
    async fn could_open(&self, signed: &Signed, max_cost: Amount) -> Result<(), Failure> {
        let open: OpenSessions = self.read(open_key(&signed.agent)).await?.unwrap_or_default();
        may_have_more(&open, self.conduit.sessions_max)?;
        let wallet = self.wallet(&signed.agent).await?;
        let usdc = wallet.balances.iter().find(|balance| balance.available.asset == ASSET);
        let available = usdc.map_or(Amount::ZERO, |balance| balance.available.amount);
        if available < max_cost {
            let account = AccountId::wallet(&signed.agent, ASSET);
            let short = skep_store::LedgerRefusal::InsufficientFunds {
                account,
                available,
                needed: max_cost,
            };
            return Err(Failure::Refused(short.into()));
        }
        Ok(())
    }

    async fn new_session_id(&self, unique: &str) -> Result<SessionId, Failure> {
        let now = self.store.now().await?;
        let mut entropy = [0; 10];
        entropy.copy_from_slice(&sha256(unique.as_bytes()).as_bytes()[..10]);
        Ok(SessionId::new(now, entropy))
    }

    async fn write_open(
        &self,
        signed: &Signed,
        id: SessionId,
        record: SessionRecord,
        asked: skep_store::RecordKey,
    ) -> Result<Answered<Session>, Failure> {
        let (open, key) = (open_key(&signed.agent), session_key(&id));
        let load = Load {
            records: [&open, &key, &asked].map(|key| (key.clone(), Lock::Exclusive)).to_vec(),
            accounts: vec![AccountId::wallet(&signed.agent, ASSET)],
            transfers: vec![(RouteKey::of(id), hold_id(&id))],
            ..Load::default()
        };
        let (sessions_max, fingerprint) = (self.conduit.sessions_max, signed.fingerprint);
        self.run_signed(signed, load, move |turn, agent| {
            let mut others: OpenSessions = turn.record(&open)?.unwrap_or_default();
            may_have_more(&others, sessions_max)?;
            let now = turn.now();
            let record = SessionRecord { opened_at: now, acted_at: now, ..record.clone() };
            hold(turn, agent, &id, &record)?;
            others.ids.push(id);
            turn.put(&open, &others)?;
            turn.put(&key, &record)?;
            let given = record.view(id);
            turn.put(&asked, &Asked { fingerprint, given: given.clone() })?;
            let route = RouteKey::of(id);
            turn.job(JobDraft {
                route: route.clone(),
                kind: SESSION_JOB,
                destination: timer::DESTINATION.to_owned(),
                due_at: record.due_at(),
                body: json!({ "session": id }).to_string(),
            });
            let told = json!({
                "session_id": id, "agent_id": record.agent, "max_cost_minor": record.max_cost,
            });
            turn.event(&route, "session.opened", &told, &[])?;
            Ok(given)
        })
        .await
    }
}

fn may_have_more(open: &OpenSessions, max: usize) -> Result<(), SessionRefusal> {
    match open.ids.len() < max {
        true => Ok(()),
        false => Err(SessionRefusal::TooManySessions { max }),
    }
}

/// Sets the most that the session may cost aside, for the operator.
fn hold(
    turn: &mut Turn,
    agent: &AgentRecord,
    id: &SessionId,
    record: &SessionRecord,
) -> Result<(), Stop> {
    if record.max_cost.is_zero() {
        return Ok(());
    }
    let debit = AccountId::wallet(&record.agent, ASSET);
    may_spend(turn, agent, &debit, record.max_cost)?;
    turn.book.hold(Order {
        id: hold_id(id),
        route: RouteKey::of(id),
        debit,
        credit: AccountId::fees(ASSET),
        amount: record.max_cost,
        budget: None,
    })?;
    Ok(())
}
