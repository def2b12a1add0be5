//! Deliveries, verdicts, reviews and those who give them (VCAP 3.4 to 3.6, 7.3, 11.2).

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use serde_json::Value;
use skep_base::{
    AgentId,
    id::{DealId, VerificationId},
};
use skep_market::{CallbackTaken, DealAnswer};
use skep_wire::{
    Page,
    settle::{
        MESSAGES, NewVerifierKey, RegisterVerifier, Review, ReviewFile, ServiceDelivery,
        Verification, VerificationCallback, Verifier, schema,
    },
};

use super::{PageQuery, answered, opaque, page_len};
use crate::{
    api::Api,
    code::Code,
    extract::{JsonBody, PathId, PathPair, Query, Signed},
    problem::ApiError,
};

/// Deliver work
///
/// VCAP 3.4, by the provider. Delivered again, it gets the verification that there is.
#[utoipa::path(
    post, path = "/vcap/v1/deliveries", tag = "deals", operation_id = "deliver",
    request_body = ServiceDelivery,
    responses((status = 200, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "unknown_deal", "bad_message", "not_the_provider", "criteria_changed", "deadline_passed",
        "already_settled", "auto_approve_not_agreed", "baseline_pending", "unknown_verifier",
        "verifier_not_independent", "verifier_lacks_engine", "verifier_key_expired", "deal_busy"
    ]))),
)]
pub(super) async fn deliver(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let (message, raw): (ServiceDelivery, Value) = (signed.json()?, signed.json()?);
    let answer = api.market.deal_deliver(&signed.by, message, raw).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Show a verification
///
/// With the request of VCAP 3.5 and, once it is there, the callback of 3.6.
#[utoipa::path(
    get, path = "/vcap/v1/verifications/{id}", tag = "verification",
    operation_id = "show_verification",
    params(("id" = String, Path, description = "The verification's UUID")),
    responses((status = 200, description = "The verification", body = Verification)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_deal"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<VerificationId>,
    signed: Signed,
) -> Result<Json<Verification>, ApiError> {
    Ok(Json(api.market.verification(&signed.by.agent, id).await?))
}

/// Acknowledge a verification
///
/// By its verifier: the work is being looked at.
#[utoipa::path(
    post, path = "/vcap/v1/verifications/{id}/ack", tag = "verification", operation_id = "ack",
    params(("id" = String, Path, description = "The verification's UUID")),
    responses((status = 202, description = "Where it stands", body = DealAnswer)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "unknown_verification", "not_the_verifier",
        "verification_over", "verification_timed_out"
    ]))),
)]
pub(super) async fn ack(
    State(api): State<Api>,
    PathId(id): PathId<VerificationId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    Ok(answered(StatusCode::ACCEPTED, api.market.acknowledge(&signed.by, id).await?))
}

/// Send a verdict
///
/// VCAP 3.6. The proof's signature is the authentication; the same callback again is acknowledged
/// and does nothing.
#[utoipa::path(
    post, path = "/vcap/v1/verifications/{id}/callback", tag = "verification",
    operation_id = "callback",
    params(("id" = String, Path, description = "The verification's UUID")),
    request_body = VerificationCallback,
    responses((status = 200, description = "Taken", body = CallbackTaken)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "unknown_verification", "bad_message", "not_the_verifier",
        "verification_over", "verification_timed_out", "reviewers_only", "unknown_agent",
        "unknown_verifier", "unknown_verifier_key", "verifier_key_revoked",
        "verifier_key_expired", "bad_completion_time", "bundle_unreachable", "proof_missing",
        "proof_unreadable", "proof_hash_mismatch", "proof_foreign", "proof_other_spec",
        "proof_outcome_mismatch", "proof_field_mismatch", "proof_chain_broken",
        "proof_bad_action", "proof_bad_attachment", "proof_content_changed",
        "proof_foreign_identity", "proof_bad_signature", "split_not_allowed", "bad_split",
        "already_settled"
    ]))),
)]
pub(super) async fn callback(
    State(api): State<Api>,
    PathId(id): PathId<VerificationId>,
    JsonBody(raw): JsonBody<Value>,
) -> Result<Json<CallbackTaken>, ApiError> {
    let message = message(&raw)?;
    Ok(Json(api.market.callback(id, message, raw).await?))
}

