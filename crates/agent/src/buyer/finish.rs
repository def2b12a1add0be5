//! After the answer: check it, say what becomes of money in escrow, counter-sign the receipt.

use std::{collections::BTreeMap, time::Duration};

use skep_base::{Amount, Hash32, Timestamp, id::DealId};
use skep_probe::NotLooked;
use skep_wire::{
    hire::{
        CounterSignature, CounterSigned, EscrowOrder, EscrowVerb, HireEscrow, Receipt,
        Verification, VerificationSummary, WalletSigned,
    },
    settle::EscrowStatus,
};

use super::{
    Buyer, EscrowEnd, HireError, Hired, PAUSE, Refusal,
    desk::DeskError,
    drive::{Driven, REFUND_MARGIN},
    entry::{Answered, Entry, Open, Unanswered},
};

/// The longest reason in a counter-signature, in characters.
const REASON_CHARS_MAX: usize = 200;

/// How long a node that is away is asked to take an order: about as long as a window.
const ORDER_PATIENCE: Duration = Duration::from_secs(20);

/// How long a result waits for a checker that is overloaded.
const CHECK_PATIENCE: Duration = Duration::from_secs(120);

/// What the buyer says about a receipt.
struct Opinion {
    verification: VerificationSummary,
    verifiable: bool,
    version: Option<String>,
    latency_ms: Option<u64>,
    dispute: bool,
    reason: Option<String>,
}

impl Buyer {
    /// Goes on from wherever the journal stands.
    pub(super) async fn finish(&self, id: Hash32) -> Result<Driven, HireError> {
        let open = self.look(id)?;
        match (open.answered.clone(), open.unanswered.clone()) {
            (Some(answered), _) => self.finish_answered(&open, answered).await,
            (None, Some(unanswered)) => self.finish_unanswered(&open, unanswered).await,
            (None, None) => Err(HireError::BadOrder("this hire has no answer".to_owned())),
        }
    }

    async fn finish_answered(&self, open: &Open, answered: Answered) -> Result<Driven, HireError> {
        let Answered { id, latency_ms, response, receipt } = answered;
        let (verification, unseen) = match &open.verification {
            Some(verification) => (verification.clone(), None),
            None => self.check(open, &response.result, receipt.escrow_id).await?,
        };
        if let Some(why) = unseen {
            // Whoever has not looked says nothing in public: the next run does.
            let unfinished = Some(format!("the result was not looked at: {why}"));
            let answered = Answered { id, latency_ms, response, receipt };
            let hired = hired(open, answered, verification, unfinished);
            return Ok(Driven::Hired(Box::new(hired)));
        }
        let mut unfinished = None;
        // The escrow first: its time is short.
        let escrow = match receipt.escrow_id {
            Some(escrow_id) => {
                let order = self.order_for(open, escrow_id, &receipt, &verification).await?;
                let (end, left) = self.send_order(open, &order).await;
                unfinished = left;
                Some(end)
            }
            None => None,
        };
        let dispute = verification.failed();
        let opinion = Opinion {
            verification: verification.summary(),
            verifiable: verification.verifiable,
            version: verification.version.clone(),
            latency_ms: Some(latency_ms),
            dispute,
            reason: dispute.then(|| failed_checks(&verification)),
        };
        let signed = self.counter_sign(open, &receipt, opinion).await?;
        let mut countersign_refused = None;
        let rating_token = match signed {
            Ok(signed) => Some(signed.rating_token),
            Err(error) => {
                match error.retryable {
                    true => drop(unfinished.get_or_insert(error.to_string())),
                    false => countersign_refused = Some(error.to_string()),
                }
                None
            }
        };
        let refunded = escrow.as_ref().is_some_and(|end| end.status == "REFUNDED");
        let paid = if refunded { Amount::ZERO } else { open.amount() };
        if unfinished.is_none() {
            self.record(Entry::Done { id, at: self.now(), paid }).await?;
        }
        let answered = Answered { id, latency_ms, response, receipt };
        let hired = hired(open, answered, verification, unfinished);
        let hired = Hired { rating_token, countersign_refused, paid, escrow, ..hired };
        Ok(Driven::Hired(Box::new(hired)))
    }

