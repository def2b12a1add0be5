//! Results that are made to hurt.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    super::{check_params, is_shallow},
    fails,
    made::{self, JPEG, TONE, b64},
    verify,
};

const PHOTO: &str = "image.generate.photorealistic.png";

fn photo(bytes: &[u8]) -> Value {
    json!({"image_b64": b64(bytes), "width": 64, "height": 48})
}

#[test]
fn files_that_are_not_what_they_say_are_found() {
    let asked = json!({"prompt": "p", "width": 64, "height": 48});
    let whole = made::scene(64, 48);
    fails(PHOTO, "v0", &asked, &photo(&whole[..whole.len() / 2]), "png_decodes");
    fails(PHOTO, "v0", &asked, &photo(JPEG), "valid_png_magic");
    fails(PHOTO, "v0", &asked, &photo(&made::bomb()), "dimensions_within_limits");
    fails(PHOTO, "v0", &asked, &photo(b"\x89PNG\r\n\x1a\n"), "dimensions_within_limits");
    fails(PHOTO, "v0", &asked, &photo(&vec![7; 10_000_000]), "file_size_below_limit");
    for grey in [0, 255, 128] {
        fails(PHOTO, "v0", &asked, &photo(&made::even(64, 48, grey)), "not_blank");
    }
    let not_base64 = json!({"image_b64": "%%%%", "width": 64, "height": 48});
    fails(PHOTO, "v0", &asked, &not_base64, "valid_base64");
    // One flipped bit in the middle breaks the sum of its chunk.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fails(PHOTO, "v0", &asked, &photo(&flipped), "png_decodes");

    let voice = "audio.generate-speech.alloy.mp3";
    let text = json!({"text": "Good morning."});
    let sound = |bytes: &[u8]| json!({"audio_b64": b64(bytes), "duration_ms": 1500});
    fails(voice, "v0", &text, &sound(&whole), "mp3_decodes");
    fails(voice, "v0", &text, &sound(b"RIFF....WAVEfmt "), "mp3_decodes");
    fails(voice, "v0", &text, &sound(&TONE[..TONE.len() / 3]), "duration_matches");
    fails(voice, "v0", &text, &sound(b"ID3\x04\0\0\x7f\x7f\x7f\x7f"), "mp3_decodes");
}

#[test]
fn towers_and_entities_are_refused_and_nothing_panics() {
    let drawing = "image.generate.illustration.svg";
    let asked = json!({"prompt": "p"});
    let tower = format!("<svg>{}", "<g>".repeat(300_000));
    let laughs =
        "<!DOCTYPE svg [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]><svg><path d='M0'/>&b;</svg>";
    for svg in [tower.as_str(), laughs, "<svg", "<html/>"] {
        fails(drawing, "v0", &asked, &json!({"svg": svg}), "svg_parses");
    }
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert!(!is_shallow(&deep));
    let asked = json!({"url": "https://example.com"});
    fails("data.scrape.json", "v1", &asked, &json!({"data": deep}), "nesting_depth");
    let brackets = format!("{}1{}", "(".repeat(2000), ")".repeat(2000));
    let symbolic = "compute.math.symbolic";
    let asked = json!({"expression": "x"});
    fails(symbolic, "v0", &asked, &json!({"result": brackets}), "result_parses");
    let powers = "x^".repeat(2000) + "x";
    fails(symbolic, "v0", &asked, &json!({"result": powers}), "result_parses");

    // As long and as deep as a formula can be.
    let x = json!({"expression": "x"});
    for long in ["x+".repeat(1023) + "x", format!("x{}", "!".repeat(2047)), "-".repeat(2047) + "x"]
    {
        assert!(verify(symbolic, Some("v1"), &x, &json!({"result": long})).verifiable);
    }

    // A buyer's schema that would go round in circles is refused before anybody works.
    let circle = json!({"url": "https://example.com", "schema": {"$ref": "#"}});
    let scrape = "data.scrape.json";
    assert!(check_params(scrape, Some("v1"), &circle).is_err());
    assert!(!verify(scrape, Some("v1"), &circle, &json!({"data": {}})).verifiable);
    let pattern = json!({"type": "object", "properties": {"a": {"pattern": "(a|aa)+$"}}});
    let asked = json!({"url": "https://example.com", "schema": pattern});
    let slow = json!({"data": {"a": "a".repeat(100_000) + "b"}});
    fails(scrape, "v1", &asked, &slow, "fits_the_schema");

    // Whatever is done to a file, it is judged and not more.
    for (id, field, bytes, params) in [
        (
            PHOTO,
            "image_b64",
            made::scene(64, 48),
            json!({"prompt": "p", "width": 64, "height": 48}),
        ),
        ("image.upscale.2x", "image_b64", JPEG.to_vec(), json!({"image_b64": b64(JPEG)})),
        ("audio.generate-speech.a.mp3", "audio_b64", TONE.to_vec(), json!({"text": "Good."})),
    ] {
        let mut state = 7_u64;
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 20) as u8;
            }
            let mut result = json!({"width": 64, "height": 48, "duration_ms": 1500});
            result[field] = json!(b64(&bytes));
            assert!(verify(id, Some("v1"), &params, &result).verifiable);
        }
    }
}

