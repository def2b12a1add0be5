//! A seller's own JSON Schemas of an offer, held against what comes in and what goes out.

use std::{fmt, sync::Arc};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// One schema, in bytes.
const SCHEMA_LEN_MAX: usize = 64 * 1024;
/// References in it: each may stand for much.
const REFERENCES_MAX: usize = 64;
/// Where references may lead to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Patterns in it.
const PATTERNS_MAX: usize = 16;
/// A pattern of it, compiled, in bytes.
const PATTERN_SIZE_MAX: usize = 256 * 1024;
/// What is wrong with a value is told up to this many times.
const PROBLEMS_MAX: usize = 8;
/// One of these, in characters.
const PROBLEM_CHARS_MAX: usize = 200;

/// What an offer's parameters and results must look like. Without a schema anything fits.
#[derive(Clone, Default)]
pub(crate) struct Schemas {
    input: Option<Arc<Validator>>,
    output: Option<Arc<Validator>>,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schemas").finish_non_exhaustive()
    }
}

impl Schemas {
    /// Reads `{"input": …, "output": …}`; one of them may be left out.
    pub(crate) fn of(schema: Option<&Value>) -> Result<Schemas, String> {
        let Some(schema) = schema else { return Ok(Schemas::default()) };
        let sides = ["input", "output"].map(|name| (name, schema.get(name)));
        if sides.iter().all(|(_, side)| side.is_none()) {
            return Err("it has neither an input nor an output".to_owned());
        }
        let [input, output] = sides.map(|(name, side)| match side {
            None => Ok(None),
            Some(side) => match compile(side) {
                Ok(validator) => Ok(Some(Arc::new(validator))),
                Err(problem) => Err(format!("{name}: {problem}")),
            },
        });
        Ok(Schemas { input: input?, output: output? })
    }

    pub(crate) fn check_input(&self, params: &Value) -> Result<(), Vec<String>> {
        check(self.input.as_deref(), params)
    }

    /// Gives the result back with what is wrong with it.
    pub(crate) async fn check_output(&self, result: Value) -> (Value, Result<(), Vec<String>>) {
        let Some(validator) = self.output.clone() else { return (result, Ok(())) };
        // A large result takes a while, and others wait for this thread.
        let looking = tokio::task::spawn_blocking(move || {
            let checked = check(Some(&*validator), &result);
            (result, checked)
        });
        let failed = |_| (Value::Null, Err(vec!["the check itself has failed".to_owned()]));
        looking.await.unwrap_or_else(failed)
    }
}

/// A schema that costs what its length says: its references lead to definitions of its own, and
/// never round in circles.
fn compile(schema: &Value) -> Result<Validator, String> {
    if schema.to_string().len() > SCHEMA_LEN_MAX {
        return Err(format!("it is longer than {SCHEMA_LEN_MAX} bytes"));
    }
    let (mut open, mut patterns) = (vec![schema], 0);
    while let Some(value) = open.pop() {
        if let Value::Object(fields) = value {
            let mut keys = fields.keys().filter(|key| key.starts_with('$') && key.ends_with("ef"));
            if let Some(key) = keys.find(|key| *key != "$ref") {
                return Err(format!("{key} is not allowed: write out what it stands for"));
            }
            patterns += usize::from(fields.contains_key("pattern"));
            let keyed = fields.get("patternProperties").and_then(Value::as_object);
            patterns += keyed.map_or(0, Map::len);
            open.extend(fields.values());
        }
        open.extend(value.as_array().into_iter().flatten());
    }
    if patterns > PATTERNS_MAX {
        return Err(format!("it has more than {PATTERNS_MAX} patterns"));
    }
    check_references(schema)?;
    let patterns =
        PatternOptions::regex().size_limit(PATTERN_SIZE_MAX).dfa_size_limit(PATTERN_SIZE_MAX);
    let options = jsonschema::options().offline().with_pattern_options(patterns);
    options.build(schema).map_err(|error| short(error.to_string()))
}

