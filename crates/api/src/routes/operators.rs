//! Those who answer for agents.

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use skep_base::Did;
use skep_wire::identity::{Operator, RegisterOperator};

use super::answered;
use crate::{
    api::Api,
    extract::{JsonBody, PathId},
    problem::ApiError,
};

/// Register an operator
///
/// A person or an organisation with a key of its own. The same statement again gets the same
/// answer.
#[utoipa::path(
    post, path = "/v1/operators", tag = "identity", operation_id = "register_operator",
    request_body = RegisterOperator,
    responses((status = 201, description = "Registered", body = Operator)),
    extensions(("x-codes" = json!([
        "bad_statement_signature", "bad_statement", "statement_not_fresh"
    ]))),
)]
pub(super) async fn register(
    State(api): State<Api>,
    JsonBody(request): JsonBody<RegisterOperator>,
) -> Result<Response, ApiError> {
    Ok(answered(StatusCode::CREATED, api.market.register_operator(request).await?))
}

/// Show an operator
#[utoipa::path(
    get, path = "/v1/operators/{did}", tag = "identity", operation_id = "show_operator",
    params(("did" = String, Path, description = "`did:swarm:` and 64 hex digits")),
    responses((status = 200, description = "With the statement it signed", body = Operator)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_operator"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(did): PathId<Did>,
) -> Result<Json<Operator>, ApiError> {
    Ok(Json(api.market.operator(&did).await?))
}
