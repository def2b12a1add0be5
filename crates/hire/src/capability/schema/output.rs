//! What `result` must look like.

use serde_json::{Value, json};

use super::{
    CODE_LEN_MAX, FORMULA_LEN_MAX, ITEMS_MAX, NAME_LEN_MAX, PROMPT_LEN_MAX, SIDE_MAX, TEXT_LEN_MAX,
    base64, integer, list, number, object, one_of, readable, text, url,
};
use crate::{capability::taxonomy::Kind, media::DRAWING_LEN_MAX};

/// What a program may print, in characters.
const PRINTED_LEN_MAX: u64 = 1_048_576;
const DIMENSIONS_MAX: u64 = 8192;
/// A day, which no transcript and no run is longer than.
const DAY_MS: u64 = 86_400_000;
/// The words of code reviews in v1.
const SEVERITIES: &[&str] =
    &["info", "low", "minor", "medium", "warning", "major", "high", "error", "critical"];

pub(super) fn schema(kind: Kind, format: &str, strict: bool) -> Value {
    let side = || integer(1, SIDE_MAX);
    let any_text = || readable(strict, TEXT_LEN_MAX);
    let code = || readable(true, CODE_LEN_MAX);
    match kind {
        Kind::Photo => object(
            &["image_b64", "width", "height"],
            json!({"image_b64": base64(), "width": side(), "height": side()}),
        ),
        Kind::Illustration | Kind::Upscale(_) => {
            object(&["image_b64"], json!({"image_b64": base64()}))
        }
        Kind::Drawing => object(&["svg"], json!({"svg": text(1, DRAWING_LEN_MAX as u64)})),
        Kind::BackgroundRemove => {
            object(&["image_b64", "mask_b64"], json!({"image_b64": base64(), "mask_b64": base64()}))
        }
        Kind::TranscribeTimed => transcript(strict),
        Kind::Speech => object(
            &["audio_b64", "duration_ms"],
            json!({"audio_b64": base64(), "duration_ms": integer(1, DAY_MS)}),
        ),
        Kind::TranscribeText
        | Kind::AudioTranslate
        | Kind::RewriteFormal
        | Kind::RewriteCasual
        | Kind::Expand => object(&["text"], json!({"text": any_text()})),
        Kind::Translate => {
            object(&["text"], json!({"text": any_text(), "detected_lang": text(2, 16)}))
        }
        Kind::Summarize { .. } => object(&["summary"], json!({"summary": any_text()})),
        Kind::CodeScript => {
            object(&["code"], json!({"code": code(), "deps": list(text(1, NAME_LEN_MAX), 0, 256)}))
        }
        Kind::CodeFunction | Kind::CodeTranslate => object(&["code"], json!({"code": code()})),
        Kind::CodeReview => review(strict),
        Kind::CodeTest => object(&["tests"], json!({"tests": code()})),
        Kind::CodeExecute => object(
            &["stdout", "stderr", "exit_code", "duration_ms", "truncated"],
            json!({"stdout": text(0, PRINTED_LEN_MAX), "stderr": text(0, PRINTED_LEN_MAX),
                "exit_code": {"type": "integer"}, "duration_ms": integer(0, DAY_MS),
                "truncated": {"type": "boolean"}}),
        ),
        Kind::Chart => object(
            &["image_b64", "width", "height", "chart_type"],
            json!({"image_b64": base64(), "width": side(), "height": side(),
                "chart_type": text(1, 32)}),
        ),
        Kind::Weather => weather(format, strict),
        _ => of_data(kind, strict),
    }
}

