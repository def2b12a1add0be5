use super::{multibase::*, *};

const PUBLIC: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";
const SECRET: &str = "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq";

/// What says that an Ed25519 secret key follows.
fn secret() -> SecretKey {
    let bytes = decode(SECRET).unwrap();
    let seed = bytes.strip_prefix(&[0x80, 0x26]).unwrap();
    SecretKey::from_seed(seed.try_into().unwrap())
}

/// The unsecured credential of the vc-di-eddsa test vectors.
fn alumni() -> Value {
    json!({
        "@context": [
            "https://www.w3.org/ns/credentials/v2",
            "https://www.w3.org/ns/credentials/examples/v2"
        ],
        "id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33",
        "type": ["VerifiableCredential", "AlumniCredential"],
        "name": "Alumni Credential",
        "description": "A minimum viable example of an Alumni Credential.",
        "issuer": "https://vc.example/issuers/5678",
        "validFrom": "2023-01-01T00:00:00Z",
        "credentialSubject": {
            "id": "did:example:abcdefgh",
            "alumniOf": "The School of Examples"
        }
    })
}

fn options() -> Value {
    json!({
        "created": "2023-02-24T23:36:38Z",
        "verificationMethod": verification_method(&secret().public()),
        "proofPurpose": "assertionMethod",
    })
}

#[test]
fn the_w3c_vector_comes_out_bit_for_bit() {
    let key = secret();
    assert_eq!(of_key(&key.public()), PUBLIC);
    assert_eq!(to_key(PUBLIC), Some(key.public()));
    let document = alumni();
    let hash = json_sha256(&document).unwrap().to_string();
    assert_eq!(hash, "59b7cb6251b8991add1ce0bc83107e3db9dbbab5bd2c28f687db1a03abc92f19");
    let secured = secure(&document, &options(), &key).unwrap();
    let mut proof = secured["proof"].as_object().unwrap().clone();
    let value = proof.remove("proofValue").unwrap();
    let hash = json_sha256(&proof).unwrap().to_string();
    assert_eq!(hash, "66ab154f5c2890a140cb8388a22a160454f80575f6eae09e5a097cabe539a1db");
    let expected =
        "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX";
    assert_eq!(value, expected);
    check(&secured, &key.public()).unwrap();
}

#[test]
fn what_was_changed_is_found() {
    let key = secret();
    let secured = secure(&alumni(), &options(), &key).unwrap();
    let altered = |pointer: &str, value: Value| {
        let mut altered = secured.clone();
        *altered.pointer_mut(pointer).unwrap() = value;
        check(&altered, &key.public()).unwrap_err()
    };
    assert_eq!(altered("/name", json!("x")), Fault::BadSignature);
    assert_eq!(altered("/proof/created", json!("2024-02-24T23:36:38Z")), Fault::BadSignature);
    assert_eq!(altered("/@context/0", json!("x")), Fault::OtherContext);
    assert_eq!(altered("/proof/cryptosuite", json!("x")), Fault::BadProof { field: "cryptosuite" });
    assert_eq!(altered("/proof/proofValue", json!("z1")), Fault::BadProof { field: "proofValue" });
    assert_eq!(altered("/proof", json!(null)), Fault::NoProof);
    // A context at the end was not there when it was signed, and may be.
    let mut extended = secured.clone();
    extended["@context"].as_array_mut().unwrap().push(json!("https://more.example/"));
    check(&extended, &key.public()).unwrap();
    let other = SecretKey::from_seed([1; 32]).public();
    assert_eq!(check(&secured, &other), Err(Fault::BadSignature));
}

#[test]
fn base58_keeps_zeros_and_refuses_what_it_has_no_digit_for() {
    for bytes in [&b""[..], &[0], &[0, 0, 1], &[255; 40], b"Hello World!"] {
        assert_eq!(decode(&encode(bytes)).unwrap(), bytes);
    }
    assert_eq!(encode(b"Hello World!"), "z2NEpo7TZRRrLZSi2U");
    for bad in ["", "2NEpo7", "z0", "zI", "zl", "zO", "zü"] {
        assert_eq!(decode(bad), None, "{bad}");
    }
    assert_eq!(decode(&format!("z{}", "1".repeat(1000))), None);
}
