//! What is sold, as x402's extension `bazaar` tells catalogues and clients: how a call looks, and
//! what comes back.

use serde_json::{Value, json};

use crate::capability::{self, Side, example};

/// The longest description, as JSON in bytes: it goes out in a header of the 402, and clients send
/// it back in one of their own.
pub const BAZAAR_LEN_MAX: usize = 3 * 1024;

/// The version whose schemas hold where a listing promises none.
const VERSION_DEFAULT: &str = "v0";

/// A schema with a value that fits it, if one is known.
#[derive(Clone)]
struct Shown {
    schema: Value,
    example: Option<Value>,
}

impl Shown {
    fn of(schema: &Value) -> Shown {
        Shown { schema: inner(schema), example: example(schema) }
    }

    fn any() -> Shown {
        Shown { schema: json!({ "type": "object" }), example: Some(json!({})) }
    }
}

/// The block for a capability whose parameters and results have these schemas.
pub fn block(capability: &str, input: &Value, output: &Value) -> Value {
    shortened(capability, &Shown::of(input), &Shown::of(output))
}

/// The same by the taxonomy, with what a listing says.
pub fn block_of(capability: &str, version: Option<&str>) -> Value {
    let version = version.unwrap_or(VERSION_DEFAULT);
    let found = capability::find(capability);
    let [input, output] = [Side::Input, Side::Output].map(|side| {
        let shown = found.as_ref().and_then(|found| found.shown(version, side));
        let shown = shown.map(|(schema, example)| Shown { schema: inner(&schema), example });
        shown.unwrap_or_else(Shown::any)
    });
    shortened(capability, &input, &output)
}

/// Where it gets too long, the result's schema is left out first, then that of the parameters.
fn shortened(capability: &str, input: &Shown, output: &Shown) -> Value {
    let any = Shown::any();
    let whole = describe(capability, input, output);
    if is_short(&whole) {
        return whole;
    }
    let half = describe(capability, input, &any);
    if is_short(&half) { half } else { describe(capability, &any, &any) }
}

fn is_short(block: &Value) -> bool {
    block.to_string().len() <= BAZAAR_LEN_MAX
}

/// `info` is an example, `schema` is what it and every other call must look like.
fn describe(capability: &str, input: &Shown, output: &Shown) -> Value {
    let mut required = vec!["type", "method", "bodyType"];
    let mut call = json!({ "type": "http", "method": "POST", "bodyType": "json" });
    if let Some(params) = &input.example {
        call["body"] = json!({ "capability": capability, "params": params });
        required.push("body");
    }
    let mut answer = json!({ "type": "json" });
    if let Some(result) = &output.example {
        answer["example"] = json!({ "result": result });
    }
    let body = json!({
        "type": "object",
        "properties": {
            "capability": { "type": "string", "const": capability },
            "params": input.schema,
        },
        "required": ["capability", "params"],
    });
    json!({
        "info": { "input": call, "output": answer },
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "input": {
                    "type": "object",
                    "properties": {
                        "type": { "type": "string", "const": "http" },
                        "method": { "type": "string", "enum": ["POST"] },
                        "bodyType": { "type": "string", "enum": ["json"] },
                        "body": body,
                    },
                    "required": required,
                },
                "output": {
                    "type": "object",
                    "properties": {
                        "type": { "type": "string" },
                        "example": {
                            "type": "object",
                            "properties": { "result": output.schema },
                            "required": ["result"],
                        },
                    },
                    "required": ["type"],
                },
            },
            "required": ["input"],
        },
    })
}

/// A schema as a part of another: which dialect it is and what it is called stand outside.
fn inner(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
        fields.remove("title");
    }
    schema
}

#[cfg(test)]
mod tests;
