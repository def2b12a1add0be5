//! For every entry of the taxonomy a result that is fine in every version, and one that is not in
//! any.

use serde_json::{Value, json};

use super::made::{self, JPEG, JPEG_SIZE, SILENCE, TONE, b64};

pub(super) struct Case {
    pub id: &'static str,
    pub params: Value,
    pub good: Value,
    pub bad: Value,
    /// The check that finds what is bad.
    pub finds: &'static str,
}

pub(super) fn case(
    id: &'static str,
    params: Value,
    good: Value,
    finds: &'static str,
    bad: Value,
) -> Case {
    Case { id, params, good, bad, finds }
}

const ENGLISH: &str = "The quarterly report shows that our customers are very happy with the new \
    delivery service, and that most of them want to order again before the end of the year.";
const ITALIAN: &str = "La relazione trimestrale mostra che i nostri clienti sono molto contenti \
    del nuovo servizio di consegna e che la maggior parte di loro vuole ordinare di nuovo.";

pub(super) fn all() -> Vec<Case> {
    [images(), audio(), texts(), code(), data(), numbers()].into_iter().flatten().collect()
}

fn images() -> Vec<Case> {
    let asked = json!({"prompt": "a red disc", "width": 64, "height": 48});
    let picture = |bytes: Vec<u8>| json!({"image_b64": b64(&bytes), "width": 64, "height": 48});
    let (cut, mask) = made::cut_out(JPEG_SIZE);
    let grey = made::even(JPEG_SIZE.0, JPEG_SIZE.1, 90);
    let jpeg = json!({"image_b64": b64(JPEG)});
    let only = |bytes: &[u8]| json!({"image_b64": b64(bytes)});
    vec![
        case(
            "image.generate.photorealistic.png",
            asked.clone(),
            picture(made::scene(64, 48)),
            "not_blank",
            picture(made::even(64, 48, 0)),
        ),
        case(
            "image.generate.illustration.png",
            asked,
            only(&made::scene(64, 48)),
            "dimensions_match",
            only(&made::scene(48, 64)),
        ),
        case(
            "image.generate.illustration.svg",
            json!({"prompt": "a line", "max_paths": 2}),
            json!({"svg": "<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0L9 9'/></svg>"}),
            "has_path",
            json!({"svg": "<svg xmlns='http://www.w3.org/2000/svg'><rect width='9'/></svg>"}),
        ),
        case(
            "image.edit.background-remove",
            jpeg.clone(),
            json!({"image_b64": b64(&cut), "mask_b64": b64(&mask)}),
            "mask_is_binary",
            json!({"image_b64": b64(&cut), "mask_b64": b64(&grey)}),
        ),
        case(
            "image.upscale.2x",
            jpeg.clone(),
            only(&made::enlarged(2)),
            "exact_scale",
            only(&made::enlarged(3)),
        ),
        case(
            "image.upscale.4x",
            jpeg,
            only(&made::enlarged(4)),
            "exact_scale",
            only(&made::enlarged(2)),
        ),
    ]
}

fn audio() -> Vec<Case> {
    let recording = json!({"audio_url": "https://example.com/note.ogg"});
    let segment =
        |start: u64, end: u64, text: &str| json!({"start_ms": start, "end_ms": end, "text": text});
    let timed =
        |first: Value, second: Value| json!({"language": "it", "segments": [first, second]});
    vec![
        case(
            "audio.transcribe.json-with-timestamps",
            recording.clone(),
            timed(segment(0, 900, ITALIAN), segment(900, 1800, ITALIAN)),
            "timestamps_monotonic",
            timed(segment(1000, 1900, ITALIAN), segment(200, 900, ITALIAN)),
        ),
        case(
            "audio.transcribe.it.json-with-timestamps",
            recording.clone(),
            timed(segment(0, 900, ITALIAN), segment(900, 1800, ITALIAN)),
            "language_matches",
            json!({"language": "en", "segments": [segment(0, 900, ENGLISH)]}),
        ),
        case(
            "audio.transcribe.it.text",
            recording.clone(),
            json!({"text": ITALIAN}),
            "language_matches_text",
            json!({"text": ENGLISH}),
        ),
        case(
            "audio.translate.it.en",
            recording,
            json!({"text": ENGLISH}),
            "language_matches_text",
            json!({"text": ITALIAN}),
        ),
        case(
            "audio.generate-speech.alloy.mp3",
            json!({"text": "Good morning, market."}),
            json!({"audio_b64": b64(TONE), "duration_ms": 1500}),
            "not_silent",
            json!({"audio_b64": b64(SILENCE), "duration_ms": 1500}),
        ),
    ]
}

