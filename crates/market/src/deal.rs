//! Deals between agents who do not trust each other (VCAP): one use case for each step, each of
//! them one transaction.

mod accept;
mod act;
mod attachments;
mod default;
mod deliver;
mod money;
mod negotiate;
mod page;
mod pots;
mod refusal;
mod review;
mod standing;
mod timer;
mod verifiers;
mod verify;
mod view;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Did, Timestamp,
    id::{DealId, JobId, VerificationId},
};
use skep_settle::{
    Deal, Offer, agreement,
    deal::{Effect, Input, step},
    escrow,
    negotiation::Talks,
    review::Cause,
};
use skep_store::{Bug, JobDraft, JobEnd, Load, Lock, RecordKey, RouteKey, Turn};
use skep_wire::settle::{
    AgreementStatus, EscrowStatus, NegotiationStatus, RefundReason, VerificationStatus,
};

pub(crate) use self::{
    act::short,
    default::DEFAULT_JOB,
    pots::Pots,
    standing::standing_key,
    timer::TICK_JOB,
    verifiers::{Directory, verifier_key},
};
pub use self::{page::ProofView, refusal::DealRefusal};
use crate::{
    AgentRecord, Failure, Market, Refusal,
    answer::Stop,
    identity::agent_key,
    notice::{tell, tell_later},
    score::{self, ScoreLine, Scored, deal_change},
    transfer::not_frozen,
};
pub use skep_wire::settle::{AGENT_KID, CallbackTaken, DealAnswer, NegotiationAnswer};

/// The list of deals that wait for a reviewer.
pub(crate) const REVIEWS: &str = "reviews";
/// The list of those whose verdict is disputed: they do not wait for ever.
pub(crate) const DISPUTES: &str = "disputes";

/// A negotiation as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NegotiationRecord {
    pub(crate) requester: AgentId,
    pub(crate) provider: AgentId,
    pub(crate) talks: Talks,
    pub(crate) offer: Offer,
    /// Every message as it came.
    pub(crate) messages: Vec<serde_json::Value>,
    /// What the acceptance will probably need; it looks again if it was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<Hint>,
}

/// How both sides stood when the request was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hint {
    /// The requester's, then the provider's.
    pub(crate) operators: [Did; 2],
    /// Less than the price will be held.
    pub(crate) remainder: bool,
}

/// A deal as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DealRecord {
    pub(crate) deal: Deal,
    /// The timer that waits for [`Deal::due_at`].
    pub(crate) timer: Option<(JobId, Timestamp)>,
    /// Callbacks that came too late, kept for the reviewer.
    #[serde(default)]
    pub(crate) late: u8,
}

pub(crate) fn record_key(deal: &DealId, kind: &'static str) -> RecordKey {
    RecordKey { route: RouteKey::of(deal), kind, id: deal.to_string() }
}

pub(crate) fn negotiation_key(deal: &DealId) -> RecordKey {
    record_key(deal, "negotiation")
}

pub(crate) fn deal_key(deal: &DealId) -> RecordKey {
    record_key(deal, "deal")
}

pub(crate) fn delivery_key(deal: &DealId) -> RecordKey {
    record_key(deal, "delivery")
}

pub(crate) fn settlement_record_key(deal: &DealId) -> RecordKey {
    record_key(deal, "settlement")
}

/// Where the callback to a verification is kept.
pub(crate) fn proof_key(verification: &VerificationId) -> RecordKey {
    let route = RouteKey::of(verification.deal());
    RecordKey { route, kind: "proof", id: verification.to_string() }
}

/// What the log says of a step of a deal.
#[derive(Debug, Serialize)]
pub(crate) struct DealEvent {
    negotiation_id: DealId,
    requester: AgentId,
    provider: AgentId,
    price: skep_base::Money,
    agreement: AgreementStatus,
    escrow: EscrowStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<RefundReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<VerificationEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_by: Option<AgentId>,
    /// What the step means for the provider's score.
    #[serde(flatten)]
    score: ScoreLine,
}

#[derive(Debug, Serialize)]
struct VerificationEvent {
    verification_id: VerificationId,
    #[serde(rename = "type")]
    kind: String,
    status: VerificationStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    verifier: Option<AgentId>,
}

/// The part of an agent's record that says whether it has a webhook: most have none.
#[derive(Debug, Deserialize)]
struct Reach {
    #[serde(default)]
    webhook_url: Option<String>,
}

