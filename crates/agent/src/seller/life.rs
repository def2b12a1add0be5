//! The life of a hire, from its beginning to its receipt. Each step ends in a line of the journal,
//! and the next step follows from the lines alone: after a crash a hire goes on where it was.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use skep_base::{Timestamp, hash::json_sha256};
use skep_hire::capability;
use skep_probe::Request;
use skep_sdk::{Client, Error};
use skep_wire::{
    hire::{
        EscrowOrder, EscrowVerb, HirePayload, HireReceipt, HireResponse, JobCallback, JobError,
        JobStatus, NO_TX, Receipt, Usdc, WalletSigned,
    },
    x402::{FacilitatorRequest, Rail, SettleResponse, ledger_network, reason},
};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Sale, Shop, book, checks,
    entry::{Entry, Failure, Hire, Known, Made, Next, Way},
    offer::Ware,
    till::Unpaid,
    work::JobContext,
};

/// Between tries of what must happen sooner or later; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_LONGEST: Duration = Duration::from_secs(30);
/// How often a job's end is posted, and how long between; it grows fivefold.
const CALLBACK_TRIES: u32 = 3;
const CALLBACK_PAUSE: Duration = Duration::from_secs(1);
/// How often the node may be unable to say why it does not take a payment.
const UNEXPECTED_MAX: u32 = 5;
/// After so many tries of a payment others may have the seat.
const SEAT_TRIES: u32 = 3;
/// The longest result as JSON, in bytes; in escrow with its parameters. Buyers and nodes read
/// 16 MiB, and the receipt comes along.
pub const RESULT_LEN_MAX: usize = 15 * 1024 * 1024;

impl Shop {
    /// Does what is left to do for a hire, whoever waits for it or not.
    pub(crate) fn carry_on(self: &Arc<Self>, id: String, seat: Option<OwnedSemaphorePermit>) {
        let shop = Arc::clone(self);
        let busy = shop.busy();
        tokio::spawn(async move {
            shop.live(&id, seat).await;
            drop(busy);
        });
    }

    /// After a start: everything that a stop or a crash has interrupted.
    pub(crate) fn resume(self: &Arc<Self>) -> usize {
        let unfinished = self.book.unfinished();
        let count = unfinished.len();
        for id in unfinished {
            let shop = Arc::clone(self);
            let busy = shop.busy();
            tokio::spawn(async move {
                let held = shop
                    .book
                    .get(&id)
                    .filter(|known| known.held.is_some() && known.next() == Next::Run);
                if let Some(known) = held {
                    // Its time is running; the buyer gets its money back rather than wait.
                    let failed = shop.give_back(&known, book::interrupted()).await;
                    if shop.note(failed).await.is_err() {
                        return;
                    }
                }
                shop.live(&id, None).await;
                drop(busy);
            });
        }
        count
    }

    async fn live(self: &Arc<Self>, id: &str, mut seat: Option<OwnedSemaphorePermit>) {
        while let Some(known) = self.book.get(id) {
            let entry = match known.next() {
                Next::Hold => self.hold(&known, &mut seat).await,
                Next::Run => {
                    let entry = self.run(&known, seat.take()).await;
                    self.tell(&known, &entry);
                    entry
                }
                Next::Settle => self.settle(&known).await,
                Next::Submit => self.submit(&known).await,
                Next::CallBack => self.call_back(&known).await,
                Next::Nothing => {
                    self.tell_end(&known);
                    return;
                }
            };
            if self.note(entry).await.is_err() {
                return;
            }
        }
    }

    async fn note(&self, entry: Entry) -> Result<(), ()> {
        self.book.record(entry).await.map_err(|error| {
            tracing::error!(%error, "a hire stops here until the next start");
        })
    }

    /// Takes the money into escrow before anything is done for it.
    async fn hold(&self, known: &Known, seat: &mut Option<OwnedSemaphorePermit>) -> Entry {
        let (id, at) = (known.hire.id.clone(), self.now());
        let Way::Escrow(paid) = &known.hire.way else {
            return failed(&known.hire, at, 500, "no_escrow", "the hire has no escrow");
        };
        let (request, terms) = paid.as_ref();
        let deadline = known.hire.at.plus(Duration::from_millis(terms.deliver_within_ms));
        if at > deadline {
            return failed(&known.hire, at, 504, "too_late", "the time to deliver is over");
        }
        let (client, _) = self.till.rail(&known.hire.mode);
        match self.settle_surely(&client, request, seat).await {
            Ok(settled) => Entry::Held { id, at: self.now(), settled },
            Err(unpaid) => refused(&known.hire, self.now(), unpaid),
        }
    }