fn texts() -> Vec<Case> {
    let asked = json!({"text": ENGLISH});
    let casual = "Customers love the new delivery service, the report says. Most of them want to \
        order again before the year is over, which is great news for all of us here.";
    let summary = |words: &str| json!({"summary": words});
    vec![
        case(
            "text.translate.en.it.business",
            asked.clone(),
            json!({"text": ITALIAN, "detected_lang": "en"}),
            "language_matches_text",
            json!({"text": casual}),
        ),
        case(
            "text.summarize.short",
            asked.clone(),
            summary("Customers like the new delivery."),
            "length_ratio",
            summary(ENGLISH),
        ),
        case(
            "text.summarize.medium",
            asked.clone(),
            summary("Happy customers of the new delivery service order again."),
            "length_ratio",
            summary("Good."),
        ),
        case(
            "text.summarize.long",
            asked.clone(),
            summary(
                "The report shows happy customers who like the new delivery service and order again.",
            ),
            "length_ratio",
            summary("Customers are happy."),
        ),
        case(
            "text.rewrite.formal",
            asked.clone(),
            json!({"text": casual}),
            "length_ratio",
            json!({"text": "Customers are pleased."}),
        ),
        case(
            "text.rewrite.casual",
            asked.clone(),
            json!({"text": casual}),
            // v1's schema wants something to read, v0 a check of its own.
            "not_empty|matches_schema",
            json!({"text": "  "}),
        ),
        case(
            "text.expand.2x",
            asked,
            json!({"text": format!("{ENGLISH} {casual}")}),
            "length_ratio",
            json!({"text": "Shorter."}),
        ),
    ]
}

fn code() -> Vec<Case> {
    let add = "def add(a, b):\n    return a + b\n";
    let ran = |exit_code: i64, duration_ms: u64| {
        json!({"stdout": "3\n", "stderr": "", "exit_code": exit_code, "duration_ms": duration_ms,
            "truncated": false})
    };
    let finding = |line: u64| json!({"severity": "high", "line": line, "message": "no types"});
    vec![
        case(
            "code.generate.python.script",
            json!({"task": "print the squares"}),
            json!({"code": "for n in range(5):\n    print(n * n)\n", "deps": []}),
            "parses_as_language",
            json!({"code": "for n in range(5)\n    print(n * n\n"}),
        ),
        case(
            "code.generate.python.function",
            json!({"signature": "def add(a: int, b: int) -> int", "behavior": "adds"}),
            json!({"code": add}),
            "signature_matches",
            json!({"code": "def sub(a, b):\n    return a - b\n"}),
        ),
        case(
            "code.review.python",
            json!({"code": add}),
            json!({"findings": [finding(1)]}),
            "lines_in_code",
            json!({"findings": [finding(40)]}),
        ),
        case(
            "code.test.python",
            json!({"code": add, "test_framework": "pytest"}),
            json!({"tests": "def test_add():\n    assert add(1, 2) == 3\n"}),
            "references_code",
            json!({"tests": "def test_nothing():\n    assert True\n"}),
        ),
        case(
            "code.translate.python.javascript",
            json!({"code": add}),
            json!({"code": "const add = (a, b) => a + b;\n"}),
            "parses_as_language",
            json!({"code": add}),
        ),
        case(
            "code.execute.sandboxed",
            json!({"code": "print(1 + 2)", "timeout_ms": 1000}),
            ran(0, 40),
            "duration_within_timeout",
            ran(0, 9000),
        ),
    ]
}

