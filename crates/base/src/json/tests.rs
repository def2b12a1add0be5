use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json, value::RawValue};

use super::*;

/// The published test data of RFC 8785's authors: what comes in and what must come out.
const PUBLISHED: &[(&str, &str, &str)] = &[
    (
        "arrays",
        "[\n  56,\n  {\n    \"d\": true,\n    \"10\": null,\n    \"1\": [ ]\n  }\n]",
        r#"[56,{"1":[],"10":null,"d":true}]"#,
    ),
    (
        "french",
        r#"{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":   "ingnore locale"}"#,
        r#"{"peach":"This sorting order","péché":"is wrong according to French","pêche":"but canonicalization MUST","sin":"ingnore locale"}"#,
    ),
    (
        "structures",
        r#"{"1": {"f": {"f": "hi","F": 5} ,"\n": 56.0}, "10": { }, "": "empty", "a": { }, "111": [ {"e": "yes","E": "no" } ], "A": { }}"#,
        r#"{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"E":"no","e":"yes"}],"A":{},"a":{}}"#,
    ),
    ("unicode", r#"{"Unnormalized Unicode":"A\u030a"}"#, "{\"Unnormalized Unicode\":\"A\u{30a}\"}"),
    (
        "values",
        r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]}"#,
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
    ),
    (
        "weird",
        r#"{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\u000a": "Newline", "1": "One", "\u0080": "Control\u007f",
            "\ud83d\ude02": "Smiley", "\u00f6": "Latin Small Letter O With Diaeresis",
            "\ufb33": "Hebrew Letter Dalet With Dagesh", "</script>": "Browser Challenge"}"#,
        "{\"\\n\":\"Newline\",\"\\r\":\"Carriage Return\",\"1\":\"One\",\"</script>\":\"Browser Challenge\",\"\u{80}\":\"Control\u{7f}\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😂\":\"Smiley\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
    ),
];

#[test]
fn published_vectors() {
    for (name, input, output) in PUBLISHED {
        let value = parse(input.as_bytes()).unwrap();
        assert_eq!(to_string(&value).unwrap(), *output, "{name}");
        let raw: Box<RawValue> = serde_json::from_str(input).unwrap();
        assert_eq!(to_string(&raw).unwrap(), *output, "{name} as raw text");
    }
}

/// RFC 8785, appendix B.
#[test]
fn numbers_of_the_rfc() {
    let table: &[(u64, &str)] = &[
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7fefffffffffffff, "1.7976931348623157e+308"),
        (0xffefffffffffffff, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xc340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44b52d02c7e14af5, "9.999999999999997e+22"),
        (0x44b52d02c7e14af6, "1e+23"),
        (0x44b52d02c7e14af7, "1.0000000000000001e+23"),
        (0x444b1ae4d6e2ef4e, "999999999999999700000"),
        (0x444b1ae4d6e2ef4f, "999999999999999900000"),
        (0x444b1ae4d6e2ef50, "1e+21"),
        (0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"),
        (0x3eb0c6f7a0b5ed8d, "0.000001"),
        (0x41b3de4355555553, "333333333.3333332"),
        (0x41b3de4355555554, "333333333.33333325"),
        (0x41b3de4355555555, "333333333.3333333"),
        (0x41b3de4355555556, "333333333.3333334"),
        (0x41b3de4355555557, "333333333.33333343"),
        (0xbecbf647612f3696, "-0.0000033333333333333333"),
        (0x43143ff3c1cb0959, "1424953923781206.2"),
    ];
    for (bits, text) in table {
        assert_eq!(to_string(&f64::from_bits(*bits)).unwrap(), *text, "{bits:x}");
    }
    for bits in [0x7fffffffffffffff, 0x7ff0000000000000, 0xfff0000000000000] {
        assert_eq!(to_string(&f64::from_bits(bits)), Err(CanonicalError::NotFinite));
    }
}