fn message(raw: &Value) -> Result<VerificationCallback, ApiError> {
    serde_json::from_value(raw.clone())
        .map_err(|error| ApiError::new(Code::WrongShape, error.to_string()))
}

/// Show the JSON Schema of a message
#[utoipa::path(
    get, path = "/vcap/v1/schemas/{message}", tag = "deals", operation_id = "schema",
    params(("message" = String, Path, description = "One of VCAP's seven message types")),
    responses((status = 200, description = "JSON Schema 2020-12", body = Value)),
    extensions(("x-codes" = json!(["unknown_message"]))),
)]
pub(super) async fn message_schema(PathId(name): PathId<String>) -> Result<Response, ApiError> {
    let Some(text) = schema(&name) else {
        let detail = format!("{name:?} is none of {}", MESSAGES.join(", "));
        return Err(ApiError::new(Code::UnknownMessage, detail));
    };
    Ok(([(header::CONTENT_TYPE, "application/schema+json")], text).into_response())
}

/// Register a verifier
///
/// The signing agent offers engines, with a key for its proofs that is not its own key as an agent.
/// Again, it changes what is offered.
#[utoipa::path(
    post, path = "/vcap/v1/verifiers", tag = "verification", operation_id = "register_verifier",
    request_body = RegisterVerifier,
    responses((status = 201, description = "Registered", body = Verifier)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["bad_verifier", "bad_key_id"]))),
)]
pub(super) async fn register(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let request: RegisterVerifier = signed.json()?;
    let answer = api.market.register_verifier(&signed.by, request).await?;
    Ok(answered(StatusCode::CREATED, answer))
}

/// List the verifiers
///
/// Oldest first.
#[utoipa::path(
    get, path = "/vcap/v1/verifiers", tag = "verification", operation_id = "verifiers",
    params(PageQuery),
    responses((status = 200, description = "A page", body = Page<Verifier>)),
    extensions(("x-codes" = json!(["malformed_query", "malformed_cursor"]))),
)]
pub(super) async fn verifiers(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Verifier>>, ApiError> {
    let (cursor, len) = (opaque(query.cursor)?, page_len(query.limit)?);
    Ok(Json(api.market.verifiers(cursor, len).await?))
}

/// Show a verifier
#[utoipa::path(
    get, path = "/vcap/v1/verifiers/{id}", tag = "verification", operation_id = "show_verifier",
    params(("id" = String, Path, description = "The verifier's address")),
    responses((status = 200, description = "With every key it had", body = Verifier)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_verifier"]))),
)]
pub(super) async fn verifier(
    State(api): State<Api>,
    PathId(id): PathId<AgentId>,
) -> Result<Json<Verifier>, ApiError> {
    Ok(Json(api.market.verifier(&id).await?))
}

/// Add a key to a verifier
#[utoipa::path(
    post, path = "/vcap/v1/verifiers/{id}/keys", tag = "verification",
    operation_id = "add_verifier_key",
    params(("id" = String, Path, description = "The verifier's address")),
    request_body = NewVerifierKey,
    responses((status = 200, description = "The verifier", body = Verifier)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "not_yours", "unknown_verifier", "bad_key_id", "bad_verifier"
    ]))),
)]
pub(super) async fn add_key(
    State(api): State<Api>,
    PathId(id): PathId<AgentId>,
    signed: Signed,
) -> Result<Response, ApiError> {
    own(&signed, &id)?;
    let answer = api.market.add_verifier_key(&signed.by, signed.json()?).await?;
    Ok(answered(StatusCode::OK, answer))
}

