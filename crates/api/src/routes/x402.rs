//! The node as an x402 facilitator. What clients send carries its own signatures.

use axum::{Json, extract::State};
use skep_wire::x402::{FacilitatorRequest, SettleResponse, Supported, VerifyResponse};

use crate::{api::Api, extract::JsonBody, problem::ApiError};

/// What can be paid with here
///
/// The built-in ledger in both versions of x402. `extra` is the rail: the asset's address, the name
/// and version of its signing domain, and where payments into escrow go.
#[utoipa::path(
    get, path = "/x402/supported", tag = "payments", operation_id = "x402_supported",
    responses((status = 200, description = "The kinds", body = Supported)),
)]
pub(super) async fn supported(State(api): State<Api>) -> Json<Supported> {
    Json(api.market.x402_supported())
}

/// Ask whether a payment would be taken
///
/// Reads only. A no is an answer, too: `isValid` is false and `invalidReason` says why.
#[utoipa::path(
    post, path = "/x402/verify", tag = "payments", operation_id = "x402_verify",
    request_body = FacilitatorRequest,
    responses((status = 200, description = "Yes or no", body = VerifyResponse)),
)]
pub(super) async fn verify(
    State(api): State<Api>,
    JsonBody(request): JsonBody<FacilitatorRequest>,
) -> Result<Json<VerifyResponse>, ApiError> {
    Ok(Json(api.market.x402_verify(&request).await?))
}

/// Take a payment
///
/// Once: the same payment again gets the same answer. `settlement_pending` means that it is not
/// known yet; ask again with the same payment.
#[utoipa::path(
    post, path = "/x402/settle", tag = "payments", operation_id = "x402_settle",
    request_body = FacilitatorRequest,
    responses((status = 200, description = "Taken, or why not", body = SettleResponse)),
    extensions(("x-codes" = json!(["payment_identifier_reused"]))),
)]
pub(super) async fn settle(
    State(api): State<Api>,
    JsonBody(request): JsonBody<FacilitatorRequest>,
) -> Result<Json<SettleResponse>, ApiError> {
    Ok(Json(api.market.x402_settle(&request).await?))
}
