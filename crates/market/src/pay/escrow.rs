//! 7.3.3 and decision 20: a hire's money waits for the buyer's check. It is the same escrow as a
//! deal's: held, then released or refunded, once. Silence refunds.
//!
//! The money is a hold for the escrow's account in the wallet that pays, so that a refund leaves it
//! where it was, and a budget that it was held under is free again.

mod close;
mod refusal;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use skep_base::{
    AgentId, Amount, Asset, Hash32, Timestamp,
    id::{DealId, JobId},
};
use skep_settle::escrow::State;
use skep_store::{AccountId, Bug, JobDraft, JobEnd, Load, Lock, Order, RecordKey, RouteKey, Turn};
use skep_wire::{
    hire::{EscrowOrder, EscrowTerms, HireEscrow, Receipt},
    settle::{EscrowStatus, SettlementReceipt},
};

pub use self::refusal::EscrowRefusal;
use super::claim::Claim;
use crate::{
    AgentRecord, Failure, Market,
    answer::Stop,
    deal::{record_key, settlement_record_key},
    identity::agent_key,
    notice,
    score::ScoreLine,
};

/// Jobs that let time act on a hire's escrow.
pub(crate) const ESCROW_JOB: &str = "escrow.tick";

/// What was delivered into an escrow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) at: Timestamp,
    pub(crate) receipt_id: String,
    pub(crate) result_hash: Hash32,
}

/// How an escrow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    Released,
    /// Refunds: by whom, or why.
    Buyer,
    Seller,
    NotDelivered,
    WindowPassed,
}

/// A hire's escrow as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct HireEscrowRecord {
    pub(crate) id: DealId,
    pub(crate) terms: EscrowTerms,
    /// Whose wallet the money is in, where that is not the buyer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) payer: Option<AgentId>,
    /// What was asked for, as the buyer signed it.
    pub(crate) params_hash: Hash32,
    pub(crate) tx_hash: String,
    pub(crate) state: State,
    pub(crate) ending: Option<Ending>,
    pub(crate) held_at: Timestamp,
    pub(crate) delivered: Option<Delivered>,
    /// When the money goes back by itself.
    pub(crate) due_at: Timestamp,
    pub(crate) timer: Option<JobId>,
    /// The signed word that ended it, where it was not time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<EscrowOrder>,
}

/// What the log says of an escrow.
#[derive(Debug, Serialize)]
struct EscrowEvent<'a> {
    escrow_id: DealId,
    buyer: AgentId,
    /// Whose money it is, where that is not the buyer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    payer: Option<AgentId>,
    seller: AgentId,
    payee: AgentId,
    capability: &'a str,
    amount_minor: Amount,
    asset: Asset,
    hire_hash: Hash32,
    tx_hash: &'a str,
    status: EscrowStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refund_at: Option<Timestamp>,
    /// What the end means for the seller's score.
    #[serde(flatten)]
    score: ScoreLine,
}

pub(crate) fn escrow_key(id: &DealId) -> RecordKey {
    record_key(id, "hire_escrow")
}

fn account(id: &DealId) -> AccountId {
    AccountId::escrow(id, Asset::USDC)
}

/// The label of the hold that fills an escrow.
const HOLD: &str = "hold";

impl HireEscrowRecord {
    fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// Why it was refunded.
    fn reason(&self) -> Option<Ending> {
        self.ending.filter(|ending| *ending != Ending::Released)
    }

    /// Whose wallet the money is in; what is refunded stays there.
    pub(super) fn payer(&self) -> AgentId {
        self.payer.unwrap_or(self.terms.buyer)
    }

    /// Those who are told: the buyer, the wallet that pays and, once the seller has delivered, the
    /// seller and who gets the money. Until then both are there on the buyer's word alone, and
    /// nobody's inbox is filled by strangers.
    fn sides(&self) -> Vec<AgentId> {
        let terms = &self.terms;
        let mut sides = vec![terms.buyer];
        sides.extend(self.payer);
        if self.delivered.is_none() {
            return sides;
        }
        sides.push(terms.seller);
        if !sides.contains(&terms.payee) {
            sides.push(terms.payee);
        }
        sides
    }

