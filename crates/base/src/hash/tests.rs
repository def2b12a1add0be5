use serde_json::json;

use super::*;

#[test]
fn known_hashes() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(sha256(b"").to_string(), empty);
    assert_eq!(sha256(b"abc").to_string(), abc);
    assert_eq!(sha256_parts(&[]).to_string(), empty);
    assert_eq!(sha256_parts(&[b"a", b"", b"bc"]).to_string(), abc);
    assert_eq!(
        keccak256(b"").to_string(),
        "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    );
    assert_eq!(
        keccak256(b"abc").to_prefixed(),
        "0x4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    );
}

#[test]
fn json_is_hashed_in_its_canonical_form() {
    let hash = json_sha256(&json!({"b": 1.0, "a": "x"})).unwrap();
    assert_eq!(hash, sha256(br#"{"a":"x","b":1}"#));
    assert!(json_sha256(&f64::NAN).is_err());
}

#[test]
fn one_textual_form() {
    let hash = sha256(b"abc");
    assert_eq!(hash.to_string().parse(), Ok(hash));
    assert_eq!(serde_json::from_value::<Hash32>(json!(hash)).unwrap(), hash);
    let text = hash.to_string();
    for wrong in [&text.to_uppercase(), &text[1..], &hash.to_prefixed(), &format!("{text}0"), ""] {
        assert_eq!(wrong.parse::<Hash32>(), Err(ParseHashError), "{wrong}");
    }
}
