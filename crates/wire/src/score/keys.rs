//! 8.2: the keys of an issuer, as `/.well-known/swarmscore-keys` serves them.

use serde::{Deserialize, Serialize};
use skep_base::{Timestamp, ed25519::PublicKey};

/// The one algorithm whose keys can be public (decision 37).
pub const ALG_ED25519: &str = "Ed25519";

/// What a key signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum KeyPurpose {
    /// Publications, passports and credentials.
    #[default]
    Publication,
    /// Receipts of settlements.
    Settlement,
    /// Proofs of browser sessions.
    Gateway,
    /// Verdicts of the verifier that is built into the node.
    Verifier,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuerKey {
    pub kid: String,
    /// [`ALG_ED25519`]; others are not looked at.
    pub alg: String,
    /// Base64url; absent where it must not be public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub valid_from: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub valid_until: Timestamp,
    #[serde(default)]
    pub purpose: KeyPurpose,
}

impl IssuerKey {
    pub fn ed25519(
        kid: &str,
        key: &PublicKey,
        purpose: KeyPurpose,
        valid: (Timestamp, Timestamp),
    ) -> IssuerKey {
        IssuerKey {
            kid: kid.to_owned(),
            alg: ALG_ED25519.to_owned(),
            key: Some(key.to_string()),
            valid_from: valid.0,
            valid_until: valid.1,
            purpose,
        }
    }

    /// The key, if it is an Ed25519 key.
    pub fn public_key(&self) -> Option<PublicKey> {
        if self.alg != ALG_ED25519 {
            return None;
        }
        self.key.as_deref()?.parse().ok()
    }

    pub fn is_valid_at(&self, at: Timestamp) -> bool {
        self.valid_from <= at && at < self.valid_until
    }
}

/// `GET /.well-known/swarmscore-keys`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeySet {
    pub keys: Vec<IssuerKey>,
}

impl KeySet {
    /// The key with this name and purpose.
    pub fn find(&self, kid: &str, purpose: KeyPurpose) -> Option<&IssuerKey> {
        self.keys.iter().find(|key| key.kid == kid && key.purpose == purpose)
    }

    /// Whether the issuer calls this key its own, whatever it signs with it.
    pub fn names(&self, key: &PublicKey) -> bool {
        self.keys.iter().any(|entry| entry.public_key().as_ref() == Some(key))
    }

    /// Whether this is a key for the purpose, at that time.
    pub fn has(&self, key: &PublicKey, purpose: KeyPurpose, at: Timestamp) -> bool {
        self.keys.iter().any(|entry| {
            entry.purpose == purpose
                && entry.is_valid_at(at)
                && entry.public_key().as_ref() == Some(key)
        })
    }
}
