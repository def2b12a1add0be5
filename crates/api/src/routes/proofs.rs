//! Verdicts as pages, for people who were given the link.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde::Deserialize;
use skep_base::{Hash32, id::VerificationId};
use skep_settle::session_proof::{PNG, bytes_of};

use crate::{
    api::Api,
    code::Code,
    evidence::{Page, proof_sheet},
    extract::{PathId, PathPair, Query},
    problem::ApiError,
};

/// The permission to look.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Link {
    /// As it stands in the verification's `proof_page`.
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
    let found = api.market.proof_attachment(id, &link.token, sha256).await?;
    let bytes = bytes_of(&found).map_err(|e| ApiError::new(Code::Internal, e.to_string()))?;
    // Strangers chose these bytes: a browser may draw a picture and nothing more.
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
