//! Whether the node lives, can work, and how it does.

use axum::{extract::State, response::IntoResponse};
use http::header;

use crate::{api::Api, code::Code, metrics as counters, problem::ApiError};

/// Whether the process lives
#[utoipa::path(
    get, path = "/healthz", tag = "operations", operation_id = "healthz",
    responses((status = 200, description = "It does", body = String)),
)]
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Whether the node can work
///
/// It asks the database.
#[utoipa::path(
    get, path = "/readyz", tag = "operations", operation_id = "readyz",
    responses((status = 200, description = "It can", body = String)),
)]
pub(super) async fn ready(State(api): State<Api>) -> Result<&'static str, ApiError> {
    match api.market.store().meta("ready").await {
        Ok(_) => Ok("ready\n"),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            Err(Code::Unavailable.into())
        }
    }
}

/// Counters for Prometheus
///
/// With how many deals wait for a reviewer and for how long the oldest has, and which part of the
/// VERIFIED agents hold a benchmark.
#[utoipa::path(
    get, path = "/metrics", tag = "operations", operation_id = "metrics",
    responses((status = 200, description = "Text", body = String)),
)]
pub(super) async fn metrics(State(api): State<Api>) -> impl IntoResponse {
    if let (Ok((waiting, oldest)), Ok(now)) =
        (api.market.reviews_waiting().await, api.market.store().now().await)
    {
        let age = oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64());
        metrics::gauge!("reviews_waiting").set(waiting as f64);
        metrics::gauge!("reviews_oldest_age_s").set(age);
    }
    if let Ok((rate, over_limit)) = api.market.qualification_rate().await {
        metrics::gauge!("score_qualification_rate").set(rate);
        metrics::gauge!("score_qualification_over_limit").set(u8::from(over_limit));
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], counters::render())
}
