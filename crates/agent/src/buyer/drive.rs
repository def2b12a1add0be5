//! From a signed payment to its end: the same seller, the same payment, until there is an answer
//! or it is certain that the money was not and cannot be taken.

use std::time::Duration;

use serde::Serialize;
use skep_base::{AgentId, Amount, Hash32, Timestamp, id::DealId};
use skep_hire::capability;
use skep_wire::{
    hire::{HIRE_FRESH_MS, HireEscrow, HireResponse, Receipt},
    settle::EscrowStatus,
    x402::{Payable, reason},
};
use tokio::task::JoinSet;

use super::{
    Buyer, HireError, Hired, PAUSE, PAUSE_MAX, Refusal,
    answer::{check_receipt, check_result, receipt_id_of},
    desk::{DeskError, PaymentState},
    entry::{Answered, Authorized, Entry, Open, Unanswered},
    lock,
    talk::{self, Said},
};

/// Answers of no use after which a seller is not asked any more.
const BAD_ANSWERS_MAX: u32 = 3;
/// How often a seller that has the money is asked once more, though its time is over.
const LATE_ASKS_MAX: u32 = 2;
/// How far the node's clock may be behind the buyer's.
const SKEW: Duration = Duration::from_secs(30);
/// How long a taken payment without a receipt is asked after, from one start to the next.
const RECEIPT_WAIT: Duration = Duration::from_secs(24 * 3600);
/// A refund is ordered so long before silence would do it.
pub(super) const REFUND_MARGIN: Duration = Duration::from_secs(3);
/// How long a question about a job may take.
const JOB_WAIT: Duration = Duration::from_secs(15);
/// Hires that are finished at the same time after a restart.
const RESUMED_AT_ONCE: usize = 16;

/// How one seller ended.
#[derive(Debug)]
pub(super) enum Driven {
    Hired(Box<Hired>),
    /// Nothing was paid, or all of it came back.
    Unpaid {
        refusal: Refusal,
        authorized: bool,
    },
}

/// What became of a hire that a crash had left open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resumed {
    pub hire_id: String,
    pub seller: AgentId,
    pub capability: String,
    /// `hired`, `unpaid`, or the code of an error.
    pub outcome: String,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hired: Option<Hired>,
}

/// Where a hire without an answer stands.
enum Standing {
    Waiting,
    /// The payment has expired unused, or there never was one.
    Unused,
    /// The money is gone or held, and no answer will come.
    Missed(Box<Unanswered>),
    /// The money is gone, and the seller has told nobody for what: it may still.
    Silent {
        tx_hash: String,
    },
    /// It cannot be told before this time.
    Unknown {
        until: Timestamp,
    },
}

impl Buyer {
    /// Finishes what an earlier run left open: asks again, counter-signs, orders escrows, or gives
    /// up what has expired unused.
    pub async fn resume(&self) -> Result<Vec<Resumed>, HireError> {
        let ids = self.book().open_ids();
        let mut running = JoinSet::new();
        let mut resumed = Vec::new();
        for id in ids {
            if running.len() >= RESUMED_AT_ONCE
                && let Some(one) = running.join_next().await
            {
                resumed.extend(one.ok().flatten());
            }
            let buyer = self.clone();
            running.spawn(async move { buyer.resume_one(id).await });
        }
        while let Some(one) = running.join_next().await {
            resumed.extend(one.ok().flatten());
        }
        Ok(resumed)
    }

    async fn resume_one(&self, id: Hash32) -> Option<Resumed> {
        let in_hand = self.in_hand(id);
        if !in_hand.taken {
            return None;
        }
        let open = self.look(id).ok()?;
        let (outcome, detail, hired) = match self.go_on(&open).await {
            Ok(Driven::Hired(hired)) => ("hired".to_owned(), String::new(), Some(*hired)),
            Ok(Driven::Unpaid { refusal, .. }) => ("unpaid".to_owned(), refusal.to_string(), None),
            Err(error) => (error.code().to_owned(), error.to_string(), None),
        };
        let (seller, capability) =
            (open.intent.listing.agent_id, open.intent.hire.capability.clone());
        Some(Resumed { hire_id: receipt_id_of(&open), seller, capability, outcome, detail, hired })
    }

