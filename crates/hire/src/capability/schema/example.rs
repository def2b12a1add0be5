//! One value that fits a schema, to show callers what is meant.

use jsonschema::PatternOptions;
use serde_json::{Map, Value, json};

/// How deep an example goes, and how many entries a list in it has at the most.
const DEPTH_MAX: usize = 8;
const ITEMS_MAX: u64 = 4;
/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9\
     awAAAABJRU5ErkJggg==";
/// Words for texts: the first that fits is taken.
const WORDS: [&str; 5] = [
    "example",
    "en",
    "2026-01-01T00:00:00Z",
    "https://example.com/",
    "https://www.linkedin.com/in/example",
];
/// Better words for some fields.
const NAMED: [(&str, &str); 9] = [
    ("code", "print(1 + 2)"),
    ("currency", "USD"),
    ("expression", "1 + 2"),
    ("location", "Oslo"),
    ("query", "weather in Oslo"),
    ("signature", "def double(n)"),
    ("symbol", "BTC"),
    ("ticker", "AAPL"),
    ("vs", "USD"),
];

/// A value that fits, with no more than it needs; nothing where the schema is too clever for this.
pub(crate) fn example(schema: &Value) -> Option<Value> {
    let value = draft(schema, "", 0)?;
    fits(schema, &value).then_some(value)
}

fn fits(schema: &Value, value: &Value) -> bool {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    options.build(schema).is_ok_and(|validator| validator.is_valid(value))
}

fn draft(schema: &Value, name: &str, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return None;
    }
    let first = |key: &str| schema.get(key)?.as_array()?.first();
    let given = schema.get("const").or_else(|| first("examples")).or_else(|| first("enum"));
    if let Some(given) = given.or_else(|| schema.get("default")) {
        return Some(given.clone());
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
        Some(kind) => kind.as_str()?,
        None => "object",
    };
    match kind {
        "object" => object(schema, depth),
        "array" => {
            let count = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let item = draft(schema.get("items").unwrap_or(&json!({})), name, depth + 1)?;
            (count <= ITEMS_MAX).then(|| (0..count.max(1)).map(|_| item.clone()).collect())
        }
        "string" => text(schema, name),
        "integer" | "number" => Some(number(schema)),
        "boolean" => Some(json!(false)),
        "null" => Some(Value::Null),
        _ => None,
    }
}

/// What is required, and nothing else.
fn object(schema: &Value, depth: usize) -> Option<Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let mut fields = Map::new();
    for name in required.into_iter().flatten() {
        let name = name.as_str()?;
        let any = json!({});
        let property = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&any);
        fields.insert(name.to_owned(), draft(property, name, depth + 1)?);
    }
    Some(Value::Object(fields))
}

fn text(schema: &Value, name: &str) -> Option<Value> {
    let own = NAMED.iter().filter(|(known, _)| *known == name).map(|(_, word)| *word);
    let file = (schema["contentEncoding"] == "base64").then_some(PIXEL);
    let words = file.into_iter().chain(own).chain(WORDS);
    words.map(|word| json!(word)).find(|word| fits(schema, word))
}

/// One, or whatever is nearest to it.
fn number(schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let low = bound("minimum").or(bound("exclusiveMinimum")).unwrap_or(f64::NEG_INFINITY);
    let high = bound("maximum").unwrap_or(f64::INFINITY);
    let near = 1.0_f64.max(low).min(high.max(low));
    match near.fract() == 0.0 && near.abs() < 1e15 {
        true => json!(near as i64),
        false => json!(near),
    }
}
