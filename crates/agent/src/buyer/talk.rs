//! Words with a seller, through the guarded client: it is a stranger.

use std::time::Duration;

use serde::Deserialize;
use skep_probe::{Egress, EgressError, Request};
use skep_wire::{
    hire::{HireRequest, HireResponse, JobAccepted, JobStatus},
    x402::{PAYABLE, PAYMENT_REQUIRED, PAYMENT_SIGNATURE, Payable, X_PAYMENT, to_header},
};

use super::{demand::Demand, entry::Authorized, error::Refusal};

/// The longest answer that is read, in bytes: a large picture in base64.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The longest error text of a seller that is kept.
const DETAIL_CHARS_MAX: usize = 300;
/// The longest number of a job.
const JOB_ID_LEN_MAX: usize = 128;

/// What a seller said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Done(Box<HireResponse>),
    Working(JobAccepted),
    Pay(Demand),
    /// It may say something else later.
    NotNow(Refusal),
    Never(Refusal),
}

/// The part of an error that any seller may send.
#[derive(Debug, Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    detail: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    retryable: Option<bool>,
}

/// A path at a seller's address.
pub fn at(endpoint: &str, path: &str) -> String {
    format!("{}{path}", endpoint.trim_end_matches('/'))
}

/// A signed message, or one with a payment, as JSON.
pub fn json_post(url: String, body: Vec<u8>) -> Request {
    Request {
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body_max: Some(ANSWER_BYTES_MAX),
        ..Request::post(url, body)
    }
}

/// `POST /hire`, with the payment if there is one, and the node's word on that if it gave one.
pub async fn hire(
    egress: &Egress,
    endpoint: &str,
    hire: &HireRequest,
    (payment, payable): (Option<&Authorized>, Option<&Payable>),
    patience: Duration,
) -> Said {
    let body = serde_json::to_vec(hire).unwrap_or_default();
    let mut request = json_post(at(endpoint, "/hire"), body);
    if let Some(authorized) = payment {
        let name = match authorized.version {
            1 => X_PAYMENT,
            _ => PAYMENT_SIGNATURE,
        };
        request.headers.push((name.to_owned(), to_header(&authorized.payment)));
    }
    if let Some(payable) = payable {
        request.headers.push((PAYABLE.to_owned(), to_header(payable)));
    }
    let (status, header, body) = match fetch(egress, request, patience).await {
        Ok(answer) => answer,
        Err(refusal) => return Said::NotNow(refusal),
    };
    match status {
        200 => match read_done(&body) {
            Ok(response) => Said::Done(response),
            Err(refusal) => Said::NotNow(refusal),
        },
        202 => match skep_base::json::from_slice::<JobAccepted>(&body) {
            Ok(job) if is_job_id(&job.job_id) => Said::Working(job),
            _ => Said::NotNow(Refusal::Garbage("a 202 without a job".to_owned())),
        },
        402 => match Demand::read(header.as_deref(), &body) {
            Some(demand) => Said::Pay(demand),
            None => Said::Never(Refusal::NoTerms),
        },
        status => declined(status, &body),
    }
}

/// `GET /jobs/{id}`. Nothing: it is still at work.
pub async fn job(
    egress: &Egress,
    endpoint: &str,
    job_id: &str,
    patience: Duration,
) -> Option<Said> {
    let url = at(endpoint, &format!("/jobs/{job_id}"));
    let request =
        Request { body_max: Some(ANSWER_BYTES_MAX), follow_redirects: false, ..Request::get(url) };
    let (status, _, body) = match fetch(egress, request, patience).await {
        Ok(answer) => answer,
        Err(refusal) => return Some(Said::NotNow(refusal)),
    };
    if status != 200 {
        return Some(declined(status, &body));
    }
    match skep_base::json::from_slice::<JobStatus>(&body) {
        Ok(status) => job_said(status),
        Err(error) => Some(Said::NotNow(Refusal::Garbage(short(&error.to_string())))),
    }
}

/// What a job's state means, from wherever it was heard.
pub fn job_said(status: JobStatus) -> Option<Said> {
    match status {
        JobStatus::Pending { .. } => None,
        JobStatus::Complete { response, .. } => Some(Said::Done(response)),
        JobStatus::Failed { error, .. } => Some(Said::Never(Refusal::Declined {
            status: 200,
            code: short(&error.code),
            detail: short(&error.detail),
        })),
    }
}

async fn fetch(
    egress: &Egress,
    request: Request,
    patience: Duration,
) -> Result<(u16, Option<String>, Vec<u8>), Refusal> {
    let answer = tokio::time::timeout(patience, egress.send(request)).await;
    let answer = answer.unwrap_or(Err(EgressError::Timeout { limit: patience }));
    let answer = answer
        .map_err(|error| Refusal::Unreached { code: error.code(), detail: error.to_string() })?;
    let header = answer.headers.get(PAYMENT_REQUIRED).and_then(|value| value.to_str().ok());
    Ok((answer.status, header.map(str::to_owned), answer.body))
}

fn read_done(body: &[u8]) -> Result<Box<HireResponse>, Refusal> {
    // Read strictly: what is hashed must mean one thing only.
    let read = skep_base::json::from_slice::<HireResponse>(body);
    read.map(Box::new).map_err(|error| Refusal::Garbage(short(&error.to_string())))
}

fn declined(status: u16, body: &[u8]) -> Said {
    if (300..400).contains(&status) {
        return Said::Never(Refusal::Redirected);
    }
    let complaint: Complaint = serde_json::from_slice(body).unwrap_or_default();
    let code = complaint.code.or(complaint.error).unwrap_or_else(|| format!("status_{status}"));
    let detail = complaint.detail.unwrap_or_default();
    let refusal = Refusal::Declined { status, code: short(&code), detail: short(&detail) };
    let later = status >= 500 || matches!(status, 408 | 425 | 429);
    match complaint.retryable.unwrap_or(later) {
        true => Said::NotNow(refusal),
        false => Said::Never(refusal),
    }
}

/// A stranger's words, made short and harmless for a terminal.
pub fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect()
}

fn is_job_id(id: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=JOB_ID_LEN_MAX).contains(&id.len()) && id.bytes().all(known)
}