    async fn go_on(&self, open: &Open) -> Result<Driven, HireError> {
        let id = open.intent.id;
        if open.authorized.is_some() || open.answered.is_some() || open.job_id.is_some() {
            return self.drive(id, None).await;
        }
        // Nothing was signed. A free call may have been made, and has an answer and a receipt.
        let fresh = self.now().since(open.intent.at) < Duration::from_millis(HIRE_FRESH_MS);
        if open.intent.listing.first_call_free == Some(true) && fresh {
            match self.ask(open).await {
                Some(said @ (Said::Done(_) | Said::Working(_))) => {
                    return self.drive(id, Some(said)).await;
                }
                // It cannot be asked just now: it stays open while it is fresh.
                Some(Said::NotNow(refusal)) => {
                    return Ok(Driven::Unpaid { refusal, authorized: false });
                }
                _ => {}
            }
        }
        self.abandon(id, "nothing_authorized").await?;
        Ok(Driven::Unpaid { refusal: Refusal::NoAnswer, authorized: false })
    }

    /// Asks until there is an answer or an end.
    pub(super) async fn drive(
        &self,
        id: Hash32,
        mut first: Option<Said>,
    ) -> Result<Driven, HireError> {
        let (mut pause, mut last) = (PAUSE, Refusal::NoAnswer);
        let (mut bad, mut late) = (0, LATE_ASKS_MAX);
        // A seller that has said its last word is not asked again.
        let mut deaf = false;
        loop {
            let open = self.look(id)?;
            if open.answered.is_some() || open.unanswered.is_some() {
                return self.finish(id).await;
            }
            let said = match first.take() {
                Some(said) => Some(said),
                None if deaf => None,
                None => self.ask(&open).await,
            };
            match said {
                Some(Said::Done(response)) => match self.take_answer(&open, *response).await? {
                    Ok(()) => continue,
                    Err(refusal) => {
                        bad += u32::from(matches!(refusal.code(), "wrong_receipt" | "garbage"));
                        last = refusal;
                    }
                },
                Some(Said::Working(job)) if open.job_id.is_none() => {
                    self.tell(|| format!("job {} is under way", job.job_id));
                    self.record(Entry::Accepted { id, job_id: job.job_id }).await?;
                    continue;
                }
                Some(Said::Working(_)) | None => {}
                Some(Said::Pay(demand)) => {
                    let code = demand.error.unwrap_or_default();
                    (bad, last) = (bad + not_pending(&code), not_taken(&code));
                }
                Some(Said::NotNow(refusal)) => {
                    bad += u32::from(matches!(refusal.code(), "garbage" | "too_large"));
                    last = refusal;
                }
                Some(Said::Never(refusal)) => (deaf, last) = (true, refusal),
            }
            deaf |= bad >= BAD_ANSWERS_MAX;
            match self.standing(&open, deaf, &last).await {
                Standing::Waiting => {}
                Standing::Unused => {
                    let authorized = open.authorized.is_some();
                    self.abandon(id, last.code()).await?;
                    return Ok(Driven::Unpaid { refusal: last, authorized });
                }
                // The work is paid for: it may only have been slow.
                Standing::Missed(missed) if missed.escrow_id.is_none() && !deaf && late > 0 => {
                    late -= 1;
                }
                Standing::Silent { .. } if !deaf && late > 0 => late -= 1,
                Standing::Missed(unanswered) => {
                    self.record(Entry::Unanswered(unanswered)).await?;
                    continue;
                }
                Standing::Silent { tx_hash } => return Err(silent(&open, tx_hash, &last)),
                Standing::Unknown { until } => return Err(uncertain(&open, until, &last)),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.inner.rung.notified() => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Brings the seller the payment, with what the node said of it a moment ago.
    pub(super) async fn pay(&self, open: &Open, payable: Option<Payable>) -> Said {
        let intent = &open.intent;
        let (egress, endpoint) = (&self.inner.egress, &intent.listing.endpoint);
        let wait = self.wait_for(intent.patience_ms);
        let paid = (open.authorized.as_ref(), payable.as_ref());
        talk::hire(egress, endpoint, &intent.hire, paid, wait).await
    }

    /// Asks the seller: about its job, or with the payment. Nothing: it is at work.
    async fn ask(&self, open: &Open) -> Option<Said> {
        let intent = &open.intent;
        let (egress, endpoint) = (&self.inner.egress, &intent.listing.endpoint);
        if let Some(job_id) = &open.job_id {
            let told =
                lock(&self.inner.callbacks).remove(&(intent.listing.agent_id, job_id.clone()));
            if let Some(said) = told.and_then(|callback| talk::job_said(callback.job)) {
                return Some(said);
            }
            return talk::job(egress, endpoint, job_id, JOB_WAIT).await;
        }
        Some(self.pay(open, None).await)
    }

    /// Takes an answer in if its receipt is of this hire and of this result.
    async fn take_answer(
        &self,
        open: &Open,
        response: HireResponse,
    ) -> Result<Result<(), Refusal>, HireError> {
        let receipt = match response.signed_receipt.clone() {
            Some(receipt) => Some(receipt),
            None => self.told_receipt(open).await,
        };
        let Some(receipt) = receipt else {
            return Ok(Err(Refusal::WrongReceipt("there is none")));
        };
        let extra = receipt.extra.values();
        if !extra.chain([&response.result]).all(capability::is_shallow) {
            return Ok(Err(Refusal::Garbage("it is nested too deep".to_owned())));
        }
        let checked =
            check_receipt(open, &receipt).and_then(|()| check_result(&response, &receipt));
        if let Err(refusal) = checked {
            return Ok(Err(refusal));
        }
        if let Some(terms) = open.authorized.as_ref().and_then(|a| a.escrow.as_ref()) {
            let escrow = match receipt.escrow_id {
                Some(id) => self.desk(&open.intent.listing.mode()).escrow(id).await,
                None => return Ok(Err(Refusal::WrongReceipt("it names no escrow"))),
            };
            // An order is for one escrow; the seller must not choose which.
            match escrow {
                Ok(escrow) if escrow.terms == *terms => {}
                Err(DeskError { retryable: true, detail, .. }) => {
                    return Ok(Err(Refusal::Unreached { code: "escrow_unreached", detail }));
                }
                _ => return Ok(Err(Refusal::WrongReceipt("it names another escrow"))),
            }
        }
        let since = open.authorized.as_ref().map_or(open.intent.at, |authorized| authorized.at);
        let latency_ms = self.now().since(since).as_millis();
        let answered = Answered {
            id: open.intent.id,
            latency_ms: u64::try_from(latency_ms).unwrap_or(u64::MAX),
            response,
            receipt,
        };
        self.record(Entry::Answered(Box::new(answered))).await?;
        Ok(Ok(()))
    }

    /// The receipt of a hire as the node has it, if it is one.
    async fn told_receipt(&self, open: &Open) -> Option<Receipt> {
        let desk = self.receipt_desk(open);
        let stored = desk.receipt(&receipt_id_of(open)).await.ok()?;
        check_receipt(open, &stored.receipt).ok().map(|()| stored.receipt)
    }

    async fn standing(&self, open: &Open, deaf: bool, last: &Refusal) -> Standing {
        let now = self.now();
        let Some(authorized) = &open.authorized else {
            let patience = Duration::from_millis(open.intent.patience_ms);
            let over = deaf || now.since(open.intent.at) > patience + self.inner.config.grace;
            return if over { Standing::Unused } else { Standing::Waiting };
        };
        let expiry = expiry(authorized);
        // Only what may have ended is worth a question.
        if authorized.escrow.is_none() && !deaf && now < expiry {
            return Standing::Waiting;
        }
        let state = self.desk(&open.intent.listing.mode()).payment_state(open).await;
        match state {
            Ok(PaymentState::Expired) => Standing::Unused,
            Ok(PaymentState::Taken { tx_hash, escrow_id }) => match authorized.escrow {
                Some(_) => self.standing_in_escrow(open, deaf, last, (tx_hash, escrow_id)).await,
                None => self.standing_taken(open, last, tx_hash).await,
            },
            Ok(PaymentState::Usable) | Err(_) if now < expiry.plus(SKEW) => Standing::Waiting,
            Ok(PaymentState::Usable) | Err(_) => Standing::Unknown { until: expiry.plus(SKEW) },
        }
    }

    /// Direct, and the seller has the money.
    async fn standing_taken(&self, open: &Open, last: &Refusal, tx_hash: String) -> Standing {
        let receipt = self.told_receipt(open).await;
        let age = self.now().since(open.intent.at);
        if receipt.is_none() && age < RECEIPT_WAIT {
            return Standing::Silent { tx_hash };
        }
        Standing::Missed(Box::new(missed(open, last, tx_hash, receipt, None)))
    }

    /// The money is in escrow. It waits there for a delivery, then for the buyer.
    async fn standing_in_escrow(
        &self,
        open: &Open,
        deaf: bool,
        last: &Refusal,
        (tx_hash, escrow_id): (String, Option<DealId>),
    ) -> Standing {
        let receipt = self.told_receipt(open).await;
        let now = self.now();
        let soon = Standing::Unknown { until: now.plus(SKEW) };
        let told = receipt.as_ref().and_then(|receipt| receipt.escrow_id);
        let Some(escrow_id) = escrow_id.or(told) else { return soon };
        let desk = self.desk(&open.intent.listing.mode());
        let Ok(escrow) = desk.escrow(escrow_id).await else { return soon };
        let HireEscrow { status, delivered_at, refund_at, .. } = escrow;
        let missed = || {
            let missed = missed(open, last, tx_hash, receipt, Some(escrow_id));
            Standing::Missed(Box::new(missed))
        };
        let end = refund_at.unwrap_or(now);
        match (status, delivered_at) {
            (EscrowStatus::Refunded | EscrowStatus::Released, _) => missed(),
            (EscrowStatus::Held, Some(_)) if deaf || now >= end.minus(REFUND_MARGIN) => missed(),
            (EscrowStatus::Held, None) if now > end => missed(),
            (EscrowStatus::Held, None) if deaf || now >= self.give_up_at(open) => {
                Standing::Unknown { until: end }
            }
            (EscrowStatus::Held, _) => Standing::Waiting,
        }
    }

    /// When an order is not waited for any longer, though its money is safe.
    fn give_up_at(&self, open: &Open) -> Timestamp {
        let patience = Duration::from_millis(open.intent.patience_ms);
        let begun = open.authorized.as_ref().map_or(open.intent.at, |authorized| authorized.at);
        begun.plus(patience + self.inner.config.grace)
    }
}

/// A settlement that is not known yet may be known at the next try.
fn not_pending(code: &str) -> u32 {
    u32::from(code != reason::SETTLEMENT_PENDING)
}

fn not_taken(code: &str) -> Refusal {
    let detail = "it does not take the payment".to_owned();
    Refusal::Declined { status: 402, code: talk::short(code), detail }
}

fn expiry(authorized: &Authorized) -> Timestamp {
    Timestamp::from_ms(authorized.valid_before.saturating_mul(1000))
}

fn missed(
    open: &Open,
    last: &Refusal,
    tx_hash: String,
    receipt: Option<Receipt>,
    escrow_id: Option<DealId>,
) -> Unanswered {
    Unanswered {
        id: open.intent.id,
        code: last.code().to_owned(),
        reason: last.to_string(),
        tx_hash,
        receipt,
        escrow_id,
    }
}

fn silent(open: &Open, tx_hash: String, last: &Refusal) -> HireError {
    HireError::PaidWithoutAnswer {
        seller: open.intent.listing.agent_id,
        amount: open.amount(),
        tx_hash,
        reason: last.to_string(),
        disputed: false,
    }
}

fn uncertain(open: &Open, until: Timestamp, last: &Refusal) -> HireError {
    let (seller, amount): (AgentId, Amount) = (open.intent.listing.agent_id, open.amount());
    HireError::Uncertain { seller, amount, until, reason: last.to_string() }
}
