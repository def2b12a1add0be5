//! Where a hire's money is: the buyer's own node, or another one that keeps an escrow.

use serde::{Serialize, de::DeserializeOwned};
use skep_base::id::DealId;
use skep_probe::{Egress, Request};
use skep_sdk::Client;
use skep_wire::{
    hire::{
        CounterSignature, CounterSigned, EscrowOrder, EscrowVerb, HireEscrow, Receipt,
        ReceiptAccepted, StoredReceipt, TimeoutRefund,
    },
    problem::Problem,
    x402::{
        EXACT, FacilitatorRequest, Rail, SettleResponse, SkepTerms, Supported, VerifyResponse,
        reason,
    },
};

use super::{entry::Open, talk::short};

/// The longest answer of a stranger's escrow, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Why a node did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct DeskError {
    pub code: String,
    pub detail: String,
    /// Whether the same may work later.
    pub retryable: bool,
    /// Whether what was asked about is not there.
    pub not_found: bool,
}

impl From<skep_sdk::Error> for DeskError {
    fn from(error: skep_sdk::Error) -> DeskError {
        DeskError {
            code: error.code().to_owned(),
            detail: match &error {
                skep_sdk::Error::Problem { problem, .. } => problem.detail.clone(),
                other => other.to_string(),
            },
            retryable: error.is_retryable(),
            not_found: match &error {
                skep_sdk::Error::Problem { problem, .. } => problem.status == 404,
                _ => false,
            },
        }
    }
}

/// Whether an escrow's address may be asked about money: over TLS, or on this machine in tests.
pub fn check_escrow_url(url: &str, allow_loopback: bool) -> Result<(), DeskError> {
    let parsed = url::Url::parse(url).ok();
    let here = |host: url::Host<&str>| match host {
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(ip) => ip.is_loopback(),
        url::Host::Domain(name) => name == "localhost",
    };
    let is_good = parsed.is_some_and(|url| match url.scheme() {
        "https" => true,
        "http" => allow_loopback && url.host().is_some_and(here),
        _ => false,
    });
    match is_good {
        true => Ok(()),
        false => Err(wrong_escrow(format!("{} is not an https:// address", short(url)))),
    }
}

/// An escrow that wants to be paid in somebody else's asset.
pub fn not_its_own(url: &str) -> DeskError {
    wrong_escrow(format!("{} says that another node's asset is its own", short(url)))
}

fn wrong_escrow(detail: String) -> DeskError {
    DeskError { code: "wrong_escrow".to_owned(), detail, retryable: false, not_found: false }
}

/// A node that keeps money.
#[derive(Clone, Debug)]
pub enum Desk {
    Own(Client),
    /// Somebody else's, at an address that a listing names.
    Other {
        egress: Egress,
        base: String,
    },
}

/// Where a payment stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaymentState {
    Taken {
        tx_hash: String,
        escrow_id: Option<DealId>,
    },
    /// It was not taken and never can be.
    Expired,
    /// It was not taken yet.
    Usable,
}

impl Desk {
    pub async fn rail(&self) -> Result<Rail, DeskError> {
        let base = match self {
            Desk::Own(client) => return Ok(client.x402_rail().await?),
            Desk::Other { base, .. } => base,
        };
        let supported: Supported = self.get("/x402/supported").await?;
        let kind = supported.kinds.into_iter().find(|k| k.x402_version == 2 && k.scheme == EXACT);
        let extra = kind.map(|kind| kind.extra.into()).unwrap_or_default();
        serde_json::from_value(extra).map_err(|error| DeskError {
            code: "no_rail".to_owned(),
            detail: format!("{base} offers no ledger to pay on: {error}"),
            retryable: false,
            not_found: false,
        })
    }

