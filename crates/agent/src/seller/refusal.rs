//! What a seller says no with: RFC 9457, as nodes do.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use skep_wire::problem::Problem;

/// A refusal with its stable code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: Cow<'static, str>,
    pub(crate) detail: String,
    pub(crate) retry_after_s: Option<u64>,
    /// Where several things are wrong at once.
    pub(crate) errors: Vec<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal {
            status,
            code: Cow::Borrowed(code),
            detail: detail.into(),
            retry_after_s: None,
            errors: Vec::new(),
        }
    }

    pub(crate) fn later(self, seconds: u64) -> Refusal {
        Refusal { retry_after_s: Some(seconds), ..self }
    }

    pub(crate) fn with_errors(self, errors: Vec<String>) -> Refusal {
        Refusal { errors, ..self }
    }

    /// The journal is the seller's memory; without it nothing may be promised.
    pub(crate) fn no_journal(error: &crate::journal::JournalError) -> Refusal {
        tracing::error!(%error, "the journal cannot be written");
        Refusal::new(503, "seller_unavailable", "the seller cannot write its journal").later(5)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        let problem = Problem {
            kind: format!("/problems/{}", self.code),
            title: self.code.replace('_', " "),
            status: self.status,
            code: self.code.into_owned(),
            detail: self.detail,
            retryable: self.retry_after_s.is_some(),
            request_id: None,
            required_tier: None,
            tier: None,
            benchmark: None,
        };
        let mut body = json!(problem);
        if let (Some(object), false) = (body.as_object_mut(), self.errors.is_empty()) {
            object.insert("errors".to_owned(), json!(self.errors));
        }
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
