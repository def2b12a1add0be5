//! A hire's money in escrow. Orders carry their signer's signature.

use axum::{Json, extract::State};
use skep_base::id::DealId;
use skep_wire::hire::{EscrowOrder, EscrowVerb, HireEscrow, TimeoutRefund};

use crate::{
    api::Api,
    extract::{JsonBody, PathId},
    problem::ApiError,
};

/// Show a hire's escrow
#[utoipa::path(
    get, path = "/v1/escrows/{id}", tag = "payments", operation_id = "hire_escrow",
    params(("id" = String, Path, description = "The escrow's UUID")),
    responses((status = 200, description = "As it stands", body = HireEscrow)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_escrow"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
) -> Result<Json<HireEscrow>, ApiError> {
    Ok(Json(api.market.hire_escrow(id).await?))
}

/// Release the money to the seller
///
/// Signed by the buyer, for the result that it names. The same order again is fine.
#[utoipa::path(
    post, path = "/v1/escrows/{id}/release", tag = "payments", operation_id = "release_escrow",
    params(("id" = String, Path, description = "The escrow's UUID")),
    request_body = EscrowOrder,
    responses((status = 200, description = "As it stands", body = HireEscrow)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_escrow", "other_escrow_order", "bad_escrow_signature",
        "not_your_escrow", "escrow_over", "not_delivered", "wrong_result"
    ]))),
)]
pub(super) async fn release(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    JsonBody(order): JsonBody<EscrowOrder>,
) -> Result<Json<HireEscrow>, ApiError> {
    Ok(Json(api.market.escrow_order(id, EscrowVerb::Release, order).await?))
}

/// Give the money back to the buyer
///
/// Signed by the buyer after a delivery, or by the seller at any time. The same order again is
/// fine.
#[utoipa::path(
    post, path = "/v1/escrows/{id}/refund", tag = "payments", operation_id = "refund_escrow",
    params(("id" = String, Path, description = "The escrow's UUID")),
    request_body = EscrowOrder,
    responses((status = 200, description = "As it stands", body = HireEscrow)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_escrow", "other_escrow_order", "bad_escrow_signature",
        "not_your_escrow", "escrow_over", "not_delivered", "wrong_result"
    ]))),
)]
pub(super) async fn refund(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    JsonBody(order): JsonBody<EscrowOrder>,
) -> Result<Json<HireEscrow>, ApiError> {
    Ok(Json(api.market.escrow_order(id, EscrowVerb::Refund, order).await?))
}

/// Ask for the refund that time gives
///
/// Anybody may, once nothing was delivered in time or the buyer said nothing in time.
#[utoipa::path(
    post, path = "/v1/escrows/{id}/timeout-refund", tag = "payments",
    operation_id = "timeout_refund",
    params(("id" = String, Path, description = "The escrow's UUID")),
    request_body = TimeoutRefund,
    responses((status = 200, description = "As it stands", body = HireEscrow)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_escrow", "escrow_over", "refund_too_early"
    ]))),
)]
pub(super) async fn timeout_refund(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    JsonBody(TimeoutRefund {}): JsonBody<TimeoutRefund>,
) -> Result<Json<HireEscrow>, ApiError> {
    Ok(Json(api.market.escrow_timeout(id).await?))
}