    pub async fn verify(&self, request: &FacilitatorRequest) -> Result<VerifyResponse, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.x402_verify(request).await?),
            Desk::Other { .. } => self.post("/x402/verify", request).await,
        }
    }

    async fn settle(&self, request: &FacilitatorRequest) -> Result<SettleResponse, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.x402_settle(request).await?),
            Desk::Other { .. } => self.post("/x402/settle", request).await,
        }
    }

    pub async fn escrow(&self, id: DealId) -> Result<HireEscrow, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.hire_escrow(id).await?),
            Desk::Other { .. } => self.get(&format!("/v1/escrows/{id}")).await,
        }
    }

    pub async fn order(&self, order: &EscrowOrder) -> Result<HireEscrow, DeskError> {
        let verb = match (self, order.verb) {
            (Desk::Own(client), _) => return Ok(client.order_escrow(order).await?),
            (_, EscrowVerb::Release) => "release",
            (_, EscrowVerb::Refund) => "refund",
        };
        self.post(&format!("/v1/escrows/{}/{verb}", order.escrow_id), order).await
    }

    pub async fn timeout_refund(&self, id: DealId) -> Result<HireEscrow, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.timeout_refund(id).await?),
            Desk::Other { .. } => {
                self.post(&format!("/v1/escrows/{id}/timeout-refund"), &TimeoutRefund {}).await
            }
        }
    }

    pub async fn receipt(&self, id: &str) -> Result<StoredReceipt, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.receipt(id).await?),
            Desk::Other { .. } => self.get(&format!("/v1/receipts/{id}")).await,
        }
    }

    pub async fn submit_receipt(&self, receipt: &Receipt) -> Result<ReceiptAccepted, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.submit_receipt(receipt).await?),
            Desk::Other { .. } => self.post("/v1/receipts", receipt).await,
        }
    }

    pub async fn countersign(
        &self,
        signature: &CounterSignature,
    ) -> Result<CounterSigned, DeskError> {
        match self {
            Desk::Own(client) => Ok(client.countersign(signature).await?),
            Desk::Other { .. } => {
                let path = format!("/v1/receipts/{}/countersign", signature.hire_id);
                self.post(&path, signature).await
            }
        }
    }

    /// Whether a signed payment was taken. Nothing is taken by asking: the payment is shown for
    /// settlement only when the node itself has said that it was used, or that it has expired;
    /// then settling gives the first answer again, or a refusal.
    pub async fn payment_state(&self, open: &Open) -> Result<PaymentState, DeskError> {
        let Some(request) = facilitator_request(open) else { return Ok(PaymentState::Expired) };
        let verified = self.verify(&request).await?;
        let why = verified.invalid_reason.as_deref().unwrap_or_default();
        let over = why == reason::VALID_BEFORE;
        if verified.is_valid || !(over || why == reason::NONCE_USED) {
            return Ok(PaymentState::Usable);
        }
        let settled = self.settle(&request).await?;
        if settled.success {
            let escrow_id = settled.escrow_id.and_then(|id| id.parse().ok());
            return Ok(PaymentState::Taken { tx_hash: settled.transaction, escrow_id });
        }
        let why = settled.error_reason.as_deref().unwrap_or_default();
        match why {
            reason::VALID_BEFORE => Ok(PaymentState::Expired),
            // Taken by a settlement with other words around it: the nonce is gone all the same.
            reason::NONCE_USED => {
                Ok(PaymentState::Taken { tx_hash: String::new(), escrow_id: None })
            }
            _ => Ok(PaymentState::Usable),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, DeskError> {
        self.fetch(|base| Request::get(format!("{base}{path}"))).await
    }

    async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, DeskError> {
        let bytes = serde_json::to_vec(body).unwrap_or_default();
        self.fetch(|base| Request {
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            ..Request::post(format!("{base}{path}"), bytes)
        })
        .await
    }

    async fn fetch<T: DeserializeOwned>(
        &self,
        request: impl FnOnce(&str) -> Request,
    ) -> Result<T, DeskError> {
        let failed = |code: &str, detail: String, retryable| DeskError {
            code: code.to_owned(),
            detail,
            retryable,
            not_found: false,
        };
        let Desk::Other { egress, base } = self else {
            return Err(failed("internal", "the node has a client of its own".to_owned(), false));
        };
        let request = Request {
            body_max: Some(ANSWER_BYTES_MAX),
            follow_redirects: false,
            ..request(base.trim_end_matches('/'))
        };
        let answer = egress.send(request).await;
        let answer = answer.map_err(|error| failed(error.code(), error.to_string(), true))?;
        if answer.is_success() {
            return skep_base::json::from_slice(&answer.body)
                .map_err(|error| failed("unreadable_answer", error.to_string(), false));
        }
        match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) => Err(DeskError {
                not_found: problem.status == 404,
                ..failed(&short(&problem.code), short(&problem.detail), problem.retryable)
            }),
            Err(_) => {
                let detail = format!("{base} answered {}", answer.status);
                Err(failed("unreadable_answer", detail, answer.status >= 500))
            }
        }
    }
}

/// The payment of a hire as a facilitator is shown it.
pub fn facilitator_request(open: &Open) -> Option<FacilitatorRequest> {
    let authorized = open.authorized.as_ref()?;
    Some(FacilitatorRequest {
        x402_version: authorized.version,
        payment_payload: authorized.payment.clone(),
        payment_requirements: authorized.requirements.clone(),
        skep: Some(SkepTerms {
            hire: open.intent.hire.envelope().ok(),
            escrow: authorized.escrow.clone(),
            receipt: None,
        }),
    })
}
