//! The interface describes itself: for programs as OpenAPI, for people as a page made from it.

mod example;
mod page;
mod problems;

use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, header};
use serde_json::{Value, json};
use skep_base::hash::sha256;
use utoipa::openapi::OpenApi;

pub(crate) use problems::problem_page;

/// The look of every page, light and dark.
const STYLE: &str = include_str!("docs/style.css");

/// Made once, when the node starts.
#[derive(Clone, Debug)]
pub(crate) struct Documents {
    pub(crate) openapi: Bytes,
    pub(crate) page: Bytes,
}

impl Documents {
    pub(crate) fn new(description: OpenApi) -> Documents {
        let document = complete(description);
        let mut openapi = serde_json::to_vec_pretty(&document).unwrap_or_default();
        openapi.push(b'\n');
        Documents { openapi: openapi.into(), page: page::render(&document).into() }
    }
}

/// A page without scripts and without anything from elsewhere.
#[derive(Debug)]
pub(crate) struct Html(pub(crate) Bytes);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        // The one style is allowed by its hash, and nothing else is.
        let hash = STANDARD.encode(sha256(STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        let policy =
            HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
        (headers, self.0).into_response()
    }
}

const OF_EVERY: &[&str] = &["rate_limited", "request_timeout", "internal", "unavailable"];
const OF_BODIES: &[&str] = &[
    "malformed_json",
    "duplicate_key",
    "number_too_large",
    "too_deep",
    "wrong_shape",
    "unsupported_media_type",
    "body_too_large",
    "body_too_slow",
    "body_broken",
];
const OF_SIGNED: &[&str] = &[
    "signature_missing",
    "signature_malformed",
    "signature_not_covered",
    "signature_expired",
    "signature_not_yet_valid",
    "signature_lifetime_too_long",
    "wrong_audience",
    "digest_mismatch",
    "unknown_key",
    "bad_signature",
    "malformed_idempotency_key",
];
const OF_SIGNED_WRITES: &[&str] =
    &["key_not_current", "nonce_reused", "idempotency_key_reused", "outcome_unknown"];

/// Adds what is the same for many endpoints: how they fail, and how they are signed.
fn complete(description: OpenApi) -> Value {
    let mut document = serde_json::to_value(description).unwrap_or_default();
    let problem = json!({
        "description": "A problem: its `code` is stable, its `detail` says what to do next.",
        "content": { "application/problem+json": {
            "schema": { "$ref": "#/components/schemas/Problem" }
        }},
    });
    let scheme = json!({
        "type": "apiKey", "in": "header", "name": "Signature",
        "description": "RFC 9421 with Ed25519; see the beginning of this description.",
    });
    let components = &mut document["components"];
    components["responses"] = json!({ "Problem": problem });
    components["securitySchemes"] = json!({ "http_signature": scheme });
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (_, item) in paths {
        let operations = item.as_object_mut().into_iter().flatten();
        for (method, operation) in operations {
            complete_operation(method, operation);
        }
    }
    document
}

fn complete_operation(method: &str, operation: &mut Value) {
    if operation.get("responses").is_none() {
        return;
    }
    let is_signed = operation.get("security").is_some();
    let mut codes: Vec<Value> = operation["x-codes"].as_array().cloned().unwrap_or_default();
    let groups = [
        (operation.get("requestBody").is_some(), OF_BODIES),
        (is_signed, OF_SIGNED),
        (is_signed && method == "post", OF_SIGNED_WRITES),
        (true, OF_EVERY),
    ];
    for (_, group) in groups.iter().filter(|(applies, _)| *applies) {
        codes.extend(group.iter().map(|code| json!(code)));
    }
    operation["x-codes"] = Value::Array(codes);
    operation["responses"]["default"] = json!({ "$ref": "#/components/responses/Problem" });
    if is_signed && method == "post" {
        let header = json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "1 to 128 visible ASCII characters; kept for 24 hours.",
            "schema": { "type": "string" },
        });
        match operation["parameters"].as_array_mut() {
            Some(parameters) => parameters.push(header),
            None => operation["parameters"] = json!([header]),
        }
    }
}

/// Text as HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The two bits of Markdown that descriptions use: paragraphs and `code`.
fn prose(text: &str) -> String {
    let paragraph = |text: &str| {
        let escaped = escape(text);
        let mut html = String::new();
        for (nth, part) in escaped.split('`').enumerate() {
            match nth % 2 {
                0 => html.push_str(part),
                _ => html.push_str(&format!("<code>{part}</code>")),
            }
        }
        format!("<p>{html}</p>")
    };
    text.split("\n\n").map(paragraph).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn document() -> Value {
        complete(crate::routes::router().split_for_parts().1)
    }

    #[test]
    fn it_is_openapi_3_1_with_known_codes() {
        let document = document();
        assert_eq!(document["openapi"], "3.1.0");
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                for code in operation["x-codes"].as_array().unwrap() {
                    let name = code.as_str().unwrap();
                    assert!(Code::find(name).is_some(), "{method} {path}: {name}");
                }
            }
        }
    }

    #[test]
    fn the_page_has_every_path_and_every_code() {
        let document = document();
        let page = page::render(&document);
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("<code class=\"path\">{}</code>", escape(path))));
        }
        for code in Code::ALL {
            assert!(page.contains(&format!("id=\"{}\"", code.name())), "{}", code.name());
        }
        assert!(!page.contains("<script") && !page.contains("src=\"http"));
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"#/").skip(1) {
            let pointer = format!("/{}", reference.split('"').next().unwrap());
            assert!(document.pointer(&pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn prose_is_escaped() {
        assert_eq!(prose("a `<b>`\n\nc"), "<p>a <code>&lt;b&gt;</code></p><p>c</p>");
    }
}
