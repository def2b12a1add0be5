//! Verdicts and sessions as pages, for people who were given the link.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde::Deserialize;
use skep_base::{
    Hash32,
    id::{SessionId, VerificationId},
};
use skep_settle::session_proof::PNG;
use skep_wire::settle::Attachment;

use crate::{
    api::Api,
    code::Code,
    evidence::{Page, proof_sheet, session_page},
    extract::{PathId, PathPair, Query},
    problem::ApiError,
};

/// The permission to look.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Link {
    /// As it stands in `proof_page`.
    token: String,
}

/// Look at a verdict
///
/// A page for people. Those who may read the verification get its address as `proof_page`; whoever
/// has the address may look.
#[utoipa::path(
    get, path = "/proofs/{id}", tag = "verification", operation_id = "proof_page",
    params(("id" = String, Path, description = "The verification's UUID"), Link),
    responses((status = 200, description = "HTML", body = String, content_type = "text/html")),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_deal"]))),
)]
pub(super) async fn page(
    State(api): State<Api>,
    PathId(id): PathId<VerificationId>,
    Query(link): Query<Link>,
) -> Result<Page, ApiError> {
    let view = api.market.proof_view(id, &link.token).await?;
    let attachments =
        |sha256: &Hash32| format!("/proofs/{id}/attachments/{sha256}?token={}", link.token);
    Ok(Page(proof_sheet(&view, &attachments)))
}

/// Fetch what a verdict names by its hash
///
/// Pictures are shown; everything else is a file to keep.
#[utoipa::path(
    get, path = "/proofs/{id}/attachments/{sha256}", tag = "verification",
    operation_id = "proof_attachment",
    params(
        ("id" = String, Path, description = "The verification's UUID"),
        ("sha256" = String, Path, description = "64 lower-case hex digits"),
        Link,
    ),
    responses((status = 200, description = "The bytes", body = String, content_type = "image/png")),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_deal"]))),
)]
pub(super) async fn attachment(
    State(api): State<Api>,
    PathPair(id, sha256): PathPair<VerificationId, Hash32>,
    Query(link): Query<Link>,
) -> Result<Response, ApiError> {
    served(&api.market.proof_attachment(id, &link.token, sha256).await?)
}

/// Look at a browser session
///
/// A page for people. The session's agent gets its address as `proof_page`; whoever has the
/// address may look.
#[utoipa::path(
    get, path = "/sessions/{id}", tag = "sessions", operation_id = "session_page",
    params(("id" = String, Path, description = "`sess_…`"), Link),
    responses((status = 200, description = "HTML", body = String, content_type = "text/html")),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_session"]))),
)]
pub(super) async fn session(
    State(api): State<Api>,
    PathId(id): PathId<SessionId>,
    Query(link): Query<Link>,
) -> Result<Page, ApiError> {
    let proof = api.market.session_view(id, &link.token).await?;
    let attachments =
        |sha256: &Hash32| format!("/sessions/{id}/attachments/{sha256}?token={}", link.token);
    let page = session_page(&proof, &attachments);
    page.map(Page).ok_or_else(|| ApiError::new(Code::Internal, "the proof is unreadable"))
}

/// Fetch a picture or file of a browser session
///
/// Pictures are shown; everything else is a file to keep.
#[utoipa::path(
    get, path = "/sessions/{id}/attachments/{sha256}", tag = "sessions",
    operation_id = "session_attachment",
    params(
        ("id" = String, Path, description = "`sess_…`"),
        ("sha256" = String, Path, description = "64 lower-case hex digits"),
        Link,
    ),
    responses((status = 200, description = "The bytes", body = String, content_type = "image/png")),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_session"]))),
)]
pub(super) async fn session_attachment(
    State(api): State<Api>,
    PathPair(id, sha256): PathPair<SessionId, Hash32>,
    Query(link): Query<Link>,
) -> Result<Response, ApiError> {
    let proof = api.market.session_view(id, &link.token).await?;
    let found = proof.attachments.iter().find(|attachment| attachment.sha256 == sha256);
    let unknown = || ApiError::new(Code::UnknownSession, "the session has no such attachment");
    served(found.ok_or_else(unknown)?)
}

/// Strangers chose these bytes: a browser may draw a picture and nothing more.
fn served(found: &Attachment) -> Result<Response, ApiError> {
    let changed = || ApiError::new(Code::Internal, "the attachment is not what its hash says");
    let bytes = found.bytes().ok_or_else(changed)?;
    let (kind, place) = match found.media_type.as_str() {
        PNG => (PNG, "inline"),
        _ => ("text/plain; charset=utf-8", "attachment"),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static(place)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
        ),
    ];
    Ok((headers, bytes).into_response())
}
