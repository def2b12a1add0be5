//! 5.2: the shapes of what goes in and what comes out, as JSON Schemas (2020-12).
//!
//! Fields that nobody has named yet are allowed everywhere: a capability may gain optional ones.

mod example;
mod input;
mod output;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

pub(crate) use self::example::example;
use super::{
    Capability,
    taxonomy::{Kind, V0},
};

/// Longer than any file of ten megabytes in base64, in characters.
const BASE64_LEN_MAX: u64 = 13_400_000;
/// Prompts, queries and tasks, in characters.
const PROMPT_LEN_MAX: u64 = 16_384;
/// Texts, in characters.
const TEXT_LEN_MAX: u64 = 262_144;
/// Code, in characters.
const CODE_LEN_MAX: u64 = 65_536;
/// Names, titles and labels, in characters.
const NAME_LEN_MAX: u64 = 512;
/// Addresses, in characters.
const URL_LEN_MAX: u64 = 2048;
/// Formulas, in characters.
pub(super) const FORMULA_LEN_MAX: u64 = 4096;
/// Points, labels, findings and other entries of one list.
const ITEMS_MAX: u64 = 10_000;
/// Numbers of a data set.
const NUMBERS_MAX: u64 = 100_000;
/// The longest side of a picture that can be asked for.
const SIDE_MAX: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Input,
    Output,
}

/// The schema as it is published.
pub(super) fn document(capability: &Capability, version: &str, side: Side) -> Value {
    let strict = version != V0;
    let mut schema = match side {
        Side::Input => input::schema(capability.kind, strict),
        Side::Output => output::schema(capability.kind, capability.slot("format"), strict),
    };
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    let side = if side == Side::Input { "params" } else { "result" };
    schema["title"] = json!(format!("{} {version}: {side}", capability.template));
    schema
}

type Key = (&'static str, String, bool, Side);

/// Compiled once each: there are a few for every entry of the taxonomy and no more.
static COMPILED: RwLock<BTreeMap<Key, Arc<Validator>>> = RwLock::new(BTreeMap::new());

/// Made once each, as the validators are.
static EXAMPLES: RwLock<BTreeMap<Key, Option<Value>>> = RwLock::new(BTreeMap::new());

fn key(capability: &Capability, version: &str, side: Side) -> Key {
    let format = match capability.kind {
        Kind::Weather => capability.slot("format").to_owned(),
        _ => String::new(),
    };
    (capability.template, format, version != V0, side)
}

/// The schema as it is published, and a value that fits it.
pub(super) fn shown(capability: &Capability, version: &str, side: Side) -> (Value, Option<Value>) {
    let (schema, key) = (document(capability, version, side), key(capability, version, side));
    let known = EXAMPLES.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let value = known.unwrap_or_else(|| {
        let made = example(&schema);
        let mut known = EXAMPLES.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(key).or_insert(made).clone()
    });
    (schema, value)
}

fn compiled(capability: &Capability, version: &str, side: Side) -> Arc<Validator> {
    let key = key(capability, version, side);
    let known = COMPILED.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&key) {
        return Arc::clone(known);
    }
    drop(known);
    let schema = document(capability, version, side);
    let made = Arc::new(
        jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(&schema)
            .expect("every schema of the taxonomy compiles: a test goes through all of them"),
    );
    let mut known = COMPILED.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(known.entry(key).or_insert(made))
}

/// What does not fit, each with its place.
pub(super) fn problems(
    capability: &Capability,
    version: &str,
    side: Side,
    value: &Value,
    most: usize,
) -> Vec<String> {
    let validator = compiled(capability, version, side);
    // Most values fit, and to ask that is cheaper than to collect reasons.
    if validator.is_valid(value) {
        return Vec::new();
    }
    let errors = validator.iter_errors(value).take(most);
    errors
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the top".to_owned() } else { place };
            // The value itself may be megabytes long.
            super::findings::short(format!("at {place}: {}", error.masked()))
        })
        .collect()
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

/// A text with a length.
fn text(least: u64, most: u64) -> Value {
    json!({"type": "string", "minLength": least, "maxLength": most})
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

fn integer(least: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

fn number(least: f64, most: f64) -> Value {
    json!({"type": "number", "minimum": least, "maximum": most})
}

fn list(items: Value, least: u64, most: u64) -> Value {
    json!({"type": "array", "items": items, "minItems": least, "maxItems": most})
}

fn base64() -> Value {
    json!({
        "type": "string",
        "minLength": 4,
        "maxLength": BASE64_LEN_MAX,
        "contentEncoding": "base64",
    })
}

fn url() -> Value {
    json!({"type": "string", "pattern": "^https?://", "maxLength": URL_LEN_MAX})
}

/// Texts that stay as long as they must be in v0 and hold at least one thing to read in v1.
fn readable(strict: bool, most: u64) -> Value {
    let mut schema = text(u64::from(strict), most);
    if strict {
        schema["pattern"] = json!("\\S");
    }
    schema
}
