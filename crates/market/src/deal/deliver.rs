//! 3.4: the provider delivers, and somebody is asked to look.

use serde_json::Value;
use skep_base::{AgentId, hash::json_sha256};
use skep_settle::{BadMessage, criteria, deal::Input, offer::check_header};
use skep_store::{Bug, Lock, track_key};
use skep_wire::{
    identity::Agent,
    settle::{
        ARTIFACTS_MAX, DealAnswer, DeliveryStatus, ServiceDelivery, Standing, TEXT_LEN_MAX, engine,
    },
};

use super::{
    DealRecord, DealRefusal, delivery_key, loaded, negotiate::party, standing::standing_key,
    verifiers::Need,
};
use crate::{Answered, Failure, Market, Refusal, Signed, answer::Stop, score::tier_of};

/// How often a delivery is prepared anew because the picked verifier went away.
const PREPARATIONS_MAX: u32 = 4;

/// Where a deal stands.
pub(super) fn answer_of(record: &DealRecord) -> DealAnswer {
    let deal = &record.deal;
    let last = deal.last_attempt();
    DealAnswer {
        negotiation_id: deal.id,
        agreement: deal.agreement.status(),
        escrow: deal.escrow.status(),
        verification_id: last.map(|attempt| deal.id.verification(attempt.number)),
        verification: last.map(|attempt| attempt.status),
        verifier: last.and_then(|attempt| attempt.verifier),
    }
}

impl Market {
    /// The provider says that the work is done. Said again, it gets the verification that there
    /// is (8.1).
    pub async fn deal_deliver(
        &self,
        signed: &Signed,
        message: ServiceDelivery,
        raw: Value,
    ) -> Result<Answered<DealAnswer>, Failure> {
        check(&message)?;
        let id = message.negotiation_id;
        let mut unfit = Vec::new();
        for _ in 0..PREPARATIONS_MAX {
            let known = self.deal_record(&id).await?;
            if known.deal.role_of(&signed.agent).is_none() {
                return Err(DealRefusal::UnknownDeal { deal: id }.into());
            }
            let verifier = self.verifier_for(&known, &unfit).await?;
            match self.try_deliver(signed, &known, &message, &raw, verifier).await {
                Err(Failure::Refused(Refusal::Deal { reason: DealRefusal::AskAgain })) => {
                    self.directory.forget();
                    unfit.extend(verifier);
                }
                done => return done,
            }
        }
        Err(DealRefusal::AskAgain.into())
    }

    /// The verifier that the terms name, or one that the market picks and that is not known to be
    /// unfit; nobody if a person judges.
    pub(super) async fn verifier_for(
        &self,
        known: &DealRecord,
        unfit: &[AgentId],
    ) -> Result<Option<AgentId>, Failure> {
        let deal = &known.deal;
        if matches!(deal.terms.engine(), engine::HUMAN | engine::REQUESTER) {
            return Ok(None);
        }
        let tried = deal.attempts.iter().filter_map(|a| a.verifier);
        let tried: Vec<AgentId> = tried.chain(unfit.iter().copied()).collect();
        match deal.terms.verifier.filter(|named| !tried.contains(named)) {
            Some(named) => Ok(Some(named)),
            None => self.pick(&Need::of(deal), &tried).await,
        }
    }

    async fn try_deliver(
        &self,
        signed: &Signed,
        known: &DealRecord,
        message: &ServiceDelivery,
        raw: &Value,
        verifier: Option<AgentId>,
    ) -> Result<Answered<DealAnswer>, Failure> {
        let id = known.deal.id;
        let status = message.delivery.status;
        // A delivery that failed ends the deal; any other only asks for a verdict.
        let mut load = match status {
            DeliveryStatus::Failed => self.load_deal(&known.deal),
            _ => self.load_talk(&known.deal),
        };
        load.records.push((delivery_key(&id), Lock::Exclusive));
        let hints = message.verification_hints.clone();
        let auto_approve = hints.as_ref().and_then(|h| h.auto_approve).unwrap_or(false);
        if auto_approve {
            load.records.push((standing_key(&known.deal.provider), Lock::None));
            load.records.push((track_key(&known.deal.provider), Lock::None));
        }
        if let Some(verifier) = &verifier {
            Market::load_verifier(&mut load, verifier);
        }
        let (market, raw, caller) = (self.clone(), raw.clone(), signed.agent);
        let named = message.provider.agent_id.to_ascii_lowercase();
        self.run_signed(signed, load, move |turn, _| {
            let record = loaded(turn, &id)?;
            let deal = &record.deal;
            if caller != deal.provider {
                return Err(DealRefusal::NotTheProvider.into());
            }
            let Agent { agent_id, did, .. } = party(turn, &caller)?.agent;
            if ![agent_id.to_string(), did.to_string()].contains(&named) {
                let problem = "whoever delivers signs as itself".to_owned();
                return Err(bad("provider.agent_id", problem).into());
            }
            if deal.delivered.is_some() {
                return Ok(answer_of(&record));
            }
            let spec = criteria::spec(&deal.terms.criteria, hints.as_ref(), deal.terms.timeout_s)
                .map_err(DealRefusal::from)?;
            let verifier = match verifier.map(|agent| market.can_verify(turn, deal, &agent)) {
                Some(Err(Stop::Bug(bug))) => return Err(bug.into()),
                // Both agreed on it, and it cannot: that keeps nobody from delivering.
                Some(Err(_)) if verifier == deal.terms.verifier => None,
                Some(Err(_)) => {
                    let again = Refusal::Deal { reason: DealRefusal::AskAgain };
                    return Err(Stop::Unheard(again));
                }
                Some(Ok(())) | None => verifier,
            };
            let tier = match auto_approve {
                true => {
                    let word: Option<Standing> = turn.record(&standing_key(&deal.provider))?;
                    tier_of(word.as_ref(), market.tier_in(turn, &deal.provider)?)
                }
                false => Default::default(),
            };
            let hash = json_sha256(&raw).map_err(|e| Bug(e.to_string()))?;
            turn.put(&delivery_key(&id), &raw)?;
            let input = Input::Deliver { hash, status, spec, auto_approve, tier, verifier };
            Ok(answer_of(&market.advance(turn, record, input)?))
        })
        .await
    }
}

fn bad(field: &str, problem: String) -> DealRefusal {
    DealRefusal::from(BadMessage { field: field.to_owned(), problem })
}

fn check(message: &ServiceDelivery) -> Result<(), DealRefusal> {
    check_header(&message.vcap_version, &message.message_type, "service_delivery")?;
    if let Some(hints) = &message.verification_hints {
        criteria::check_words(hints)?;
    }
    if message.escrow_id != message.negotiation_id {
        return Err(bad("escrow_id", "it is not the escrow of this negotiation".to_owned()));
    }
    if message.delivery.artifacts.len() > ARTIFACTS_MAX {
        let problem = format!("a delivery has at most {ARTIFACTS_MAX} artifacts");
        return Err(bad("delivery.artifacts", problem));
    }
    if message.delivery.description.len() > TEXT_LEN_MAX {
        let problem = format!("it has at most {TEXT_LEN_MAX} bytes");
        return Err(bad("delivery.description", problem));
    }
    Ok(())
}
