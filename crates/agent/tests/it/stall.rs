//! A seller of the test's own: honest at heart, with manners that can be anything.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Path, Query, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use skep_base::{Amount, Hash32, hash::json_sha256, wallet::WalletKey};
use skep_sdk::Client;
use skep_wire::{
    hire::{
        Check, Clarified, EndpointProof, EscrowTerms, HirePayload, HireReceipt, HireRequest,
        HireResponse, JobAccepted, JobStatus, Listing, NO_TX, PaymentMode, Receipt, Verification,
        WINDOW_SYNC_MS, WalletSigned, receipt_id,
    },
    x402::{
        FacilitatorRequest, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payment, PaymentRequired,
        PaymentRequiredV1, Rail, Requirements, Resource, SettleResponse, SkepTerms, X_PAYMENT,
        from_header, ledger_network, to_header,
    },
};

use crate::node::now;

/// What a stall does differently from an honest seller.
#[derive(Clone, Copy, Default)]
pub struct Manners {
    pub ask: Option<fn(&mut PaymentRequired)>,
    pub receipt: Option<fn(&mut Receipt)>,
    pub answer: Option<fn(&mut HireResponse)>,
    /// The result instead of the right one.
    pub result: Option<fn() -> Value>,
    /// Only version 1 is spoken.
    pub v1_only: bool,
    /// The first answer to a payment is free.
    pub free: bool,
    /// So many paid answers are lost after everything was done.
    pub lost: usize,
    /// Lost in the middle of the body.
    pub torn: bool,
    pub slow: Option<Duration>,
    /// Takes the money and says nothing good; with a receipt or without.
    pub thief: Option<Thief>,
    /// Says no to a payment without taking it.
    pub refuses: bool,
    pub huge: bool,
    pub redirect: Option<&'static str>,
    /// Answers 202 and works on its own time.
    pub job: bool,
    /// Whoever asks for a job hears that it is still at work.
    pub silent_jobs: bool,
    pub deliver_within_ms: Option<u64>,
    pub clarify: Option<fn() -> Clarified>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Thief {
    WithReceipt,
    Silent,
    /// Settles into escrow and never delivers.
    Holds,
}

pub struct Inner {
    pub key: WalletKey,
    pub listing: Listing,
    node: Client,
    rail: Rail,
    manners: Mutex<Manners>,
    done: Mutex<BTreeMap<Hash32, HireResponse>>,
    pub unpaid: AtomicUsize,
    pub paid: AtomicUsize,
    pub runs: AtomicUsize,
    pub asked: AtomicUsize,
}

#[derive(Clone)]
pub struct Stall(pub Arc<Inner>);

impl std::ops::Deref for Stall {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub fn key(number: u8) -> WalletKey {
    WalletKey::from_bytes([number; 32]).unwrap()
}

impl Stall {
    pub async fn open(
        number: u8,
        node: &crate::node::Node,
        mode: PaymentMode,
        manners: Manners,
        change: impl FnOnce(&mut Listing),
    ) -> Stall {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let key = key(number);
        let mut listing: Listing = serde_json::from_value(json!({
            "agent_id": key.address(), "capability": "test.double", "price_usdc": "0.02",
            "max_latency_ms": 500, "endpoint": endpoint, "payment_mode": mode,
            "first_call_free": manners.free, "issued_at": now(),
            "clarification_supported": manners.clarify.is_some(),
        }))
        .unwrap();
        change(&mut listing);
        listing.sign(&key).unwrap();
        node.publish(listing.clone());
        let stall = Stall(Arc::new(Inner {
            key,
            listing,
            node: Client::new(&node.url).unwrap(),
            rail: node.rail.clone(),
            manners: Mutex::new(manners),
            done: Mutex::default(),
            unpaid: AtomicUsize::new(0),
            paid: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
        }));
        let router = Router::new()
            .route("/hire", post(hire))
            .route("/jobs/{id}", get(job))
            .route("/clarify", post(clarify))
            .route("/.well-known/swarmwage-verify", get(prove))
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(stall.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        stall
    }

    pub fn manners(&self) -> Manners {
        *self.manners.lock().unwrap()
    }

    pub fn behave(&self, manners: Manners) {
        *self.manners.lock().unwrap() = manners;
    }

    /// A job that is done, and its answer.
    pub fn done_job(&self) -> Option<(String, HireResponse)> {
        let done = self.done.lock().unwrap();
        done.iter().next().map(|(hash, response)| (format!("job_{hash}"), response.clone()))
    }

    pub fn price(&self) -> i64 {
        self.listing.price_usdc.amount().minor()
    }

    fn terms(&self, hire: &HireRequest) -> Option<EscrowTerms> {
        self.listing.mode().is_escrow().then(|| EscrowTerms {
            hire_hash: hire.digest().unwrap(),
            buyer: hire.buyer_id,
            seller: self.key.address(),
            payee: self.listing.payee(),
            amount: self.listing.price_usdc.amount(),
            capability: hire.capability.clone(),
            verification_version: None,
            verification_window_ms: WINDOW_SYNC_MS,
            deliver_within_ms: self.manners().deliver_within_ms.unwrap_or(2_000),
        })
    }

    fn requirements(&self, hire: &HireRequest) -> Requirements {
        let amount = self.listing.price_usdc.amount();
        match self.terms(hire) {
            None => self.rail.requirements(amount, self.listing.payee(), 60),
            Some(terms) => {
                let mut v2 = self.rail.requirements(amount, self.rail.escrow_address, 60);
                v2.extra.insert("escrow".to_owned(), serde_json::to_value(terms).unwrap());
                v2
            }
        }
    }

    fn challenge(&self, hire: &HireRequest, error: &str) -> Response {
        let v2 = self.requirements(hire);
        let resource = Resource { url: self.listing.endpoint.clone(), ..Resource::default() };
        let body = PaymentRequiredV1 {
            x402_version: 1,
            error: error.to_owned(),
            accepts: vec![self.rail.requirements_v1(&v2, &resource)],
        };
        let mut required = PaymentRequired {
            x402_version: 2,
            error: Some(error.to_owned()),
            resource,
            accepts: vec![v2],
            extensions: Default::default(),
        };
        if let Some(ask) = self.manners().ask {
            ask(&mut required);
        }
        let body = serde_json::to_string(&body).unwrap();
        let mut response = (StatusCode::PAYMENT_REQUIRED, body).into_response();
        if !self.manners().v1_only {
            let value = to_header(&required).parse().unwrap();
            response.headers_mut().insert(PAYMENT_REQUIRED, value);
        }
        response
    }

    async fn settle(&self, hire: &HireRequest, payment: &Payment) -> SettleResponse {
        let v2 = self.requirements(hire);
        let v1 = self.rail.requirements_v1(&v2, &Resource::default());
        let request = FacilitatorRequest {
            x402_version: payment.version,
            payment_payload: payment.raw.clone(),
            payment_requirements: payment.requirements(&v2, &v1),
            skep: Some(SkepTerms {
                hire: hire.envelope().ok(),
                escrow: self.terms(hire),
                receipt: None,
            }),
        };
        self.node.x402_settle(&request).await.unwrap()
    }

    /// Everything that an honest seller does, once.
    async fn perform(
        &self,
        hire: &HireRequest,
        payment: Option<&Payment>,
    ) -> Result<HireResponse, String> {
        let (hash, manners) = (hire.digest().unwrap(), self.manners());
        if let Some(done) = self.done.lock().unwrap().get(&hash) {
            return Ok(done.clone());
        }
        let settled = match payment {
            Some(payment) => {
                let settled = self.settle(hire, payment).await;
                if !settled.success {
                    return Err(settled.error_reason.unwrap_or_default());
                }
                Some(settled)
            }
            None => None,
        };
        if matches!(manners.thief, Some(Thief::Silent | Thief::Holds)) {
            return Err("silence".to_owned());
        }
        self.runs.fetch_add(1, SeqCst);
        let n = hire.params["n"].as_i64().unwrap_or_default();
        let result = manners.result.map_or_else(|| json!({ "double": 2 * n }), |result| result());
        let id = receipt_id(&self.key.address(), &hire.buyer_id, &hash).to_string();
        let passed = Check { name: "seller".to_owned(), passed: true, detail: None };
        let verification = Verification::of("v0", vec![passed]);
        let amount = match &settled {
            Some(_) => self.listing.price_usdc.amount(),
            None => Amount::ZERO,
        };
        let tx_hash = settled.as_ref().map_or(NO_TX.to_owned(), |s| s.transaction.clone());
        let escrow_id = settled.as_ref().and_then(|s| s.escrow_id.clone());
        let mut receipt: Receipt = serde_json::from_value(json!({
            "protocol_version": hire.protocol, "hire_id": id, "agent_id": self.key.address(),
            "buyer": hire.buyer_id, "capability": hire.capability, "amount_usdc_atomic": amount,
            "network": ledger_network(), "tx_hash": tx_hash, "completed_at": now(),
            "verification": verification.summary(), "hire_hash": hash,
            "params_hash": json_sha256(&hire.params).unwrap(),
            "result_hash": json_sha256(&result).unwrap(),
            "payment_mode": self.listing.mode(), "escrow_id": escrow_id,
            "listing_id": self.listing.id(),
        }))
        .unwrap();
        receipt.sign(&self.key).unwrap();
        self.node.submit_receipt(&receipt).await.map_err(|error| error.to_string())?;
        let payload = HirePayload { params: hire.params.clone(), result: result.clone() };
        self.node.submit_payload(&id, &payload).await.map_err(|error| error.to_string())?;
        if let Some(change) = manners.receipt {
            change(&mut receipt);
            receipt.sign(&self.key).unwrap();
        }
        let mut response = HireResponse {
            protocol: hire.protocol.clone(),
            receipt: HireReceipt {
                receipt_id: id,
                buyer_id: hire.buyer_id,
                seller_id: self.key.address(),
                capability: hire.capability.clone(),
                tx_hash,
                price_paid_usdc: amount.into(),
                payment_mode: self.listing.mode(),
                escrow_provider: None,
                completed_at: now().as_ms() / 1000,
            },
            result,
            verification,
            rating_token: None,
            signed_receipt: Some(receipt),
        };
        if let Some(change) = manners.answer {
            change(&mut response);
        }
        self.done.lock().unwrap().insert(hash, response.clone());
        Ok(response)
    }
}

fn plain(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

async fn hire(State(stall): State<Stall>, headers: HeaderMap, body: String) -> Response {
    let manners = stall.manners();
    if let Some(to) = manners.redirect {
        let mut response = plain(307, "");
        response.headers_mut().insert("location", to.parse().unwrap());
        return response;
    }
    let hire: HireRequest = serde_json::from_str(&body).unwrap();
    hire.check_signature().unwrap();
    assert_eq!(hire.seller_id, Some(stall.key.address()));
    let header = [PAYMENT_SIGNATURE, X_PAYMENT].iter().find_map(|name| headers.get(*name));
    let payment =
        header.map(|header| Payment::read(from_header(header.to_str().unwrap()).unwrap()).unwrap());
    let count = if payment.is_some() { &stall.paid } else { &stall.unpaid };
    let nth = count.fetch_add(1, SeqCst);
    if payment.is_none() && !manners.free {
        return stall.challenge(&hire, "payment required");
    }
    if manners.refuses {
        return stall.challenge(&hire, "no");
    }
    if manners.job {
        let (stall, again) = (stall.clone(), hire.clone());
        tokio::spawn(async move { stall.perform(&again, payment.as_ref()).await });
        let job_id = format!("job_{}", hire.digest().unwrap());
        let accepted = JobAccepted { job_id, estimated_completion_ms: 100 };
        return plain(202, serde_json::to_vec(&accepted).unwrap());
    }
    let performed = stall.perform(&hire, payment.as_ref()).await;
    if let Some(slow) = manners.slow.filter(|_| nth == 0) {
        tokio::time::sleep(slow).await;
    }
    let response = match performed {
        Ok(response) => response,
        Err(error) => return plain(500, error),
    };
    if manners.thief.is_some() || nth < manners.lost {
        return plain(500, "sorry");
    }
    if manners.huge {
        return plain(200, vec![b' '; 100 << 20]);
    }
    let body = serde_json::to_vec(&response).unwrap();
    if manners.torn && nth == 0 {
        let mut torn = plain(200, body[..body.len() / 2].to_vec());
        torn.headers_mut().insert("content-length", body.len().into());
        return torn;
    }
    plain(200, body)
}

async fn job(State(stall): State<Stall>, Path(id): Path<String>) -> Response {
    let hash: Hash32 = id.strip_prefix("job_").unwrap().parse().unwrap();
    stall.asked.fetch_add(1, SeqCst);
    let silent = stall.manners().silent_jobs;
    let status = match stall.done.lock().unwrap().get(&hash).filter(|_| !silent) {
        Some(response) => JobStatus::Complete { job_id: id, response: Box::new(response.clone()) },
        None => JobStatus::Pending { job_id: id, estimated_completion_ms: 100 },
    };
    plain(200, serde_json::to_vec(&status).unwrap())
}

async fn clarify(State(stall): State<Stall>) -> Response {
    stall.asked.fetch_add(1, SeqCst);
    match stall.manners().clarify {
        Some(clarify) => plain(200, serde_json::to_vec(&clarify()).unwrap()),
        None => plain(404, ""),
    }
}

async fn prove(
    State(stall): State<Stall>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let (agent_id, nonce) = (stall.key.address(), query["nonce"].clone());
    let mut proof = EndpointProof { agent_id, nonce, signature: None };
    proof.sign(&stall.key).unwrap();
    plain(200, serde_json::to_vec(&proof).unwrap())
}
