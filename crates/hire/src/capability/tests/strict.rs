//! What v0 lets through and v1 does not, and what both know about their subject.

use serde_json::{Value, json};

use super::{
    fails,
    made::{self, JPEG, TONE, b64},
    passes, verify,
};

/// Passes v0, and fails this check of v1.
#[track_caller]
fn only_strict(id: &str, params: Value, result: Value, check: &str) {
    passes(id, "v0", &params, &result);
    fails(id, "v1", &params, &result, check);
}

#[test]
fn v1_finds_more_in_files() {
    let asked = json!({"prompt": "noise", "width": 256, "height": 256});
    // Stripes of one pixel are not blank, and an even grey from afar.
    let stripes =
        made::png((256, 256), png::ColorType::Grayscale, |x, _| vec![(x % 2 * 255) as u8]);
    let stripes = json!({"image_b64": b64(&stripes)});
    only_strict("image.generate.illustration.png", asked, stripes, "perceptual_hash");
    let mut trailing = made::scene(64, 64);
    trailing.extend(b"something else");
    let asked = json!({"prompt": "p", "width": 64, "height": 64});
    let trailing = json!({"image_b64": b64(&trailing)});
    only_strict("image.generate.illustration.png", asked, trailing, "complete_file");

    let svg = |inner: &str| json!({"svg": format!("<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0L9 9'/>{inner}</svg>")});
    let drawing = "image.generate.illustration.svg";
    let asked = json!({"prompt": "p"});
    for (inner, check) in [
        ("<script>alert(1)</script>", "no_scripts"),
        ("<g onload='alert(1)'/>", "no_scripts"),
        ("<a href='javascript:alert(1)'/>", "no_scripts"),
        ("<image href='https://example.com/x.png'/>", "no_outside_references"),
        ("<path d=''/>", "path_data_valid"),
    ] {
        only_strict(drawing, asked.clone(), svg(inner), check);
    }

    let jpeg = json!({"image_b64": b64(JPEG)});
    let other = json!({"image_b64": b64(&made::even(96, 64, 250))});
    only_strict("image.upscale.2x", jpeg.clone(), other, "resembles_input");
    let (cut, _) = made::cut_out(made::JPEG_SIZE);
    let all = made::even(made::JPEG_SIZE.0, made::JPEG_SIZE.1, 255);
    let kept = json!({"image_b64": b64(&cut), "mask_b64": b64(&all)});
    only_strict("image.edit.background-remove", jpeg, kept, "mask_separates");

    let speech = json!({"audio_b64": b64(TONE), "duration_ms": 1900});
    let text = json!({"text": "Good morning, market."});
    let voice = "audio.generate-speech.alloy.mp3";
    only_strict(voice, text, speech, "duration_matches");
    let long = json!({"text": "word ".repeat(200)});
    let speech = json!({"audio_b64": b64(TONE), "duration_ms": 1500});
    only_strict(voice, long, speech, "pace_plausible");
}

#[test]
fn v1_finds_more_in_words_and_code() {
    let asked = json!({"text": "Please send me the invoice for the last month."});
    let same = json!({"text": "Please send me the invoice for the last month."});
    only_strict("text.rewrite.formal", asked, same, "differs_from_source");
    // Short texts are tolerated in v0.
    let asked = json!({"text": "Where is the station, please?"});
    let wrong = json!({"text": "Where is that station please"});
    only_strict("text.translate.en.it.fluent", asked, wrong, "language_matches_text");
    let segments = json!({"language": "en", "segments": [
        {"start_ms": 0, "end_ms": 900, "text": "hello there"},
        {"start_ms": 500, "end_ms": 1200, "text": "my friend"}]});
    let recording = json!({"audio_url": "https://example.com/a.mp3"});
    let timed = "audio.transcribe.json-with-timestamps";
    only_strict(timed, recording, segments, "segments_do_not_overlap");

    let asked = json!({"signature": "function add(a, b)", "behavior": "adds"});
    let one = json!({"code": "const add = a => a + 1;"});
    only_strict("code.generate.javascript.function", asked, one, "parameters_match");
    let fenced = json!({"code": "```\necho hello\n```"});
    let script = "code.generate.bash.script";
    fails(script, "v1", &json!({"task": "greet"}), &fenced, "no_markdown_fence");
    let open = json!({"code": "fun main() { println(\"}\")"});
    only_strict("code.generate.kotlin.script", json!({"task": "greet"}), open, "brackets_match");
    let quiet = json!({"stdout": "", "stderr": "", "exit_code": 1, "duration_ms": 3,
        "truncated": false});
    only_strict("code.execute.sandboxed", json!({"code": "x"}), quiet, "failure_explained");
    let finding = json!({"findings": [{"severity": "meh", "line": 1, "message": "m"}]});
    only_strict("code.review.ruby", json!({"code": "puts 1"}), finding, "matches_schema");
}