    fn view(self, settlement: Option<SettlementReceipt>) -> HireEscrow {
        HireEscrow {
            escrow_id: self.id,
            payer: self.payer,
            status: self.state.status(),
            reason: self.reason().map(|ending| ending.word().to_owned()),
            tx_hash: self.tx_hash.clone(),
            held_at: self.held_at,
            refund_at: self.is_held().then_some(self.due_at),
            delivered_at: self.delivered.as_ref().map(|delivered| delivered.at),
            receipt_id: self.delivered.map(|delivered| delivered.receipt_id),
            terms: self.terms,
            settlement,
        }
    }
}

impl Ending {
    fn word(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Buyer => "buyer",
            Ending::Seller => "seller",
            Ending::NotDelivered => "not_delivered",
            Ending::WindowPassed => "window_passed",
        }
    }
}

/// What filling an escrow loads besides the payment.
pub(super) fn load_hold(claim: &Claim, load: &mut Load) {
    let Some(id) = claim.escrow_id() else { return };
    load.records.push((escrow_key(&id), Lock::Exclusive));
    load.accounts.push(account(&id));
    load.transfers.push((RouteKey::of(id), id.transfer(HOLD)));
}

/// Holds the money of a payment whose terms were checked.
pub(super) fn hold(
    turn: &mut Turn,
    claim: &Claim,
    terms: &EscrowTerms,
    budget: Option<AccountId>,
) -> Result<(), Stop> {
    let missing = || Bug("an escrow has a hire".to_owned());
    let id = claim.escrow_id().ok_or_else(missing)?;
    let (_, facts) = claim.hire.as_ref().ok_or_else(missing)?;
    let key = escrow_key(&id);
    if turn.record::<HireEscrowRecord>(&key)?.is_some() {
        return Err(EscrowRefusal::Over.into());
    }
    let order = Order {
        id: id.transfer(HOLD),
        route: RouteKey::of(id),
        debit: claim.wallet(),
        credit: account(&id),
        amount: terms.amount,
        budget,
    };
    turn.book.hold_for(&claim.spender(), order)?;
    let now = turn.now();
    let mut record = HireEscrowRecord {
        id,
        terms: terms.clone(),
        payer: claim.absent_buyer().map(|_| claim.payer),
        params_hash: facts.params_hash,
        tx_hash: claim.tx_hash.clone(),
        state: State::Held,
        ending: None,
        held_at: now,
        delivered: None,
        due_at: now.plus(Duration::from_millis(terms.deliver_within_ms)),
        timer: None,
        order: None,
    };
    set_timer(turn, &mut record)?;
    turn.put(&key, &record)?;
    announce(turn, &record, "escrow.held", ScoreLine::default())
}

/// One timer, for as long as the money is held.
fn set_timer(turn: &mut Turn, record: &mut HireEscrowRecord) -> Result<(), Stop> {
    let route = RouteKey::of(record.id);
    if let Some(id) = record.timer.take() {
        turn.end_job(JobEnd { route: route.clone(), id });
    }
    if record.is_held() {
        let body = serde_json::json!({ "escrow": record.id }).to_string();
        let (destination, due_at) = (String::new(), record.due_at);
        let draft = JobDraft { route, kind: ESCROW_JOB, destination, due_at, body };
        record.timer = Some(turn.job(draft));
    }
    Ok(())
}

fn announce(
    turn: &mut Turn,
    record: &HireEscrowRecord,
    kind: &'static str,
    score: ScoreLine,
) -> Result<(), Stop> {
    let terms = &record.terms;
    let told = EscrowEvent {
        escrow_id: record.id,
        buyer: terms.buyer,
        payer: record.payer,
        seller: terms.seller,
        payee: terms.payee,
        capability: &terms.capability,
        amount_minor: terms.amount,
        asset: Asset::USDC,
        hire_hash: terms.hire_hash,
        tx_hash: &record.tx_hash,
        status: record.state.status(),
        reason: record.reason(),
        receipt_id: record.delivered.as_ref().map(|delivered| delivered.receipt_id.as_str()),
        refund_at: record.is_held().then_some(record.due_at),
        score,
    };
    let (route, sides) = (RouteKey::of(record.id), record.sides());
    let event = turn.event(&route, kind, &told, &sides)?;
    let mut agents: Vec<AgentRecord> = Vec::new();
    for side in &sides {
        // Whoever was not loaded has an inbox all the same.
        if let Ok(Some(agent)) = turn.record(&agent_key(side)) {
            agents.push(agent);
        }
    }
    let agents: Vec<&AgentRecord> = agents.iter().collect();
    Ok(notice::tell(turn, event, kind, &route, &agents, &told)?)
}

