//! What is asked of a delivery, read and judged before anything is fetched.
//!
//! A criterion that cannot be understood is an error of whoever wrote the terms, so it must come
//! to light whatever the work is like: it ends in ERROR, never in FAILED (decision 33). Fields of
//! `custom` that no engine here knows are ignored, as VCAP 11.1 wants it.

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use skep_base::Hash32;
use skep_wire::settle::VerificationSpec;

use super::{html, json, record::Stop, schema::Schema};

/// The longest selector, in bytes.
const SELECTOR_LEN_MAX: usize = 1024;
/// The most headers of an API request.
const HEADERS_MAX: usize = 16;

/// `custom`, as the three engines understand it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Custom {
    /// The HTTP status that is wanted; any 2xx if nothing is said.
    pub(crate) status: Option<u16>,
    json_schema: Option<Value>,
    /// The JSON value that the document, or the one that the path finds, must be.
    #[serde(deserialize_with = "present")]
    pub(crate) equals: Option<Value>,
    method: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(deserialize_with = "present")]
    body: Option<Value>,
    /// The artifact that the checks are for, from 0.
    pub(crate) index: Option<usize>,
    pub(crate) sha256: Option<Hash32>,
    pub(crate) size_min: Option<u64>,
    pub(crate) size_max: Option<u64>,
    pub(crate) media_type: Option<String>,
}

/// A `null` is a value too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// How a part of the work is found.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    JsonPath(String),
    Css(String),
}

/// Everything that is asked.
#[derive(Debug, Default)]
pub(crate) struct Criteria {
    pub(crate) selection: Option<Selection>,
    pub(crate) expected_content: Option<String>,
    pub(crate) schema: Option<Schema>,
    pub(crate) custom: Custom,
}

impl Criteria {
    pub(crate) fn prepare(spec: &VerificationSpec) -> Result<Criteria, Stop> {
        let custom = match &spec.custom {
            None | Some(Value::Null) => Custom::default(),
            // A list would be read as the fields in their order.
            Some(custom @ Value::Object(_)) => Custom::deserialize(custom).map_err(bad_custom)?,
            Some(_) => return Err(bad_custom("it is no object")),
        };
        Ok(Criteria {
            selection: spec.selector.as_deref().map(Selection::parse).transpose()?,
            expected_content: spec.expected_content.clone(),
            schema: custom.json_schema.as_ref().map(Schema::compile).transpose()?,
            custom,
        })
    }

    /// Whether the document has to be JSON.
    pub(crate) fn wants_json(&self) -> bool {
        self.schema.is_some() || self.custom.equals.is_some()
    }

    /// Whether anything is asked of what was extracted.
    pub(crate) fn has_checks(&self) -> bool {
        self.wants_json() || self.expected_content.is_some()
    }
}

impl Selection {
    /// Decision 33: what begins with `$` is a JSONPath, everything else a CSS selector.
    pub(crate) fn parse(selector: &str) -> Result<Selection, Stop> {
        if selector.len() > SELECTOR_LEN_MAX {
            let reason = format!("the selector is longer than {SELECTOR_LEN_MAX} bytes");
            return Err(Stop::error("bad_selector", reason));
        }
        let trimmed = selector.trim();
        if trimmed.starts_with('$') {
            json::parse_path(trimmed)?;
            Ok(Selection::JsonPath(trimmed.to_owned()))
        } else {
            html::parse_selector(trimmed)?;
            Ok(Selection::Css(trimmed.to_owned()))
        }
    }
}

/// How an API is asked.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Custom {
    /// The request that these parameters describe. Only headers that carry no credential and
    /// steer no connection may be set: the terms are no place for a password.
    pub(crate) fn call(&self) -> Result<Call, Stop> {
        let method = match self.method.as_deref().map(str::to_ascii_uppercase).as_deref() {
            None | Some("GET") => Method::GET,
            Some("POST") => Method::POST,
            Some(other) => return Err(bad_custom(format!("the method {other:?} is not sent"))),
        };
        if self.headers.len() > HEADERS_MAX {
            return Err(bad_custom(format!("there are more than {HEADERS_MAX} headers")));
        }
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let name = name.to_ascii_lowercase();
            if !(matches!(name.as_str(), "accept" | "content-type") || name.starts_with("x-")) {
                return Err(bad_custom(format!("the header {name:?} is not sent")));
            }
            headers.push((name, value.clone()));
        }
        let has = |wanted: &str| headers.iter().any(|(name, _)| name == wanted);
        let mut more = Vec::new();
        if !has("accept") {
            more.push(("accept".to_owned(), "application/json".to_owned()));
        }
        let body = match &self.body {
            Some(_) if method == Method::GET => {
                return Err(bad_custom("a GET has no body".to_owned()));
            }
            Some(body) => {
                if !has("content-type") {
                    more.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                body.to_string().into_bytes()
            }
            None => Vec::new(),
        };
        headers.extend(more);
        Ok(Call { method, headers, body })
    }
}

pub(crate) fn bad_custom(reason: impl std::fmt::Display) -> Stop {
    Stop::error("bad_custom", format!("custom is not understood: {reason}"))
}
