//! What was taken from a page.

use serde_json::Value;

use super::{
    NotVerifiable, currency,
    findings::Job,
    lookup::{is_time, is_web_url},
    taxonomy::Kind,
};
use crate::schema::{Limits, Schema};

/// A buyer's own schema: strangers send it.
const LIMITS: Limits = Limits { len_max: 8 * 1024, references_max: 0 };
/// What is held against it, in bytes: every part of the one may meet every part of the other.
const DATA_LEN_MAX: usize = 1024 * 1024;
/// `description_short`, in characters.
const SHORT_MAX: usize = 280;

/// data.extract.from-url
pub(super) fn extracted(job: &mut Job<'_>) {
    let (got, asked) = (job.text("url"), job.param("url"));
    let same = got.trim_end_matches('/') == asked.trim_end_matches('/');
    job.check("url_matches", same, || format!("it is about {got:?}"));
    let extracted = &job.result["extracted"];
    let asked: Vec<&str> =
        job.params["fields"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let absent = asked.iter().find(|field| extracted.get(**field).is_none());
    job.check("fields_present", absent.is_none(), || format!("{absent:?} is missing"));
    let fields = extracted.as_object().into_iter().flatten();
    // Only what was asked for is judged; null means that the page did not tell.
    let mut judged =
        fields.filter(|(name, value)| asked.contains(&name.as_str()) && !value.is_null());
    let odd = judged.find(|(name, value)| !is_conventional(name, value));
    job.check("field_conventions", odd.is_none(), || format!("{odd:?} has another form"));
    let time = job.text("extracted_at");
    job.check("extracted_at_is_time", is_time(time), || format!("{time:?} is no time"));
    if job.strict {
        let found = asked.iter().filter(|field| !extracted[**field].is_null()).count();
        job.check("something_found", found > 0, || "every field is null".to_owned());
        let sure = job.number("confidence");
        let honest = found > 0 || sure < 0.5;
        job.check("confidence_honest", honest, || format!("{sure} for nothing"));
    }
}

/// The forms that the taxonomy has fixed for some names.
fn is_conventional(name: &str, value: &Value) -> bool {
    let text = value.as_str();
    match name {
        "price_currency" => text.is_some_and(currency::is_code),
        "price_amount" => value.as_f64().is_some_and(|amount| amount >= 0.0),
        "availability" => {
            text.is_some_and(|word| matches!(word, "in_stock" | "out_of_stock" | "unknown"))
        }
        "description_short" => text.is_some_and(|text| text.chars().count() <= SHORT_MAX),
        "published_at" => text.is_some_and(is_time),
        _ if name.ends_with("_url") => {
            text.is_some_and(|url| url.starts_with("https://") && is_web_url(url))
        }
        _ => true,
    }
}

/// Whether a seller can be held to the schema that came in.
pub(super) fn input_fits(kind: Kind, params: &Value) -> Result<(), String> {
    match &params["schema"] {
        schema if kind == Kind::Scrape && !schema.is_null() => compile(schema).map(drop),
        _ => Ok(()),
    }
}

fn compile(schema: &Value) -> Result<Schema, String> {
    Schema::compile(schema, LIMITS).map_err(|problem| format!("schema: {problem}"))
}

/// data.scrape.json: v0 looks for the fields that the buyer's schema asks for, v1 holds the data
/// against the whole schema.
pub(super) fn scraped(job: &mut Job<'_>) -> Result<(), NotVerifiable> {
    let data = &job.result["data"];
    let schema = &job.params["schema"];
    let empty = match data {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => true,
    };
    if schema.is_null() {
        job.check("not_empty", !empty, || "there is nothing".to_owned());
        return Ok(());
    }
    let length = data.to_string().len();
    let why = || format!("{length} bytes, and {DATA_LEN_MAX} are the limit");
    if !job.check("data_size", length <= DATA_LEN_MAX, why) {
        return Ok(());
    }
    if job.strict {
        let schema = compile(schema).map_err(NotVerifiable)?;
        let problem = schema.problems(data).into_iter().next();
        job.take("fits_the_schema", problem.map_or(Ok(()), Err));
        return Ok(());
    }
    // Either a schema or a plain sketch of the fields.
    let names: Vec<&str> = match (&schema["required"], &schema["properties"], schema.as_object()) {
        (Value::Array(required), ..) => required.iter().filter_map(Value::as_str).collect(),
        (_, Value::Object(properties), _) => properties.keys().map(String::as_str).collect(),
        (.., Some(sketch)) => {
            sketch.keys().map(String::as_str).filter(|key| !is_keyword(key)).collect()
        }
        _ => Vec::new(),
    };
    let absent = match data {
        Value::Array(items) => {
            names.iter().find(|name| items.iter().any(|item| item.get(**name).is_none()))
        }
        _ => names.iter().find(|name| data.get(**name).is_none()),
    };
    job.check("fields_present", absent.is_none(), || format!("{absent:?} is missing"));
    job.check("not_empty", !empty, || "there is nothing".to_owned());
    Ok(())
}

fn is_keyword(key: &str) -> bool {
    key.starts_with('$') || matches!(key, "type" | "items" | "title" | "description")
}
