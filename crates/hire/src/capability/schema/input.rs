//! What `params` must look like.

use serde_json::{Value, json};

use super::{
    CODE_LEN_MAX, FORMULA_LEN_MAX, ITEMS_MAX, NAME_LEN_MAX, NUMBERS_MAX, PROMPT_LEN_MAX, SIDE_MAX,
    TEXT_LEN_MAX, base64, integer, list, number, object, one_of, readable, text, url,
};
use crate::capability::{syntax, taxonomy::Kind};

/// A side of a picture in v1.
const SIDE_MIN: u64 = 16;
/// Milliseconds that code may run.
const TIMEOUT_MS_MAX: u64 = 30_000;
/// Kilobytes that a page may have.
const PAGE_KB_MAX: u64 = 4096;
const DIMENSIONS_MAX: u64 = 8192;

pub(super) fn schema(kind: Kind, strict: bool) -> Value {
    let prompt = || readable(strict, PROMPT_LEN_MAX);
    let name = || readable(strict, NAME_LEN_MAX);
    let side = || integer(if strict { SIDE_MIN } else { 1 }, SIDE_MAX);
    match kind {
        Kind::Photo => object(
            &["prompt", "width", "height"],
            json!({"prompt": prompt(), "width": side(), "height": side(),
                "seed": {"type": "integer"}}),
        ),
        Kind::Illustration => object(
            &["prompt", "width", "height"],
            json!({"prompt": prompt(), "width": side(), "height": side(), "style": name()}),
        ),
        Kind::Drawing => {
            object(&["prompt"], json!({"prompt": prompt(), "max_paths": integer(1, ITEMS_MAX)}))
        }
        Kind::BackgroundRemove | Kind::Upscale(_) => {
            object(&["image_b64"], json!({"image_b64": base64()}))
        }
        Kind::EmbedImage | Kind::ClassifyImage => object(
            &["image_b64"],
            json!({"image_b64": base64(), "dimensions": integer(1, DIMENSIONS_MAX),
                "labels": labels()}),
        ),
        Kind::TranscribeTimed => object(
            &["audio_url"],
            json!({"audio_url": url(), "duration_ms": integer(1, u64::from(u32::MAX)),
                "language_hint": {"type": "string", "pattern": "^[a-z]{2}$"}}),
        ),
        Kind::TranscribeText | Kind::AudioTranslate => {
            object(&["audio_url"], json!({"audio_url": url()}))
        }
        Kind::Speech
        | Kind::Translate
        | Kind::Summarize { .. }
        | Kind::RewriteFormal
        | Kind::RewriteCasual
        | Kind::Expand
        | Kind::Sentiment
        | Kind::Toxicity => object(&["text"], json!({"text": readable(true, TEXT_LEN_MAX)})),
        Kind::EmbedText | Kind::ClassifyText => object(
            &["text"],
            json!({"text": readable(true, TEXT_LEN_MAX), "labels": labels(),
                "dimensions": integer(1, DIMENSIONS_MAX)}),
        ),
        Kind::Chart => chart(strict),
        _ => of_code_and_data(kind, strict),
    }
}

fn of_code_and_data(kind: Kind, strict: bool) -> Value {
    let prompt = || readable(strict, PROMPT_LEN_MAX);
    let name = || readable(strict, NAME_LEN_MAX);
    let code = || readable(true, CODE_LEN_MAX);
    match kind {
        Kind::CodeScript => {
            object(&["task"], json!({"task": prompt(), "context": text(0, TEXT_LEN_MAX)}))
        }
        Kind::CodeFunction => object(
            &["signature", "behavior"],
            json!({"signature": readable(true, NAME_LEN_MAX), "behavior": prompt()}),
        ),
        Kind::CodeReview | Kind::CodeTranslate => object(&["code"], json!({"code": code()})),
        Kind::CodeTest => {
            object(&["code", "test_framework"], json!({"code": code(), "test_framework": name()}))
        }
        Kind::CodeExecute => object(
            &["code"],
            json!({"code": code(), "language": one_of(syntax::RUNTIMES),
                "stdin": text(0, TEXT_LEN_MAX), "timeout_ms": integer(1, TIMEOUT_MS_MAX)}),
        ),
        Kind::Weather => object(&["location"], json!({"location": name(), "date": name()})),
        Kind::WebSearch => object(&["query"], json!({"query": prompt(), "limit": integer(1, 100)})),
        Kind::Extract => object(
            &["url", "fields"],
            json!({"url": url(), "fields": list(readable(true, NAME_LEN_MAX), 1, 100),
                "max_response_kb": integer(1, PAGE_KB_MAX)}),
        ),
        Kind::Scrape => object(&["url"], json!({"url": url(), "schema": {"type": "object"}})),
        Kind::Stock => object(&["ticker"], json!({"ticker": readable(true, 16)})),
        Kind::Crypto => {
            object(&["symbol"], json!({"symbol": readable(true, 16), "vs": readable(true, 16)}))
        }
        Kind::Symbolic | Kind::Numeric => object(
            &["expression"],
            json!({"expression": readable(true, FORMULA_LEN_MAX), "precision": integer(0, 15),
                "vars": {"type": "object", "maxProperties": 32}}),
        ),
        Kind::Statistics => object(
            &["data"],
            json!({"data": list(json!({"type": "number"}), 1, NUMBERS_MAX),
                "sample": {"type": "boolean"}}),
        ),
        // The others are in the match above.
        _ => object(
            &["profile_url"],
            json!({"profile_url": {"type": "string", "maxLength": NAME_LEN_MAX,
                "pattern": "^https://([a-z]{2,3}\\.)?linkedin\\.com/in/[^/?#\\s]+/?$"}}),
        ),
    }
}

/// The labels that a buyer wants to choose from.
fn labels() -> Value {
    let mut labels = list(readable(true, NAME_LEN_MAX), 1, ITEMS_MAX);
    labels["uniqueItems"] = json!(true);
    labels
}

fn chart(strict: bool) -> Value {
    let label = || text(0, NAME_LEN_MAX);
    let side = || integer(if strict { 64 } else { 1 }, SIDE_MAX);
    let far = f64::MAX;
    let point =
        object(&["x", "y"], json!({"x": {"type": ["string", "number"]}, "y": number(-far, far)}));
    object(
        &["data", "chart_type", "width", "height"],
        json!({"title": label(), "data": list(point, 1, ITEMS_MAX), "width": side(),
            "height": side(), "x_label": label(), "y_label": label(),
            "chart_type": one_of(&["bar", "line", "pie"]), "theme": one_of(&["light", "dark"])}),
    )
}
