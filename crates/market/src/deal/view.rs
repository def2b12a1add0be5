//! Deals as those who are part of them may see them.

use serde_json::Value;
use skep_base::{
    AgentId, Timestamp,
    id::{DealId, VerificationId},
};
use skep_settle::{
    Deal, agreement,
    deal::Attempt,
    escrow,
    negotiation::{Decline, State},
};
use skep_store::Bug;
use skep_wire::settle::{
    Agreement, Context, EscrowHold, Negotiation, NegotiationStatus, PaymentStatus, ServiceDelivery,
    SettlementReceipt, VCAP_VERSION, Verification, VerificationRequest,
};

use super::{
    DealRecord, DealRefusal, NegotiationRecord, accept::escrow_hold, deal_key,
    default::DEFAULT_AFTER, delivery_key, money, negotiate::role_of, negotiation_key, proof_key,
    settlement_record_key,
};
use crate::{Failure, Market, read::next};

impl Market {
    /// A negotiation, to one of its sides.
    pub async fn negotiation(&self, by: &AgentId, id: DealId) -> Result<Negotiation, Failure> {
        let record = self.negotiation_record(id).await?;
        if role_of(&record, by).is_none() {
            return Err(DealRefusal::UnknownDeal { deal: id }.into());
        }
        let now = self.store.now().await?;
        let status = record.talks.status_at(now);
        let open = matches!(status, NegotiationStatus::Pending | NegotiationStatus::Countered);
        let reason = match record.talks.state_at(now) {
            State::Declined(Decline::Rejected) => Some("rejected"),
            State::Declined(Decline::Withdrawn) => Some("withdrawn"),
            State::Declined(Decline::Expired) => Some("expired"),
            _ => None,
        };
        Ok(Negotiation {
            negotiation_id: id,
            status,
            reason: reason.map(str::to_owned),
            requester: record.requester,
            provider: record.provider,
            turn: open.then_some(record.talks.turn),
            rounds: record.talks.rounds,
            expires_at: record.talks.expires_at,
            price: record.offer.price,
            criteria: record.offer.criteria,
            options: record.offer.options,
            messages: record.messages,
        })
    }

    async fn negotiation_record(&self, id: DealId) -> Result<NegotiationRecord, Failure> {
        let known = self.read(negotiation_key(&id)).await?;
        known.ok_or_else(|| DealRefusal::UnknownDeal { deal: id }.into())
    }

    /// A deal, if this agent is part of it: a side, a verifier of it, or a reviewer.
    pub(super) async fn seen_by(&self, by: &AgentId, id: DealId) -> Result<DealRecord, Failure> {
        let record = self.deal_record(&id).await?;
        match self.is_part(by, &record.deal) {
            true => Ok(record),
            false => Err(DealRefusal::UnknownDeal { deal: id }.into()),
        }
    }

    fn is_part(&self, by: &AgentId, deal: &Deal) -> bool {
        let asked = deal.attempts.iter().any(|attempt| attempt.verifier == Some(*by));
        deal.role_of(by).is_some()
            || asked
            || deal.baseline_by == Some(*by)
            || (deal.review.is_some() && self.accredited.contains(by))
    }

    pub async fn agreement(&self, by: &AgentId, id: DealId) -> Result<Agreement, Failure> {
        let record = self.seen_by(by, id).await?;
        self.agreement_of(&record.deal).await
    }

    pub(super) async fn agreement_of(&self, deal: &Deal) -> Result<Agreement, Failure> {
        let negotiation = self.negotiation_record(deal.id).await?;
        let (terms, parties) = (&deal.terms, (deal.requester, deal.provider));
        let document = terms.document(deal.id, parties, deal.accepted_at, &negotiation.messages);
        let reason = match deal.escrow {
            escrow::State::Refunded(reason) => Some(reason),
            _ => None,
        };
        let open = deal.agreement == agreement::State::Disputed { open: true };
        Ok(Agreement {
            negotiation_id: deal.id,
            status: deal.agreement.status(),
            escrow_status: deal.escrow.status(),
            payment_status: self.payment_status(deal).await?,
            requester: deal.requester,
            provider: deal.provider,
            price: terms.price,
            criteria: terms.criteria.clone(),
            options: terms.options(),
            terms: document,
            terms_hash: deal.terms_hash,
            escrow: hold_now(deal),
            accepted_at: deal.accepted_at,
            deadline: terms.deadline,
            delivered_at: deal.delivered.map(|delivered| delivered.at),
            verifications: deal.attempts.iter().map(|a| deal.id.verification(a.number)).collect(),
            reason,
            dispute_open: open,
            window_until: deal.window_until,
            split_offer: deal.split_offer,
            cancel_asked: deal.cancel_asked,
            baseline_taken: deal.baseline.is_some(),
            linked: deal.requester_operator == deal.provider_operator,
        })
    }

