//! A seller's own JSON Schemas of an offer, held against what comes in and what goes out.

use std::sync::Arc;

use serde_json::Value;
use skep_hire::schema::{Limits, Schema};

/// Its own schema may be as long as programs write them.
const LIMITS: Limits = Limits { len_max: 64 * 1024, references_max: 64 };

/// What an offer's parameters and results must look like. Without a schema anything fits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schemas {
    input: Option<Arc<Schema>>,
    output: Option<Arc<Schema>>,
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
            Some(side) => match Schema::compile(side, LIMITS) {
                Ok(schema) => Ok(Some(Arc::new(schema))),
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
        let Some(schema) = self.output.clone() else { return (result, Ok(())) };
        // A large result takes a while, and others wait for this thread.
        let looking = tokio::task::spawn_blocking(move || {
            let checked = check(Some(&*schema), &result);
            (result, checked)
        });
        let failed = |_| (Value::Null, Err(vec!["the check itself has failed".to_owned()]));
        looking.await.unwrap_or_else(failed)
    }
}

fn check(schema: Option<&Schema>, value: &Value) -> Result<(), Vec<String>> {
    let problems = schema.map(|schema| schema.problems(value)).unwrap_or_default();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_held_against_anything_is_refused_by_its_side() {
        let long = json!({ "output": { "description": "x".repeat(LIMITS.len_max) } });
        let patterns: Vec<Value> = (0..=16).map(|_| json!({ "pattern": "a" })).collect();
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
