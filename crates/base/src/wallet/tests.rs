use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    eip712::{Domain, Field, digest, struct_hash, type_hash},
    *,
};

fn key(hex: &str) -> WalletKey {
    WalletKey::from_bytes(hex::decode(hex).unwrap().try_into().unwrap()).unwrap()
}

/// The second account of every local development chain.
fn seller() -> WalletKey {
    key("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d")
}

/// Signed with another implementation (viem; the first one with eth_account as well).
#[test]
fn objects_signed_elsewhere() {
    let table = [
        (
            r#"{"agent_id":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","nonce":"11111111-2222-4333-8444-555555555555"}"#,
            "1f0b32a2a1aa62ddff596c46b46b59f1724aa5d58ffd9e3297af9fe9072da533",
            "0x265f4f0bb0014b912391eb012fcd14c6996eb0d9988774cbf85e4831f54f90dd7913344b577f6ec1c4a1fb2c0caa1bf749e3d2a18e3430f91cda61a5ea24e0881b",
        ),
        (
            r#"{"agent_id":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","capability":"chart.generate.from-data","chain":"base","currency":"USDC","endpoint":"https://seller.example.com","first_call_free":true,"max_latency_ms":8000,"price_usdc":"0.02"}"#,
            "c715471f584da32f99b878f947f25184a05fa5c2a59670a0ddb7eaa8a4d9b9af",
            "0x054240bd7efc029d438edbb4bc7e69f900e67c50a15d99d821fdfda2ab61597f57a74e23a484c9e5243ffd454b1973a7143389900c929e0cbf970c1122b55abf1b",
        ),
        (
            r#"{"agent_id":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","amount_usdc_atomic":"20000","buyer":"0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc","capability":"chart.generate.from-data","completed_at":"2026-05-16T11:00:00.000Z","hire_id":"rcpt_00000000-0000-4000-8000-000000000001","network":"base","protocol_version":"swarmwage/v0.1","tx_hash":"0xabababababababababababababababababababababababababababababababab","verification":{"all_passed":true,"checks":{"dimensions_match":true,"valid_png_magic":true}}}"#,
            "662d433ae837d204060a505a8c8408370fef977de1e63ec70a37bea7e6be8313",
            "0xe4c61c315ffb5c34431aa57de24e802e813e8dd46901eef8beed424374f893f830d3c2f4c53fa918231d064105c3816dd5b0996c26fed430d2a2a0b82dee50b81b",
        ),
    ];
    for (text, hash, signature) in table {
        let object: Value = json::parse(text.as_bytes()).unwrap();
        assert_eq!(object_hash(&object).unwrap().to_string(), hash);
        let signed = seller().sign_object(&object).unwrap();
        assert_eq!(signed.to_string(), signature);
        assert_eq!(recover_object(&object, &signed), Ok(seller().address()));
    }
    assert_eq!(seller().address().to_string(), "0x70997970c51812dc3a010c7d01b50e0d17dc79c8");
}