    async fn run(&self, known: &Known, seat: Option<OwnedSemaphorePermit>) -> Entry {
        let (hire, now) = (&known.hire, self.now());
        let Some(ware) = self.ware(hire) else {
            let detail = "this is not sold any more";
            return self.fail(known, 502, "capability_not_sold", detail).await;
        };
        let ends = hire.valid_before_s.filter(|_| known.held.is_none());
        if ends.is_some_and(|ends| u64::try_from(now.as_ms() / 1000).unwrap_or(0) >= ends) {
            let unpaid = Unpaid::new(reason::VALID_BEFORE, "the payment's time is over");
            return refused(hire, now, unpaid);
        }
        // Nobody comes between a seat that was found and its hire; after a start they queue.
        let seat = match seat {
            Some(seat) => Some(seat),
            None => ware.seats.clone().acquire_owned().await.ok(),
        };
        let context = JobContext {
            hire_id: hire.id.clone(),
            capability: hire.capability.clone(),
            buyer: hire.buyer,
            time_limit: Duration::from_millis(hire.max_latency_ms),
        };
        let started = std::time::Instant::now();
        let result = ware.offer.work.run(hire.params.clone(), context).await;
        let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        drop(seat);
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                let (status, code) = error.code();
                return self.fail(known, status, code, &error.to_string()).await;
            }
        };
        let len = result.to_string().len();
        if let Err((code, detail)) = check_result(hire, &result, len) {
            return self.fail(known, 502, code, detail).await;
        }
        let (result, fits) = ware.schemas.check_output(result).await;
        if let Err(problems) = fits {
            let detail = format!("the result does not fit the schema: {}", problems.join("; "));
            return self.fail(known, 502, "bad_output", &detail).await;
        }
        let verification =
            checks::verify(self.checker.as_ref(), &ware.offer, &hire.params, &result).await;
        if verification.failed() {
            let bad: Vec<&str> = verification
                .checks
                .iter()
                .filter(|check| !check.passed)
                .map(|check| check.name.as_str())
                .collect();
            let detail = format!("the result does not pass {}", bad.join(", "));
            return self.fail(known, 502, "bad_output", &detail).await;
        }
        let made = Made { at: self.now(), latency_ms, result, verification, len };
        Entry::Produced { id: hire.id.clone(), made: Box::new(made) }
    }

    /// There will be no result; what is in escrow goes back.
    async fn fail(&self, known: &Known, status: u16, code: &str, detail: &str) -> Entry {
        let failure = Failure { status, code: code.to_owned(), detail: detail.to_owned() };
        self.give_back(known, failure).await
    }

    /// Gives money in escrow back, if there is any.
    async fn give_back(&self, known: &Known, failure: Failure) -> Entry {
        let id = known.hire.id.clone();
        let held = known.held.as_ref().and_then(|held| held.escrow_id.as_ref());
        let Some(escrow_id) = held.and_then(|id| id.parse().ok()) else {
            return Entry::Failed { id, at: self.now(), failure };
        };
        let mut order = EscrowOrder {
            escrow_id,
            verb: EscrowVerb::Refund,
            by: self.seller,
            result_hash: None,
            verification: None,
            issued_at: self.now(),
            signature: None,
        };
        if let Err(error) = order.sign(&self.wallet) {
            tracing::error!(%error, "a refund could not be signed");
        }
        let (client, _) = self.till.rail(&known.hire.mode);
        let mut rest = Rest(PAUSE_FIRST);
        loop {
            match client.order_escrow(&order).await {
                Ok(_) => break,
                Err(error) if error.is_retryable() => rest.take().await,
                Err(error) => {
                    // Over already: by the buyer's word or by its time.
                    tracing::warn!(%error, hire = id, "the seller did not refund the escrow");
                    break;
                }
            }
        }
        Entry::Failed { id, at: self.now(), failure }
    }

    async fn settle(&self, known: &Known) -> Entry {
        let hire = &known.hire;
        let Way::Direct(request) = &hire.way else {
            return failed(hire, self.now(), 500, "no_payment", "the hire has no payment");
        };
        let (client, rail) = self.till.rail(&hire.mode);
        let expected = rail.and_then(|rail| self.expected(hire, request, &rail));
        let request = self.with_receipt(known, request, expected.as_ref());
        match self.settle_surely(&client, &request, &mut None).await {
            Ok(mut settled) => {
                // What was entered names the payment that was expected.
                let same = |e: &SettleResponse| {
                    (&e.transaction, &e.network) == (&settled.transaction, &settled.network)
                };
                settled.receipt_entered &= expected.as_ref().is_some_and(same);
                Entry::Settled { id: hire.id.clone(), at: self.now(), settled }
            }
            Err(Unpaid { reason: code, detail }) => {
                let failure = Failure { status: 402, code, detail };
                Entry::Withheld { id: hire.id.clone(), at: self.now(), failure }
            }
        }
    }

    /// How the node will name the payment of a signed hire whose receipt can go along with it.
    /// What is left for those who check later goes after the receipt.
    fn expected(
        &self,
        hire: &Hire,
        request: &FacilitatorRequest,
        rail: &Rail,
    ) -> Option<SettleResponse> {
        let (hash, envelope) = hire.signed.as_ref()?;
        let audited = self.ware(hire).is_some_and(|ware| ware.offer.audit_participating);
        let network = request.payment_requirements.get("network")?.as_str()?.to_owned();
        let transaction = rail.tx_hash(&hire.payer(), &envelope.payment_nonce(hash));
        (!audited).then(|| SettleResponse { transaction, network, ..SettleResponse::default() })
    }

    /// The payment, with its receipt where one can be signed already.
    fn with_receipt(
        &self,
        known: &Known,
        request: &FacilitatorRequest,
        expected: Option<&SettleResponse>,
    ) -> FacilitatorRequest {
        let mut request = request.clone();
        let receipt = expected.and_then(|expected| self.receipt_of(known, Some(expected)));
        if let Some(terms) = &mut request.skep {
            terms.receipt = receipt.map(Box::new);
        }
        request
    }

    /// Sends one and the same payment until it is certain whether it was taken. The node takes it
    /// once, however often it is asked.
    async fn settle_surely(
        &self,
        client: &Client,
        request: &FacilitatorRequest,
        seat: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<SettleResponse, Unpaid> {
        let (mut tries, mut unexpected) = (0, 0);
        let mut rest = Rest(PAUSE_FIRST);
        loop {
            match client.x402_settle(request).await {
                Ok(settled) if settled.success => return Ok(settled),
                Ok(refused) => {
                    let reason = refused.error_reason.unwrap_or_default();
                    unexpected += u32::from(reason == reason::UNEXPECTED_SETTLE);
                    let unclear = match reason.as_str() {
                        reason::SETTLEMENT_PENDING => true,
                        reason::UNEXPECTED_SETTLE => unexpected < UNEXPECTED_MAX,
                        _ => false,
                    };
                    if !unclear {
                        let detail = refused.error_message.unwrap_or_default();
                        return Err(Unpaid { reason, detail });
                    }
                }
                Err(Error::Problem { problem, .. }) if !problem.retryable => {
                    return Err(Unpaid { reason: problem.code, detail: problem.detail });
                }
                Err(error) => tracing::warn!(%error, "a payment is asked for again"),
            }
            tries += 1;
            if tries >= SEAT_TRIES {
                drop(seat.take());
            }
            rest.take().await;
        }
    }

    /// Brings the receipt to the node that the money went through; in escrow this is the delivery.
    async fn submit(&self, known: &Known) -> Entry {
        let (hire, id) = (&known.hire, known.hire.id.clone());
        let Some((receipt, made)) = self.receipt(known).zip(known.made.clone()) else {
            return failed(hire, self.now(), 500, "no_receipt", "the receipt cannot be signed");
        };
        let is_free = matches!(hire.way, Way::Free);
        // Nothing went through an escrow for a free call; its receipt is for the registry.
        let client = if is_free { self.node.clone() } else { self.till.rail(&hire.mode).0 };
        let audited = || self.ware(hire).is_some_and(|ware| ware.offer.audit_participating);
        let keeps_payload = match hire.mode.is_escrow() {
            true => !is_free,
            false => audited(),
        };
        let payload = keeps_payload
            .then(|| HirePayload { params: hire.params.clone(), result: made.result.clone() });
        let is_escrow = matches!(hire.way, Way::Escrow(_));
        let mut rest = Rest(PAUSE_FIRST);
        let done = loop {
            match bring(&client, &receipt, payload.as_ref()).await {
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, hire = id, "the receipt comes later");
                    if !is_escrow {
                        self.book.mark_answerable(&id);
                    }
                    rest.take().await;
                }
                done => break done,
            }
        };
        match done {
            Ok(()) => Entry::Receipted { id, at: self.now() },
            Err(error) if is_escrow => {
                tracing::warn!(%error, hire = id, "the result was not delivered");
                let failure = Failure {
                    status: 409,
                    code: "not_delivered".to_owned(),
                    detail: format!("the escrow does not take the result: {error}"),
                };
                self.give_back(known, failure).await
            }
            Err(error) => {
                tracing::warn!(%error, hire = id, "the node does not take the receipt");
                Entry::ReceiptRefused { id, at: self.now(), code: error.code().to_owned() }
            }
        }
    }

    /// The signed receipt. It follows from the journal alone, so that it is the same on every try.
    pub(crate) fn receipt(&self, known: &Known) -> Option<Receipt> {
        self.receipt_of(known, known.payment())
    }

    fn receipt_of(&self, known: &Known, paid: Option<&SettleResponse>) -> Option<Receipt> {
        let (hire, made) = (&known.hire, known.made.as_ref()?);
        let network = paid.map(|paid| paid.network.clone()).filter(|name| !name.is_empty());
        let escrow_id = known.held.as_ref().and_then(|held| held.escrow_id.as_ref());
        let mut receipt = Receipt {
            protocol_version: hire.protocol.clone(),
            hire_id: hire.id.clone(),
            agent_id: self.seller,
            payee: hire.payee,
            buyer: hire.buyer,
            capability: hire.capability.clone(),
            capability_version: made.verification.version.clone(),
            amount_usdc_atomic: if paid.is_some() { hire.price } else { Default::default() },
            network: network.unwrap_or_else(ledger_network),
            tx_hash: paid.map_or_else(|| NO_TX.to_owned(), |paid| paid.transaction.clone()),
            completed_at: made.at,
            verification: made.verification.summary(),
            params_hash: Some(hire.params_hash),
            result_hash: json_sha256(&made.result).ok(),
            payment_mode: Some(hire.mode.clone()),
            escrow_provider: hire.mode.escrow_provider().map(str::to_owned),
            escrow_id: escrow_id.and_then(|id| id.parse().ok()),
            listing_id: Some(hire.listing_id),
            hire_hash: hire.signed.as_ref().map(|(hash, _)| *hash),
            latency_ms: Some(made.latency_ms),
            signature: None,
            extra: Default::default(),
        };
        receipt.sign(&self.wallet).ok()?;
        Some(receipt)
    }

    /// What a buyer is answered whose hire was done and paid.
    pub(crate) fn response(&self, known: &Known) -> Option<HireResponse> {
        let signed = self.receipt(known)?;
        let (hire, made) = (&known.hire, known.made.as_ref()?);
        let receipt = HireReceipt {
            receipt_id: hire.id.clone(),
            buyer_id: hire.buyer,
            seller_id: self.seller,
            capability: hire.capability.clone(),
            tx_hash: signed.tx_hash.clone(),
            price_paid_usdc: Usdc::from(signed.amount_usdc_atomic),
            payment_mode: hire.mode.clone(),
            escrow_provider: signed.escrow_provider.clone(),
            completed_at: made.at.as_ms() / 1000,
        };
        Some(HireResponse {
            protocol: hire.protocol.clone(),
            receipt,
            result: made.result.clone(),
            verification: made.verification.clone(),
            rating_token: None,
            signed_receipt: Some(signed),
        })
    }

    /// Where a job stands.
    pub(crate) fn job_status(&self, known: &Known) -> JobStatus {
        let job_id = known.hire.job_id.clone().unwrap_or_default();
        if let Some(why) = known.why_not() {
            let error = JobError { code: why.code.clone(), detail: why.detail.clone() };
            return JobStatus::Failed { job_id, error };
        }
        match known.is_answerable().then(|| self.response(known)).flatten() {
            Some(response) => JobStatus::Complete { job_id, response: Box::new(response) },
            None => {
                let estimated_completion_ms = known.hire.max_latency_ms;
                JobStatus::Pending { job_id, estimated_completion_ms }
            }
        }
    }

    /// Posts a job's end to where the buyer wants it, through the guarded client.
    async fn call_back(&self, known: &Known) -> Entry {
        let id = known.hire.id.clone();
        let url = known.hire.callback_url.clone().unwrap_or_default();
        let mut pause = CALLBACK_PAUSE;
        for attempt in 1..=CALLBACK_TRIES {
            let mut callback = JobCallback {
                seller_id: self.seller,
                job: self.job_status(known),
                sent_at: self.now(),
                signature: None,
            };
            let signed = callback.sign(&self.wallet).is_ok();
            let body = serde_json::to_vec(&callback).unwrap_or_default();
            let mut request = Request::post(url.clone(), body);
            let json = ("content-type".to_owned(), "application/json".to_owned());
            request.headers.push(json);
            match self.egress.send(request).await {
                Ok(answer) if signed && answer.is_success() => {
                    return Entry::CalledBack { id, at: self.now(), delivered: true };
                }
                Ok(answer) => tracing::info!(status = answer.status, "a callback was refused"),
                Err(error) => tracing::info!(%error, "a callback was not delivered"),
            }
            if attempt < CALLBACK_TRIES {
                tokio::time::sleep(pause).await;
                pause *= 5;
            }
        }
        Entry::CalledBack { id, at: self.now(), delivered: false }
    }

    pub(crate) fn ware(&self, hire: &Hire) -> Option<Ware> {
        let wares = self.shelf.get(&hire.capability)?;
        wares.iter().find(|ware| ware.mode == hire.mode).or(wares.first()).cloned()
    }

    fn tell(&self, known: &Known, entry: &Entry) {
        if let Entry::Failed { failure, .. } = entry {
            tracing::info!(hire = known.hire.id, code = failure.code, "a hire has no result");
        }
    }

    fn tell_end(&self, known: &Known) {
        let failure = known.why_not();
        let paid = if failure.is_some() { None } else { known.payment() };
        // Nobody need listen.
        let _ = self.sales.send(Sale {
            hire_id: known.hire.id.clone(),
            capability: known.hire.capability.clone(),
            buyer: known.hire.buyer,
            payment_mode: known.hire.mode.clone(),
            paid_usdc: Usdc::from(if paid.is_some() {
                known.hire.price
            } else {
                Default::default()
            }),
            tx_hash: paid.map(|paid| paid.transaction.clone()),
            latency_ms: known.made.as_ref().map(|made| made.latency_ms),
            error: failure.map(|failure| failure.code.clone()),
        });
    }
}

