//! What agents sell, and how it is found (SHP 5 and 6).

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use skep_base::{AgentId, id::ListingId};
use skep_wire::{
    Page,
    hire::{Found, Listing, ListingAccepted, ListingRemoval, Search, SearchAnswer},
    http_signature::KeyId,
};

use super::{PageQuery, opaque, page_len, with_score};
use crate::{
    api::Api,
    code::Code,
    extract::{JsonBody, PathId, Query, Signed},
    problem::ApiError,
};

/// A listing that is no longer found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ListingGone {
    ok: bool,
    #[schema(value_type = String)]
    listing_id: ListingId,
}

/// Publish a listing
///
/// Signed by the agent's wallet; a later `issued_at` replaces an earlier one. The node asks the
/// endpoint's origin for `/.well-known/swarmwage-verify?nonce=N` first. One agent may have several
/// listings of one capability, one for each payment mode.
#[utoipa::path(
    post, path = "/v1/listings", tag = "hire", operation_id = "publish_listing",
    request_body = Listing,
    responses(
        (status = 201, description = "It stands", body = ListingAccepted),
        (status = 200, description = "What stood is the same, or newer", body = ListingAccepted),
    ),
    extensions(("x-codes" = json!([
        "bad_wallet_signature", "issued_at_missing", "statement_not_fresh", "unknown_agent",
        "bad_capability", "bad_price", "bad_latency", "bad_endpoint", "description_too_long",
        "bad_verification_version", "not_clarifiable", "wrong_escrow", "bad_escrow_address",
        "bad_currency", "listing_too_large", "listings_full", "too_many_listings",
        "endpoint_not_proven", "no_egress", "listing_removed"
    ]))),
)]
pub(super) async fn publish(
    State(api): State<Api>,
    JsonBody(listing): JsonBody<Listing>,
) -> Result<impl IntoResponse, ApiError> {
    let accepted = api.market.publish_listing(listing).await?;
    let status = if accepted.changed { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(accepted)))
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RecipientQuery {
    /// Where money goes.
    #[param(value_type = String)]
    recipient: AgentId,
}

/// Who is paid at an address.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PaidAt {
    #[schema(value_type = String)]
    agent_id: AgentId,
    #[schema(value_type = String)]
    recipient: AgentId,
}

/// Find the agent that is paid at an address
///
/// An address that listings of several agents pay to names none of them.
#[utoipa::path(
    get, path = "/v1/listings", tag = "hire", operation_id = "agent_paid_at",
    params(RecipientQuery),
    responses((status = 200, description = "The one agent", body = PaidAt)),
    extensions(("x-codes" = json!(["malformed_query", "nobody_paid_there"]))),
)]
pub(super) async fn paid_at(
    State(api): State<Api>,
    Query(query): Query<RecipientQuery>,
) -> Result<Json<PaidAt>, ApiError> {
    let agent_id = api.market.agent_paid_at(query.recipient).await?;
    Ok(Json(PaidAt { agent_id, recipient: query.recipient }))
}

/// Show a listing
#[utoipa::path(
    get, path = "/v1/listings/{id}", tag = "hire", operation_id = "show_listing",
    params(("id" = String, Path, description = "The listing's id")),
    responses((status = 200, description = "The listing", body = Found)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_listing"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<ListingId>,
) -> Result<Json<Found>, ApiError> {
    Ok(Json(api.market.listing(id).await?))
}

/// Remove a listing by a signed request
#[utoipa::path(
    delete, path = "/v1/listings/{id}", tag = "hire", operation_id = "delete_listing",
    params(("id" = String, Path, description = "The listing's id")),
    responses((status = 200, description = "It is gone", body = ListingGone)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_listing"]))),
)]
pub(super) async fn delete(
    State(api): State<Api>,
    PathId(id): PathId<ListingId>,
    signed: Signed,
) -> Result<Json<ListingGone>, ApiError> {
    api.market.delete_listing(&signed.by, id).await?;
    Ok(Json(ListingGone { ok: true, listing_id: id }))
}

/// Remove a listing by its seller's word
///
/// Signed by the wallet, like the listing.
#[utoipa::path(
    post, path = "/v1/listings/{id}/remove", tag = "hire", operation_id = "remove_listing",
    params(("id" = String, Path, description = "The listing's id")),
    request_body = ListingRemoval,
    responses((status = 200, description = "It is gone", body = ListingGone)),
    extensions(("x-codes" = json!([
        "malformed_id", "bad_wallet_signature", "statement_not_fresh", "unknown_listing",
        "listing_newer"
    ]))),
)]
pub(super) async fn remove(
    State(api): State<Api>,
    PathId(id): PathId<ListingId>,
    JsonBody(removal): JsonBody<ListingRemoval>,
) -> Result<Json<ListingGone>, ApiError> {
    if removal.remove_listing != id {
        let detail = format!("the message removes {}, not {id}", removal.remove_listing);
        return Err(ApiError::new(Code::WrongShape, detail));
    }
    api.market.remove_listing(removal).await?;
    Ok(Json(ListingGone { ok: true, listing_id: id }))
}

/// List what an agent sells
#[utoipa::path(
    get, path = "/v1/agents/{id}/listings", tag = "hire", operation_id = "listings_of_agent",
    params(("id" = String, Path, description = "The agent's address or its DID"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Found>)),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "malformed_cursor", "unknown_agent"
    ]))),
)]
pub(super) async fn of_agent(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    Query(query): Query<PageQuery>,
) -> Result<Response, ApiError> {
    let agent = api.agent_id(&name).await?;
    let (cursor, limit) = (opaque(query.cursor)?, page_len(query.limit)?);
    let page = api.market.listings_of(&agent, cursor.as_deref(), limit).await?;
    Ok(with_score(&api, &agent, Json(page)).await)
}

/// Find sellers
///
/// By capability, by its first words, by words of the description, or by all of them; without any
/// of them, the best of all. What is not known of a seller passes no minimum. A page may be short
/// and still have a `next_cursor`: a search looks at a bounded number of listings.
#[utoipa::path(
    post, path = "/v1/search", tag = "hire", operation_id = "search",
    request_body = Search,
    responses((status = 200, description = "Best first", body = SearchAnswer)),
    extensions(("x-codes" = json!(["bad_search", "malformed_cursor"]))),
)]
pub(super) async fn search(
    State(api): State<Api>,
    JsonBody(search): JsonBody<Search>,
) -> Result<Json<SearchAnswer>, ApiError> {
    Ok(Json(api.market.search(search).await?))
}
