//! How keys, signatures and lists of limited length are written in the swarm's messages.

/// Signatures are 128 lower-case hex digits.
pub mod hex_signature {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use skep_base::ed25519::Signature;

    pub fn write(signature: &Signature) -> String {
        hex::encode(signature.as_bytes())
    }

    pub fn read(text: &str) -> Option<Signature> {
        super::from_hex(text).map(Signature::from_bytes)
    }

    pub fn serialize<S: Serializer>(signature: &Signature, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&write(signature))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Signature, D::Error> {
        let text = String::deserialize(from)?;
        let message = "a signature is 128 lower-case hex digits";
        read(&text).ok_or_else(|| de::Error::custom(message))
    }
}

/// Public keys are base64 of their DER form (RFC 8410); the raw 32 bytes in base64 or hex are read.
pub mod key_text {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de};
    use skep_base::ed25519::PublicKey;

    /// What comes before the 32 bytes of an Ed25519 key in DER.
    const DER_PREFIX: [u8; 12] =
        [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

    pub fn write(key: &PublicKey) -> String {
        STANDARD.encode([&DER_PREFIX[..], key.as_bytes()].concat())
    }

    pub fn read(text: &str) -> Option<PublicKey> {
        let raw: [u8; 32] = match super::from_hex(text) {
            Some(raw) => raw,
            None => {
                let bytes = STANDARD.decode(text).ok()?;
                bytes.strip_prefix(&DER_PREFIX).unwrap_or(&bytes).try_into().ok()?
            }
        };
        PublicKey::from_bytes(raw).ok()
    }

    pub fn serialize<S: Serializer>(key: &PublicKey, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&write(key))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PublicKey, D::Error> {
        let text = String::deserialize(from)?;
        read(&text).ok_or_else(|| de::Error::custom("an Ed25519 key in base64 is expected"))
    }

    /// The same where a key may be left out.
    pub mod option {
        use super::{Deserialize, Deserializer, PublicKey, Serializer, de, read, write};

        pub fn serialize<S: Serializer>(key: &Option<PublicKey>, to: S) -> Result<S::Ok, S::Error> {
            match key {
                Some(key) => to.serialize_str(&write(key)),
                None => to.serialize_none(),
            }
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<PublicKey>, D::Error> {
            let message = "an Ed25519 key in base64 is expected";
            Option::<String>::deserialize(from)?
                .map(|text| read(&text).ok_or_else(|| de::Error::custom(message)))
                .transpose()
        }
    }
}

/// Lists that have an end.
pub(super) mod at_most {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, de};

    fn check<E: de::Error>(len: usize, max: usize) -> Result<(), E> {
        let message = format_args!("at most {max} are allowed here, and there are {len}");
        if len > max { Err(E::custom(message)) } else { Ok(()) }
    }

    pub fn list<'de, D, T, const MAX: usize>(from: D) -> Result<Vec<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: Deserialize<'de>,
    {
        let list = Vec::deserialize(from)?;
        check(list.len(), MAX).map(|()| list)
    }

    pub fn map<'de, D, K, V, const MAX: usize>(from: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        D: Deserializer<'de>,
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
    {
        let map = BTreeMap::deserialize(from)?;
        check(map.len(), MAX).map(|()| map)
    }
}

/// Bytes from lower-case hex digits of exactly their length.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    fn digit(byte: u8) -> Option<u8> {
        match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        }
    }
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