#[test]
fn integers_beyond_the_safe_range_are_refused() {
    assert_eq!(to_string(&MAX_INTEGER).unwrap(), "9007199254740991");
    assert_eq!(to_string(&-MAX_INTEGER).unwrap(), "-9007199254740991");
    assert_eq!(to_string(&i128::from(MAX_INTEGER)).unwrap(), "9007199254740991");
    let too_large = |integer| Err(CanonicalError::IntegerTooLarge { integer });
    assert_eq!(to_string(&(MAX_INTEGER + 1)), too_large(1 << 53));
    assert_eq!(to_string(&(-MAX_INTEGER - 1)), too_large(-(1 << 53)));
    assert_eq!(to_string(&i64::MIN), too_large(i64::MIN.into()));
    assert_eq!(to_string(&u64::MAX), too_large(u64::MAX.into()));
    assert_eq!(to_string(&i128::MIN), too_large(i128::MIN));
    // Both JCS crates round this silently to ...992.
    let value = json!(9007199254740993_u64);
    assert_eq!(to_string(&value), too_large(9007199254740993));
    assert_eq!(serde_jcs::to_string(&value).unwrap(), "9007199254740992");
    assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), "9007199254740992");
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Unit,
    Newtype(u8),
    Tuple(u8, Option<u8>),
    Struct { b: u8, a: char },
}

#[test]
fn every_kind_of_rust_value() {
    #[derive(Serialize)]
    struct All<'a> {
        z: (),
        shapes: Vec<Shape>,
        pair: (f32, i8),
        map: BTreeMap<char, &'a str>,
        by_shape: BTreeMap<&'a str, Option<bool>>,
        a: &'a RawValue,
    }
    let raw: Box<RawValue> = serde_json::from_str(r#"{ "y" : 1.0, "x" : [ 1e0 ] }"#).unwrap();
    let all = All {
        z: (),
        shapes: vec![
            Shape::Unit,
            Shape::Newtype(1),
            Shape::Tuple(2, None),
            Shape::Struct { b: 3, a: '"' },
        ],
        pair: (0.5, -1),
        map: [('k', "v")].into(),
        by_shape: [("none", None), ("some", Some(true))].into(),
        a: &raw,
    };
    assert_eq!(
        to_string(&all).unwrap(),
        r#"{"a":{"x":[1],"y":1},"by_shape":{"none":null,"some":true},"map":{"k":"v"},"pair":[0.5,-1],"shapes":["unit",{"newtype":1},{"tuple":[2,null]},{"struct":{"a":"\"","b":3}}],"z":null}"#
    );
    assert_eq!(to_string(&serde_bytes_like(&[1, 2])).unwrap(), "[1,2]");
}

fn serde_bytes_like(bytes: &'static [u8]) -> impl Serialize {
    struct Bytes(&'static [u8]);
    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }
    Bytes(bytes)
}

/// A map that may hold a key twice or keys out of order, as no real one does.
struct Entries(Vec<(String, u8)>);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

fn entries(keys: &[&str]) -> Entries {
    Entries(keys.iter().zip(0..).map(|(key, value)| ((*key).to_owned(), value)).collect())
}

#[test]
fn keys_must_be_strings_and_unique() {
    assert_eq!(to_string(&BTreeMap::from([(1, 1)])), Err(CanonicalError::KeyNotString));
    assert_eq!(to_string(&BTreeMap::from([(true, 1)])), Err(CanonicalError::KeyNotString));
    assert_eq!(to_string(&BTreeMap::from([(Some("a"), 1)])), Err(CanonicalError::KeyNotString));
    assert_eq!(to_string(&BTreeMap::from([((), 1)])), Err(CanonicalError::KeyNotString));
    let twice = Err(CanonicalError::DuplicateKey { key: "a".into() });
    assert_eq!(to_string(&entries(&["a", "a"])), twice);
    assert_eq!(to_string(&entries(&["a", "b", "a"])), twice);
    assert_eq!(
        to_string(&entries(&["", "\u{ffff}", "\u{10000}"])).unwrap(),
        "{\"\":0,\"\u{10000}\":2,\"\u{ffff}\":1}"
    );
}