/// What the log says of a negotiation.
#[derive(Debug, Serialize)]
pub(crate) struct TalksEvent {
    pub(crate) negotiation_id: DealId,
    pub(crate) requester: AgentId,
    pub(crate) provider: AgentId,
    pub(crate) price: skep_base::Money,
    pub(crate) status: NegotiationStatus,
}

impl DealEvent {
    fn of(deal: &Deal, score: ScoreLine) -> DealEvent {
        let last = deal.last_attempt();
        let verification = last.map(|attempt| VerificationEvent {
            verification_id: deal.id.verification(attempt.number),
            kind: attempt.spec.kind.clone(),
            status: attempt.status,
            verifier: attempt.verifier,
        });
        let reason = match deal.escrow {
            escrow::State::Refunded(reason) => Some(reason),
            _ => None,
        };
        DealEvent {
            negotiation_id: deal.id,
            requester: deal.requester,
            provider: deal.provider,
            price: deal.terms.price,
            agreement: deal.agreement.status(),
            escrow: deal.escrow.status(),
            reason,
            verification,
            baseline_by: deal.baseline_by.filter(|_| deal.baseline.is_none()),
            score,
        }
    }
}

impl Market {
    /// A deal as it stands, outside any turn.
    pub(crate) async fn deal_record(&self, id: &DealId) -> Result<DealRecord, Failure> {
        let known = self.read(deal_key(id)).await?;
        known.ok_or_else(|| DealRefusal::UnknownDeal { deal: *id }.into())
    }

    /// Loads what a step needs that neither moves money nor counts: the deal and both sides.
    pub(crate) fn load_talk(&self, deal: &Deal) -> Load {
        let records = vec![
            (deal_key(&deal.id), Lock::Exclusive),
            (agent_key(&deal.requester), Lock::None),
            (agent_key(&deal.provider), Lock::None),
        ];
        Load { records, ..Load::default() }
    }

    /// Loads what any step of an open deal may need: the deal, both sides, and the accounts that a
    /// settlement touches.
    pub(crate) fn load_deal(&self, deal: &Deal) -> Load {
        let mut records = vec![
            (deal_key(&deal.id), Lock::Exclusive),
            (settlement_record_key(&deal.id), Lock::Exclusive),
        ];
        // What is owed beyond the escrow is counted in the record of whoever owes it.
        let requester = money::lock_of_requester(&deal.terms.stake);
        let provider = money::lock_of_provider(&deal.terms.stake);
        records.push((agent_key(&deal.requester), requester));
        records.push((agent_key(&deal.provider), provider));
        if deal.terms.stake.fee_cap_bps > 0 {
            records.push((standing::standing_key(&deal.provider), Lock::None));
        }
        let (accounts, transfers) = (money::accounts(deal), money::reserved(deal));
        let mut load = Load { records, accounts, transfers, ..Load::default() };
        if self.counts {
            let (provider, operator) = (&deal.provider, &deal.provider_operator);
            score::load_track(&mut load, provider, operator, Lock::Exclusive);
        }
        if !deal.terms.stake.subsidy.is_zero() {
            score::load_subsidies(&mut load, &deal.requester, operators(deal));
        }
        load
    }

    /// One step of a deal with all its consequences.
    pub(crate) fn advance(
        &self,
        turn: &mut Turn,
        mut record: DealRecord,
        input: Input,
    ) -> Result<DealRecord, Stop> {
        let now = turn.now();
        let before = (record.deal.agreement, record.deal.escrow);
        let stepped = step(&record.deal, now, &self.policy, input);
        let (deal, effects) = stepped.map_err(DealRefusal::from)?;
        record.deal = deal;
        // The event that tells of the step says what was counted, once.
        let mut line = self.count_deal(turn, before, &record.deal)?;
        for effect in effects {
            match effect {
                Effect::Settle { released, deposit } => {
                    self.settle(turn, &record.deal, released, deposit)?;
                }
                Effect::TakeDeposit(contest) => {
                    let opener = record.deal.agent_of(contest.by);
                    not_frozen(turn, &negotiate::party(turn, &opener)?)?;
                    money::take_deposit(turn, &record.deal, contest)?;
                }
                Effect::OpenReview => turn.enlist(queue(&record.deal), record.deal.id),
                Effect::CloseReview => turn.delist(queue(&record.deal), record.deal.id),
                // The event that follows names the attempt and its verifier, who is told of it.
                Effect::Ask { .. } => {}
                Effect::Tell(kind) => {
                    self.announce(turn, &record.deal, kind, std::mem::take(&mut line))?;
                }
            }
        }
        if line != ScoreLine::default() {
            let id = record.deal.id;
            return Err(Bug(format!("no event tells what was counted of deal {id}")).into());
        }
        self.set_timer(turn, &mut record);
        turn.put(&deal_key(&record.deal.id), &record)?;
        Ok(record)
    }

