//! How a hire can be paid: what a 402 asks for, and whether a payment is that.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
    time::Duration,
};

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use skep_base::{AgentId, Hash32, Timestamp, hash::keccak256, json as canonical};
use skep_sdk::{Client, Error};
use skep_wire::{
    hire::{EscrowTerms, PaymentMode, WINDOW_ASYNC_MS, WINDOW_SYNC_MS},
    x402::{
        EXACT, FacilitatorRequest, PAYABLE, PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE,
        Payable, PayableFacts, Payment, PaymentRequired, Rail, Requirements, RequirementsV1,
        Resource, SettleResponse, SkepTerms, V1_NETWORK, X_PAYMENT, X_PAYMENT_RESPONSE,
        from_header, is_identifier, ledger_network, reason, to_header,
    },
};

use super::{hire::Asked, offer::Ware};

/// What a payment must still be good for beyond the work, so that it can be taken.
const SETTLE_MARGIN_S: u64 = 60;
/// What the seller needs beyond the work to bring the result to an escrow.
const DELIVERY_MARGIN_MS: u64 = 60_000;

/// Where payments are verified and taken, and in which asset.
#[derive(Debug)]
pub(crate) struct Till {
    node: Client,
    /// By the address of an escrow of somebody else's; the node's own under "".
    rails: RwLock<BTreeMap<String, (Client, Rail)>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TillError {
    #[error("{url} does not say how it takes payments")]
    NoRail { url: String, source: Error },
    #[error(
        "the node keeps escrows as {own:?}, not as {asked:?}: --payment-mode platform_escrow:{own}"
    )]
    OtherProvider { own: String, asked: String },
}

impl Till {
    /// Asks every place that money goes through how it is paid there.
    pub(crate) async fn open(node: Client, modes: &[PaymentMode]) -> Result<Till, TillError> {
        let mut rails = BTreeMap::new();
        let own = rail_of(&node).await?;
        for mode in modes {
            match mode {
                PaymentMode::Direct => {}
                PaymentMode::PlatformEscrow(asked) if *asked == own.escrow_provider => {}
                PaymentMode::PlatformEscrow(asked) => {
                    let (own, asked) = (own.escrow_provider.clone(), asked.clone());
                    return Err(TillError::OtherProvider { own, asked });
                }
                PaymentMode::CustomEscrow(url) => {
                    let bad = |source| TillError::NoRail { url: url.clone(), source };
                    let client = Client::new(url).map_err(bad)?;
                    let rail = rail_of(&client).await?;
                    rails.insert(url.clone(), (client, rail));
                }
            }
        }
        rails.insert(String::new(), (node.clone(), own));
        Ok(Till { node, rails: RwLock::new(rails) })
    }

    /// Who takes payments in this mode, and how.
    pub(crate) fn rail(&self, mode: &PaymentMode) -> (Client, Option<Rail>) {
        let url = match mode {
            PaymentMode::CustomEscrow(url) => url.as_str(),
            _ => "",
        };
        let rails = self.rails.read().unwrap_or_else(PoisonError::into_inner);
        match rails.get(url) {
            Some((client, rail)) => (client.clone(), Some(rail.clone())),
            None => (self.node.clone(), None),
        }
    }

    /// All ways to pay for what was asked, the preferred first.
    pub(crate) fn ways(&self, asked: &Asked, seller: AgentId, resource: &Resource) -> Vec<Price> {
        let mut ways: Vec<Price> = asked
            .wares
            .iter()
            .filter_map(|ware| self.price(asked, ware, seller, resource))
            .collect();
        let preferred = asked.request.preferred_payment_mode.as_ref();
        ways.sort_by_key(|way| preferred.is_some_and(|mode| way.ware.mode != *mode));
        ways
    }

