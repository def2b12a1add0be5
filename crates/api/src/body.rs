//! Bodies: read once, whole, and no longer or slower than allowed.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use skep_wire::settle::{CALLBACK_LEN_MAX, DOCUMENT_LEN_MAX};
use tokio::time::{Instant, timeout, timeout_at};

use crate::{code::Code, config::Limits, problem::ApiError};

/// What is read and thrown away of a body that is too large, so that the sender, who may be busy
/// sending, gets to see the answer.
const DISCARD_MAX: usize = 8 * 1024 * 1024;
const DISCARD_TIME: Duration = Duration::from_secs(2);
/// What is set aside for a body before any of it has come.
const RESERVED_MAX: usize = 16 * 1024;

/// How long an action of a browser session may take, from the question to the answer.
const BROWSER_TIME_MAX: Duration = Duration::from_secs(150);

/// The longest message with what was asked and answered in a hire.
const PAYLOAD_LEN_MAX: usize = 16 * 1024 * 1024;

/// The longest publication with a certificate that is checked.
const CERTIFICATE_LEN_MAX: usize = 8 * 1024 * 1024;

/// Deliveries, and proofs with their attachments, may be longer than other messages.
pub(crate) fn limits(path: &str, usual: &Limits) -> Limits {
    let ends = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    let most = match path.starts_with("/vcap/v1/") {
        true if ends(&["/callback", "/decision"]) => CALLBACK_LEN_MAX,
        true if ends(&["/deliveries"]) => DOCUMENT_LEN_MAX,
        _ if path.starts_with("/v1/receipts/") && ends(&["/payload"]) => PAYLOAD_LEN_MAX,
        _ if path == "/v1/swarmscore/verify" => CERTIFICATE_LEN_MAX,
        _ if path == "/v1/swarmscore/import" => DOCUMENT_LEN_MAX,
        // What is typed, or kept as a file, may be long.
        _ if is_session(path) => DOCUMENT_LEN_MAX,
        _ => return *usual,
    };
    // A browser takes its time.
    let request =
        if is_session(path) { usual.request.max(BROWSER_TIME_MAX) } else { usual.request };
    Limits { body_bytes: usual.body_bytes.max(most), request, ..*usual }
}

fn is_session(path: &str) -> bool {
    path.starts_with("/conduit/") || path.starts_with("/gateway/")
}

/// The whole body.
pub(crate) async fn read(mut body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let deadline = Instant::now() + limits.body_total;
    let size = usize::try_from(hyper::body::Body::size_hint(&body).lower()).unwrap_or(usize::MAX);
    if size > limits.body_bytes {
        return Err(too_large(body, limits).await);
    }
    // What was announced may never come; only what came takes up room.
    let mut bytes = BytesMut::with_capacity(size.min(RESERVED_MAX));
    loop {
        let pause = deadline.min(Instant::now() + limits.body_idle);
        let frame = match timeout_at(pause, body.frame()).await {
            Err(_) => return Err(too_slow(limits)),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(error))) => {
                return Err(ApiError::new(Code::BodyBroken, error.to_string()));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limits.body_bytes {
            return Err(too_large(body, limits).await);
        }
        bytes.extend_from_slice(&data);
    }
}

fn too_slow(limits: &Limits) -> ApiError {
    let (idle, total) = (limits.body_idle.as_secs(), limits.body_total.as_secs());
    let detail = format!("a body may pause for {idle} s and take {total} s as a whole");
    ApiError::new(Code::BodyTooSlow, detail)
}

async fn too_large(mut body: Body, limits: &Limits) -> ApiError {
    let discard = async {
        let mut discarded = 0;
        while let (true, Some(Ok(frame))) = (discarded < DISCARD_MAX, body.frame().await) {
            discarded += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // Whether all of it came does not matter: it is refused.
    let _ = timeout(DISCARD_TIME, discard).await;
    let detail = format!("a body may have {} bytes", limits.body_bytes);
    ApiError::new(Code::BodyTooLarge, detail)
}

/// Bodies are JSON, and say so.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_json = |value: &str| {
        let kind = value.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
    };
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(value)), None) if is_json(value) => Ok(()),
        _ => Err(Code::UnsupportedMediaType.into()),
    }
}

/// Reads JSON that has one meaning only; an error names the path to what does not fit.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    Ok(skep_base::json::from_slice(body)?)
}