/// Prints what the largest results take; nothing is asserted about a machine's speed.
#[test]
fn the_largest_results_are_looked_at() {
    let mut slowest = (Duration::ZERO, "");
    for (id, params, result) in largest() {
        let start = computed();
        let seen = verify(id, Some("v1"), &params, &result);
        let took = computed() - start;
        println!("{took:>10.1?}  {id}  {:?}", super::failed(&seen));
        slowest = slowest.max((took, id));
        assert!(seen.verifiable, "{seen:?}");
    }
    println!("slowest: {slowest:?}");
}

/// What this thread has computed so far, whoever else wants the machine.
fn computed() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn largest() -> Vec<(&'static str, Value, Value)> {
    let big = made::scene(4096, 4096);
    let small = made::scene(1024, 1024);
    let size = json!({"prompt": "p", "width": 4096, "height": 4096});
    let (cut, mask) = made::cut_out((4096, 4096));
    let noise: Vec<u8> = (0_u32..9_000_000)
        .scan(1_u32, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 24) as u8)
        })
        .collect();
    let noise = made::png((2000, 1500), png::ColorType::Rgb, |x, y| {
        let at = (y as usize * 2000 + x as usize) * 3;
        noise[at..at + 3].to_vec()
    });
    // Over an hour of sound: frames after frames.
    let long = TONE.repeat(10_000_000 / TONE.len());
    let words = "The customers of the delivery service are happy. ".repeat(5000);
    let code = "def add(a, b):\n    return [x for x in (a, b)]\n\n".repeat(1390);
    let numbers: Vec<f64> = (0..100_000).map(|n| f64::from(n * 7919 % 1009)).collect();
    let path = "<path d='M0 0L9 9C1 2 3 4 5 6'/>".repeat(60_000);
    let formula = "x*sin(x)+".repeat(290) + "1";
    let area = "x*sin(x)+".repeat(28) + "1";
    let tangles = [
        ("code.generate.python.script", "["),
        ("code.generate.bash.script", "$("),
        ("code.generate.c.script", "a*(b<"),
        ("code.generate.rust.script", "<a<b:"),
        ("code.generate.javascript.script", "`${a=>"),
        ("code.generate.go.script", "f({a["),
    ];
    let tangles = tangles.map(|(id, part)| {
        (id, json!({"task": "t"}), json!({"code": part.repeat(65_536 / part.len())}))
    });
    let mut all = vec![
        (PHOTO, size.clone(), json!({"image_b64": b64(&big), "width": 4096, "height": 4096})),
        (
            PHOTO,
            json!({"prompt": "p", "width": 2000, "height": 1500}),
            json!({"image_b64": b64(&noise), "width": 2000, "height": 1500}),
        ),
        ("image.upscale.4x", json!({"image_b64": b64(&small)}), json!({"image_b64": b64(&big)})),
        (
            "image.edit.background-remove",
            json!({"image_b64": b64(&big)}),
            json!({"image_b64": b64(&cut), "mask_b64": b64(&mask)}),
        ),
        (
            "image.generate.illustration.svg",
            json!({"prompt": "p"}),
            json!({"svg": format!("<svg>{path}</svg>")}),
        ),
        (
            "audio.generate-speech.alloy.mp3",
            json!({"text": words}),
            json!({"audio_b64": b64(&long), "duration_ms": 2_500_000}),
        ),
        ("text.translate.it.en.fluent", json!({"text": words}), json!({"text": words})),
        ("text.summarize.long", json!({"text": words}), json!({"summary": words})),
        ("code.generate.python.script", json!({"task": "t"}), json!({"code": code})),
        ("code.test.python", json!({"code": code, "test_framework": "p"}), json!({"tests": code})),
        ("compute.statistics.median", json!({"data": numbers}), json!({"result": 504.0})),
        ("compute.math.symbolic", json!({"expression": formula}), json!({"result": formula})),
        (
            "compute.math.symbolic",
            json!({"expression": format!("integrate({area}, x, 0, y)")}),
            json!({"result": "y"}),
        ),
    ];
    all.extend(tangles);
    all
}