#[test]
fn an_error_leaves_the_output_alone() {
    let mut out = b"before".to_vec();
    assert!(write(&json!({"a": [1, 2, u64::MAX]}), &mut out).is_err());
    assert_eq!(out, b"before");
    write(&json!({"b": 1, "a": {}}), &mut out).unwrap();
    assert_eq!(out, br#"before{"a":{},"b":1}"#);
}

fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn depth_is_limited_both_ways() {
    let deepest = nested(MAX_DEPTH);
    let value = parse(deepest.as_bytes()).unwrap();
    assert_eq!(to_string(&value).unwrap(), deepest);
    assert_eq!(from_slice::<Value>(deepest.as_bytes()).unwrap(), value);
    assert_eq!(parse(nested(MAX_DEPTH + 1).as_bytes()), Err(ParseError::TooDeep));
    assert_eq!(parse("[{\"a\":".repeat(100_000).as_bytes()), Err(ParseError::TooDeep));
    assert_eq!(to_string(&vec![&value]), Err(CanonicalError::TooDeep));
    assert_eq!(to_string(&json!({ "a": value })), Err(CanonicalError::TooDeep));
    // What we keep it in ourselves may wrap it, and is read all the same.
    let kept = format!("{{\"kept\":[{deepest}]}}");
    assert_eq!(read_own::<Value>(kept.as_bytes()).unwrap(), json!({ "kept": [&value] }));
    assert!(read_own::<Value>(b"1 2").is_err());
    assert_eq!((depth(&json!(1)), depth(&value)), (0, MAX_DEPTH));
    // Raw text counts from where it stands.
    let raw = RawValue::from_string(deepest).unwrap();
    assert!(to_string(&raw).is_ok());
    assert_eq!(to_string(&vec![raw]), Err(CanonicalError::TooDeep));
}

#[test]
fn raw_text_is_parsed_strictly() {
    let raw = RawValue::from_string(r#"{"a":1,"a":2}"#.to_owned()).unwrap();
    let twice = ParseError::DuplicateKey { key: "a".to_owned() };
    assert_eq!(to_string(&raw), Err(CanonicalError::Raw(Box::new(twice))));
}

#[test]
fn a_key_that_occurs_twice_is_refused() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"b":{},"\u0061":2}"#, r#"[{"x":{"a":1,"a":1}}]"#] {
        assert_eq!(parse(text.as_bytes()), Err(ParseError::DuplicateKey { key: "a".to_owned() }));
    }
    assert!(parse(r#"{"a":{"a":1},"A":2}"#.as_bytes()).is_ok());
}

#[test]
fn numbers_that_would_not_survive_are_refused() {
    for number in [
        "9007199254740992",
        "-9007199254740992",
        "18446744073709551616",
        "1000000000000000000000000",
        "9007199254740992.5",
        "9007199254740992.0",
        "1e20",
        "-9.1e15",
        "1e400",
        "-1e400",
    ] {
        let refused = Err(ParseError::NumberTooLarge { number: number.to_owned() });
        assert_eq!(parse(number.as_bytes()), refused);
        assert_eq!(parse(format!("[{number}]").as_bytes()), refused);
    }
    let digits = "9".repeat(1000);
    assert!(parse(digits.as_bytes()).unwrap_err().to_string().len() < 120);
    for (number, canonical) in [
        ("9007199254740991", "9007199254740991"),
        ("9007199254740991.0", "9007199254740991"),
        ("1e21", "1e+21"),
        ("1e-400", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0e5", "0"),
        ("1E+2", "100"),
        // One of the doubles that a parser without exact rounding reads wrong in the last bit.
        ("1.0715660391465826e-75", "1.0715660391465826e-75"),
    ] {
        let value = parse(number.as_bytes()).unwrap();
        assert_eq!(to_string(&value).unwrap(), canonical, "{number}");
    }
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let malformed = |text: &[u8], line, column| match parse(text) {
        Err(ParseError::Malformed { line: l, column: c, .. }) => {
            assert_eq!((l, c), (line, column), "{}", String::from_utf8_lossy(text));
        }
        other => panic!("{} gave {other:?}", String::from_utf8_lossy(text)),
    };
    malformed(b"", 1, 1);
    malformed(b"  ", 1, 3);
    malformed(b"{} x", 1, 4);
    malformed(b"1 2", 1, 3);
    malformed(b"[1,]", 1, 4);
    malformed(b"[1 2]", 1, 4);
    malformed(b"[,1]", 1, 2);
    malformed(b"{\"a\":1,}", 1, 8);
    malformed(b"{\"a\" 1}", 1, 6);
    malformed(b"{a:1}", 1, 2);
    malformed(b"{\n  'a':1}", 2, 3);
    malformed(b"[\"\xc3\xa9\", nul]", 1, 7);
    malformed(b"nulll", 1, 5);
    malformed(b"NaN", 1, 1);
    malformed(b"-", 1, 2);
    malformed(b"+1", 1, 1);
    malformed(b".5", 1, 1);
    malformed(b"1.", 1, 3);
    malformed(b"1e", 1, 3);
    malformed(b"01", 1, 3);
    malformed(b"-01", 1, 4);
    malformed(b"0x10", 1, 2);
    malformed(b"\"abc", 1, 5);
    malformed(b"\"a\nb\"", 1, 3);
    malformed(b"\"\\x\"", 1, 2);
    malformed(b"\"\\u12g4\"", 1, 6);
    malformed(b"\"\\u12", 1, 6);
    malformed(b"\"\\", 1, 2);
    malformed(b"\xef\xbb\xbf1", 1, 1);
    malformed(b"[\xff]", 1, 2);
    malformed(b"\"\xed\xa0\x80\"", 1, 2);
    malformed(b"/* */ 1", 1, 1);
    for half in
        ["\\ud800", "\\ud800x", "\\ud800\\u0041", "\\udc00", "\\ud800\\ud800", "a\\uDBFF\\n"]
    {
        let text = format!("\"{half}\"");
        assert!(
            matches!(parse(text.as_bytes()), Err(ParseError::Malformed { reason, .. }) if reason.contains("surrogate")),
            "{text}"
        );
    }
    assert_eq!(parse(br#""\ud83d\uDE02 \/ \b\f""#).unwrap(), json!("😂 / \u{8}\u{c}"));
}

#[test]
fn a_wrong_shape_names_its_path() {
    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Outer {
        items: Vec<Inner>,
    }
    #[derive(Debug, Deserialize)]
    #[allow(dead_code)]
    struct Inner {
        size: u8,
    }
    let error = from_slice::<Outer>(br#"{"items":[{"size":1},{"size":"2"}]}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not what was expected here: items[1].size: invalid type: string \"2\", expected u8 at line 1 column 32"
    );
    let error = from_slice::<Outer>(br#"{"items":[{}]}"#).unwrap_err();
    assert!(
        matches!(&error, ParseError::WrongShape { reason } if reason.starts_with("items[0]: missing field `size`")),
        "{error}"
    );
    assert!(matches!(from_slice::<Outer>(b"[]"), Err(ParseError::WrongShape { .. })));
    assert!(matches!(from_slice::<u8>(br#"{"a":1,"a":1}"#), Err(ParseError::DuplicateKey { .. })));
    assert_eq!(from_slice::<f64>(b"1.0715660391465826e-75").unwrap(), 1.0715660391465826e-75);
}

fn any_text() -> impl Strategy<Value = String> {
    let any_plane = prop_oneof![
        0_u32..0x80,
        0x80_u32..0x800,
        0x800_u32..0x1_0000,
        0xe000_u32..0x1_0000,
        0x1_0000_u32..0x11_0000
    ];
    vec(any_plane.prop_filter_map("surrogate", char::from_u32), 0..6).prop_map(String::from_iter)
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-MAX_INTEGER..=MAX_INTEGER).prop_map(Value::from),
        any::<u64>().prop_map(f64::from_bits).prop_filter_map("not finite", |double| {
            serde_json::Number::from_f64(double).map(Value::Number)
        }),
        (any::<i32>(), 0..30).prop_map(|(n, e)| json!(f64::from(n) / 10_f64.powi(e))),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any_number(),
        any_text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec((any_text(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Whether the canonical form holds an integer that the strict parser refuses; only doubles give
/// one.
fn has_long_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.as_f64().is_some_and(|n| n.abs() > MAX_INTEGER as f64 && n.abs() < 1e21)
        }
        Value::Array(items) => items.iter().any(has_long_integer),
        Value::Object(entries) => entries.values().any(has_long_integer),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn agrees_with_both_other_implementations(value in any_value()) {
        let ours = to_string(&value).unwrap();
        prop_assert_eq!(&ours, &serde_json_canonicalizer::to_string(&value).unwrap());
        prop_assert_eq!(&ours, &serde_jcs::to_string(&value).unwrap());
    }

    #[test]
    fn canonical_form_is_stable(value in any_value()) {
        let once = to_vec(&value).unwrap();
        match parse(&once) {
            Ok(again) => prop_assert_eq!(to_vec(&again).unwrap(), once),
            Err(ParseError::NumberTooLarge { .. }) => prop_assert!(has_long_integer(&value)),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn reads_what_serde_json_reads(value in any_value(), pretty in any::<bool>()) {
        let write = if pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
        let text = write(&value);
        match parse(&text.unwrap()) {
            // Numbers may change their kind (-0.0 is 0), never their canonical form.
            Ok(read) => prop_assert_eq!(to_vec(&read).unwrap(), to_vec(&value).unwrap()),
            Err(ParseError::NumberTooLarge { .. }) => prop_assert!(has_long_integer(&value)),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    /// What is accepted stays accepted, and nothing that serde_json refuses is accepted.
    #[test]
    fn never_panics_and_is_never_laxer(
        value in any_value(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        for (place, byte) in changes {
            let place = place.index(text.len());
            text[place] = byte;
        }
        if let Ok(read) = parse(&text) {
            prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
            let canonical = to_vec(&read).unwrap();
            prop_assert_eq!(to_vec(&parse(&canonical).unwrap()).unwrap(), canonical);
        }
    }

    #[test]
    fn keys_come_out_in_utf16_order(keys in prop::collection::hash_set(any_text(), 0..12)) {
        let keys: Vec<String> = keys.into_iter().collect();
        let written = to_string(&entries(&keys.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
        let mut sorted: Vec<(usize, &String)> = keys.iter().enumerate().collect();
        sorted.sort_by_key(|(_, key)| key.encode_utf16().collect::<Vec<_>>());
        let list: Vec<String> = sorted
            .iter()
            .map(|(nth, key)| format!("{}:{nth}", to_string(key).unwrap()))
            .collect();
        prop_assert_eq!(written, format!("{{{}}}", list.join(",")));
    }
}

/// A measurement, not a check of behaviour: `cargo test --release -p skep-base speed -- --ignored
/// --nocapture`.
#[test]
#[ignore = "means something in a release build only"]
fn speed_beside_serde_json() {
    let line = |nth: u32| {
        json!({
            "agent_id": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
            "capability": "chart.generate.from-data",
            "checks": {"dimensions_match": true, "valid_png_magic": nth.is_multiple_of(2)},
            "completed_at": "2026-05-16T11:00:00.000Z",
            "latency_ms": nth,
            "note": "quoted \"text\" with a line\nbreak",
            "score": f64::from(nth) / 7.0,
            "tags": ["a", "b", null],
        })
    };
    let value = Value::Array((0..1000).map(line).collect());
    let best_of = |write: &dyn Fn() -> usize| {
        let times = (0..200).map(|_| {
            let start = std::time::Instant::now();
            assert!(std::hint::black_box(write()) > 1000);
            start.elapsed()
        });
        times.min().unwrap()
    };
    let theirs = best_of(&|| serde_json::to_vec(&value).unwrap().len());
    let ours = best_of(&|| to_vec(&value).unwrap().len());
    let peer = best_of(&|| serde_json_canonicalizer::to_vec(&value).unwrap().len());
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    println!(
        "serde_json {theirs:?}, canonical {ours:?} ({ratio:.2}x), serde_json_canonicalizer {peer:?}"
    );
    let small = line(1);
    let their_small =
        best_of(&|| (0..1000).map(|_| serde_json::to_vec(&small).unwrap().len()).sum());
    let our_small = best_of(&|| (0..1000).map(|_| to_vec(&small).unwrap().len()).sum());
    println!("one line, 1000 times: serde_json {their_small:?}, canonical {our_small:?}");
    let text = to_vec(&value).unwrap();
    let their_parse = best_of(&|| serde_json::from_slice::<Value>(&text).map(|_| 1001).unwrap());
    let our_parse = best_of(&|| parse(&text).map(|_| 1001).unwrap());
    println!("parse: serde_json {their_parse:?}, strict {our_parse:?}");
    assert!(ratio < 2.0);
}
