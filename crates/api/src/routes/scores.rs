//! Scores: published, checked, taken elsewhere and brought from there (SwarmScore 7, 8, 10).

use axum::{Json, extract::State, response::Response};
use http::StatusCode;
use serde::Deserialize;
use skep_wire::{
    Page,
    score::{
        BenchmarkEvent, Export, ImportAnswer, ImportRequest, KeySet, Profile, Publication,
        ScoreView, TrustRegistry, VerifyAnswer, VerifyRequest,
    },
};

use super::{answered, page_len, with_score};
use crate::{
    api::Api,
    code::Code,
    extract::{AgentName, Caller, JsonBody, PathId, Query, Signed},
    problem::ApiError,
};

/// Show an agent's score
///
/// Signed by the node, valid for 24 hours, and the same for everybody. An agent with fewer than ten
/// sessions has one that only the agent itself sees, by a signed request.
#[utoipa::path(
    get, path = "/v1/swarmscore/{agentId}", tag = "score", operation_id = "swarmscore",
    params(("agentId" = String, Path, description = "Address, DID or passport id")),
    responses((status = 200, description = "The publication", body = Publication, headers(
        ("X-SwarmScore" = u16, description = "The score"),
        ("X-SwarmScore-Tier" = String, description = "NONE, STANDARD or ELITE"),
        ("X-SwarmScore-Escrow-Modifier" = f64, description = "The part of a price that the score \
            alone asks to be held"),
        ("X-SwarmScore-Effective-Modifier" = f64, description = "The part that is really held"),
    ))),
    extensions(("x-codes" = json!(["malformed_id", "unknown_agent", "score_not_published"]))),
)]
pub(super) async fn publication(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    Caller(by): Caller,
) -> Result<Response, ApiError> {
    let agent = api.scored(&name).await?;
    let publication = api.market.publication(&agent, by.as_ref()).await?;
    Ok(with_score(&api, &agent, Json(&*publication)).await)
}

/// Show what is known of an agent
///
/// The publication with the way to the next tier, badges and what became of the benchmark.
#[utoipa::path(
    get, path = "/v1/agents/{id}/score", tag = "score", operation_id = "score_of_agent",
    params(("id" = String, Path, description = "Address, DID or passport id")),
    responses((status = 200, description = "All of it", body = ScoreView)),
    extensions(("x-codes" = json!(["malformed_id", "unknown_agent", "score_not_published"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    Caller(by): Caller,
) -> Result<Response, ApiError> {
    let agent = api.scored(&name).await?;
    let view = api.market.score_view(&agent, by.as_ref()).await?;
    Ok(with_score(&api, &agent, Json(view)).await)
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryQuery {
    /// 1 to 100.
    #[param(default = 50)]
    limit: Option<usize>,
}

/// List what became of an agent's benchmark
///
/// The newest first, about 500 of them. The event log has all of it, as `benchmark.changed`.
#[utoipa::path(
    get, path = "/v1/swarmscore/{agentId}/history", tag = "score",
    operation_id = "benchmark_history",
    params(("agentId" = String, Path, description = "Address, DID or passport id"), HistoryQuery),
    responses((status = 200, description = "The newest", body = Page<BenchmarkEvent>)),
    extensions(("x-codes" = json!(["malformed_id", "malformed_query", "unknown_agent"]))),
)]
pub(super) async fn history(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    Query(query): Query<HistoryQuery>,
) -> Result<Response, ApiError> {
    let agent = api.scored(&name).await?;
    let items = api.market.benchmark_history(&agent, page_len(query.limit)?).await?;
    Ok(with_score(&api, &agent, Json(Page { items, next_cursor: None })).await)
}

/// Check a publication
///
/// L1: the signature, by this node's keys or those of an issuer in the trust registry. L2: every
/// number follows from the stated inputs. L3, if a certificate comes with it: the inputs are backed
/// by evidence. `failed_checks` names whatever does not hold. `skep score verify` does the same
/// without asking anybody.
#[utoipa::path(
    post, path = "/v1/swarmscore/verify", tag = "score", operation_id = "verify_swarmscore",
    request_body = VerifyRequest,
    responses((status = 200, description = "What holds and what does not", body = VerifyAnswer)),
)]
pub(super) async fn verify(
    State(api): State<Api>,
    JsonBody(request): JsonBody<VerifyRequest>,
) -> Result<Json<VerifyAnswer>, ApiError> {
    Ok(Json(api.market.verify_publication(request).await?))
}