#[test]
fn floats_are_not_signed() {
    let signature = seller().sign_object(&json!({"a": 1})).unwrap();
    for object in [json!({"a": 1.5}), json!([1.0]), json!({"a": {"b": [0.1]}})] {
        assert_eq!(seller().sign_object(&object), Err(SignObjectError::FloatInSignedObject));
        let refused = Err(RecoverObjectError::Object(SignObjectError::FloatInSignedObject));
        assert_eq!(recover_object(&object, &signature), refused);
    }
    let raw = serde_json::value::RawValue::from_string(r#"{"a":1e0}"#.to_owned()).unwrap();
    assert_eq!(seller().sign_object(&raw), Err(SignObjectError::FloatInSignedObject));
    assert!(matches!(seller().sign_object(&u64::MAX), Err(SignObjectError::Canonical(_))));
}

/// The example of the web3.js documentation.
#[test]
fn message_signed_elsewhere() {
    let key = key("4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318");
    assert_eq!(key.address().to_checksummed(), "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23");
    assert_eq!(
        message_digest(b"Some data").to_string(),
        "1da44b586eb0729ff70a73c326926f6ed5a25f5b056e7f47fbc6e58d86871655"
    );
    let signature = key.sign_message(b"Some data");
    assert_eq!(
        signature.to_string(),
        "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"
    );
    assert_eq!(recover_message(b"Some data", &signature), Ok(key.address()));
}

/// The example in EIP-712 itself.
#[test]
fn typed_data_of_the_eip() {
    let cow = WalletKey::from_bytes(keccak256(b"cow").0).unwrap();
    assert_eq!(cow.address().to_checksummed(), "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826");
    let domain = Domain {
        name: "Ether Mail".to_owned(),
        version: "1".to_owned(),
        chain_id: 1,
        verifying_contract: AgentId([0xcc; 20]),
    };
    assert_eq!(
        domain.separator().to_string(),
        "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"
    );
    let person = |name, wallet| {
        let person_type = type_hash("Person(string name,address wallet)");
        Field::Bytes32(struct_hash(person_type, &[Field::String(name), Field::Address(wallet)]))
    };
    let mail_type =
        type_hash("Mail(Person from,Person to,string contents)Person(string name,address wallet)");
    let mail = struct_hash(
        mail_type,
        &[
            person("Cow", cow.address()),
            person("Bob", AgentId([0xbb; 20])),
            Field::String("Hello, Bob!"),
        ],
    );
    assert_eq!(
        mail.to_string(),
        "c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e"
    );
    let digest = digest(domain.separator(), mail);
    assert_eq!(
        digest.to_string(),
        "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"
    );
    assert_eq!(
        cow.sign_digest(&digest).to_string(),
        "0x4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c"
    );
}

#[test]
fn fields_are_words() {
    let word = |field: Field<'_>| hex::encode(&eip712::encode(Hash32::ZERO, &[field])[32..]);
    assert_eq!(word(Field::Bool(true)), format!("{:064x}", 1));
    assert_eq!(word(Field::Bool(false)), format!("{:064x}", 0));
    assert_eq!(word(Field::Uint256(u128::MAX)), format!("{:064x}", u128::MAX));
    assert_eq!(
        word(Field::Address(AgentId([0xab; 20]))),
        format!("{}{}", "0".repeat(24), "ab".repeat(20))
    );
    assert_eq!(word(Field::Bytes(b"abc")), keccak256(b"abc").to_string());
    assert_eq!(word(Field::String("abc")), keccak256(b"abc").to_string());
    assert_eq!(word(Field::Bytes32(Hash32([7; 32]))), "07".repeat(32));
}

#[test]
fn a_signature_has_one_form() {
    let signature = seller().sign_message(b"m");
    let with = |change: &dyn Fn(&mut [u8; 65])| {
        let mut bytes = *signature.as_bytes();
        change(&mut bytes);
        WalletSignature::from_bytes(bytes)
    };
    let v = signature.as_bytes()[64];
    assert_eq!(with(&|bytes| bytes[64] = v - 27), Ok(signature));
    for v in [2, 26, 29, 255] {
        assert_eq!(with(&|bytes| bytes[64] = v), Err(BadWalletSignature::RecoveryByte { v }));
    }
    assert_eq!(with(&|bytes| bytes[..32].fill(0)), Err(BadWalletSignature::OutOfRange));
    assert_eq!(with(&|bytes| bytes[32..64].fill(0)), Err(BadWalletSignature::OutOfRange));
    assert_eq!(with(&|bytes| bytes[..32].fill(0xff)), Err(BadWalletSignature::OutOfRange));

    // The same signature with s replaced by n - s and the other v recovers the same key elsewhere.
    let parts = signature.parts().unwrap();
    let high = k256::ecdsa::Signature::from_scalars(*parts.r(), -*parts.s()).unwrap();
    let mirrored = with(&|bytes| {
        bytes[..64].copy_from_slice(&high.to_bytes());
        bytes[64] = 55 - v;
    });
    assert_eq!(mirrored, Err(BadWalletSignature::HighS));

    let text = signature.to_string();
    assert_eq!(text.parse(), Ok(signature));
    assert_eq!(serde_json::from_value::<WalletSignature>(json!(signature)).unwrap(), signature);
    for wrong in [&text[2..], &text[..130], "0x", ""] {
        assert_eq!(wrong.parse::<WalletSignature>(), Err(BadWalletSignature::Encoding));
    }
}

#[test]
fn keys_out_of_range_are_refused() {
    assert_eq!(WalletKey::from_bytes([0; 32]).err(), Some(BadWalletKey));
    assert_eq!(WalletKey::from_bytes([0xff; 32]).err(), Some(BadWalletKey));
    assert_eq!(format!("{:?}", seller()), "WalletKey(redacted)");
    assert_eq!(WalletKey::from_bytes(*seller().to_bytes()).unwrap().address(), seller().address());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn recovers_the_signer_and_nobody_else(
        secret in any::<[u8; 32]>(),
        message in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let Ok(key) = WalletKey::from_bytes(secret) else { return Ok(()) };
        let signature = key.sign_message(&message);
        prop_assert_eq!(recover_message(&message, &signature), Ok(key.address()));
        prop_assert_eq!(WalletSignature::from_bytes(*signature.as_bytes()), Ok(signature));
        let mut other = message.clone();
        other.push(0);
        prop_assert_ne!(recover_message(&other, &signature), Ok(key.address()));
    }
    /// Two implementations agree on whose a signature is, and on which are nobody's.
    #[test]
    fn signatures_are_read_as_elsewhere(
        (r, s, v) in (any::<[u8; 32]>(), any::<[u8; 32]>(), 27_u8..=28),
        digest in any::<[u8; 32]>(),
    ) {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&r);
        bytes[32..64].copy_from_slice(&s);
        bytes[32] &= 0x7f;
        bytes[64] = v;
        let Ok(signature) = WalletSignature::from_bytes(bytes) else { return Ok(()) };
        let id = k256::ecdsa::RecoveryId::new(v == 28, false);
        let parts = signature.parts().unwrap();
        let elsewhere = VerifyingKey::recover_from_prehash(&digest, &parts, id);
        let elsewhere = elsewhere.map(|key| address_of(&key)).ok();
        prop_assert_eq!(recover_digest(&Hash32(digest), &signature).ok(), elsewhere);
    }
}