fn of_data(kind: Kind, strict: bool) -> Value {
    let time = || json!({"type": "integer", "minimum": 0});
    let share = || number(0.0, 1.0);
    match kind {
        Kind::WebSearch => {
            let title = readable(strict, PROMPT_LEN_MAX);
            let found = object(
                &["url", "title", "snippet"],
                json!({"url": url(), "title": title, "snippet": text(0, PROMPT_LEN_MAX)}),
            );
            object(&["results"], json!({"results": list(found, 0, 100)}))
        }
        Kind::Extract => object(
            &["url", "extracted", "confidence", "extracted_at"],
            json!({"url": url(), "extracted": {"type": "object", "maxProperties": ITEMS_MAX},
                "confidence": share(), "extracted_at": text(10, 64)}),
        ),
        Kind::Scrape => object(&["data"], json!({"data": {"type": ["object", "array"]}})),
        Kind::Stock => object(
            &["ticker", "price", "currency", "timestamp"],
            json!({"ticker": text(1, 16), "price": price(), "timestamp": time(),
                "currency": currency(strict)}),
        ),
        Kind::Crypto => object(
            &["symbol", "price", "vs", "timestamp"],
            json!({"symbol": text(1, 16), "price": price(), "vs": text(1, 16),
                "timestamp": time()}),
        ),
        Kind::Symbolic => object(
            &["result"],
            json!({"result": readable(true, FORMULA_LEN_MAX), "latex": text(0, PROMPT_LEN_MAX)}),
        ),
        Kind::Numeric | Kind::Statistics => {
            object(&["result"], json!({"result": {"type": "number"}}))
        }
        Kind::EmbedText | Kind::EmbedImage => object(
            &["vector", "dim"],
            json!({"vector": list(json!({"type": "number"}), 1, DIMENSIONS_MAX),
                "dim": integer(1, DIMENSIONS_MAX)}),
        ),
        Kind::ClassifyImage | Kind::ClassifyText => {
            let label = object(
                &["label", "confidence"],
                json!({"label": readable(true, NAME_LEN_MAX), "confidence": share()}),
            );
            object(&["labels"], json!({"labels": list(label, 1, ITEMS_MAX)}))
        }
        Kind::Sentiment => object(
            &["sentiment", "confidence"],
            json!({"sentiment": one_of(&["positive", "negative", "neutral"]),
                "confidence": share()}),
        ),
        Kind::Toxicity => object(
            &["toxic", "confidence"],
            json!({"toxic": {"type": "boolean"}, "confidence": share()}),
        ),
        // The others are in the match above.
        _ => profile(strict),
    }
}

fn transcript(strict: bool) -> Value {
    let segment = object(
        &["start_ms", "end_ms", "text"],
        json!({"start_ms": integer(0, DAY_MS), "end_ms": integer(0, DAY_MS),
            "text": readable(strict, PROMPT_LEN_MAX)}),
    );
    object(
        &["language", "segments"],
        json!({"language": text(1, 16), "segments": list(segment, 0, ITEMS_MAX)}),
    )
}

fn review(strict: bool) -> Value {
    let severity = if strict { one_of(SEVERITIES) } else { text(1, 32) };
    let finding = object(
        &["severity", "line", "message"],
        json!({"severity": severity, "line": integer(0, CODE_LEN_MAX),
            "message": readable(strict, PROMPT_LEN_MAX)}),
    );
    object(&["findings"], json!({"findings": list(finding, 0, ITEMS_MAX)}))
}

fn weather(format: &str, strict: bool) -> Value {
    match format {
        "summary-text" => object(&["summary"], json!({"summary": readable(true, PROMPT_LEN_MAX)})),
        "geojson" => object(
            &["type"],
            json!({"type": one_of(&["Feature", "FeatureCollection"]),
                "features": list(json!({"type": "object"}), 1, 1000)}),
        ),
        _ => {
            let fields = json!({"location": readable(strict, NAME_LEN_MAX),
                "temperature_c": {"type": "number"}, "conditions": text(1, NAME_LEN_MAX),
                "observed_at": text(10, 64)});
            match strict {
                true => object(&["location", "temperature_c", "conditions", "observed_at"], fields),
                false => object(&["location"], fields),
            }
        }
    }
}

fn price() -> Value {
    json!({"type": "number", "exclusiveMinimum": 0})
}

fn currency(strict: bool) -> Value {
    match strict {
        true => json!({"type": "string", "pattern": "^[A-Z]{3}$"}),
        false => text(1, 16),
    }
}

fn profile(strict: bool) -> Value {
    let line = || readable(true, NAME_LEN_MAX);
    // What a profile does not show is null or left out.
    let perhaps = || json!({"type": ["string", "null"], "maxLength": PROMPT_LEN_MAX});
    let required: &[&str] = if strict { &["url", "name", "source"] } else { &["url", "name"] };
    let skills = json!({"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 1000});
    let profile = object(
        required,
        json!({"url": line(), "name": line(), "source": line(), "headline": perhaps(),
            "location": perhaps(), "summary": perhaps(), "skills": skills}),
    );
    object(&["profile"], json!({"profile": profile}))
}
