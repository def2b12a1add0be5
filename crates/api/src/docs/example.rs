//! Examples made from schemas, with values that look like the real ones.

use serde_json::{Map, Value, json};

/// Schemas that name themselves end here.
const DEPTH_MAX: usize = 8;

const ADDRESS: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
const DID: &str = "did:swarm:8fc5f4a2b0f3a7c1d9e8b6a5f4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5";
const KEY: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";
const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const TIME: &str = "2026-11-15T12:00:00.000Z";
const TRANSFER: &str = "tr_01aryz6s41tsv4rrffq69g5fav";
const EVENT: &str = "evt_01aryz6s41tsv4rrffq69g5fav";
const WEBHOOK_KEY: &str = "whpk_6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";

/// A value that fits the schema.
pub(super) fn of(document: &Value, schema: &Value) -> Value {
    value(document, schema, "", 0)
}

fn value(document: &Value, schema: &Value, name: &str, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return Value::Null;
    }
    if let Some(target) = reference(document, schema) {
        return value(document, target, name, depth + 1);
    }
    if let Some(example) = schema.get("example").or_else(|| schema.get("default")) {
        return example.clone();
    }
    if let Some(first) = schema["enum"].as_array().and_then(|words| words.first()) {
        return first.clone();
    }
    if let Some(all) = schema["allOf"].as_array() {
        let parts = all.iter().map(|part| value(document, part, name, depth + 1));
        let merged = parts.filter_map(|part| part.as_object().cloned()).flatten();
        return Value::Object(merged.collect());
    }
    for choice in ["oneOf", "anyOf"] {
        let mut choices = schema[choice].as_array().into_iter().flatten();
        if let Some(first) = choices.find(|one| one["type"] != "null") {
            return value(document, first, name, depth + 1);
        }
    }
    match kind(schema) {
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let fields = properties
                .map(|(name, field)| (name.clone(), value(document, field, name, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        "array" => json!([value(document, &schema["items"], name, depth + 1)]),
        "integer" | "number" => json!(1),
        "boolean" => json!(true),
        "string" => json!(word(name)),
        _ => json!({}),
    }
}

/// What `$ref` leads to.
pub(super) fn reference<'a>(document: &'a Value, schema: &Value) -> Option<&'a Value> {
    document.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

/// The type; of several, the one that is not null.
pub(super) fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::String(kind) => kind,
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("any")
        }
        _ => "any",
    }
}

fn word(name: &str) -> &'static str {
    match name {
        "agent_id" | "to" => ADDRESS,
        "did" | "operator" => DID,
        "public_key" | "recovery_key" | "current_key" | "old_key" | "new_key" | "key" => KEY,
        "log" | "settlement" => KEY,
        "webhook" => WEBHOOK_KEY,
        "event_id" => EVENT,
        "hash" | "webhook_hash" => HASH,
        "id" | "pending" => TRANSFER,
        "from" => "wallet:0x7099…79c8:USDC",
        "wallet_signature" => "0x5b1c…1b",
        "webhook_url" => "https://agent.example/notices",
        "next_cursor" => "42",
        "asset" => "USDC",
        "name" => "Ada",
        "at" | "since" => TIME,
        _ if name.ends_with("_at") || name.ends_with("_since") || name.ends_with("_until") => TIME,
        _ if name.ends_with("signature") => "y0kbOeDVQcXgnrxR…",
        _ => "…",
    }
}
