//! 3.1 and 3.2: offers go back and forth.

use std::time::Duration;

use serde_json::Value;
use skep_base::{AgentId, Timestamp, id::DealId};
use skep_settle::{
    Offer,
    negotiation::{self, Talks},
    offer::check_response,
    terms::OFFER_LIFETIME,
};
use skep_store::{AccountId, Bug, Load, Lock, RouteKey, Turn, track_key};
use skep_wire::settle::{
    NegotiationAnswer, NegotiationRequest, NegotiationResponse, NegotiationStatus, ResponseStatus,
    Role, Tier,
};

use super::{DealRefusal, Hint, NegotiationRecord, TalksEvent, negotiation_key};
use crate::{
    AgentRecord, Answered, Failure, Market, Refusal, Signed,
    answer::Stop,
    identity::agent_key,
    notice::tell,
    score::{Scored, load_track},
    transfer::not_in_debt,
};

/// The furthest that an offer may expire.
const EXPIRY_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// Where a negotiation stands.
pub(super) fn answer_of(id: DealId, record: &NegotiationRecord) -> NegotiationAnswer {
    let talks = record.talks;
    // Nothing expires in the very step that answers.
    let status = talks.status_at(Timestamp::from_ms(0));
    let open = matches!(status, NegotiationStatus::Pending | NegotiationStatus::Countered);
    NegotiationAnswer {
        negotiation_id: id,
        status,
        turn: open.then_some(talks.turn),
        rounds: talks.rounds,
        expires_at: talks.expires_at,
        price: record.offer.price,
        escrow: None,
    }
}

impl Market {
    /// A requester asks a provider for work.
    pub async fn negotiation_open(
        &self,
        signed: &Signed,
        message: NegotiationRequest,
        raw: Value,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        let offer = Offer::open(&message).map_err(DealRefusal::from)?;
        let requester = self.agent_named(&message.requester.agent_id).await?;
        let provider = self.agent_named(&message.provider.agent_id).await?;
        if requester != signed.agent {
            return Err(DealRefusal::NotTheRequester.into());
        }
        if requester == provider {
            return Err(DealRefusal::SelfDeal.into());
        }
        // A nonce and a key of the same text are not the same request.
        let (what, unique) = match &signed.idempotency_key {
            Some(key) => ("key", key),
            None => ("nonce", &signed.nonce),
        };
        let seed: [&[u8]; 3] = [requester.as_bytes(), what.as_bytes(), unique.as_bytes()];
        let id = DealId::new(signed.expires_at, &seed);
        let key = negotiation_key(&id);
        let wallet = AccountId::wallet(&requester, offer.price.asset);
        let mut load = Load {
            records: vec![
                (key.clone(), Lock::Exclusive),
                (agent_key(&provider), Lock::None),
                (track_key(&provider), Lock::None),
            ],
            accounts: vec![wallet.clone()],
            ..Load::default()
        };
        let mut wanted = None;
        if offer.requires_benchmark {
            let operator = self.agent_record(&provider).await?.agent.operator;
            load_track(&mut load, &provider, &operator, Lock::None);
            wanted = Some(operator);
        }
        let market = self.clone();
        self.run_signed(signed, load, move |turn, requesting| {
            let other = party(turn, &provider)?;
            not_in_debt(turn, &wallet)?;
            if let Some(operator) = &wanted {
                let who = Scored { agent: provider, operator };
                market.require_benchmark(turn, who, requester)?;
            }
            if turn.record::<NegotiationRecord>(&key)?.is_some() {
                return Err(Bug(format!("the deal {id} exists already")).into());
            }
            let expires_at = expiry(offer.options.offer_expires_at, turn.now())?;
            let record = NegotiationRecord {
                requester,
                provider,
                talks: Talks::open(expires_at),
                offer: offer.clone(),
                messages: vec![raw.clone()],
                hint: Some(Hint {
                    operators: [requesting.agent.operator, other.agent.operator],
                    remainder: market.tier_in(turn, &provider)? > Tier::Unverified,
                }),
            };
            turn.put(&key, &record)?;
            announce(turn, id, &record, "negotiation.requested", &other)?;
            Ok(answer_of(id, &record))
        })
        .await
    }

