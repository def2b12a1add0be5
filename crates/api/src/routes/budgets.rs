//! What agents may spend for others. Tokens carry their issuer's signature.

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use skep_base::Hash32;
use skep_wire::hire::{Budget, BudgetToken};

use super::answered;
use crate::{
    api::Api,
    extract::{JsonBody, PathId},
    problem::ApiError,
};

/// Make a budget known
///
/// A first payment under it does so, too. A token with a `parent` takes its amount out of that
/// budget; what is left of it when it ends goes back. The same token again shows how it stands.
#[utoipa::path(
    post, path = "/v1/budgets", tag = "payments", operation_id = "open_budget",
    request_body = BudgetToken,
    responses((status = 200, description = "As it stands", body = Budget)),
    extensions(("x-codes" = json!([
        "bad_budget", "budget_not_yet_valid", "budget_expired", "wrong_budget_issuer",
        "bad_budget_signature", "unknown_parent_budget", "budget_too_deep",
        "budget_outlives_parent", "budget_exceeded"
    ]))),
)]
pub(super) async fn open(
    State(api): State<Api>,
    JsonBody(token): JsonBody<BudgetToken>,
) -> Result<Response, ApiError> {
    Ok(answered(StatusCode::OK, api.market.budget_open(token).await?))
}

/// Show a budget
#[utoipa::path(
    get, path = "/v1/budgets/{id}", tag = "payments", operation_id = "budget",
    params(("id" = String, Path, description = "The token's hash, 64 hex digits")),
    responses((status = 200, description = "As it stands", body = Budget)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_budget"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<Hash32>,
) -> Result<Json<Budget>, ApiError> {
    Ok(Json(api.market.budget(&id).await?))
}
