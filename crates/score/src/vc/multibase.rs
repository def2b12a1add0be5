//! Multibase with base58btc (`z`), as keys and proofs of credentials are written.

use skep_base::ed25519::PublicKey;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// What says that an Ed25519 public key follows.
const ED25519_PUBLIC: [u8; 2] = [0xed, 0x01];
/// The longest text that is read; a signature has 89 characters. Reading takes its square.
const TEXT_LEN_MAX: usize = 256;

/// A public key as a Multikey.
pub fn of_key(key: &PublicKey) -> String {
    encode(&[&ED25519_PUBLIC[..], key.as_bytes()].concat())
}

/// The public key of a Multikey.
pub fn to_key(text: &str) -> Option<PublicKey> {
    let bytes = decode(text)?;
    let key = bytes.strip_prefix(&ED25519_PUBLIC)?;
    PublicKey::from_bytes(key.try_into().ok()?).ok()
}

pub fn encode(bytes: &[u8]) -> String {
    // Digits in base 58, lowest first.
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut text = String::from("z");
    text.extend(std::iter::repeat_n('1', zeros));
    text.extend(digits.iter().rev().map(|digit| char::from(ALPHABET[usize::from(*digit)])));
    text
}

pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix('z').filter(|text| text.len() <= TEXT_LEN_MAX)?;
    // Bytes, lowest first.
    let mut bytes: Vec<u8> = Vec::new();
    for letter in text.bytes() {
        let digit = ALPHABET.iter().position(|known| *known == letter)?;
        let mut carry = u32::try_from(digit).ok()?;
        for byte in &mut bytes {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xff) as u8);
            carry >>= 8;
        }
    }
    let zeros = text.bytes().take_while(|letter| *letter == b'1').count();
    bytes.extend(std::iter::repeat_n(0, zeros));
    bytes.reverse();
    Some(bytes)
}
