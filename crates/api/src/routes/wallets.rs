//! What an agent has.

use std::time::Duration;

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use serde::Deserialize;
use skep_base::Asset;
use skep_wire::{
    Page,
    http_signature::KeyId,
    settle::Standing,
    wallet::{AdvanceClock, ClockTime, Faucet, HistoryLine, Transfer, Wallet},
};

use super::{answered, opaque, page_len};
use crate::{
    api::Api,
    extract::{JsonBody, PathId, Query, Signed},
    problem::ApiError,
};

/// Show a wallet
#[utoipa::path(
    get, path = "/v1/agents/{id}/wallet", tag = "money", operation_id = "wallet",
    params(("id" = String, Path, description = "The agent's address or its DID")),
    responses((status = 200, description = "Each asset", body = Wallet)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "not_yours"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    signed: Signed,
) -> Result<Json<Wallet>, ApiError> {
    let agent = signed.must_be(&api, &name).await?;
    Ok(Json(api.market.wallet(&agent).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// The asset whose journal is shown.
    #[param(value_type = Option<String>, default = "USDC")]
    asset: Option<Asset>,
    /// The `next_cursor` of an earlier page.
    cursor: Option<String>,
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
}

/// List a wallet's transfers
///
/// One asset's journal, newest first.
#[utoipa::path(
    get, path = "/v1/agents/{id}/transfers", tag = "money", operation_id = "transfers",
    params(("id" = String, Path, description = "The agent's address or its DID"), HistoryQuery),
    responses((status = 200, description = "A page", body = Page<HistoryLine>)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "malformed_cursor", "not_yours"
    ]))),
)]
pub(super) async fn history(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    Query(query): Query<HistoryQuery>,
    signed: Signed,
) -> Result<Json<Page<HistoryLine>>, ApiError> {
    let agent = signed.must_be(&api, &name).await?;
    let asset = query.asset.unwrap_or(Asset::USDC);
    let (cursor, len) = (opaque(query.cursor)?, page_len(query.limit)?);
    Ok(Json(api.market.history(&agent, asset, cursor, len).await?))
}

/// Take test money
///
/// Only on a node that was made with `--dev`.
#[utoipa::path(
    post, path = "/v1/dev/faucet", tag = "money", operation_id = "faucet",
    request_body = Faucet,
    responses((status = 201, description = "Paid", body = Transfer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "not_dev", "faucet_limit", "zero_amount", "transfer_id_taken", "amount_overflow"
    ]))),
)]
pub(super) async fn faucet(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let answer = api.market.faucet(&signed.by, signed.json()?).await?;
    Ok(answered(StatusCode::CREATED, answer))
}

/// Move the clock ahead
///
/// Only on a node that was made with `--dev`. Deadlines pass and timers fire; signatures are still
/// judged by the machine's clock. It never goes back.
#[utoipa::path(
    post, path = "/v1/dev/clock", tag = "money", operation_id = "advanceClock",
    request_body = AdvanceClock,
    responses((status = 200, description = "What time it is now", body = ClockTime)),
    extensions(("x-codes" = json!(["not_dev"]))),
)]
pub(super) async fn advance_clock(
    State(api): State<Api>,
    JsonBody(AdvanceClock { seconds }): JsonBody<AdvanceClock>,
) -> Result<Json<ClockTime>, ApiError> {
    let now = api.market.advance_clock(Duration::from_secs(seconds))?;
    Ok(Json(ClockTime { now }))
}

/// Set an agent's standing
///
/// Only on a node that was made with `--dev`: which part of a price is held, the tier, the
/// subscription and the subsidy, until scores set them.
#[utoipa::path(
    post, path = "/v1/dev/standing/{id}", tag = "deals", operation_id = "set_standing",
    params(("id" = String, Path, description = "The agent's address or its DID")),
    request_body = Standing,
    responses((status = 200, description = "As it is now", body = Standing)),
    extensions(("x-codes" = json!(["malformed_id", "not_dev", "unknown_agent"]))),
)]
pub(super) async fn set_standing(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    JsonBody(standing): JsonBody<Standing>,
) -> Result<Response, ApiError> {
    let agent = api.agent_id(&name).await?;
    let reason = "set by hand on a test node".to_owned();
    Ok(answered(StatusCode::OK, api.market.set_standing(agent, standing, reason).await?))
}