    /// Whether somebody still owes something for this deal.
    async fn payment_status(&self, deal: &Deal) -> Result<PaymentStatus, Failure> {
        let stake = deal.terms.stake;
        let nothing_beyond = stake.remainder.is_zero()
            && stake.subsidy.is_zero()
            && stake.fee_cap_bps == 0
            && deal.contest.is_none();
        if deal.closed.is_none() || nothing_beyond {
            return Ok(PaymentStatus::Clear);
        }
        let now = self.store.now().await?;
        let mut status = PaymentStatus::Clear;
        for (label, debtor) in money::possible_debts(deal).map_err(bug)? {
            let debt = self.store.debt(&debtor, deal.id.debt(label)).await?;
            match debt.filter(|debt| !debt.open.is_zero()) {
                Some(debt) if now >= debt.opened_at.plus(DEFAULT_AFTER) => {
                    return Ok(PaymentStatus::Defaulted);
                }
                Some(_) => status = PaymentStatus::PaymentDue,
                None => {}
            }
        }
        Ok(status)
    }

    pub async fn escrow(&self, by: &AgentId, id: DealId) -> Result<EscrowHold, Failure> {
        Ok(hold_now(&self.seen_by(by, id).await?.deal))
    }

    /// The signed receipt: anybody may see how an escrow ended.
    pub async fn settlement(&self, id: DealId) -> Result<SettlementReceipt, Failure> {
        let known = self.read(settlement_record_key(&id)).await?;
        known.ok_or_else(|| DealRefusal::NotSettled.into())
    }

    pub async fn verification(
        &self,
        by: &AgentId,
        id: VerificationId,
    ) -> Result<Verification, Failure> {
        Ok(self.verification_if(id, |deal| self.is_part(by, deal)).await?.1)
    }

    /// A verification with its deal, if whoever asks may see that.
    pub(super) async fn verification_if(
        &self,
        id: VerificationId,
        may_see: impl Fn(&Deal) -> bool,
    ) -> Result<(Deal, Verification), Failure> {
        let keys = vec![deal_key(&id.deal()), delivery_key(&id.deal()), proof_key(&id)];
        let mut records = self.read_all(keys).await?;
        let unknown = DealRefusal::UnknownDeal { deal: id.deal() };
        let record: DealRecord = next(&mut records)?.ok_or(unknown.clone())?;
        if !may_see(&record.deal) {
            return Err(unknown.into());
        }
        let attempt = record.deal.attempt(id.attempt()).ok_or(unknown)?;
        let request = self.request_of(&record.deal, attempt, next(&mut records)?);
        let callback = match next(&mut records)? {
            Some(stored) => Some(self.with_data(&id, stored).await?),
            None => None,
        };
        let far = Timestamp::from_ms(i64::from(i32::MAX) * 1000);
        let verification = Verification {
            verification_id: id,
            negotiation_id: record.deal.id,
            status: attempt.status,
            kind: attempt.spec.kind.clone(),
            verifier: attempt.verifier,
            deadline: attempt.deadline.unwrap_or(far),
            failure_reason: attempt.failure_reason.clone(),
            supersedes: attempt.supersedes,
            request,
            proof_page: callback.as_ref().map(|_| self.proof_page(id)),
            callback,
        };
        Ok((record.deal, verification))
    }

    /// 3.5.
    pub(super) async fn request(
        &self,
        deal: &Deal,
        attempt: &Attempt,
    ) -> Result<VerificationRequest, Failure> {
        let delivery = self.read(delivery_key(&deal.id)).await?;
        Ok(self.request_of(deal, attempt, delivery))
    }

    fn request_of(
        &self,
        deal: &Deal,
        attempt: &Attempt,
        delivery: Option<ServiceDelivery>,
    ) -> VerificationRequest {
        let verification_id = deal.id.verification(attempt.number);
        VerificationRequest {
            vcap_version: VCAP_VERSION.to_owned(),
            message_type: "verification_request".to_owned(),
            verification_id,
            negotiation_id: deal.id,
            spec: attempt.spec.clone(),
            context: Context {
                marketplace: self.marketplace.to_string(),
                purpose: "escrow_verification".to_owned(),
                escrow_ref: deal.id,
                negotiation_id: deal.id,
                verification_id,
            },
            terms_hash: deal.terms_hash,
            artifacts: delivery.map(|d| d.delivery.artifacts).unwrap_or_default(),
            requested_at: attempt.created_at,
        }
    }

    pub(super) async fn delivery(&self, id: DealId) -> Result<Option<Value>, Failure> {
        self.read(delivery_key(&id)).await
    }
}

/// 3.3 with the status that it has now.
fn hold_now(deal: &Deal) -> EscrowHold {
    EscrowHold { status: deal.escrow.status(), ..escrow_hold(deal) }
}

fn bug(bug: Bug) -> Failure {
    skep_store::StoreError::Bug(bug).into()
}
