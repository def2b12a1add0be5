//! What happens at `POST /hire`: read, priced, paid, begun, answered.

use std::{sync::Arc, time::Duration};

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use skep_base::hash::json_sha256;
use skep_wire::{
    hire::{JobAccepted, JobStatus, direct_payment_nonce, receipt_id},
    x402::{FacilitatorRequest, Payment, Resource, SettleResponse, reason},
};

use super::{
    Shop,
    book::{Begun, plain_hash},
    door::Room,
    entry::{Hire, Known, Way},
    hire::{Asked, Read, Reader, check_type},
    offer::Ware,
    refusal::Refusal,
    till::{self, Price, Unpaid},
};

/// How much longer than the work a caller waits for its answer before it is told to come again.
const ANSWER_MARGIN: Duration = Duration::from_secs(30);
/// Hires of one wallet in a day that were worked on and came to nothing.
pub const IN_VAIN_PER_DAY: u32 = 50;
/// What the first 402 says.
const PAYMENT_NEEDED: &str = "payment_required";

/// What a request at the door comes to.
enum Entered {
    Answered(Response),
    /// A hire, new or known, whose end is to be answered.
    Begun(String),
}

impl Shop {
    pub(crate) async fn hire(
        self: &Arc<Self>,
        headers: &HeaderMap,
        (body, room): (Bytes, Option<Room<'_>>),
    ) -> Result<Response, Refusal> {
        let id = match self.enter(headers, &body).await? {
            Entered::Answered(response) => return Ok(response),
            Entered::Begun(id) => id,
        };
        // Others may come in while this one waits.
        drop((body, room));
        self.wait(&id).await
    }

    /// Everything up to the wait for the work.
    async fn enter(self: &Arc<Self>, headers: &HeaderMap, body: &[u8]) -> Result<Entered, Refusal> {
        check_type(headers)?;
        let payment = till::payment_in(headers)
            .map_err(|unpaid| Refusal::new(400, reason::INVALID_PAYLOAD, unpaid.detail))?;
        let reader = Reader {
            seller: self.seller,
            shelf: &self.shelf,
            book: &self.book,
            checker: self.checker.as_ref(),
            now: self.now(),
        };
        let asked = match reader.read(body)? {
            Read::Asked(asked) => *asked,
            Read::Known(known) => return Ok(self.again(&known, payment.as_ref()).await),
        };
        let resource = self.resource(&asked);
        let ways = self.till.ways(&asked, self.seller, &resource);
        let challenge = |why: &Unpaid| {
            Entered::Answered(till::challenge(&ways, &resource, why, &asked.request.params))
        };
        let Some(payment) = payment else {
            if asked.free {
                return self.begin_free(&asked).await;
            }
            let why = Unpaid::new(PAYMENT_NEEDED, "pay, and send the same hire again");
            return Ok(challenge(&why));
        };
        let way = match till::judge(&payment, &asked, ways.clone(), &resource) {
            Ok(way) => way,
            Err(why) => return Ok(challenge(&why)),
        };
        let request = till::facilitator_request(&payment, &asked, &way, &resource);
        let hire = self.paid_hire(&asked, &way, &payment, request.clone())?;
        if let Some(known) = self.book.earlier(&hire)? {
            return Ok(self.again(&known, Some(&payment)).await);
        }
        // What was taken before may have ended since.
        if let Err(why) = till::check_time(&payment, &asked, &way, self.now()) {
            return Ok(challenge(&why));
        }
        self.check_luck(&hire)?;
        let vouched = till::is_vouched(headers, &payment, &asked, &way, self.now());
        if !vouched && let Err(why) = self.verify(&way, &request).await? {
            return Ok(challenge(&why));
        }
        self.begin(hire, &way.ware).await
    }

    /// Work that fails is free of charge, so there is an end to it. A wallet is counted and not a
    /// buyer: one that has money can pay for any number of names.
    fn check_luck(&self, hire: &Hire) -> Result<(), Refusal> {
        if self.book.in_vain(hire.payer(), hire.at) < IN_VAIN_PER_DAY {
            return Ok(());
        }
        let detail = format!("{IN_VAIN_PER_DAY} hires of this wallet came to nothing today");
        Err(Refusal::new(429, "too_many_failures", detail).later(3600))
    }

    fn resource(&self, asked: &Asked) -> Resource {
        let description = asked.wares.first().and_then(|ware| ware.offer.description.clone());
        Resource {
            url: format!("{}/hire", self.endpoint),
            description: Some(description.unwrap_or_else(|| asked.request.capability.clone())),
            mime_type: Some("application/json".to_owned()),
        }
    }

    /// Whether the node would take the payment now.
    async fn verify(
        &self,
        way: &Price,
        request: &FacilitatorRequest,
    ) -> Result<Result<(), Unpaid>, Refusal> {
        let (client, _) = self.till.rail(&way.ware.mode);
        match client.x402_verify(request).await {
            Ok(said) if said.is_valid => Ok(Ok(())),
            Ok(said) => {
                let reason = said.invalid_reason.unwrap_or_default();
                let detail = said.invalid_message.unwrap_or_default();
                Ok(Err(Unpaid { reason, detail }))
            }
            Err(skep_sdk::Error::Problem { problem, .. }) if !problem.retryable => {
                Ok(Err(Unpaid { reason: problem.code, detail: problem.detail }))
            }
            Err(error) => {
                tracing::warn!(%error, "a payment could not be verified");
                let detail = "the node that takes payments is away";
                Err(Refusal::new(503, "facilitator_unavailable", detail).later(2))
            }
        }
    }

    async fn begin_free(self: &Arc<Self>, asked: &Asked) -> Result<Entered, Refusal> {
        let preferred = asked.request.preferred_payment_mode.as_ref();
        let free = asked.wares.iter().filter(|ware| ware.offer.first_call_free);
        let ware = free.min_by_key(|ware| Some(&ware.mode) != preferred).cloned();
        let ware = ware.ok_or_else(|| Refusal::new(404, "capability_not_sold", "nothing fits"))?;
        let hire = self.new_hire(asked, &ware, Way::Free, None)?;
        self.begin(hire, &ware).await
    }

    fn paid_hire(
        &self,
        asked: &Asked,
        way: &Price,
        payment: &Payment,
        request: FacilitatorRequest,
    ) -> Result<Hire, Refusal> {
        let kind = match way.terms.clone() {
            None => Way::Direct(Box::new(request)),
            Some(terms) => Way::Escrow(Box::new((request, terms))),
        };
        self.new_hire(asked, &way.ware, kind, Some(payment))
    }

    fn new_hire(
        &self,
        asked: &Asked,
        ware: &Ware,
        way: Way,
        payment: Option<&Payment>,
    ) -> Result<Hire, Refusal> {
        let request = &asked.request;
        let bad = |detail: String| Refusal::new(400, "bad_params", detail);
        let (buyer, unique, body_hash) = match (&asked.signed, payment) {
            (Some((hash, _)), _) => (request.buyer_id, *hash, *hash),
            // Whoever pays is the buyer, and its payment tells one hire from another.
            (None, Some(payment)) => {
                let nonce = payment.payload.authorization.nonce();
                let nonce = nonce.ok_or_else(|| bad("the payment has no nonce".to_owned()))?;
                (payment.payer(), nonce, plain_hash(&request.capability, &request.params)?)
            }
            (None, None) => return Err(bad("a free call takes a signed hire".to_owned())),
        };
        let payer = payment.map_or(buyer, Payment::payer);
        let paid = [self.seller, ware.listing.payee()];
        if paid.contains(&buyer) || paid.contains(&payer) {
            return Err(Refusal::new(403, "self_hire", "nobody hires itself"));
        }
        let job_id = match &request.callback_url {
            Some(_) => Some(self.word("job")?),
            None => None,
        };
        Ok(Hire {
            id: receipt_id(&self.seller, &buyer, &unique).to_string(),
            at: self.now(),
            protocol: request.protocol.clone(),
            capability: request.capability.clone(),
            buyer,
            payer: Some(payer).filter(|payer| *payer != buyer),
            nonce: request.nonce.clone().filter(|_| asked.signed.is_some()),
            signed: asked.signed.clone(),
            body_hash,
            params: request.params.clone(),
            params_hash: json_sha256(&request.params).map_err(|error| bad(error.to_string()))?,
            payee: ware.listing.payee,
            price: asked.price(ware),
            mode: ware.mode.clone(),
            listing_id: ware.listing.id(),
            max_latency_ms: ware.offer.max_latency_ms,
            way,
            valid_before_s: payment.and_then(|payment| till::valid_before_s(payment, asked)),
            callback_url: request.callback_url.clone(),
            job_id,
            quote_token: request.quote_token.clone(),
            identifier: payment.and_then(|payment| payment.identifier.clone()),
        })
    }

    /// Starts a hire if there is a seat for it.
    async fn begin(self: &Arc<Self>, hire: Hire, ware: &Ware) -> Result<Entered, Refusal> {
        let busy = || Refusal::new(503, "busy", "all seats are taken: come again").later(1);
        let seat = ware.seats.clone().try_acquire_owned().map_err(|_| busy())?;
        let (shop, free_per_day) = (Arc::clone(self), ware.offer.free_per_day);
        // Whoever hangs up ends its request, but not a hire that is on its way to the journal:
        // nobody would carry it on.
        let begun = tokio::spawn(async move {
            let _busy = shop.busy();
            let id = hire.id.clone();
            match shop.book.begin(hire, free_per_day).await? {
                Begun::New => {
                    shop.carry_on(id.clone(), Some(seat));
                    Ok(Entered::Begun(id))
                }
                // Another request with the same hire was faster.
                Begun::Known(id) => Ok(Entered::Begun(id)),
            }
        });
        let gone = || Refusal::new(503, "seller_unavailable", "the hire was not begun").later(1);
        begun.await.unwrap_or_else(|_| Err(gone()))
    }

    /// A hire that was there before. If its result is withheld, its own payment is tried again.
    async fn again(self: &Arc<Self>, known: &Known, payment: Option<&Payment>) -> Entered {
        let id = known.hire.id.clone();
        let pays = payment.is_some_and(|payment| self.is_payment_of(payment, &known.hire));
        if pays && known.withheld.is_some() && self.book.retry_payment(&id, self.now()).await {
            self.carry_on(id.clone(), None);
        }
        Entered::Begun(id)
    }

    /// Whether a payment that is made directly is by the hire's payer and for the hire.
    fn is_payment_of(&self, payment: &Payment, hire: &Hire) -> bool {
        let Some(nonce) = payment.payload.authorization.nonce() else { return false };
        let is_its_own = match &hire.signed {
            Some((hash, _)) => nonce == direct_payment_nonce(hash),
            // A plain client's hire has its name from its payment.
            None => receipt_id(&self.seller, &hire.buyer, &nonce).to_string() == hire.id,
        };
        is_its_own && payment.payer() == hire.payer()
    }

    async fn wait(&self, id: &str) -> Result<Response, Refusal> {
        let gone = || Refusal::new(503, "seller_unavailable", "the hire was not begun").later(1);
        let known = self.book.get(id).ok_or_else(gone)?;
        if let Some(job_id) = known.hire.job_id.clone() {
            let estimated_completion_ms = known.hire.max_latency_ms;
            let accepted = JobAccepted { job_id, estimated_completion_ms };
            return Ok(json_answer(StatusCode::ACCEPTED, &accepted));
        }
        let limit = Duration::from_millis(known.hire.max_latency_ms) + ANSWER_MARGIN;
        let mut changed = self.book.watch(id).ok_or_else(gone)?;
        let answerable = async {
            loop {
                match self.book.get(id) {
                    Some(known) if known.is_answerable() => return,
                    None => return,
                    Some(_) => {}
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit, answerable).await.is_err() {
            let detail = "it is still being worked on: send the same hire again";
            return Err(Refusal::new(409, "hire_running", detail).later(2));
        }
        let known = self.book.whole(id).await.ok_or_else(gone)?;
        self.answer(&known)
    }

    fn answer(&self, known: &Known) -> Result<Response, Refusal> {
        if let Some(why) = known.why_not() {
            if why.status != 402 {
                let mut refusal = Refusal::new(why.status, "", why.detail.clone());
                refusal.code = why.code.clone().into();
                return Err(refusal);
            }
            let unpaid = Unpaid { reason: why.code.clone(), detail: why.detail.clone() };
            let mut response = till::payment_problem(&unpaid, std::iter::empty());
            let refused = SettleResponse {
                error_reason: Some(unpaid.reason),
                payer: Some(known.hire.payer()),
                ..SettleResponse::default()
            };
            till::tell_payment(&mut response, &refused);
            return Ok(response);
        }
        let Some(answer) = self.response(known) else {
            let detail = "the result is not there any more";
            return Err(Refusal::new(410, "result_gone", detail));
        };
        let mut response = json_answer(StatusCode::OK, &answer);
        if let Some(paid) = known.payment() {
            till::tell_payment(&mut response, paid);
        }
        Ok(response)
    }

    pub(crate) async fn job(&self, job_id: &str) -> Result<JobStatus, Refusal> {
        let unknown = || Refusal::new(404, "job_unknown", "there is no such job");
        let known = self.book.job(job_id).ok_or_else(unknown)?;
        let known = self.book.whole(&known.hire.id).await.ok_or_else(unknown)?;
        Ok(self.job_status(&known))
    }
}

pub(crate) fn json_answer<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let mut response = (status, serde_json::to_vec(value).unwrap_or_default()).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