/// Export an agent's record
///
/// Publication and passport, both signed, with what was counted here and nothing else. Only the
/// agent itself gets it.
#[utoipa::path(
    get, path = "/v1/swarmscore/export/{agentId}", tag = "score", operation_id = "export_score",
    params(("agentId" = String, Path, description = "Address, DID or passport id")),
    responses((status = 200, description = "For the other platform", body = Export)),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!(["malformed_id", "unknown_agent", "not_yours"]))),
)]
pub(super) async fn export(
    State(api): State<Api>,
    PathId(name): PathId<AgentName>,
    signed: Signed,
) -> Result<Response, ApiError> {
    let agent = own(&api, &signed, &name).await?;
    let export = api.market.export_score(&agent).await?;
    Ok(with_score(&api, &agent, Json(export)).await)
}

/// Import a record from another platform
///
/// What its issuer has signed about the agent that signs this request. Half of its sessions count
/// beside those here once the probation is over, for 90 days from when they were published; the
/// local score never changes by it. Each publication can be brought once, and whoever brings a
/// record first is the only one that may bring newer ones of it.
#[utoipa::path(
    post, path = "/v1/swarmscore/import", tag = "score", operation_id = "import_score",
    request_body = ImportRequest,
    responses(
        (status = 201, description = "It counts", body = ImportAnswer),
        (status = 200, description = "There is no agreement with its issuer: nothing counts. \
            Where `noted` is true, its tier is shown as unverified", body = ImportAnswer),
    ),
    security(("http_signature" = [])),
    extensions(("x-codes" = json!([
        "import_unreadable", "issuer_unreachable", "agreement_changed", "import_bad_publication",
        "import_bad_passport", "import_other_passport", "import_other_agent", "import_taken",
        "import_revoked", "import_disputed", "import_too_young", "import_own_export",
        "import_repeated", "import_older"
    ]))),
)]
pub(super) async fn import(State(api): State<Api>, signed: Signed) -> Result<Response, ApiError> {
    let request: ImportRequest = signed.json()?;
    let imported = api.market.import_score(&signed.by, request).await?;
    let status = if imported.value.accepted { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answered(status, imported))
}

/// List the issuers whose exports count here
#[utoipa::path(
    get, path = "/v1/swarmscore/trust-registry", tag = "score", operation_id = "trust_registry",
    responses((status = 200, description = "All of them", body = TrustRegistry)),
)]
pub(super) async fn trust_registry(
    State(api): State<Api>,
) -> Result<Json<TrustRegistry>, ApiError> {
    Ok(Json(api.market.trust_registry().await?))
}

/// List the keys that scores, receipts and session proofs are signed with
///
/// Old ones too: what they signed can still be checked.
#[utoipa::path(
    get, path = "/.well-known/swarmscore-keys", tag = "score", operation_id = "swarmscore_keys",
    responses((status = 200, description = "Public keys", body = KeySet)),
)]
pub(super) async fn keys(State(api): State<Api>) -> Result<Json<KeySet>, ApiError> {
    Ok(Json(api.market.score_keys().await?))
}

/// Describe SwarmScore as a profile of ATEP
#[utoipa::path(
    get, path = "/.well-known/swarmscore-profile", tag = "score",
    operation_id = "swarmscore_profile",
    responses((status = 200, description = "The profile and its badges", body = Profile)),
)]
pub(super) async fn profile() -> Json<Profile> {
    Json(Profile::swarmscore())
}

/// The agent that is named, if it has signed.
pub(super) async fn own(
    api: &Api,
    signed: &Signed,
    name: &AgentName,
) -> Result<skep_base::AgentId, ApiError> {
    let agent = api.scored(name).await?;
    if agent == signed.by.agent {
        return Ok(agent);
    }
    let detail = format!("{} may not see what belongs to {name}", signed.by.agent);
    Err(ApiError::new(Code::NotYours, detail))
}
