//! What can be sold (SHP 5): the taxonomy with its schemas.

use axum::Json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skep_base::Timestamp;
use skep_hire::capability::{self, Capability, Entry, Version};
use skep_market::{HireRefusal, Refusal};

use crate::{
    extract::{PathId, Query},
    problem::ApiError,
};

/// A version of a capability's schemas and checks.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct VersionShown {
    name: &'static str,
    #[schema(value_type = String)]
    since: Timestamp,
    /// After this no listing may promise it any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    ends: Option<Timestamp>,
}

impl From<&Version> for VersionShown {
    fn from(version: &Version) -> VersionShown {
        VersionShown { name: version.name, since: version.since, ends: version.ends }
    }
}

/// An entry of the taxonomy.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct CapabilityShown {
    /// Words in braces stand for one word each.
    template: &'static str,
    /// A name that fits.
    example: &'static str,
    family: &'static str,
    title: &'static str,
    description: &'static str,
    versions: Vec<VersionShown>,
}

impl From<&Entry> for CapabilityShown {
    fn from(entry: &Entry) -> CapabilityShown {
        CapabilityShown {
            template: entry.template,
            example: entry.example,
            family: entry.family(),
            title: entry.title,
            description: entry.description,
            versions: entry.versions().iter().map(VersionShown::from).collect(),
        }
    }
}

/// All that everybody knows how to check.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Taxonomy {
    items: Vec<CapabilityShown>,
}

/// List the standard capabilities
///
/// Those with a schema and a check that everybody has. Others are named
/// `custom.<provider>.<capability>`, and their sellers say what goes in and comes out.
#[utoipa::path(
    get, path = "/v1/capabilities", tag = "hire", operation_id = "list_capabilities",
    responses((status = 200, description = "All of them", body = Taxonomy)),
)]
pub(super) async fn list() -> Json<Taxonomy> {
    let items = capability::taxonomy().iter().map(CapabilityShown::from).collect();
    Json(Taxonomy { items })
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SchemaQuery {
    /// `v0` or `v1`; by default the current one.
    version: Option<String>,
}

/// What goes in and what comes out.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct CapabilitySchema {
    capability: String,
    version: String,
    title: &'static str,
    description: &'static str,
    versions: Vec<VersionShown>,
    /// JSON Schema (2020-12) of `params`.
    #[schema(value_type = Object)]
    input: Value,
    /// JSON Schema (2020-12) of `result`.
    #[schema(value_type = Object)]
    output: Value,
}

/// Show a capability's schemas
#[utoipa::path(
    get, path = "/v1/capabilities/{id}/schema", tag = "hire", operation_id = "capability_schema",
    params(
        ("id" = String, Path, description = "Such as text.translate.en.it.fluent"), SchemaQuery
    ),
    responses((status = 200, description = "The schemas", body = CapabilitySchema)),
    extensions(("x-codes" = json!(["malformed_query", "unknown_capability"]))),
)]
pub(super) async fn schema(
    PathId(id): PathId<String>,
    Query(query): Query<SchemaQuery>,
) -> Result<Json<CapabilitySchema>, ApiError> {
    let found = capability::find(&id).and_then(|found| shown(found, query.version));
    let capability = id.chars().take(capability::ID_LEN_MAX).collect();
    let unknown = || Refusal::Hire { reason: HireRefusal::UnknownCapability { capability } };
    Ok(Json(found.ok_or_else(unknown)?))
}

fn shown(found: Capability, version: Option<String>) -> Option<CapabilitySchema> {
    let version = version.unwrap_or_else(|| found.current_version().to_owned());
    Some(CapabilitySchema {
        input: found.input_schema(&version)?,
        output: found.output_schema(&version)?,
        versions: found.versions.iter().map(VersionShown::from).collect(),
        title: found.title,
        description: found.description,
        capability: found.id,
        version,
    })
}
