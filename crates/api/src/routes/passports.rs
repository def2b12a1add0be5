//! Passports, and certificates that a stranger can check (ATEP, SwarmScore 8.4).

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde::Deserialize;
use skep_wire::score::{CERTIFICATE_SETTLEMENTS_MAX, Certificate, Passport, PublicPassport};

use super::{scores::own, with_score};
use crate::{
    api::Api,
    code::Code,
    extract::{AgentName, Caller, PathId, Query, Signed},
    problem::ApiError,
};

/// Receipts of settlements that are shown without being asked for more.
const SETTLEMENTS_DEFAULT: usize = 25;
/// Fewer would not show what L3 asks for.
const SETTLEMENTS_MIN: usize = 10;
/// The media type of the W3C's Verifiable Credentials 2.0.
const VC_JSON: HeaderValue = HeaderValue::from_static("application/vc");

/// Show an agent its passport
///
/// With what it has paid, the way to the next tier and the evidence of its badges. Signed by the
/// node.
#[utoipa::path(
    get, path = "/agents/{agentId}/passport", tag = "score", operation_id = "passport",
    params(("agentId" = String, Path, description = "Address, DID or passport id")),
    responses((status = 200, description = "The passport", body = Passport)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_agent", "not_yours"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let agent = own(&api, &signed, &name).await?;
    let passport = api.market.passport(&agent).await?;
    Ok(with_score(&api, &agent, Json(passport)).await)
}

/// In which form a passport is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PassportFormat {
    #[default]
    Atep,
    /// A W3C Verifiable Credential 2.0 with a proof by eddsa-jcs-2022.
    Vc,
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FormatQuery {
    /// `atep` or `vc`.
    #[param(inline, default = "atep")]
    format: Option<PassportFormat>,
}

/// Show an agent's passport to everybody
///
/// With the score in `extensions.swarmscore`, if it is published. `format=vc` gives it as a W3C
/// Verifiable Credential.
#[utoipa::path(
    get, path = "/agents/{agentId}/passport/public", tag = "score",
    operation_id = "public_passport",
    params(("agentId" = String, Path, description = "Address, DID or passport id"), FormatQuery),
    responses((status = 200, description = "The passport", body = PublicPassport)),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_agent"]))),
)]
pub(super) async fn public(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    Query(query): Query<FormatQuery>,
) -> Result<Response, ApiError> {
    let agent = api.scored(&name).await?;
    let response = match query.format.unwrap_or_default() {
        PassportFormat::Atep => Json(api.market.public_passport(&agent).await?).into_response(),
        PassportFormat::Vc => {
            let credential = api.market.public_passport_vc(&agent).await?;
            let mut response = Json(credential).into_response();
            response.headers_mut().insert(header::CONTENT_TYPE, VC_JSON);
            response
        }
    };
    Ok(with_score(&api, &agent, response).await)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CertificateQuery {
    /// How many receipts of settlements at most, 10 to 100.
    #[param(default = 25)]
    settlements: Option<usize>,
}

/// Show the evidence of a score
///
/// The publication, the facts that it counts in one chain of hashes, and for the newest of them the
/// gateway's proofs and the receipts of settlements with the verifiers' words. Whoever has it can
/// check it without this node: `skep score verify`.
#[utoipa::path(
    get, path = "/conduit/agents/{agentId}/benchmark-certificate", tag = "score",
    operation_id = "benchmark_certificate",
    params(
        ("agentId" = String, Path, description = "Address, DID or passport id"),
        CertificateQuery,
    ),
    responses((status = 200, description = "The certificate", body = Certificate)),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "unknown_agent", "score_not_published"
    ]))),
)]
pub(super) async fn certificate(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    Query(query): Query<CertificateQuery>,
    Caller(by): Caller,
) -> Result<Response, ApiError> {
    let settlements = query.settlements.unwrap_or(SETTLEMENTS_DEFAULT);
    if !(SETTLEMENTS_MIN..=CERTIFICATE_SETTLEMENTS_MAX).contains(&settlements) {
        let detail = format!("settlements is {SETTLEMENTS_MIN} to {CERTIFICATE_SETTLEMENTS_MAX}");
        return Err(ApiError::new(Code::MalformedQuery, detail));
    }
    let agent = api.scored(&name).await?;
    let certificate = api.market.certificate(&agent, by.as_ref(), settlements).await?;
    Ok(with_score(&api, &agent, Json(certificate)).await)
}