    fn price(
        &self,
        asked: &Asked,
        ware: &Ware,
        seller: AgentId,
        resource: &Resource,
    ) -> Option<Price> {
        let rail = self.rail(&ware.mode).1?;
        let amount = asked.price(ware);
        let latency_ms = ware.offer.max_latency_ms;
        let timeout_s = latency_ms.div_ceil(1000) + SETTLE_MARGIN_S;
        let payee = ware.listing.payee();
        if !ware.mode.is_escrow() {
            let v2 = rail.requirements(amount, payee, timeout_s);
            let v1 = rail.requirements_v1(&v2, resource);
            return Some(Price { ware: ware.clone(), rail, v2, v1: Some(v1), terms: None });
        }
        // Money in escrow waits for somebody who has signed what for.
        let (hire_hash, _) = asked.signed.as_ref()?;
        let is_async = asked.request.callback_url.is_some();
        let terms = EscrowTerms {
            hire_hash: *hire_hash,
            buyer: asked.request.buyer_id,
            seller,
            payee,
            amount,
            capability: asked.request.capability.clone(),
            verification_version: ware.offer.verification_version.clone(),
            verification_window_ms: if is_async { WINDOW_ASYNC_MS } else { WINDOW_SYNC_MS },
            deliver_within_ms: latency_ms + DELIVERY_MARGIN_MS,
        };
        let mut v2 = rail.requirements(amount, rail.escrow_address, timeout_s);
        v2.extra.insert("escrow".to_owned(), serde_json::to_value(&terms).ok()?);
        Some(Price { ware: ware.clone(), rail, v2, v1: None, terms: Some(terms) })
    }
}

async fn rail_of(client: &Client) -> Result<Rail, TillError> {
    let url = client.url().to_owned();
    client.x402_rail().await.map_err(|source| TillError::NoRail { url, source })
}

/// One way to pay for one hire.
#[derive(Clone, Debug)]
pub(crate) struct Price {
    pub(crate) ware: Ware,
    pub(crate) rail: Rail,
    pub(crate) v2: Requirements,
    pub(crate) v1: Option<RequirementsV1>,
    pub(crate) terms: Option<EscrowTerms>,
}

/// Why a payment is not taken: a reason that clients know, and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unpaid {
    pub(crate) reason: String,
    pub(crate) detail: String,
}

impl Unpaid {
    pub(crate) fn new(reason: &str, detail: impl Into<String>) -> Unpaid {
        Unpaid { reason: reason.to_owned(), detail: detail.into() }
    }
}

/// The payment in a request, if it carries one.
pub(crate) fn payment_in(headers: &HeaderMap) -> Result<Option<Payment>, Unpaid> {
    let found = [PAYMENT_SIGNATURE, X_PAYMENT].iter().find_map(|name| headers.get(*name));
    let Some(header) = found else { return Ok(None) };
    let bad = |detail: String| Unpaid::new(reason::INVALID_PAYLOAD, detail);
    let text = header.to_str().map_err(|error| bad(error.to_string()))?;
    let raw: Value = from_header(text).map_err(|error| bad(error.to_string()))?;
    let payment = Payment::read(raw).map_err(|error| bad(error.to_string()))?;
    match payment.identifier.as_deref().is_none_or(is_identifier) {
        true => Ok(Some(payment)),
        false => {
            let detail = "a payment-identifier is 16 to 128 letters, digits, - and _";
            Err(Unpaid::new(reason::INVALID_PAYLOAD, detail))
        }
    }
}

/// Finds what a payment pays for and checks whatever needs neither a ledger nor a clock.
pub(crate) fn judge(
    payment: &Payment,
    asked: &Asked,
    ways: Vec<Price>,
    resource: &Resource,
) -> Result<Price, Unpaid> {
    let paid = &payment.payload.authorization;
    if payment.scheme != EXACT {
        return Err(Unpaid::new(reason::UNSUPPORTED_SCHEME, "only exact payments are taken"));
    }
    let expected = if payment.version == 1 { V1_NETWORK.to_owned() } else { ledger_network() };
    if payment.network != expected {
        return Err(Unpaid::new(reason::INVALID_NETWORK, format!("pay on {expected}")));
    }
    let elsewhere = "the money would go to somebody else";
    let to = |way: &Price| way.v2.pay_to == paid.to && (payment.version == 2 || way.v1.is_some());
    let fits = |way: &Price| payment.accepted.as_ref().is_none_or(|a| a.asset == way.v2.asset);
    let way = match ways.iter().find(|way| to(way) && fits(way)) {
        Some(way) => way.clone(),
        None if ways.iter().any(to) => {
            return Err(Unpaid::new(reason::TOKEN, "this asset is not taken"));
        }
        None => return Err(Unpaid::new(reason::RECIPIENT, elsewhere)),
    };
    let accepted = payment.accepted.as_ref();
    if paid.amount() != Some(way.v2.amount)
        || accepted.is_some_and(|accepted| accepted.amount != way.v2.amount)
    {
        let detail = format!("the price is {} minor units, neither less nor more", way.v2.amount);
        return Err(Unpaid::new(reason::VALUE, detail));
    }
    if accepted.is_some_and(|accepted| accepted.pay_to != way.v2.pay_to) {
        return Err(Unpaid::new(reason::RECIPIENT, elsewhere));
    }
    let same = |url: &str| url.trim_end_matches('/') == resource.url.trim_end_matches('/');
    if payment.resource.as_ref().is_some_and(|paid_for| !same(&paid_for.url)) {
        let detail = format!("the payment is for another resource than {}", resource.url);
        return Err(Unpaid::new(reason::RESOURCE, detail));
    }
    let chain = Rail::chain_id(&payment.network).unwrap_or_default();
    paid.check(&way.rail.domain(chain), &payment.payload.signature)
        .map_err(|error| Unpaid::new(reason::SIGNATURE, error.to_string()))?;
    check_binding(payment, asked, &way)?;
    Ok(way)
}

