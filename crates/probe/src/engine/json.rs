//! Strangers' JSON: read, asked with JSONPath (RFC 9535), compared.
//!
//! Numbers are as large as their sender likes them, so this is not the strict parser of
//! `skep_base`; but a key that occurs twice in an object is refused, since two readers of such a
//! document can see two different deliveries.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use super::record::Stop;

/// How many steps a query may cost at most, by a generous estimate.
const COST_MAX: u64 = 10_000_000;
/// How deep brackets may nest in a path.
const NESTING_MAX: usize = 16;
/// How many filters a path may have.
const FILTERS_MAX: usize = 4;
/// How large all results of a query may be together, in bytes by estimate.
const RESULTS_LEN_MAX: usize = 16 * 1024 * 1024;

/// Reads a whole document; an error says what is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(bytes).map(|Unique(value)| value).map_err(|error| error.to_string())
}

/// A value without an object that has a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Unique)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Unique(value) = entries.next_value()?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!(
                    "the key {key:?} occurs twice in one object"
                )));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// A JSONPath, read. How long the reader takes doubles with each filter within a filter, and
/// with some functions around it grows fourfold.
pub(crate) fn parse_path(path: &str) -> Result<JsonPath, Stop> {
    if nesting(path) > NESTING_MAX {
        let reason = format!("the JSONPath nests deeper than {NESTING_MAX} levels");
        return Err(Stop::error("bad_selector", reason));
    }
    if unquoted(path).iter().filter(|c| **c == '?').count() > FILTERS_MAX {
        let reason = format!("the JSONPath has more than {FILTERS_MAX} filters");
        return Err(Stop::error("bad_selector", reason));
    }
    JsonPath::parse(path)
        .map_err(|error| Stop::error("bad_selector", format!("no JSONPath: {error}")))
}

/// What `path` finds in `document`, in document order.
pub(crate) fn query(path: &str, document: &Value) -> Result<Vec<Value>, Stop> {
    let parsed = parse_path(path)?;
    let costly =
        || Stop::error("bad_selector", "the JSONPath is too costly for a document of this size");
    if cost(path, document) > COST_MAX {
        return Err(costly());
    }
    let found = parsed.query(document);
    let mut budget = RESULTS_LEN_MAX;
    let affordable = found.iter().all(|value| take_size(value, &mut budget));
    if affordable {
        Ok(found.iter().map(|value| (*value).clone()).collect())
    } else {
        Err(costly())
    }
}

/// The characters of a path that are not within quotes; what is quoted is left out.
fn unquoted(path: &str) -> Vec<char> {
    let mut quote = None;
    let mut escaped = false;
    let mut left = Vec::new();
    for c in path.chars() {
        match quote {
            None if c == '\'' || c == '"' => quote = Some(c),
            None => left.push(c),
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
        }
    }
    left
}

/// How deep brackets of any kind nest.
fn nesting(path: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in unquoted(path) {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// How many steps `path` can take at most on `document`, more or less. The evaluator cannot be
/// stopped, and `$..*..*..*` or `$[*,*][*,*]…` grow without bound on a well-made document.
fn cost(path: &str, document: &Value) -> u64 {
    let (nodes, depth) = extent(document);
    let path = unquoted(path);
    let pairs = || path.windows(2);
    let count = |wanted: char| path.iter().filter(|c| **c == wanted).count() as u64;
    let power =
        |base: u64, exponent: u64| base.saturating_pow(u32::try_from(exponent).unwrap_or(u32::MAX));
    // A second descent starts again below each node that the first one found.
    let descents = pairs().filter(|pair| **pair == ['.', '.']).count() as u64;
    let mut cost = nodes.saturating_mul(power(depth, descents.saturating_sub(1)));
    // A query from the root within a filter is asked for each node.
    cost = cost.saturating_mul(power(nodes, count('$').saturating_sub(1)));
    cost = cost.saturating_mul(1 + count('@'));
    let text: String = path.iter().collect();
    if ["match", "search"].iter().any(|function| text.contains(function)) {
        // A regular expression is read anew for each node.
        cost = cost.saturating_mul(1000);
    }
    // Each part of a union takes every node again.
    let mut commas = vec![0_u64];
    for c in &path {
        match (c, commas.last_mut()) {
            ('[', _) => commas.push(0),
            (',', Some(last)) => *last += 1,
            (']', Some(_)) => cost = cost.saturating_mul(1 + commas.pop().unwrap_or(0)),
            _ => {}
        }
    }
    cost
}

/// How many values a document has, and how deep they nest.
fn extent(document: &Value) -> (u64, u64) {
    let (mut nodes, mut deepest) = (0, 0);
    let mut left = vec![(document, 1)];
    while let Some((value, depth)) = left.pop() {
        nodes += 1;
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    (nodes, deepest)
}

/// Takes the size of a value off the budget; whether it was enough.
fn take_size(value: &Value, budget: &mut usize) -> bool {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        let mut size = 32;
        match value {
            Value::String(text) => size += text.len(),
            Value::Array(items) => left.extend(items),
            Value::Object(map) => {
                size += map.keys().map(|key| key.len() + 32).sum::<usize>();
                left.extend(map.values());
            }
            _ => {}
        }
        match budget.checked_sub(size) {
            Some(rest) => *budget = rest,
            None => return false,
        }
    }
    true
}

/// Values as text: a string as it is, everything else as JSON, one result on each line.
pub(crate) fn to_text(values: &[Value]) -> String {
    let lines: Vec<String> = values
        .iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    lines.join("\n")
}

/// Whether two values are the same; 1 and 1.0 are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || is_same_double(a.as_f64(), b.as_f64()),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let in_b = |(key, a): (&String, _)| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(in_b)
        }
        (a, b) => a == b,
    }
}

