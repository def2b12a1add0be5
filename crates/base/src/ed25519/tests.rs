use proptest::prelude::*;
use serde_json::json;

use super::*;

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    hex::decode(hex).unwrap().try_into().unwrap()
}

/// RFC 8032, 7.1.
#[test]
fn vectors_of_the_rfc() {
    let table = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
    ];
    for (seed, public, message, signature) in table {
        let key = SecretKey::from_seed(bytes(seed));
        let message = hex::decode(message).unwrap();
        let signature = Signature(bytes(signature));
        assert_eq!(key.public(), PublicKey::from_bytes(bytes(public)).unwrap());
        assert_eq!(key.sign(&message), signature);
        assert_eq!(key.public().verify(&message, &signature), Ok(()));
        assert_eq!(key.public().verify(b"another", &signature), Err(BadSignature));
    }
}

/// The eight points of small order and every other way to write one of them.
#[test]
fn small_order_points_are_no_keys() {
    let high = "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
    let zero = "000000000000000000000000000000000000000000000000000000000000";
    let table = [
        format!("01{zero}00"),
        format!("01{zero}80"),
        format!("00{zero}00"),
        format!("00{zero}80"),
        format!("ec{high}7f"),
        format!("ec{high}ff"),
        format!("ed{high}7f"),
        format!("ed{high}ff"),
        format!("ee{high}7f"),
        format!("ee{high}ff"),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05".to_owned(),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85".to_owned(),
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a".to_owned(),
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa".to_owned(),
    ];
    for point in &table {
        assert_eq!(PublicKey::from_bytes(bytes(point)), Err(BadPublicKey::SmallOrder), "{point}");
    }
}

/// A coordinate y below 19 can be written as y + p too.
#[test]
fn points_in_a_second_spelling_are_no_keys() {
    let (mut not_canonical, mut canonical) = (0, 0);
    for y in 2..19 {
        for sign in [0x00, 0x80] {
            let mut second = [0xff; 32];
            second[0] = 0xed + y;
            second[31] = 0x7f | sign;
            match PublicKey::from_bytes(second) {
                Err(BadPublicKey::NotCanonical) => not_canonical += 1,
                Err(BadPublicKey::NotOnCurve) => {}
                other => panic!("{y} gave {other:?}"),
            }
            let mut first = [0; 32];
            first[0] = y;
            first[31] = sign;
            canonical += usize::from(PublicKey::from_bytes(first).is_ok());
        }
    }
    assert_eq!(not_canonical, canonical);
    assert!(canonical > 0);
}

/// The cases on which implementations disagree, from "Taming the many EdDSAs": keys and R of small
/// order (0 to 2), of mixed order (3 to 5), S beyond the group order (6, 7), R in a second spelling
/// (8, 9).
#[test]
fn disputed_signatures() {
    let table = [
        (
            "8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a0000000000000000000000000000000000000000000000000000000000000000",
        ),
        (
            "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
            "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
        ),
        (
            "aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
            "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e",
        ),
        (
            "9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
            "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
            "9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009",
        ),
        (
            "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
            "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
            "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed5125ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
        ),
        (
            "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
            "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
            "21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405",
        ),
        (
            "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
            "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
            "e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514",
        ),
        (
            "85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
            "442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
            "8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa19427e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22",
        ),
        (
            "fdaebc429f4a735932a160da1301080c13280eea8bc280d1b392c6b9e6ba3a5a",
            "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f454d370c8d9fc323a41450f8d513eafeb5b0697390c1e505a0d4ddc71f566607",
        ),
        (
            "84b698d39be126ff55fe45079e6c8bf64a0d7db6994560b4e96b7021eb39c1a1",
            "f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f084d5b99c2a9463d9c8bd5026916996984eeec87ddf1d3be329006ace1b37b09",
        ),
    ];
    let accepted = table.map(|(message, key, signature)| {
        PublicKey::from_bytes(bytes(key)).is_ok_and(|key| {
            key.verify(&hex::decode(message).unwrap(), &Signature(bytes(signature))).is_ok()
        })
    });
    // A key of mixed order is canonical and binds its message; only case 3 satisfies the plain
    // equation.
    assert_eq!(accepted, [false, false, false, true, false, false, false, false, false, false]);
}

/// S and S + L are the same scalar; only the smaller is a signature.
#[test]
fn malleable_s_is_refused() {
    let key = SecretKey::from_seed([1; 32]);
    let mut signature = key.sign(b"message");
    let order: [u8; 32] = bytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0;
    for (s, l) in signature.0[32..].iter_mut().zip(order) {
        let sum = u16::from(*s) + u16::from(l) + carry;
        *s = sum as u8;
        carry = sum >> 8;
    }
    assert_eq!(key.public().verify(b"message", &signature), Err(BadSignature));
}

#[test]
fn one_textual_form() {
    let key = SecretKey::from_seed([2; 32]);
    let public = key.public();
    let text = public.to_string();
    assert_eq!(text.len(), 43);
    assert_eq!(text.parse(), Ok(public));
    assert_eq!(serde_json::from_value::<PublicKey>(json!(public)).unwrap(), public);
    let signature = key.sign(b"m");
    assert_eq!(signature.to_string().parse(), Ok(signature));
    assert_eq!(serde_json::from_value::<Signature>(json!(signature)).unwrap(), signature);

    let padded = format!("{text}=");
    let hex = hex::encode(public.as_bytes());
    let standard = base64::engine::general_purpose::STANDARD_NO_PAD.encode([0xff; 32]);
    // The last character carries four bits; the two below them must be zero.
    let mut second = text.clone();
    let last = second.pop().unwrap();
    second.push(char::from(last as u8 + 1));
    for wrong in [padded, hex, standard, second, String::new(), text[1..].to_owned()] {
        assert_eq!(wrong.parse::<PublicKey>(), Err(BadPublicKey::Encoding), "{wrong}");
    }
    assert_eq!("AA".parse::<Signature>(), Err(ParseSignatureError));
}

#[test]
fn secrets_are_not_printed() {
    let key = SecretKey::from_seed([3; 32]);
    assert_eq!(format!("{key:?}"), "SecretKey(redacted)");
    assert_eq!(*key.seed(), [3; 32]);
}

#[test]
fn fingerprint_is_the_hash_of_the_raw_bytes() {
    let public = SecretKey::from_seed([4; 32]).public();
    assert_eq!(public.fingerprint(), sha256(public.as_bytes()));
    assert_eq!(public.did().to_string(), format!("did:swarm:{}", public.fingerprint()));
}

proptest! {
    #[test]
    fn any_changed_bit_is_noticed(
        seed in any::<[u8; 32]>(),
        message in proptest::collection::vec(any::<u8>(), 1..64),
        bit in any::<prop::sample::Index>(),
    ) {
        let key = SecretKey::from_seed(seed);
        let signature = key.sign(&message);
        prop_assert!(key.public().verify(&message, &signature).is_ok());

        let mut changed = signature;
        let at = bit.index(512);
        changed.0[at / 8] ^= 1 << (at % 8);
        prop_assert!(key.public().verify(&message, &changed).is_err());

        let mut other = message.clone();
        let at = bit.index(message.len() * 8);
        other[at / 8] ^= 1 << (at % 8);
        prop_assert!(key.public().verify(&other, &signature).is_err());
    }

    #[test]
    fn key_bytes_have_one_text(bytes in any::<[u8; 32]>()) {
        if let Ok(key) = PublicKey::from_bytes(bytes) {
            prop_assert_eq!(key.as_bytes(), &bytes);
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
}
