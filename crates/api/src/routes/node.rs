//! What the node says about itself.

use axum::{Json, extract::State};
use skep_wire::notice::NodeKeys;

use crate::api::Api;

/// Show the node's keys
///
/// Each has one use. `webhook` is written as Standard Webhooks wants it: `whpk_` and base64.
#[utoipa::path(
    get, path = "/.well-known/skep-keys", tag = "log", operation_id = "node_keys",
    responses((status = 200, description = "Public keys", body = NodeKeys)),
)]
pub(super) async fn keys(State(api): State<Api>) -> Json<NodeKeys> {
    Json(api.market.node_keys())
}
