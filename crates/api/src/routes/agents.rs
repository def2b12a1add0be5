//! Agents, their keys and what they are told.

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use skep_wire::{
    Page,
    http_signature::KeyId,
    identity::{Agent, KeyChange, RegisterAgent},
    notice::WebhookAttempt,
    wallet::EventLine,
};

use super::{PageQuery, answered, log_place, page_len, with_score};
use crate::{
    api::Api,
    extract::{JsonBody, PathId, Query, Signed},
    problem::ApiError,
};

/// Register an agent
///
/// Wallet and Ed25519 key sign the same binding, which names both. A newer statement by the same
/// keys changes the name and the webhook.
#[utoipa::path(
    post, path = "/v1/agents", tag = "identity", operation_id = "register_agent",
    request_body = RegisterAgent,
    responses((status = 201, description = "Registered", body = Agent)),
    extensions(("x-codes" = json!([
        "bad_statement_signature", "bad_statement", "statement_not_fresh", "unknown_operator",
        "agent_exists", "key_taken"
    ]))),
)]
pub(super) async fn register(
    State(api): State<Api>,
    JsonBody(request): JsonBody<RegisterAgent>,
) -> Result<Response, ApiError> {
    Ok(answered(StatusCode::CREATED, api.market.register_agent(request).await?))
}

/// Show an agent
///
/// With all its keys and the signed words that brought them in, so that a stranger can follow the
/// chain.
#[utoipa::path(
    get, path = "/v1/agents/{id}", tag = "identity", operation_id = "show_agent",
    params(("id" = String, Path, description = "The agent's address or its DID")),
    responses((status = 200, description = "The agent", body = Agent)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_agent"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
) -> Result<Response, ApiError> {
    let agent = api.market.agent(&name.to_string()).await?;
    Ok(with_score(&api, &agent.agent_id, Json(&agent)).await)
}

/// Change an agent's keys
///
/// Rotate, recover, cancel a recovery, revoke, or attach to an operator. Each carries its own
/// signatures. After a change of keys no money leaves the wallet for 24 hours.
#[utoipa::path(
    post, path = "/v1/agents/{id}/keys", tag = "identity", operation_id = "change_keys",
    params(("id" = String, Path, description = "The agent's address or its DID")),
    request_body = KeyChange,
    responses((status = 200, description = "The agent as it is now", body = Agent)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_agent", "unknown_operator", "bad_statement_signature",
        "bad_statement", "statement_not_fresh", "key_not_current", "key_taken",
        "old_key_not_current", "key_revoked", "no_recovery_key", "not_the_recovery_key",
        "recovery_waiting", "no_recovery_waiting", "recovery_too_early", "not_signed_by_owner",
        "key_never_held", "already_revoked", "key_used_before", "compromised_in_future",
        "too_many_keys", "operator_in_cooldown", "operator_changed", "too_many_operators"
    ]))),
)]
pub(super) async fn change_keys(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    JsonBody(change): JsonBody<KeyChange>,
) -> Result<Response, ApiError> {
    let agent = api.agent_id(&name).await?;
    Ok(answered(StatusCode::OK, api.market.change_keys(&agent, change).await?))
}

/// Read an agent's inbox
///
/// What the agent is told of, oldest first. The cursor is good for ever: ask again with it for
/// what is new.
#[utoipa::path(
    get, path = "/v1/agents/{id}/inbox", tag = "log", operation_id = "inbox",
    params(("id" = String, Path, description = "The agent's address or its DID"), PageQuery),
    responses((status = 200, description = "A page", body = Page<EventLine>)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "malformed_cursor", "not_yours"
    ]))),
)]
pub(super) async fn inbox(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    Query(query): Query<PageQuery>,
    signed: Signed,
) -> Result<Json<Page<EventLine>>, ApiError> {
    let agent = signed.must_be(&api, &name).await?;
    let after = log_place(query.cursor.as_deref())?;
    Ok(Json(api.market.inbox(&agent, after, page_len(query.limit)?).await?))
}

/// Read what became of an agent's notices
///
/// The latest 50 attempts to deliver what the agent is told to its webhook, newest first.
#[utoipa::path(
    get, path = "/v1/agents/{id}/webhook-log", tag = "log", operation_id = "webhook_log",
    params(("id" = String, Path, description = "The agent's address or its DID")),
    responses((status = 200, description = "All there are", body = Page<WebhookAttempt>)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "not_yours"]))),
)]
pub(super) async fn webhook_log(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    signed: Signed,
) -> Result<Json<Page<WebhookAttempt>>, ApiError> {
    let agent = signed.must_be(&api, &name).await?;
    let items = api.market.webhook_log(&agent).await?;
    Ok(Json(Page { items, next_cursor: None }))
}
