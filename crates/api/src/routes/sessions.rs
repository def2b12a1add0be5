//! Recorded browser sessions (VCAP appendix A).

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use skep_base::id::SessionId;
use skep_wire::{
    Page,
    conduit::{Act, ActionDone, CloseSession, OpenSession, Session, SessionProof, Step},
};

use super::{PageQuery, answered, opaque, page_len};
use crate::{
    api::Api,
    extract::{PathId, Query, Signed},
    problem::ApiError,
};

/// Open a browser session
///
/// A browser of the agent's own is started, then what the session may cost at most is held. A
/// session in which nothing happens fails after five minutes, and any after fifteen.
#[utoipa::path(
    post, path = "/conduit/sessions", tag = "sessions", operation_id = "open_session",
    request_body = OpenSession,
    responses((status = 201, description = "Open", body = Session)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "no_browser", "gateway_busy", "gateway_unavailable", "too_many_sessions",
        "max_cost_too_low", "purpose_too_long", "insufficient_funds", "in_debt", "money_frozen",
        "promised"
    ]))),
)]
pub(super) async fn open(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let answer = api.market.session_open(&signed.by, signed.json()?).await?;
    Ok(answered(StatusCode::CREATED, answer))
}

/// Do one action
///
/// One of the 25 of VCAP's appendix A. What is refused (the tier, the budget, a field that the
/// action does not take) changes nothing and costs nothing. What fails on the page, a selector that
/// matches nothing, say, is recorded with `success: false` and costs its price.
#[utoipa::path(
    post, path = "/conduit/sessions/{id}/actions", tag = "sessions", operation_id = "session_act",
    params(("id" = String, Path, description = "The session's id (sess_…)")),
    request_body = Act,
    responses((status = 200, description = "What came of it", body = ActionDone)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_session", "session_over", "tier_too_low", "budget_spent",
        "too_many_actions", "bad_action", "session_busy", "gateway_unavailable", "no_browser"
    ]))),
)]
pub(super) async fn act(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let answer = api.market.session_act(&signed.by, id, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Close a session
///
/// COMPLETED, or FAILED with a reason. What the actions cost is paid, the rest of the hold comes
/// back, and the gateway's signed proof is stored. A session whose gateway is lost costs nothing.
#[utoipa::path(
    post, path = "/conduit/sessions/{id}/close", tag = "sessions", operation_id = "close_session",
    params(("id" = String, Path, description = "The session's id (sess_…)")),
    request_body = CloseSession,
    responses((status = 200, description = "How it ended", body = Session)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_session", "session_over", "nothing_done", "gateway_unavailable",
        "no_browser"
    ]))),
)]
pub(super) async fn close(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let request: CloseSession = signed.json_or_default()?;
    Ok(answered(StatusCode::OK, api.market.session_close(&signed.by, id, request).await?))
}

/// Show a session
#[utoipa::path(
    get, path = "/conduit/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(("id" = String, Path, description = "The session's id (sess_…)")),
    responses((status = 200, description = "Where it stands", body = Session)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_session"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    signed: Signed,
) -> Result<Json<Session>, ApiError> {
    Ok(Json(api.market.session(&signed.by.agent, id).await?))
}

/// List a session's steps
///
/// Oldest first, as they stand in the chain.
#[utoipa::path(
    get, path = "/conduit/sessions/{id}/steps", tag = "sessions", operation_id = "session_steps",
    params(("id" = String, Path, description = "The session's id (sess_…)"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Step>)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "malformed_cursor", "unknown_session"
    ]))),
)]
pub(super) async fn steps(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    Query(query): Query<PageQuery>,
    signed: Signed,
) -> Result<Json<Page<Step>>, ApiError> {
    let (cursor, len) = (opaque(query.cursor)?, page_len(query.limit)?);
    Ok(Json(api.market.session_steps(&signed.by.agent, id, cursor, len).await?))
}

/// Show a session's proof
///
/// Signed by the gateway's own key, with the pictures and files that its steps name. It checks
/// offline: `skep proof verify`.
#[utoipa::path(
    get, path = "/conduit/sessions/{id}/proof", tag = "sessions", operation_id = "session_proof",
    params(("id" = String, Path, description = "The session's id (sess_…)")),
    responses((status = 200, description = "The proof", body = SessionProof)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_session", "session_open", "no_session_proof"
    ]))),
)]
pub(super) async fn proof(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    signed: Signed,
) -> Result<Json<SessionProof>, ApiError> {
    Ok(Json(api.market.session_proof(&signed.by.agent, id).await?))
}