    fn count_deal(
        &self,
        turn: &mut Turn,
        before: (agreement::State, escrow::State),
        deal: &Deal,
    ) -> Result<ScoreLine, Stop> {
        let change = deal_change(before, deal);
        if change.subsidy.is_some() {
            score::end_subsidy(turn, &deal.requester, operators(deal))?;
        }
        let who = Scored { agent: deal.provider, operator: &deal.provider_operator };
        self.count(turn, who, change)
    }

    /// Tells both sides, whoever is to verify, and the reviewers if they are asked.
    pub(crate) fn announce(
        &self,
        turn: &mut Turn,
        deal: &Deal,
        kind: &'static str,
        line: ScoreLine,
    ) -> Result<(), Stop> {
        let mut notify = vec![deal.requester, deal.provider];
        // A verifier is told while there is something for it to do.
        let asked = deal.last_attempt().filter(|attempt| attempt.proof.is_none());
        match deal.last_attempt() {
            Some(_) => notify.extend(asked.and_then(|attempt| attempt.verifier)),
            None => notify.extend(deal.baseline_by),
        }
        if deal.is_in_review() {
            notify.extend(self.accredited.iter().copied());
        }
        notify.sort_unstable();
        notify.dedup();
        let route = RouteKey::of(deal.id);
        let body = DealEvent::of(deal, line.beside(deal, &route, turn.now()));
        let event = turn.event(&route, kind, &body, &notify)?;
        let (mut records, mut unread) = (Vec::new(), Vec::new());
        for agent in &notify {
            let key = agent_key(agent);
            match turn.record::<Reach>(&key) {
                Ok(Some(Reach { webhook_url: Some(_) })) => records.extend(turn.record(&key)?),
                Ok(_) => {}
                Err(_) => unread.push(*agent),
            }
        }
        let records: Vec<&AgentRecord> = records.iter().collect();
        tell(turn, event, kind, &route, &records, &body)?;
        // Nobody loads the reviewers for the one deal in many that comes to them. A verifier reads
        // its inbox anyway.
        unread.retain(|agent| deal.is_in_review() && self.accredited.contains(agent));
        Ok(tell_later(turn, event, kind, &route, unread, &body)?)
    }

    fn set_timer(&self, turn: &mut Turn, record: &mut DealRecord) {
        let due = record.deal.due_at();
        if record.timer.map(|(_, at)| at) == due {
            return;
        }
        let route = RouteKey::of(record.deal.id);
        if let Some((id, _)) = record.timer.take() {
            turn.end_job(JobEnd { route: route.clone(), id });
        }
        record.timer = due.map(|due_at| {
            let body = serde_json::json!({ "deal": record.deal.id }).to_string();
            let destination = String::new();
            (turn.job(JobDraft { route, kind: TICK_JOB, destination, due_at, body }), due_at)
        });
    }
}

fn operators(deal: &Deal) -> [&Did; 2] {
    [&deal.requester_operator, &deal.provider_operator]
}

/// The list that a deal in review stands on.
fn queue(deal: &Deal) -> &'static str {
    match deal.review.as_ref().map(|review| review.cause) {
        Some(Cause::Dispute) => DISPUTES,
        _ => REVIEWS,
    }
}

/// The deal of a turn that loaded it.
pub(crate) fn loaded(turn: &Turn, id: &DealId) -> Result<DealRecord, Stop> {
    let known = turn.record(&deal_key(id))?;
    known.ok_or_else(|| DealRefusal::UnknownDeal { deal: *id }.into())
}

impl From<DealRefusal> for Stop {
    fn from(reason: DealRefusal) -> Stop {
        Stop::Refused(Refusal::Deal { reason })
    }
}

impl From<DealRefusal> for Failure {
    fn from(reason: DealRefusal) -> Failure {
        Failure::Refused(Refusal::Deal { reason })
    }
}