    /// The money is gone or held, and no good answer came.
    async fn finish_unanswered(
        &self,
        open: &Open,
        missed: Unanswered,
    ) -> Result<Driven, HireError> {
        let Unanswered { id, code, reason, tx_hash, receipt, escrow_id } = missed;
        let mut status = None;
        if let Some(escrow_id) = escrow_id {
            let end = self.take_back(open, escrow_id).await?;
            if end.status == EscrowStatus::Held {
                // It is not late enough yet: the next run asks again.
                let until = end.refund_at.unwrap_or_else(|| self.now());
                let (seller, amount) = (open.intent.listing.agent_id, open.amount());
                return Err(HireError::Uncertain { seller, amount, until, reason });
            }
            status = Some(end.status);
        }
        let disputed = match &receipt {
            Some(receipt) => {
                let opinion = Opinion {
                    verification: VerificationSummary {
                        all_passed: false,
                        checks: BTreeMap::from([("answered".to_owned(), false)]),
                    },
                    verifiable: true,
                    version: None,
                    latency_ms: None,
                    dispute: true,
                    reason: Some(reason.chars().take(REASON_CHARS_MAX).collect()),
                };
                match self.counter_sign(open, receipt, opinion).await? {
                    Ok(_) => true,
                    Err(error) if error.retryable => return Err(error.into()),
                    Err(_) => false,
                }
            }
            None => false,
        };
        let refunded = status == Some(EscrowStatus::Refunded);
        let amount = open.amount();
        let paid = if refunded { Amount::ZERO } else { amount };
        self.record(Entry::Done { id, at: self.now(), paid }).await?;
        if refunded {
            let refusal = Refusal::Failed { code, detail: reason };
            return Ok(Driven::Unpaid { refusal, authorized: true });
        }
        let seller = open.intent.listing.agent_id;
        Err(HireError::PaidWithoutAnswer { seller, amount, tx_hash, reason, disputed })
    }

    /// The capability's own check, by the buyer (8.1). A checker that has no time for it says
    /// nothing about the result: it is asked again until money in escrow would go back by itself.
    /// Gives why nobody looked, if nobody did; then nothing is written down.
    async fn check(
        &self,
        open: &Open,
        result: &serde_json::Value,
        escrow_id: Option<DealId>,
    ) -> Result<(Verification, Option<String>), HireError> {
        let (intent, checker) = (&open.intent, &self.inner.config.checker);
        let version = intent.listing.verification_version.as_deref();
        let params = &intent.hire.params;
        self.tell(|| "checking the result".to_owned());
        let until = self.check_until(open, escrow_id).await;
        let found = loop {
            let left = until.since(self.now());
            let looking = checker.look(&intent.hire.capability, version, params, result);
            let why = match tokio::time::timeout(left, looking).await {
                Ok(Ok(found)) => break found,
                Ok(Err(NotLooked(why))) => why,
                Err(_) => "the checker is busy".to_owned(),
            };
            if self.now().plus(PAUSE) < until {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            // Money in escrow goes back by silence; nobody has said that the work is good.
            return Ok((Verification::not_verifiable(&why), Some(why)));
        };
        let entry = Entry::Verified { id: intent.id, verification: found.clone() };
        self.record(entry).await?;
        Ok((found, None))
    }

    /// Until when a result may be looked at.
    async fn check_until(&self, open: &Open, escrow_id: Option<DealId>) -> Timestamp {
        let patience = self.now().plus(CHECK_PATIENCE);
        let Some(escrow_id) = escrow_id else { return patience };
        let escrow = self.desk(&open.intent.listing.mode()).escrow(escrow_id).await;
        // Once the money is on its way, what is found is for the receipt alone: there is time.
        let held = escrow.ok().filter(|escrow| escrow.status == EscrowStatus::Held);
        let end = held.and_then(|escrow| escrow.refund_at).map(|end| end.minus(REFUND_MARGIN));
        end.filter(|end| *end > self.now()).map_or(patience, |end| end.min(patience))
    }

    /// What becomes of the money: good work is paid, bad work is not, and what nobody can check is
    /// paid only if the order says so.
    async fn order_for(
        &self,
        open: &Open,
        escrow_id: DealId,
        receipt: &Receipt,
        verification: &Verification,
    ) -> Result<EscrowOrder, HireError> {
        let release = match verification.verifiable {
            true => verification.all_passed,
            false => open.intent.accept_unverifiable,
        };
        let verb = if release { EscrowVerb::Release } else { EscrowVerb::Refund };
        let summary = Some(verification.summary());
        self.ordered(open, escrow_id, verb, receipt.result_hash, summary).await
    }

    /// The signed order of a hire, the same after every restart.
    async fn ordered(
        &self,
        open: &Open,
        escrow_id: DealId,
        verb: EscrowVerb,
        result_hash: Option<Hash32>,
        verification: Option<VerificationSummary>,
    ) -> Result<EscrowOrder, HireError> {
        if let Some(order) = &open.order {
            return Ok(order.clone());
        }
        let mut order = EscrowOrder {
            escrow_id,
            verb,
            by: self.agent_id(),
            result_hash,
            verification,
            issued_at: self.now(),
            signature: None,
        };
        let signed = order.sign(&self.inner.config.wallet);
        signed.map_err(|error| HireError::Sign(error.to_string()))?;
        let entry = Entry::EscrowOrdered { id: open.intent.id, order: Box::new(order.clone()) };
        self.record(entry).await?;
        Ok(order)
    }

    /// Sends an order. If the time was over before it came, the money is back already.
    async fn send_order(&self, open: &Open, order: &EscrowOrder) -> (EscrowEnd, Option<String>) {
        let desk = self.desk(&open.intent.listing.mode());
        let until = self.now().plus(ORDER_PATIENCE);
        let answer = loop {
            match desk.order(order).await {
                Err(error) if error.retryable && self.now() < until => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) if !error.retryable => {
                    break desk.escrow(order.escrow_id).await.map_err(|_| error);
                }
                answer => break answer,
            }
        };
        match answer {
            // It was not taken, and its time is not over either: the next run asks again.
            Ok(escrow) if escrow.status == EscrowStatus::Held => {
                (end_of(&escrow), Some("the escrow did not take the order".to_owned()))
            }
            Ok(escrow) => (end_of(&escrow), None),
            Err(error) => {
                let status = "HELD".to_owned();
                let end = EscrowEnd { escrow_id: order.escrow_id, status, reason: None };
                (end, Some(error.to_string()))
            }
        }
    }

