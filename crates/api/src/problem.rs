//! Errors as answers.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use skep_base::json::ParseError;
use skep_wire::{
    http_signature::SignatureError,
    problem::{BenchmarkGap, Problem},
    settle::Tier,
};

use crate::{code::Code, routes::IDEMPOTENT_REPLAYED};

/// The media type of RFC 9457.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A request that ends without what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", code.name())]
pub struct ApiError {
    pub code: Code,
    /// What happened here, and what to do next.
    pub detail: String,
    pub retry_after: Option<Duration>,
    /// The same request was refused before: this is what it heard then.
    pub replayed: bool,
    /// The tier that would allow it, and the caller's own.
    pub tiers: Option<(Tier, Tier)>,
    /// What the provider lacks for a benchmark.
    pub benchmark: Option<BenchmarkGap>,
}

impl ApiError {
    pub fn new(code: Code, detail: impl Into<String>) -> ApiError {
        ApiError {
            code,
            detail: detail.into(),
            retry_after: None,
            replayed: false,
            tiers: None,
            benchmark: None,
        }
    }

    /// As it is told.
    pub(crate) fn problem(&self, request_id: Option<String>) -> Problem {
        Problem {
            kind: format!("/problems/{}", self.code.name()),
            title: self.code.title().to_owned(),
            status: self.code.status().as_u16(),
            code: self.code.name().to_owned(),
            detail: self.detail.clone(),
            retryable: self.code.is_retryable(),
            request_id,
            required_tier: self.tiers.map(|(required, _)| required),
            tier: self.tiers.map(|(_, own)| own),
            benchmark: self.benchmark.clone(),
        }
    }

    /// Writes the problem into an answer, once it is known which request it answers.
    pub(crate) fn write(&self, response: &mut Response, request_id: &str) {
        let problem = self.problem(Some(request_id.to_owned()));
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        *response.body_mut() = body.into();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        headers.remove(header::CONTENT_LENGTH);
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        if self.replayed {
            headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
    }
}

impl From<Code> for ApiError {
    fn from(code: Code) -> ApiError {
        ApiError::new(code, code.explanation())
    }
}

impl IntoResponse for ApiError {
    /// The body comes later: the layer that knows the request's id writes it.
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ParseError> for ApiError {
    fn from(error: ParseError) -> ApiError {
        let code = match &error {
            ParseError::DuplicateKey { .. } => Code::DuplicateKey,
            ParseError::NumberTooLarge { .. } => Code::NumberTooLarge,
            ParseError::TooDeep => Code::TooDeep,
            ParseError::Malformed { .. } => Code::MalformedJson,
            ParseError::WrongShape { reason } => {
                return ApiError::new(Code::WrongShape, reason.clone());
            }
        };
        ApiError::new(code, error.to_string())
    }
}

impl From<SignatureError> for ApiError {
    fn from(error: SignatureError) -> ApiError {
        let code = match &error {
            SignatureError::Missing => Code::SignatureMissing,
            SignatureError::Malformed(_) => Code::SignatureMalformed,
            SignatureError::NotCovered { .. } => Code::SignatureNotCovered,
            SignatureError::Expired { .. } => Code::SignatureExpired,
            SignatureError::NotYetValid { .. } => Code::SignatureNotYetValid,
            SignatureError::LifetimeTooLong { .. } => Code::SignatureLifetimeTooLong,
            SignatureError::WrongAudience { .. } => Code::WrongAudience,
            SignatureError::DigestMismatch => Code::DigestMismatch,
            SignatureError::UnknownKey { .. } => Code::UnknownKey,
            SignatureError::BadSignature { .. } => Code::BadSignature,
        };
        ApiError::new(code, error.to_string())
    }
}
