use serde_json::{Value, json};

use super::{BAZAAR_LEN_MAX, block, block_of};
use crate::capability::{check_params, taxonomy};

fn problems(block: &Value) -> Vec<String> {
    let validator = jsonschema::validator_for(&block["schema"]).unwrap();
    validator.iter_errors(&block["info"]).map(|error| error.to_string()).collect()
}

#[test]
fn every_capability_has_an_example_that_its_seller_would_take() {
    for entry in taxonomy() {
        for version in ["v0", "v1"] {
            let block = block_of(entry.example, Some(version));
            assert_eq!(problems(&block), [""; 0], "{} {version}: {block:#}", entry.example);
            let length = block.to_string().len();
            assert!(length <= BAZAAR_LEN_MAX, "{} has {length} bytes", entry.example);
            let body = &block["info"]["input"]["body"];
            assert_eq!(body["capability"], entry.example);
            let taken = check_params(entry.example, Some(version), &body["params"]);
            assert_eq!(taken, Ok(()), "{} {version}: {body}", entry.example);
            let result = &block["info"]["output"]["example"]["result"];
            assert!(result.is_object(), "{} {version}: {block:#}", entry.example);
            // What does not fit the parameters does not fit the block.
            let mut wrong = block.clone();
            wrong["info"]["input"]["body"]["params"] = json!({});
            assert!(!problems(&wrong).is_empty(), "{} {version}", entry.example);
        }
    }
}

#[test]
fn what_sellers_describe_themselves_is_shown_as_far_as_there_is_room() {
    let input = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "required": ["words"], "properties": { "words": { "type": "integer", "minimum": 5 } },
    });
    let shown = block("custom.acme.write", &input, &json!({ "type": "object" }));
    assert_eq!(problems(&shown), [""; 0]);
    let body = json!({ "capability": "custom.acme.write", "params": { "words": 5 } });
    assert_eq!(shown["info"]["input"]["body"], body);
    let described = |shown: &Value| {
        let schema = &shown["schema"]["properties"];
        let input = &schema["input"]["properties"]["body"]["properties"]["params"];
        let output = &schema["output"]["properties"]["example"]["properties"]["result"];
        [input.get("properties").is_some(), output.get("properties").is_some()]
    };
    let long = json!({ "type": "object", "properties": { "a": { "title": "x".repeat(3000) } } });
    assert_eq!(described(&block("custom.acme.write", &input, &input)), [true, true]);
    assert_eq!(described(&block("custom.acme.write", &input, &long)), [true, false]);
    assert_eq!(described(&block("custom.acme.write", &long, &input)), [false, false]);
    // Nobody can make an example of this one, and it is shown all the same.
    let clever = json!({ "type": "string", "pattern": "^[0-9]{40}$" });
    let clever = json!({
        "type": "object", "required": ["id"], "properties": { "id": clever },
    });
    let shown = block("custom.acme.write", &clever, &clever);
    assert_eq!((problems(&shown), described(&shown)), (vec![], [true, true]));
    assert!(shown["info"]["input"].get("body").is_none());
}
