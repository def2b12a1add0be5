//! The event log, open to everybody.

use axum::{Json, extract::State};
use serde::Deserialize;
use skep_wire::{
    Page,
    wallet::{EventLine, SignedLogHead},
};

use super::{log_place, page_len};
use crate::{api::Api, extract::Query, problem::ApiError};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// The `next_cursor` of an earlier page.
    after: Option<String>,
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
}

/// Read the event log
///
/// Oldest first, without gaps. The cursor is good for ever.
#[utoipa::path(
    get, path = "/v1/events", tag = "log", operation_id = "events",
    params(EventsQuery),
    responses((status = 200, description = "A page", body = Page<EventLine>)),
    extensions(("x-codes" = json!(["malformed_query", "malformed_cursor"]))),
)]
pub(super) async fn list(
    State(api): State<Api>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Page<EventLine>>, ApiError> {
    let after = log_place(query.after.as_deref())?;
    Ok(Json(api.market.events(after, page_len(query.limit)?).await?))
}

/// Read the end of the event log
///
/// Signed by the node: whoever keeps it can tell later that nothing before it was changed.
#[utoipa::path(
    get, path = "/v1/log/head", tag = "log", operation_id = "log_head",
    responses((status = 200, description = "The head", body = SignedLogHead)),
)]
pub(super) async fn head(State(api): State<Api>) -> Result<Json<SignedLogHead>, ApiError> {
    Ok(Json(api.market.log_head().await?))
}
