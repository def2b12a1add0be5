//! JSON Schemas (2020-12, or draft-07) that a deal's terms bring along.
//!
//! A schema is written by a stranger and is a program: it is refused where its cost has no bound.
//! References stay within the schema, are JSON pointers and never lead back to where they came
//! from; regular expressions run on the `regex` crate, in linear time, so that look-around and
//! back-references are refused; and nothing is ever fetched.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use super::record::Stop;

/// The longest schema, in bytes of JSON.
const SCHEMA_LEN_MAX: usize = 64 * 1024;
/// The parts of a schema times the bytes of a document, at most.
const COST_MAX: u64 = 1 << 32;
/// The parts of a schema, references unfolded, at most.
const WEIGHT_MAX: u64 = 100_000;
/// How deep a schema may nest, references followed.
const DEPTH_MAX: usize = 100;
const PATTERNS_MAX: usize = 64;
/// The largest compiled regular expression, in bytes.
const PATTERN_SIZE_MAX: usize = 1024 * 1024;

const DRAFTS: &[&str] = &[
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema#",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
];

/// A schema that may be used.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    weight: u64,
}

impl Schema {
    pub(crate) fn compile(schema: &Value) -> Result<Schema, Stop> {
        let bad = |reason: String| Stop::error("bad_schema", reason);
        if schema.to_string().len() > SCHEMA_LEN_MAX {
            return Err(bad(format!("the schema is longer than {SCHEMA_LEN_MAX} bytes")));
        }
        let mut scale = Scale { root: schema, known: BTreeMap::new(), patterns: 0 };
        let weight = scale.weigh(schema, 0).map_err(bad)?.weight;
        if scale.patterns > PATTERNS_MAX {
            return Err(bad(format!("the schema has more than {PATTERNS_MAX} patterns")));
        }
        if weight > WEIGHT_MAX {
            return Err(bad(format!("the schema unfolds to more than {WEIGHT_MAX} parts")));
        }
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_SIZE_MAX).dfa_size_limit(PATTERN_SIZE_MAX);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .build(schema)
            .map_err(|error| bad(error.to_string()))?;
        Ok(Schema { validator, weight })
    }

    /// Whether the document, which took `length` bytes, is as the schema says.
    pub(crate) fn check(&self, document: &Value, length: usize) -> Result<(), Stop> {
        if self.weight.saturating_mul(length as u64) > COST_MAX {
            let reason = "the schema is too costly for a document of this size";
            return Err(Stop::error("bad_schema", reason));
        }
        self.validator.validate(document).map_err(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the top".to_owned() } else { place };
            Stop::failed(format!("json_schema: at {place}: {error}"))
        })
    }
}

#[derive(Clone, Copy)]
struct Weight {
    /// The parts, with those that references name counted where they are used.
    weight: u64,
    height: usize,
}

struct Scale<'a> {
    root: &'a Value,
    /// What the references weigh; nothing while one is being weighed.
    known: BTreeMap<&'a str, Option<Weight>>,
    patterns: usize,
}

impl<'a> Scale<'a> {
    fn weigh(&mut self, value: &'a Value, depth: usize) -> Result<Weight, String> {
        let too_deep = || format!("the schema nests deeper than {DEPTH_MAX} levels");
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let mut sum = Weight { weight: 1, height: 0 };
        let mut add = |part: Weight| {
            sum.weight = sum.weight.saturating_add(part.weight);
            sum.height = sum.height.max(part.height + 1);
        };
        match value {
            Value::Array(items) => {
                for item in items {
                    add(self.weigh(item, depth + 1)?);
                }
            }
            Value::Object(map) => {
                for (key, part) in map {
                    match part {
                        Value::String(text) => add(self.weigh_word(key, text, depth)?),
                        part => add(self.weigh(part, depth + 1)?),
                    }
                    if key == "patternProperties" {
                        self.patterns += part.as_object().map_or(0, serde_json::Map::len);
                    }
                }
                // These look at everything beside them a second time.
                if map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems")
                {
                    sum.weight = sum.weight.saturating_mul(2);
                }
            }
            _ => {}
        }
        if sum.height > DEPTH_MAX { Err(too_deep()) } else { Ok(sum) }
    }

    /// A keyword whose value is a string. That a mere example may look like one is accepted.
    fn weigh_word(&mut self, key: &str, text: &'a str, depth: usize) -> Result<Weight, String> {
        match key {
            "$ref" => return self.weigh_reference(text, depth),
            "$dynamicRef" | "$recursiveRef" => return Err(format!("{key} is not followed")),
            "$id" if depth > 0 => return Err("an $id below the top is not followed".to_owned()),
            "$schema" if depth > 0 || !DRAFTS.contains(&text) => {
                return Err(format!("{text:?} is not a draft that is known here"));
            }
            "pattern" => self.patterns += 1,
            _ => {}
        }
        Ok(Weight { weight: 1, height: 0 })
    }

    fn weigh_reference(&mut self, text: &'a str, depth: usize) -> Result<Weight, String> {
        match self.known.get(text) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => return Err(format!("the reference {text:?} leads back to itself")),
            None => {}
        }
        let root: &'a Value = self.root;
        let part = text.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let part = part.ok_or_else(|| {
            format!("the reference {text:?} is no JSON pointer to a part of this schema")
        })?;
        self.known.insert(text, None);
        let weight = self.weigh(part, depth + 1)?;
        self.known.insert(text, Some(weight));
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(schema: &Value) -> String {
        match Schema::compile(schema) {
            Err(Stop::Error(report)) if report.code == "bad_schema" => report.detail,
            other => panic!("{schema} gave {other:?}"),
        }
    }