/// The definitions that a part of a schema refers to.
fn references(part: &Value) -> Result<Vec<&str>, String> {
    let (mut open, mut found) = (vec![part], Vec::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                // What is a definition's own is looked at with it.
                let rest = fields.iter().filter(|(key, _)| !DEFINITIONS.contains(&key.as_str()));
                open.extend(rest.map(|(_, value)| value));
                let Some(reference) = fields.get("$ref") else { continue };
                let name = reference.as_str().and_then(|text| {
                    let place = text.strip_prefix("#/")?.split_once('/')?;
                    DEFINITIONS.contains(&place.0).then_some(text)
                });
                let wrong = || format!("$ref {reference} leads to no definition of this schema");
                found.push(name.ok_or_else(wrong)?);
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    Ok(found)
}

fn check_references(schema: &Value) -> Result<(), String> {
    let mut count = 0;
    // Each with those that lead to it.
    let mut open: Vec<(&Value, Vec<&str>)> = vec![(schema, Vec::new())];
    while let Some((part, way)) = open.pop() {
        for reference in references(part)? {
            count += 1;
            if count > REFERENCES_MAX {
                return Err(format!("it has more than {REFERENCES_MAX} references in all"));
            }
            if way.contains(&reference) {
                return Err(format!("$ref {reference} leads to itself"));
            }
            let target = schema.pointer(reference.trim_start_matches('#'));
            let target = target.ok_or_else(|| format!("$ref {reference} leads nowhere"))?;
            open.push((target, way.iter().copied().chain([reference]).collect()));
        }
    }
    Ok(())
}

fn check(validator: Option<&Validator>, value: &Value) -> Result<(), Vec<String>> {
    let Some(validator) = validator.filter(|validator| !validator.is_valid(value)) else {
        return Ok(());
    };
    let errors = validator.iter_errors(value).take(PROBLEMS_MAX);
    Err(errors
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the top".to_owned() } else { place };
            // The value itself may be megabytes long.
            short(format!("at {place}: {}", error.masked()))
        })
        .collect())
}

fn short(text: String) -> String {
    text.chars().take(PROBLEM_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_held_against_anything_is_refused_by_its_side() {
        let long = json!({ "output": { "description": "x".repeat(SCHEMA_LEN_MAX) } });
        let patterns: Vec<Value> = (0..=PATTERNS_MAX).map(|_| json!({ "pattern": "a" })).collect();
        for (schema, words) in [
            (json!({ "type": "object" }), "neither an input nor an output"),
            (json!([]), "neither an input nor an output"),
            (json!({ "input": 7 }), "input: "),
            (json!({ "output": { "type": "objekt" } }), "output: "),
            (json!({ "input": { "$ref": "#/x" } }), "leads to no definition"),
            (json!({ "input": { "$ref": "https://example.org" } }), "leads to no definition"),
            (json!({ "input": { "$ref": "#/$defs/a" } }), "leads nowhere"),
            (
                json!({ "input": { "$ref": "#/$defs/a",
                    "$defs": { "a": { "items": { "$ref": "#/$defs/a" } } } } }),
                "leads to itself",
            ),
            (
                json!({ "input": { "allOf": (0..65).map(|_| json!({ "$ref": "#/$defs/a" }))
                    .collect::<Vec<_>>(), "$defs": { "a": {} } } }),
                "more than 64 references",
            ),
            (json!({ "input": { "$dynamicRef": "#x" }, "output": {} }), "$dynamicRef"),
            (json!({ "input": { "$schema": "https://example.org/own" } }), "input: "),
            (json!({ "input": { "pattern": "(?=a)" } }), "input: "),
            (json!({ "input": { "pattern": "((a{99}){99}){99}" } }), "input: "),
            (json!({ "input": { "anyOf": patterns } }), "more than 16 patterns"),
            (long, "output: it is longer than 65536 bytes"),
        ] {
            let told = Schemas::of(Some(&schema)).unwrap_err();
            assert!(told.contains(words), "{told}: {words}");
        }
    }

    #[tokio::test]
    async fn each_side_is_held_against_its_own_and_what_is_left_out_takes_anything() {
        let number = json!({ "properties": { "a": { "type": "number" } } });
        let (good, bad) = (json!({ "a": 1 }), json!({ "a": "x".repeat(1000) }));
        let input = Schemas::of(Some(&json!({ "input": number }))).unwrap();
        input.check_input(&good).unwrap();
        let told = input.check_input(&bad).unwrap_err();
        assert!(told[0].starts_with("at /a: ") && !told[0].contains("xx"), "{told:?}");
        assert_eq!(input.check_output(bad.clone()).await, (bad.clone(), Ok(())));
        let output = Schemas::of(Some(&json!({ "output": number }))).unwrap();
        output.check_input(&bad).unwrap();
        assert_eq!(output.check_output(good.clone()).await, (good, Ok(())));
        assert!(output.check_output(bad).await.1.is_err());
    }

    #[test]
    fn definitions_of_its_own_are_followed() {
        let schema = json!({ "input": {
            "type": "object", "properties": { "at": { "$ref": "#/$defs/place" } },
            "$defs": {
                "place": { "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } } },
                "n": { "type": "integer" },
            },
        } });
        let schemas = Schemas::of(Some(&schema)).unwrap();
        assert!(schemas.check_input(&json!({ "at": { "x": 1 } })).is_ok());
        let told = schemas.check_input(&json!({ "at": { "x": "1" } })).unwrap_err();
        assert!(told[0].contains("/at/x"), "{told:?}");
    }
}