    /// Gets money back for which nothing came: by order after a delivery, by time before one.
    async fn take_back(&self, open: &Open, escrow_id: DealId) -> Result<HireEscrow, HireError> {
        let desk = self.desk(&open.intent.listing.mode());
        let escrow = desk.escrow(escrow_id).await?;
        if escrow.status != EscrowStatus::Held {
            return Ok(escrow);
        }
        let asked = match escrow.delivered_at {
            Some(_) => {
                let verb = EscrowVerb::Refund;
                let order = self.ordered(open, escrow_id, verb, None, None).await?;
                desk.order(&order).await
            }
            None => desk.timeout_refund(escrow_id).await,
        };
        match asked {
            Err(error) if error.retryable => Err(error.into()),
            Err(_) => Ok(desk.escrow(escrow_id).await?),
            Ok(escrow) => Ok(escrow),
        }
    }

    /// Says in public what came of it, and gets the right to one rating.
    async fn counter_sign(
        &self,
        open: &Open,
        receipt: &Receipt,
        opinion: Opinion,
    ) -> Result<Result<CounterSigned, DeskError>, HireError> {
        let signature = match &open.counter_signature {
            Some(signature) => signature.clone(),
            None => self.signed_opinion(open, receipt, opinion).await?,
        };
        let desk = self.receipt_desk(open);
        let mut answer = desk.countersign(&signature).await;
        if answer.as_ref().is_err_and(|error| error.not_found) {
            // The seller died before it told the node; its word is signed, so the buyer can.
            if let Err(error) = desk.submit_receipt(receipt).await {
                return Ok(Err(error));
            }
            answer = desk.countersign(&signature).await;
        }
        Ok(answer)
    }

    async fn signed_opinion(
        &self,
        open: &Open,
        receipt: &Receipt,
        opinion: Opinion,
    ) -> Result<CounterSignature, HireError> {
        let not_signable = |error: &dyn ToString| HireError::Sign(error.to_string());
        let mut signature = CounterSignature {
            hire_id: receipt.hire_id.clone(),
            receipt_hash: receipt.hash().map_err(|error| not_signable(&error))?,
            buyer: self.agent_id(),
            verification: opinion.verification,
            verifiable: opinion.verifiable,
            verification_version: opinion.version,
            latency_ms: opinion.latency_ms,
            dispute: opinion.dispute,
            reason: opinion.reason,
            signed_at: self.now(),
            signature: None,
        };
        signature.sign(&self.inner.config.wallet).map_err(|error| not_signable(&error))?;
        let id = open.intent.id;
        let entry = Entry::Countersigned { id, signature: Box::new(signature.clone()) };
        self.record(entry).await?;
        Ok(signature)
    }
}

/// What came of a hire, as far as the answer tells.
fn hired(
    open: &Open,
    answered: Answered,
    verification: Verification,
    unfinished: Option<String>,
) -> Hired {
    let Answered { latency_ms, response, receipt, .. } = answered;
    let listing = &open.intent.listing;
    Hired {
        hire_id: receipt.hire_id.clone(),
        seller: listing.agent_id,
        listing_id: listing.id(),
        capability: listing.capability.clone(),
        result: response.result,
        dispute: verification.failed(),
        verification,
        rating_token: None,
        countersign_refused: None,
        paid: open.amount(),
        payer: open.authorized.as_ref().and(open.intent.hire.payer.as_ref()).map(|it| it.wallet),
        tx_hash: receipt.tx_hash.clone(),
        receipt,
        payment_mode: listing.mode(),
        escrow: None,
        latency_ms,
        tried: Vec::new(),
        unfinished,
    }
}

fn end_of(escrow: &HireEscrow) -> EscrowEnd {
    let status = match escrow.status {
        EscrowStatus::Held => "HELD",
        EscrowStatus::Released => "RELEASED",
        EscrowStatus::Refunded => "REFUNDED",
    };
    EscrowEnd {
        escrow_id: escrow.escrow_id,
        status: status.to_owned(),
        reason: escrow.reason.clone(),
    }
}

fn failed_checks(verification: &Verification) -> String {
    let failed = verification.checks.iter().filter(|check| !check.passed);
    let names: Vec<&str> = failed.map(|check| check.name.as_str()).collect();
    format!("failed: {}", names.join(", ")).chars().take(REASON_CHARS_MAX).collect()
}
