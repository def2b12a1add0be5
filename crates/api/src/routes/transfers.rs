//! Money between agents.

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use skep_base::id::TransferId;
use skep_wire::wallet::{NewTransfer, PostTransfer, Transfer, VoidTransfer};

use super::answered;
use crate::{
    api::Api,
    extract::{PathId, Signed},
    problem::ApiError,
};

/// Pay another agent, or hold money for it
///
/// The caller chooses the id: a retry with the same id is the same transfer.
#[utoipa::path(
    post, path = "/v1/transfers", tag = "money", operation_id = "create_transfer",
    request_body = NewTransfer,
    responses((status = 201, description = "Paid, or held", body = Transfer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "unknown_agent", "insufficient_funds", "limit_reached", "zero_amount", "same_account",
        "asset_mismatch", "not_its_budget", "budget_is_no_wallet", "unknown_budget",
        "transfer_id_taken", "amount_overflow", "money_frozen", "in_debt"
    ]))),
)]
pub(super) async fn create(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let request: NewTransfer = signed.json()?;
    let answer = api.market.transfer_create(&signed.by, request).await?;
    Ok(answered(StatusCode::CREATED, answer))
}

/// Show a transfer
///
/// To one of its two sides.
#[utoipa::path(
    get, path = "/v1/transfers/{id}", tag = "money", operation_id = "show_transfer",
    params(("id" = String, Path, description = "`tr_…`")),
    responses((status = 200, description = "Where it stands", body = Transfer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_transfer"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<TransferId>,
    signed: Signed,
) -> Result<Json<Transfer>, ApiError> {
    Ok(Json(api.market.transfer(&signed.by.agent, id).await?))
}

/// Pay what was held
///
/// By the payer; all of it, or a part. The rest returns to the payer.
#[utoipa::path(
    post, path = "/v1/transfers/{id}/post", tag = "money", operation_id = "post_transfer",
    params(("id" = String, Path, description = "`tr_…`")),
    request_body = PostTransfer,
    responses((status = 200, description = "Paid", body = Transfer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_transfer", "not_yours", "not_pending", "already_posted",
        "already_voided", "more_than_pending", "zero_amount", "bad_statement", "money_frozen"
    ]))),
)]
pub(super) async fn post(
    State(api): State<Api>,
    PathId(id): PathId<TransferId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let request: PostTransfer = signed.json_or_default()?;
    let answer = api.market.transfer_post(&signed.by, id, request).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Let go of a hold
///
/// By the payee at any time; by the payer after a week.
#[utoipa::path(
    post, path = "/v1/transfers/{id}/void", tag = "money", operation_id = "void_transfer",
    params(("id" = String, Path, description = "`tr_…`")),
    request_body = VoidTransfer,
    responses((status = 200, description = "Voided", body = Transfer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_transfer", "not_yours", "not_pending", "already_posted",
        "already_voided"
    ]))),
)]
pub(super) async fn void(
    State(api): State<Api>,
    PathId(id): PathId<TransferId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let VoidTransfer {} = signed.json_or_default()?;
    Ok(answered(StatusCode::OK, api.market.transfer_void(&signed.by, id).await?))
}