#[test]
fn v1_finds_more_in_data() {
    let found = json!({"results": []});
    only_strict("data.lookup.web-search", json!({"query": "lamp"}), found, "has_results");
    let price =
        json!({"symbol": "BTC", "price": 1, "vs": "usd", "timestamp": 1_794_000_000_000_u64});
    let asked = json!({"symbol": "BTC"});
    only_strict("data.lookup.crypto-price", asked, price, "timestamp_plausible");
    let schema = json!({"type": "object", "required": ["price"],
        "properties": {"price": {"type": "number"}}});
    let asked = json!({"url": "https://example.com", "schema": schema});
    let words = json!({"data": {"price": "twelve"}});
    only_strict("data.scrape.json", asked, words, "fits_the_schema");
    let profile = json!({"profile": {"url": "https://linkedin.com/in/bob", "name": "Bob",
        "headline": "h", "source": "apify"}});
    let asked = json!({"profile_url": "https://www.linkedin.com/in/ada"});
    only_strict("research.linkedin.profile.enrich", asked, profile, "same_profile");
    let long = json!({"vector": ([0.5, -0.5].repeat(768)), "dim": 1536});
    only_strict("embed.text.text-embedding-3-small", json!({"text": "t"}), long, "unit_norm");
    let labels = json!({"labels": [{"label": "a", "confidence": 0.2},
        {"label": "b", "confidence": 0.8}]});
    only_strict("classify.text.topics", json!({"text": "t"}), labels, "sorted_by_confidence");
    let svg = b64(b"<svg xmlns='http://www.w3.org/2000/svg'><rect width='9'/></svg>");
    let chart = json!({"image_b64": svg, "width": 64, "height": 64, "chart_type": "pie"});
    let asked = json!({"data": [{"x": 1, "y": 2}], "chart_type": "pie", "width": 64, "height": 64});
    only_strict("chart.generate.from-data", asked, chart, "valid_png_magic");
}

#[test]
fn formulas_are_computed_again() {
    let symbolic = "compute.math.symbolic";
    for (question, right, wrong) in [
        ("(x + 1)^2", "x^2 + 2x + 1", "x^2 + 1"),
        ("expand((a - b)*(a + b))", "a**2 - b**2", "a**2 + b**2"),
        ("integrate(2*x, x)", "x^2 + C", "x^3"),
        ("integrate(x^2, x, 0, 3)", "9", "8"),
        ("solve(x^2 - 4, x)", "[-2, 2]", "[-2, 3]"),
        ("x^2 = 9", "x = 3", "x = 4"),
        ("diff(x^4, x, 2)", "12x^2", "4x^3"),
        ("simplify(sin(x)^2 + cos(x)^2)", "1", "2"),
    ] {
        let params = json!({"expression": question});
        passes(symbolic, "v1", &params, &json!({"result": right}));
        fails(symbolic, "v0", &params, &json!({"result": wrong}), "agrees_numerically");
    }
    let params = json!({"expression": "diff(x^2, x)"});
    fails(symbolic, "v1", &params, &json!({"result": "2*y"}), "no_new_variables");
    fails(symbolic, "v0", &params, &json!({"result": "2*("}), "result_parses");
    // What cannot be computed here passes, and says so.
    let params = json!({"expression": "zeta(x)"});
    let seen = verify(symbolic, Some("v1"), &params, &json!({"result": "x"}));
    assert!(seen.all_passed && seen.checks.iter().any(|check| check.detail.is_some()), "{seen:?}");

    let numeric = "compute.math.numeric";
    for (expression, value) in [
        ("-2^2", -4.0),
        ("2^3^2", 512.0),
        ("5!/(3!*2!)", 10.0),
        ("max(1, 7, 3) % 4", 3.0),
        ("2pi", std::f64::consts::TAU),
        ("1.5e3 + log(e)", 1501.0),
    ] {
        let params = json!({"expression": expression});
        passes(numeric, "v1", &params, &json!({"result": value}));
        fails(numeric, "v1", &params, &json!({"result": value + 0.001}), "value_recomputed");
    }
    for (op, right, wrong) in
        [("mean", 3.0, 2.0), ("median", 2.5, 2.0), ("variance", 14.0 / 3.0, 3.6)]
    {
        let id = format!("compute.statistics.{op}");
        let params = json!({"data": [1, 2, 3, 6]});
        passes(&id, "v1", &params, &json!({"result": right}));
        fails(&id, "v1", &params, &json!({"result": wrong}), "value_recomputed");
    }
    let params = json!({"data": (1..=100).collect::<Vec<_>>()});
    passes("compute.statistics.percentile-95", "v1", &params, &json!({"result": 95.05}));
}

