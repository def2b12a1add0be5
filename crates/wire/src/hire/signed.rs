//! Objects that a wallet signs (decision 3): canonical JSON without `signature`, Keccak-256,
//! EIP-191 over the 32 bytes. What was sent is what is checked, unknown fields too.

use serde::Serialize;
use serde_json::Value;
use skep_base::{
    AgentId, Hash32,
    wallet::{WalletKey, WalletSignature, object_hash, recover_message},
};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignedError {
    #[error("the object has no canonical form that can be signed: {0}")]
    NotSignable(String),
    #[error("the signature is missing")]
    Unsigned,
    #[error("the signature does not hold: {0}")]
    BadSignature(String),
    #[error("it is signed by {signer}, not by {expected}")]
    WrongSigner { signer: AgentId, expected: AgentId },
}

/// A message of SHP that a wallet signs.
pub trait WalletSigned: Serialize {
    /// Whose signature it must carry.
    fn signer(&self) -> AgentId;
    fn signature(&self) -> Option<WalletSignature>;
    fn set_signature(&mut self, signature: WalletSignature);

    /// What is signed: the message without its signature, free-form parts as their hash.
    fn statement(&self) -> Result<Value, SignedError> {
        statement_of(self)
    }

    /// The Keccak-256 of the statement: the message's name.
    fn digest(&self) -> Result<Hash32, SignedError> {
        object_hash(&self.statement()?).map_err(|e| SignedError::NotSignable(e.to_string()))
    }

    fn sign(&mut self, wallet: &WalletKey) -> Result<(), SignedError> {
        let digest = self.digest()?;
        self.set_signature(wallet.sign_message(digest.as_bytes()));
        Ok(())
    }

    /// Checks that its signer signed it. Gives its digest.
    fn check_signature(&self) -> Result<Hash32, SignedError> {
        let signature = self.signature().ok_or(SignedError::Unsigned)?;
        let digest = self.digest()?;
        let signer = recover_message(digest.as_bytes(), &signature)
            .map_err(|e| SignedError::BadSignature(e.to_string()))?;
        let expected = self.signer();
        match signer == expected {
            true => Ok(digest),
            false => Err(SignedError::WrongSigner { signer, expected }),
        }
    }
}

/// A message as JSON, without its signature.
pub fn statement_of<T: Serialize + ?Sized>(message: &T) -> Result<Value, SignedError> {
    let mut value =
        serde_json::to_value(message).map_err(|e| SignedError::NotSignable(e.to_string()))?;
    match value.as_object_mut() {
        Some(object) => drop(object.remove("signature")),
        None => return Err(SignedError::NotSignable("it is no object".to_owned())),
    }
    Ok(value)
}

/// Puts the SHA-256 of a free-form field's canonical form in its place, as `<field>_hash`.
pub(crate) fn hash_field(statement: &mut Value, field: &str) -> Result<(), SignedError> {
    let bad = |e: &dyn ToString| SignedError::NotSignable(e.to_string());
    let object = statement.as_object_mut().ok_or_else(|| bad(&"it is no object"))?;
    if let Some(value) = object.remove(field) {
        let hash = skep_base::hash::json_sha256(&value).map_err(|e| bad(&e))?;
        object.insert(format!("{field}_hash"), Value::String(hash.to_string()));
    }
    Ok(())
}

/// The three lines that every signed message needs.
macro_rules! wallet_signed {
    ($message:ty, $signer:ident) => {
        impl $crate::hire::WalletSigned for $message {
            fn signer(&self) -> skep_base::AgentId {
                self.$signer
            }

            fn signature(&self) -> Option<skep_base::wallet::WalletSignature> {
                self.signature
            }

            fn set_signature(&mut self, signature: skep_base::wallet::WalletSignature) {
                self.signature = Some(signature);
            }
        }
    };
    ($message:ty, $signer:ident, hashing $($field:literal),+) => {
        impl $crate::hire::WalletSigned for $message {
            fn signer(&self) -> skep_base::AgentId {
                self.$signer
            }

            fn signature(&self) -> Option<skep_base::wallet::WalletSignature> {
                self.signature
            }

            fn set_signature(&mut self, signature: skep_base::wallet::WalletSignature) {
                self.signature = Some(signature);
            }

            fn statement(&self) -> Result<serde_json::Value, $crate::hire::SignedError> {
                let mut statement = $crate::hire::signed::statement_of(self)?;
                $($crate::hire::signed::hash_field(&mut statement, $field)?;)+
                Ok(statement)
            }
        }
    };
}

pub(crate) use wallet_signed;
