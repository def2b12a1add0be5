//! Receipts of hires: the seller's side, the buyer's side, and what is kept for those who check
//! later.

use axum::{Json, extract::State, response::Response};
use serde::Serialize;
use skep_base::Timestamp;
use skep_wire::{
    Page,
    hire::{CounterSignature, CounterSigned, HirePayload, Receipt, ReceiptAccepted, StoredReceipt},
    http_signature::KeyId,
};

use super::{CURSOR_LEN_MAX, PageQuery, page_len, with_score};
use crate::{
    api::Api,
    code::Code,
    extract::{JsonBody, MaybeSigned, PathId, Query},
    problem::ApiError,
};

/// Submit a receipt
///
/// Signed by the seller's wallet. It must agree with the payment that was settled, which has one
/// receipt only. The same receipt again gets the same answer; its rating token is given only to a
/// request that the seller has signed as well.
#[utoipa::path(
    post, path = "/v1/receipts", tag = "hire", operation_id = "submit_receipt",
    request_body = Receipt,
    responses((status = 200, description = "Taken", body = ReceiptAccepted)),
    extensions(("x-codes" = json!([
        "bad_wallet_signature", "bad_protocol_version", "bad_hire_id", "bad_receipt", "self_hire",
        "receipt_not_fresh", "unknown_listing", "wrong_payee", "unknown_payment",
        "payment_mismatch", "bad_free_call", "free_call_used", "payment_used",
        "duplicate_hire_id", "unknown_escrow", "not_your_escrow", "wrong_result",
        "escrow_delivered", "escrow_over", "delivered_too_late"
    ]))),
)]
pub(super) async fn submit(
    State(api): State<Api>,
    MaybeSigned { by, value: receipt }: MaybeSigned<Receipt>,
) -> Result<Json<ReceiptAccepted>, ApiError> {
    Ok(Json(api.market.submit_receipt(receipt, by).await?))
}

/// Show a receipt
///
/// With what seller and buyer found, each with its signature.
#[utoipa::path(
    get, path = "/v1/receipts/{id}", tag = "hire", operation_id = "show_receipt",
    params(("id" = String, Path, description = "The hire_id")),
    responses((status = 200, description = "The receipt", body = StoredReceipt)),
    extensions(("x-codes" = json!(["bad_hire_id", "unknown_receipt"]))),
)]
pub(super) async fn show(
    State(api): State<Api>,
    PathId(id): PathId<String>,
) -> Result<Json<StoredReceipt>, ApiError> {
    Ok(Json(api.market.receipt(&id).await?))
}

/// Counter-sign a receipt
///
/// Signed by the buyer's wallet, once. A check that failed is a dispute, whatever else is said.
#[utoipa::path(
    post, path = "/v1/receipts/{id}/countersign", tag = "hire", operation_id = "countersign",
    params(("id" = String, Path, description = "The hire_id")),
    request_body = CounterSignature,
    responses((status = 200, description = "Taken", body = CounterSigned)),
    extensions(("x-codes" = json!([
        "bad_wallet_signature", "bad_hire_id", "bad_receipt", "unknown_receipt",
        "wrong_receipt_hash", "not_the_buyer", "already_countersigned"
    ]))),
)]
pub(super) async fn countersign(
    State(api): State<Api>,
    PathId(id): PathId<String>,
    MaybeSigned { by, value: word }: MaybeSigned<CounterSignature>,
) -> Result<Json<CounterSigned>, ApiError> {
    if word.hire_id != id {
        let detail = format!("the message is about {:?}", word.hire_id);
        return Err(ApiError::new(Code::WrongShape, detail));
    }
    Ok(Json(api.market.countersign(word, by).await?))
}

/// A payload that is kept.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PayloadKept {
    ok: bool,
    receipt_id: String,
    #[schema(value_type = String)]
    kept_until: Timestamp,
}

/// Leave what was asked and answered
///
/// Up to 16 MiB, for hires in escrow and for listings with `audit_participating`. It must have the
/// hashes of the receipt. It is kept encrypted for 30 days, for those who check.
#[utoipa::path(
    post, path = "/v1/receipts/{id}/payload", tag = "hire", operation_id = "submit_payload",
    params(("id" = String, Path, description = "The hire_id")),
    request_body = HirePayload,
    responses((status = 200, description = "Kept", body = PayloadKept)),
    extensions(("x-codes" = json!([
        "bad_hire_id", "unknown_receipt", "no_payload_wanted", "payload_mismatch"
    ]))),
)]
pub(super) async fn payload(
    State(api): State<Api>,
    PathId(id): PathId<String>,
    JsonBody(payload): JsonBody<HirePayload>,
) -> Result<Json<PayloadKept>, ApiError> {
    let kept_until = api.market.keep_payload(&id, payload).await?;
    Ok(Json(PayloadKept { ok: true, receipt_id: id, kept_until }))
}

/// List an agent's receipts
///
/// As seller and as buyer, newest first.
#[utoipa::path(
    get, path = "/v1/agents/{id}/receipts", tag = "hire", operation_id = "receipts_of_agent",
    params(("id" = String, Path, description = "The agent's address or its DID"), PageQuery),
    responses((status = 200, description = "A page", body = Page<StoredReceipt>)),
    extensions(("x-codes" = json!([
        "malformed_id", "malformed_query", "malformed_cursor", "unknown_agent"
    ]))),
)]
pub(super) async fn of_agent(
    State(api): State<Api>,
    PathId(name): PathId<KeyId>,
    Query(query): Query<PageQuery>,
) -> Result<Response, ApiError> {
    let agent = api.agent_id(&name).await?;
    // A hire_id stands in the cursor, and may be as long as a cursor may.
    if query.cursor.as_ref().is_some_and(|cursor| cursor.len() > 2 * CURSOR_LEN_MAX) {
        return Err(Code::MalformedCursor.into());
    }
    let limit = page_len(query.limit)?;
    let page = api.market.receipts_of(&agent, query.cursor.as_deref(), limit).await?;
    Ok(with_score(&api, &agent, Json(page)).await)
}
