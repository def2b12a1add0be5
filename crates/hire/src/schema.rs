//! JSON Schemas that others have written: what they may cost, and what is held against them.

use std::fmt;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// Patterns in one schema.
const PATTERNS_MAX: usize = 16;
/// A pattern, compiled, in bytes.
const PATTERN_SIZE_MAX: usize = 256 * 1024;
/// Where references may lead to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// What is wrong with a value is told up to this many times.
const PROBLEMS_MAX: usize = 8;
/// One of these, in characters.
const PROBLEM_CHARS_MAX: usize = 200;

/// How large a schema may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In bytes.
    pub len_max: usize,
    /// References, followed wherever they lead: each may stand for much.
    pub references_max: usize,
}

/// A schema that values can be held against.
pub struct Schema(Validator);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// Reads a schema that costs what its length says: its references lead to definitions of its
    /// own, and never round in circles.
    pub fn compile(schema: &Value, limits: Limits) -> Result<Schema, String> {
        let Limits { len_max, references_max } = limits;
        if schema.to_string().len() > len_max {
            return Err(format!("it is longer than {len_max} bytes"));
        }
        let (mut open, mut patterns) = (vec![schema], 0);
        while let Some(value) = open.pop() {
            if let Value::Object(fields) = value {
                let is_reference = |key: &&String| key.starts_with('$') && key.ends_with("ef");
                let mut keys = fields.keys().filter(is_reference);
                if let Some(key) = keys.find(|key| references_max == 0 || *key != "$ref") {
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
        check_references(schema, references_max)?;
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_SIZE_MAX).dfa_size_limit(PATTERN_SIZE_MAX);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        options.build(schema).map(Schema).map_err(|error| short(error.to_string()))
    }

    /// What is wrong with a value; nothing if it fits.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        if self.0.is_valid(value) {
            return Vec::new();
        }
        let errors = self.0.iter_errors(value).take(PROBLEMS_MAX);
        errors
            .map(|error| {
                let place = error.instance_path().to_string();
                let place = if place.is_empty() { "the top".to_owned() } else { place };
                // The value itself may be megabytes long.
                short(format!("at {place}: {}", error.masked()))
            })
            .collect()
    }
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

fn check_references(schema: &Value, most: usize) -> Result<(), String> {
    let mut count = 0;
    // Each with those that lead to it.
    let mut open: Vec<(&Value, Vec<&str>)> = vec![(schema, Vec::new())];
    while let Some((part, way)) = open.pop() {
        for reference in references(part)? {
            count += 1;
            if count > most {
                return Err(format!("it has more than {most} references in all"));
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

fn short(text: String) -> String {
    text.chars().take(PROBLEM_CHARS_MAX).collect()
}