/// Revoke a verifier's key
///
/// From now on nothing that it signs counts.
#[utoipa::path(
    delete, path = "/vcap/v1/verifiers/{id}/keys/{kid}", tag = "verification",
    operation_id = "revoke_verifier_key",
    params(
        ("id" = String, Path, description = "The verifier's address"),
        ("kid" = String, Path, description = "The key's id"),
    ),
    responses((status = 200, description = "The verifier", body = Verifier)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "malformed_id", "not_yours", "unknown_verifier", "unknown_verifier_key"
    ]))),
)]
pub(super) async fn revoke_key(
    State(api): State<Api>,
    PathPair(id, kid): PathPair<AgentId, String>,
    signed: Signed,
) -> Result<Response, ApiError> {
    own(&signed, &id)?;
    let answer = api.market.revoke_verifier_key(&signed.by, kid).await?;
    Ok(answered(StatusCode::OK, answer))
}

fn own(signed: &Signed, id: &AgentId) -> Result<(), ApiError> {
    match signed.by.agent == *id {
        true => Ok(()),
        false => Err(ApiError::new(Code::NotYours, "only a verifier changes its own keys")),
    }
}

/// List what waits for a reviewer
///
/// Oldest first.
#[utoipa::path(
    get, path = "/vcap/v1/reviews", tag = "verification", operation_id = "reviews",
    params(PageQuery),
    responses((status = 200, description = "A page", body = Page<Review>)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_query", "malformed_cursor", "not_a_reviewer"]))),
)]
pub(super) async fn reviews(
    State(api): State<Api>,
    Query(query): Query<PageQuery>,
    signed: Signed,
) -> Result<Json<Page<Review>>, ApiError> {
    let (cursor, len) = (opaque(query.cursor)?, page_len(query.limit)?);
    Ok(Json(api.market.reviews(&signed.by.agent, cursor, len).await?))
}

/// Show everything about a review
///
/// VCAP 7.3: terms, delivery, what verifiers found so far, the escrow.
#[utoipa::path(
    get, path = "/vcap/v1/reviews/{id}", tag = "verification", operation_id = "show_review",
    params(("id" = String, Path, description = "The deal's UUID")),
    responses((status = 200, description = "The file", body = ReviewFile)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_deal", "not_a_reviewer"]))),
)]
pub(super) async fn review(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    signed: Signed,
) -> Result<Json<ReviewFile>, ApiError> {
    Ok(Json(api.market.review(&signed.by.agent, id).await?))
}

/// Decide a review
///
/// The decision is a verification callback, signed by the reviewer's registered key.
#[utoipa::path(
    post, path = "/vcap/v1/reviews/{id}/decision", tag = "verification",
    operation_id = "decide_review",
    params(("id" = String, Path, description = "The deal's UUID")),
    request_body = VerificationCallback,
    responses((status = 200, description = "Taken", body = CallbackTaken)),
    extensions(("x-codes" = json!([
        "malformed_id", "unknown_deal", "unknown_verification", "bad_message", "not_a_reviewer",
        "reviewers_only", "review_over", "verification_over", "verification_timed_out",
        "unknown_agent", "unknown_verifier", "unknown_verifier_key", "verifier_key_revoked",
        "verifier_key_expired", "verifier_not_independent", "bad_completion_time", "bad_split",
        "proof_missing", "proof_unreadable", "proof_hash_mismatch", "proof_foreign",
        "proof_other_spec", "proof_outcome_mismatch", "proof_field_mismatch",
        "proof_chain_broken", "proof_bad_action", "proof_bad_attachment",
        "proof_content_changed", "proof_foreign_identity", "proof_bad_signature"
    ]))),
)]
pub(super) async fn decide(
    State(api): State<Api>,
    PathId(id): PathId<DealId>,
    JsonBody(raw): JsonBody<Value>,
) -> Result<Json<CallbackTaken>, ApiError> {
    let message = message(&raw)?;
    let verification = message.verification_id;
    if verification.deal() != id {
        return Err(Code::UnknownVerification.into());
    }
    Ok(Json(api.market.review_decide(verification, message, raw).await?))
}