/// A payment must last until the work is done, and so must the wallet's word for the buyer.
pub(crate) fn check_time(
    payment: &Payment,
    asked: &Asked,
    way: &Price,
    now: Timestamp,
) -> Result<(), Unpaid> {
    if let Some(binding) = asked.binding() {
        let end = now.plus(Duration::from_millis(way.ware.offer.max_latency_ms));
        let good = binding.check_time(now).and_then(|()| binding.check_time(end));
        good.map_err(|error| Unpaid::new(reason::WALLET_BINDING, error.to_string()))?;
    }
    let needed_ms = i64::try_from(way.ware.offer.max_latency_ms).unwrap_or(i64::MAX);
    let needed_s = now.as_ms().saturating_add(needed_ms).div_euclid(1000);
    let window = payment.payload.authorization.window();
    let lasts =
        window.is_some_and(|(_, end)| i128::try_from(end).unwrap_or(i128::MAX) >= needed_s.into());
    match lasts {
        true => Ok(()),
        false => {
            let detail = "the payment would end before the work is done";
            Err(Unpaid::new(reason::VALID_BEFORE, detail))
        }
    }
}

/// A payment of a signed hire is the buyer's own or its wallet's, and for this hire alone.
fn check_binding(payment: &Payment, asked: &Asked, way: &Price) -> Result<(), Unpaid> {
    let Some((hire_hash, envelope)) = &asked.signed else { return Ok(()) };
    let expected = asked.request.payer();
    let expected =
        expected.map_err(|error| Unpaid::new(reason::WALLET_BINDING, error.to_string()))?;
    if payment.payer() != expected {
        let detail = format!("{expected} pays for this hire, and no other wallet");
        return Err(Unpaid::new(reason::NOT_THE_BUYER, detail));
    }
    let expected: Hash32 = match &way.terms {
        None => envelope.payment_nonce(hire_hash),
        Some(terms) => terms
            .payment_nonce()
            .map_err(|error| Unpaid::new(reason::ESCROW_TERMS, error.to_string()))?,
    };
    match payment.payload.authorization.nonce() == Some(expected) {
        true => Ok(()),
        false => Err(Unpaid::new(reason::NOT_FOR_THIS_HIRE, "the payment's nonce is another's")),
    }
}

/// Whether a request brings the node's fresh word that it would take this payment, which has been
/// judged: its nonce is that of this hire or of these terms. Without, the node is asked.
pub(crate) fn is_vouched(
    headers: &HeaderMap,
    payment: &Payment,
    asked: &Asked,
    way: &Price,
    now: Timestamp,
) -> bool {
    let word = headers.get(PAYABLE).and_then(|header| header.to_str().ok());
    let word = word.and_then(|text| from_header::<Payable>(text).ok());
    let paid = &payment.payload.authorization;
    let parts = (word, paid.nonce(), paid.window());
    let (Some(word), Some(nonce), Some(window)) = parts else { return false };
    // The node looks at a client's own id for a payment, and its word does not say at which.
    if asked.signed.is_none() || payment.identifier.is_some() {
        return false;
    }
    let facts = PayableFacts {
        tx_hash: &way.rail.tx_hash(&paid.from, &nonce),
        to: paid.to,
        amount: way.v2.amount,
        window,
        network: &payment.network,
    };
    word.check(&way.rail, &facts, now).is_ok()
}

