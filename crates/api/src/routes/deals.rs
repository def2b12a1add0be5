//! Deals: offers, agreements, and what either side does to them (VCAP 3.1 to 3.3, 4.4).

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use serde_json::Value;
use skep_base::id::DealId;
use skep_market::{DealAnswer, NegotiationAnswer};
use skep_wire::settle::{
    Agreement, BaselineReport, Cancel, Dispute, EscrowHold, Negotiation, NegotiationRequest,
    NegotiationResponse, Objection, RefundRequest, SettlementReceipt, Split,
};

use super::answered;
use crate::{
    api::Api,
    extract::{PathId, Signed},
    problem::ApiError,
};

/// Ask a provider for work
///
/// The offer of VCAP 3.1. The marketplace gives the `negotiation_id`, which is the deal's one id:
/// its escrow, its agreement and its settlement have the same. Terms that VCAP leaves open are in
/// `metadata.skep`.
#[utoipa::path(
    post, path = "/vcap/v1/negotiations", tag = "deals", operation_id = "open_negotiation",
    request_body = NegotiationRequest,
    responses((status = 201, description = "Offered", body = NegotiationAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "bad_message", "self_deal", "not_the_requester", "unknown_agent", "in_debt", "bad_expiry"
    ]))),
)]
pub(super) async fn open(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let (message, raw): (NegotiationRequest, Value) = (signed.json()?, signed.json()?);
    let answer = api.market.negotiation_open(&signed.by, message, raw).await?;
    Ok(answered(StatusCode::CREATED, answer))
}

/// Accept, reject or counter an offer
///
/// VCAP 3.2, by the side whose turn it is. Accepting holds the money and makes the agreement in the
/// same transaction: if the requester cannot pay, nothing changes.
#[utoipa::path(
    post, path = "/vcap/v1/negotiations/{id}/responses", tag = "deals",
    operation_id = "respond", params(("id" = String, Path, description = "The deal's UUID")),
    request_body = NegotiationResponse,
    responses((status = 200, description = "Where it stands", body = NegotiationAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "bad_message", "not_your_turn", "negotiation_closed",
        "offer_expired", "too_many_rounds", "price_changed", "escrow_funding_failed",
        "remainder_limit", "advance_limit", "deadline_in_past", "bad_expiry", "in_debt",
        "money_frozen", "unknown_verifier", "verifier_not_independent", "verifier_lacks_engine",
        "verifier_too_dear", "verifier_key_expired", "bad_verifier", "deal_busy"
    ]))),
)]
pub(super) async fn respond(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let (message, raw): (NegotiationResponse, Value) = (signed.json()?, signed.json()?);
    let answer = api.market.negotiation_respond(&signed.by, id, message, raw).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Show a negotiation
#[utoipa::path(
    get, path = "/vcap/v1/negotiations/{id}", tag = "deals", operation_id = "show_negotiation",
    params(("id" = String, Path, description = "The deal's UUID")),
    responses((status = 200, description = "With every message", body = Negotiation)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_deal"]))),
)]
pub(super) async fn negotiation(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Json<Negotiation>, ApiError> {
    Ok(Json(api.market.negotiation(&signed.by.agent, id).await?))
}

/// Show an escrow
///
/// VCAP 3.3, with the status that it has now.
#[utoipa::path(
    get, path = "/vcap/v1/escrows/{id}", tag = "deals", operation_id = "show_escrow",
    params(("id" = String, Path, description = "The deal's UUID")),
    responses((status = 200, description = "The hold", body = EscrowHold)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_deal"]))),
)]
pub(super) async fn escrow(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Json<EscrowHold>, ApiError> {
    Ok(Json(api.market.escrow(&signed.by.agent, id).await?))
}

/// Show an agreement
///
/// With its terms as they were hashed.
#[utoipa::path(
    get, path = "/vcap/v1/agreements/{id}", tag = "deals", operation_id = "show_agreement",
    params(("id" = String, Path, description = "The deal's UUID")),
    responses((status = 200, description = "Where it stands", body = Agreement)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_deal"]))),
)]
pub(super) async fn agreement(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Json<Agreement>, ApiError> {
    Ok(Json(api.market.agreement(&signed.by.agent, id).await?))
}

/// Cancel a deal
///
/// By the provider before delivery; by the requester within 15 minutes of acceptance or after the
/// deadline. At other times the requester's word is a question to the provider.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/cancel", tag = "deals", operation_id = "cancel_deal",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = Cancel,
    responses((status = 200, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "already_delivered"
    ]))),
)]
pub(super) async fn cancel(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let Cancel {} = signed.json_or_default()?;
    Ok(answered(StatusCode::OK, api.market.deal_cancel(&signed.by, id).await?))
}

/// Contest a verdict
///
/// Inside the deal's dispute window, with a deposit that the loser pays. A reviewer decides within
/// 72 hours, or the verdict stands.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/disputes", tag = "deals", operation_id = "dispute",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = Dispute,
    responses((status = 200, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "nothing_to_dispute", "dispute_open",
        "insufficient_funds"
    ]))),
)]
pub(super) async fn dispute(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let answer = api.market.deal_dispute(&signed.by, id, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Object to the provider's own word
///
/// By the requester, where the terms allow automatic approval.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/objections", tag = "deals", operation_id = "object",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = Objection,
    responses((status = 200, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "nothing_to_object",
        "not_the_requester"
    ]))),
)]
pub(super) async fn object(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let answer = api.market.deal_object(&signed.by, id, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Ask for the refund of a missed deadline
///
/// Anyone may, an hour after the deadline.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/refunds", tag = "deals", operation_id = "refund",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = RefundRequest,
    responses((status = 200, description = "Refunded", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "already_delivered",
        "deadline_not_passed"
    ]))),
)]
pub(super) async fn refund(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let RefundRequest {} = signed.json_or_default()?;
    Ok(answered(StatusCode::OK, api.market.deal_refund(&signed.by, id).await?))
}

/// Offer to divide the price, or agree to it
///
/// The same amount from both sides settles the deal.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/splits", tag = "deals", operation_id = "split",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = Split,
    responses((status = 200, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "bad_split"
    ]))),
)]
pub(super) async fn split(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let answer = api.market.deal_split(&signed.by, id, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Say what a page was before the work
///
/// By the verifier that was asked for the baseline.
#[utoipa::path(
    post, path = "/vcap/v1/agreements/{id}/baseline", tag = "verification",
    operation_id = "baseline", params(("id" = String, Path, description = "The deal's UUID")),
    request_body = BaselineReport,
    responses((status = 200, description = "Kept", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "already_settled", "no_baseline_wanted"
    ]))),
)]
pub(super) async fn baseline(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let answer = api.market.deal_baseline(&signed.by, id, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Show a settlement
///
/// VCAP 3.7, signed by the marketplace. Anybody may see how an escrow ended.
#[utoipa::path(
    get, path = "/vcap/v1/settlements/{id}", tag = "deals", operation_id = "show_settlement",
    params(("id" = String, Path, description = "The deal's UUID")),
    responses((status = 200, description = "The receipt", body = SettlementReceipt)),
    extensions(("x-codes" = json!(["malformed_id", "not_settled"]))),
)]
pub(super) async fn settlement(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
) -> Result<Json<SettlementReceipt>, ApiError> {
    Ok(Json(api.market.settlement(id).await?))
}
