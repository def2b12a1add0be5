//! What a verifier with the engines of this program registers (11.2).

use skep_wire::settle::{EngineOffer, engine};

const PAGE: [&str; 4] = ["url", "selector", "expected_content", "fingerprint_delta"];
const DOCUMENT: [&str; 3] = ["custom.status", "custom.json_schema", "custom.equals"];
const CALL: [&str; 3] = ["custom.method", "custom.headers", "custom.body"];
const ARTIFACT: [&str; 9] = [
    "selector",
    "expected_content",
    "custom.index",
    "custom.sha256",
    "custom.size_min",
    "custom.size_max",
    "custom.media_type",
    "custom.json_schema",
    "custom.equals",
];
const STEPS: [&str; 3] = ["custom.status", "custom.wait_for", "custom.steps"];
const RUBRIC: [&str; 2] = ["custom.rubric", "custom.criteria"];
const PARTS: [&str; 4] = ["url", "custom.mode", "custom.n", "custom.of"];

/// Every engine that there is, whether or not this machine can run it.
pub fn known_offers() -> Vec<EngineOffer> {
    let looked = ["EXTRACT", "FINGERPRINT", "CHECK", "CHECK_CHANGED"];
    let read = ["READ", "FETCH", "HASH"];
    let (page, document) = (&PAGE[..], &DOCUMENT[..]);
    vec![
        offer(engine::HTTP, &[page, document], &[&["NAVIGATE"], &looked]),
        offer(engine::API, &[page, document, &CALL], &[&["REQUEST"], &looked]),
        offer(engine::ARTIFACT, &[&ARTIFACT], &[&read, &looked]),
        offer(
            engine::BROWSER,
            &[page, &STEPS],
            &[&["NAVIGATE", "WAIT_FOR"], &looked, &["SCREENSHOT"]],
        ),
        offer(
            engine::LLM,
            &[page, &RUBRIC, &["custom.index"]],
            &[&["NAVIGATE"], &read, &looked, &["LLM_EVALUATE"]],
        ),
        offer(engine::COMPOSITE, &[&PARTS], &[]),
    ]
}

fn offer(kind: &str, hints: &[&[&str]], actions: &[&[&str]]) -> EngineOffer {
    let owned = |lists: &[&[&str]]| lists.concat().into_iter().map(str::to_owned).collect();
    EngineOffer {
        kind: kind.to_owned(),
        hint_fields: owned(hints),
        actions: owned(actions),
        proof_fields: Vec::new(),
    }
}