/// The payment as the client sent it. One that does not say what it is for is for this: otherwise
/// two sellers with the same payee could both be shown it, and both would hear that it was taken.
fn payload(payment: &Payment, resource: &Resource) -> Value {
    let mut raw = payment.raw.clone();
    if let (2, None, Some(fields)) = (payment.version, &payment.resource, raw.as_object_mut()) {
        fields.insert("resource".to_owned(), json!(resource));
    }
    raw
}

/// What the node is asked about a payment.
pub(crate) fn facilitator_request(
    payment: &Payment,
    asked: &Asked,
    way: &Price,
    resource: &Resource,
) -> FacilitatorRequest {
    let v1 = way.v1.clone().unwrap_or_else(|| way.rail.requirements_v1(&way.v2, resource));
    let hire = asked.signed.as_ref().map(|(_, envelope)| envelope.clone());
    let skep =
        hire.map(|hire| SkepTerms { hire: Some(hire), escrow: way.terms.clone(), receipt: None });
    FacilitatorRequest {
        x402_version: payment.version,
        payment_payload: payload(payment, resource),
        payment_requirements: payment.requirements(&way.v2, &v1),
        skep,
    }
}

/// The 402: version 2 in a header, version 1 in the body, and the specification's own headers. The
/// body is a problem as well.
pub(crate) fn challenge(
    ways: &[Price],
    resource: &Resource,
    why: &Unpaid,
    params: &Value,
) -> Response {
    let mut response = payment_problem(why, ways.iter().filter_map(|way| way.v1.as_ref()));
    let required = PaymentRequired {
        x402_version: 2,
        error: Some(why.reason.clone()),
        resource: resource.clone(),
        accepts: ways.iter().map(|way| way.v2.clone()).collect(),
        extensions: ways.first().map(|way| (*way.ware.extensions).clone()).unwrap_or_default(),
    };
    let hash = canonical::to_vec(params).map(|bytes| keccak256(&bytes).to_prefixed());
    let first = ways.first();
    for (name, value) in [
        (PAYMENT_REQUIRED, Some(to_header(&required))),
        ("x-402-network", first.map(|way| way.v2.network.clone())),
        ("x-402-address", first.map(|way| way.v2.pay_to.to_string())),
        ("x-402-amount", first.map(|way| way.v2.amount.to_string())),
        ("x-402-capability-hash", hash.ok()),
    ] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// A 402 in the form of version 1 and of a problem at once.
pub(crate) fn payment_problem<'a>(
    why: &Unpaid,
    accepts: impl Iterator<Item = &'a RequirementsV1>,
) -> Response {
    let body = json!({
        "x402Version": 1,
        "error": why.reason,
        "accepts": accepts.collect::<Vec<_>>(),
        "type": format!("/problems/{}", why.reason),
        "title": "payment required",
        "status": 402,
        "code": why.reason,
        "detail": why.detail,
        "retryable": false,
    });
    let mut response = (StatusCode::PAYMENT_REQUIRED, body.to_string()).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// Says in an answer how its payment went, for clients of both versions.
pub(crate) fn tell_payment(response: &mut Response, settled: &SettleResponse) {
    let Ok(value) = HeaderValue::from_str(&to_header(settled)) else { return };
    for name in [PAYMENT_RESPONSE, X_PAYMENT_RESPONSE] {
        response.headers_mut().insert(HeaderName::from_static(name), value.clone());
    }
}

/// Until when a payment can be taken, in Unix seconds; what is later than any clock never ends. The
/// wallet's word for the buyer may end before it.
pub(crate) fn valid_before_s(payment: &Payment, asked: &Asked) -> Option<u64> {
    let (_, before) = payment.payload.authorization.window()?;
    let before = u64::try_from(before).unwrap_or(u64::MAX);
    let bound = asked.binding().map(|binding| u64::try_from(binding.expires_at).unwrap_or(0));
    Some(bound.map_or(before, |bound| bound.min(before)))
}