/// Above 2^53 two integers can be one double without being the same.
fn is_same_double(a: Option<f64>, b: Option<f64>) -> bool {
    a == b && a.is_some_and(|a| a.abs() <= 9_007_199_254_740_992.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_occurs_twice_is_refused_at_any_depth() {
        assert!(parse(br#"{"a":1,"b":[{"a":2}]}"#).is_ok());
        for bad in [r#"{"a":1,"a":2}"#, r#"[{"b":{"a":1,"\u0061":1}}]"#] {
            let error = parse(bad.as_bytes()).unwrap_err();
            assert!(error.contains(r#"the key "a" occurs twice"#), "{error}");
        }
    }

    #[test]
    fn large_numbers_and_a_byte_order_mark_are_read() {
        assert_eq!(parse(b"\xef\xbb\xbf[18446744073709551615]").unwrap(), json!([u64::MAX]));
        assert!(parse(b"{} x").is_err());
        assert!(parse("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn a_path_finds_values() {
        let document = json!({"a": [{"b": 1}, {"b": 2, "c": "x, ..$["}], "d": {"b": null}});
        assert_eq!(query("$.a[*].b", &document).unwrap(), [json!(1), json!(2)]);
        assert_eq!(query("$..b", &document).unwrap().len(), 3);
        assert_eq!(query("$.a[?@.b > 1].c", &document).unwrap(), [json!("x, ..$[")]);
        assert_eq!(query("$.nothing", &document).unwrap(), [] as [Value; 0]);
    }

    #[test]
    fn a_path_that_grows_without_bound_is_refused() {
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep, 2]);
        }
        let wide = json!(vec![1; 5000]);
        for (path, document) in [
            ("$..*..*..*..*..*", &deep),
            (&*format!("${}", "[*,*]".repeat(30)), &deep),
            ("$[?count($..*) > 1]", &wide),
            ("$[?match(@, 'a')]", &json!(vec!["a"; 10_000])),
        ] {
            let stop = query(path, document).unwrap_err();
            assert!(stop.reason().contains("too costly"), "{path}: {stop:?}");
        }
        assert!(query("$..*", &deep).is_ok());
    }

    #[test]
    fn a_path_that_takes_long_to_read_is_refused_before() {
        let path = format!("$[?{}@.a{}]", "(".repeat(400), ")".repeat(400));
        assert!(parse_path(&path).unwrap_err().reason().contains("nests deeper"));
        let path = format!("$[?{}@.a{}]", "(".repeat(14), ")".repeat(14));
        assert!(parse_path(&path).is_ok());
        let filters = format!("$[?{}@.a{}]", "@[?".repeat(4), "]".repeat(4));
        assert!(parse_path(&filters).unwrap_err().reason().contains("more than 4 filters"));
        assert!(parse_path("$[?@.a][?@.b == '????']").is_ok());
        assert!(parse_path("$['((((((((((((((((((((((((']").is_ok());
    }

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        assert!(same(&json!({"a": [1, "x"]}), &json!({"a": [1.0, "x"]})));
        assert!(same(&json!(-3), &json!(-3.0)));
        assert!(!same(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_994_u64)));
        assert!(!same(&json!({"a": 1}), &json!({"a": 1, "b": 2})));
        assert!(!same(&json!("1"), &json!(1)));
    }
}
