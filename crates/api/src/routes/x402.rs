//! The node as an x402 facilitator. What clients send carries its own signatures.

use axum::{Json, extract::State};
use serde::Deserialize;
use skep_base::AgentId;
use skep_market::{DISCOVERY_OFFSET_MAX, ResourceFilter};
use skep_wire::x402::{Discovery, FacilitatorRequest, SettleResponse, Supported, VerifyResponse};

use super::{opaque, page_len};
use crate::{
    api::Api,
    code::Code,
    extract::{JsonBody, Query},
    problem::ApiError,
};

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

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ResourcesQuery {
    /// `http`
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only what is paid at this address.
    #[serde(rename = "payTo")]
    #[param(value_type = Option<String>)]
    pay_to: Option<AgentId>,
    /// `exact`
    scheme: Option<String>,
    network: Option<String>,
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
    /// 0 to 1000.
    #[param(default = 0)]
    offset: Option<u64>,
}

/// List what can be bought
///
/// The listings that are paid directly, best first.
#[utoipa::path(
    get, path = "/x402/discovery/resources", tag = "payments", operation_id = "x402_resources",
    params(ResourcesQuery),
    responses((status = 200, description = "A page", body = Discovery)),
    extensions(("x-codes" = json!(["malformed_query"]))),
)]
pub(super) async fn resources(
    State(api): State<Api>,
    Query(query): Query<ResourcesQuery>,
) -> Result<Json<Discovery>, ApiError> {
    let ResourcesQuery { kind, pay_to, scheme, network, limit, offset } = query;
    let offset = offset.unwrap_or_default();
    if offset > DISCOVERY_OFFSET_MAX {
        let detail = format!("offset is at most {DISCOVERY_OFFSET_MAX}; search instead");
        return Err(ApiError::new(Code::MalformedQuery, detail));
    }
    let filter = ResourceFilter { kind, pay_to, scheme, network };
    Ok(Json(api.market.x402_resources(&filter, page_len(limit)? as u32, offset).await?))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchQuery {
    /// Words of a description or a capability; everything without.
    query: Option<String>,
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
    /// The `cursor` of an earlier page.
    cursor: Option<String>,
}

/// Search what can be bought
#[utoipa::path(
    get, path = "/x402/discovery/search", tag = "payments", operation_id = "x402_search",
    params(SearchQuery),
    responses((status = 200, description = "A page", body = Discovery)),
    extensions(("x-codes" = json!(["malformed_query", "malformed_cursor", "bad_search"]))),
)]
pub(super) async fn search(
    State(api): State<Api>,
    Query(query): Query<SearchQuery>,
) -> Result<Json<Discovery>, ApiError> {
    let SearchQuery { query, limit, cursor } = query;
    let (limit, cursor) = (page_len(limit)? as u32, opaque(cursor)?);
    let query = query.filter(|query| !query.trim().is_empty());
    Ok(Json(api.market.x402_search(query, limit, cursor).await?))
}
