//! Ed25519 keys and signatures, verified strictly and by one rule everywhere.
//!
//! Strict means: a point of small order or in a second spelling is no key, and a signature verifies
//! in one form only. Otherwise two nodes could disagree about the same message.

use std::{
    cell::RefCell,
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use zeroize::Zeroizing;

use crate::{
    hash::{Hash32, sha256},
    id::Did,
    text,
};

#[cfg(test)]
mod tests;

/// A signing key. It is wiped when dropped and never printed.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl SecretKey {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let seed = Zeroizing::new(seed);
        SecretKey(SigningKey::from_bytes(&seed))
    }

    pub fn seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(redacted)")
    }
}

/// A key to verify with, decompressed once; written as base64url without padding.
#[derive(Clone, Copy)]
pub struct PublicKey(VerifyingKey);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicKey {
    #[error("a public key is 32 bytes in base64url without padding")]
    Encoding,
    #[error("these bytes are not a point on the curve")]
    NotOnCurve,
    #[error("the point of this public key is not written in its canonical form")]
    NotCanonical,
    #[error("the point of this public key has small order")]
    SmallOrder,
}

/// Keys that each thread has seen lately. Reading a key costs about half as much as checking a
/// signature, and the same agents are read again and again.
const REMEMBERED_MAX: usize = 4096;

thread_local! {
    static REMEMBERED: RefCell<BTreeMap<[u8; 32], PublicKey>> = const {
        RefCell::new(BTreeMap::new())
    };
}

impl PublicKey {
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, BadPublicKey> {
        if let Some(known) = REMEMBERED.with_borrow(|known| known.get(&bytes).copied()) {
            return Ok(known);
        }
        let key = Self::read(bytes)?;
        REMEMBERED.with_borrow_mut(|known| {
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(bytes, key);
        });
        Ok(key)
    }

    fn read(bytes: [u8; 32]) -> Result<Self, BadPublicKey> {
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| BadPublicKey::NotOnCurve)?;
        if key.is_weak() {
            return Err(BadPublicKey::SmallOrder);
        }
        if key.to_edwards().compress().to_bytes() != bytes {
            return Err(BadPublicKey::NotCanonical);
        }
        Ok(PublicKey(key))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), BadSignature> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(message, &signature).map_err(|_| BadSignature)
    }

    /// SHA-256 of the raw 32 bytes.
    pub fn fingerprint(&self) -> Hash32 {
        sha256(self.as_bytes())
    }

    /// The DID of an agent whose first key this is.
    pub fn did(&self) -> Did {
        Did::of(self)
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for PublicKey {}

impl PartialOrd for PublicKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PublicKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for PublicKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        Self::from_bytes(from_base64url(text).ok_or(BadPublicKey::Encoding)?)
    }
}

text::serde_as_text!(PublicKey, "an Ed25519 public key in base64url without padding");

/// 64 bytes of signature, written as base64url without padding. Whether it is one, `verify` says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub [u8; 64]);

impl Signature {
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Signature(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

/// There is nothing to tell apart: a signature verifies or it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify with this key")]
pub struct BadSignature;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a signature is 64 bytes in base64url without padding")]
pub struct ParseSignatureError;

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({self})")
    }
}

impl FromStr for Signature {
    type Err = ParseSignatureError;

    fn from_str(text: &str) -> Result<Self, ParseSignatureError> {
        from_base64url(text).map(Signature).ok_or(ParseSignatureError)
    }
}

text::serde_as_text!(Signature, "an Ed25519 signature in base64url without padding");

fn from_base64url<const N: usize>(text: &str) -> Option<[u8; N]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}