/// Whether a result can be kept, delivered and read by others.
fn check_result(
    hire: &Hire,
    result: &Value,
    len: usize,
) -> Result<(), (&'static str, &'static str)> {
    if !capability::is_shallow(result) {
        return Err(("bad_output", "the result is nested too deep"));
    }
    let beside = match hire.mode.is_escrow() {
        true => hire.params.to_string().len(),
        false => 0,
    };
    match len.saturating_add(beside) <= RESULT_LEN_MAX {
        true => Ok(()),
        false => Err(("output_too_large", "the result is too long to be delivered")),
    }
}

fn failed(hire: &Hire, at: Timestamp, status: u16, code: &str, detail: &str) -> Entry {
    let failure = Failure { status, code: code.to_owned(), detail: detail.to_owned() };
    Entry::Failed { id: hire.id.clone(), at, failure }
}

fn refused(hire: &Hire, at: Timestamp, unpaid: Unpaid) -> Entry {
    failed(hire, at, 402, &unpaid.reason, &unpaid.detail)
}

async fn bring(
    client: &Client,
    receipt: &Receipt,
    payload: Option<&HirePayload>,
) -> Result<(), Error> {
    client.submit_receipt(receipt).await?;
    if let Some(payload) = payload {
        client.submit_payload(&receipt.hire_id, payload).await?;
    }
    Ok(())
}

/// Between tries of what must happen sooner or later.
struct Rest(Duration);

impl Rest {
    async fn take(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(PAUSE_LONGEST);
    }
}