    #[test]
    fn a_document_is_held_to_its_schema() {
        let schema = Schema::compile(&json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["name", "parts"],
            "properties": {
                "name": {"type": "string", "pattern": "^[a-z]+$"},
                "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 1},
            },
            "$defs": {"part": {"type": "integer", "minimum": 1}},
        }))
        .unwrap();
        assert_eq!(schema.check(&json!({"name": "abc", "parts": [1, 2]}), 30), Ok(()));
        let stop = schema.check(&json!({"name": "abc", "parts": [1, 0]}), 30).unwrap_err();
        assert!(stop.reason().starts_with("json_schema: at /parts/1: "), "{stop:?}");
        assert!(matches!(stop, Stop::Failed(_)));
        assert!(schema.check(&json!({"name": "ABC", "parts": [1]}), 30).is_err());
        assert!(schema.check(&json!([]), 2).is_err());
    }

    #[test]
    fn what_leads_out_of_a_schema_or_in_circles_is_refused() {
        assert!(
            refusal(&json!({"$ref": "https://example.com/s.json"})).contains("no JSON pointer")
        );
        assert!(refusal(&json!({"$ref": "file:///etc/passwd"})).contains("no JSON pointer"));
        assert!(refusal(&json!({"$ref": "#/$defs/none"})).contains("no JSON pointer"));
        assert!(refusal(&json!({"$ref": "#name", "$anchor": "name"})).contains("no JSON pointer"));
        assert!(refusal(&json!({"properties": {"a": {"$ref": "#"}}})).contains("back to itself"));
        assert!(refusal(&json!({"$dynamicRef": "#x"})).contains("not followed"));
        assert!(refusal(&json!({"items": {"$id": "x"}})).contains("not followed"));
        assert!(refusal(&json!({"$schema": "https://example.com/mine"})).contains("not a draft"));
    }

    #[test]
    fn a_schema_that_unfolds_without_bound_is_refused() {
        let mut parts = serde_json::Map::new();
        parts.insert("p0".into(), json!({"type": "string"}));
        for at in 1..40 {
            let before = json!({"$ref": format!("#/$defs/p{}", at - 1)});
            parts.insert(format!("p{at}"), json!({"anyOf": [before, before]}));
        }
        let schema = json!({"$ref": "#/$defs/p39", "$defs": parts});
        let reason = refusal(&schema);
        assert!(reason.contains("unfold") || reason.contains("nests deeper"), "{reason}");

        let mut nested = json!({"type": "string"});
        for _ in 0..200 {
            nested = json!({"not": nested});
        }
        assert!(refusal(&nested).contains("nests deeper"));
        assert!(refusal(&json!({"description": "x".repeat(70_000)})).contains("longer than"));
    }

    #[test]
    fn the_deepest_schema_allowed_fits_the_stack() {
        let wraps: &[fn(Value) -> Value] = &[
            |inner| json!({"items": inner}),
            |inner| json!({"not": inner}),
            |inner| json!({"anyOf": [inner]}),
            |inner| json!({"oneOf": [true, inner]}),
            |inner| json!({"if": inner, "then": true, "else": false}),
            |inner| json!({"properties": {"a": inner}}),
            |inner| json!({"patternProperties": {"a": inner}, "additionalProperties": false}),
            |inner| json!({"dependentSchemas": {"a": inner}}),
            |inner| json!({"contains": inner}),
        ];
        let mut document = json!(1);
        for at in 0..60 {
            document = if at % 2 == 0 { json!([document]) } else { json!({"a": document}) };
        }
        for wrap in wraps {
            let mut schema = json!({"type": "string"});
            let mut deepest = 0;
            for _ in 0..DEPTH_MAX {
                schema = wrap(schema);
                if let Ok(schema) = Schema::compile(&schema) {
                    deepest += 1;
                    let _ = schema.check(&document, 200);
                }
            }
            assert!(deepest >= 30, "{schema}");
        }
    }

    #[test]
    fn the_longest_chain_of_references_fits_the_stack() {
        let mut parts = serde_json::Map::new();
        for at in 0..48 {
            let next = format!("#/$defs/p{}", at + 1);
            parts.insert(format!("p{at}"), json!({"items": {"$ref": next}}));
        }
        parts.insert("p48".into(), json!({"type": "string"}));
        let schema = Schema::compile(&json!({"$ref": "#/$defs/p0", "$defs": parts}));
        let mut document = json!("x");
        for _ in 0..48 {
            document = json!([document]);
        }
        assert_eq!(schema.unwrap().check(&document, 100), Ok(()));
    }

    #[test]
    fn regular_expressions_take_linear_time() {
        let schema = Schema::compile(&json!({"pattern": "^(a+)+$"})).unwrap();
        let text = format!("{}!", "a".repeat(50_000));
        assert!(schema.check(&json!(text), text.len()).is_err());
        assert!(refusal(&json!({"pattern": "(?=a)a"})).contains("regex"));
        assert!(refusal(&json!({"pattern": "((a{1000}){1000}){1000}"})).contains("regex"));
        let many: Vec<Value> = (0..65).map(|at| json!({"pattern": at.to_string()})).collect();
        assert!(refusal(&json!({"anyOf": many})).contains("more than 64 patterns"));
    }

    #[test]
    fn a_document_too_large_for_its_schema_is_an_error() {
        let many: Vec<Value> = (0..4000).map(|at| json!({"const": at})).collect();
        let schema = Schema::compile(&json!({"items": {"anyOf": many}})).unwrap();
        assert!(matches!(schema.check(&json!([]), 4 << 20), Err(Stop::Error(_))));
        assert_eq!(schema.check(&json!([3999]), 6), Ok(()));
    }

    #[test]
    fn nonsense_is_no_schema() {
        assert!(!refusal(&json!({"type": 7})).is_empty());
        assert!(!refusal(&json!("object")).is_empty());
    }
}
