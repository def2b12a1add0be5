//! The keys that a node or an auditor has learnt.

use std::collections::BTreeMap;

use skep_base::{
    Did,
    ed25519::{PublicKey, Signature},
};

use super::{Check, OpenError};

/// Keys by the DIDs that they hash to.
#[derive(Clone, Debug, Default)]
pub struct KnownKeys(BTreeMap<Did, PublicKey>);

impl KnownKeys {
    pub fn learn(&mut self, key: PublicKey) {
        self.0.insert(key.did(), key);
    }

    pub fn get(&self, did: &Did) -> Option<&PublicKey> {
        self.0.get(did)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Did, &PublicKey)> {
        self.0.iter()
    }
}

impl Check for KnownKeys {
    fn check(
        &self,
        signer: &Did,
        own_key: Option<&PublicKey>,
        bytes: &[u8],
        signature: &Signature,
    ) -> Result<(), OpenError> {
        let own_key = own_key.filter(|key| key.did() == *signer);
        let key = self.0.get(signer).or(own_key).ok_or(OpenError::UnknownSigner(*signer))?;
        key.verify(bytes, signature).map_err(|_| OpenError::BadSignature)
    }
}