/// The escrow of a turn that loaded it.
fn loaded(turn: &Turn, id: &DealId) -> Result<HireEscrowRecord, Stop> {
    let known: Option<HireEscrowRecord> = turn.record(&escrow_key(id))?;
    known.ok_or_else(|| EscrowRefusal::Unknown { escrow: *id }.into())
}

impl Market {
    /// Adds what [`Market::escrow_delivered`] touches: the escrow's record. Where the records of
    /// both sides are loaded, their webhooks are told as well.
    pub(crate) fn load_escrow(&self, escrow: &DealId, load: &mut Load) {
        load.records.push((escrow_key(escrow), Lock::Exclusive));
    }

    /// The receipt is the delivery: it starts the buyer's time. The same receipt again is fine.
    pub(crate) fn escrow_delivered(
        &self,
        turn: &mut Turn,
        escrow: &DealId,
        receipt: &Receipt,
    ) -> Result<(), Stop> {
        let mut record = loaded(turn, escrow)?;
        let terms = &record.terms;
        if receipt.agent_id != terms.seller || receipt.buyer != terms.buyer {
            return Err(EscrowRefusal::NotYours.into());
        }
        let fits = receipt.params_hash == Some(record.params_hash)
            && receipt.hire_hash == Some(terms.hire_hash)
            && receipt.capability == terms.capability;
        let (Some(result_hash), true) = (receipt.result_hash, fits) else {
            return Err(EscrowRefusal::WrongResult.into());
        };
        if let Some(known) = &record.delivered {
            let same = known.receipt_id == receipt.hire_id && known.result_hash == result_hash;
            return if same { Ok(()) } else { Err(EscrowRefusal::Delivered.into()) };
        }
        let now = turn.now();
        if !record.is_held() {
            return Err(EscrowRefusal::Over.into());
        }
        // The deadline decides, whether its timer has come or not.
        if now >= record.due_at {
            return Err(EscrowRefusal::TooLate { at: record.due_at }.into());
        }
        let receipt_id = receipt.hire_id.clone();
        record.delivered = Some(Delivered { at: now, receipt_id, result_hash });
        record.due_at = now.plus(Duration::from_millis(record.terms.verification_window_ms));
        set_timer(turn, &mut record)?;
        turn.put(&escrow_key(escrow), &record)?;
        announce(turn, &record, "escrow.delivered", ScoreLine::default())
    }

    /// `HELD`, `RELEASED` or `REFUNDED`.
    pub(crate) async fn escrow_word(&self, escrow: &DealId) -> Result<Option<String>, Failure> {
        let known: Option<HireEscrowRecord> = self.read(escrow_key(escrow)).await?;
        let status = known.map(|record| serde_json::to_value(record.state.status()));
        let word = status.and_then(Result::ok);
        Ok(word.and_then(|word| word.as_str().map(str::to_owned)))
    }
}

impl Market {
    pub(super) async fn escrow_record(&self, id: &DealId) -> Result<HireEscrowRecord, Failure> {
        let known: Option<HireEscrowRecord> = self.read(escrow_key(id)).await?;
        known.ok_or_else(|| EscrowRefusal::Unknown { escrow: *id }.into())
    }

    /// How a hire's money stands. Whoever knows the id may see it.
    pub async fn hire_escrow(&self, id: DealId) -> Result<HireEscrow, Failure> {
        let keys = vec![escrow_key(&id), settlement_record_key(&id)];
        let mut records = self.read_all(keys).await?;
        let known: Option<HireEscrowRecord> = crate::read::next(&mut records)?;
        let record = known.ok_or(EscrowRefusal::Unknown { escrow: id })?;
        Ok(record.view(crate::read::next(&mut records)?))
    }
}