fn data() -> Vec<Case> {
    let url = "https://example.com/lamp";
    let found = |url: &str| json!({"url": url, "title": "A lamp", "snippet": "It shines."});
    let page = |extracted: Value| {
        json!({"url": url, "extracted": extracted, "confidence": 0.9,
            "extracted_at": "2026-11-15T10:00:00Z"})
    };
    let stock = |price: f64, currency: &str| json!({"ticker": "ACME", "price": price, "currency": currency, "timestamp": 1_794_000_000});
    let coin = |vs: &str| json!({"symbol": "btc", "price": 90_000.5, "vs": vs, "timestamp": 1_794_000_000});
    let weather = |degrees: f64| {
        json!({"location": "Rome", "temperature_c": degrees, "conditions": "sunny",
            "observed_at": "2026-11-15T10:00:00Z"})
    };
    let place = |x: f64| {
        json!({"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, 41.9]},
            "properties": {"temperature_c": 18.5}})
    };
    let profile = |name: &str| {
        json!({"profile": {"url": "https://www.linkedin.com/in/ada/", "name": name,
            "headline": "Analyst", "source": "apify"}})
    };
    let rome = json!({"location": "Rome"});
    vec![
        case(
            "data.lookup.weather.json",
            rome.clone(),
            weather(18.5),
            "temperature_in_range",
            weather(300.0),
        ),
        case(
            "data.lookup.weather.geojson",
            rome.clone(),
            place(12.5),
            "coordinates_on_earth",
            place(412.5),
        ),
        case(
            "data.lookup.weather.summary-text",
            rome,
            json!({"summary": "Sunny in Rome with 18 degrees."}),
            "matches_schema",
            json!({"summary": ""}),
        ),
        case(
            "data.lookup.web-search",
            json!({"query": "lamp", "limit": 2}),
            json!({"results": [found(url), found("https://example.org/")]}),
            "limit_honored",
            json!({"results": [found(url), found(url), found(url)]}),
        ),
        case(
            "data.extract.from-url",
            json!({"url": url, "fields": ["title", "price_currency"]}),
            page(json!({"title": "A lamp", "price_currency": "EUR"})),
            "field_conventions",
            page(json!({"title": "A lamp", "price_currency": "euros"})),
        ),
        case(
            "data.scrape.json",
            json!({"url": url, "schema": {"type": "object", "required": ["name"]}}),
            json!({"data": {"name": "A lamp"}}),
            "fields_present|fits_the_schema",
            json!({"data": {"price": 12}}),
        ),
        case(
            "data.lookup.stock-price",
            json!({"ticker": "ACME"}),
            stock(12.5, "USD"),
            "currency_code",
            stock(12.5, "QQQ"),
        ),
        case(
            "data.lookup.crypto-price",
            json!({"symbol": "BTC", "vs": "eur"}),
            coin("EUR"),
            "vs_matches",
            coin("usd"),
        ),
        case(
            "research.linkedin.profile.enrich",
            json!({"profile_url": "https://www.linkedin.com/in/ada"}),
            profile("Ada"),
            "matches_schema",
            profile(" "),
        ),
        chart(),
    ]
}

fn chart() -> Case {
    let picture = |bytes: &[u8]| json!({"image_b64": b64(bytes), "width": 80, "height": 64, "chart_type": "bar"});
    case(
        "chart.generate.from-data",
        json!({"data": [{"x": "a", "y": 1}, {"x": "b", "y": 3}], "chart_type": "bar",
            "width": 80, "height": 64}),
        picture(&made::scene(80, 64)),
        "not_blank",
        picture(&made::even(80, 64, 255)),
    )
}

fn numbers() -> Vec<Case> {
    let unit = |dim: usize, value: f64| -> Value {
        let vector: Vec<f64> = (0..dim).map(|n| if n % 2 == 0 { value } else { -value }).collect();
        json!({"vector": vector, "dim": dim})
    };
    let labels = |first: &str, confidence: f64| {
        json!({"labels": [{"label": first, "confidence": confidence},
            {"label": "dog", "confidence": 0.2}]})
    };
    let jpeg = json!({"image_b64": b64(JPEG)});
    let text = json!({"text": "I like this market."});
    vec![
        case(
            "compute.math.symbolic",
            json!({"expression": "diff(x^3 + sin(x), x)"}),
            json!({"result": "3*x**2 + cos(x)"}),
            "agrees_numerically",
            json!({"result": "3*x**2 - cos(x)"}),
        ),
        case(
            "compute.math.numeric",
            json!({"expression": "sqrt(a^2 + b^2) / 3", "vars": {"a": 3, "b": 4}, "precision": 4}),
            json!({"result": 1.6667}),
            "value_recomputed",
            json!({"result": 1.7}),
        ),
        case(
            "compute.statistics.stddev",
            json!({"data": [2, 4, 4, 4, 5, 5, 7, 9]}),
            json!({"result": 2.0}),
            "value_recomputed",
            json!({"result": 2.5}),
        ),
        case(
            "embed.text.text-embedding-3-small",
            text.clone(),
            unit(1536, (1.0_f64 / 1536.0).sqrt()),
            "model_dimension",
            unit(512, 0.1),
        ),
        case(
            "embed.image.clip-vit-l-14",
            jpeg.clone(),
            unit(768, 0.3),
            "not_constant",
            unit(768, 0.0),
        ),
        case(
            "classify.image.coco-categories",
            jpeg,
            labels("cat", 0.8),
            "labels_in_taxonomy",
            labels("unicorn", 0.8),
        ),
        case(
            "classify.text.topics",
            text.clone(),
            labels("cat", 0.8),
            "confidence_sum",
            labels("cat", 0.3),
        ),
        case(
            "classify.text.sentiment",
            text.clone(),
            json!({"sentiment": "positive", "confidence": 0.9}),
            "matches_schema",
            json!({"sentiment": "happy", "confidence": 0.9}),
        ),
        case(
            "classify.text.toxicity",
            text,
            json!({"toxic": false, "confidence": 0.97}),
            "matches_schema",
            json!({"toxic": false, "confidence": 1.2}),
        ),
    ]
}