#[test]
fn code_is_read_in_six_languages() {
    for (language, good, bad) in [
        ("python", "import os\n\ndef f(x):\n    return [y for y in x]\n", "def f(:\n"),
        ("javascript", "export const f = async (x) => await x;\n", "const = 3;\n"),
        ("rust", "fn main() { println!(\"{}\", 1); }\n", "fn main( { }\n"),
        ("go", "package main\n\nfunc main() {}\n", "package main\n\nfunc main( {}\n"),
        ("bash", "for f in *.txt; do echo \"$f\"; done\n", "for f in; do done fi\n"),
        ("c", "int main(void) { return 0; }\n", "int main(void) { return 0;\n"),
    ] {
        let id = format!("code.generate.{language}.script");
        let task = json!({"task": "anything"});
        passes(&id, "v1", &task, &json!({"code": good}));
        fails(&id, "v0", &task, &json!({"code": bad}), "parses_as_language");
    }
    for (language, signature, good) in [
        ("rust", "fn add<T>(a: T, b: T) -> T", "fn add<T>(a: T, b: T) -> T { a }"),
        (
            "go",
            "func (s *S) Add(a, b int) int",
            "package p\nfunc (s *S) Add(a, b int) int { return 1 }",
        ),
        ("c", "int add(int a, int b)", "int add(int a, int b) { return a + b; }"),
        ("java", "int add(int a, int b)", "class A { int add(int a, int b) { return a + b; } }"),
        ("bash", "greet()", "greet() { echo hi; }"),
        ("javascript", "const add = (a, b) =>", "function add(a, b) { return a + b; }"),
    ] {
        let id = format!("code.generate.{language}.function");
        let params = json!({"signature": signature, "behavior": "adds"});
        passes(&id, "v1", &params, &json!({"code": good}));
        let other = good.replace("add", "sub").replace("Add", "Sub").replace("greet", "wave");
        fails(&id, "v0", &params, &json!({"code": other}), "signature_matches");
    }
}

#[test]
fn eleven_languages_are_told_apart() {
    let said = [
        ("en", "We would like to thank you for your order, which will arrive on Tuesday morning."),
        ("it", "Vorremmo ringraziarvi per il vostro ordine, che arriverà martedì mattina presto."),
        ("es", "Queremos agradecerle su pedido, que llegará el martes por la mañana a su casa."),
        ("de", "Wir möchten Ihnen für Ihre Bestellung danken, die am Dienstagmorgen eintrifft."),
        ("fr", "Nous vous remercions de votre commande, qui arrivera mardi matin chez vous."),
        ("pt", "Gostaríamos de agradecer o seu pedido, que chegará na terça-feira de manhã."),
        ("ja", "ご注文ありがとうございます。火曜日の朝に到着する予定です。"),
        ("zh", "感谢您的订购，货物将于星期二上午送达您的住处，请注意查收。"),
        ("ko", "주문해 주셔서 감사합니다. 화요일 아침에 도착할 예정입니다."),
        ("ru", "Благодарим вас за заказ, который прибудет во вторник утром по вашему адресу."),
        ("ar", "نشكركم على طلبكم الذي سيصل صباح يوم الثلاثاء إلى عنوانكم المسجل لدينا."),
    ];
    for (code, text) in said {
        for (target, _) in said {
            let id = format!("audio.translate.nl.{target}");
            let params = json!({"audio_url": "https://example.com/a.ogg"});
            for version in ["v0", "v1"] {
                let result = json!({"text": text});
                match code == target {
                    true => passes(&id, version, &params, &result),
                    false => fails(&id, version, &params, &result, "language_matches_text"),
                }
            }
        }
        // A translation into a dense writing is short, and not too short.
        if code != "en" {
            let id = format!("text.translate.en.{code}.fluent");
            passes(&id, "v1", &json!({"text": said[0].1}), &json!({"text": text}));
        }
    }
}