    /// Whoever's turn it is accepts, rejects or counters.
    pub async fn negotiation_respond(
        &self,
        signed: &Signed,
        id: DealId,
        message: NegotiationResponse,
        raw: Value,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        check_response(&message).map_err(DealRefusal::from)?;
        if message.negotiation_id != id {
            return Err(DealRefusal::UnknownDeal { deal: message.negotiation_id }.into());
        }
        let known: Option<NegotiationRecord> = self.read(negotiation_key(&id)).await?;
        let known = known.ok_or(DealRefusal::UnknownDeal { deal: id })?;
        let by = role_of(&known, &signed.agent).ok_or(DealRefusal::UnknownDeal { deal: id })?;
        match message.response_status {
            ResponseStatus::Accepted => self.accept(signed, id, known, by, message, raw).await,
            ResponseStatus::Rejected => self.answer(signed, id, known, by, raw, None).await,
            ResponseStatus::Countered => {
                self.answer(signed, id, known, by, raw, Some(message)).await
            }
        }
    }

    /// A rejection, or a counter-offer.
    async fn answer(
        &self,
        signed: &Signed,
        id: DealId,
        known: NegotiationRecord,
        by: Role,
        raw: Value,
        counter: Option<NegotiationResponse>,
    ) -> Result<Answered<NegotiationAnswer>, Failure> {
        let other = match by {
            Role::Requester => known.provider,
            Role::Provider => known.requester,
        };
        let key = negotiation_key(&id);
        let load = Load {
            records: vec![(key.clone(), Lock::Exclusive), (agent_key(&other), Lock::None)],
            ..Load::default()
        };
        self.run_signed(signed, load, move |turn, _| {
            let mut record: NegotiationRecord =
                turn.record(&key)?.ok_or(DealRefusal::UnknownDeal { deal: id })?;
            let now = turn.now();
            let (input, kind) = match &counter {
                None => (negotiation::Input::Reject { by }, "negotiation.declined"),
                Some(message) => {
                    let options = message.metadata.as_ref().and_then(|m| m.skep.as_ref());
                    let expires_at = expiry(options.and_then(|o| o.offer_expires_at), now)?;
                    let input = negotiation::Input::Counter { by, expires_at };
                    (input, "negotiation.countered")
                }
            };
            let talks = negotiation::step(record.talks, now, input).map_err(DealRefusal::from)?;
            if let Some(message) = &counter {
                record.offer = record.offer.counter(by, message).map_err(DealRefusal::from)?;
            }
            record.talks = talks;
            record.messages.push(raw.clone());
            turn.put(&key, &record)?;
            let other = party(turn, &other)?;
            announce(turn, id, &record, kind, &other)?;
            Ok(answer_of(id, &record))
        })
        .await
    }

    /// The address behind an `agent_id` of a message.
    pub(crate) async fn agent_named(&self, name: &str) -> Result<AgentId, Failure> {
        match name.parse() {
            Ok(address) => Ok(address),
            Err(_) => Ok(self.agent(name).await?.agent_id),
        }
    }
}

pub(super) fn role_of(record: &NegotiationRecord, agent: &AgentId) -> Option<Role> {
    match agent {
        agent if *agent == record.requester => Some(Role::Requester),
        agent if *agent == record.provider => Some(Role::Provider),
        _ => None,
    }
}

/// A side's record of a turn that loaded it.
pub(super) fn party(turn: &Turn, agent: &AgentId) -> Result<AgentRecord, Stop> {
    let known = turn.record(&agent_key(agent))?;
    known.ok_or_else(|| Refusal::UnknownAgent { agent: agent.to_string() }.into())
}

fn expiry(asked: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Stop> {
    let expires_at = asked.unwrap_or_else(|| now.plus(OFFER_LIFETIME));
    if expires_at <= now || expires_at > now.plus(EXPIRY_MAX) {
        return Err(DealRefusal::BadExpiry { expires_at }.into());
    }
    Ok(expires_at)
}

fn announce(
    turn: &mut Turn,
    id: DealId,
    record: &NegotiationRecord,
    kind: &'static str,
    other: &AgentRecord,
) -> Result<(), Stop> {
    let route = RouteKey::of(id);
    let body = TalksEvent {
        negotiation_id: id,
        requester: record.requester,
        provider: record.provider,
        price: record.offer.price,
        status: answer_of(id, record).status,
    };
    let event = turn.event(&route, kind, &body, &[record.requester, record.provider])?;
    tell(turn, event, kind, &route, &[other], &body)?;
    Ok(())
}
