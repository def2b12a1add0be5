//! Pages about the interface itself.

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use http::header;

use crate::{
    api::Api,
    code::Code,
    docs::{self, Html},
    extract::PathId,
    problem::ApiError,
};

/// The dashboard's place.
pub(super) async fn home() -> Redirect {
    Redirect::temporary("/docs")
}

/// This description
#[utoipa::path(
    get, path = "/openapi.json", tag = "operations", operation_id = "openapi",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
)]
pub(super) async fn openapi(State(api): State<Api>) -> Response {
    let body = api.documents.openapi.clone();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// This description, to be read
#[utoipa::path(
    get, path = "/docs", tag = "operations", operation_id = "docs",
    responses((status = 200, description = "HTML", body = String, content_type = "text/html")),
)]
pub(super) async fn docs(State(api): State<Api>) -> Html {
    Html(api.documents.page.clone())
}

/// What a problem's code means
#[utoipa::path(
    get, path = "/problems/{code}", tag = "operations", operation_id = "problem",
    params(("code" = String, Path, description = "The `code` of a problem")),
    responses((status = 200, description = "HTML", body = String, content_type = "text/html")),
    extensions(("x-codes" = json!(["not_found"]))),
)]
pub(super) async fn problem(PathId(name): PathId<String>) -> Result<Html, ApiError> {
    let code = Code::find(&name).ok_or_else(|| {
        ApiError::new(Code::NotFound, format!("there is no problem code {name:?}; see /docs"))
    })?;
    Ok(Html(docs::problem_page(code).into()))
}
