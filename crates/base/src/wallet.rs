//! Wallet keys (secp256k1), the signatures they give, and the three things they sign: digests,
//! messages (EIP-191) and JSON objects. Typed data (EIP-712) is in [`eip712`].

use std::{fmt, str::FromStr};

use k256::ecdsa::{SigningKey, VerifyingKey};
use secp256k1::{
    Message,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::{
    hash::{Hash32, keccak256},
    id::AgentId,
    json::{self, CanonicalError},
    text,
};

pub mod eip712;
#[cfg(test)]
mod tests;

/// A wallet's private key. It is wiped when dropped and never printed.
#[derive(Clone)]
pub struct WalletKey {
    key: SigningKey,
    address: AgentId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a wallet key is a number from 1 up to the order of secp256k1")]
pub struct BadWalletKey;

impl WalletKey {
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, BadWalletKey> {
        let bytes = Zeroizing::new(bytes);
        let key = SigningKey::from_slice(bytes.as_slice()).map_err(|_| BadWalletKey)?;
        let address = address_of(key.verifying_key());
        Ok(WalletKey { key, address })
    }

    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_bytes().into())
    }

    pub fn address(&self) -> AgentId {
        self.address
    }

    /// Signs 32 bytes that are a hash already. The same digest always gives the same signature.
    pub fn sign_digest(&self, digest: &Hash32) -> WalletSignature {
        let (signature, recovery) = self.key.sign_prehash_recoverable(digest.as_bytes());
        let mut bytes = [0; 65];
        bytes[..64].copy_from_slice(&signature.to_bytes());
        bytes[64] = 27 + u8::from(recovery.is_y_odd());
        WalletSignature(bytes)
    }

    /// EIP-191, what wallets call `personal_sign`.
    pub fn sign_message(&self, message: &[u8]) -> WalletSignature {
        self.sign_digest(&message_digest(message))
    }

    /// Signs an object: EIP-191 over the 32 bytes of the Keccak-256 of its canonical JSON.
    pub fn sign_object<T: Serialize + ?Sized>(
        &self,
        object: &T,
    ) -> Result<WalletSignature, SignObjectError> {
        Ok(self.sign_message(object_hash(object)?.as_bytes()))
    }
}

impl fmt::Debug for WalletKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WalletKey(redacted)")
    }
}

fn address_of(key: &VerifyingKey) -> AgentId {
    address_at(key.to_sec1_point(false).as_bytes())
}

/// The address of a public key as an uncompressed point, whose first byte says that it is one.
fn address_at(point: &[u8]) -> AgentId {
    let hash = keccak256(&point[1..]);
    let mut address = [0; 20];
    address.copy_from_slice(&hash.as_bytes()[12..]);
    AgentId(address)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignObjectError {
    #[error("an object to be signed holds a float")]
    FloatInSignedObject,
    #[error("an object to be signed has no canonical JSON")]
    Canonical(#[source] CanonicalError),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoverObjectError {
    #[error(transparent)]
    Object(#[from] SignObjectError),
    #[error(transparent)]
    Signature(#[from] BadWalletSignature),
}

/// What [`WalletKey::sign_object`] signs: the Keccak-256 of the canonical JSON, floats refused.
pub fn object_hash<T: Serialize + ?Sized>(object: &T) -> Result<Hash32, SignObjectError> {
    match json::to_vec_without_floats(object) {
        Ok(bytes) => Ok(keccak256(&bytes)),
        Err(CanonicalError::FloatRefused) => Err(SignObjectError::FloatInSignedObject),
        Err(error) => Err(SignObjectError::Canonical(error)),
    }
}

/// The digest EIP-191 gives a message.
pub fn message_digest(message: &[u8]) -> Hash32 {
    let mut text = format!("\x19Ethereum Signed Message:\n{}", message.len()).into_bytes();
    text.extend_from_slice(message);
    keccak256(&text)
}

/// `r`, `s` and `v`, written as `0x` and 130 hex digits.
///
/// There is one form of each signature: `s` is in the lower half and `v` is 27 or 28. A `v` of 0 or
/// 1 is read as well, since some tools write it; an `s` in the upper half is not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalletSignature([u8; 65]);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadWalletSignature {
    #[error("a wallet signature is 0x and 130 hex digits")]
    Encoding,
    #[error("the last byte of a wallet signature is 0, 1, 27 or 28, not {v}")]
    RecoveryByte { v: u8 },
    #[error("r or s of the wallet signature is zero or too large")]
    OutOfRange,
    #[error("s of the wallet signature is in the upper half, which is a second form of it")]
    HighS,
    #[error("no key gives this wallet signature for this message")]
    NoSuchKey,
}

impl WalletSignature {
    pub fn from_bytes(mut bytes: [u8; 65]) -> Result<Self, BadWalletSignature> {
        bytes[64] = match bytes[64] {
            v @ (27 | 28) => v,
            v @ (0 | 1) => v + 27,
            v => return Err(BadWalletSignature::RecoveryByte { v }),
        };
        let signature = WalletSignature(bytes);
        let parts = signature.parts()?;
        if parts.normalize_s() != parts {
            return Err(BadWalletSignature::HighS);
        }
        Ok(signature)
    }

    pub const fn as_bytes(&self) -> &[u8; 65] {
        &self.0
    }

    fn parts(&self) -> Result<k256::ecdsa::Signature, BadWalletSignature> {
        k256::ecdsa::Signature::from_slice(&self.0[..64])
            .map_err(|_| BadWalletSignature::OutOfRange)
    }
}

impl fmt::Display for WalletSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_hex::<132>(f, "0x", &self.0)
    }
}

impl fmt::Debug for WalletSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WalletSignature({self})")
    }
}

impl FromStr for WalletSignature {
    type Err = BadWalletSignature;

    fn from_str(text: &str) -> Result<Self, BadWalletSignature> {
        let digits = text.strip_prefix("0x").ok_or(BadWalletSignature::Encoding)?;
        let mut bytes = [0; 65];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| BadWalletSignature::Encoding)?;
        Self::from_bytes(bytes)
    }
}

text::serde_as_text!(WalletSignature, "a wallet signature, 0x and 130 hex digits");

/// The wallet whose signature of this digest this is.
///
/// libsecp256k1 finds it in a third of the time that k256 takes; a node does little else as often.
pub fn recover_digest(
    digest: &Hash32,
    signature: &WalletSignature,
) -> Result<AgentId, BadWalletSignature> {
    let recovery = match signature.0[64] {
        28 => RecoveryId::One,
        _ => RecoveryId::Zero,
    };
    let parts = RecoverableSignature::from_compact(&signature.0[..64], recovery)
        .map_err(|_| BadWalletSignature::OutOfRange)?;
    let key = parts
        .recover(Message::from_digest(*digest.as_bytes()))
        .map_err(|_| BadWalletSignature::NoSuchKey)?;
    Ok(address_at(&key.serialize_uncompressed()))
}

/// The wallet whose EIP-191 signature of this message this is.
pub fn recover_message(
    message: &[u8],
    signature: &WalletSignature,
) -> Result<AgentId, BadWalletSignature> {
    recover_digest(&message_digest(message), signature)
}

/// The wallet that signed this object with [`WalletKey::sign_object`].
pub fn recover_object<T: Serialize + ?Sized>(
    object: &T,
    signature: &WalletSignature,
) -> Result<AgentId, RecoverObjectError> {
    let hash = object_hash(object)?;
    Ok(recover_message(hash.as_bytes(), signature)?)
}
